//! `config`: prints the values that these flags and this file put in force, and the origin of each. Pure but for the
//! printing.

use super::exit::Exit;
use super::flags::{self, Verb};
use super::given::Parsed;
use super::rules::notes;
use super::show::table::List;
use super::{print, say};

/// The kubelet's thresholds, as a flag has them.
const EVICTION_HARD: &str = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,\
                             imagefs.inodesFree<5%";

/// Prints all values.
pub fn run(parsed: &Parsed) -> Exit {
    notes(parsed).for_each(|note| say(&note));
    print(&text(parsed))
}

fn text(parsed: &Parsed) -> String {
    let mut rows = Vec::new();
    for flag in flags::of(Verb::Run) {
        let name = if flag.name.len() == 1 { format!("-{}", flag.name) } else { format!("--{}", flag.name) };
        let given: Vec<_> = parsed.in_force(flag).collect();
        for one in &given {
            rows.push(vec![name.clone(), shown(one.value.text()), one.from.to_string()]);
        }
        let default = Some(flag.default).filter(|default| !default.is_empty());
        if given.is_empty()
            && let Some(default) = default.or_else(|| of_others(flag.name, parsed))
        {
            rows.push(vec![name, default.to_owned(), "default".to_owned()]);
        }
    }
    let headings = ["FLAG", "VALUE", "FROM"].map(str::to_owned).to_vec();
    List::default().render(Some(headings), rows)
}

/// The default of a flag that has several values, or depends on another flag.
fn of_others(name: &str, parsed: &Parsed) -> Option<&'static str> {
    let last = |name: &str| {
        let flag = flags::of(Verb::Run).find(|flag| flag.name == name)?;
        parsed.in_force(flag).last().map(|given| given.value.text().to_owned())
    };
    match name {
        "eviction-hard" => Some(EVICTION_HARD),
        "enforce-node-allocatable" => Some("pods"),
        "serialize-image-pulls" => {
            Some("true").filter(|_| last("max-parallel-image-pulls").is_none_or(|most| most == "1"))
        }
        "max-parallel-image-pulls" => {
            Some("16").filter(|_| last("serialize-image-pulls").as_deref() == Some("false"))
        }
        _ => None,
    }
}

/// The value as one word on one line.
fn shown(value: &str) -> String {
    if value.is_empty() || value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        format!("{value:?}")
    } else {
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::parse::{Command, parse};

    #[test]
    fn each_value_tells_where_it_comes_from() {
        let file = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\nstaticPodPath: manifests\n\
                    maxPods: 5\nresolvConf: ''\ndevices:\n  a: /dev/null\n  b: /dev/zero\n\
                    staticPodURL: https://example.com/?token=secret\n";
        let line = "config --config /etc/podkeeper/config.yaml --max-pods 6 --max-pods 7 --node-labels a=b \
                    --node-labels c=d";
        let command = parse(line.split(' ').map(OsString::from), &|_| Ok(file.as_bytes().to_vec()));
        let Ok(Command::Config(parsed)) = command else { panic!("{command:?}") };
        let text = text(&parsed);
        assert!(!text.contains("secret"), "{text}");
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.iter().filter(|row| row.first() == Some(&"--max-pods")).count(), 1, "{text}");
        for expected in [
            ["FLAG", "VALUE", "FROM"],
            ["--pod-manifest-path", "/etc/podkeeper/manifests", "/etc/podkeeper/config.yaml:3"],
            ["--max-pods", "7", "flag"],
            ["--node-labels", "a=b", "flag"],
            ["--node-labels", "c=d", "flag"],
            ["--resolv-conf", "\"\"", "/etc/podkeeper/config.yaml:5"],
            ["--device", "b=/dev/zero", "/etc/podkeeper/config.yaml:8"],
            ["--manifest-url", "...", "/etc/podkeeper/config.yaml:9"],
            ["--config", "/etc/podkeeper/config.yaml", "flag"],
            ["--port", "0", "default"],
            ["--eviction-hard", EVICTION_HARD, "default"],
            ["--enforce-node-allocatable", "pods", "default"],
            ["--serialize-image-pulls", "true", "default"],
        ] {
            assert!(rows.contains(&expected.to_vec()), "{expected:?}:\n{text}");
        }
        assert!(!text.contains("--max-parallel-image-pulls"), "{text}");
    }

    #[test]
    fn a_default_that_depends_on_another_flag_is_the_one_in_force() {
        let text = |line: &str| {
            let words = line.split(' ').map(OsString::from);
            let Ok(Command::Config(parsed)) = parse(words, &|_| Ok(Vec::new())) else { panic!("{line}") };
            text(&parsed)
        };
        let one_by_one = text("config --pod-manifest-path /m --serialize-image-pulls=false");
        assert!(
            one_by_one.lines().any(|it| it.starts_with("--max-parallel-image-pulls") && it.contains("16"))
        );
        let several = text("config --pod-manifest-path /m --max-parallel-image-pulls 3");
        assert!(!several.contains("--serialize-image-pulls"), "{several}");
        let mut hard = Default::default();
        crate::eviction::threshold::thresholds(EVICTION_HARD, &mut hard).unwrap();
        let given = crate::eviction::threshold::Options { hard: Some(hard), ..Default::default() };
        let none = crate::eviction::threshold::Options::default();
        assert_eq!(format!("{:?}", given.settings()), format!("{:?}", none.settings()));
    }
}
