//! Exec and attach: the streams of a client on one side, those of Docker on the other.
//!
//! Never here: an unbounded wait for Docker, or reading output that the client does not take.

use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};

use super::client::Client;
use super::{Broken, Pace};
use crate::base::limits;
use crate::base::wait::{self, later};
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::frames::StreamKind;
use crate::runtime::life::{ENDED, Life};
use crate::runtime::request::{AttachOptions, LogOptions};
use crate::runtime::stream::{Duplex, InputStream, Output, OutputStream};
use crate::runtime::{Call, DockerError, DockerState, ExecBody};
use crate::server::connection::Upgraded;
use crate::server::stream::command::{Channel, News, Size, Streams, Wanted};
use crate::server::stream::negotiate::Command;
use crate::server::stream::status::Outcome;

/// The request of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Run a command in the container.
    Exec(Vec<String>),
    /// Join its own streams. `tty`: it has a terminal; `closes_input`: its input ends with the client's.
    Attach { tty: bool, closes_input: bool },
}

impl Work {
    fn doing(&self) -> &'static str {
        match self {
            Work::Exec(_) => "executing command in container",
            Work::Attach { .. } => "attaching to container",
        }
    }
}

/// One exec or attach.
#[derive(Debug)]
pub struct Job {
    pub docker: Docker,
    /// Docker's id of the container.
    pub container: String,
    pub work: Work,
    pub wanted: Wanted,
    /// The operation and the pod, for the log.
    pub what: String,
}

/// Relays the streams until their end.
pub fn run(job: &Job, protocol: Command, upgraded: Upgraded) {
    let mut relay = Relay {
        client: Client::new(upgraded),
        streams: Streams::new(protocol, job.wanted),
        input: Vec::new(),
        is_ended: false,
        size: None,
        has_poured: false,
        active: Instant::now(),
        pace: Pace::default(),
    };
    match relay.run(job) {
        Ok(()) | Err(Broken::Gone) => {}
        Err(Broken::Client(why)) => {
            log::info!("{}: {why}; its connection is closed", job.what);
            relay.client.give_up(relay.streams.output());
        }
    }
}

/// The exec or attach in Docker.
struct Started {
    /// The exec's id; `None` for an attach.
    exec: Option<String>,
    /// The container's.
    life: Life,
    output: OutputStream,
    /// `None` after the input was ended.
    input: Option<InputStream>,
}

struct Relay {
    client: Client,
    streams: Streams,
    /// Input that Docker has not taken yet.
    input: Vec<u8>,
    /// The client's input has ended.
    is_ended: bool,
    /// A new size of the terminal, for Docker.
    size: Option<Size>,
    /// Docker has told some output.
    has_poured: bool,
    /// When something was sent or received last.
    active: Instant,
    /// How fast the client takes output.
    pace: Pace,
}

impl Relay {
    fn run(&mut self, job: &Job) -> Result<(), Broken> {
        self.wait_for_streams()?;
        let outcome = match start(job) {
            Ok(mut started) => {
                let mut ended = self.carry(job, &mut started)?;
                if ended.is_ok()
                    && !self.has_poured
                    && let Some(log) = missed(job)
                {
                    (started.output, started.input) = (log, None);
                    ended = self.carry(job, &mut started)?;
                }
                let Started { exec, input, output, .. } = started;
                let outcome = ended.and_then(|()| outcome(job, exec.as_deref()));
                drop((input, output));
                outcome
            }
            Err(error) => Err(error),
        };
        let outcome = outcome.unwrap_or_else(|error| {
            log::info!("{}: {error}", job.what);
            Outcome::Failed { doing: job.work.doing(), why: error.to_string() }
        });
        self.streams.end(&outcome);
        if self.client.flush(self.streams.output()).is_ok() {
            self.client.linger(limits::STREAM_LINGER, &mut |bytes| self.streams.is_closed_by(bytes));
        }
        Ok(())
    }

    /// Waits until the client has created all streams that it asked for. Input that comes before that is kept.
    fn wait_for_streams(&mut self) -> Result<(), Broken> {
        let until = later(limits::STREAMS_CREATED);
        loop {
            let mut moved = self.hear()?;
            moved |= self.client.send(self.streams.output())?;
            if self.streams.is_ready() {
                return Ok(());
            }
            if Instant::now() >= until || self.input.len() >= limits::STREAM_BACKLOG {
                return Err(Broken::Client("timed out waiting for client to create streams".to_owned()));
            }
            // More may have been read already, which no poll would report.
            if !moved {
                let (wants_read, has_outgoing) = (self.may_hear(), !self.streams.output().is_empty());
                let set = vec![self.client.poll(wants_read, has_outgoing)];
                wait::until(set, Some(until)).map_err(std::io::Error::from)?;
            }
        }
    }

    /// Whether there is room for the client's bytes, and for the answers to them.
    fn may_hear(&mut self) -> bool {
        self.input.len() < limits::STREAM_BACKLOG && self.streams.output().len() < limits::STREAM_BACKLOG
    }

    /// Takes messages of the client, as long as there is room for input; returns true when there were any.
    fn hear(&mut self) -> Result<bool, Broken> {
        let mut moved = false;
        for _ in 0..limits::STREAM_TURN {
            if self.input.len() >= limits::STREAM_BACKLOG {
                break;
            }
            match self.streams.news()? {
                Some(News::Input(bytes)) => self.input.extend(bytes),
                Some(News::InputEnded) => self.is_ended = true,
                Some(News::Resized(size)) => self.size = Some(size),
                Some(News::Gone) => return Err(Broken::Gone),
                None if self.streams.output().len() >= limits::STREAM_BACKLOG => break,
                None => match self.client.read()? {
                    Some(bytes) => self.streams.receive(&bytes),
                    None => break,
                },
            }
            moved = true;
        }
        Ok(moved)
    }

    /// Relays until Docker's output ends, or Docker fails. The end of the client is an error of its own.
    fn carry(&mut self, job: &Job, started: &mut Started) -> Result<Result<(), DockerError>, Broken> {
        loop {
            let mut moved = self.hear()?;
            moved |= self.feed(job, started);
            self.resize(job, started.exec.as_deref());
            match self.pour(&mut started.output) {
                Ok(Poured::End) => return Ok(Ok(())),
                Ok(Poured::Some) => moved = true,
                Ok(Poured::Nothing) => {}
                Err(error) => return Ok(Err(error)),
            }
            let before = self.streams.output().len();
            let is_taken = self.client.send(self.streams.output())?;
            let waits = self.streams.output().len();
            let is_behind = waits >= limits::STREAM_BACKLOG / 2;
            if self.pace.note(before.saturating_sub(waits), is_behind, Instant::now())
                && started.exec.is_none()
            {
                // Docker's side is closed before the client is told, which may take long.
                return Ok(Err(DockerError::Stalled(super::STALLED.to_owned())));
            }
            if started.life.is_past(Instant::now()) {
                return Ok(Err(DockerError::Stalled(ENDED.to_owned())));
            }
            if moved || is_taken {
                self.active = Instant::now();
            } else {
                self.wait(started)?;
            }
        }
    }

    /// Sends input to Docker; returns true when some was sent.
    fn feed(&mut self, job: &Job, started: &mut Started) -> bool {
        let Some(to) = &mut started.input else {
            let count = self.input.len();
            self.input.clear();
            self.streams.taken(count);
            return count > 0;
        };
        let taken = match to.write(&self.input) {
            Ok(taken) => taken,
            // The command does not read any more; its output continues.
            Err(_) => {
                started.input = None;
                return true;
            }
        };
        self.input.drain(..taken.min(self.input.len()));
        self.streams.taken(taken);
        // Docker takes the end of an attach's input for the end of the attach, output included: it is not passed on.
        let is_kept = matches!(job.work, Work::Attach { closes_input: false, .. });
        if self.input.is_empty() && self.is_ended && !is_kept {
            to.close();
            started.input = None;
            return true;
        }
        taken > 0
    }

    /// Sends the size of the terminal to Docker. A failure only spoils the picture.
    fn resize(&mut self, job: &Job, exec: Option<&str>) {
        let Some(Size { width: columns, height: rows }) = self.size.take() else { return };
        if rows == 0 || columns == 0 || !job.wanted.tty {
            return;
        }
        let call = match exec {
            Some(id) => Call::ExecResize { id: id.to_owned(), rows, columns },
            None => Call::Resize { id: job.container.clone(), rows, columns },
        };
        if let Err(error) = job.docker.call(&call) {
            log::debug!("{}: the terminal's size cannot be set: {error}", job.what);
        }
    }

    /// Passes Docker's output to the streams, as long as the client takes it.
    fn pour(&mut self, output: &mut OutputStream) -> Result<Poured, DockerError> {
        let mut poured = Poured::Nothing;
        while self.streams.output().len() < limits::STREAM_BACKLOG {
            let (channel, bytes) = match output.next(&Wait::at_most(std::time::Duration::ZERO))? {
                Output::Idle => break,
                Output::End => return Ok(Poured::End),
                Output::Bytes(StreamKind::Stderr | StreamKind::System, bytes) => (Channel::Stderr, bytes),
                Output::Bytes(StreamKind::Stdin | StreamKind::Stdout, bytes) => (Channel::Stdout, bytes),
            };
            self.streams.write(channel, bytes);
            (poured, self.has_poured) = (Poured::Some, true);
        }
        Ok(poured)
    }

    fn wait(&mut self, started: &Started) -> Result<(), Broken> {
        let until = self.active.checked_add(limits::STREAM_IDLE);
        if until.is_some_and(|at| at <= Instant::now()) {
            return Err(Broken::Client("nothing was sent or received for too long".to_owned()));
        }
        let waiting = self.streams.output().len();
        let has_room = waiting < limits::STREAM_BACKLOG;
        let stall = self.pace.until().filter(|_| started.exec.is_none());
        let until = until.into_iter().chain(stall).chain(started.life.until()).min();
        let wants_read = has_room && self.input.len() < limits::STREAM_BACKLOG;
        let mut docker = PollFlags::empty();
        if has_room {
            docker |= PollFlags::IN;
        }
        if started.input.is_some() && !self.input.is_empty() {
            docker |= PollFlags::OUT;
        }
        let mut set = vec![self.client.poll(wants_read, waiting > 0)];
        set.extend(started.life.end());
        // With empty flags a connection that Docker has closed would wake up again and again.
        if !docker.is_empty() {
            set.push(PollFd::from_borrowed_fd(started.output.as_fd(), docker));
        }
        let there = wait::until(set, until).map_err(std::io::Error::from)?;
        let broken = PollFlags::HUP | PollFlags::ERR;
        match there.first() {
            Some(flags) if flags.intersects(broken) && !wants_read => Err(Broken::Gone),
            _ => Ok(()),
        }
    }
}

enum Poured {
    Some,
    Nothing,
    End,
}

fn start(job: &Job) -> Result<Started, DockerError> {
    // First, for the output must not wait for it, and the process may end at any time.
    let life = Life::of(&job.docker, &job.container)?;
    let (exec, Duplex { output, input }) = match &job.work {
        Work::Exec(command) => {
            let body = ExecBody {
                attach_stdin: job.wanted.stdin,
                attach_stdout: job.wanted.stdout || !job.wanted.stderr,
                attach_stderr: job.wanted.stderr,
                tty: job.wanted.tty,
                cmd: command.clone(),
            };
            let id =
                job.docker.call(&Call::ExecCreate { id: job.container.clone(), body })?.exec_created()?;
            let streams = job.docker.exec_start(&id, job.wanted.tty)?;
            (Some(id), streams)
        }
        Work::Attach { tty, .. } => {
            let options = AttachOptions { stdin: job.wanted.stdin, logs: false };
            (None, job.docker.attach_running(&job.container, options, *tty)?)
        }
    };
    Ok(Started { exec, life, output, input: Some(input).filter(|_| job.wanted.stdin) })
}

/// The log of a container that ended so soon that an attach to it got nothing: all that it wrote came before Docker had
/// joined its streams. `None`: it did not, or its log cannot be read. Clients expect it from `kubectl run -i`, which asks for
/// the log by itself only where the attach is refused.
fn missed(job: &Job) -> Option<OutputStream> {
    let Work::Attach { tty, .. } = job.work else { return None };
    let detail = job.docker.inspect(&job.container).ok()?;
    let lived = detail.finished_at?.duration_since(detail.started_at?).unsigned_abs();
    if detail.state != DockerState::Exited || lived > limits::ATTACH_MISSED {
        return None;
    }
    let all = LogOptions { follow: false, tail: None, since: None, timestamps: false };
    job.docker.logs(&job.container, &all, tty).ok()
}

/// The result of the work.
fn outcome(job: &Job, exec: Option<&str>) -> Result<Outcome, DockerError> {
    // The end of an attach is a success whatever the container's exit code, which is in the pod's status. `kubectl run`
    // takes anything else for a failure to attach, and prints the log.
    let code = exec.map_or(Ok(0), |id| job.docker.exec_exit_code(id))?;
    Ok(if code == 0 { Outcome::Success } else { Outcome::Exit(code) })
}

#[cfg(test)]
mod tests;
