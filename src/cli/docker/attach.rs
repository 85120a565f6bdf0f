//! `attach`: joins the streams of a running container's process. Earlier output is in `logs`.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};

use super::engine::{self, Broken};
use super::{target, terminal};
use crate::base::{limits, wait};
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, say};
use crate::runtime::docker::Docker;
use crate::runtime::request::AttachOptions;
use crate::runtime::stream::Duplex;
use crate::runtime::{Call, Reply};

/// Joins the streams until the container ends.
pub fn run(options: &Options, pod: &str) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let target = target::for_attach(&status.file, options, pod)?;
    if let Some(note) = &target.note {
        say(note);
    }
    let docker = engine::docker(&crate::cli::flags::endpoint(&status.file.docker.endpoint)?)?;
    let detail = docker.call(&Call::Inspect { id: target.id.clone() }).and_then(Reply::container);
    let has_tty = detail.map_err(|error| error.to_string())?.tty;
    let tty = options.command.tty && has_tty && terminal::is_usable();
    if options.command.tty && !has_tty {
        say(&format!("Unable to use a TTY - {} did not allocate one", target.what));
    }
    let streams = Streams { stdin: options.command.stdin, has_tty, tty };
    let begin = || {
        if tty {
            say("If you don't see a command prompt, try pressing enter.");
        }
        Ok(())
    };
    join(&docker, &target.id, &streams, begin).map(|()| Exit::Ok).or_else(|broken| match broken {
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
}

/// Joins the streams until the container ends. `begin` is called as soon as no output can be missed.
pub(super) fn join(
    docker: &Docker,
    id: &str,
    streams: &Streams,
    begin: impl FnOnce() -> Result<(), Broken>,
) -> Result<(), Broken> {
    let wanted = AttachOptions { stdin: streams.stdin, logs: false };
    let Duplex { mut output, input } = docker.attach(id, wanted, streams.has_tty)?;
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
        engine::pass_stdin(input)?;
    }
    engine::copy(&mut output, &mut Awaited(io::stdout()), &mut Awaited(io::stderr()))
}

/// An output that is waited for only so long: while nobody takes it, the container waits in its writes, and Docker does
/// not see its end.
struct Awaited<W>(W);

impl<W: Write + AsFd> Write for Awaited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = wait::later(limits::ATTACH_STALL);
        let ready = wait::until(vec![PollFd::new(&self.0, PollFlags::OUT)], Some(until))?;
        if ready.iter().all(|flags| flags.is_empty()) {
            let why = "nothing takes the output: the attach is over, and the container goes on";
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        // A pipe that can be written to takes at least as much without waiting.
        self.0.write(bytes.get(..PIPE_BUF).unwrap_or(bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// POSIX's `PIPE_BUF` of Linux.
const PIPE_BUF: usize = 4096;

/// Sets raw mode; the container's terminal follows the size of ours.
fn terminal_for(docker: &Docker, id: &str) -> io::Result<terminal::Raw> {
    let (docker, id) = (docker.clone(), id.to_owned());
    terminal::Raw::enter(move |rows, columns| {
        _ = docker.call(&Call::Resize { id: id.clone(), rows, columns });
    })
}
