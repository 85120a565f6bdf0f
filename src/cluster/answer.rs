//! The API server's answer to a request, as far as these rooms distinguish answers. Pure.

use serde_json::Value;

use crate::api_client::ApiError;

/// An answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Done; the current object, or the answer to a deletion.
    Done(Value),
    /// There is no such object.
    Missing,
    /// An object of that name exists already.
    Exists,
    /// The object has changed since, or differs from the precondition.
    Conflict,
    /// This node may not do that; the server's message.
    Forbidden(String),
    /// The request is invalid: the same request will not be accepted later.
    Refused(String),
    /// The server says that it cannot do this at the moment: a webhook for this object may be down.
    Unable(String),
    /// No answer, or one of a proxy, or the server is too busy.
    Failed(String),
}

impl Answer {
    /// The answer from the client's result.
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
            // Credentials may be replaced, a busy server will have time, and a 404 without an object comes from a
            // proxy.
            Some(401 | 404 | 408 | 429) | None => Answer::Failed(why),
            Some(400..=499) => Answer::Refused(why),
            Some(_) if error.is_of_server() => Answer::Unable(why),
            Some(_) => Answer::Failed(why),
        }
    }

    /// Why the request failed, for a log.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Answer::Done(_) => "done",
            Answer::Missing => "there is no such object",
            Answer::Exists => "it exists already",
            Answer::Conflict => "the object has changed meanwhile",
            Answer::Forbidden(why) | Answer::Refused(why) | Answer::Unable(why) | Answer::Failed(why) => why,
        }
    }
}
