//! The outcome of an attempt, and the kubelet's words for it (upstream `pkg/kubelet/prober/prober.go`,
//! `pkg/probe/http/http.go`, `pkg/probe/grpc/grpc.go`). Pure.

use std::time::Duration;

use super::spec::Kind;
use crate::base::limits;
use crate::plan::backoff;

/// The result of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// It passed, with a warning.
    Warned(String),
    Failed(String),
    /// The attempt itself failed: neither passed nor failed.
    Errored {
        /// Upstream's word for the discarded result.
        state: &'static str,
        /// The error.
        why: String,
    },
}

impl Outcome {
    /// An attempt that itself failed: no result is known.
    #[must_use]
    pub fn unknown(why: impl Into<String>) -> Outcome {
        Outcome::Errored { state: "unknown", why: why.into() }
    }
}

/// Reason of the event of a failed attempt.
pub const UNHEALTHY: &str = "Unhealthy";
/// Reason of the event of a warning.
pub const WARNING: &str = "ProbeWarning";

/// Reason and text of an outcome's event.
#[must_use]
pub fn event(kind: Kind, outcome: &Outcome) -> Option<(&'static str, String)> {
    let word = kind.word();
    match outcome {
        Outcome::Passed => None,
        Outcome::Warned(output) => Some((WARNING, format!("{word} probe warning: {output}"))),
        Outcome::Failed(output) => Some((UNHEALTHY, format!("{word} probe failed: {output}"))),
        Outcome::Errored { state, why } => {
            Some((UNHEALTHY, format!("{word} probe errored and resulted in {state} state: {why}")))
        }
    }
}

/// Message of an exec that did not end in time.
#[must_use]
pub fn exec_timed_out(command: &[String], timeout: Duration) -> String {
    let command = command.join(" ");
    format!("command timed out: {command:?} timed out after {}", backoff::words(timeout))
}

/// The kept output of an exec: standard output first, at most [`limits::PROBE_OUTPUT`] bytes.
#[must_use]
pub fn exec_output(stdout: &[u8], stderr: &[u8]) -> String {
    let all = [stdout, stderr].concat();
    String::from_utf8_lossy(all.get(..limits::PROBE_OUTPUT).unwrap_or(&all)).into_owned()
}

/// A system error in Go's words: `connection refused`.
#[must_use]
pub fn errno_words(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut words = text.chars();
    match words.next() {
        Some(first) => first.to_lowercase().chain(words).collect(),
        None => "unknown error".to_owned(),
    }
}

#[cfg(test)]
mod tests;
