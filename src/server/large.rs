//! A bound on the memory of large answers under way, all together.
//!
//! Never here: a wait for a client. When there is no room, the client has to try again.

use std::sync::{Mutex, PoisonError};

use super::connection::Sink;
use super::http::answer::Answer;
use super::pool::Count;
use super::service::Reply;
use crate::base::limits;
use crate::node::sys;

/// The bound on large answers.
#[derive(Debug)]
pub struct Large {
    /// Bytes of the answers under way.
    answers: Count,
    /// Locked while a list is made, which takes several times its bytes.
    making: Mutex<()>,
}

/// There is no room for this answer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Full {
    /// The message for the client.
    pub const WHY: &'static str =
        "too many large answers are on their way to clients of this node: try again";
}

impl Default for Large {
    fn default() -> Large {
        let most = sys::share(limits::ANSWERS, limits::ANSWERS_PART);
        Large { answers: Count::new(most), making: Mutex::default() }
    }
}

impl Large {
    /// Makes an answer with `make`, one at a time.
    ///
    /// # Errors
    /// The errors of `make`, and [`Full`].
    pub fn answer<E: From<Full>>(&self, make: impl FnOnce() -> Result<Answer, E>) -> Result<Reply, E> {
        let made = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = make()?;
        drop(made);
        Ok(self.made(answer)?)
    }

    /// Sends an answer that exists already.
    ///
    /// # Errors
    /// [`Full`].
    pub fn made(&self, mut answer: Answer) -> Result<Reply, Full> {
        if answer.body.len() <= limits::SMALL_ANSWER {
            return Ok(answer.into());
        }
        let place = self.answers.take_some(answer.body.len()).ok_or(Full)?;
        let body = std::mem::take(&mut answer.body);
        let pour = move |sink: &mut Sink<'_>| {
            let _place = place;
            body.chunks(limits::ANSWER_PIECE).try_for_each(|piece| sink.write(piece))
        };
        Ok(Reply::Stream(answer, Box::new(pour)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_answers_find_room_until_it_is_used_up_and_again_when_they_were_sent() {
        let large = Large::default();
        let answer = |length: usize| large.answer(|| Ok::<_, Full>(Answer::new(200, "", "x".repeat(length))));
        assert!(matches!(answer(1000), Ok(Reply::Whole(_))));
        let half = limits::ANSWERS / 2 + 1;
        let first = answer(half);
        assert!(matches!(first, Ok(Reply::Stream(..))));
        assert_eq!(answer(half).map(drop), Err(Full));
        drop(first);
        assert!(answer(half).is_ok());
        assert!(answer(limits::ANSWERS * 2).is_ok(), "alone, one may be larger than that");
    }
}
