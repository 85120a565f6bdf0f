//! `logs`: what a container wrote, from Docker, on our own standard output: both of its streams, as kubectl does it.

use std::io::{self, Write};

use super::engine::{self, Broken, Engine, LogsRequest};
use super::target;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, say};
use crate::runtime::{DockerError, RefusalKind};

/// Prints a log.
pub fn run(options: &Options, pod: &str) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let target = target::for_logs(&status.file, options, pod)?;
    if let Some(note) = &target.note {
        say(note);
    }
    let engine = engine::connect(&status.file.docker.endpoint)?;
    let (mut out, mut err) = (io::stdout(), io::stdout());
    print(&*engine, options, &target, &mut out, &mut err).map(|()| Exit::Ok)
}

fn print(
    engine: &dyn Engine,
    options: &Options,
    target: &target::Target,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), String> {
    let request = LogsRequest {
        follow: options.command.follow,
        tail: options.command.tail,
        since: options.command.since,
        timestamps: options.command.timestamps,
        tty: target.tty,
    };
    match engine.logs(&target.id, &request, out, err) {
        Ok(()) => Ok(()),
        // A reader that went away (`| head`) is no failure.
        Err(Broken::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(Broken::Docker(error)) => Err(explain(&error, &target.what)),
        Err(broken) => Err(broken.to_string()),
    }
}

/// Docker's word, and what it means here.
fn explain(error: &DockerError, what: &str) -> String {
    match error.refusal() {
        Some(RefusalKind::NoSuchContainer) => format!("{error}: it was removed since, its log with it"),
        Some(RefusalKind::LogNotKept) => format!(
            "{what} has no log: it was made with --container-log-driver=none, which keeps nothing of what a \
             container writes"
        ),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::docker::engine::tests::Scripted;
    use crate::runtime::Refusal;

    fn check(line: &str, answer: Result<(), Broken>, expected: Result<(), &str>) -> LogsRequest {
        let (options, names) = pods::tests::options(line);
        let target = target::for_logs(&pods::tests::node().file, &options, &names[0]).unwrap();
        let engine = Scripted::logs(answer);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let result = print(&engine, &options, &target, &mut out, &mut err);
        assert_eq!(result.as_ref().copied().map_err(String::as_str), expected);
        assert_eq!((out.as_slice(), err.as_slice()), (&b"to out\n"[..], &b"to err\n"[..]));
        engine.asked()
    }

    #[test]
    fn flags_become_a_request() {
        let asked = check("logs web -ft --tail 5 --since 1m", Ok(()), Ok(()));
        let expected = LogsRequest {
            follow: true,
            tail: Some(5),
            since: Duration::from_secs(60),
            timestamps: true,
            tty: Some(false),
        };
        assert_eq!(asked, expected);
        assert_eq!(check("logs web", Ok(()), Ok(())).tail, None);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        check("logs web", Err(Broken::Output(io::ErrorKind::BrokenPipe.into())), Ok(()));
        let full = Err(Broken::Output(io::ErrorKind::StorageFull.into()));
        check("logs web", full, Err("cannot write: no storage space"));
        let gone = Refusal {
            kind: RefusalKind::NoSuchContainer,
            status: 404,
            message: "No such container: c-web".into(),
        };
        check(
            "logs web",
            Err(Broken::Docker(DockerError::Refused(gone))),
            Err("No such container: c-web: it was removed since, its log with it"),
        );
        let message = "configured logging driver does not support reading".to_owned();
        let none = Refusal { kind: RefusalKind::LogNotKept, status: 501, message };
        check(
            "logs web",
            Err(Broken::Docker(DockerError::Refused(none))),
            Err(
                "container \"app\" in pod \"web-node1\" has no log: it was made with --container-log-driver=none, \
                 which keeps nothing of what a container writes",
            ),
        );
    }
}
