//! `attach`: joins the streams of a running container's process. Earlier output is in `logs`.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::engine::{self, Broken};
use super::{target, terminal};
use crate::base::{limits, wait};
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, say};
use crate::runtime::Call;
use crate::runtime::docker::Docker;
use crate::runtime::life::Life;
use crate::runtime::request::AttachOptions;
use crate::runtime::stream::Duplex;
use crate::server::relay::{Pace, STALLED};

/// Joins the streams until the container ends.
pub fn run(options: &Options, pod: &str) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let target = target::for_attach(&status.file, options, pod)?;
    if let Some(note) = &target.note {
        say(note);
    }
    let docker = engine::docker(&crate::cli::flags::endpoint(&status.file.docker.endpoint)?)?;
    let has_tty = docker.inspect(&target.id).map_err(|error| error.to_string())?.tty;
    let tty = options.command.tty && has_tty && terminal::is_usable();
    if options.command.tty && !has_tty {
        say(&format!("Unable to use a TTY - {} did not allocate one", target.what));
    }
    let streams = Streams { stdin: options.command.stdin, has_tty, tty, ends_input: target.stdin_once };
    let joined = || {
        let wanted = AttachOptions { stdin: streams.stdin, logs: false };
        let both = docker.attach_running(&target.id, wanted, has_tty)?;
        if tty {
            say("If you don't see a command prompt, try pressing enter.");
        }
        carry(&docker, &target.id, &streams, both, || Ok(()))
    };
    joined().map(|()| Exit::Ok).or_else(|broken| match broken {
        Broken::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        broken => Err(broken.to_string()),
    })
}

/// Options of joining the streams of a container.
pub(super) struct Streams {
    /// Standard input is passed on.
    pub stdin: bool,
    /// The container has a terminal: its output is one stream.
    pub has_tty: bool,
    /// Our terminal is raw while joined, and the container's terminal follows its size.
    pub tty: bool,
    /// The end of our input is the end of the container's. Otherwise Docker would take it for the end of the attach.
    pub ends_input: bool,
}

/// Joins the streams of a container that does not run yet, until it ends. `start` is called as soon as no output can be
/// missed.
pub(super) fn join(
    docker: &Docker,
    id: &str,
    streams: &Streams,
    start: impl FnOnce() -> Result<(), Broken>,
) -> Result<(), Broken> {
    let wanted = AttachOptions { stdin: streams.stdin, logs: false };
    let both = docker.attach(id, wanted, streams.has_tty)?;
    carry(docker, id, streams, both, start)
}

/// Carries the streams until their end.
fn carry(
    docker: &Docker,
    id: &str,
    streams: &Streams,
    Duplex { mut output, input }: Duplex,
    begin: impl FnOnce() -> Result<(), Broken>,
) -> Result<(), Broken> {
    let _raw = match streams.tty {
        true => Some(terminal_for(docker, id).map_err(Broken::Output)?),
        false => None,
    };
    begin()?;
    if let Some((rows, columns)) = terminal::size().filter(|_| streams.tty) {
        // A resize that fails only spoils the picture.
        _ = docker.call(&Call::Resize { id: id.to_owned(), rows, columns });
    }
    if streams.stdin {
        engine::pass_stdin(input, streams.ends_input)?;
    }
    let (mut out, mut err) = (awaited(io::stdout().as_fd()), awaited(io::stderr().as_fd()));
    let end = engine::End::watch(Life::of(docker, id)?, &output)?;
    let copied = end.result(engine::copy(&mut output, &mut out, &mut err));
    // The thread of the input has the connection too, and a message may wait for who does not take the output.
    _ = shutdown(output.as_fd(), Shutdown::Both);
    copied
}

/// An output that is waited for only so long: while nobody takes it, the container waits in its writes, and Docker does
/// not see its end.
struct Awaited {
    fd: io::Result<OwnedFd>,
    pace: Pace,
    /// When there was no room last.
    waited: Option<Instant>,
}

fn awaited(fd: BorrowedFd<'_>) -> Awaited {
    // A terminal may take less than there seems to be room for. Opened anew, it does not make the shell's non-blocking.
    let again = || {
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        open(format!("/proc/self/fd/{}", fd.as_raw_fd()), flags, Mode::empty()).ok()
    };
    let own = fd.is_terminal().then(again).flatten();
    Awaited { fd: own.map_or_else(|| fd.try_clone_to_owned(), Ok), pace: Pace::default(), waited: None }
}

impl Write for Awaited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fd = self.fd.as_ref().map_err(|error| error.kind())?;
        let has_room = |until| {
            let ready = wait::until(vec![PollFd::new(fd, PollFlags::OUT)], until)?;
            io::Result::Ok(!ready.iter().all(|flags| flags.is_empty()))
        };
        let too_slow = || io::Error::new(io::ErrorKind::TimedOut, STALLED);
        loop {
            // A pipe may have room for a small piece between two waits.
            let waits = !has_room(Some(Instant::now()))?;
            self.waited = if waits { Some(Instant::now()) } else { self.waited };
            let is_behind = self.waited.is_some_and(|at| at.elapsed() < limits::ATTACH_STALL / 10);
            if self.pace.note(0, is_behind, Instant::now()) {
                return Err(too_slow());
            }
            // A reader that is slower than the container has a full pipe at each look: what it took decides.
            if waits && !has_room(self.pace.until())? {
                continue;
            }
            // Without the standard library's buffer, which would write more than there is room for.
            match rustix::io::write(fd, bytes.get(..limits::ATTACH_PIECE).unwrap_or(bytes)) {
                Err(Errno::AGAIN) => std::thread::sleep(limits::ATTACH_PAUSE),
                Ok(written) if self.pace.note(written, is_behind, Instant::now()) => return Err(too_slow()),
                written => return Ok(written?),
            }
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sets raw mode; the container's terminal follows the size of ours.
fn terminal_for(docker: &Docker, id: &str) -> io::Result<terminal::Raw> {
    let (docker, id) = (docker.clone(), id.to_owned());
    terminal::Raw::enter(move |rows, columns| {
        _ = docker.call(&Call::Resize { id: id.clone(), rows, columns });
    })
}
