//! A bound on the memory of requests under way, all together: large bodies, lists in the making, and large answers that
//! clients take slowly.
//!
//! Never here: a wait for a client. When there is no room, the client has to try again.

use super::failure::Failure;
use crate::base::{json, limits};
use crate::server::census::Client;
use crate::server::connection::Body;
use crate::server::http::answer::{Answer, JSON};
use crate::server::large::{Full, Large};
use crate::server::pool::{Count, Place};
use crate::server::service::Reply;

/// The bounds on requests under way.
#[derive(Debug)]
pub struct Room {
    bodies: Count,
    answers: Large,
}

impl Default for Room {
    fn default() -> Room {
        Room { bodies: Count::new(limits::API_BODIES), answers: Large::default() }
    }
}

impl Room {
    /// A place for this body, while it is worked on; small bodies need none.
    ///
    /// # Errors
    /// Other bodies have all places.
    pub fn of_body(&self, body: &Body<'_>) -> Result<Option<Place>, Failure> {
        if body.left().is_some_and(|left| left <= limits::API_SMALL_BODY) {
            return Ok(None);
        }
        self.bodies.take().map(Some).ok_or_else(|| busy("too many large objects are being written"))
    }

    /// An answer whose JSON text `make` makes, one at a time.
    ///
    /// # Errors
    /// Those of `make`; or there is no room for the answer now.
    pub fn answer(
        &self,
        client: &Client,
        make: impl FnOnce() -> Result<String, Failure>,
    ) -> Result<Reply, Failure> {
        self.answers.answer(client, || Ok(Answer::new(200, JSON, make()?)))
    }
}

impl From<Full> for Failure {
    fn from(_: Full) -> Failure {
        Failure::new(429, Full::WHY)
    }
}

/// Fails for bytes that would need several times their size as values.
///
/// # Errors
/// There are too many values.
pub fn check_values(bytes: &[u8]) -> Result<(), Failure> {
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|b| b"[{".contains(b));
    if is_json && json::values(bytes) > limits::API_BODY_VALUES {
        let why = format!("the body of the request has more than {} values", limits::API_BODY_VALUES);
        return Err(Failure::new(413, why));
    }
    Ok(())
}

fn busy(why: &str) -> Failure {
    Failure::new(429, format!("{why} on this node: try again"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_body_of_very_many_values_is_refused() {
        let body = format!("{{\"spec\":[{}0]}}", "0,".repeat(limits::API_BODY_VALUES));
        assert_eq!(check_values(body.as_bytes()).unwrap_err().code, 413);
        let text = format!("{{\"data\":{{\"a\":\"{}\"}}}}", ",".repeat(1 << 20));
        assert!(check_values(text.as_bytes()).is_ok(), "a text is one value");
    }
}
