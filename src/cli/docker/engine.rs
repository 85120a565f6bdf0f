//! The calls of Docker that `logs` and `exec` make, as a trait, so that tests need no Docker.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fmt, iter};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{Shutdown, shutdown};

use crate::base::clock::{Clock, System, Timestamp};
use crate::base::handover::handover;
use crate::base::{limits, thread, wait};
use crate::cli::flags::endpoint;
use crate::runtime::client::Client;
use crate::runtime::connection::Wait;
use crate::runtime::docker::{Docker, Endpoint};
use crate::runtime::frames::StreamKind;
use crate::runtime::life::{ENDED, Life};
use crate::runtime::request::LogOptions;
use crate::runtime::stream::{Duplex, InputStream, Output, OutputStream};
use crate::runtime::{Call, DockerError, DockerState, ExecBody};

/// The part of a container's log that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogsRequest {
    /// Wait for new output at the end.
    pub follow: bool,
    /// Number of last lines; `None` for all.
    pub tail: Option<u64>,
    /// Start of the wanted part.
    pub since: Since,
    /// Put the time before each line.
    pub timestamps: bool,
    /// True when the container has a terminal and its log is not framed; `None` when only Docker knows.
    pub tty: Option<bool>,
    /// What to tell if Docker has created the container and not started it.
    pub unstarted: Option<String>,
}

/// The time from which on a log is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// The beginning.
    Ever,
    /// This long ago.
    Ago(Duration),
    /// After this time.
    Time(Timestamp),
}

/// Docker, for the command line.
pub trait Engine: Send + Sync {
    /// Copies a container's log until its end.
    ///
    /// # Errors
    /// Docker's, or [`Broken::Output`] when the reader is gone.
    fn logs(&self, id: &str, request: &LogsRequest, out: &mut dyn Write) -> Result<(), Broken>;

    /// Runs a command in a container until it ends, and returns its exit code. With `attach_stdin` it passes the
    /// process's standard input on. It calls `started` with the exec's id once the command runs.
    ///
    /// # Errors
    /// Docker's, or [`Broken::Output`] when the reader is gone.
    fn exec(
        &self,
        id: &str,
        body: &ExecBody,
        started: &mut dyn FnMut(&str),
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<i64, Broken>;

    /// Sets the size of the exec's terminal.
    ///
    /// # Errors
    /// Docker's.
    fn resize(&self, exec: &str, rows: u16, columns: u16) -> Result<(), DockerError>;
}

/// Why a stream ended early.
#[derive(Debug)]
pub enum Broken {
    /// Docker failed or refused.
    Docker(DockerError),
    /// Our own output failed.
    Output(io::Error),
    /// The container has not started.
    Waits(String),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Docker(error) => error.fmt(f),
            Broken::Output(error) => write!(f, "cannot write: {error}"),
            Broken::Waits(why) => f.write_str(why),
        }
    }
}

impl From<DockerError> for Broken {
    fn from(error: DockerError) -> Broken {
        Broken::Docker(error)
    }
}

/// Docker at the endpoint that the status file names.
///
/// # Errors
/// A message for the user.
pub fn connect(text: &str) -> Result<Box<dyn Engine>, String> {
    Ok(Box::new(docker(&endpoint(text)?)?))
}

/// Docker at this endpoint.
///
/// # Errors
/// A message for the user.
pub fn docker(endpoint: &Endpoint) -> Result<Docker, String> {
    match endpoint {
        Endpoint::Unix(path) => Ok(Docker::Engine(Client::new(path))),
        Endpoint::Fake => {
            Err("fake:// is a Docker in a daemon's memory: what it has lives in its memory only".into())
        }
    }
}

/// Whether Docker at this endpoint takes a connection and does not answer within `patience`. A Docker that this user
/// may not ask, or that refuses the connection, is not silent.
pub fn is_silent(text: &str, patience: Duration) -> bool {
    let Ok(Endpoint::Unix(socket)) = endpoint(text) else { return false };
    let (answer, answered) = handover();
    let ask = move || _ = answer.give(Client::new(&socket).ping().is_ok());
    // The thread is not joined when it hangs: this process ends soon.
    let asks = thread::spawn("pk-ping", limits::MAIN_STACK, ask);
    asks.is_ok() && answered.take(patience) == Err(RecvTimeoutError::Timeout)
}

/// Reports regularly that a wait goes on, until it is dropped: after `first`, and then at ever longer intervals.
pub(super) struct Waiting {
    _end: Sender<()>,
}

impl Waiting {
    /// `tell` gets the time waited so far. It is not called when no thread can be made.
    pub(super) fn begin(first: Duration, tell: impl Fn(Duration) + Send + 'static) -> Waiting {
        let (end, ended) = bounded::<()>(0);
        let watch = move || {
            let (mut waited, mut next) = (Duration::ZERO, first);
            while ended.recv_timeout(next) == Err(RecvTimeoutError::Timeout) {
                waited = waited.saturating_add(next);
                next = waited;
                tell(waited);
            }
        };
        _ = thread::spawn("pk-wait", limits::MAIN_STACK, watch);
        Waiting { _end: end }
    }
}

impl Engine for Docker {
    fn logs(&self, id: &str, request: &LogsRequest, out: &mut dyn Write) -> Result<(), Broken> {
        let options = LogOptions {
            follow: request.follow,
            tail: request.tail,
            since: since(request.since, System::start().now().wall),
            timestamps: request.timestamps,
        };
        let tty = match (request.tty, &request.unstarted) {
            (Some(tty), None) => tty,
            (_, unstarted) => {
                let detail = self.inspect(id)?;
                match unstarted {
                    Some(why) if detail.state == DockerState::Created => {
                        return Err(Broken::Waits(why.clone()));
                    }
                    _ => detail.tty,
                }
            }
        };
        let put = |_, bytes: &[u8]| out.write_all(bytes).and_then(|()| out.flush());
        each_piece(&mut Docker::logs(self, id, &options, tty)?, put)
    }

    fn exec(
        &self,
        id: &str,
        body: &ExecBody,
        started: &mut dyn FnMut(&str),
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<i64, Broken> {
        let life = Life::of(self, id)?;
        let exec = self.call(&Call::ExecCreate { id: id.to_owned(), body: body.clone() })?.exec_created()?;
        let Duplex { mut output, input } = self.exec_start(&exec, body.tty)?;
        started(&exec);
        if body.attach_stdin {
            pass_stdin(input, true)?;
        }
        let end = End::watch(life, &output)?;
        let copied = end.result(copy(&mut output, out, err));
        // The thread of the input has the connection, too.
        _ = shutdown(output.as_fd(), Shutdown::Both);
        copied?;
        Ok(self.exec_exit_code(&exec)?)
    }

    fn resize(&self, exec: &str, rows: u16, columns: u16) -> Result<(), DockerError> {
        self.call(&Call::ExecResize { id: exec.to_owned(), rows, columns }).map(drop)
    }
}

/// Lets go of Docker's streams when their container has ended and nothing takes the rest of their output: Docker would not see
/// that end.
pub(super) struct End {
    was_cut: Arc<AtomicBool>,
}

impl End {
    /// Watches in a thread that ends with the connection.
    pub(super) fn watch(mut life: Life, output: &OutputStream) -> Result<End, Broken> {
        let was_cut = Arc::new(AtomicBool::new(false));
        let cuts = Arc::clone(&was_cut);
        let connection = output.as_fd().try_clone_to_owned().map_err(Broken::Output)?;
        let watch = move || {
            while !life.is_past(Instant::now()) {
                let set = iter::once(PollFd::new(&connection, PollFlags::empty())).chain(life.end());
                match wait::until(set.collect(), life.until()).as_deref() {
                    Ok([of_connection, ..]) if of_connection.is_empty() => {}
                    _ => return,
                }
            }
            cuts.store(true, Ordering::Relaxed);
            _ = shutdown(&connection, Shutdown::Both);
        };
        thread::spawn("pk-end", limits::MAIN_STACK, watch).map_err(Broken::Output)?;
        Ok(End { was_cut })
    }

    /// What came of a copy: it is not whole if it was cut.
    pub(super) fn result(&self, copied: Result<(), Broken>) -> Result<(), Broken> {
        match self.was_cut.load(Ordering::Relaxed) {
            true => Err(DockerError::Stalled(ENDED.to_owned()).into()),
            false => copied,
        }
    }
}

/// The wall time in Docker's format; `None` for all times.
fn since(since: Since, now: Timestamp) -> Option<String> {
    let nanos = match since {
        Since::Ever => return None,
        Since::Ago(ago) => {
            now.as_nanosecond().saturating_sub(i128::try_from(ago.as_nanos()).unwrap_or(i128::MAX))
        }
        Since::Time(time) => time.as_nanosecond(),
    };
    let nanos = nanos.max(0);
    Some(format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000))
}

/// Copies both streams until their end.
pub(super) fn copy(
    output: &mut OutputStream,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), Broken> {
    each_piece(output, |kind, bytes| {
        let to: &mut dyn Write = match kind {
            StreamKind::Stderr | StreamKind::System => &mut *err,
            StreamKind::Stdin | StreamKind::Stdout => &mut *out,
        };
        to.write_all(bytes).and_then(|()| to.flush())
    })
}

/// Calls back with each piece at once, until the end: a user may be watching.
fn each_piece(
    output: &mut OutputStream,
    mut put: impl FnMut(StreamKind, &[u8]) -> io::Result<()>,
) -> Result<(), Broken> {
    loop {
        match output.next(&Wait::default())? {
            Output::End => return Ok(()),
            Output::Idle => {}
            Output::Bytes(kind, bytes) => put(kind, bytes).map_err(Broken::Output)?,
        }
    }
}

/// Passes standard input on, and its end if `ends`, in a thread that ends with the process: its read cannot be
/// interrupted.
pub(super) fn pass_stdin(to: InputStream, ends: bool) -> Result<(), Broken> {
    let pump = move || pump(&mut io::stdin().lock(), to, ends);
    thread::spawn("pk-stdin", limits::MAIN_STACK, pump).map(drop).map_err(Broken::Output)
}

/// Passes `from` on until its end, or until the command no longer reads.
fn pump(from: &mut dyn Read, mut to: InputStream, ends: bool) {
    let mut buffer = [0u8; limits::HTTP_READ];
    loop {
        match from.read(&mut buffer) {
            Ok(0) if ends => return to.close(),
            Ok(0) => return,
            Ok(n) => match to.write_all(buffer.get(..n).unwrap_or_default(), &Wait::default()) {
                Ok(true) => {}
                Ok(false) | Err(_) => return,
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if ends => return to.close(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::net::UnixListener;
    use std::sync::Mutex;

    use super::*;
    use crate::runtime::CreateBody;
    use crate::runtime::fake::Fake;

    #[test]
    fn a_docker_that_takes_a_connection_and_says_nothing_is_silent() {
        let dir = crate::base::testing::scratch("silent-docker");
        let socket = dir.join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let endpoint = format!("unix://{}", socket.display());
        assert!(is_silent(&endpoint, Duration::from_millis(50)));
        drop(listener);
        assert!(!is_silent(&endpoint, Duration::from_secs(60)), "nobody listens: that is another warning");
        assert!(!is_silent("fake://", Duration::from_millis(1)));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn who_waits_is_told_until_it_is_over() {
        let (out, told) = bounded(1);
        let waiting = Waiting::begin(Duration::from_millis(1), move |waited| _ = out.send(waited));
        let two: Vec<Duration> = told.iter().take(2).collect();
        assert_eq!(two, [Duration::from_millis(1), Duration::from_millis(2)]);
        drop(waiting);
        assert!(told.iter().count() < 64, "it ends");
    }

    /// Docker ends at once the log of a container that it has created and not started.
    #[test]
    fn a_container_that_has_not_started_has_no_log() {
        let fake = Fake::new(std::sync::Arc::new(System::start()), 1);
        fake.with(|state| drop(state.add_image("busybox:1", true)));
        let body = CreateBody { image: "busybox:1".into(), ..CreateBody::default() };
        let docker = Docker::Fake(fake);
        let made = docker.call(&Call::Create { name: "web".into(), body: Box::new(body) });
        let (id, _) = made.unwrap().created().unwrap();
        let request = |unstarted: Option<&str>| LogsRequest {
            follow: false,
            tail: None,
            since: Since::Ever,
            timestamps: false,
            tty: Some(false),
            unstarted: unstarted.map(str::to_owned),
        };
        let told = |unstarted| Engine::logs(&docker, &id, &request(unstarted), &mut Vec::new());
        assert_eq!(told(Some("it waits")).unwrap_err().to_string(), "it waits");
        assert!(told(None).is_ok(), "its start has failed");
        docker.call(&Call::Start { id: id.clone() }).unwrap();
        assert!(told(Some("it waits")).is_ok(), "it runs by now");
    }

    /// An engine that writes a line to each stream and then gives a fixed answer.
    pub(crate) struct Scripted {
        asked: Mutex<Option<LogsRequest>>,
        logs: Mutex<Option<Result<(), Broken>>>,
        exec: Mutex<Option<Result<i64, Broken>>>,
    }

    impl Scripted {
        pub(crate) fn logs(answer: Result<(), Broken>) -> Scripted {
            Scripted { asked: None.into(), logs: Some(answer).into(), exec: None.into() }
        }
        pub(crate) fn exec(answer: Result<i64, Broken>) -> Scripted {
            Scripted { asked: None.into(), logs: None.into(), exec: Some(answer).into() }
        }
        pub(crate) fn asked(self) -> LogsRequest {
            self.asked.into_inner().unwrap().unwrap()
        }
    }

    impl Engine for Scripted {
        fn logs(&self, _id: &str, request: &LogsRequest, out: &mut dyn Write) -> Result<(), Broken> {
            *self.asked.lock().unwrap() = Some(request.clone());
            out.write_all(b"to out\n").and_then(|()| out.write_all(b"to err\n")).map_err(Broken::Output)?;
            self.logs.lock().unwrap().take().unwrap()
        }
        fn exec(
            &self,
            id: &str,
            _body: &ExecBody,
            started: &mut dyn FnMut(&str),
            _out: &mut dyn Write,
            _err: &mut dyn Write,
        ) -> Result<i64, Broken> {
            started(&format!("exec-of-{id}"));
            self.exec.lock().unwrap().take().unwrap()
        }
        fn resize(&self, _exec: &str, _rows: u16, _columns: u16) -> Result<(), DockerError> {
            Ok(())
        }
    }

    #[test]
    fn endpoints_that_cannot_be_asked() {
        assert!(connect("fake://").err().unwrap().contains("in its memory only"));
        assert!(connect("unix:///var/run/docker.sock").is_ok());
        assert!(connect("tcp://x").err().unwrap().contains("must be unix:///PATH"));
    }

    #[test]
    fn since_is_a_wall_time_for_docker() {
        let now: Timestamp = "1970-01-01T00:01:40.5Z".parse().unwrap();
        assert_eq!(since(Since::Ever, now), None);
        assert_eq!(since(Since::Ago(Duration::from_millis(90_250)), now), Some("10.250000000".into()));
        assert_eq!(since(Since::Ago(Duration::MAX), now), Some("0.000000000".into()));
        assert_eq!(since(Since::Time(now), now), Some("100.500000000".into()));
    }
}
