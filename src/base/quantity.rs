//! Kubernetes quantities (`500m`, `1.5Gi`, `1e3`) as whole numbers, exactly. No floating point here, and no
//! arithmetic that wraps.
//!
//! Upstream: `staging/src/k8s.io/apimachinery/pkg/api/resource/quantity.go`. As there, a remaining fraction
//! is rounded away from zero (`0.1` of a byte is one byte), a value that does not fit 63 bits becomes the
//! largest one that does, spaces around a quantity are ignored, and a text without digits (`Gi`, `.`) is zero.
//! Settings of the operator are read with [`written`], which wants a number.

use std::fmt;

/// The text is not a number with an optional suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantityError;

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a number with an optional suffix: m, k, M, G, Ki, Mi, Gi, e3 …")
    }
}

impl std::error::Error for QuantityError {}

/// The value in thousandths, rounded away from zero (`MilliValue()`): milli-CPUs of a `cpu` quantity.
///
/// # Errors
/// See [`QuantityError`].
pub fn milli(text: &str) -> Result<i64, QuantityError> {
    parse(text).map(|quantity| quantity.scaled(3))
}

/// The value in whole units, rounded away from zero (`Value()`): bytes of a `memory` quantity.
///
/// # Errors
/// See [`QuantityError`].
pub fn value(text: &str) -> Result<i64, QuantityError> {
    parse(text).map(|quantity| quantity.scaled(0))
}

/// The same as [`value`] for a setting of podkeeper itself: a suffix without a number is an error.
///
/// # Errors
/// See [`QuantityError`].
pub fn written(text: &str) -> Result<i64, QuantityError> {
    if has_digits(text) { value(text) } else { Err(QuantityError) }
}

/// Whether it is a quantity with digits before its suffix; one without them is zero.
#[must_use]
pub fn has_digits(text: &str) -> bool {
    parse(text).is_ok_and(|quantity| !(quantity.whole.is_empty() && quantity.fraction.is_empty()))
}

/// The value in billionths, rounded away from zero: upstream keeps no smaller part.
fn nano(text: &str) -> Result<i64, QuantityError> {
    parse(text).map(|quantity| quantity.scaled(9))
}

/// Thousandths of a CPU as a quantity: `2`, `1500m`.
#[must_use]
pub fn cores(milli: i64) -> String {
    if milli % 1000 == 0 { (milli / 1000).to_string() } else { format!("{milli}m") }
}

/// Bytes as a quantity, with the largest binary suffix that leaves a whole number: `1Gi`, `1500Ki`, `7`.
#[must_use]
pub fn bytes(number: i64) -> String {
    canonical(number, "Ki")
}

/// A whole number as the API writes it, in the same format as `like`: with the largest suffix that leaves it whole
/// (`1Gi` for 1024Mi, `100M` for 100000000).
#[must_use]
pub fn canonical(value: i64, like: &str) -> String {
    let (base, suffixes) = match like.trim().ends_with('i') {
        true => (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
        false => (1000, ["", "k", "M", "G", "T", "P", "E"]),
    };
    let (mut number, mut suffix) = (value, "");
    for larger in suffixes.into_iter().skip(1) {
        if number == 0 || number % base != 0 {
            break;
        }
        (number, suffix) = (number / base, larger);
    }
    format!("{number}{suffix}")
}

/// Whether both are the same quantity in the same format: decimal (`1k`), binary (`1Ki`) or with an exponent. As
/// upstream, a text with a sign or a needless zero in front of it is no other's.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    let is_bare = |text: &str| match text.as_bytes() {
        [b'0', next, ..] => !next.is_ascii_digit(),
        [first, ..] => *first != b'+',
        [] => true,
    };
    let kind = |text: &str| {
        let suffix = trim(text).trim_start_matches(|c: char| c.is_ascii_digit() || "+-.".contains(c));
        (suffix.ends_with('i'), suffix.len() > 1 && suffix.starts_with(['e', 'E']))
    };
    (value(a), milli(a), nano(a)) == (value(b), milli(b), nano(b))
        && value(a).is_ok()
        && kind(a) == kind(b)
        && is_bare(trim(a))
        && is_bare(trim(b))
}

/// Removes spaces at both ends, except those that JSON writes with a backslash: upstream reads JSON's own
/// text.
fn trim(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() && !c.is_control())
}

/// `sign digits.fraction x 10^exponent x 2^binary`, still in the text's own digits.
struct Parsed<'a> {
    negative: bool,
    /// Digits before the point.
    whole: &'a str,
    /// Digits after the point.
    fraction: &'a str,
    exponent: i32,
    binary: u32,
}

fn parse(text: &str) -> Result<Parsed<'_>, QuantityError> {
    let text = trim(text);
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = split_digits(rest);
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(rest) => split_digits(rest),
        None => ("", rest),
    };
    let (exponent, binary) = parse_suffix(suffix).ok_or(QuantityError)?;
    // Upstream reads no digits as zero, unless the suffix is beyond its fast path: `Pi`, `Ei`, `e-10`.
    let has_none = whole.is_empty() && fraction.is_empty();
    if has_none && (text.is_empty() || exponent < -9 || binary > 40) {
        return Err(QuantityError);
    }
    Ok(Parsed { negative, whole, fraction, exponent, binary })
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// Powers of ten and of two for a suffix.
fn parse_suffix(suffix: &str) -> Option<(i32, u32)> {
    Some(match suffix {
        "n" => (-9, 0),
        "u" => (-6, 0),
        "m" => (-3, 0),
        "" => (0, 0),
        "k" => (3, 0),
        "M" => (6, 0),
        "G" => (9, 0),
        "T" => (12, 0),
        "P" => (15, 0),
        "E" => (18, 0),
        "Ki" => (0, 10),
        "Mi" => (0, 20),
        "Gi" => (0, 30),
        "Ti" => (0, 40),
        "Pi" => (0, 50),
        "Ei" => (0, 60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            (exponent.parse().ok()?, 0)
        }
    })
}

impl Parsed<'_> {
    /// The value times `10^extra`, rounded away from zero, at most [`i64::MAX`] away from it.
    fn scaled(&self, extra: i32) -> i64 {
        let magnitude = self.magnitude(extra).unwrap_or(i64::MAX);
        if self.negative { -magnitude } else { magnitude }
    }

    /// The value without its sign; `None` when it does not fit.
    ///
    /// The decimal point is moved over the digits instead of multiplying, so that no quantity that fits is
    /// lost to an intermediate that does not. Work is bounded by the text's length: padding with zeros stops
    /// as soon as it cannot change the result.
    fn magnitude(&self, extra: i32) -> Option<i64> {
        let digits = || self.whole.bytes().chain(self.fraction.bytes()).map(|b| u128::from(b - b'0'));
        if digits().all(|d| d == 0) {
            return Some(0);
        }
        let count = self.whole.len() + self.fraction.len();
        let point = i64::try_from(self.whole.len()).unwrap_or(i64::MAX);
        let point = point.saturating_add(i64::from(self.exponent)).saturating_add(i64::from(extra));
        let before = usize::try_from(point).unwrap_or(0);
        let unit = 1_u128 << self.binary;

        let mut whole: u128 = 0;
        for digit in digits().take(before) {
            whole = shift_in(whole, digit)?;
        }
        if whole != 0 {
            for _ in count..before {
                whole = shift_in(whole, 0)?;
            }
        }
        let whole = whole.checked_mul(unit)?;

        // Fraction x 2^binary, from its last digit on: `carry` becomes the whole part; `rest` is true when a
        // remainder below it was dropped.
        let (mut carry, mut rest) = (0_u128, false);
        let fraction: Vec<u128> = digits().skip(before).collect();
        for digit in fraction.into_iter().rev() {
            let sum = digit * unit + carry;
            carry = sum / 10;
            rest |= !sum.is_multiple_of(10);
        }
        for _ in point..0 {
            if carry == 0 {
                break;
            }
            rest |= !carry.is_multiple_of(10);
            carry /= 10;
        }
        let magnitude = whole.checked_add(carry).and_then(|sum| sum.checked_add(u128::from(rest)));
        magnitude.and_then(|m| i64::try_from(m).ok())
    }
}

/// `number x 10 + digit`, while it can still end below 2^63.
fn shift_in(number: u128, digit: u128) -> Option<u128> {
    let number = number * 10 + digit;
    if number > i64::MAX.unsigned_abs().into() { None } else { Some(number) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values() {
        let check = |text: &str, whole: Result<i64, QuantityError>, milli_: Result<i64, QuantityError>| {
            assert_eq!((text, value(text), milli(text)), (text, whole, milli_));
        };
        check("0", Ok(0), Ok(0));
        check("-0.0", Ok(0), Ok(0));
        check("1", Ok(1), Ok(1000));
        check("+1", Ok(1), Ok(1000));
        check("-1", Ok(-1), Ok(-1000));
        check("100m", Ok(1), Ok(100));
        check("1500m", Ok(2), Ok(1500));
        check("-1500m", Ok(-2), Ok(-1500));
        check("0.5", Ok(1), Ok(500));
        check(".5", Ok(1), Ok(500));
        check("5.", Ok(5), Ok(5000));
        check("1.0005", Ok(2), Ok(1001));
        check("1n", Ok(1), Ok(1));
        check("1000001u", Ok(2), Ok(1001));
        check("1k", Ok(1000), Ok(1_000_000));
        check("1Ki", Ok(1024), Ok(1_024_000));
        check("64Mi", Ok(67_108_864), Ok(67_108_864_000));
        check("64M", Ok(64_000_000), Ok(64_000_000_000));
        check("1.5Gi", Ok(1_610_612_736), Ok(1_610_612_736_000));
        check("0.1Ki", Ok(103), Ok(102_400));
        check("1e3", Ok(1000), Ok(1_000_000));
        check("1E3", Ok(1000), Ok(1_000_000));
        check("1e+3", Ok(1000), Ok(1_000_000));
        check("12e-1", Ok(2), Ok(1200));
        check("1E", Ok(1_000_000_000_000_000_000), Ok(i64::MAX));
        check("1Ei", Ok(1_152_921_504_606_846_976), Ok(i64::MAX));
        check("7Ei", Ok(8_070_450_532_247_928_832), Ok(i64::MAX));
        check("8Ei", Ok(i64::MAX), Ok(i64::MAX));
        check("9223372036854775807", Ok(i64::MAX), Ok(i64::MAX));
        check("9223372036854775807.1", Ok(i64::MAX), Ok(i64::MAX));
        check("9223372036854775808", Ok(i64::MAX), Ok(i64::MAX));
        check("1e2147483647", Ok(i64::MAX), Ok(i64::MAX));
        check("-1e30", Ok(-i64::MAX), Ok(-i64::MAX));
        check(" 1 ", Ok(1), Ok(1000));
        check("\u{a0}1Mi", Ok(1_048_576), Ok(1_048_576_000));
        check("1e-2147483647", Ok(1), Ok(1));
        check("0e2147483647", Ok(0), Ok(0));
        check("0.00000000000000000000000000000000000000000001Ei", Ok(1), Ok(1));
        check("00000000000000000000000000000000000000000000002", Ok(2), Ok(2000));
        check("0.125000000000000000000000000000000000000000000Ki", Ok(128), Ok(128_000));
    }

    #[test]
    fn the_same_quantity_in_other_words() {
        for (a, b, expected) in [
            ("1", "1000m", true),
            ("1", "1.0", true),
            ("1k", "1000", true),
            ("1Mi", "1024Ki", true),
            ("1Ki", "1024", false),
            ("1k", "1e3", false),
            ("1m", "1000u", true),
            ("1m", "1u", false),
            ("1n", "0.1n", true),
            ("1E", "1000P", true),
            ("1", "2", false),
            ("x", "x", false),
            ("1", "+1", false),
            ("1", "001", false),
            ("1k", "0.001M", true),
        ] {
            assert_eq!(same(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn without_digits_it_is_zero() {
        for text in
            [".", "-", "+", "-.", "m", "+m", "n", "Ki", ".Mi", "-Gi", "Ti", "E", "e3", "e-9", "E+30", " m "]
        {
            assert_eq!((text, value(text), milli(text)), (text, Ok(0), Ok(0)));
            assert_eq!((text, written(text)), (text, Err(QuantityError)));
        }
        assert_eq!(written("0"), Ok(0));
        assert_eq!(written("10Mi"), Ok(10 << 20));
    }

    #[test]
    fn syntax() {
        for text in [
            "",
            " ",
            "K",
            "i",
            "e",
            "--",
            "Pi",
            "-.Ei",
            "e-10",
            "1\n",
            "1 1",
            "1i",
            "1K",
            "1mi",
            "1kI",
            "1.1.M",
            "1+1.0M",
            "0.1mi",
            "1e",
            "1e3.5",
            "1e3Ki",
            "--1",
            "0x10",
            "1e99999999999",
            "١",
            "1_000",
            "Inf",
            "NaN",
        ] {
            assert_eq!((text, value(text)), (text, Err(QuantityError)));
            assert_eq!((text, milli(text)), (text, Err(QuantityError)));
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+]?[0-9.]{0,50}([eE][-+]?[0-9]{0,12}|[numkMGTPE]i?)?|.{0,30}") {
            let _ = (value(&text), milli(&text));
        }
        #[test]
        fn agrees_with_arithmetic(n in -4_000_000_000_i64..4_000_000_000, f in 0_i64..1000) {
            let sign = if n < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{f:03}", n.abs());
            let thousandths = (n.abs() * 1000 + f) * if n < 0 { -1 } else { 1 };
            prop_assert_eq!(milli(&text), Ok(thousandths));
            let kibi = (n.abs() * 1000 + f) * 1024;
            let rounded = (kibi + 999) / 1000 * if n < 0 { -1 } else { 1 };
            prop_assert_eq!(value(&format!("{text}Ki")), Ok(rounded));
        }
    }

    #[test]
    fn canonical_text() {
        let check = |value: i64, like: &str, expected: &str| assert_eq!(canonical(value, like), expected);
        check(1 << 30, "1024Mi", "1Gi");
        check(3 << 29, "1Gi", "1536Mi");
        check(100_000_000, "100M", "100M");
        check(1500, "1500", "1500");
        check(0, "1Gi", "0");
        check(1 << 30, "1073741824", "1073741824");
    }
}
