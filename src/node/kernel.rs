//! Kernel settings that a node of pods relies on (upstream `pkg/kubelet/cm/container_manager_linux.go`,
//! `setupKernelTunables`): they are compared at the start, and set if they differ.
//!
//! Never here: a setting of one pod, which is in `sysctl`.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The directory of the kernel's settings.
pub const SETTINGS: &str = "/proc/sys";

/// Each setting, with its expected value.
const EXPECTED: [(&str, i64); 6] = [
    // Memory is overcommitted: the OOM killer decides, by the pods' scores.
    ("vm/overcommit_memory", 1),
    // A lack of memory kills a process, not the node.
    ("vm/panic_on_oom", 0),
    ("kernel/panic", 10),
    ("kernel/panic_on_oops", 1),
    // Each container uses a key ring of root.
    ("kernel/keys/root_maxkeys", 1_000_000),
    ("kernel/keys/root_maxbytes", 25_000_000),
];

/// Compares the settings below `place`, and sets those that differ; with `protect` none is set. A setting that cannot
/// be read or set is logged, and stays.
///
/// # Errors
/// With `protect`, in the kubelet's words: every setting that differs.
pub fn set_up(place: &Path, protect: bool) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, expected) in EXPECTED {
        let file: PathBuf = place.join(name);
        let actual = match read(&file) {
            Ok(actual) => actual,
            // A kernel without key rings has no such setting.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                log::warn!("{} cannot be read: {error}; it is expected to be {expected}", file.display());
                continue;
            }
        };
        if actual == expected {
            continue;
        }
        if protect {
            wrong.push(format!(
                "invalid kernel flag: {name}, expected value: {expected}, actual value: {actual}"
            ));
            continue;
        }
        match fs::write(&file, expected.to_string()) {
            Ok(()) => log::info!("{} is {expected} now; it was {actual}", file.display()),
            Err(error) => log::warn!("{} stays {actual} and should be {expected}: {error}", file.display()),
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("[{}]", wrong.join(", "))) }
}

fn read(file: &Path) -> io::Result<i64> {
    let text = fs::read_to_string(file)?;
    text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(name: &str) -> PathBuf {
        let place = crate::base::testing::scratch(name);
        for (name, expected) in EXPECTED {
            let file = place.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{expected}\n")).unwrap();
        }
        place
    }

    #[test]
    fn what_differs_is_set_and_the_rest_is_left() {
        let place = settings("kernel-set");
        fs::write(place.join("kernel/panic"), "0\n").unwrap();
        fs::remove_file(place.join("kernel/keys/root_maxkeys")).unwrap();
        fs::write(place.join("vm/panic_on_oom"), "garbage").unwrap();
        assert_eq!(set_up(&place, false), Ok(()));
        assert_eq!(read(&place.join("kernel/panic")).unwrap(), 10);
        assert!(!place.join("kernel/keys/root_maxkeys").exists(), "this kernel has none");
        assert_eq!(fs::read_to_string(place.join("vm/panic_on_oom")).unwrap(), "garbage");
        assert_eq!(fs::read_to_string(place.join("vm/overcommit_memory")).unwrap(), "1\n", "not written");
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn what_cannot_be_written_stays() {
        let place = settings("kernel-read-only");
        let file = place.join("kernel/panic");
        fs::remove_file(&file).unwrap();
        // A kernel file that cannot be written.
        std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &file).unwrap();
        assert_eq!(set_up(&place, false), Ok(()));
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn protected_settings_are_told_in_the_kubelets_words_and_not_set() {
        let place = settings("kernel-protected");
        assert_eq!(set_up(&place, true), Ok(()));
        for name in ["vm/overcommit_memory", "kernel/panic"] {
            fs::write(place.join(name), "0").unwrap();
        }
        let words = "[invalid kernel flag: vm/overcommit_memory, expected value: 1, actual value: 0, \
                     invalid kernel flag: kernel/panic, expected value: 10, actual value: 0]";
        assert_eq!(set_up(&place, true), Err(words.to_owned()));
        assert_eq!(read(&place.join("kernel/panic")).unwrap(), 0);
        fs::remove_dir_all(&place).unwrap();
    }
}
