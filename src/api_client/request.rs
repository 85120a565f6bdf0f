//! A request to the server.

use serde_json::Value;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Delete,
    /// A PATCH that knows the list types of Kubernetes.
    StrategicPatch,
}

impl Method {
    /// The method's name in the request.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
            Method::StrategicPatch => "PATCH",
        }
    }

    /// `Content-Type` of the body.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Method::StrategicPatch => "application/strategic-merge-patch+json",
            _ => "application/json",
        }
    }

    /// Whether the request may be repeated when the server may have received it: a second POST would create a second
    /// object.
    #[must_use]
    pub fn is_repeatable(self) -> bool {
        self != Method::Post
    }
}

/// One request.
#[derive(Clone, PartialEq)]
pub struct Request {
    pub method: Method,
    /// The path with its query, percent-encoded: `/api/v1/pods?fieldSelector=spec.nodeName%3Dn1`.
    pub path: String,
    /// JSON; may hold a Secret's values.
    pub body: Option<Vec<u8>>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method.word(), self.path)
    }
}

impl Request {
    /// A GET.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Request {
        Request { method: Method::Get, path: path.into(), body: None }
    }

    /// A request with a body.
    #[must_use]
    pub fn with(method: Method, path: impl Into<String>, body: &Value) -> Request {
        Request { method, path: path.into(), body: Some(body.to_string().into_bytes()) }
    }
}

/// Percent-encodes a part of a path or of a query's value, except unreserved characters.
#[must_use]
pub fn encoded(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_is_encoded() {
        assert_eq!(encoded("spec.nodeName=n-1_~"), "spec.nodeName%3Dn-1_~");
        assert_eq!(encoded("a/b?c d\u{e4}"), "a%2Fb%3Fc%20d%C3%A4");
    }
}
