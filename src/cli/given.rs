//! The values that were given for the flags of a command, with their places: the command line, or a line of a
//! configuration file.
//!
//! Never here: a value that may hold a password; only its digest.

use std::ffi::OsStr;
use std::fmt;

use super::flags::{Flag, Options, Repeats};
use crate::base::hex;

/// A command line that was read, with its configuration files.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The values of all flags.
    pub options: Options,
    /// The values that were given, in the order they were read: files first. Other flags have their defaults.
    pub given: Vec<Given>,
    /// Fields of the files without effect, each with its place.
    pub notes: Vec<String>,
}

impl Parsed {
    /// The given values of a flag that count.
    pub fn in_force(&self, flag: &Flag) -> impl Iterator<Item = &Given> {
        let all = self.given.iter().filter(|given| given.flag.name == flag.name);
        let replaced = match flag.repeats {
            Repeats::Adds => 0,
            Repeats::Replaces => all.clone().count().saturating_sub(1),
        };
        all.skip(replaced)
    }
}

/// One value of a flag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The flag.
    pub flag: &'static Flag,
    /// The value.
    pub value: Shown,
    /// Where it was read.
    pub from: Origin,
}

impl Given {
    /// A value of a flag, as text.
    #[must_use]
    pub fn new(flag: &'static Flag, text: &OsStr, from: Origin) -> Given {
        let value = match flag.is_secret() {
            true => Shown::Secret { digest: hex::sha256(text.as_encoded_bytes()) },
            false => Shown::Text(text.to_string_lossy().into_owned()),
        };
        Given { flag, value, from }
    }
}

/// A value that may be printed and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// The text as it was written.
    Text(String),
    /// The digest of a value that may hold a password.
    Secret {
        /// SHA-256 in hex, to compare two values.
        digest: String,
    },
}

impl Shown {
    /// The text to print.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Shown::Text(text) => text,
            Shown::Secret { .. } => "...",
        }
    }
}

/// Where a value was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    Flag,
    /// In this line of a file: `PATH:LINE`.
    Line(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Flag => f.write_str("flag"),
            Origin::Line(line) => f.write_str(line),
        }
    }
}
