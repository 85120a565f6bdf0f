//! Several configuration files as one: that of `--config`, and on it those of `--config-dir` in the order of their names.
//! Pure but for [`list`].
//!
//! A later file is a merge patch (RFC 7396) of the earlier ones, as in the kubelet (`mergeKubeletConfigurations` in
//! `cmd/kubelet/app/server.go`): maps are merged, other values are replaced, and null removes the field of an earlier
//! file. Never here: the meaning of a field.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{File, Wrong, judge, one_document};
use crate::base::{limits, order};
use crate::manifest::tree::{Data, Entry, Node, Place};

/// The extension of files in `--config-dir`; other files are ignored.
const EXTENSION: &str = "conf";

/// The `*.conf` files of a directory, sorted by name. Directories in it are not searched.
pub(in crate::cli) fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension() != Some(OsStr::new(EXTENSION)) || path.is_dir() {
            continue;
        }
        found.push(path);
        if found.len() > limits::CONFIG_FILES {
            return Err(format!("there are more than {} files in it", limits::CONFIG_FILES));
        }
    }
    order::sort(&mut found);
    Ok(found)
}

/// Maps a line number over all files, one after the other, to its file and line. Line 0 of a file is the whole file.
#[derive(Debug, Default)]
pub(in crate::cli) struct Lines {
    /// The offset of each file's lines, with its path.
    files: Vec<(u32, PathBuf)>,
    /// The offset of the next file.
    next: u32,
}

impl Lines {
    fn file(&self, line: u32) -> (&Path, u32) {
        let found = self.files.iter().rev().find(|(before, _)| *before <= line);
        found.map_or((Path::new(""), line), |(before, path)| (path.as_path(), line.saturating_sub(*before)))
    }

    /// `PATH:LINE:COLUMN`, or the path alone.
    pub(in crate::cli) fn place(&self, (line, column): Place) -> String {
        match self.file(line) {
            (path, 0) => path.display().to_string(),
            (path, line) => format!("{}:{line}:{column}", path.display()),
        }
    }

    /// `PATH:LINE`.
    pub(in crate::cli) fn line(&self, (line, _): Place) -> String {
        let (path, line) = self.file(line);
        format!("{}:{line}", path.display())
    }

    /// A relative path in a file starts from the file's directory, also where the file itself was named by a relative path.
    pub(in crate::cli) fn beside(&self, (line, _): Place, path: &str) -> PathBuf {
        let path = self.file(line).0.parent().unwrap_or(Path::new("")).join(path);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Adds the next file; returns the offset of its lines.
    fn add(&mut self, path: &Path, bytes: &[u8]) -> u32 {
        let before = self.next;
        let lines = bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
        // The last line may have no line break, and an error may point behind it.
        self.next = before.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX)).saturating_add(3);
        self.files.push((before, path.to_owned()));
        before
    }
}

/// The settings of all files together, with lines of [`Lines`]. Each file must also be valid alone: a value that a
/// later file replaces counts again when the later file is removed.
pub(in crate::cli) fn merged(files: &[(PathBuf, Vec<u8>)]) -> (File, Lines) {
    let (mut lines, mut wrong) = (Lines::default(), Vec::new());
    let mut whole: Option<Node> = None;
    for (path, bytes) in files {
        let before = lines.add(path, bytes);
        let mut document = match one_document(bytes) {
            Ok(document) => document,
            Err(((line, column), why)) => {
                wrong.push(((line.saturating_add(before), column), why));
                continue;
            }
        };
        shift(&mut document, before);
        let alone = without_removals(document.clone());
        let Some(all) = &mut whole else {
            wrong.extend(judge(&alone, (before, 0)).wrong);
            whole = Some(alone);
            continue;
        };
        if let Some(why) = of_another_kind(all, &document, &lines) {
            wrong.push(why);
            continue;
        }
        wrong.extend(judge(&alone, (before, 0)).wrong);
        patch(all, document);
    }
    let mut file = whole.map_or_else(File::default, |whole| judge(&whole, (0, 0)));
    wrong.append(&mut file.wrong);
    order::sort(&mut wrong);
    wrong.dedup();
    file.wrong = wrong;
    (file, lines)
}

/// An error when a kubelet's file and podkeeper's own are mixed: they name the same things differently.
fn of_another_kind(first: &Node, other: &Node, lines: &Lines) -> Option<Wrong> {
    let kind = |node: &Node| node.get("kind").and_then(Node::as_str).unwrap_or_default().to_owned();
    let (ours, theirs) = (kind(first), kind(other));
    let at = other.get("kind").map_or(other.at, |kind| kind.at);
    (ours != theirs).then(|| {
        let file = lines.file(first.at.0).0.display();
        (at, format!("kind: must be {ours}, as in {file}: all files are of one kind"))
    })
}

/// Adds an offset to the lines of all places.
fn shift(node: &mut Node, lines: u32) {
    let moved = |(line, column): Place| (line.saturating_add(lines), column);
    node.at = moved(node.at);
    match &mut node.data {
        Data::List(items) => items.iter_mut().for_each(|item| shift(item, lines)),
        Data::Map(entries) => {
            for entry in entries {
                entry.at = moved(entry.at);
                shift(&mut entry.value, lines);
            }
        }
        Data::Null | Data::Bool(_) | Data::Number(_) | Data::String(_) => {}
    }
}

/// Applies a merge patch.
fn patch(onto: &mut Node, with: Node) {
    let Data::Map(changes) = with.data else {
        *onto = with;
        return;
    };
    if !matches!(onto.data, Data::Map(_)) {
        *onto = Node { at: with.at, data: Data::Map(Vec::new()) };
    }
    let Data::Map(entries) = &mut onto.data else { return };
    for change in changes {
        let found = entries.iter().position(|entry| entry.key == change.key);
        match found.and_then(|at| entries.get_mut(at)) {
            Some(_) if change.value.is_null() => entries.retain(|entry| entry.key != change.key),
            Some(entry) => {
                entry.at = change.at;
                patch(&mut entry.value, change.value);
            }
            None if change.value.is_null() => {}
            None => {
                let mut value = Node { at: change.value.at, data: Data::Null };
                patch(&mut value, change.value);
                entries.push(Entry { value, ..change });
            }
        }
    }
}

/// A patch as a file of its own: without the entries that only remove something from a map.
fn without_removals(mut document: Node) -> Node {
    if let Data::Map(entries) = &mut document.data {
        for entry in entries {
            let whole = std::mem::replace(&mut entry.value.data, Data::Null);
            let at = entry.value.at;
            patch(&mut entry.value, Node { at, data: whole });
        }
    }
    document
}

#[cfg(test)]
mod tests;
