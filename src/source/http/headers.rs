//! Headers that the operator adds to each request (`--manifest-url-header`), in the kubelet's grammar
//! (`ColonSeparatedMultimapStringString`). Pure. A value may be a secret: it is never shown.

use std::fmt;

/// One header of the request.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    /// Lower case.
    pub name: String,
    /// Never shown.
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: (hidden)", self.name)
    }
}

/// Headers that podkeeper sets itself.
const OWN: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "range",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Adds `a:hello,b:again,c:world` to `headers`, in order; a name may come more than once.
///
/// # Errors
/// A pair without a colon, a name or value that HTTP does not allow, or a header that podkeeper sets itself. The text
/// repeats no value.
pub fn parse(text: &str, headers: &mut Vec<Header>) -> Result<(), String> {
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once(':').ok_or("malformed pair, expect string:string")?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim().to_owned());
        if !is_token(&name) {
            return Err("a name is not a header's: letters, digits and dashes".to_owned());
        }
        if OWN.contains(&name.as_str()) {
            return Err(format!("{name} is set by podkeeper itself"));
        }
        if value.bytes().any(|byte| byte.is_ascii_control() && byte != b'\t') {
            return Err(format!("the value of {name} has characters that a header cannot have"));
        }
        if name == "host" && headers.iter().any(|h| h.name == "host") {
            return Err("host may be given once".to_owned());
        }
        headers.push(Header { name, value });
    }
    Ok(())
}

/// Whether it is a name by RFC 9110.
fn is_token(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        let mut headers = Vec::new();
        parse(text, &mut headers)?;
        Ok(headers.iter().map(|h| format!("{}={}", h.name, h.value)).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn the_kubelets_grammar() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).as_deref(), Ok(expected));
        check("a:hello,b:again,c:world", "a=hello|b=again|c=world");
        check("b:2,a:1,b:1", "b=2|a=1|b=1");
        check("Metadata-Flavor:Google", "metadata-flavor=Google");
        check(" a : x y ,,b:", "a=x y|b=");
        check("a:b:c", "a=b:c");
        check("", "");
        let refuse = |text: &str, part: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(part) && !error.contains("secret"), "{text}: {error}");
        };
        refuse("secret", "malformed pair, expect string:string");
        refuse("a:b,secret", "malformed pair");
        refuse(":secret", "not a header's");
        refuse("a b:secret", "not a header's");
        refuse("a:secret\r\nx", "cannot have");
        refuse("Transfer-Encoding:secret", "transfer-encoding is set by podkeeper");
        refuse("host:a,Host:secret", "once");
    }

    #[test]
    fn a_value_is_never_shown() {
        let mut headers = Vec::new();
        parse("authorization:secret", &mut headers).unwrap();
        assert_eq!(format!("{headers:?}"), "[authorization: (hidden)]");
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,40}") {
            let _ = read(&text);
        }
    }
}
