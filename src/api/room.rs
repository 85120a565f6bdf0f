//! What requests under way may take of the node's memory, all together: bodies that are large, lists that are made, and
//! large answers that clients take slowly.
//!
//! Never here: a wait for a client. Who finds no room is told to come again.

use std::sync::{Mutex, PoisonError};

use super::failure::Failure;
use crate::base::{json, limits};
use crate::server::connection::Body;
use crate::server::http::answer::{Answer, JSON};
use crate::server::pool::{Count, Place};
use crate::server::service::Reply;

/// See the head of this file.
#[derive(Debug)]
pub struct Room {
    bodies: Count,
    /// Bytes of answers.
    answers: Count,
    /// Held while a list is made, which takes several times its bytes.
    making: Mutex<()>,
}

impl Default for Room {
    fn default() -> Room {
        Room {
            bodies: Count::new(limits::API_BODIES),
            answers: Count::new(limits::API_ANSWERS),
            making: Mutex::default(),
        }
    }
}

impl Room {
    /// A place for this body, for as long as it is worked on; small ones need none.
    ///
    /// # Errors
    /// Others have all places.
    pub fn of_body(&self, body: &Body<'_>) -> Result<Option<Place>, Failure> {
        if body.left().is_some_and(|left| left <= limits::API_SMALL_BODY) {
            return Ok(None);
        }
        self.bodies.take().map(Some).ok_or_else(|| busy("too many large objects are being written"))
    }

    /// An answer whose JSON text is made by `make`, while no other one is.
    ///
    /// # Errors
    /// Those of `make`; larger answers than there is room for are on their way.
    pub fn answer(&self, make: impl FnOnce() -> Result<String, Failure>) -> Result<Reply, Failure> {
        let made = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let text = make()?;
        drop(made);
        if text.len() <= limits::API_SMALL_ANSWER {
            return Ok(Answer::new(200, JSON, text).into());
        }
        let place = self.answers.take_some(text.len());
        let place = place.ok_or_else(|| busy("too many large lists are on their way to clients"))?;
        let pour = move |sink: &mut crate::server::connection::Sink<'_>| {
            let _place = place;
            text.as_bytes().chunks(limits::API_PIECE).try_for_each(|piece| sink.write(piece))
        };
        Ok(Reply::Stream(Answer::new(200, JSON, ""), Box::new(pour)))
    }
}

/// Fails for bytes that would be a multiple of themselves as values.
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
    fn large_answers_find_room_until_it_is_used_up_and_again_when_they_were_sent() {
        let room = Room::default();
        let text = |length: usize| move || Ok("x".repeat(length));
        assert!(matches!(room.answer(text(1000)), Ok(Reply::Whole(_))));
        let half = limits::API_ANSWERS / 2 + 1;
        let first = room.answer(text(half)).map_err(|failure| failure.code);
        assert!(matches!(first, Ok(Reply::Stream(..))));
        assert_eq!(room.answer(text(half)).map(drop).map_err(|failure| failure.code), Err(429));
        drop(first);
        assert!(room.answer(text(half)).is_ok());
        assert!(room.answer(text(limits::API_ANSWERS * 2)).is_ok(), "alone, one may be larger than that");
    }

    #[test]
    fn a_small_body_of_very_many_values_is_refused() {
        let body = format!("{{\"spec\":[{}0]}}", "0,".repeat(limits::API_BODY_VALUES));
        assert_eq!(check_values(body.as_bytes()).unwrap_err().code, 413);
        let text = format!("{{\"data\":{{\"a\":\"{}\"}}}}", ",".repeat(1 << 20));
        assert!(check_values(text.as_bytes()).is_ok(), "a text is one value");
    }
}
