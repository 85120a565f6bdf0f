//! A bound on the memory of large answers under way, all together. Those of one client take at most half of it, and no more
//! than they leave to others.
//!
//! Never here: a wait for a client. When there is no room, the client has to try again.

use std::sync::{Mutex, PoisonError};

use super::census::{Census, Client};
use super::connection::Sink;
use super::http::answer::Answer;
use super::service::Reply;
use crate::base::limits;
use crate::node::sys;

/// The bound on large answers.
#[derive(Debug)]
pub struct Large {
    /// Bytes of the answers under way.
    answers: Census,
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
        Large { answers: Census::fair(most, most / 2), making: Mutex::default() }
    }
}

impl Large {
    /// Makes an answer with `make`, one at a time.
    ///
    /// # Errors
    /// The errors of `make`, and [`Full`].
    pub fn answer<E: From<Full>>(
        &self,
        client: &Client,
        make: impl FnOnce() -> Result<Answer, E>,
    ) -> Result<Reply, E> {
        let made = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = make()?;
        drop(made);
        Ok(self.made(client, answer)?)
    }

    /// Sends an answer that exists already.
    ///
    /// # Errors
    /// [`Full`].
    pub fn made(&self, client: &Client, mut answer: Answer) -> Result<Reply, Full> {
        if answer.body.len() <= limits::SMALL_ANSWER {
            return Ok(answer.into());
        }
        let place = self.answers.enter_with(client.clone(), answer.body.len()).map_err(|_| Full)?;
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
        let answer_to = |user: &str, length: usize| {
            let client = Client::User(user.into());
            large.answer(&client, || Ok::<_, Full>(Answer::new(200, "", "x".repeat(length))))
        };
        let answer = |length: usize| answer_to("ann", length);
        assert!(matches!(answer(1000), Ok(Reply::Whole(_))));
        let half = limits::ANSWERS / 2 + 1;
        let first = answer(half);
        assert!(matches!(first, Ok(Reply::Stream(..))));
        assert_eq!(answer_to("bob", half).map(drop), Err(Full));
        drop(first);
        assert!(answer(half).is_ok());
        assert!(answer(limits::ANSWERS * 2).is_ok(), "alone, one may be larger than that");
    }

    /// One user who took large answers slowly kept them from everybody.
    #[test]
    fn large_answers_of_one_client_leave_room_to_others() {
        let large = Large::default();
        let fifth = limits::ANSWERS / 5;
        let of = |user: &str| {
            let client = Client::User(user.into());
            let answer = || Ok::<_, Full>(Answer::new(200, "", "x".repeat(fifth)));
            std::iter::from_fn(|| large.answer(&client, answer).ok()).collect::<Vec<_>>()
        };
        let all = ["ann", "bob", "cid"].map(of);
        assert_eq!(all.each_ref().map(Vec::len), [2, 1, 1]);
    }
}
