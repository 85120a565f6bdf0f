//! Why the daemon did not start.

use std::error::Error;
use std::{fmt, io};

/// Why the daemon could not start. Once it runs, only a signal ends it.
#[derive(Debug)]
pub struct RunError {
    what: &'static str,
    error: io::Error,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

/// Wraps an error of the system; `what` says what is not possible.
pub(in crate::daemon) fn cannot(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError { what, error }
}
