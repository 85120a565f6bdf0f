//! Flags: directories and configuration files.

use std::path::{Component, Path as StdPath, PathBuf};

use super::Takes::{Path, PathOrNone};
use super::{Flag, RUN, Section, Verb, of_verbs};

/// The flag that names the configuration file.
pub const CONFIG: &str = "config";
/// The flag that names the directory of further configuration files.
pub const CONFIG_DIR: &str = "config-dir";
/// Default of `--root-dir`.
pub const ROOT_DIR: &str = "/var/lib/podkeeper";

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub config: Option<PathBuf>,
    pub config_dir: Option<PathBuf>,
    pub root: PathBuf,
    pub run: PathBuf,
    pub pod_logs: PathBuf,
}

impl Values {
    /// Whether any configuration file is read.
    #[must_use]
    pub fn has_files(&self) -> bool {
        self.config.is_some() || self.config_dir.is_some()
    }
}

/// Flags of the commands that know a flag with a field in the file.
const CONFIGURED: Flag = of_verbs(&[
    Verb::Run,
    Verb::Check,
    Verb::Forget,
    Verb::Drain,
    Verb::Resume,
    Verb::Get,
    Verb::Describe,
    Verb::Top,
    Verb::Stats,
    Verb::Logs,
    Verb::Restart,
    Verb::Attach,
    Verb::Exec,
    Verb::Cp,
    Verb::PortForward,
    Verb::Debug,
    Verb::Pull,
    Verb::Load,
    Verb::Images,
    Verb::Prune,
    Verb::Kubeconfig,
    Verb::Page,
]);
const REMEMBERING: Flag =
    of_verbs(&[Verb::Run, Verb::Forget, Verb::Drain, Verb::Resume, Verb::Pull, Verb::Kubeconfig, Verb::Page]);
const BESIDE_A_DAEMON: Flag = of_verbs(&[
    Verb::Run,
    Verb::Forget,
    Verb::Drain,
    Verb::Resume,
    Verb::Get,
    Verb::Describe,
    Verb::Top,
    Verb::Stats,
    Verb::Logs,
    Verb::Restart,
    Verb::Attach,
    Verb::Exec,
    Verb::Cp,
    Verb::PortForward,
    Verb::Debug,
    Verb::Images,
    Verb::Prune,
    Verb::Kubeconfig,
    Verb::Page,
]);

pub static SECTION: Section = Section {
    title: "Directories",
    flags: &[
        Flag { name: CONFIG, takes: Path("FILE", |o, path| o.directories.config = Some(path)), ..CONFIGURED },
        Flag {
            name: CONFIG_DIR,
            takes: PathOrNone("DIR", |o, path| o.directories.config_dir = path),
            ..CONFIGURED
        },
        Flag {
            name: "root-dir",
            takes: Path("DIR", |o, path| o.directories.root = path),
            default: ROOT_DIR,
            ..REMEMBERING
        },
        Flag {
            name: "run-dir",
            takes: Path("DIR", |o, path| o.directories.run = path),
            default: "/run/podkeeper",
            ..BESIDE_A_DAEMON
        },
        Flag {
            name: "pod-logs-dir",
            takes: PathOrNone("DIR", |o, path| o.directories.pod_logs = path.unwrap_or_default()),
            default: "/var/log/pods",
            rule: |o| {
                let dir = &o.directories.pod_logs;
                wrong_log_dir(dir).map(|why| format!("{dir:?} {why}"))
            },
            ..RUN
        },
    ],
};

/// The error of the kubelet's validation of a directory for pod logs.
fn wrong_log_dir(dir: &StdPath) -> Option<&'static str> {
    let text = dir.to_string_lossy();
    let normal: PathBuf = dir.components().collect();
    let up = dir.components().any(|c| matches!(c, Component::ParentDir));
    if text.is_empty() {
        Some("was not specified")
    } else if !text.is_ascii() {
        Some("must contain only ASCII characters")
    } else if !dir.is_absolute() {
        Some("must be absolute path")
    } else if up || normal.as_os_str() != dir.as_os_str() {
        Some("must be normalized")
    } else if dir.file_name().is_none() {
        Some("must not be the root directory")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                (CONFIG, "/c", |o| o.directories.config == Some("/c".into())),
                (CONFIG_DIR, "/d", |o| o.directories.config_dir == Some("/d".into())),
                ("root-dir", "/r", |o| o.directories.root == StdPath::new("/r")),
                ("run-dir", "/r", |o| o.directories.run == StdPath::new("/r")),
                ("pod-logs-dir", "/r", |o| o.directories.pod_logs == StdPath::new("/r")),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(&SECTION, &[]);
    }

    #[test]
    fn a_directory_of_pod_logs_is_one_as_the_kubelet_wants_it() {
        assert_eq!(wrong_log_dir(StdPath::new("/var/log/pods")), None);
        for (dir, part) in [
            ("", "not specified"),
            ("/lögs", "ASCII"),
            ("logs", "absolute"),
            ("/a/../b", "normalized"),
            ("/a/", "normalized"),
            ("/", "root directory"),
        ] {
            assert!(wrong_log_dir(StdPath::new(dir)).is_some_and(|why| why.contains(part)), "{dir:?}");
        }
    }
}
