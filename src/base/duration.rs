//! Durations in Go's format: in flags, annotations and events. Pure; error messages are Go's.

use std::time::Duration;

/// Nanoseconds per unit of a Go duration.
const UNITS: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses a duration in Go's format: `1m0s`, `300ms`, `1.5h`, `0`. At most 292 years, as in Go.
///
/// # Errors
/// A number without unit, an unknown unit, a negative or too large duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    if text.starts_with('-') {
        return Err(format!("{} (must not be negative)", invalid()));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, next) = split_at_first(after, |c| c.is_ascii_digit() || c == '.');
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        let part = scaled(number, *scale).ok_or_else(invalid)?;
        total = total.checked_add(part).filter(|t| i64::try_from(*t).is_ok()).ok_or_else(invalid)?;
        rest = next;
    }
    Ok(Duration::from_nanos(total))
}

/// `12.5` times `scale`, exact, rounded down; `None` when it is not a number or is too large.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut value = whole.checked_mul(scale)?;
    let mut place = scale;
    for digit in fraction.chars() {
        place /= 10;
        value = value.checked_add(place.checked_mul(u64::from(digit.to_digit(10)?))?)?;
    }
    Some(value)
}

fn split_at_first(text: &str, stop: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(stop).unwrap_or(text.len()))
}

/// A duration in Go's format, whole milliseconds: `431ms`, `1.2s`, `1m3.5s`.
#[must_use]
pub fn text(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let part = format!("{millis:03}");
    let (part, dot) = (part.trim_end_matches('0'), if millis == 0 { "" } else { "." });
    let seconds = format!("{}{dot}{part}s", seconds % 60);
    match (hours, minutes) {
        (0, 0) => seconds,
        (0, _) => format!("{minutes}m{seconds}"),
        _ => format!("{hours}h{minutes}m{seconds}"),
    }
}

/// A grace period of the API in seconds; `None` when negative, cut at `u32::MAX` when longer.
#[must_use]
pub fn grace(seconds: i64) -> Option<u32> {
    u64::try_from(seconds).ok().map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX))
}

/// Parses a boolean in Go's format.
///
/// # Errors
/// Any other word.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("parsing {text:?}: invalid syntax")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_that_is_too_long_is_the_longest_and_not_the_default() {
        assert_eq!([0, 30].map(grace), [Some(0), Some(30)]);
        assert_eq!([1 << 32, i64::MAX].map(grace), [Some(u32::MAX); 2]);
        assert_eq!(grace(-1), None);
    }

    #[test]
    fn durations_as_go_prints_them() {
        let check = |millis: u64, expected: &str| {
            assert_eq!(text(Duration::from_millis(millis)), expected);
        };
        check(0, "0s");
        check(431, "431ms");
        check(1000, "1s");
        check(1200, "1.2s");
        check(10_050, "10.05s");
        check(60_000, "1m0s");
        check(3_661_001, "1h1m1.001s");
    }
}
