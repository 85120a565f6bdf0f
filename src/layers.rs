//! Tests of the code's structure: the code map in ARCHITECTURE.md lists the rooms from the top down, a room imports
//! only from rooms below it, and no file, folder or function is too large to read at once. For tests only.
//!
//! Never here: an exception.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// These are not rooms: the program's entry, the list of rooms, and code for tests only.
const OUTSIDE: &[&str] = &["main", "lib", "layers", "effects"];

/// Most lines of a file, including tests. A file near the bound is split by topic.
const FILE_LINES: usize = 450;

/// Most named fields of a struct, including tests. Fields that belong together and change together are a struct of
/// their own.
const TYPE_FIELDS: usize = 20;

/// Most files in a folder, not counting folders.
const FOLDER_FILES: usize = 25;

/// Rooms in the order of the code map, without `/` or `.rs`.
fn code_map() -> Vec<String> {
    let page = include_str!("ARCHITECTURE.md");
    let map = page.split("## Code map").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = map.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    rows.map(|room| room.trim_end_matches('/').trim_end_matches(".rs").to_owned()).collect()
}

/// Files of the program by room; tests and their helpers are left out.
fn sources() -> BTreeMap<String, Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rooms: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let of_tests = matches!(name.as_str(), "tests" | "tests.rs" | "testing" | "testing.rs");
            if of_tests {
            } else if path.is_dir() {
                open.push(path);
            } else if name.ends_with(".rs") {
                let room = path.strip_prefix(&root).unwrap().iter().next().unwrap().to_str().unwrap();
                let room = room.trim_end_matches(".rs").to_owned();
                rooms.entry(room).or_default().push(path);
            }
        }
    }
    rooms
}

/// The code without comments and without code for tests only.
fn code(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("//") {
            continue;
        }
        if line.trim_start().starts_with("#[cfg(test)]") {
            // The next item: one line, or until a brace closes at the same indentation.
            let indent = line.len() - line.trim_start().len();
            for rest in lines.by_ref() {
                let closes =
                    rest.len() - rest.trim_start().len() == indent && rest.trim_start().starts_with('}');
                if closes || rest.trim_end().ends_with(';') && rest.len() - rest.trim_start().len() == indent
                {
                    break;
                }
            }
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// The rooms from which a text imports: `crate::ROOM`, and each of `crate::{ROOM, …}`.
fn imports(code: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = BTreeSet::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            None => _ = found.insert(part.chars().take_while(|c| is_name(*c)).collect()),
            Some(list) => {
                let mut depth = 1;
                let top: String = list
                    .chars()
                    .map_while(|c| {
                        depth += i32::from(c == '{') - i32::from(c == '}');
                        (depth > 0).then_some(if depth == 1 { c } else { ' ' })
                    })
                    .collect();
                let names =
                    top.split(',').map(|item| item.trim().chars().take_while(|c| is_name(*c)).collect());
                found.extend(names.filter(|name: &String| !name.is_empty()));
            }
        }
    }
    found
}

#[test]
fn imports_are_found() {
    let text = "use crate::a::B;\nuse crate::{c, d::{e, f}, g as h};\n// crate::i\nfn x() { crate::j::k(); }\n\
                #[cfg(test)]\nmod tests {\n    use crate::l;\n}\n#[cfg(test)]\nuse crate::m;\nuse crate::n;\n";
    let found: Vec<String> = imports(&code(text)).into_iter().collect();
    assert_eq!(found, ["a", "c", "d", "g", "j", "n"]);
}

#[test]
fn rooms_import_only_from_rooms_below_them() {
    let map = code_map();
    let sources = sources();
    let rooms: BTreeSet<&str> =
        sources.keys().map(String::as_str).filter(|it| !OUTSIDE.contains(it)).collect();
    assert_eq!(
        map.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        rooms,
        "rooms, and rows of the code map"
    );
    assert_eq!(map.len(), rooms.len(), "one row for each room");
    let depth = |room: &str| map.iter().position(|it| it == room);
    let mut up = Vec::new();
    for (room, files) in &sources {
        let Some(own) = depth(room) else { continue };
        for file in files {
            for other in imports(&code(&fs::read_to_string(file).unwrap())) {
                if depth(&other).is_none_or(|at| at < own) {
                    up.push(format!("{} imports from {other}", file.display()));
                }
            }
        }
    }
    assert!(up.is_empty(), "imports that point up:\n{}", up.join("\n"));
}

/// Functions with the name of a question that change state: a reader of an `if` would not expect that.
fn questions_that_act(code: &str) -> Vec<&str> {
    let asks = |name: &str| {
        ["is_", "has_", "was_", "may_", "can_"].iter().any(|word| name.starts_with(word))
            || ["_ready", "_runs", "_held_back"].iter().any(|word| name.ends_with(word))
    };
    let functions = code.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
    let acts = functions.filter(|(_, rest)| rest.trim_start().starts_with("&mut self"));
    acts.filter(|(name, rest)| {
        let result = rest.split('{').next().unwrap_or_default();
        asks(name) && result.contains("-> bool")
    })
    .map(|(name, _)| name)
    .collect()
}

#[test]
fn what_is_called_like_a_question_changes_nothing() {
    let text = "fn is_ready(&self) -> bool {}\nfn is_done(\n    &mut self,\n    a: u8,\n) -> bool {}\nfn has_begun(&mut self) {}";
    assert_eq!(questions_that_act(text), ["is_done"]);
    let minds = ["machine", "daemon", "eviction", "plan", "merge"];
    for (room, files) in sources().into_iter().filter(|(room, _)| minds.contains(&room.as_str())) {
        for file in files {
            let text = code(&fs::read_to_string(&file).unwrap());
            assert_eq!(questions_that_act(&text), Vec::<&str>::new(), "{room}: {}", file.display());
        }
    }
}

/// Names of the structs in a text with the usual format, and the number of their named fields.
fn structs(text: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let head = line.trim_start();
        let indent = line.len() - head.len();
        let head = head.strip_prefix("pub").map_or(head, |rest| {
            rest.split_once(") ").filter(|_| rest.starts_with('(')).map_or(rest, |(_, rest)| rest)
        });
        let Some(name) = head.trim_start().strip_prefix("struct ").filter(|_| line.ends_with('{')) else {
            continue;
        };
        let name = name.split(['<', ' ']).next().unwrap();
        let body = lines
            .by_ref()
            .take_while(|line| line.len() - line.trim_start().len() > indent || line.is_empty());
        let is_field = |line: &&str| {
            let field = line.trim_start();
            let is_inside = line.len() - field.len() == indent + 4;
            let name = field.split_once(": ").map(|(name, _)| name.rsplit(' ').next().unwrap());
            is_inside
                && name.is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || "_#".contains(c)))
        };
        found.push((name, body.filter(|line| !line.trim_start().starts_with("//")).filter(is_field).count()));
    }
    found
}

#[test]
fn fields_are_counted() {
    let text = "pub(in crate::a) struct A<'a> {\n    /// Not: this.\n    pub b: C,\n\n    #[serde(rename = \"x: y\")]\n    \
                r#type: D,\n}\nstruct E(F);\nstruct G;\nfn h() {\n    struct I {\n        j: fn(\n            k: u8,\n        \
                ),\n    }\n    let l: u8 = 0;\n}\npub struct M {\n    n: O,\n}\n";
    assert_eq!(structs(text), [("A", 2), ("I", 1), ("M", 1)]);
}

/// All files of the program and of its tests, and all folders with the number of their files.
fn house() -> (Vec<PathBuf>, Vec<(PathBuf, usize)>) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut open, mut files, mut folders) =
        (vec![top.join("src"), top.join("tests/it")], Vec::new(), Vec::new());
    while let Some(directory) = open.pop() {
        let before = files.len();
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
        folders.push((directory, files.len() - before));
    }
    (files, folders)
}

#[test]
fn no_file_no_folder_and_no_type_is_too_large() {
    let (files, folders) = house();
    let mut large = Vec::new();
    for (path, files) in folders.iter().filter(|(_, files)| *files > FOLDER_FILES) {
        large.push(format!("{} has {files} files, and {FOLDER_FILES} are allowed", path.display()));
    }
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let (path, lines) = (path.display(), text.lines().count());
        if lines > FILE_LINES {
            large.push(format!("{path} has {lines} lines, and {FILE_LINES} are allowed"));
        }
        for (name, fields) in structs(&text).into_iter().filter(|(_, fields)| *fields > TYPE_FIELDS) {
            large.push(format!("{name} in {path} has {fields} fields, and {TYPE_FIELDS} are allowed"));
        }
    }
    assert!(large.is_empty(), "split by idea:\n{}", large.join("\n"));
}

#[test]
fn values_are_decoded_in_one_way() {
    let mut found = Vec::new();
    for file in sources().values().flatten() {
        let text = code(&fs::read_to_string(file).unwrap());
        if text.contains(concat!("::", "deserialize(")) || text.contains(concat!("from", "_value")) {
            found.push(file.display().to_string());
        }
    }
    assert!(
        found.is_empty(),
        "use `base::json::read`: another deserializer is another copy of the types' code: {found:?}"
    );
}
