//! Points in time as the API reads them (Go's `time.RFC3339`). The typed objects take some forms that the API
//! does not, and not all that it does.

use super::path::{Path, Report, quoted};
use super::tree::{Data, Node};

/// Fields of metadata and status that hold one.
const FIELDS: &[&str] = &[
    "creationTimestamp",
    "deletionTimestamp",
    "finishedAt",
    "lastProbeTime",
    "lastTransitionTime",
    "startTime",
    "startedAt",
    "time",
];
/// Fields whose keys the user chooses.
const FREE: &[&str] = &["annotations", "fieldsV1", "labels"];

/// Reports each time below `path` that the API would not read. Others than texts are reported elsewhere.
pub(super) fn check(node: &Node, path: &Path<'_>, report: &mut Report<'_>) {
    for entry in node.entries().iter().filter(|entry| !FREE.contains(&entry.key.as_str())) {
        let path = path.field(&entry.key);
        match &entry.value.data {
            Data::String(text) if FIELDS.contains(&entry.key.as_str()) && !is_time(text) => {
                let example = "must be a time like 2006-01-02T15:04:05Z or 2006-01-02T15:04:05+07:00";
                report.type_error(&path, format!("{example}, not {}", quoted(text)));
            }
            _ => check(&entry.value, &path, report),
        }
    }
    for (i, item) in node.items().iter().enumerate() {
        check(item, &path.index(i), report);
    }
}

/// True for what the API reads as a time: the hour may have one digit, a fraction any number of them.
pub(super) fn is_time(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(text: &str) -> Option<()> {
    let (year, rest) = number(text, 4)?;
    let (month, rest) = number(rest.strip_prefix('-')?, 2)?;
    let (day, rest) = number(rest.strip_prefix('-')?, 2)?;
    let rest = rest.strip_prefix('T')?;
    let (hour, rest) = number(rest, 2).or_else(|| number(rest, 1))?;
    let (minute, rest) = number(rest.strip_prefix(':')?, 2)?;
    let (second, rest) = number(rest.strip_prefix(':')?, 2)?;
    let days = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let fits = (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60;
    let rest = match rest.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|c: char| c.is_ascii_digit()) => {
            fraction.trim_start_matches(|c: char| c.is_ascii_digit())
        }
        Some(_) => return None,
        None => rest,
    };
    (fits && (rest == "Z" || is_offset(rest))).then_some(())
}

/// `+07:00`, with Go's bounds.
fn is_offset(text: &str) -> bool {
    let offset = || {
        let (hours, rest) = number(text.strip_prefix(['+', '-'])?, 2)?;
        let (minutes, rest) = number(rest.strip_prefix(':')?, 2)?;
        Some(hours <= 24 && minutes <= 60 && rest.is_empty())
    };
    offset() == Some(true)
}

/// A number of so many digits, and what follows.
fn number(text: &str, digits: usize) -> Option<(u32, &str)> {
    let (number, rest) = text.split_at_checked(digits)?;
    let number = Some(number).filter(|number| number.bytes().all(|b| b.is_ascii_digit()))?;
    Some((number.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kubelet's own verdicts.
    #[test]
    fn times_are_those_of_the_api() {
        for (text, expected) in [
            ("2020-01-01T00:00:00Z", true),
            ("2020-01-01T00:00:00.5Z", true),
            ("2020-01-01T00:00:00,5Z", true),
            ("2020-01-01T00:00:00.1234567890123Z", true),
            ("2020-01-01T0:00:00Z", true),
            ("2020-01-01T00:00:00+24:00", true),
            ("2020-01-01T00:00:00-12:60", true),
            ("9999-12-31T23:59:59Z", true),
            ("0000-01-01T00:00:00Z", true),
            ("2020-02-29T00:00:00Z", true),
            ("2000-02-29T00:00:00Z", true),
            ("2021-02-29T00:00:00Z", false),
            ("2100-02-29T00:00:00Z", false),
            ("2020-04-31T00:00:00Z", false),
            ("2020-01-01T00:00:00.Z", false),
            ("2020-01-01T00:00:00+0000", false),
            ("2020-01-01T00:00:00z", false),
            ("2020-01-01t00:00:00Z", false),
            ("2020-01-01 00:00:00Z", false),
            ("2020-01-01T00:00:00Z[UTC]", false),
            ("2020-01-01T00:00Z", false),
            ("2020-01-01T24:00:00Z", false),
            ("2020-01-01T23:59:60Z", false),
            ("20200101T000000Z", false),
            ("2020-13-01T00:00:00Z", false),
            ("2020-01-01", false),
            ("", false),
        ] {
            assert_eq!(is_time(text), expected, "{text}");
        }
    }
}
