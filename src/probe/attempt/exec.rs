//! A command in a container: when its time starts, and when it has ended.
//!
//! Everything here goes through Docker, which may stall for a while (stopped, overloaded, or booting with
//! live-restored containers). So only Docker's report makes a failure: a command is too slow only if Docker
//! has confirmed that it started it and that it still runs, and a command without an answer of Docker is
//! unknown. The head of Docker's answer does not count: Docker sends it before containerd, which may stall,
//! too, has created a process. Otherwise one stall would kill every container with a command as liveness
//! probe.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use super::Kit;
use crate::base::limits;
use crate::base::pace::doubled;
use crate::pod::waiting::hook_exited;
use crate::probe::outcome::{self, Outcome};
use crate::probe::spec::{HookKind, HookStep};
use crate::runtime::client::Pending;
use crate::runtime::exec::{Executed, Execution};
use crate::runtime::{DockerError, Reply};

#[derive(Debug)]
pub(super) struct Exec {
    id: String,
    command: Vec<String>,
    run: Box<Execution>,
    /// Counted from the start that Docker confirmed; `None`: no limit.
    timeout: Option<Duration>,
    /// A hook runs once: it is retried only while Docker cannot be reached; a preStop hook as long as its container
    /// waits for it.
    hook: Option<HookKind>,
    began: Instant,
    /// Time of the next try.
    again: Option<Instant>,
    /// How often Docker did not create or start it, though it was there.
    missed: u32,
    /// What has happened to it that was not told yet.
    news: Option<HookStep>,
    /// The end of its timeout, if Docker reports that it still runs.
    due: Option<Instant>,
    /// The call that asks Docker whether it still runs, with its start time.
    asked: Option<(Instant, Pending)>,
    /// Docker's last answer: containerd had not started it.
    not_started: bool,
}

impl Exec {
    pub fn begin(
        kit: &Kit,
        id: &str,
        command: &[String],
        timeout: Option<Duration>,
        hook: Option<HookKind>,
    ) -> Exec {
        Exec {
            id: id.to_owned(),
            command: command.to_vec(),
            run: Box::new(run(kit, id, command, hook)),
            timeout,
            hook,
            began: Instant::now(),
            again: None,
            missed: 0,
            news: None,
            due: None,
            asked: None,
            not_started: false,
        }
    }

    pub fn advance(&mut self, kit: &Kit) -> Option<Outcome> {
        let now = Instant::now();
        if let Some(at) = self.again {
            if now < at {
                return None;
            }
            self.again = None;
            *self.run = run(kit, &self.id, &self.command, self.hook);
        }
        let was_started = self.run.started().is_some();
        let result = self.run.advance();
        let is_started = self.run.started().is_some();
        if is_started && !was_started {
            self.news = Some(HookStep::Begun);
        }
        match result {
            Some(Ok(done)) => return Some(self.ended(&done)),
            Some(Err(error)) => match self.wait_after(&error, kit, now).filter(|_| !is_started) {
                Some(wait) => {
                    self.again = Some(later(now, wait));
                    self.news = Some(HookStep::Waits);
                    return None;
                }
                None => return Some(Outcome::unknown(error.to_string())),
            },
            None => {}
        }
        if !self.run.is_running() {
            // Its streams have ended: nobody waits for its timeout any more.
            (self.due, self.asked) = (None, None);
            return None;
        }
        let due = *self.due.get_or_insert(later(self.run.started()?, self.timeout?));
        if self.asked.is_none() && now >= due {
            self.asked = self.run.inspect().map(|pending| (now, pending));
        }
        let (asked, pending) = self.asked.as_mut()?;
        let answer = pending.advance()?;
        let stalled = asked.elapsed() > limits::PROBE_DOCKER_SLOW;
        self.asked = None;
        match answer.and_then(Reply::exec) {
            Ok(detail) => match detail.exit_code.filter(|_| !detail.running) {
                Some(code) => {
                    let done = self.run.ended(code);
                    Some(self.ended(&done))
                }
                // Docker stalled, and may not know yet about an end in the meantime; or containerd stalled,
                // and the command has not started, or only just now. After `patience`, a slow answer counts,
                // too.
                None if (stalled || detail.not_started || self.not_started)
                    && now < later(self.began, kit.patience) =>
                {
                    self.not_started = detail.not_started;
                    self.due = Some(later(Instant::now(), self.timeout?));
                    None
                }
                None if detail.not_started => {
                    Some(Outcome::unknown("containerd has not started the command"))
                }
                None => Some(Outcome::Failed(outcome::exec_timed_out(&self.command, self.timeout?))),
            },
            Err(error) => Some(Outcome::unknown(error.to_string())),
        }
    }

    /// After which time a hook that has not begun is tried again.
    fn wait_after(&mut self, error: &DockerError, kit: &Kit, now: Instant) -> Option<Duration> {
        let is_retried = match (self.hook?, error) {
            // No part of the request was sent.
            (HookKind::PostStart, DockerError::Unreachable(_)) if now < later(self.began, kit.patience) => {
                return Some(limits::RECONNECT_MAX);
            }
            (HookKind::PreStop, DockerError::Unreachable(_)) => return Some(limits::RECONNECT_MAX),
            // Its stop signal waits for Docker in the same way.
            (HookKind::PreStop, DockerError::Refused(refusal)) => refusal.status >= 500,
            (HookKind::PreStop, error) => matches!(error, DockerError::Lost(_) | DockerError::Timeout(_)),
            (HookKind::PostStart, _) => false,
        };
        if !is_retried || self.missed >= limits::STOP_SIGNALS_MISSED {
            return None;
        }
        self.missed = self.missed.saturating_add(1);
        Some(doubled(limits::CALL_RETRY_MIN, self.missed.saturating_sub(1), limits::CALL_RETRY_MAX))
    }

    pub fn take_news(&mut self) -> Option<HookStep> {
        self.news.take()
    }

    fn ended(&self, done: &Executed) -> Outcome {
        let output = || outcome::exec_output(&done.stdout, &done.stderr);
        match done.code {
            0 => Outcome::Passed,
            // Docker shows the container's end a moment later. The words are runc's.
            126 if output().contains("cannot exec in a stopped") => Outcome::unknown(output()),
            code if self.hook.is_some() => Outcome::Failed(hook_exited(&self.command, code, &output())),
            _ => Outcome::Failed(output()),
        }
    }

    pub fn into_running(self) -> Option<Box<Execution>> {
        self.run.is_running().then_some(self.run)
    }

    pub fn fds(&self) -> [Option<(BorrowedFd<'_>, bool)>; 2] {
        let asked = self.asked.as_ref().and_then(|(_, call)| Some((call.fd()?, call.wants_write())));
        [self.run.fd().map(|fd| (fd, self.run.wants_write())), asked]
    }

    pub fn wake(&self) -> Option<Instant> {
        if self.again.is_some() {
            return self.again;
        }
        let asked = match &self.asked {
            Some((_, call)) => Some(call.deadline().unwrap_or_else(Instant::now)),
            // Before the start is known there is no deadline.
            None => self.due,
        };
        [self.run.wake(), asked].into_iter().flatten().min()
    }
}

/// An earlier command, as Docker reports it; `text` is the failure if it still runs.
pub(super) fn left(pending: Option<&mut Pending>, text: &str) -> Option<Outcome> {
    let Some(pending) = pending else { return Some(Outcome::unknown("an earlier command is just ending")) };
    Some(match pending.advance()? {
        Ok(Reply::Exec(detail)) if detail.running => Outcome::Failed(text.to_owned()),
        Ok(_) => Outcome::unknown("an earlier command is just ending"),
        Err(error) => Outcome::unknown(error.to_string()),
    })
}

fn run(kit: &Kit, id: &str, command: &[String], hook: Option<HookKind>) -> Execution {
    let run = Execution::begin(&kit.docker, id, command, limits::PROBE_OUTPUT, kit.patience);
    if hook.is_some() { run.lasting() } else { run }
}

fn later(at: Instant, time: Duration) -> Instant {
    at.checked_add(time).unwrap_or(at)
}
