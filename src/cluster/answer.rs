//! What the API server said to a request, as far as the rooms here tell answers apart. Pure.

use serde_json::Value;

use crate::api_client::ApiError;

/// An answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Done; the object as it is now, or what a deletion answers.
    Done(Value),
    /// There is no such object.
    Missing,
    /// There is one of that name already.
    Exists,
    /// The object has changed since, or is another one than the precondition says.
    Conflict,
    /// This node may not do that; what the server says.
    Forbidden(String),
    /// The request is wrong in the server's eyes: the same one will not be accepted later.
    Refused(String),
    /// No answer, or the server cannot at the moment.
    Failed(String),
}

impl Answer {
    /// What the client says.
    #[must_use]
    pub fn of(result: Result<Value, ApiError>) -> Answer {
        let error = match result {
            Ok(object) => return Answer::Done(object),
            Err(error) => error,
        };
        let why = error.to_string();
        match error.code() {
            _ if error.is_not_found() => Answer::Missing,
            _ if error.is_already_exists() => Answer::Exists,
            _ if error.is_conflict() => Answer::Conflict,
            _ if error.is_forbidden() => Answer::Forbidden(why),
            // Wrong credentials may be replaced, a server that is busy will have time, and no 404 is one of a proxy.
            Some(401 | 404 | 408 | 429) | None => Answer::Failed(why),
            Some(400..=499) => Answer::Refused(why),
            Some(_) => Answer::Failed(why),
        }
    }

    /// Why it was not done, for a log.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Answer::Done(_) => "done",
            Answer::Missing => "there is no such object",
            Answer::Exists => "it exists already",
            Answer::Conflict => "the object has changed meanwhile",
            Answer::Forbidden(why) | Answer::Refused(why) | Answer::Failed(why) => why,
        }
    }
}
