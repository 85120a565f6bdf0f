//! The configuration files of `--config` and `--config-dir`: podkeeper's own, with a field for each flag of `run` and
//! no others, or a kubelet's (`kubelet`). `files` merges them. Pure but for [`read`]. An unknown field is an error, as
//! in the kubelet's strict reading: a misspelled limit must not mean no limit.

pub(super) mod files;
pub(crate) mod kubelet;

use std::path::Path;

use super::flags::{self, Flag, InFile};
use super::nearest::nearest;
use crate::base::limits;
use crate::base::regular;
use crate::manifest::tree::{Data, Entry, Node, Place};
use crate::manifest::{quoted, yaml};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "podkeeper.dev/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "PodkeeperConfiguration";

/// A place and what is wrong there; line 0 is the whole file.
pub(super) type Wrong = (Place, String);

/// One field of the file.
#[derive(Debug)]
pub(super) struct Setting {
    /// The flag that the field stands for.
    pub flag: &'static Flag,
    /// Name of the field.
    pub field: String,
    /// Texts for the flag, one for each time it would be given, with their places.
    pub texts: Vec<(Place, String)>,
}

/// Reads the file, if it is not too large.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    regular::read(path, limits::MANIFEST_BYTES).map_err(|error| error.to_string())
}

/// The settings of a file.
#[derive(Debug, Default)]
pub(super) struct File {
    /// Settings that can be read, in the order they are written.
    pub settings: Vec<Setting>,
    /// Fields without an effect, with the reason.
    pub notes: Vec<(Place, String)>,
    /// Errors.
    pub wrong: Vec<Wrong>,
}

/// The one document of a file.
fn one_document(bytes: &[u8]) -> Result<Node, Wrong> {
    let documents = yaml::text(bytes).and_then(yaml::documents);
    let mut documents = documents.map_err(|error| (error.at.unwrap_or_default(), error.message))?;
    if let ([_, second, ..], count) = (documents.as_slice(), documents.len()) {
        return Err((second.at, format!("one document is wanted, and there are {count}")));
    }
    let Some(document) = documents.pop() else {
        return Err((Place::default(), "one document is wanted, and there are 0".to_owned()));
    };
    match document.data {
        Data::Map(_) => Ok(document),
        _ => Err((document.at, format!("a map of settings is wanted, not {}", document.kind()))),
    }
}

/// Reads a whole document. `whole` is the place of an error about a missing field.
fn judge(document: &Node, whole: Place) -> File {
    let mut file = File::default();
    let head = |key: &str| document.get(key).and_then(Node::as_str);
    // One of the two tells whose file it is, so that an error in the other one names what is right for this file.
    let is_kubelets = head("kind") == Some(kubelet::KIND) || head("apiVersion") == Some(kubelet::API_VERSION);
    let (version, kind) =
        if is_kubelets { (kubelet::API_VERSION, kubelet::KIND) } else { (API_VERSION, KIND) };
    let (settings, wrong) = (&mut file.settings, &mut file.wrong);
    for (key, expected) in [("apiVersion", version), ("kind", kind)] {
        let found = document.get(key);
        if found.and_then(Node::as_str) != Some(expected) {
            wrong.push((found.map_or(whole, |n| n.at), format!("{key}: must be {expected}")));
        }
    }
    if is_kubelets {
        kubelet::read(document, &mut file);
        return file;
    }
    for entry in document.entries().iter().filter(|e| !matches!(e.key.as_str(), "apiVersion" | "kind")) {
        match flags::all().find(|f| f.field().is_some_and(|field| field == entry.key)) {
            Some(flag) => settings.push(setting(flag, &entry.key, entry, wrong)),
            None => wrong.push((entry.at, unknown(&entry.key))),
        }
    }
    file
}

fn unknown(key: &str) -> String {
    let fields: Vec<String> = flags::all().filter_map(Flag::field).collect();
    unknown_among(key, fields.iter().map(String::as_str))
}

fn unknown_among<'a>(key: &str, fields: impl Iterator<Item = &'a str>) -> String {
    let near = nearest(key, fields);
    let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    format!("unknown field {}{near}", quoted(key))
}

fn setting(flag: &'static Flag, field: &str, entry: &Entry, wrong: &mut Vec<Wrong>) -> Setting {
    let mut texts = Vec::new();
    // An error in one item hides none of the others.
    let mut take = |at: Place, text: Result<String, Wrong>| match text {
        Ok(text) => texts.push((at, text)),
        Err(why) => wrong.push(why),
    };
    match (&entry.value.data, flag.in_file) {
        (Data::Null, _) => {}
        (Data::List(items), InFile::Each) => {
            items.iter().for_each(|item| take(item.at, scalar(field, item)));
        }
        (Data::Map(entries), InFile::BySource) => {
            // A map of settings for each source.
            for source in entries {
                if !matches!(source.value.data, Data::Map(_)) {
                    let why = format!("{field}: a map of settings is wanted, not {}", source.value.kind());
                    take(source.value.at, Err((source.value.at, why)));
                }
                for one in source.value.entries() {
                    let text = list(field, &one.value);
                    take(one.value.at, text.map(|text| format!("{}={}={text}", source.key, one.key)));
                }
            }
        }
        (Data::Map(entries), InFile::Pairs(between)) => {
            for one in entries {
                // Items such as the units of a device, or the values of a header.
                let items = match &one.value.data {
                    Data::List(items) => items.as_slice(),
                    _ => std::slice::from_ref(&one.value),
                };
                for item in items {
                    let text = list(field, item);
                    take(item.at, text.map(|text| format!("{}{between}{text}", one.key)));
                }
            }
        }
        (Data::Map(entries), InFile::Once | InFile::Map(_)) => {
            let between = if let InFile::Map(between) = flag.in_file { between } else { '=' };
            let pair = |one: &Entry| Ok(format!("{}{between}{}", one.key, list(field, &one.value)?));
            let pairs = entries.iter().map(pair).collect::<Result<Vec<_>, _>>();
            take(entry.value.at, pairs.map(|pairs| pairs.join(",")));
        }
        _ => take(entry.value.at, list(field, &entry.value)),
    }
    Setting { flag, field: field.to_owned(), texts }
}

/// A list of scalars, or one scalar, as text with commas.
fn list(field: &str, node: &Node) -> Result<String, Wrong> {
    let Data::List(items) = &node.data else {
        return scalar(field, node);
    };
    let mut texts = Vec::new();
    for item in items {
        let text = scalar(field, item)?;
        if text.contains(',') {
            return Err((item.at, format!("{field}: an item of this list cannot hold a comma")));
        }
        texts.push(text);
    }
    Ok(texts.join(","))
}

fn scalar(field: &str, node: &Node) -> Result<String, Wrong> {
    match &node.data {
        Data::Bool(value) => Ok(value.to_string()),
        Data::Number(value) => Ok(value.to_string()),
        Data::String(value) => Ok(value.clone()),
        Data::Null | Data::List(_) | Data::Map(_) => {
            Err((node.at, format!("{field}: a string or a number is wanted, not {}", node.kind())))
        }
    }
}

#[cfg(test)]
mod tests;
