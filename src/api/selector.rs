//! Label selectors and field selectors of a request (`apimachinery/pkg/labels/selector.go`,
//! `apimachinery/pkg/fields/selector.go`). Pure: the texts are a client's.

use serde_json::Value;

use super::kinds::Resource;
use crate::base::limits;

/// A requirement on labels.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In,
    NotIn,
    GreaterThan,
    LessThan,
}

/// Requirements on labels, all of which an object must meet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Vec<Requirement>);

/// Requirements on fields: path, whether it must be equal, and the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fields(Vec<(String, bool, String)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 9] = ["==", "!=", "=", ",", "(", ")", "!", ">", "<"];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let (mut out, mut rest) = (Vec::new(), text);
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(out);
        }
        if out.len() >= limits::API_SELECTOR {
            return Err("the selector is too long".to_owned());
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            out.push(Token::Sign(sign));
            rest = rest.get(sign.len()..).unwrap_or_default();
            continue;
        }
        let is_end = |c: char| c.is_whitespace() || "=!,()<>".contains(c);
        let (word, after) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        out.push(Token::Word(word.to_owned()));
        rest = after;
    }
}

impl Labels {
    /// Reads a selector: `a=b,c!=d,e in (f,g),!h,i>1`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Labels, String> {
        let wrong = || format!("unable to parse requirement: {text:?} is no label selector");
        let tokens = tokens(text)?;
        let mut rest = tokens.as_slice();
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(requirement(&mut rest).ok_or_else(wrong)?);
            match rest.split_first() {
                None => {}
                Some((Token::Sign(","), after)) if !after.is_empty() => rest = after,
                Some(_) => return Err(wrong()),
            }
        }
        Ok(Labels(all))
    }

    /// Whether an object with these `metadata.labels` meets all requirements.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let label = |key: &str| object.get("metadata")?.get("labels")?.get(key)?.as_str();
        self.0.iter().all(|wanted| {
            let value = label(&wanted.key);
            let is_among = value.is_some_and(|value| wanted.values.iter().any(|one| one == value));
            let number = |text: &str| text.parse::<i64>().ok();
            let compared = || {
                let limit = wanted.values.first().and_then(|text| number(text))?;
                Some(value.and_then(number)?.cmp(&limit))
            };
            match wanted.operator {
                Operator::Exists => value.is_some(),
                Operator::DoesNotExist => value.is_none(),
                Operator::In => is_among,
                Operator::NotIn => !is_among,
                Operator::GreaterThan => compared() == Some(std::cmp::Ordering::Greater),
                Operator::LessThan => compared() == Some(std::cmp::Ordering::Less),
            }
        })
    }
}

fn word(rest: &mut &[Token]) -> Option<String> {
    let (first, after) = rest.split_first()?;
    let Token::Word(word) = first else { return None };
    *rest = after;
    Some(word.clone())
}

fn requirement(rest: &mut &[Token]) -> Option<Requirement> {
    if let Some((Token::Sign("!"), after)) = rest.split_first() {
        *rest = after;
        return Some(Requirement { key: word(rest)?, operator: Operator::DoesNotExist, values: Vec::new() });
    }
    let key = word(rest)?;
    let operator = match rest.first() {
        None | Some(Token::Sign(",")) => {
            return Some(Requirement { key, operator: Operator::Exists, values: Vec::new() });
        }
        Some(Token::Sign("=" | "==")) => Operator::In,
        Some(Token::Sign("!=")) => Operator::NotIn,
        Some(Token::Sign(">")) => Operator::GreaterThan,
        Some(Token::Sign("<")) => Operator::LessThan,
        Some(Token::Word(word)) if word == "in" => Operator::In,
        Some(Token::Word(word)) if word == "notin" => Operator::NotIn,
        Some(_) => return None,
    };
    let is_set = matches!(rest.first(), Some(Token::Word(_)));
    *rest = rest.get(1..).unwrap_or_default();
    let values = if is_set { set(rest)? } else { vec![word(rest).unwrap_or_default()] };
    let is_compared = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    if is_compared && values.iter().any(|value| value.parse::<i64>().is_err()) {
        return None;
    }
    Some(Requirement { key, operator, values })
}

/// `(a, b)`
fn set(rest: &mut &[Token]) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let Some((Token::Sign("("), after)) = rest.split_first() else { return None };
    *rest = after;
    loop {
        values.push(word(rest).unwrap_or_default());
        let (sign, after) = rest.split_first()?;
        *rest = after;
        match sign {
            Token::Sign(",") => {}
            Token::Sign(")") => return Some(values),
            _ => return None,
        }
    }
}

/// The fields that can be selected beside name and namespace (`pkg/apis/core/v1/conversion.go`, and the strategies of the
/// resources).
fn selectable(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Pods => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        Resource::Nodes => &["spec.unschedulable"],
        Resource::Namespaces => &["status.phase"],
        Resource::Secrets => &["type"],
        Resource::Events => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "type",
            "source",
            "reportingComponent",
        ],
        _ => &[],
    }
}

impl Fields {
    /// Reads a selector: `status.phase!=Failed,metadata.name=x`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, resource: Resource) -> Result<Fields, String> {
        let mut all = Vec::new();
        for term in split(text) {
            if all.len() >= limits::API_SELECTOR {
                return Err("the selector is too long".to_owned());
            }
            let at = term
                .find(['=', '!'])
                .ok_or_else(|| format!("invalid selector: '{text}'; can't understand '{term}'"))?;
            let (field, rest) = term.split_at(at);
            let (is_equal, value) = match rest {
                _ if rest.starts_with("!=") => (false, rest.get(2..)),
                _ if rest.starts_with("==") => (true, rest.get(2..)),
                _ if rest.starts_with('=') => (true, rest.get(1..)),
                _ => return Err(format!("invalid selector: '{text}'; can't understand '{term}'")),
            };
            let known = ["metadata.name", "metadata.namespace"].contains(&field);
            if !known && !selectable(resource).contains(&field) {
                return Err(format!("field label not supported: {field}"));
            }
            all.push((field.to_owned(), is_equal, unescaped(value.unwrap_or_default())));
        }
        Ok(Fields(all))
    }

    /// Whether an object meets all requirements. A field that is not there is the empty text, a boolean that is not there
    /// `false`.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.0.iter().all(|(field, is_equal, wanted)| {
            let mut found = object;
            let parts = match field.as_str() {
                "source" => "source.component",
                other => other,
            };
            for part in parts.split('.') {
                found = found.get(part).unwrap_or(&Value::Null);
            }
            let is_switch = ["spec.hostNetwork", "spec.unschedulable"].contains(&field.as_str());
            let text = match found {
                Value::String(text) => text.clone(),
                Value::Bool(value) => value.to_string(),
                _ if is_switch => "false".to_owned(),
                _ => String::new(),
            };
            (text == *wanted) == *is_equal
        })
    }
}

/// Terms between commas; a backslash takes the next character as it is.
fn split(text: &str) -> Vec<String> {
    let (mut all, mut term, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            ',' if !escaped => all.push(std::mem::take(&mut term)),
            c => term.push(c),
        }
        escaped = c == '\\' && !escaped;
    }
    all.push(term);
    all.retain(|term| !term.is_empty());
    all
}

fn unescaped(text: &str) -> String {
    let (mut out, mut chars) = (String::new(), text.chars());
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_selected() {
        let object = json!({"metadata": {"labels": {"app": "web", "tier": "front", "n": "5", "a.b/c": ""}}});
        for yes in [
            "",
            "app",
            "app=web",
            "app==web",
            "app!=db",
            "x!=y",
            "app in (db, web)",
            "app notin (db)",
            "!x",
            "n>4",
            "n<6",
            "app=web,tier=front",
            "app = web , tier",
            "x notin (a)",
            "a.b/c=",
            "a.b/c in ()",
        ] {
            assert!(Labels::parse(yes).unwrap().matches(&object), "{yes}");
        }
        for no in ["x", "app=db", "app!=web", "app notin (web,db)", "!app", "n>5", "n<5", "x>1", "app=web,x"]
        {
            assert!(!Labels::parse(no).unwrap().matches(&object), "{no}");
        }
        for wrong in
            ["=", "app=web,", ",", "app in", "app in (a", "app in a", "(a)", "n>x", "a b", "!", "app=a=b"]
        {
            assert!(Labels::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fields_are_selected() {
        let pod =
            json!({"metadata": {"name": "a,b"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let check = |text: &str| Fields::parse(text, Resource::Pods).map(|fields| fields.matches(&pod));
        assert_eq!(check(""), Ok(true));
        assert_eq!(check("spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded"), Ok(true));
        assert_eq!(check("metadata.name=a\\,b"), Ok(true));
        assert_eq!(check("status.podIP="), Ok(true));
        assert_eq!(check("spec.hostNetwork=false"), Ok(true));
        assert_eq!(check("status.phase==Failed"), Ok(false));
        assert_eq!(check("spec.x=1"), Err("field label not supported: spec.x".to_owned()));
        assert!(check("status.phase").is_err() && check("status.phase!x").is_err());
        assert!(Fields::parse("reason=x", Resource::Events).is_ok());
    }
}
