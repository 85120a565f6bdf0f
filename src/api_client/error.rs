//! Why a call failed, as kinds for callers and as text for an operator.
//!
//! Never here: a credential, or a changing number, because every new text is logged.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::json;
use crate::base::limits;
use crate::runtime::http1::Head;

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiError {
    /// The server answered with a failure.
    Status {
        /// The HTTP status, or that of a `Status` in a watch.
        code: u16,
        /// The reason of `metav1.Status`: `NotFound`, `AlreadyExists`, `Conflict`, `Expired`, ...; empty if the answer
        /// was not one.
        reason: String,
        /// The server's message.
        message: String,
        /// The server's `Retry-After`.
        retry_after: Option<Duration>,
    },
    /// No complete answer: the server may have carried out the call.
    Unreachable(String),
    /// An answer that cannot come from an API server.
    BadAnswer(String),
    /// The kubeconfig, or a file that it names, cannot be used.
    BadCredentials(String),
    /// The client was closed.
    Closed,
}

impl ApiError {
    /// The answer's HTTP status.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            ApiError::Status { code, .. } => Some(*code),
            _ => None,
        }
    }

    fn has_reason(&self, wanted: &str) -> bool {
        matches!(self, ApiError::Status { reason, .. } if reason == wanted)
    }

    /// Whether the answer is one of an API server, and not of a proxy before it.
    #[must_use]
    pub fn is_of_server(&self) -> bool {
        matches!(self, ApiError::Status { reason, .. } if !reason.is_empty())
    }

    /// Whether the object does not exist. A 404 without a `Status` does not count: it may come from a proxy.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.has_reason("NotFound")
    }

    /// Whether a POST failed because the object exists.
    #[must_use]
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    /// Whether the object was changed since it was read, or has another UID than the precondition.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict")
    }

    /// Whether the node authorizer or NodeRestriction refused.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the requested version is too old.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.code() == Some(410)
    }

    /// Whether the requested version is newer than the server's (`apierrors.IsTooLargeResourceVersion`): etcd was
    /// restored.
    #[must_use]
    pub fn is_too_large_version(&self) -> bool {
        matches!(self, ApiError::Status { reason, message, .. }
            if reason == "Timeout" && message.contains("Too large resource version"))
    }

    /// How long to wait before the next try, if the server has told it.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ApiError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// The error in a failed answer.
    #[must_use]
    pub fn of_answer(head: &Head, body: &[u8]) -> ApiError {
        let wait = |seconds: u64| Duration::from_secs(seconds).min(limits::API_RETRY_AFTER);
        let retry_after = head.retry_after.map(wait);
        let status = json::parse(body, head).ok().filter(|value| kind(value) == "Status");
        match status {
            Some(status) => match ApiError::of_status(&status) {
                ApiError::Status { reason, message, retry_after: told, .. } => {
                    ApiError::Status { code: head.status, reason, message, retry_after: retry_after.or(told) }
                }
                other => other,
            },
            None => {
                let message = words(head, body);
                ApiError::Status { code: head.status, reason: String::new(), message, retry_after }
            }
        }
    }

    /// The error in an object of kind `Status`.
    #[must_use]
    pub fn of_status(status: &Value) -> ApiError {
        let text = |key: &str| status.get(key).and_then(Value::as_str).unwrap_or_default();
        let seconds = status.pointer("/details/retryAfterSeconds").and_then(Value::as_u64);
        ApiError::Status {
            code: status
                .get("code")
                .and_then(Value::as_u64)
                .and_then(|code| code.try_into().ok())
                .unwrap_or(0),
            reason: text("reason").to_owned(),
            message: shortened(text("message")),
            retry_after: seconds
                .filter(|seconds| *seconds > 0)
                .map(|seconds| Duration::from_secs(seconds).min(limits::API_RETRY_AFTER)),
        }
    }

    /// The error for a successful answer whose body is not an object of the API.
    #[must_use]
    pub fn of_no_json(head: &Head, body: &[u8]) -> ApiError {
        ApiError::BadAnswer(format!("the server answers {} with {}", head.status, words(head, body)))
    }
}

/// `kind` of an object.
pub(super) fn kind(object: &Value) -> &str {
    object.get("kind").and_then(Value::as_str).unwrap_or_default()
}

/// The text of an answer that is not from an API server.
fn words(head: &Head, body: &[u8]) -> String {
    let start = body.trim_ascii_start();
    if start.starts_with(b"<") {
        return "a web page instead of an object: is the address that of an API server, and not of a proxy's login?"
            .to_owned();
    }
    let text = String::from_utf8_lossy(start);
    let text = shortened(text.trim());
    match (&head.content_type, text.is_empty()) {
        (_, true) => "nothing".to_owned(),
        (Some(kind), _) if !kind.starts_with("text/plain") && !kind.contains("json") => {
            format!("something that is no object of an API ({kind})")
        }
        _ => text,
    }
}

/// The text as one line of bounded length.
fn shortened(text: &str) -> String {
    let mut text: String =
        text.chars().take(limits::API_WORDS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.truncate(text.trim_end().len());
    text
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiError::Status { code, reason, message, .. } => match (reason.as_str(), message.as_str()) {
                ("", message) => write!(f, "the server answers {code}: {message}"),
                (reason, "") => write!(f, "the server answers {code} ({reason})"),
                (reason, message) => write!(f, "the server answers {code} ({reason}): {message}"),
            },
            ApiError::Unreachable(why) | ApiError::BadAnswer(why) | ApiError::BadCredentials(why) => {
                f.write_str(why)
            }
            ApiError::Closed => f.write_str("the daemon ends"),
        }
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, content_type: &str, retry_after: Option<u64>, body: &str) -> ApiError {
        let head = Head { status, content_type: Some(content_type.into()), retry_after, ..Head::default() };
        ApiError::of_answer(&head, body.as_bytes())
    }

    #[test]
    fn answers_that_are_no_success() {
        let check = |error: ApiError, words: &str| assert_eq!(error.to_string(), words);
        let gone = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#;
        let error = answer(410, "application/json", None, gone);
        assert!(error.is_gone() && !error.is_not_found());
        check(error, "the server answers 410 (Expired): too old resource version: 1 (2)");
        let missing = r#"{"kind":"Status","message":"pods \"a\" not found","reason":"NotFound","code":404}"#;
        assert!(answer(404, "application/json", None, missing).is_not_found());
        // A proxy's 404 does not mean that an object is missing.
        assert!(!answer(404, "text/plain", None, "404 page not found").is_not_found());
        check(
            answer(404, "text/plain", None, "404 page not found\n"),
            "the server answers 404: 404 page not found",
        );
        let busy = answer(429, "text/plain", Some(3), "slow down");
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(3)));
        let details =
            r#"{"kind":"Status","reason":"TooManyRequests","code":429,"details":{"retryAfterSeconds":7}}"#;
        assert_eq!(
            answer(429, "application/json", None, details).retry_after(),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            answer(429, "text/plain", Some(u64::MAX), "").retry_after(),
            Some(limits::API_RETRY_AFTER)
        );
        let page = answer(502, "text/html", None, "<html>Bad <b>gateway</b></html>").to_string();
        assert!(page.contains("502") && page.contains("a web page") && !page.contains("gateway"), "{page}");
        check(answer(500, "text/plain", None, ""), "the server answers 500: nothing");
        let large = r#"{"kind":"Status","message":"Too large resource version: 9, current: 3","reason":"Timeout","code":504}"#;
        assert!(answer(504, "application/json", None, large).is_too_large_version());
    }

    #[test]
    fn a_success_that_is_no_object_is_called_so() {
        let head = Head { status: 200, content_type: Some("text/html".into()), ..Head::default() };
        let error = ApiError::of_no_json(&head, b"<!doctype html><title>Sign in</title>").to_string();
        assert!(error.starts_with("the server answers 200 with a web page"), "{error}");
    }
}
