//! Parses templates and paths (`client-go/util/jsonpath/parser.go`). Pure: the text is a user's.

use serde_json::Value;

use super::{Operand, Operator, Part, Step};
use crate::base::limits;

/// The unparsed rest of a text.
struct Rest<'a> {
    text: &'a str,
}

/// Parses a template.
pub fn template(text: &str) -> Result<Vec<Part>, String> {
    if text.len() > limits::TEMPLATE_BYTES {
        return Err(format!("the template is longer than {} bytes", limits::TEMPLATE_BYTES));
    }
    let mut rest = Rest { text };
    let parts = parts(&mut rest, 0)?;
    if !rest.text.is_empty() {
        return Err("not in range, nothing to end".to_owned());
    }
    Ok(parts)
}

/// Parses a path with or without braces.
pub fn relaxed(text: &str) -> Result<Vec<Step>, String> {
    let bare = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
    if bare.is_empty() || bare.contains(['{', '}']) || text.len() > limits::TEMPLATE_BYTES {
        return Err(format!(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{{name1.name2}}' or \
             '{{.name1.name2}}': {text:?}"
        ));
    }
    let bare = if bare.starts_with(['.', '[', '$', '@']) { bare.to_owned() } else { format!(".{bare}") };
    let mut rest = Rest { text: &bare };
    let path = path(&mut rest, 0)?;
    match rest.text {
        "" => Ok(path),
        more => Err(format!("unexpected {more:?} in a path")),
    }
}

/// Parses parts up to the end, or to the `{end}` of the range around them, which is not consumed.
fn parts(rest: &mut Rest<'_>, depth: usize) -> Result<Vec<Part>, String> {
    if depth > limits::TEMPLATE_DEPTH {
        return Err(format!("ranges stand in each other {} deep at most", limits::TEMPLATE_DEPTH));
    }
    let mut all = Vec::new();
    loop {
        let (before, after) = rest.text.split_at(rest.text.find('{').unwrap_or(rest.text.len()));
        if !before.is_empty() {
            all.push(Part::Text(before.to_owned()));
        }
        rest.text = after;
        if rest.text.is_empty() || is_end(rest.text) {
            return Ok(all);
        }
        rest.text = rest.text.strip_prefix('{').unwrap_or_default();
        rest.space();
        if let Some(after) = rest.text.strip_prefix("range ") {
            rest.text = after.trim_start();
            let path = path(rest, 0)?;
            rest.close()?;
            let inner = parts(rest, depth.saturating_add(1))?;
            let after = rest.text.split_once('}').filter(|_| is_end(rest.text));
            let Some((_, after)) = after else {
                return Err("unterminated range, {end} is missing".to_owned());
            };
            rest.text = after;
            all.push(Part::Range(path, inner));
            continue;
        }
        action(rest, &mut all)?;
    }
}

/// Whether a range ends here.
fn is_end(text: &str) -> bool {
    let inner = text.strip_prefix('{').and_then(|inner| inner.split_once('}'));
    inner.is_some_and(|(inner, _)| inner.trim() == "end")
}

/// Parses the content of a pair of braces: texts, numbers and paths, one after the other.
fn action(rest: &mut Rest<'_>, all: &mut Vec<Part>) -> Result<(), String> {
    loop {
        rest.space();
        match rest.first() {
            None => return Err("unclosed action".to_owned()),
            Some('}') => return rest.close(),
            Some('"' | '\'') => all.push(Part::Text(rest.quoted()?)),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' => {
                let number = rest.word(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
                number.parse::<f64>().map_err(|_| format!("cannot parse number {number}"))?;
                all.push(Part::Text(number.to_owned()));
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let word = rest.word(|c| c.is_ascii_alphanumeric());
                match word {
                    "true" | "false" => all.push(Part::Text(word.to_owned())),
                    other => return Err(format!("unrecognized identifier {other}")),
                }
            }
            Some(_) => {
                let before = rest.text.len();
                all.push(Part::Path(path(rest, 0)?));
                if rest.text.len() == before {
                    return Err(format!(
                        "unrecognized character in action: {:?}",
                        rest.first().unwrap_or(' ')
                    ));
                }
            }
        }
    }
}

/// Parses a path, up to the first character that cannot be part of it.
fn path(rest: &mut Rest<'_>, depth: usize) -> Result<Vec<Step>, String> {
    if depth > limits::TEMPLATE_DEPTH {
        return Err(format!("filters stand in each other {} deep at most", limits::TEMPLATE_DEPTH));
    }
    let mut all = Vec::new();
    if rest.text.starts_with(['$', '@']) {
        rest.skip();
    }
    loop {
        match rest.first() {
            Some('.') => {
                rest.skip();
                if rest.first() == Some('.') {
                    rest.skip();
                    all.push(Step::Descend);
                }
                match rest.first() {
                    Some('*') => {
                        rest.skip();
                        all.push(Step::All);
                    }
                    Some('[') => {}
                    _ => match rest.name() {
                        // A single dot is the value itself.
                        name if name.is_empty() => {}
                        name => all.push(Step::Field(name)),
                    },
                }
            }
            Some('[') => all.push(bracket(rest, depth)?),
            _ => return Ok(all),
        }
        if all.len() > limits::TEMPLATE_PATH {
            return Err(format!("a path has {} steps at most", limits::TEMPLATE_PATH));
        }
    }
}

/// Parses `[…]`.
fn bracket(rest: &mut Rest<'_>, depth: usize) -> Result<Step, String> {
    rest.skip();
    rest.space();
    if let Some(after) = rest.text.strip_prefix("?(") {
        rest.text = after;
        let filter = filter(rest, depth)?;
        rest.expect(')')?;
        rest.space();
        rest.expect(']')?;
        return Ok(filter);
    }
    let mut all = Vec::new();
    loop {
        rest.space();
        match rest.first() {
            Some('"' | '\'') => all.push(Step::Field(rest.quoted()?)),
            Some('*') => {
                rest.skip();
                all.push(Step::All);
            }
            _ => all.push(slice(rest)?),
        }
        rest.space();
        match rest.first() {
            Some(',') if all.len() < limits::TEMPLATE_PATH => rest.skip(),
            _ => break,
        }
    }
    rest.expect(']')?;
    match (all.len(), all.pop()) {
        (1, Some(only)) => Ok(only),
        (_, Some(last)) => {
            all.push(last);
            Ok(Step::Union(all))
        }
        (_, None) => Err("unterminated array".to_owned()),
    }
}

/// Parses `3`, `1:3`, `::2`.
fn slice(rest: &mut Rest<'_>) -> Result<Step, String> {
    let text = rest.word(|c| c.is_ascii_digit() || c == '-' || c == ':').to_owned();
    let number = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).map_err(|_| format!("array index {text} is not a number")),
    };
    let parts: Vec<Option<i64>> = text.split(':').map(number).collect::<Result<_, _>>()?;
    match parts.as_slice() {
        [Some(index)] => Ok(Step::Index(*index)),
        [from, to] => Ok(Step::Slice { from: *from, to: *to, step: None }),
        [from, to, step] => Ok(Step::Slice { from: *from, to: *to, step: *step }),
        _ => Err(format!("invalid array index {text:?}")),
    }
}

fn filter(rest: &mut Rest<'_>, depth: usize) -> Result<Step, String> {
    let left = operand(rest, depth)?;
    rest.space();
    let operators = [
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
    ];
    for (word, operator) in operators {
        if let Some(after) = rest.text.strip_prefix(word) {
            rest.text = after;
            let right = operand(rest, depth)?;
            rest.space();
            return Ok(Step::Filter { left, operator, right });
        }
    }
    Ok(Step::Filter { left, operator: Operator::Exists, right: Operand::Value(Value::Null) })
}

fn operand(rest: &mut Rest<'_>, depth: usize) -> Result<Operand, String> {
    rest.space();
    match rest.first() {
        Some('"' | '\'') => Ok(Operand::Value(rest.quoted()?.into())),
        Some('@' | '$' | '.' | '[') => path(rest, depth.saturating_add(1)).map(Operand::Path),
        _ => {
            let word = rest.word(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
            serde_json::from_str(word)
                .ok()
                .filter(|value: &Value| value.is_number() || value.is_boolean())
                .map(Operand::Value)
                .ok_or_else(|| format!("{word:?} in a filter is neither a path nor a value"))
        }
    }
}

impl<'a> Rest<'a> {
    fn first(&self) -> Option<char> {
        self.text.chars().next()
    }

    fn skip(&mut self) {
        let mut chars = self.text.chars();
        chars.next();
        self.text = chars.as_str();
    }

    fn space(&mut self) {
        self.text = self.text.trim_start();
    }

    fn word(&mut self, is_of_it: impl Fn(char) -> bool) -> &'a str {
        let end = self.text.find(|c| !is_of_it(c)).unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        word
    }

    fn expect(&mut self, wanted: char) -> Result<(), String> {
        if self.first() != Some(wanted) {
            return Err(format!(
                "{wanted:?} is missing before {:?}",
                self.text.chars().take(20).collect::<String>()
            ));
        }
        self.skip();
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.space();
        if self.first() != Some('}') {
            return Err("unclosed action".to_owned());
        }
        self.skip();
        Ok(())
    }

    /// Parses a name after a dot; `\` escapes the next character.
    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(c) = self.first() {
            if c == '\\' {
                self.skip();
                name.extend(self.first());
            } else if c.is_whitespace() || ".[]{}()\"'=!<>,|&".contains(c) {
                break;
            } else {
                name.push(c);
            }
            self.skip();
        }
        name
    }

    /// Parses a quoted text with Go's escapes.
    fn quoted(&mut self) -> Result<String, String> {
        let quote = self.first();
        self.skip();
        let mut text = String::new();
        loop {
            let c = self.first();
            self.skip();
            match c {
                None => return Err("unterminated quoted string".to_owned()),
                c if c == quote => return Ok(text),
                Some('\\') => {
                    let escaped = self.first();
                    self.skip();
                    match escaped {
                        Some('n') => text.push('\n'),
                        Some('t') => text.push('\t'),
                        Some('r') => text.push('\r'),
                        Some(c) if c == '\\' || c == '"' || c == '\'' || c == '.' => text.push(c),
                        _ => return Err("invalid escape in a quoted string".to_owned()),
                    }
                }
                Some(c) => text.push(c),
            }
        }
    }
}
