//! Events of the node about settings that were read again.

use super::{Words, normal, warning};

/// Settings were read again, with the flags that changed.
#[must_use]
pub fn reloaded(flags: &[&str]) -> Words {
    normal("ConfigurationReloaded", format!("in force from now on: {}", dashed(flags)))
}

/// Settings were read again that cannot change while the daemon runs.
#[must_use]
pub fn reload_needs_restart(flags: &[&str]) -> Words {
    let message = format!("in force only when podkeeper is started anew: {}", dashed(flags));
    warning("ConfigurationNeedsRestart".to_owned(), message)
}

/// Settings were read again and are invalid.
#[must_use]
pub fn reload_refused(why: &str) -> Words {
    let why = why.lines().map(str::trim).collect::<Vec<_>>().join("; ");
    warning("ConfigurationRefused".to_owned(), format!("everything stays as it is: {why}"))
}

fn dashed(flags: &[&str]) -> String {
    let one = |flag: &&str| if flag.len() == 1 { format!("-{flag}") } else { format!("--{flag}") };
    flags.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Weight;

    #[test]
    fn what_changed_is_named_by_its_flags() {
        let check = |words: Words, weight: Weight, reason: &str, message: &str| {
            assert_eq!((words.weight, &*words.reason, &*words.message), (weight, reason, message));
            let page = include_str!("../../../man/podkeeper.8");
            assert!(page.contains(reason), "{reason} is not in the man page");
        };
        let now = "in force from now on: --max-pods, -v";
        check(reloaded(&["max-pods", "v"]), Weight::Normal, "ConfigurationReloaded", now);
        let later = "in force only when podkeeper is started anew: --root-dir";
        check(reload_needs_restart(&["root-dir"]), Weight::Warning, "ConfigurationNeedsRestart", later);
        let refused = "everything stays as it is: c:3:1: x; c:4:1: y";
        check(reload_refused("c:3:1: x\n       c:4:1: y"), Weight::Warning, "ConfigurationRefused", refused);
    }
}
