//! What large answers under way may take of the node's memory, all together.
//!
//! Never here: a wait for a client. Who finds no room is told to come again.

use std::sync::{Mutex, PoisonError};

use super::connection::Sink;
use super::http::answer::Answer;
use super::pool::Count;
use super::service::Reply;
use crate::base::limits;
use crate::node::sys;

/// See the head of this file.
#[derive(Debug)]
pub struct Large {
    /// Bytes of answers.
    answers: Count,
    /// Held while a list is made, which takes several times its bytes.
    making: Mutex<()>,
}

/// Larger answers than there is room for are on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Full {
    /// What a client is told.
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
    /// An answer that `make` makes, while no other one is made.
    ///
    /// # Errors
    /// Those of `make`, and [`Full`].
    pub fn answer<E: From<Full>>(&self, make: impl FnOnce() -> Result<Answer, E>) -> Result<Reply, E> {
        let made = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = make()?;
        drop(made);
        Ok(self.made(answer)?)
    }

    /// An answer that is made already.
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
