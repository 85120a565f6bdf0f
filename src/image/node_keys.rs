//! The node's own credentials: Docker's configuration files in the kubelet's locations
//! (`pkg/credentialprovider`). A file is read again when it has changed, and its errors are logged once.
//!
//! Unlike with the kubelet, the working directory is not one of them: a file there may belong to any user.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::credentials::{DockerConfig, Format};
use crate::base::limits;
use crate::base::regular;

/// The node's credentials. Cheap while no file changes: one `stat` for each location.
#[derive(Debug)]
pub struct NodeKeys {
    places: Vec<(PathBuf, Format)>,
    read: Mutex<Vec<Option<Reading>>>,
}

/// Result of reading one file.
#[derive(Debug)]
struct Reading {
    identity: Identity,
    config: Option<Arc<DockerConfig>>,
}

/// A file with the same identity has not changed.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Identity {
    inode: u64,
    size: u64,
    mtime: (i64, i64),
    mode: u32,
}

impl Identity {
    fn of(meta: &fs::Metadata) -> Identity {
        let (inode, size, mode) = (meta.ino(), meta.size(), meta.mode());
        Identity { inode, size, mtime: (meta.mtime(), meta.mtime_nsec()), mode }
    }
}

impl NodeKeys {
    /// The kubelet's locations: `config.json` in the root directory, `$HOME/.docker` and `/.docker`; then
    /// `.dockercfg` in the root directory, `$HOME` and `/`.
    #[must_use]
    pub fn new(root_dir: &Path, home: Option<&Path>) -> NodeKeys {
        let home = home.filter(|home| home.is_absolute());
        let json = [Some(root_dir.to_owned()), home.map(|h| h.join(".docker")), Some("/.docker".into())];
        let old = [Some(root_dir.to_owned()), home.map(Path::to_owned), Some("/".into())];
        let mut places: Vec<(PathBuf, Format)> = Vec::new();
        let json = json.into_iter().flatten().map(|dir| (dir.join("config.json"), Format::ConfigJson));
        let old = old.into_iter().flatten().map(|dir| (dir.join(".dockercfg"), Format::DockerCfg));
        for place in json.chain(old) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let read = Mutex::new(places.iter().map(|_| None).collect());
        NodeKeys { places, read }
    }

    /// Uses the home directory of this process.
    #[must_use]
    pub fn of_process(root_dir: &Path) -> NodeKeys {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        NodeKeys::new(root_dir, home.as_deref())
    }

    /// The credentials in force: as with the kubelet, those of the first file that can be read and parsed.
    /// `warn` gets the errors of a file, once for each of its versions.
    pub fn current(&self, warn: &mut dyn FnMut(String)) -> Option<Arc<DockerConfig>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        for ((path, format), before) in self.places.iter().zip(read.iter_mut()) {
            let Ok(meta) = fs::metadata(path) else {
                *before = None;
                continue;
            };
            let identity = Identity::of(&meta);
            if before.as_ref().is_none_or(|b| b.identity != identity) {
                let config = open(path, *format, &meta, warn).map(Arc::new);
                *before = Some(Reading { identity, config });
            }
            if let Some(config) = before.as_ref().and_then(|b| b.config.clone()) {
                return Some(config);
            }
        }
        None
    }
}

fn open(
    path: &Path,
    format: Format,
    meta: &fs::Metadata,
    warn: &mut dyn FnMut(String),
) -> Option<DockerConfig> {
    let shown = path.display();
    if !meta.is_file() {
        warn(format!("{shown} is not a file: no credentials are taken from it"));
        return None;
    }
    if meta.mode() & 0o004 != 0 {
        warn(format!("{shown} holds credentials and everybody may read it: chmod 600 {shown}"));
    }
    let parsed = match regular::read(path, limits::CREDENTIALS_BYTES) {
        Err(error) => Err(error.to_string()),
        Ok(bytes) => DockerConfig::parse(&bytes, format),
    };
    match parsed {
        Ok(config) => {
            for warning in &config.warnings {
                warn(format!("{shown}: {warning}"));
            }
            Some(config)
        }
        Err(why) => {
            warn(format!("{shown}: {why}; no credentials are taken from it"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::credentials::lookup;
    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let beside = path.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(mode)).unwrap();
        fs::rename(beside, path).unwrap();
    }

    #[test]
    fn the_first_file_that_can_be_understood_counts_and_changes_are_seen() {
        let base = crate::base::testing::scratch("node-keys");
        let (root, home) = (base.join("root"), base.join("home"));
        fs::create_dir_all(&root).unwrap();
        let keys = NodeKeys::new(&root, Some(&home));
        // The number of credentials for r.io, and the number of warnings.
        let look = || {
            let mut warnings = Vec::new();
            let config = keys.current(&mut |w| warnings.push(w));
            (config.map(|c| lookup("r.io/a", [&*c]).len()), warnings)
        };
        if Path::new("/.docker/config.json").exists() || Path::new("/.dockercfg").exists() {
            return;
        }
        assert_eq!(look(), (None, vec![]));
        write(&home.join(".dockercfg"), r#"{"r.io": {"username": "u"}}"#, 0o600);
        assert_eq!(look(), (Some(1), vec![]));
        write(&home.join(".docker/config.json"), r#"{"auths": {"x.io": {"username": "u"}}}"#, 0o600);
        assert_eq!(look(), (Some(0), vec![]), "config.json comes before .dockercfg");
        write(&root.join("config.json"), "{\"auths\": ", 0o600);
        let (config, warnings) = look();
        assert_eq!(config, Some(0), "a damaged file does not hide the next one");
        assert!(warnings[0].contains("not JSON") && warnings.len() == 1, "{warnings:?}");
        assert_eq!(look().1, Vec::<String>::new(), "told once");
        write(
            &root.join("config.json"),
            r#"{"auths": {"r.io": {"auth": "dTpw"}}, "credsStore": "x"}"#,
            0o644,
        );
        let (config, warnings) = look();
        assert_eq!(config, Some(1));
        assert!(warnings[0].contains("everybody may read it"), "{warnings:?}");
        assert!(warnings[1].contains("credsStore is not supported"), "{warnings:?}");
        fs::remove_file(root.join("config.json")).unwrap();
        fs::create_dir(root.join("config.json")).unwrap();
        assert!(look().1[0].contains("is not a file"));
        fs::remove_dir_all(base).unwrap();
    }
}
