//! Why a call failed, and the kinds of Docker's refusals that podkeeper distinguishes.
//!
//! Plain data: no I/O, no policy.

use std::fmt;

use crate::base::hex::short_ids;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DockerError {
    /// The request was not sent: no socket, no permission, no listener. The call may be repeated.
    Unreachable(String),
    /// No answer in time. Docker may have carried the call out: check before repeating it.
    Timeout(String),
    /// A long call makes no progress, and Docker waits for another party; the text is complete.
    Stalled(String),
    /// The connection broke after the request was sent. Docker may have carried the call out.
    Lost(String),
    /// The answer is not HTTP, or not JSON, or its parts exceed a bound.
    BadAnswer(String),
    /// The answer as a whole has more bytes than are read of an answer to this call.
    TooLarge(String),
    /// Docker supports only versions older than 1.40 (or only newer than ours).
    Version(String),
    /// Docker refused.
    Refused(Refusal),
}

impl Refusal {
    /// A request that was not sent, for this reason.
    #[must_use]
    pub fn not_sent(message: String) -> DockerError {
        DockerError::Refused(Refusal { kind: RefusalKind::NotSent, status: 0, message })
    }
}

/// Docker's refusal, with its kind (kubernetes/kubernetes#40443, moby/moby#22312).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Its meaning.
    pub kind: RefusalKind,
    /// HTTP status.
    pub status: u16,
    /// Docker's own message.
    pub message: String,
}

/// The meaning of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalKind {
    /// 404 about a container.
    NoSuchContainer,
    /// 404 about an image.
    NoSuchImage,
    /// 404 about something else.
    NotFound,
    /// 409: the name is taken, by this container id if Docker said so.
    NameInUse(Option<String>),
    /// 409: the container does not run (kill, exec).
    NotRunning,
    /// 409: the sandbox whose namespaces are joined does not run.
    SandboxNotRunning,
    /// 409: the container is already being removed.
    RemovalInProgress,
    /// 409: the container runs and is not removed without force.
    StillRunning,
    /// Podman: other containers, even dead ones, still use its namespaces and must be removed first.
    HasDependents,
    /// 409: the image has several names, and cannot be removed by its id.
    SeveralNames,
    /// 409: other images were made from the image, and must be removed first.
    HasChildren,
    /// The container's log driver stores no readable log.
    LogNotKept,
    /// 409 of another kind.
    Conflict,
    /// 400: the request is invalid for Docker; repeating it will not help.
    BadRequest,
    /// 400: the image's name does not parse.
    BadImageName,
    /// The command is not in the image, or not executable (400, or 500 in some versions).
    CannotRun,
    /// A host port is taken (500).
    PortInUse,
    /// From podkeeper itself: the request needs a resource of the node that is missing, and was not sent.
    NotSent,
    /// 500 and all other statuses.
    Server,
}

impl fmt::Display for DockerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DockerError::Unreachable(why) => write!(f, "Docker is not reachable: {why}"),
            DockerError::Timeout(what) => write!(f, "Docker did not answer in time: {}", short_ids(what)),
            DockerError::Stalled(why) => f.write_str(&short_ids(why)),
            DockerError::Lost(why) => write!(f, "connection to Docker lost: {}", short_ids(why)),
            DockerError::BadAnswer(why) => write!(f, "Docker's answer is not understood: {}", short_ids(why)),
            DockerError::TooLarge(what) => write!(f, "Docker's answer is too long: {}", short_ids(what)),
            DockerError::Version(why) => f.write_str(why),
            DockerError::Refused(r) => f.write_str(&short_ids(&r.message)),
        }
    }
}

impl DockerError {
    /// The kind of a refusal, if this error is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&RefusalKind> {
        match self {
            DockerError::Refused(r) => Some(&r.kind),
            _ => None,
        }
    }
}

impl Refusal {
    /// For a command that cannot run: whether Docker's text says that no such command exists.
    #[must_use]
    pub fn names_no_command(&self) -> bool {
        let text = self.message.to_ascii_lowercase();
        self.kind == RefusalKind::CannotRun && (text.contains("not found") || text.contains("no such file"))
    }
}

impl std::error::Error for DockerError {}
