//! The configuration file of `--config`: the flags of `run` as fields, so that nothing can be set here that
//! the flag table does not know. Pure but for [`read`]. A field that is not known is an error, as in the
//! kubelet's strict reading (spec/14): a limit that is misspelled must not be a limit that is missing.

use std::path::Path;

use super::flags::{FLAGS, Flag, Id};
use super::parse::nearest;
use crate::limits;
use crate::manifest::node::{Data, Entry, Node, Place};
use crate::manifest::yaml;
use crate::regular;

/// `apiVersion` of the file.
pub const API_VERSION: &str = "podkeeper.dev/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "PodkeeperConfiguration";

/// What is wrong, and where if that is known.
pub(super) type Wrong = (Option<Place>, String);

/// One field.
#[derive(Debug)]
pub(super) struct Setting {
    /// The flag it stands for.
    pub flag: &'static Flag,
    /// Its own name.
    pub field: String,
    /// Where.
    pub at: Place,
    /// What the flag would be given, each time it would.
    pub texts: Vec<String>,
}

/// Reads the file, if it is not too large.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, String> {
    regular::read(path, limits::MANIFEST_BYTES).map_err(|error| error.to_string())
}

/// All settings of a file, in the order they are written.
pub(super) fn settings(bytes: &[u8]) -> Result<Vec<Setting>, Vec<Wrong>> {
    let documents = yaml::text(bytes).and_then(yaml::documents).map_err(|e| vec![(e.at, e.message)])?;
    let [document] = documents.as_slice() else {
        let at = documents.get(1).map(|d| d.at);
        return Err(vec![(at, format!("one document is wanted, and there are {}", documents.len()))]);
    };
    if !matches!(document.data, Data::Map(_)) {
        return Err(vec![(
            Some(document.at),
            format!("a map of settings is wanted, not {}", document.kind()),
        )]);
    }
    let (mut settings, mut wrong) = (Vec::new(), Vec::new());
    for (key, expected) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = document.get(key);
        if found.and_then(Node::as_str) != Some(expected) {
            wrong.push((found.map(|n| n.at), format!("{key}: must be {expected}")));
        }
    }
    for entry in document.entries().iter().filter(|e| !matches!(e.key.as_str(), "apiVersion" | "kind")) {
        let flag = FLAGS.iter().find(|f| f.field().is_some_and(|field| field == entry.key));
        match flag.ok_or_else(|| (Some(entry.at), unknown(&entry.key))).and_then(|f| setting(f, entry)) {
            Ok(setting) => settings.push(setting),
            Err(why) => wrong.push(why),
        }
    }
    if wrong.is_empty() { Ok(settings) } else { Err(wrong) }
}

fn unknown(key: &str) -> String {
    let fields: Vec<String> = FLAGS.iter().filter_map(Flag::field).collect();
    let near = nearest(key, fields.iter().map(String::as_str));
    let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
    format!("unknown field {key:?}{near}")
}

fn setting(flag: &'static Flag, entry: &Entry) -> Result<Setting, Wrong> {
    let many = matches!(flag.id, Id::ManifestVerifyKey | Id::Device | Id::ManifestUrlHeader);
    let texts = match &entry.value.data {
        Data::Null => Vec::new(),
        Data::List(items) if many && flag.id == Id::ManifestVerifyKey => {
            items.iter().map(|item| scalar(&entry.key, item)).collect::<Result<_, _>>()?
        }
        Data::List(_) => vec![list(&entry.key, &entry.value)?],
        Data::Map(entries) if flag.id == Id::SourcePolicy => {
            // A map of settings for each source.
            let mut texts = Vec::new();
            for source in entries {
                if !matches!(source.value.data, Data::Map(_)) {
                    let wrong =
                        format!("{}: a map of settings is wanted, not {}", entry.key, source.value.kind());
                    return Err((Some(source.value.at), wrong));
                }
                for one in source.value.entries() {
                    texts.push(format!("{}={}={}", source.key, one.key, list(&entry.key, &one.value)?));
                }
            }
            texts
        }
        Data::Map(entries) => {
            let between = if flag.id == Id::ManifestUrlHeader { ':' } else { '=' };
            let mut pairs = Vec::new();
            for one in entries {
                match &one.value.data {
                    // Units of a device, values of a header.
                    Data::List(items) if many => {
                        for item in items {
                            pairs.push(format!("{}{between}{}", one.key, list(&entry.key, item)?));
                        }
                    }
                    _ => pairs.push(format!("{}{between}{}", one.key, list(&entry.key, &one.value)?)),
                }
            }
            if many { pairs } else { vec![pairs.join(",")] }
        }
        _ => vec![scalar(&entry.key, &entry.value)?],
    };
    Ok(Setting { flag, field: entry.key.clone(), at: entry.value.at, texts })
}

/// Scalars with commas between; or one.
fn list(field: &str, node: &Node) -> Result<String, Wrong> {
    let Data::List(items) = &node.data else {
        return scalar(field, node);
    };
    let mut texts = Vec::new();
    for item in items {
        let text = scalar(field, item)?;
        if text.contains(',') {
            return Err((Some(item.at), format!("{field}: an item of this list cannot hold a comma")));
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
            Err((Some(node.at), format!("{field}: a string or a number is wanted, not {}", node.kind())))
        }
    }
}

#[cfg(test)]
mod tests;
