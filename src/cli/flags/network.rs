//! Flags: network plugins.

use std::path::PathBuf;

use super::Takes::{List, Path, Text};
use super::{Flag, RUN, Section, put, value};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// CNI plugins attach pods.
    pub is_cni: bool,
    pub cni_conf_dir: PathBuf,
    pub cni_bin_dirs: Vec<PathBuf>,
    pub cni_cache_dir: PathBuf,
}

pub static SECTION: Section = Section {
    title: "Network plugins",
    flags: &[
        Flag {
            name: "network-plugin",
            takes: Text("NAME", |o, text| put(&mut o.network.is_cni, is_cni(text))),
            ..RUN
        },
        Flag {
            name: "cni-conf-dir",
            takes: Path("DIR", |o, path| o.network.cni_conf_dir = path),
            default: "/etc/cni/net.d",
            ..RUN
        },
        Flag {
            name: "cni-bin-dir",
            takes: List("DIR,...", |o, text| put(&mut o.network.cni_bin_dirs, directories(text))),
            default: "/opt/cni/bin",
            ..RUN
        },
        Flag {
            name: "cni-cache-dir",
            takes: Path("DIR", |o, path| o.network.cni_cache_dir = path),
            default: "/var/lib/cni/cache",
            ..RUN
        },
    ],
};

/// `no-op` is the Docker shim's other word for none.
fn is_cni(text: &str) -> Result<bool, String> {
    match text {
        "cni" => Ok(true),
        "" | "no-op" => Ok(false),
        other => Err(format!("network plugin {other:?} not found: cni, or empty for Docker's networks")),
    }
}

fn directories(text: &str) -> Result<Vec<PathBuf>, String> {
    let all: Vec<PathBuf> = value::words(text).map(PathBuf::from).collect();
    match all.iter().find(|dir| !dir.is_absolute() || dir.to_string_lossy().contains(':')) {
        Some(dir) => Err(format!("{}: an absolute path without ':' is needed", dir.display())),
        None if all.is_empty() => Err("must not be empty".to_owned()),
        None => Ok(all),
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
                ("network-plugin", "cni", |o| o.network.is_cni),
                ("cni-conf-dir", "/c", |o| o.network.cni_conf_dir == *"/c"),
                ("cni-bin-dir", "/a, /b", |o| o.network.cni_bin_dirs == [PathBuf::from("/a"), "/b".into()]),
                ("cni-cache-dir", "/d", |o| o.network.cni_cache_dir == *"/d"),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[("network-plugin", ["cni", "no-op"], &["kubenet"]), ("cni-bin-dir", ["/a", "/b"], &["", "a"])],
        );
    }

    #[test]
    fn plugins_and_their_directories() {
        assert_eq!((is_cni(""), is_cni("no-op")), (Ok(false), Ok(false)));
        assert!(is_cni("kubenet").unwrap_err().contains("network plugin \"kubenet\" not found"));
        assert_eq!(directories("").unwrap_err(), "must not be empty");
        assert!(directories("/a,b").is_err() && directories("/a:/b").is_err());
    }
}
