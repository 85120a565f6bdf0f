//! Every flag, written once: its entry has its name, its value and where that is stored, and the commands that know it;
//! `help.txt` has its help. Parsing, `--help`, the fields of the configuration file and the test of the man page use these.
//! Each section of `--help` is a file here, with the values of its flags as plain data. Names are the kubelet's (`run`)
//! and kubectl's (the rest).
//!
//! Never here: reading a file, or asking the machine.

mod cluster;
mod commands;
mod directories;
mod docker;
mod drain;
mod eviction;
mod garbage;
mod hollow;
mod host;
mod logging;
mod logs;
mod network;
mod node;
mod policy;
pub mod server;
mod sources;
#[cfg(test)]
mod testing;

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time;

use super::value;
pub use super::verbs::Verb;
use crate::base::packed::Packed;
use crate::cluster::node::{Taint, parse_taints};
use crate::daemon::config::Config;
pub use commands::{Output, SortBy, Templates};
pub use directories::{CONFIG, CONFIG_DIR, ROOT_DIR};
pub use docker::endpoint;

/// The values of all flags; a flag that the command does not know has its default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Where pods come from.
    pub sources: sources::Values,
    /// The node and its resources.
    pub node: node::Values,
    /// The node as an API server sees it.
    pub cluster: cluster::Values,
    /// Eviction when the node runs short.
    pub eviction: eviction::Values,
    /// Removal of images that nothing needs.
    pub garbage: garbage::Values,
    /// Docker and images.
    pub docker: docker::Values,
    /// Network plugins.
    pub network: network::Values,
    /// Rules for pods.
    pub policy: policy::Values,
    /// Servers and their users.
    pub server: server::Values,
    /// Directories and configuration files.
    pub directories: directories::Values,
    /// Log lines.
    pub logging: logging::Values,
    /// Flags of the commands that look at pods.
    pub command: commands::Values,
    /// Flags of `logs`.
    pub logs: logs::Values,
    /// Flags of `drain`.
    pub drain: drain::Values,
    /// Flags of `hollow`.
    pub hollow: hollow::Values,
}

impl Options {
    /// The defaults of all flags.
    ///
    /// # Errors
    /// The default of an entry is not a valid value; a test checks that all are.
    pub fn defaults() -> Result<Options, String> {
        let mut options = Options::default();
        for flag in all().filter(|flag| !flag.default.is_empty()) {
            let done = flag.set(&mut options, OsStr::new(flag.default));
            done.map_err(|why| format!("default of --{}: {why}", flag.name))?;
        }
        Ok(options)
    }
}

/// A word of a closed list, with the function that sets it.
type Word = (&'static str, fn(&mut Options));

/// The type of a flag's value, and where it is stored. The word names the value in help, and has no other meaning.
#[derive(Debug, Clone, Copy)]
pub enum Takes {
    /// No value, or `=true`, `=false`.
    Switch(fn(&mut Options, bool)),
    /// A duration as Go writes it.
    Duration(fn(&mut Options, time::Duration)),
    /// A whole number that is not negative.
    Count(&'static str, fn(&mut Options, u32)),
    /// A whole number that is not negative, in seconds.
    Seconds(fn(&mut Options, u32)),
    /// A whole number with rules of its own.
    Number(&'static str, fn(&mut Options, i64) -> Result<(), String>),
    /// A port, or 0.
    Port(fn(&mut Options, u16)),
    /// One of these words, and what it sets.
    Choice(&'static str, &'static [Word]),
    /// One of the formats of output or, when [`Templates::Taken`], a template.
    Format(&'static [Output], Templates),
    /// A path that is not empty.
    Path(&'static str, fn(&mut Options, PathBuf)),
    /// A path; `None` when it is empty.
    PathOrNone(&'static str, fn(&mut Options, Option<PathBuf>)),
    /// Any text; `None` when it is empty.
    Name(&'static str, fn(&mut Options, Option<String>)),
    /// Words separated by commas.
    List(&'static str, fn(&mut Options, &str) -> Result<(), String>),
    /// Pairs of keys and values, separated by commas; the character stands between key and value.
    Map(&'static str, char, fn(&mut Options, &str) -> Result<(), String>),
    /// Taints of a node, separated by commas.
    Taints(fn(&mut Options, Vec<Taint>)),
    /// Text with rules of its own.
    Text(&'static str, fn(&mut Options, &str) -> Result<(), String>),
    /// Text with rules of its own that may hold a password: errors leave it out.
    Secret(&'static str, fn(&mut Options, &str) -> Result<(), String>),
}

/// How the configuration file writes several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFile {
    /// A list as one value, with commas; a map as one value of `K=V`, with commas.
    Once,
    /// A map as one value of keys and values with this character between, with commas.
    Map(char),
    /// A list; each item is a value.
    Each,
    /// A map; each value stands behind its key and this character.
    Pairs(char),
    /// A map of settings by source, each as `SOURCE=NAME=VALUE`.
    BySource,
}

/// The effect of giving a flag again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// The last value counts.
    Replaces,
    /// Each value counts, beside those before it. The flag decides about a second value of the same key.
    Adds,
}

/// The entry of a flag.
#[derive(Debug)]
pub struct Flag {
    /// Long name with dashes, without the leading ones.
    pub name: &'static str,
    /// One-letter name.
    pub short: Option<char>,
    /// Value or switch.
    pub takes: Takes,
    /// The default as a user would write it; empty for none (a switch is off).
    pub default: &'static str,
    /// The effect of giving it again.
    pub repeats: Repeats,
    /// Commands that know the flag.
    pub verbs: &'static [Verb],
    /// The objection of `run` to the value, to follow the flag's name; it may depend on other flags. Where the kubelet
    /// has the rule, its words (`pkg/kubelet/apis/config/validation/validation.go`).
    pub rule: fn(&Options) -> Option<String>,
    /// Puts the value of settings that were read again in force. The main loop alone reads such a value, anew for each
    /// use. Returns false when the value counts only for the next daemon, as most do.
    pub live: fn(&mut Config, &Config) -> bool,
    /// Name of its field in the configuration file where that differs from the flag's: that of `KubeletConfiguration`.
    pub field: &'static str,
    /// How the field is written.
    pub in_file: InFile,
}

/// The common part of the entries of flags of these commands.
const fn of_verbs(verbs: &'static [Verb]) -> Flag {
    Flag {
        name: "",
        short: None,
        takes: Takes::Switch(|_, _| ()),
        default: "",
        repeats: Repeats::Replaces,
        verbs,
        rule: |_| None,
        live: |_, _| false,
        field: "",
        in_file: InFile::Once,
    }
}

/// Stores a value if it is valid.
fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    value.map(|value| *place = value)
}

/// The function that sets a word of a closed list.
fn choose(choices: &[Word], text: &str) -> Result<fn(&mut Options), String> {
    let found = choices.iter().find(|(word, _)| *word == text);
    found.map(|(_, set)| *set).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!("must be {}", value::any_of(&words))
    })
}

const RUN: Flag = of_verbs(&[Verb::Run]);
const RUN_CHECK: Flag = of_verbs(&[Verb::Run, Verb::Check]);
const RUN_HOLLOW: Flag = of_verbs(&[Verb::Run, Verb::Hollow]);
const RUN_CHECK_HOLLOW: Flag = of_verbs(&[Verb::Run, Verb::Check, Verb::Hollow]);
const CHECK: Flag = of_verbs(&[Verb::Check]);

/// Two flags are equal when they are the same entry.
impl PartialEq for Flag {
    fn eq(&self, other: &Flag) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Flag {}

impl Flag {
    /// The word for the value in help; `None` for a switch.
    #[must_use]
    pub fn word(&self) -> Option<&'static str> {
        match self.takes {
            Takes::Switch(_) => None,
            Takes::Duration(_) => Some("DURATION"),
            Takes::Seconds(_) => Some("SECONDS"),
            Takes::Port(_) => Some("PORT"),
            Takes::Format(..) => Some("FORMAT"),
            Takes::Taints(_) => Some("KEY=VALUE:EFFECT,..."),
            Takes::Count(word, _)
            | Takes::Number(word, _)
            | Takes::Choice(word, _)
            | Takes::List(word, _)
            | Takes::Map(word, ..)
            | Takes::Path(word, _)
            | Takes::PathOrNone(word, _)
            | Takes::Name(word, _)
            | Takes::Text(word, _)
            | Takes::Secret(word, _) => Some(word),
        }
    }

    /// The help text, with the effect of giving the flag again.
    #[must_use]
    pub fn said(&self) -> String {
        match self.repeats {
            Repeats::Replaces => self.help().to_owned(),
            Repeats::Adds => format!("{}; may be repeated", self.help()),
        }
    }

    /// One line without a full stop, and without the effect of [`Flag::repeats`]: see [`Flag::said`].
    #[must_use]
    pub fn help(&self) -> &'static str {
        let mut lines = all().zip(HELP.text().lines());
        let line = lines.find_map(|(flag, line)| (flag == self).then_some(line)).unwrap_or_default();
        line.split_once('\t').map_or("", |(_, text)| text)
    }

    /// The words of a closed list of values, or of an almost closed one.
    #[must_use]
    pub fn choices(&self) -> Vec<&'static str> {
        match self.takes {
            Takes::Choice(_, choices) => choices.iter().map(|(word, _)| *word).collect(),
            Takes::Format(formats, _) => formats.iter().map(|format| format.word()).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the value is a path of a file or a directory.
    #[must_use]
    pub fn is_path(&self) -> bool {
        matches!(self.takes, Takes::Path(..) | Takes::PathOrNone(..))
    }

    /// Whether the value may hold a password.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        matches!(self.takes, Takes::Secret(..))
    }

    /// Parses the value and stores it.
    ///
    /// # Errors
    /// A description of the invalid value.
    pub fn set(&self, options: &mut Options, raw: &OsStr) -> Result<(), String> {
        let text = || raw.to_str().ok_or("not UTF-8".to_owned());
        match self.takes {
            Takes::Switch(set) => set(options, value::boolean(text()?)?),
            Takes::Duration(set) => set(options, value::duration(text()?)?),
            Takes::Count(_, set) => set(options, value::count(text()?)?),
            Takes::Seconds(set) => set(options, value::seconds(text()?)?),
            Takes::Number(_, set) => set(options, value::number(text()?)?)?,
            Takes::Port(set) => set(options, value::port(text()?)?),
            Takes::Choice(_, choices) => choose(choices, text()?)?(options),
            Takes::Format(formats, templates) => commands::set_format(options, formats, templates, text()?)?,
            Takes::Taints(set) => set(options, parse_taints(text()?)?),
            Takes::Path(..) if raw.is_empty() => return Err("must not be empty".to_owned()),
            Takes::Path(_, set) => set(options, PathBuf::from(raw)),
            Takes::PathOrNone(_, set) => set(options, Some(PathBuf::from(raw)).filter(|_| !raw.is_empty())),
            Takes::Name(_, set) => set(options, Some(text()?.to_owned()).filter(|name| !name.is_empty())),
            Takes::List(_, set) | Takes::Map(_, _, set) | Takes::Text(_, set) | Takes::Secret(_, set) => {
                set(options, text()?)?;
            }
        }
        Ok(())
    }

    /// Name of the field in the configuration file. Only flags of `run` have one, except those that name the files.
    #[must_use]
    pub fn field(&self) -> Option<String> {
        const INITIALS: &[&str] = &["url", "ca", "ip", "dns", "cidr", "qos"];
        if self.name == CONFIG || self.name == CONFIG_DIR || !self.verbs.contains(&Verb::Run) {
            return None;
        }
        if !self.field.is_empty() {
            return Some(self.field.to_owned());
        }
        let mut name = String::new();
        for (at, word) in self.name.split('-').enumerate() {
            match word.split_at_checked(1) {
                Some((first, rest)) if at > 0 && !INITIALS.contains(&word) => {
                    name.push_str(&first.to_uppercase());
                    name.push_str(rest);
                }
                _ if at > 0 => name.push_str(&word.to_uppercase()),
                _ => name.push_str(word),
            }
        }
        Some(name)
    }
}

/// Flags that stand together in `--help` and the man page.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// In the order of `--help`.
    pub flags: &'static [Flag],
}

/// A line for each flag of [`all`], in the same order: its name and its help.
static HELP: Packed = Packed::new(include_bytes!(concat!(env!("OUT_DIR"), "/help.txt.packed")));

/// Every flag, in the order of `--help`. `-h`/`--help` belongs to every command and is not listed.
pub static SECTIONS: &[&Section] = &[
    &sources::SECTION,
    &node::SECTION,
    &cluster::SECTION,
    &eviction::SECTION,
    &garbage::SECTION,
    &host::SECTION,
    &docker::SECTION,
    &network::SECTION,
    &policy::SECTION,
    &server::SECTION,
    &directories::SECTION,
    &logging::SECTION,
    &drain::SECTION,
    &hollow::SECTION,
    &commands::SECTION,
    &logs::SECTION,
];

/// Every flag.
pub fn all() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().flat_map(|section| section.flags)
}

/// Whether a command knows a flag. `config` knows those of `run`.
pub fn knows(verb: Verb, flag: &Flag) -> bool {
    let verb = if verb == Verb::Config { Verb::Run } else { verb };
    flag.verbs.contains(&verb)
}

/// The flags that a command knows.
pub fn of(verb: Verb) -> impl Iterator<Item = &'static Flag> {
    all().filter(move |flag| knows(verb, flag))
}
