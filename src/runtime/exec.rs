//! A command run in a container, from its creation to its exit code, advanced without blocking: one thread
//! can run many at once. Interactive commands use `docker::Docker::exec_start`.
//!
//! Never here: output that grows without bound, a stream that is not read while the command runs
//! (moby/moby#30311), or a turn that lasts as long as the command writes. Dropping it before its end closes
//! its connection; the command keeps running.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::body::ExecBody;
use super::client::Pending;
use super::connection::Wait;
use super::docker::Docker;
use super::exchange::{Exchange, Goal};
use super::frames::StreamKind;
use super::refusal::refusal;
use super::request::Request;
use super::stream::{Body, Output, OutputStream};
use super::types::{Call, DockerError, ExecDetail, Reply};
use crate::base::limits;
use crate::base::pace::doubled;

/// A command that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Exit code of the command.
    pub code: i64,
    /// Standard output, cut at the limit.
    pub stdout: Vec<u8>,
    /// Standard error, cut at the limit.
    pub stderr: Vec<u8>,
}

/// A running command; see the module.
#[derive(Debug)]
pub struct Execution {
    docker: Docker,
    step: Step,
    limit: usize,
    /// How long each call to Docker may take.
    patience: Duration,
    /// Its end is found out also when its streams break off.
    lasting: bool,
    started: Option<Instant>,
    /// The answer to its start, which Docker may have carried out all the same.
    unsure: Option<DockerError>,
    /// Failures in a row to learn whether it has ended.
    missed: u32,
    /// There may be more to read at once.
    more: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

#[derive(Debug)]
enum Step {
    Create(Pending),
    Start {
        id: String,
        exchange: Box<Exchange>,
        until: Instant,
    },
    Stream {
        id: String,
        output: Box<OutputStream>,
    },
    /// The exit code may lag behind the end of the streams.
    Ask {
        id: String,
        pending: Pending,
        until: Instant,
    },
    Pause {
        id: String,
        at: Instant,
        until: Instant,
    },
    Over,
}

impl Step {
    fn pause(id: String, time: Duration, until: Instant) -> Step {
        let now = Instant::now();
        Step::Pause { id, at: now.checked_add(time).unwrap_or(now), until }
    }
}

impl Execution {
    /// Begins to run `command` in a container; `limit` bytes of each stream are kept. Each call to Docker may
    /// take `patience`.
    #[must_use]
    pub fn begin(
        docker: &Docker,
        container: &str,
        command: &[String],
        limit: usize,
        patience: Duration,
    ) -> Execution {
        let body = ExecBody {
            attach_stdin: false,
            attach_stdout: true,
            attach_stderr: true,
            tty: false,
            cmd: command.to_vec(),
        };
        let pending = docker.begin(&Call::ExecCreate { id: container.to_owned(), body });
        Execution {
            docker: docker.clone(),
            step: Step::Create(pending.within(patience)),
            limit,
            patience,
            lasting: false,
            started: None,
            unsure: None,
            missed: 0,
            more: false,
            stdout: Vec::new(),
            stderr: Vec::new(),
        }
    }

    /// Once it has started, the end of the command is waited for, whatever becomes of Docker meanwhile: it is not run twice.
    #[must_use]
    pub fn lasting(mut self) -> Execution {
        self.lasting = true;
        self
    }

    /// Whether the command was started, as far as is known, and has not ended.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(self.step, Step::Stream { .. })
    }

    /// When Docker reported that it has started the command; `None` before.
    #[must_use]
    pub fn started(&self) -> Option<Instant> {
        self.started
    }

    /// Requests the state of a command that [runs](Execution::is_running), in addition to its streams.
    #[must_use]
    pub fn inspect(&self) -> Option<Pending> {
        let Step::Stream { id, .. } = &self.step else { return None };
        Some(self.docker.begin(&Call::ExecInspect { id: id.clone() }).within(self.patience))
    }

    /// Ends the execution with an exit code that the caller found out. The output read so far is included.
    #[must_use]
    pub fn ended(&mut self, code: i64) -> Executed {
        self.step = Step::Over;
        let stdout = std::mem::take(&mut self.stdout);
        Executed { code, stdout, stderr: std::mem::take(&mut self.stderr) }
    }

    /// Continues as far as possible without waiting, but reads at most [`limits::EXEC_TURN`] bytes. Returns
    /// the result, once.
    pub fn advance(&mut self) -> Option<Result<Executed, DockerError>> {
        self.more = false;
        loop {
            let step = std::mem::replace(&mut self.step, Step::Over);
            match self.take_step(step) {
                Ok(Next::Continue(step)) => self.step = step,
                Ok(Next::Wait(step)) => {
                    self.step = step;
                    return None;
                }
                Ok(Next::End(code)) => return Some(Ok(self.ended(code))),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn take_step(&mut self, step: Step) -> Result<Next, DockerError> {
        match step {
            Step::Create(mut pending) => match pending.advance() {
                None => Ok(Next::Wait(Step::Create(pending))),
                Some(answer) => self.start(answer.and_then(Reply::exec_created)?).map(Next::Continue),
            },
            Step::Start { id, mut exchange, until } => match exchange.advance(Goal::Head) {
                Err(error) => self.not_started(id, error),
                Ok(None) if Instant::now() >= until => {
                    let error = DockerError::Timeout(exchange.what().to_owned());
                    self.not_started(id, error)
                }
                Ok(None) => Ok(Next::Wait(Step::Start { id, exchange, until })),
                Ok(Some(answer)) if answer.head.status >= 300 => {
                    let error = refusal(answer.head.status, &answer.body);
                    exchange.finish();
                    self.not_started(id, error)
                }
                Ok(Some(answer)) => {
                    self.started = Some(Instant::now());
                    let output = Box::new(OutputStream::new(Body::of(*exchange), answer.body.0, false));
                    Ok(Next::Continue(Step::Stream { id, output }))
                }
            },
            Step::Stream { id, mut output } => {
                let is_open = self.read(&mut output);
                if is_open.or_else(|error| if self.lasting { Ok(false) } else { Err(error) })? {
                    return Ok(Next::Wait(Step::Stream { id, output }));
                }
                Ok(Next::Continue(self.ask_soon(id)))
            }
            Step::Ask { id, mut pending, until } => match pending.advance() {
                None => Ok(Next::Wait(Step::Ask { id, pending, until })),
                Some(answer) => match answer.and_then(Reply::exec) {
                    Ok(detail) => self.seen(id, &detail, until),
                    Err(error) => self.not_seen(id, error, until),
                },
            },
            Step::Pause { id, at, until } if Instant::now() < at => {
                Ok(Next::Wait(Step::Pause { id, at, until }))
            }
            Step::Pause { id, until, .. } => Ok(Next::Continue(self.ask(id, until))),
            Step::Over => Err(DockerError::Lost("the result was taken before".to_owned())),
        }
    }

    /// Takes a failed start. Docker may have carried it out, unless it was not sent or was refused for what it is.
    fn not_started(&mut self, id: String, error: DockerError) -> Result<Next, DockerError> {
        let may_run = match &error {
            DockerError::Lost(_) | DockerError::Timeout(_) | DockerError::BadAnswer(_) => true,
            DockerError::Refused(refusal) => refusal.status >= 500,
            _ => false,
        };
        if !(self.lasting && may_run) {
            return Err(error);
        }
        // Another start follows where it was not carried out.
        self.unsure = Some(match error {
            DockerError::BadAnswer(why) => DockerError::Lost(why),
            error => error,
        });
        Ok(Next::Continue(self.ask_soon(id)))
    }

    /// Takes what Docker says of the command.
    fn seen(&mut self, id: String, detail: &ExecDetail, until: Instant) -> Result<Next, DockerError> {
        let code = detail.exit_code.filter(|_| !detail.running);
        // Docker notes a code itself where it cannot start a command (moby/moby `daemon/exec.go`).
        if self.started.is_none() && !detail.running && (code.is_none() || detail.not_started) {
            return match self.unsure.take() {
                // Docker may still be about to start it.
                Some(error @ DockerError::Timeout(_)) if code.is_none() => {
                    self.unsure = Some(error.clone());
                    self.not_seen(id, error, until)
                }
                Some(error) => Err(error),
                None => Err(DockerError::Lost("the start of a command was lost".to_owned())),
            };
        }
        self.missed = 0;
        if detail.running {
            self.unsure = None;
            self.started.get_or_insert_with(Instant::now);
        }
        match code {
            Some(code) => Ok(Next::End(code)),
            None if Instant::now() < until => Ok(Next::Wait(Step::pause(id, limits::EXEC_EXIT_LOOK, until))),
            None if self.lasting => Ok(Next::Wait(Step::pause(id, limits::RECONNECT_MAX, until))),
            None => Err(DockerError::BadAnswer("exec: its output is over, and it still runs".to_owned())),
        }
    }

    /// Docker does not say whether the command has ended. One that lasts is asked about again, but not for ever by a
    /// Docker that is there.
    fn not_seen(&mut self, id: String, error: DockerError, until: Instant) -> Result<Next, DockerError> {
        let (is_passing, is_there) = match &error {
            DockerError::Unreachable(_) => (true, false),
            DockerError::Lost(_) | DockerError::Timeout(_) | DockerError::BadAnswer(_) => (true, true),
            DockerError::Refused(refusal) => (refusal.status >= 500, true),
            _ => (false, true),
        };
        self.missed = self.missed.saturating_add(u32::from(is_there));
        if self.lasting && is_passing && self.missed < limits::STOP_SIGNALS_MISSED {
            let wait = match self.missed.checked_sub(1) {
                None => limits::RECONNECT_MAX,
                Some(before) => doubled(limits::RECONNECT_MAX, before, limits::CALL_RETRY_MAX),
            };
            return Ok(Next::Wait(Step::pause(id, wait, until)));
        }
        match self.unsure.take() {
            // A second start might run beside the first.
            Some(_) => {
                Err(DockerError::BadAnswer(format!("whether a command was started is not known: {error}")))
            }
            None => Err(error),
        }
    }

    /// Reads the available output, within bounds. Returns false at the end of the streams.
    fn read(&mut self, output: &mut OutputStream) -> Result<bool, DockerError> {
        let mut taken = 0usize;
        while taken < limits::EXEC_TURN {
            let (into, bytes) = match output.next(&Wait::at_most(Duration::ZERO))? {
                Output::Idle => return Ok(true),
                Output::End => return Ok(false),
                Output::Bytes(StreamKind::Stderr | StreamKind::System, bytes) => (&mut self.stderr, bytes),
                Output::Bytes(StreamKind::Stdin | StreamKind::Stdout, bytes) => (&mut self.stdout, bytes),
            };
            taken = taken.saturating_add(bytes.len());
            let room = self.limit.saturating_sub(into.len()).min(bytes.len());
            into.extend_from_slice(bytes.get(..room).unwrap_or_default());
        }
        self.more = true;
        Ok(true)
    }

    fn start(&mut self, id: String) -> Result<Step, DockerError> {
        match &self.docker {
            Docker::Engine(client) => {
                let exchange = Box::new(Exchange::begin(client, Some(Request::exec_start(&id, false)))?);
                let now = Instant::now();
                Ok(Step::Start { id, exchange, until: now.checked_add(self.patience).unwrap_or(now) })
            }
            Docker::Fake(_) => {
                let output = Box::new(self.docker.exec_start(&id, false)?.output);
                self.started = Some(Instant::now());
                Ok(Step::Stream { id, output })
            }
        }
    }

    fn ask_soon(&self, id: String) -> Step {
        let now = Instant::now();
        self.ask(id, now.checked_add(limits::EXEC_EXIT).unwrap_or(now))
    }

    fn ask(&self, id: String, until: Instant) -> Step {
        let pending = self.docker.begin(&Call::ExecInspect { id: id.clone() }).within(self.patience);
        Step::Ask { id, pending, until }
    }

    /// The descriptor to poll for reading.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.step {
            Step::Create(pending) | Step::Ask { pending, .. } => pending.fd(),
            Step::Start { exchange, .. } => Some(exchange.as_fd()),
            Step::Stream { output, .. } => Some(output.as_fd()),
            Step::Pause { .. } | Step::Over => None,
        }
    }

    /// Whether to poll for writing, too.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        match &self.step {
            Step::Create(pending) | Step::Ask { pending, .. } => pending.wants_write(),
            Step::Start { exchange, .. } => exchange.wants_write(),
            Step::Stream { .. } | Step::Pause { .. } | Step::Over => false,
        }
    }

    /// The latest time at which to call [`Execution::advance`].
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        match &self.step {
            Step::Create(pending) | Step::Ask { pending, .. } => match pending.fd() {
                Some(_) => pending.deadline(),
                None => Some(Instant::now()),
            },
            Step::Start { until, .. } => Some(*until),
            Step::Pause { at, .. } => Some(*at),
            Step::Stream { .. } => self.more.then(Instant::now),
            Step::Over => None,
        }
    }
}

enum Next {
    Continue(Step),
    Wait(Step),
    End(i64),
}
