//! Errors, as the API's `Status` (`apimachinery/pkg/api/errors/errors.go`). Pure.

use crate::base::json::json;
use serde_json::Value;

use super::kinds::{Kind, Resource};
use super::value::place;
use crate::server::http::answer::{Answer, JSON};

/// A failed request.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    /// `details` of the Status; null for none.
    pub details: Value,
}

impl Failure {
    /// A failure with this code and its reason.
    #[must_use]
    pub fn new(code: u16, message: impl Into<String>) -> Failure {
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            406 => "NotAcceptable",
            409 => "Conflict",
            410 => "Expired",
            413 => "RequestEntityTooLarge",
            415 => "UnsupportedMediaType",
            422 => "Invalid",
            429 => "TooManyRequests",
            503 => "ServiceUnavailable",
            504 => "Timeout",
            _ => "InternalError",
        };
        Failure { code, reason, message: message.into(), details: Value::Null }
    }

    /// An object does not exist.
    #[must_use]
    pub fn not_found(kind: &Kind, name: &str) -> Failure {
        Failure::of(404, kind, name, format!("{} {name:?} not found", kind.qualified()))
    }

    /// A failure about an object.
    #[must_use]
    pub fn of(code: u16, kind: &Kind, name: &str, message: String) -> Failure {
        let mut details = json!({"name": name, "kind": kind.plural});
        if !kind.group.is_empty() {
            *place(&mut details, &["group"]) = kind.group.into();
        }
        Failure { details, ..Failure::new(code, message) }
    }

    /// An object is invalid, with each field and what is wrong with it. `kubectl` prints nothing else of the failure.
    #[must_use]
    pub fn invalid(kind: &Kind, name: &str, errors: &[(String, String)]) -> Failure {
        let word = |(field, why): &(String, String)| match field.as_str() {
            "" => why.clone(),
            field => format!("{field}: {why}"),
        };
        let words: Vec<String> = errors.iter().map(word).collect();
        let all = if let [one] = words.as_slice() { one.clone() } else { format!("[{}]", words.join(", ")) };
        let message = format!("{} {name:?} is invalid: {all}", kind.kind);
        // A cause without a field would be printed with an empty one: without details `kubectl` prints the message.
        if errors.iter().any(|(field, _)| field.is_empty()) {
            return Failure::new(422, message);
        }
        let mut failure = Failure::of(422, kind, name, message);
        *place(&mut failure.details, &["kind"]) = kind.kind.into();
        let cause = |(field, why): &(String, String)| json!({"reason": cause(why), "message": why.as_str(), "field": field.as_str()});
        *place(&mut failure.details, &["causes"]) = errors.iter().map(cause).collect::<Vec<Value>>().into();
        failure
    }

    /// An object is invalid for one reason, which begins with the field.
    #[must_use]
    pub fn invalid_field(kind: &Kind, name: &str, why: &str) -> Failure {
        let (field, why) = why.split_once(": ").unwrap_or(("", why));
        Failure::invalid(kind, name, &[(field.to_owned(), why.to_owned())])
    }

    /// The path is unknown.
    #[must_use]
    pub fn no_resource() -> Failure {
        Failure {
            details: json!({}),
            ..Failure::new(404, "the server could not find the requested resource")
        }
    }

    /// The method is never allowed for the resource.
    #[must_use]
    pub fn not_allowed() -> Failure {
        Failure::new(405, "the server does not allow this method on the requested resource")
    }

    /// The verb is not offered for this kind.
    #[must_use]
    pub fn read_only(kind: &Kind) -> Failure {
        match kind.resource {
            Resource::Nodes => Failure::new(
                405,
                "nodes are read-only here: the daemon describes its node itself. Its labels are its flag --node-labels, \
                 and taints need a cluster; podkeeper drain stops the pods, podkeeper resume starts them",
            ),
            Resource::Services => Failure::new(
                405,
                "services are read-only here: there is no cluster. Reach a pod at its own address or a hostPort, or \
                 with kubectl port-forward",
            ),
            _ => Failure::not_allowed(),
        }
    }

    /// The failure as a `Status`.
    #[must_use]
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        });
        if !self.details.is_null() {
            *place(&mut status, &["details"]) = self.details.clone();
        }
        status
    }

    /// The failure as an answer.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let answer = Answer::new(self.code, JSON, self.status().to_string());
        if self.code == 429 { answer.with("Retry-After", "1") } else { answer }
    }
}

/// The reason of a cause, by its first words (`apimachinery/pkg/util/validation/field/errors.go`).
fn cause(why: &str) -> &'static str {
    const WORDS: [(&str, &str); 6] = [
        ("Forbidden", "FieldValueForbidden"),
        ("Required", "FieldValueRequired"),
        ("Duplicate", "FieldValueDuplicate"),
        ("Unsupported", "FieldValueNotSupported"),
        ("Too long", "FieldValueTooLong"),
        ("Too many", "FieldValueTooMany"),
    ];
    WORDS
        .into_iter()
        .find(|(word, _)| why.starts_with(word))
        .map_or("FieldValueInvalid", |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::kinds::of;

    #[test]
    fn a_pod_that_is_not_there() {
        let kind = of(Resource::Pods).unwrap();
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "pods \"x\" not found", "reason": "NotFound", "details": {"name": "x", "kind": "pods"},
            "code": 404});
        assert_eq!(Failure::not_found(kind, "x").status(), expected);
    }

    /// Regression: `kubectl` printed "The pods "x" is invalid", without a reason.
    #[test]
    fn an_invalid_pod_has_causes() {
        let kind = of(Resource::Pods).unwrap();
        let failure = Failure::invalid_field(kind, "x", "spec.a[1]: Forbidden: no: not here");
        assert_eq!(failure.message, "Pod \"x\" is invalid: spec.a[1]: Forbidden: no: not here");
        let expected = json!({"name": "x", "kind": "Pod", "causes": [
            {"reason": "FieldValueForbidden", "message": "Forbidden: no: not here", "field": "spec.a[1]"}]});
        assert_eq!(failure.details, expected);
        let whole = Failure::invalid(kind, "x", &[(String::new(), "is larger than it may be".to_owned())]);
        assert_eq!(
            (whole.message.as_str(), whole.details),
            ("Pod \"x\" is invalid: is larger than it may be", Value::Null)
        );
    }
}
