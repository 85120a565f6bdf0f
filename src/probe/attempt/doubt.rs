//! A failed probe of a container that may just have ended: its commands, its ports and its connections end before Docker
//! says so, and a kill for that would take the container's own end for podkeeper's. So the failure counts only if the
//! container still runs a moment later.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use crate::base::limits;
use crate::base::wait::later;
use crate::probe::outcome::Outcome;
use crate::runtime::client::Pending;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError};

/// See the module.
#[derive(Debug)]
pub(super) struct Doubt {
    /// Container id.
    container: String,
    failure: Outcome,
    /// When Docker is asked.
    at: Instant,
    asked: Option<Pending>,
}

impl Doubt {
    pub(super) fn new(container: &str, failure: Outcome) -> Doubt {
        let at = later(limits::PROBE_DOUBT);
        Doubt { container: container.to_owned(), failure, at, asked: None }
    }

    /// What counts, once it is known. Never waits.
    pub(super) fn advance(&mut self, docker: &Docker) -> Option<Outcome> {
        if self.asked.is_none() && Instant::now() >= self.at {
            let call = Call::Process { id: self.container.clone() };
            self.asked = Some(docker.begin(&call).within(limits::PROBE_DOCKER));
        }
        let answer = self.asked.as_mut()?.advance()?;
        Some(match answer.and_then(crate::runtime::Reply::process) {
            Ok(None) | Err(DockerError::Refused(_)) => Outcome::unknown("the container has ended"),
            Ok(Some(_)) | Err(_) => self.failure.clone(),
        })
    }

    /// What to poll; true: for writing, too.
    pub(super) fn fd(&self) -> Option<(BorrowedFd<'_>, bool)> {
        self.asked.as_ref().and_then(|call| Some((call.fd()?, call.wants_write())))
    }

    /// Latest time of the next [`Doubt::advance`].
    pub(super) fn wake(&self) -> Instant {
        self.asked.as_ref().map_or(self.at, |call| call.deadline().unwrap_or_else(Instant::now))
    }
}
