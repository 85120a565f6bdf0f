//! JSON values as YAML in kubectl's style: sorted keys, lists not indented, quotes only where a reader could take a
//! string for another type. Pure. The output reads back as the same value.

use serde_json::{Map, Value};

use crate::base::order;

/// The value as a YAML document, with a line break at its end.
#[must_use]
pub fn emit(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => mapping(&mut out, map, 0, false),
        Value::Array(list) if !list.is_empty() => sequence(&mut out, list, 0),
        scalar => {
            flow(&mut out, scalar, 0);
            out.push('\n');
        }
    }
    out
}

/// `continued`: the first key follows a `- ` on its line.
fn mapping(out: &mut String, map: &Map<String, Value>, indent: usize, continued: bool) {
    let mut entries: Vec<_> = map.iter().collect();
    order::sort_by_key(&mut entries, |(key, _)| *key);
    for (index, (key, value)) in entries.into_iter().enumerate() {
        if index > 0 || !continued {
            spaces(out, indent);
        }
        string(out, key, None);
        out.push(':');
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push('\n');
                mapping(out, map, indent + 2, false);
            }
            Value::Array(list) if !list.is_empty() => {
                out.push('\n');
                sequence(out, list, indent);
            }
            scalar => {
                out.push(' ');
                flow(out, scalar, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn sequence(out: &mut String, list: &[Value], indent: usize) {
    for value in list {
        spaces(out, indent);
        match value {
            Value::Object(map) if !map.is_empty() => {
                out.push_str("- ");
                mapping(out, map, indent + 2, true);
            }
            Value::Array(list) if !list.is_empty() => {
                out.push_str("-\n");
                sequence(out, list, indent + 2);
            }
            scalar => {
                out.push_str("- ");
                flow(out, scalar, indent + 2);
                out.push('\n');
            }
        }
    }
}

fn flow(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(yes) => out.push_str(if *yes { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number.to_string()),
        Value::String(text) => string(out, text, Some(indent)),
        Value::Array(_) => out.push_str("[]"),
        Value::Object(_) => out.push_str("{}"),
    }
}

fn spaces(out: &mut String, number: usize) {
    out.extend(std::iter::repeat_n(' ', number));
}

/// `block`: the indent of a block scalar; `None` for a key, which cannot be one.
fn string(out: &mut String, text: &str, block: Option<usize>) {
    match (style(text), block) {
        (Style::Plain, _) => out.push_str(text),
        (Style::Single, _) => {
            out.push('\'');
            out.push_str(&text.replace('\'', "''"));
            out.push('\'');
        }
        (Style::Block, Some(indent)) => literal(out, text, indent),
        (Style::Block | Style::Double, _) => double(out, text),
    }
}

/// A literal block: `|` with the indicator of the line breaks at the end of the text.
fn literal(out: &mut String, text: &str, indent: usize) {
    let body = text.strip_suffix('\n');
    out.push_str(match body {
        None => "|-",
        Some(body) if body.ends_with('\n') => "|+",
        Some(_) => "|",
    });
    for line in body.unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            spaces(out, indent);
            out.push_str(line);
        }
    }
}

fn double(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) <= 0xff => out.push_str(&format!("\\x{:02X}", u32::from(c))),
            c if u32::from(c) <= 0xffff => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out.push('"');
}

enum Style {
    Plain,
    Single,
    Double,
    Block,
}

fn is_printable(c: char) -> bool {
    !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

fn style(text: &str) -> Style {
    if text.contains('\n') {
        let harmless = text.chars().all(|c| c == '\n' || is_printable(c))
            && !text.starts_with([' ', '\n'])
            && text.split('\n').all(|line| !line.ends_with(' '))
            && text.trim_end_matches('\n').len() + 1 >= text.len();
        return if harmless { Style::Block } else { Style::Double };
    }
    if !text.chars().all(is_printable) || is_other_type(text) {
        return Style::Double;
    }
    let first_is_special = text.starts_with([
        '-', '?', ':', ',', '[', ']', '{', '}', '#', '&', '*', '!', '|', '>', '\'', '"', '%', '@', '`', ' ',
    ]);
    let inner_is_special = text.contains(": ") || text.contains(" #") || text.ends_with([':', ' ']);
    // `-x` and `:x` are plain strings; `- x` and a lone `-` are not.
    let dash_is_plain = text.starts_with(['-', '?', ':'])
        && text.chars().nth(1).is_some_and(|c| !matches!(c, ' ' | '-' | ',' | '[' | ']' | '{' | '}'));
    if inner_is_special || (first_is_special && !dash_is_plain) { Style::Single } else { Style::Plain }
}

/// Whether some YAML reader (1.1 or 1.2) could take it for null, a boolean, a number or a date.
fn is_other_type(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "null", "true", "false", "yes", "no", "on", "off", "y", "n", ".inf", "+.inf", "-.inf",
        ".nan", "<<", "=", "---", "...",
    ];
    let lower = text.to_ascii_lowercase();
    let unsigned = lower.trim_start_matches(['+', '-']);
    // Decimal, exponent, octal, base 60, date; no reader in use takes an IPv4 address for one of them.
    let decimal = unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && unsigned.chars().all(|c| c.is_ascii_digit() || "+-._:eotz ".contains(c))
        && text.parse::<std::net::Ipv4Addr>().is_err();
    let based = ["0x", "0b"].iter().any(|p| unsigned.starts_with(p));
    let numeric = (decimal && unsigned.contains(|c: char| c.is_ascii_digit())) || based;
    WORDS.contains(&lower.as_str()) || numeric
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: Value, expected: &str) {
        assert_eq!(emit(&value), expected);
        assert_eq!(serde_saphyr::from_str::<Value>(expected).unwrap(), value, "{expected}");
    }

    #[test]
    fn kubectls_style() {
        check(json!({"b": 1, "a": {"c": [1, "x"]}}), "a:\n  c:\n  - 1\n  - x\nb: 1\n");
        check(json!([{"a": 1, "b": [{"c": 2}]}]), "- a: 1\n  b:\n  - c: 2\n");
        check(json!([[1], []]), "-\n  - 1\n- []\n");
        check(
            json!({"a": {}, "b": [], "c": null, "d": true, "e": 1.5}),
            "a: {}\nb: []\nc: null\nd: true\ne: 1.5\n",
        );
        check(json!({}), "{}\n");
    }

    #[test]
    fn strings_keep_their_type() {
        let check = |text: &str, written: &str| check(json!({ "a": text }), &format!("a: {written}\n"));
        check("web-node1", "web-node1");
        check("docker://abc", "docker://abc");
        check("sha256:ab", "sha256:ab");
        check("-c", "-c");
        check("", "\"\"");
        check("true", "\"true\"");
        check("No", "\"No\"");
        check("1", "\"1\"");
        check("1e3", "\"1e3\"");
        check("0x1f", "\"0x1f\"");
        check("10.0.0.1", "10.0.0.1");
        check("4ba6c1d2-0000", "4ba6c1d2-0000");
        check("2026-01-02T03:04:05Z", "\"2026-01-02T03:04:05Z\"");
        check("*", "'*'");
        check("it's: x", "'it''s: x'");
        check("a #b", "'a #b'");
        check("- a", "'- a'");
        check("a\nb", "|-\n  a\n  b");
        check("a\n\nb\n", "|\n  a\n\n  b");
        check("a \nb", "\"a \\nb\"");
        check("\u{1b}[m\u{85}\u{2028}", "\"\\x1B[m\\x85\\u2028\"");
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text =
            prop_oneof!["(?s).{0,12}", "[-0-9.eExXtTzZ:+_ ]{0,10}", "[a-z:#&*'\"|>%@`!?,\\[\\]{}\n -]{0,12}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            text.clone().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(text.clone(), inner, 0..5)
                    .prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in any_value()) {
            let written = emit(&value);
            let read = serde_saphyr::from_str::<Value>(&written);
            prop_assert!(read.is_ok(), "{written:?}: {read:?}");
            prop_assert_eq!(read.unwrap(), value, "{:?}", written);
        }
    }
}
