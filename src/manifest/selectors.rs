//! Selectors in kubectl's syntax: `-l app=web,tier in (a, b)` and `--field-selector status.phase!=Running`. Upstream:
//! `apimachinery/pkg/labels/selector.go`, `apimachinery/pkg/fields/selector.go`. Pure.
//!
//! Never here: the fields of an object; selectors in manifests, which are in `validate/selector`.

use std::collections::BTreeMap;

use super::validate::names;

/// Conditions on the labels of an object. Without conditions every object is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

/// One requirement; all of them must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    rule: Rule,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    Exists,
    Absent,
    /// `=`, `==`, `in`.
    In(Vec<String>),
    /// `!=`, `notin`: an object without the label is selected.
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// A piece of a selector's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    /// A key, a value, `in` or `notin`.
    Word(&'a str),
    /// `!`, `(`, `)`, `,`, `=`, `==`, `!=`, `>` or `<`.
    Sign(&'a str),
}

impl<'a> Token<'a> {
    fn text(self) -> &'a str {
        match self {
            Token::Word(text) | Token::Sign(text) => text,
        }
    }
}

/// Splits a text into tokens: at spaces, and around signs.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_sign = |c: char| matches!(c, '!' | '(' | ')' | ',' | '=' | '>' | '<');
    let (mut rest, mut found) = (text.trim_start(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if ["==", "!="].iter().any(|two| rest.starts_with(two)) => 2,
            sign if is_sign(sign) => 1,
            _ => rest.find(|c: char| is_sign(c) || c.is_whitespace()).unwrap_or(rest.len()),
        };
        let (token, more) = rest.split_at(end);
        found.push(if is_sign(first) { Token::Sign(token) } else { Token::Word(token) });
        rest = more.trim_start();
    }
    found
}

/// Reads tokens one after the other.
struct Reader<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<&'a str> {
        self.tokens.peek().map(|token| token.text())
    }

    fn takes(&mut self, sign: &str) -> bool {
        self.tokens.next_if(|token| *token == Token::Sign(sign)).is_some()
    }

    /// The text of a word; empty if a sign or the end follows, as upstream reads `a=`.
    fn value(&mut self) -> &'a str {
        match self.tokens.peek() {
            Some(Token::Word(text)) => {
                let text = *text;
                self.tokens.next();
                text
            }
            _ => "",
        }
    }

    fn unexpected<T>(&mut self, expected: &str) -> Result<T, String> {
        let found = self.peek().unwrap_or_default();
        Err(format!("unable to parse requirement: found '{found}', expected: {expected}"))
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.takes("!");
        let key = match self.tokens.peek() {
            Some(Token::Word(key)) => (*key).to_owned(),
            _ => return self.unexpected("!, identifier, or 'end of string'"),
        };
        self.tokens.next();
        names::qualified(&key).map_err(|why| format!("key: Invalid value: {key:?}: {why}"))?;
        if absent {
            return Ok(Requirement { key, rule: Rule::Absent });
        }
        let rule = match self.peek() {
            None | Some(",") => Rule::Exists,
            Some(sign) => {
                self.tokens.next();
                self.rule(&key, sign)?
            }
        };
        Ok(Requirement { key, rule })
    }

    fn rule(&mut self, key: &str, sign: &str) -> Result<Rule, String> {
        let checked = |value: &str| match names::label_value(value) {
            Ok(()) => Ok(value.to_owned()),
            Err(why) => Err(format!("values[0][{key}]: Invalid value: {value:?}: {why}")),
        };
        match sign {
            "=" | "==" => Ok(Rule::In(vec![checked(self.value())?])),
            "!=" => Ok(Rule::NotIn(vec![checked(self.value())?])),
            "in" | "notin" => {
                let values = self.values()?.into_iter().map(checked).collect::<Result<_, _>>()?;
                Ok(if sign == "in" { Rule::In(values) } else { Rule::NotIn(values) })
            }
            ">" | "<" => {
                let value = self.value();
                let number: i64 = value.parse().map_err(|_| {
                    format!("values[0][{key}]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be \
                             an integer")
                })?;
                Ok(if sign == ">" { Rule::Greater(number) } else { Rule::Less(number) })
            }
            other => Err(format!(
                "unable to parse requirement: found '{other}', expected: in, notin, =, ==, !=, gt, lt"
            )),
        }
    }

    /// `(a, b)`; an empty item is the empty value.
    fn values(&mut self) -> Result<Vec<&'a str>, String> {
        if !self.takes("(") {
            return self.unexpected("'('");
        }
        let mut values = vec![self.value()];
        while self.takes(",") {
            values.push(self.value());
        }
        if self.takes(")") { Ok(values) } else { self.unexpected("',', or ')'") }
    }
}

impl LabelSelector {
    /// Parses a selector; an empty text selects everything.
    ///
    /// # Errors
    /// The mistake, in the API server's words.
    pub fn parse(text: &str) -> Result<LabelSelector, String> {
        let mut reader = Reader { tokens: tokens(text).into_iter().peekable() };
        let mut all = Vec::new();
        if reader.peek().is_none() {
            return Ok(LabelSelector(all));
        }
        loop {
            all.push(reader.requirement()?);
            if reader.peek().is_none() {
                return Ok(LabelSelector(all));
            }
            if !reader.takes(",") {
                return reader.unexpected("',' or 'end of string'");
            }
        }
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels are selected.
    #[must_use]
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.0.iter().all(|each| {
            let value = labels.and_then(|labels| labels.get(&each.key));
            let number = value.and_then(|value| value.parse::<i64>().ok());
            match &each.rule {
                Rule::Exists => value.is_some(),
                Rule::Absent => value.is_none(),
                Rule::In(values) => value.is_some_and(|value| values.contains(value)),
                Rule::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Rule::Greater(than) => number.is_some_and(|number| number > *than),
                Rule::Less(than) => number.is_some_and(|number| number < *than),
            }
        })
    }
}

/// Conditions on the fields of an object. Without conditions every object is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldRequirement {
    field: String,
    value: String,
    /// True for `=` and `==`, false for `!=`.
    equal: bool,
}

impl FieldSelector {
    /// Parses a selector; an empty text selects everything.
    ///
    /// # Errors
    /// The mistake, in the API server's words.
    pub fn parse(text: &str) -> Result<FieldSelector, String> {
        let terms = unescaped_commas(text).into_iter().filter(|term| !term.is_empty());
        let all = terms.map(|term| {
            let invalid = || format!("invalid selector: '{text}'; can't understand '{term}'");
            let at = term.find('=').ok_or_else(invalid)?;
            let (left, right) = term.split_at(at);
            let right = right.strip_prefix("==").or_else(|| right.strip_prefix('=')).unwrap_or(right);
            let (field, equal) = left.strip_suffix('!').map_or((left, true), |field| (field, false));
            let value = unescape(right).ok_or_else(|| {
                format!("invalid field selector: invalid escape sequence in value: {right}")
            })?;
            Ok(FieldRequirement { field: field.to_owned(), value, equal })
        });
        all.collect::<Result<_, _>>().map(FieldSelector)
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields in the conditions, with repetitions.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|each| each.field.as_str())
    }

    /// Whether the fields are selected. `value` returns the value of a field; an unset one is empty.
    #[must_use]
    pub fn matches<'v>(&self, value: impl Fn(&str) -> &'v str) -> bool {
        self.0.iter().all(|each| (value(&each.field) == each.value) == each.equal)
    }
}

/// Splits at commas, but not at `\,`.
fn unescaped_commas(text: &str) -> Vec<&str> {
    let (mut escaped, mut terms, mut from) = (false, Vec::new(), 0);
    for (at, c) in text.char_indices() {
        if c == ',' && !escaped {
            terms.push(text.get(from..at).unwrap_or_default());
            from = at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(text.get(from..).unwrap_or_default());
    terms
}

/// Resolves `\\`, `\,` and `\=`; `None` for another escape, or for a sign that must be escaped.
fn unescape(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text.chars());
    while let Some(c) = rest.next() {
        match c {
            '\\' => out.push(rest.next().filter(|next| matches!(next, '\\' | ',' | '='))?),
            ',' | '=' => return None,
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Rows of `TestSelectorMatches` and `TestSetMatches` of `labels/selector_test.go`, and common uses of `-l`.
    #[test]
    fn labels_are_selected_as_upstream_selects_them() {
        let table = [
            ("", "x=y", true),
            ("x=y", "x=y", true),
            ("x=y,z=w", "x=y,z=w", true),
            ("x!=y,z!=w", "x=z,z=a", true),
            ("notin=in", "notin=in", true),
            ("x", "x=z", true),
            ("!x", "y=z", true),
            ("x>1", "x=2", true),
            ("x<1", "x=0", true),
            ("x=z", "", false),
            ("x=y", "x=z", false),
            ("x=y,z=w", "x=w,z=w", false),
            ("x!=y,z!=w", "x=z,z=w", false),
            ("x", "y=z", false),
            ("!x", "x=z", false),
            ("x>1", "x=0", false),
            ("x<1", "x=2", false),
            ("x>1", "x=a", false),
            ("x!=a", "y=a", true),
            ("x in (a, b)", "x=b", true),
            ("x in (a,b)", "x=c", false),
            ("x notin (a,b)", "y=a", true),
            ("x notin (a,b)", "x=a", false),
            ("x in (a,)", "x=", true),
            ("x=", "x=", true),
            ("x=,y=1", "x=,y=1", true),
            ("example.com/tier == web , y", "example.com/tier=web,y=1", true),
        ];
        for (selector, of, expected) in table {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(Some(&labels(of))), expected, "{selector:?} of {of:?}");
        }
        assert!(!LabelSelector::parse("x").unwrap().matches(None));
        assert!(LabelSelector::parse("!x").unwrap().matches(None));
    }

    #[test]
    fn what_is_no_label_selector_is_refused() {
        for bad in [
            "x=a||y=b", "x==a==b", "!x=a", "x<a", "x in a", "x in (a", "x,", ",x", "x y", "a//b", "x=(a)",
            "=x", "x=$",
        ] {
            let why = LabelSelector::parse(bad).unwrap_err();
            assert!(!why.is_empty(), "{bad}");
        }
        let why = LabelSelector::parse("x in a").unwrap_err();
        assert_eq!(why, "unable to parse requirement: found 'a', expected: '('");
    }

    #[test]
    fn fields_are_selected_as_upstream_selects_them() {
        let table = [
            ("", true),
            ("status.phase=Running", true),
            ("status.phase==Running", true),
            ("status.phase!=Running", false),
            ("status.phase!=Failed,metadata.name=web", true),
            ("metadata.name=web,status.phase=Failed", false),
            ("spec.nodeName=", true),
            ("spec.nodeName!=", false),
        ];
        for (selector, expected) in table {
            let fields = |field: &str| match field {
                "status.phase" => "Running",
                "metadata.name" => "web",
                _ => "",
            };
            assert_eq!(FieldSelector::parse(selector).unwrap().matches(fields), expected, "{selector}");
        }
        let escaped = FieldSelector::parse(r"a=x\,y\=z\\,b!=1").unwrap();
        assert!(escaped.matches(|field| if field == "a" { r"x,y=z\" } else { "" }));
        assert_eq!(escaped.fields().collect::<Vec<_>>(), ["a", "b"]);
        for bad in ["a", "a=b=c", r"a=\x", r"a=x\"] {
            assert!(FieldSelector::parse(bad).is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,60}", sharp in "[a-c!=<>(), in]{0,30}") {
            for text in [text, sharp] {
                if let Ok(selector) = LabelSelector::parse(&text) {
                    _ = selector.matches(Some(&labels("a=b,b=1")));
                }
                if let Ok(selector) = FieldSelector::parse(&text) {
                    _ = selector.matches(|_| "b");
                }
            }
        }
    }
}
