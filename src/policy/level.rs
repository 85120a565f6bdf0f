//! Levels and versions of the Pod Security Standards, in the grammar of upstream's
//! `pod-security-admission/api/helpers.go`.

use std::fmt;

use crate::base::table::Table;
use crate::pod::Source;

/// A level: each forbids everything that the previous one forbids, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Everything is allowed.
    Privileged,
    /// Known privilege escalations are forbidden.
    Baseline,
    /// Current hardening practice for pods is required.
    Restricted,
}

impl Level {
    /// # Errors
    /// Any other word; the text is upstream's `ParseLevel`.
    pub fn parse(text: &str) -> Result<Level, String> {
        match text {
            "privileged" => Ok(Level::Privileged),
            "baseline" => Ok(Level::Baseline),
            "restricted" => Ok(Level::Restricted),
            _ => Err("must be one of privileged, baseline, restricted".to_owned()),
        }
    }
    /// The level's name on the command line.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        }
    }
}

/// The minor version whose rules apply. `Latest` is newer than every number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `v1.N`; a version after the newest rules uses the newest rules.
    Minor(u64),
    /// `latest`.
    Latest,
}

impl Version {
    /// Parses `latest` or `v1.N`, N without leading zeros.
    ///
    /// # Errors
    /// Any other text; the message is upstream's `ParseVersion`.
    pub fn parse(text: &str) -> Result<Version, String> {
        if text == "latest" {
            return Ok(Version::Latest);
        }
        let minor = text.strip_prefix("v1.").filter(|n| {
            n.bytes().all(|b| b.is_ascii_digit()) && (*n == "0" || (!n.is_empty() && !n.starts_with('0')))
        });
        // Upstream's number is a Go int.
        match minor.and_then(|n| n.parse::<u64>().ok()).filter(|n| i64::try_from(*n).is_ok()) {
            Some(minor) => Ok(Version::Minor(minor)),
            None => Err("must be \"latest\" or \"v1.x\"".to_owned()),
        }
    }
    /// The minor version for comparisons.
    pub(super) fn minor(self) -> u64 {
        match self {
            Version::Minor(minor) => minor,
            Version::Latest => u64::MAX,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::Minor(minor) => write!(f, "v1.{minor}"),
            Version::Latest => f.write_str("latest"),
        }
    }
}

/// A level at a version: `restricted:v1.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelVersion {
    pub level: Level,
    /// The version of its rules.
    pub version: Version,
}

impl LevelVersion {
    /// Parses `LEVEL` (with version `latest`) or `LEVEL:VERSION`.
    ///
    /// # Errors
    /// The wrong part, and the allowed values.
    pub fn parse(text: &str) -> Result<LevelVersion, String> {
        let (level, version) = text.split_once(':').unwrap_or((text, "latest"));
        Ok(LevelVersion {
            level: Level::parse(level).map_err(|why| format!("level {level:?} {why}"))?,
            version: Version::parse(version).map_err(|why| format!("version {version:?} {why}"))?,
        })
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level.as_str(), self.version)
    }
}

/// Parses `--pod-security`: `LEVEL[:VERSION]` for all sources, `SOURCE=LEVEL[:VERSION]` for one, separated by
/// commas; the level of one source takes precedence over that of all.
///
/// # Errors
/// The first part that is invalid, or sets a second level for the same sources.
pub fn parse_sources(text: &str) -> Result<Table<Source, LevelVersion>, String> {
    let mut named = Table::new();
    let mut all = None;
    for part in text.split(',').map(str::trim) {
        let twice = match part.split_once('=') {
            Some((word, level)) => {
                let source = Source::from_word(word)?;
                named.insert(source, LevelVersion::parse(level)?).is_some()
            }
            None => all.replace(LevelVersion::parse(part)?).is_some(),
        };
        if twice {
            return Err(format!("{part:?} says a second level for the same sources"));
        }
    }
    if let Some(level) = all {
        for source in Source::ALL {
            named.get_or_insert(source, level);
        }
    }
    Ok(named)
}
