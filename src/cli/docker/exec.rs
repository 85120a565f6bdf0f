//! `exec`: runs a command in a container, with our standard streams and, with `-t`, our terminal. Its exit code becomes
//! ours.

use std::io::{self, Write};
use std::sync::Arc;

use super::engine::{self, Broken, Engine, Waiting};
use super::{target, terminal};
use crate::base::limits;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, say};
use crate::runtime::{DockerError, ExecBody, RefusalKind};

/// Exit code of a command that is not executable (POSIX shells').
const NOT_EXECUTABLE: u8 = 126;
/// Exit code of a command that does not exist (POSIX shells').
const NOT_FOUND: u8 = 127;

/// Runs a command in a container.
pub fn run(options: &Options, pod: &str, command: Vec<String>) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let target = target::for_exec(&status.file, options, pod)?;
    if let Some(note) = &target.note {
        say(note);
    }
    let tty = options.command.tty && terminal::is_usable();
    let engine: Arc<dyn Engine> = engine::connect(&status.file.docker.endpoint)?.into();
    let body = ExecBody {
        attach_stdin: options.command.stdin,
        attach_stdout: true,
        // With a terminal there is one stream.
        attach_stderr: !tty,
        tty,
        cmd: command,
    };
    let mut waiting = Some(Waiting::begin(limits::DOCKER_SLOW, |waited| {
        say(&format!("Docker has not started the command for {} s; Ctrl-C ends the wait", waited.as_secs()));
    }));
    let mut raw = None;
    let result = {
        let mut started = |id: &str| {
            waiting = None;
            if tty {
                raw = terminal_for(&engine, id);
            }
        };
        // The locks are taken when the command runs: until then the user can be told of the wait.
        let (mut out, mut err) = (io::stdout(), io::stderr());
        stream(&*engine, &target.id, &body, &mut started, &mut out, &mut err)
    };
    drop((waiting, raw));
    result.map(finish)
}

/// Sets raw mode when a command with a terminal has started, and passes the terminal's size on from then on. Until then
/// Ctrl-C ends this process.
fn terminal_for(engine: &Arc<dyn Engine>, exec: &str) -> Option<terminal::Raw> {
    let (of_resized, id) = (Arc::clone(engine), exec.to_owned());
    // A resize that fails only spoils the picture.
    let resized = move |rows, columns| _ = of_resized.resize(&id, rows, columns);
    let raw =
        terminal::Raw::enter(resized).map_err(|error| say(&format!("cannot use the terminal: {error}"))).ok();
    if let Some((rows, columns)) = terminal::size() {
        _ = engine.resize(exec, rows, columns);
    }
    raw
}

/// The command's exit code, or a message for the user.
fn stream(
    engine: &dyn Engine,
    id: &str,
    body: &ExecBody,
    started: &mut dyn FnMut(&str),
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<u8, String> {
    match engine.exec(id, body, started, out, err) {
        // Docker passes the code of `wait` on, 0 to 255. Any other number is no exit code.
        Ok(code) => Ok(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(Broken::Docker(error)) => refused(&error, err),
        Err(broken) => Err(broken.to_string()),
    }
}

/// A command that cannot be started ends with the exit code of shells; other refusals are errors.
fn refused(error: &DockerError, err: &mut dyn Write) -> Result<u8, String> {
    let DockerError::Refused(refusal) = error else { return Err(error.to_string()) };
    if refusal.kind != RefusalKind::CannotRun {
        return Err(error.to_string());
    }
    let _ = writeln!(err, "error: {}", crate::base::logging::one_line(&error.to_string()));
    Ok(if refusal.names_no_command() { NOT_FOUND } else { NOT_EXECUTABLE })
}

/// Reports what is left to say, after the terminal is restored, and returns the exit code.
fn finish(code: u8) -> Exit {
    if code == 0 {
        return Exit::Ok;
    }
    say(&format!("command terminated with exit code {code}"));
    Exit::Command(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::docker::engine::tests::Scripted;
    use crate::runtime::Refusal;

    fn body() -> ExecBody {
        ExecBody {
            attach_stdin: false,
            attach_stdout: true,
            attach_stderr: true,
            tty: false,
            cmd: vec!["sh".into()],
        }
    }

    fn check(answer: Result<i64, Broken>, expected: Result<u8, &str>) {
        let engine = Scripted::exec(answer);
        let (mut out, mut err, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        let mut started = |id: &str| ids.push(id.to_owned());
        let result = stream(&engine, "c-web", &body(), &mut started, &mut out, &mut err);
        assert_eq!(result.as_ref().copied().map_err(String::as_str), expected);
        assert_eq!(ids, ["exec-of-c-web"]);
    }

    fn no(kind: RefusalKind, message: &str) -> Result<i64, Broken> {
        let refusal = Refusal { kind, status: 400, message: message.into() };
        Err(Broken::Docker(DockerError::Refused(refusal)))
    }

    #[test]
    fn exit_codes_are_passed_on() {
        check(Ok(0), Ok(0));
        check(Ok(137), Ok(137));
        check(Ok(-1), Ok(255));
        check(no(RefusalKind::CannotRun, "exec: \"x\": executable file not found in $PATH"), Ok(127));
        check(no(RefusalKind::CannotRun, "exec: \"/etc\": permission denied"), Ok(126));
        check(
            no(RefusalKind::NotRunning, "Container c-web is not running"),
            Err("Container c-web is not running"),
        );
        assert_eq!(finish(137).code(), 137);
        assert_eq!(finish(0), Exit::Ok);
    }
}
