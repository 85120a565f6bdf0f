//! The parameters of a request's query, and percent-encoding.

use crate::base::limits;

/// Decoded parameters, in the order in which they came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses the text behind the `?`; `None` when it is not properly encoded or has too many parameters.
    #[must_use]
    pub fn parse(text: &str) -> Option<Query> {
        let mut all = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            if all.len() >= limits::SERVER_PARAMETERS {
                return None;
            }
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            all.push((decoded(name, true)?, decoded(value, true)?));
        }
        Some(Query(all))
    }

    /// The first value of a parameter.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// The value of a switch, as Go parses a boolean; `None` when it is present and no boolean.
    #[must_use]
    pub fn switch(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            None | Some("") => Some(false),
            Some("1" | "t" | "T" | "TRUE" | "true" | "True") => Some(true),
            Some("0" | "f" | "F" | "FALSE" | "false" | "False") => Some(false),
            Some(_) => None,
        }
    }
}

/// Percent-decoded text; `None` when it is not properly encoded, or not UTF-8. In a query a plus sign is a space.
#[must_use]
pub fn decoded(text: &str, is_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let high = hex(rest.next()?)?;
                bytes.push((high << 4) | hex(rest.next()?)?);
            }
            b'+' if is_query => bytes.push(b' '),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}

fn hex(byte: u8) -> Option<u8> {
    let digit = char::from(byte).to_digit(16)?;
    u8::try_from(digit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_come_decoded_and_in_order() {
        let query =
            Query::parse("command=sh&command=-c&command=echo+a%20b%2Bc&tty=1&empty=&bare&&x=a=b").unwrap();
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["sh", "-c", "echo a b+c"]);
        assert_eq!(
            (query.get("empty"), query.get("bare"), query.get("x"), query.get("none")),
            (Some(""), Some(""), Some("a=b"), None)
        );
        assert_eq!(
            (query.switch("tty"), query.switch("none"), query.switch("x")),
            (Some(true), Some(false), None)
        );
        for wrong in ["a=%", "a=%4", "a=%zz", "%ff=1", "a=%c3"] {
            assert_eq!(Query::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Query::parse(&"a&".repeat(limits::SERVER_PARAMETERS + 1)), None);
    }

    #[test]
    fn a_plus_sign_in_a_path_is_a_plus_sign() {
        assert_eq!(decoded("/a+b%2fc", false).as_deref(), Some("/a+b/c"));
    }
}
