//! Whether a container lives, by the kernel's word. Docker handles the ends of execs and of their container in turn, and sees
//! the container's only when what it has of the others' output is taken: a client that does not take it would hide a crash
//! for as long as it likes.
//!
//! Never here: the end of a stream whose container's end Docker has seen. The rest of its output may come slowly.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::DockerError;
use super::docker::Docker;
use crate::base::{limits, wait};

/// Why streams of a container end [`limits::ATTACH_STALL`] after its process.
pub const ENDED: &str =
    "the container has ended, which Docker does not see before the rest of the output is taken";

/// The life of a container's first process.
#[derive(Debug)]
pub struct Life {
    docker: Docker,
    id: String,
    /// The process, as long as it lives; `None` also if it is not known.
    process: Option<OwnedFd>,
    /// Until when the rest of its output is waited for.
    until: Option<Instant>,
}

impl Life {
    /// The life of this container. It is not known without an engine, with a kernel before 5.3, and where Docker's processes
    /// cannot be seen: then it lasts.
    ///
    /// # Errors
    /// As for a short call: streams must not begin that nothing would end.
    pub fn of(docker: &Docker, id: &str) -> Result<Life, DockerError> {
        let (docker, id) = (docker.clone(), id.to_owned());
        let process = docker.process(&id)?.and_then(|pid| open(pid, &id));
        Ok(Life { docker, id, process, until: None })
    }

    /// What to wait for: its end.
    #[must_use]
    pub fn end(&self) -> Option<PollFd<'_>> {
        self.process.as_ref().map(|process| PollFd::new(process, PollFlags::IN))
    }

    /// When to look again.
    #[must_use]
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Looks whether it has ended. Returns true when what is left of its output is not waited for any longer: Docker, which
    /// is asked, has not seen the end for so long.
    pub fn is_past(&mut self, now: Instant) -> bool {
        let ended = self.end().is_some_and(|end| {
            let ready = wait::until(vec![end], Some(now)).unwrap_or_default();
            ready.iter().any(|flags| !flags.is_empty())
        });
        if ended {
            self.process = None;
            self.until = now.checked_add(limits::ATTACH_STALL);
        }
        if self.until.take_if(|until| *until <= now).is_none() {
            return false;
        }
        match self.docker.process(&self.id) {
            Ok(Some(_)) => true,
            Ok(None) | Err(DockerError::Refused(_)) => false,
            // It is not known whether it has seen the end.
            Err(_) => {
                self.until = now.checked_add(limits::ATTACH_STALL);
                false
            }
        }
    }
}

/// The process with this number, if it is the container's: the number may be one of another namespace, or used again.
fn open(pid: u32, id: &str) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    let cgroups = fs::read_to_string(format!("/proc/{}/cgroup", pid.as_raw_nonzero())).ok()?;
    cgroups.contains(id).then_some(process)
}
