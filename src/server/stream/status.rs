//! The result of a command, in the format of the error stream (`k8s.io/cri-streaming/pkg/streaming/remotecommand`).
//!
//! Never here: more than one status for a command.

use crate::base::json::json;
use serde_json::Value;

/// The result of a command, or of the attempt to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ended with exit code 0.
    Success,
    /// It ended with another exit code.
    Exit(i64),
    /// It could not be run to its end: the operation (`executing command in container`, `attaching to container`) and
    /// the reason of the failure.
    Failed { doing: &'static str, why: String },
}

impl Outcome {
    /// The `metav1.Status` of protocols 4 and 5, which clients expect even after a success.
    #[must_use]
    pub fn json(&self) -> String {
        let status: Value = match self {
            Outcome::Success => json!({"metadata": {}, "status": "Success"}),
            Outcome::Exit(code) => json!({
                "metadata": {}, "status": "Failure", "message": exit_message(*code), "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
            }),
            Outcome::Failed { doing, why } => json!({
                "metadata": {}, "status": "Failure", "message": failure_message(doing, why),
                "reason": "InternalError",
                "details": {"causes": [{"message": format!("error {doing}: {why}")}]}, "code": 500,
            }),
        };
        status.to_string()
    }

    /// The text of protocols 1 to 3; `None` after a success.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        match self {
            Outcome::Success => None,
            Outcome::Exit(code) => Some(exit_message(*code)),
            Outcome::Failed { doing, why } => Some(failure_message(doing, why)),
        }
    }
}

fn exit_message(code: i64) -> String {
    format!("command terminated with non-zero exit code: exit status {code}")
}

fn failure_message(doing: &str, why: &str) -> String {
    format!("Internal error occurred: error {doing}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_clients_read_it() {
        let check = |outcome: Outcome, text: Option<&str>, expected: Value| {
            assert_eq!(outcome.text().as_deref(), text);
            assert_eq!(serde_json::from_str::<Value>(&outcome.json()).unwrap(), expected);
        };
        check(Outcome::Success, None, json!({"metadata": {}, "status": "Success"}));
        check(
            Outcome::Exit(3),
            Some("command terminated with non-zero exit code: exit status 3"),
            json!({
                "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
                "message": "command terminated with non-zero exit code: exit status 3",
                "details": {"causes": [{"reason": "ExitCode", "message": "3"}]},
            }),
        );
        check(
            Outcome::Failed { doing: "executing command in container", why: "no \"sh\"".to_owned() },
            Some("Internal error occurred: error executing command in container: no \"sh\""),
            json!({
                "metadata": {}, "status": "Failure", "reason": "InternalError", "code": 500,
                "message": "Internal error occurred: error executing command in container: no \"sh\"",
                "details": {"causes": [{"message": "error executing command in container: no \"sh\""}]},
            }),
        );
    }
}
