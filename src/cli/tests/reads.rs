//! Tests that no command reads a flag that it does not know: the value would always be the default, whatever the user
//! gives, without any error. And tests that a flag's name is in its entry alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::base::table::Set;
use crate::cli::flags::{self, CONFIG, CONFIG_DIR, Verb};

/// The commands that look at pods.
const PODS: &[Verb] = &[
    Verb::Get,
    Verb::Describe,
    Verb::Top,
    Verb::Logs,
    Verb::Restart,
    Verb::Attach,
    Verb::Exec,
    Verb::Cp,
    Verb::PortForward,
    Verb::Debug,
];

/// The commands that use each file which reads values of flags. A file of several commands may read a flag of any of
/// them.
const FILES: &[(&str, &[Verb])] = &[
    ("check.rs", &[Verb::Check]),
    ("docker/attach.rs", &[Verb::Attach]),
    ("docker/cp.rs", &[Verb::Cp]),
    ("docker/debug.rs", &[Verb::Debug]),
    ("docker/exec.rs", &[Verb::Exec]),
    ("docker/garbage.rs", &[Verb::Images, Verb::Prune, Verb::Get]),
    ("docker/images.rs", &[Verb::Images, Verb::Get]),
    ("docker/load.rs", &[Verb::Load]),
    ("docker/logs.rs", &[Verb::Logs]),
    ("docker/port_forward.rs", &[Verb::PortForward]),
    ("docker/prune.rs", &[Verb::Prune]),
    ("docker/pull.rs", &[Verb::Pull]),
    ("docker/restart.rs", &[Verb::Restart]),
    ("docker/stats.rs", &[Verb::Stats]),
    ("docker/target.rs", &[Verb::Logs, Verb::Attach, Verb::Exec, Verb::Cp]),
    ("drain.rs", &[Verb::Drain, Verb::Resume]),
    ("forget.rs", &[Verb::Forget]),
    ("hollow.rs", &[Verb::Hollow]),
    ("join.rs", &[Verb::Join]),
    ("kubeconfig.rs", &[Verb::Kubeconfig]),
    ("page.rs", &[Verb::Page]),
    ("pods.rs", PODS),
    ("pods/missing.rs", PODS),
    ("show/describe.rs", &[Verb::Describe]),
    ("show/events.rs", &[Verb::Get]),
    ("show/explain.rs", &[Verb::Explain]),
    ("show/get.rs", &[Verb::Get]),
    ("show/node/describe.rs", &[Verb::Describe]),
    ("show/node/mod.rs", &[Verb::Get]),
    ("show/objects.rs", &[Verb::Get]),
    ("show/sources.rs", &[Verb::Get]),
    ("show/top.rs", &[Verb::Top]),
    ("show/watch.rs", &[Verb::Get]),
];

/// Files that make or compare the values of all flags, and the daemon's.
const OF_ALL: &[&str] =
    &["flags/", "parse", "tests", "rules.rs", "run.rs", "config", "reload.rs", "given.rs"];

fn is_name(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'
}

/// `a.b.c` of each `WORD.a.b.c` in a text, without the method at its end; at least two names.
fn paths_behind(word: &str, text: &str) -> Set<String> {
    let mut found = Set::new();
    for (at, _) in text.match_indices(&format!("{word}.")) {
        if text[..at].ends_with(|c: char| is_name(c) || c == '.') && !text[..at].ends_with("self.") {
            continue;
        }
        let rest = &text[at + word.len() + 1..];
        let path: String = rest.chars().take_while(|c| is_name(*c) || *c == '.').collect();
        let is_method = rest[path.len()..].starts_with(['(', ':']);
        let mut names: Vec<&str> = path.split('.').filter(|name| !name.is_empty()).collect();
        if is_method {
            names.pop();
        }
        if names.len() > 1 {
            found.insert(names.join("."));
        }
    }
    found
}

/// The values that a file reads: `options.a.b`, also through another name for `options.a`.
fn reads(text: &str) -> Set<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    // A path may continue on the next line.
    let code: String = code.lines().map(str::trim).collect::<Vec<_>>().join("\n").replace("\n.", ".");
    let mut found = paths_behind("options", &code);
    for line in code.lines() {
        let Some((name, section)) =
            line.strip_prefix("let ").and_then(|rest| rest.split_once(" = &options."))
        else {
            continue;
        };
        let Some(section) = section.strip_suffix(';').filter(|section| section.chars().all(is_name)) else {
            continue;
        };
        let below = code.split(line).nth(1).unwrap_or_default().split("\n}").next().unwrap_or_default();
        let more = below
            .split(|c: char| !is_name(c) && c != '.')
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('.'));
        found.extend(more.map(|path| format!("{section}.{path}")));
    }
    found
}

/// The place of each flag's value, by the flag's name.
fn places(folder: &Path) -> BTreeMap<String, Set<String>> {
    let mut all: BTreeMap<String, Set<String>> = BTreeMap::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for entry in code.split("Flag {").skip(1) {
            let Some((_, name)) = entry.split_once("name: ") else { continue };
            let name = match name.split([',', '\n']).next().unwrap_or_default() {
                "CONFIG" => CONFIG,
                "CONFIG_DIR" => CONFIG_DIR,
                quoted => quoted.trim_matches('"'),
            };
            let Some((_, takes)) = entry.split_once("takes: ") else { continue };
            let ends = ["default: ", "verbs: ", "repeats: ", "rule: ", "short: ", " .."];
            let end = ends.iter().filter_map(|end| takes.find(end)).min().unwrap_or(takes.len());
            let places = all.entry(name.to_owned()).or_default();
            places.extend(paths_behind("o", &takes[..end]));
            if takes.starts_with("Format(") {
                places.extend(["command.output", "command.template"].map(str::to_owned));
            }
        }
    }
    all
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.push(path);
        }
    }
}

#[test]
fn a_command_reads_only_flags_that_it_knows() {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli");
    let places = places(&room.join("flags"));
    for flag in flags::all() {
        assert!(
            places.get(flag.name).is_some_and(|it| !it.is_empty()),
            "where --{} goes is not found",
            flag.name
        );
    }
    let same = |place: &str, read: &str| {
        let below =
            |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        below(place, read) || below(read, place)
    };
    let known = |verb: Verb, read: &str| {
        flags::of(verb).any(|flag| places.get(flag.name).into_iter().flatten().any(|place| same(place, read)))
    };
    let mut files = Vec::new();
    files_below(&room, &mut files);
    let (mut wrong, mut seen) = (Vec::new(), Set::new());
    for path in files {
        let name = path.strip_prefix(&room).unwrap().to_str().unwrap().to_owned();
        if OF_ALL.iter().any(|of_all| name.contains(of_all)) && !name.contains("kubeconfig") {
            continue;
        }
        let read = reads(&std::fs::read_to_string(&path).unwrap());
        let Some((_, verbs)) = FILES.iter().find(|(file, _)| *file == name) else {
            wrong.extend(read.first().map(|one| format!("{name} is not in the list, and reads {one}")));
            continue;
        };
        seen.insert(name.clone());
        let unknown = read.iter().filter(|read| !verbs.iter().any(|verb| known(*verb, read)));
        wrong.extend(unknown.map(|read| format!("{name} reads {read}, which none of {verbs:?} knows")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen.len(), FILES.len(), "files that are gone: {seen:?}");
}

/// A rule about one flag is in its entry: a name elsewhere would be a second list that no test compares.
#[test]
fn the_daemon_knows_no_flag_by_its_name() {
    let mut files = Vec::new();
    files_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/daemon"), &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let named =
            flags::all().filter(|flag| flag.name.contains('-') && text.contains(&format!("{:?}", flag.name)));
        wrong.extend(named.map(|flag| format!("{}: --{}", path.display(), flag.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
