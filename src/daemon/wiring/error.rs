//! Why the daemon did not start.

use std::error::Error;
use std::{fmt, io};

/// Why the daemon could not start. Once it runs, only a signal ends it.
#[derive(Debug)]
pub enum RunError {
    /// The failed action, and the system's error.
    System(&'static str, io::Error),
    /// What could not be started, and the system's error.
    Start(&'static str, io::Error),
    /// The kernel setting that pods need and that is different.
    Kernel(String),
    /// The main thread has panicked; its message is in the log.
    Panicked,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::System(what, error) => write!(f, "{what}: {error}"),
            RunError::Start(what, error) => write!(f, "{what} could not be started: {error}"),
            RunError::Kernel(why) => write!(f, "the kernel is not set up for pods: {why}"),
            RunError::Panicked => f.write_str("the main thread has panicked"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            RunError::System(_, error) | RunError::Start(_, error) => Some(error),
            RunError::Kernel(_) | RunError::Panicked => None,
        }
    }
}

/// Wraps the error of a start.
pub(in crate::daemon) fn no_start_of(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::Start(what, error)
}

/// Wraps an error of the system; `what` names the action that failed.
pub(in crate::daemon) fn cannot(what: &'static str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError::System(what, error)
}
