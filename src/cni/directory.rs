//! The directories of network configurations and of plugins. Both are read again whenever a pod is attached,
//! because an installer may have changed them (Mirantis/cri-dockerd's `network/cni/cni.go`,
//! `getDefaultCNINetwork`).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::answer;
use super::call::{Command, INPUT_OF_VERSION, environment};
use super::conf::{self, List};
use super::run::{Allowed, run};
use crate::base::{limits, order, regular};
use crate::network::Cni;

/// The network in force, and the bytes that it was read from.
#[derive(Debug)]
pub struct Network {
    pub list: List,
    /// Name and content of its file.
    file: (String, Vec<u8>),
    /// Its plugins' files when they reported their versions.
    programs: Vec<Stamp>,
}

impl Network {
    /// Name of its file.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file.0
    }
}

/// Attributes of a program's file, at least one of which changes with the file.
type Stamp = (PathBuf, u64, u64, Option<std::time::SystemTime>);

/// Why there is no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoNetwork(pub String);

/// The first valid network of the directory; `known` if it is unchanged.
///
/// # Errors
/// There is no valid network, and why.
pub fn look(dirs: &Cni, known: Option<&Arc<Network>>) -> Result<Arc<Network>, NoNetwork> {
    let dir = dirs.conf_dir.display();
    let names = match names(&dirs.conf_dir) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(NoNetwork(format!("{dir}: {error}"))),
    };
    if names.is_empty() {
        return Err(NoNetwork(format!("no networks found in {dir}")));
    }
    let mut wrong = Vec::new();
    for name in names {
        match of_file(dirs, &name, known) {
            Ok(network) => return Ok(network),
            Err(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    Err(NoNetwork(format!("no valid networks found in {dir}: {}", wrong.join("; "))))
}

/// Names of configurations, in the order of their bytes.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    const ENDS: [&str; 3] = [".conf", ".conflist", ".json"];
    let names = std::fs::read_dir(dir)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| ENDS.iter().any(|end| name.ends_with(end))).collect();
    order::sort(&mut names);
    names.truncate(limits::CNI_FILES);
    Ok(names)
}

fn of_file(dirs: &Cni, name: &str, known: Option<&Arc<Network>>) -> Result<Arc<Network>, String> {
    let bytes =
        regular::read(&dirs.conf_dir.join(name), limits::CNI_CONF).map_err(|error| error.to_string())?;
    let file = (name.to_owned(), bytes);
    let same = known.filter(|known| known.file == file);
    if let Some(known) = same
        && stamps(dirs, &known.list).is_ok_and(|now| now == known.programs)
    {
        return Ok(Arc::clone(known));
    }
    let list = conf::parse(&file.1, name.ends_with(".conflist"))?;
    let programs = stamps(dirs, &list)?;
    for (path, ..) in &programs {
        check_version(dirs, path, &list)?;
    }
    Ok(Arc::new(Network { list, file, programs }))
}

fn stamps(dirs: &Cni, list: &List) -> Result<Vec<Stamp>, String> {
    let mut stamps: Vec<Stamp> = Vec::new();
    for plugin in &list.plugins {
        let path = program(dirs, &plugin.kind)?;
        if stamps.iter().any(|(known, ..)| *known == path) {
            continue;
        }
        let meta = std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let inode = std::os::unix::fs::MetadataExt::ino(&meta);
        stamps.push((path, meta.len(), inode, meta.modified().ok()));
    }
    Ok(stamps)
}

/// The program of a plugin, from the first directory that contains it.
///
/// # Errors
/// No directory contains it.
pub fn program(dirs: &Cni, kind: &str) -> Result<PathBuf, String> {
    let mut places = dirs.bin_dirs.iter().map(|dir| dir.join(kind));
    places
        .find(|path| path.is_file())
        .ok_or_else(|| format!("failed to find plugin {kind:?} in path {}", bin_path(dirs)))
}

/// The plugin directories in the form for plugins.
#[must_use]
pub fn bin_path(dirs: &Cni) -> String {
    let words: Vec<String> = dirs.bin_dirs.iter().map(|dir| dir.display().to_string()).collect();
    words.join(":")
}

fn check_version(dirs: &Cni, program: &Path, list: &List) -> Result<(), String> {
    static NEVER: AtomicBool = AtomicBool::new(false);
    let variables = environment(Command::Version, None, &[], &bin_path(dirs));
    let allowed = Allowed::of(limits::CNI_VERSION, &NEVER);
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let tells = |why: String| format!("plugin {name} does not tell its versions: {why}");
    let ended = run(program, &variables, INPUT_OF_VERSION, allowed).map_err(tells)?;
    if !ended.is_success {
        return Err(tells(answer::failure(&ended.stdout, &ended.stderr, &ended.status).text));
    }
    let versions = answer::versions(&ended.stdout).map_err(tells)?;
    if versions.iter().any(|version| version == list.version) {
        return Ok(());
    }
    Err(format!("plugin {name} does not support config version {:?}", list.version))
}
