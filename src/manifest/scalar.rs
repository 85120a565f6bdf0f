//! The meaning of plain YAML scalars. The rules are those of kubectl and the kubelet (sigs.k8s.io/yaml, a
//! YAML 1.1 reader), so that a manifest means the same everywhere: `0644` is octal, `yes` and `on` are
//! booleans. Different on purpose: a bare `y` or `n` stays a string.

use serde_json::Number;

use super::tree::Data;

/// Data of an unquoted, untagged scalar.
pub(crate) fn resolve(text: &str) -> Data {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Data::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Data::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Data::Bool(false),
        _ => number(text).map_or_else(|| Data::String(text.to_owned()), Data::Number),
    }
}

/// True for YAML's numbers that JSON cannot write (`.inf`, `.nan`).
pub(crate) fn is_not_finite(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

/// The number of a scalar, if it looks like one.
pub(crate) fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if !first.is_ascii_digit() && !matches!(first, b'+' | b'-' | b'.') {
        return None;
    }
    integer(text).or_else(|| float(text))
}

/// As Go's `strconv.ParseInt(text, 0, 64)`, then `ParseUint`; underscores are dropped.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, digits.get(2..)?),
        Some("0o" | "0O") => (8, digits.get(2..)?),
        Some("0b" | "0B") => (2, digits.get(2..)?),
        Some(two) if two.starts_with('0') => (8, digits.get(1..)?),
        _ => (10, digits.as_str()),
    };
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let size = u64::from_str_radix(digits, radix).ok()?;
    if negative { i64::try_from(-i128::from(size)).ok().map(Number::from) } else { Some(Number::from(size)) }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`; a whole number becomes an integer, as in Go's JSON.
/// Underscores are dropped.
fn float(text: &str) -> Option<Number> {
    let text = &text.replace('_', "");
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent = exponent.map(|e| e.strip_prefix(['-', '+']).unwrap_or(e));
    if !digits(whole)
        || !digits(fraction)
        || (whole.is_empty() && fraction.is_empty())
        || exponent.is_some_and(|e| e.is_empty() || !digits(e))
    {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    as_integer(value).or_else(|| Number::from_f64(value))
}

/// The integer that a number with a point or an exponent is equal to.
pub(crate) fn as_integer(value: f64) -> Option<Number> {
    // 2^53: beyond it floats do not represent all whole numbers.
    #[allow(clippy::cast_possible_truncation)]
    (value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0).then(|| Number::from(value as i64))
}

/// The same number as JSON has it, in which one with a point or an exponent is no integer.
pub(crate) fn of_json(text: &str, data: Data) -> Data {
    match data {
        Data::Number(number) if text.contains(['.', 'e', 'E']) => {
            Data::Number(number.as_f64().and_then(Number::from_f64).unwrap_or(number))
        }
        data => data,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_mean_what_kubectl_reads() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!("y")),
            ("0", json!(0)),
            ("0644", json!(420)),
            ("0o17", json!(15)),
            ("0x1F", json!(31)),
            ("0b11", json!(3)),
            ("08", json!(8)),
            ("1_000", json!(1000)),
            ("_1", json!("_1")),
            ("-7", json!(-7)),
            ("+7", json!(7)),
            ("-", json!("-")),
            ("+-1", json!("+-1")),
            ("0x", json!("0x")),
            ("0x+1", json!("0x+1")),
            ("18446744073709551615", json!(18_446_744_073_709_551_615_u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("1e3", json!(1000)),
            ("1.5", json!(1.5)),
            ("1e3_", json!(1000)),
            ("1_0.5", json!(10.5)),
            (".5", json!(0.5)),
            ("1.", json!(1)),
            (".", json!(".")),
            ("1e", json!("1e")),
            ("1e999", json!("1e999")),
            (".inf", json!(".inf")),
            ("1.2.3", json!("1.2.3")),
            ("100m", json!("100m")),
            ("2001-01-01", json!("2001-01-01")),
            ("12:30", json!("12:30")),
        ] {
            let node = super::super::tree::Node { at: (1, 1), data: resolve(text) };
            assert_eq!(node.to_value(), expected, "{text:?}");
        }
    }
}
