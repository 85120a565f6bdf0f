//! `attach`: the streams of a container that runs, as its process has them. What it wrote before is in `logs`.

use std::io;

use super::debug::terminal_for;
use super::engine::{self, Broken};
use super::{target, terminal};
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
    let has_tty = match docker.call(&Call::Inspect { id: target.id.clone() }) {
        Ok(Reply::Container(detail)) => detail.tty,
        Ok(_) => return Err(engine::surprise("inspect").to_string()),
        Err(error) => return Err(error.to_string()),
    };
    let tty = options.command.tty && has_tty && terminal::is_usable();
    if options.command.tty && !has_tty {
        say(&format!("Unable to use a TTY - {} did not allocate one", target.what));
    }
    let wanted = AttachOptions { stdin: options.command.stdin, logs: false };
    join(&docker, &target.id, wanted, has_tty, tty).map(|()| Exit::Ok).or_else(|broken| match broken {
        Broken::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Ok),
        broken => Err(broken.to_string()),
    })
}

/// `has_tty`: the container's output is one stream. `tty`: our terminal is raw meanwhile.
fn join(docker: &Docker, id: &str, options: AttachOptions, has_tty: bool, tty: bool) -> Result<(), Broken> {
    let stdin = options.stdin;
    let Duplex { mut output, input } = docker.attach(id, options, has_tty)?;
    let _raw = match tty {
        true => Some(terminal_for(docker, id).map_err(Broken::Output)?),
        false => None,
    };
    if let Some((rows, columns)) = terminal::size().filter(|_| tty) {
        // A size that does not arrive spoils a picture, no more.
        _ = docker.call(&Call::Resize { id: id.to_owned(), rows, columns });
        say("If you don't see a command prompt, try pressing enter.");
    }
    if stdin {
        engine::pass_stdin(input)?;
    }
    engine::copy(&mut output, &mut io::stdout(), &mut io::stderr())
}
