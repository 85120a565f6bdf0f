//! `logs`: prints the output of containers from Docker, both streams to standard output, as kubectl does.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use crossbeam_channel::bounded;

use super::engine::{self, Broken, Engine, LogsRequest, Since};
use super::target::{self, Logs, Target};
use crate::base::{limits, thread};
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::parse::LogsOf;
use crate::cli::{Outcome, fail, pods, say};
use crate::runtime::{DockerError, RefusalKind};

/// Number of last lines of each container when a selector chooses the pods, as in kubectl.
const TAIL_OF_MANY: u64 = 10;

/// Prints the log of a pod's container, or of all containers that flags choose.
pub fn run(options: &Options, of: &LogsOf) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let Logs { targets, without } = match of {
        LogsOf::Pod(pod) => target::for_logs(&status.file, options, pod)?,
        LogsOf::Selected => target::selected_logs(&status.file, options)?,
    };
    let is_selected = *of == LogsOf::Selected;
    let engine: Arc<dyn Engine> = engine::connect(&status.file.docker.endpoint)?.into();
    let mut exit = Exit::Ok;
    for why in &without {
        exit = fail(why);
    }
    if options.logs.follow && targets.len() > 1 {
        let (many, most) = (targets.len(), options.logs.max_log_requests);
        if usize::try_from(most).is_ok_and(|most| many > most) {
            return Err(format!(
                "{many} containers would be followed, and {most} are allowed: use --max-log-requests to allow more"
            ));
        }
        return together(&engine, options, is_selected, targets).map(|()| exit);
    }
    for target in &targets {
        if let Some(note) = &target.note {
            say(note);
        }
        let request = request(options, target, is_selected);
        // One line after the other: both streams go through one writer.
        let mut out = Lines::new(io::stdout(), options, target);
        let done = print(&*engine, &request, target, &mut out);
        out.end();
        match done {
            Ok(End::Whole) => {}
            Ok(End::NoReader) => return Ok(exit),
            Err(why) if targets.len() == 1 => return Err(why),
            Err(why) => exit = fail(&why),
        }
    }
    Ok(exit)
}

/// Follows several logs at once, each in a thread of its own, until the last one ends or the reader is gone.
fn together(
    engine: &Arc<dyn Engine>,
    options: &Options,
    selected: bool,
    targets: Vec<Target>,
) -> Result<(), String> {
    let out = Arc::new(Mutex::new(io::stdout()));
    let (tell, told) = bounded(targets.len());
    for target in targets {
        let request = request(options, &target, selected);
        let mut lines = Lines::new(Shared(Arc::clone(&out)), options, &target);
        let (engine, tell) = (Arc::clone(engine), tell.clone());
        let follow = move || {
            let done = print(&*engine, &request, &target, &mut lines);
            lines.end();
            _ = tell.send(done);
        };
        thread::spawn("pk-logs", limits::WORKER_STACK, follow)
            .map_err(|error| format!("cannot follow: {error}"))?;
    }
    drop(tell);
    let mut result = Ok(());
    for done in told {
        match done {
            Ok(End::Whole) => {}
            // The other threads end with the process.
            Ok(End::NoReader) => return result,
            Err(why) => {
                say(&format!("error: {why}"));
                result = Err("not every log could be followed to its end".to_owned());
            }
        }
    }
    result
}

fn request(options: &Options, target: &Target, selected: bool) -> LogsRequest {
    let flags = &options.logs;
    let since = match flags.since_time {
        Some(time) => Since::Time(time),
        None if flags.since.is_zero() => Since::Ever,
        None => Since::Ago(flags.since),
    };
    let tail = match flags.tail {
        None => selected.then_some(TAIL_OF_MANY),
        Some(lines) => u64::try_from(lines).ok(),
    };
    LogsRequest {
        follow: flags.follow,
        tail,
        since,
        timestamps: flags.timestamps,
        tty: target.tty,
        unstarted: target.unstarted.clone(),
    }
}

/// Standard output, shared by several logs.
struct Shared(Arc<Mutex<io::Stdout>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Each piece consists of whole lines: no other thread writes in between.
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        out.write_all(bytes).and_then(|()| out.flush())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Passes a log on: with a prefix before each line when wanted, up to a number of bytes, and in whole lines where
/// several logs share the output.
struct Lines<W> {
    to: W,
    prefix: Vec<u8>,
    /// Pieces are cut into lines; otherwise each byte is written at once.
    whole: bool,
    /// A line that has not ended.
    held: Vec<u8>,
    /// Bytes that may still be written.
    left: u64,
}

impl<W: Write> Lines<W> {
    fn new(to: W, options: &Options, target: &Target) -> Lines<W> {
        let flags = &options.logs;
        let prefix = if flags.prefix { format!("[{}] ", target.path).into_bytes() } else { Vec::new() };
        let many = flags.all_containers || !options.command.selector.is_empty();
        let left = flags.limit_bytes.unwrap_or(u64::MAX);
        Lines { to, whole: flags.prefix || flags.follow && many, prefix, held: Vec::new(), left }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.whole {
            return self.to.write_all(bytes);
        }
        let mut out = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.held.is_empty() {
                self.held.extend_from_slice(&self.prefix);
            }
            self.held.extend_from_slice(line);
            // A line without an end must not fill the memory.
            if line.ends_with(b"\n") || self.held.len() > limits::HTTP_READ {
                out.append(&mut self.held);
            }
        }
        if out.is_empty() { Ok(()) } else { self.to.write_all(&out) }
    }

    /// Writes the rest: a last line without an end.
    fn end(&mut self) {
        if !self.held.is_empty() {
            self.held.push(b'\n');
            _ = self.to.write_all(&self.held).and_then(|()| self.to.flush());
        }
    }
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let allowed = usize::try_from(self.left).unwrap_or(usize::MAX).min(bytes.len());
        self.put(bytes.get(..allowed).unwrap_or_default())?;
        self.left -= allowed as u64;
        if self.left == 0 {
            self.to.flush()?;
            return Err(io::Error::other(Enough));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The error that ends a log at `--limit-bytes`.
#[derive(Debug)]
struct Enough;

impl std::fmt::Display for Enough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("as many bytes as were wanted")
    }
}

impl std::error::Error for Enough {}

/// How printing ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The whole log was printed.
    Whole,
    /// The reader went away (`| head`), which is no failure.
    NoReader,
}

fn print(
    engine: &dyn Engine,
    request: &LogsRequest,
    target: &Target,
    out: &mut dyn Write,
) -> Result<End, String> {
    match engine.logs(&target.id, request, out) {
        Ok(()) => Ok(End::Whole),
        Err(Broken::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(End::NoReader),
        Err(Broken::Output(error)) if error.get_ref().is_some_and(|why| why.is::<Enough>()) => Ok(End::Whole),
        Err(Broken::Docker(error)) => Err(explain(&error, &target.what)),
        Err(broken) => Err(broken.to_string()),
    }
}

/// Docker's error, with its meaning for `logs`.
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

    fn check(line: &str, answer: Result<(), Broken>, expected: Result<End, &str>) -> LogsRequest {
        let (options, names) = pods::tests::options(line);
        let logs = target::for_logs(&pods::tests::node().file, &options, &names[0]).unwrap();
        let target = logs.targets.first().unwrap();
        let engine = Scripted::logs(answer);
        let mut out = Vec::new();
        let result = print(&engine, &request(&options, target, false), target, &mut out);
        assert_eq!(result.as_ref().copied().map_err(String::as_str), expected);
        assert_eq!(out, b"to out\nto err\n");
        engine.asked()
    }

    /// The output for a log that comes in these pieces.
    fn lines(line: &str, pieces: &[&str]) -> String {
        let (options, names) = pods::tests::options(line);
        let logs = target::for_logs(&pods::tests::node().file, &options, &names[0]).unwrap();
        let mut out = Vec::new();
        let mut lines = Lines::new(&mut out, &options, logs.targets.first().unwrap());
        _ = pieces.iter().try_for_each(|piece| lines.write_all(piece.as_bytes()));
        lines.end();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_prefix_stands_before_each_line_and_bytes_are_counted() {
        assert_eq!(lines("logs web", &["a", "b\nc"]), "ab\nc");
        let expected = "[pod/web-node1/app] ab\n[pod/web-node1/app] c\n";
        assert_eq!(lines("logs web --prefix", &["a", "b\nc"]), expected);
        assert_eq!(lines("logs web --limit-bytes 3", &["ab", "cd", "e"]), "abc");
        assert_eq!(
            lines("logs web --prefix --limit-bytes 3", &["a\nbcd"]),
            "[pod/web-node1/app] a\n[pod/web-node1/app] b\n"
        );
        let long = "x".repeat(limits::HTTP_READ * 3);
        assert_eq!(
            lines("logs stack --all-containers -f", &[&long, "y\n"]).len(),
            long.len() + 2,
            "nothing is lost"
        );
    }

    #[test]
    fn of_all_containers_those_without_a_log_are_told() {
        let of = |line: &str| {
            let (options, names) = pods::tests::options(line);
            let file = pods::tests::node().file;
            let logs = match names.first() {
                Some(name) => target::for_logs(&file, &options, name),
                None => target::selected_logs(&file, &options),
            };
            let logs = logs.unwrap();
            (
                logs.targets.into_iter().map(|target| target.path).collect::<Vec<_>>().join(" "),
                logs.without.join("; "),
            )
        };
        let expected = "pod/stack-node1/proxy pod/stack-node1/app pod/stack-node1/log";
        assert_eq!(of("logs stack --all-containers"), (expected.into(), String::new()));
        let (targets, without) = of("logs job --all-containers");
        assert!(
            !targets.contains("main") && without.contains("waiting to start: PodInitializing"),
            "{targets}; {without}"
        );
    }

    #[test]
    fn flags_become_a_request() {
        let asked = check("logs web -ft --tail 5 --since 1m", Ok(()), Ok(End::Whole));
        let expected = LogsRequest {
            follow: true,
            tail: Some(5),
            since: Since::Ago(Duration::from_secs(60)),
            timestamps: true,
            tty: Some(false),
            unstarted: None,
        };
        assert_eq!(asked, expected);
        assert_eq!(check("logs web", Ok(()), Ok(End::Whole)).tail, None);
    }

    #[test]
    fn a_reader_that_goes_away_is_no_failure() {
        check("logs web", Err(Broken::Output(io::ErrorKind::BrokenPipe.into())), Ok(End::NoReader));
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
