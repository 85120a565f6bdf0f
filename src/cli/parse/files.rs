//! Sets the values of configuration files that no flag sets. The caller reads the files: [`Files`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::config_file::files::merged;
use super::super::exit::Exit;
use super::super::flags::{self, Flag, Verb};
use super::super::given::{Given, Origin, Parsed};
use super::{UsageError, usage};

/// Reads a configuration file.
pub type Reader<'a> = &'a dyn Fn(&Path) -> Result<Vec<u8>, String>;

/// The functions that find and read configuration files.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// Reads a file.
    pub read: Reader<'a>,
    /// Lists the files of a directory that count, in order.
    pub list: &'a dyn Fn(&Path) -> Result<Vec<PathBuf>, String>,
}

impl Files<'_> {
    /// The file and those of the directory, with their content. A file that is missing may be on a disk that is mounted
    /// later: another try is worth it.
    fn all(
        self,
        verb: Verb,
        file: Option<&Path>,
        dir: Option<&Path>,
    ) -> Result<Vec<(PathBuf, Vec<u8>)>, UsageError> {
        let unreadable = |what: &str, path: &Path, why: String| UsageError {
            message: format!("cannot read the configuration {what} {}: {why}", path.display()),
            verb: Some(verb),
            exit: Exit::Failure,
        };
        let mut paths: Vec<PathBuf> = file.map(Path::to_owned).into_iter().collect();
        if let Some(dir) = dir {
            paths.extend((self.list)(dir).map_err(|why| unreadable("directory", dir, why))?);
        }
        let read = |path: PathBuf| match (self.read)(&path) {
            Ok(bytes) => Ok((path, bytes)),
            Err(why) => Err(unreadable("file", &path, why)),
        };
        paths.into_iter().map(read).collect()
    }
}

/// Sets the values of the files of `--config` and `--config-dir` that no flag sets.
pub(super) fn apply_files(
    parsed: &mut Parsed,
    verb: Verb,
    given: &[(&'static Flag, OsString)],
    files: Files<'_>,
) -> Result<(), UsageError> {
    let last = |name: &str| given.iter().rev().find(|(flag, _)| flag.name == name);
    let path = |name: &str| last(name).map(|(_, path)| Path::new(path)).filter(|p| !p.as_os_str().is_empty());
    let (file, lines) = merged(&files.all(verb, path(flags::CONFIG), path(flags::CONFIG_DIR))?);
    let mut wrong = file.wrong;
    parsed.notes = file.notes.iter().map(|(at, note)| format!("{}: {note}", lines.place(*at))).collect();
    for setting in file.settings {
        let flag = setting.flag;
        // `check` judges as `run` would with this file.
        let ours = verb == Verb::Check || flags::knows(verb, flag);
        if !ours || given.iter().any(|(other, _)| other.name == flag.name) {
            continue;
        }
        for (at, text) in &setting.texts {
            let is_path = flag.is_path() && !text.is_empty();
            let text = if is_path { lines.beside(*at, text).into_os_string() } else { text.into() };
            if let Err(why) = flag.set(&mut parsed.options, &text) {
                wrong.push((*at, format!("{}: {why}", setting.field)));
            } else {
                parsed.given.push(Given::new(flag, &text, Origin::Line(lines.line(*at))));
            }
        }
    }
    crate::base::order::sort(&mut wrong);
    if wrong.is_empty() {
        return Ok(());
    }
    let told = wrong.iter().map(|(at, why)| format!("{}: {why}", lines.place(*at)));
    usage(verb, told.collect::<Vec<_>>().join("\n       "))
}
