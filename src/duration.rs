//! Durations as Go writes them: in flags and annotations. Pure; messages are those of Go.

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

/// A duration as Go writes it: `1m0s`, `300ms`, `1.5h`, `0`. At most 292 years, as in Go.
///
/// # Errors
/// A bare number, an unknown unit, a negative or too large duration.
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

/// `12.5` times `scale`, exact, rounded down; `None` when it is not a number or too large.
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
