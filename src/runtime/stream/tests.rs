//! Long calls against a hostile server.

use super::super::docker::Docker;
use super::super::pull::Patience;
use super::super::request::{AttachOptions, LogOptions};
use super::super::types::RefusalKind;
use super::*;
use crate::runtime::testing::{Server, hold, ok, read_request};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const PATIENT: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(60);
const LOGS: LogOptions = LogOptions { follow: true, tail: None, since: None, timestamps: false };

/// An engine that answers the ping and then runs `script` on the same connection.
fn engine(script: impl FnOnce(UnixStream) + Send + 'static) -> (Docker, Server) {
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        script(s);
    })]);
    (Docker::Engine(Client::with_deadline(server.path(), PATIENT)), server)
}

/// Answers the one request with `answer` and hangs up.
fn answering(answer: &'static [u8]) -> (Docker, Server) {
    engine(move |mut s| {
        read_request(&s);
        s.write_all(answer).unwrap();
    })
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

fn patient() -> Wait<'static> {
    Wait::at_most(PATIENT)
}

/// All output until the end, with adjacent pieces of one stream joined.
fn drain(output: &mut OutputStream) -> Result<Vec<(StreamKind, String)>, DockerError> {
    let mut all: Vec<(StreamKind, String)> = Vec::new();
    loop {
        match output.next(&patient())? {
            Output::Bytes(kind, bytes) => {
                let text = std::str::from_utf8(bytes).unwrap();
                match all.last_mut() {
                    Some((last, all)) if *last == kind => all.push_str(text),
                    _ => all.push((kind, text.to_owned())),
                }
            }
            Output::Idle => panic!("idle after {all:?}"),
            Output::End => return Ok(all),
        }
    }
}

#[test]
fn logs_in_frames() {
    let (docker, _server) = answering(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
          9\r\n\x01\0\0\0\0\0\0\x02a\r\n5\r\nb\x02\0\0\0\r\n5\r\n\0\0\0\x01c\r\n0\r\n\r\n",
    );
    let mut output = docker.logs("ab", &LOGS, false).unwrap();
    let expected = [(StreamKind::Stdout, "ab".to_owned()), (StreamKind::Stderr, "c".to_owned())];
    assert_eq!(drain(&mut output).unwrap(), expected);
    assert_eq!(output.next(&patient()), Ok(Output::End), "the end stays");
}

/// The last chunk arrives alone, and the connection stays open after it.
#[test]
fn the_end_of_an_answer_is_not_waited_for() {
    let (docker, _server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        s.write_all(b"9\r\n\x01\0\0\0\0\0\0\x01a\r\n").unwrap();
        std::thread::sleep(SHORT);
        s.write_all(b"0\r\n\r\n").unwrap();
        hold(&s);
    });
    let mut output = docker.logs("ab", &LOGS, false).unwrap();
    assert_eq!(drain(&mut output).unwrap(), [(StreamKind::Stdout, "a".to_owned())]);
}

#[test]
fn output_that_stops_short_is_lost() {
    let check = |answer: &'static [u8]| {
        let (docker, _server) = answering(answer);
        let got = drain(&mut docker.logs("ab", &LOGS, false).unwrap());
        assert!(matches!(got, Err(DockerError::Lost(_))), "{got:?}");
    };
    check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n\x01\0\0\0\0\0\0\x02a");
    check(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n\x01\0\0\0\0\0\0\x01a\r\n");
    check(b"HTTP/1.1 200 OK\r\n\r\n\x01\0\0\0\0\0\0\x02a");
    check(b"HTTP/1.1 200 OK\r\n\r\n\x01\0\0");
    let (docker, _server) = answering(b"HTTP/1.1 200 OK\r\n\r\nraw text");
    let got = drain(&mut docker.logs("ab", &LOGS, false).unwrap());
    assert!(matches!(got, Err(DockerError::BadAnswer(_))), "{got:?}");
}

#[test]
fn a_silent_stream_is_idle_and_can_be_woken() {
    let (docker, server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        hold(&s);
    });
    let mut output = docker.logs("ab", &LOGS, false).unwrap();
    assert_eq!(output.next(&Wait::at_most(SHORT)), Ok(Output::Idle));
    let (wake, mut waker) = UnixStream::pair().unwrap();
    waker.write_all(b"!").unwrap();
    assert_eq!(output.next(&Wait { timeout: None, wake: Some(wake.as_fd()) }), Ok(Output::Idle));
    drop(output);
    assert_eq!(server.requests().len(), 2, "a dropped stream closes its connection");
}

#[test]
fn a_stream_that_is_refused() {
    let (docker, _server) =
        answering(b"HTTP/1.1 404 N\r\nContent-Length: 37\r\n\r\n{\"message\":\"No such container: ab  \"}\n");
    // With the request, when it comes at once, or with the first read.
    let answer = docker.logs("ab", &LOGS, false).and_then(|mut output| output.next(&patient()).map(drop));
    assert_eq!(answer.unwrap_err().refusal(), Some(&RefusalKind::NoSuchContainer));
}

/// An exec: the answer's head, the bytes after it in the same read, and both directions from two threads.
fn check_hijack(head: &'static str) {
    let (docker, server) = engine(move |mut s| {
        let body = read_request(&s);
        assert_eq!(body, br#"{"Detach":false,"Tty":true}"#);
        s.write_all([head, "first "].concat().as_bytes()).unwrap();
        let mut input = String::new();
        s.read_to_string(&mut input).unwrap();
        s.write_all(input.to_uppercase().as_bytes()).unwrap();
    });
    let Duplex { mut output, mut input } = docker.exec_start("ab", true).unwrap();
    let writer = std::thread::spawn(move || {
        assert_eq!(input.write_all(b"in and ", &patient()), Ok(true));
        assert_eq!(input.write(b"out"), Ok(3));
        input.close();
    });
    assert_eq!(drain(&mut output).unwrap(), [(StreamKind::Stdout, "first IN AND OUT".to_owned())]);
    writer.join().unwrap();
    assert_eq!(server.requests(), ["GET /_ping", "POST /v1.41/exec/ab/start"]);
}

#[test]
fn exec_takes_the_connection_over() {
    check_hijack("HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    check_hijack("HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n");
}

#[test]
fn attach_in_frames() {
    let (docker, server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\n\x02\0\0\0\0\0\0\x05er").unwrap();
        s.write_all(b"ror").unwrap();
    });
    let mut both = docker.attach("ab", AttachOptions { stdin: false, logs: true }, false).unwrap();
    assert_eq!(drain(&mut both.output).unwrap(), [(StreamKind::Stderr, "error".to_owned())]);
    drop(both);
    let expected = "POST /v1.41/containers/ab/attach?stream=1&stdout=1&stderr=1&logs=1&detachKeys=ctrl-%40%2Cctrl-_%2Cctrl-%40%2Cctrl-_%2Cctrl-%40";
    assert_eq!(server.requests(), ["GET /_ping", expected]);
}

#[test]
fn input_that_nobody_reads() {
    let (docker, _server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\n\r\nx").unwrap();
        hold_without_reading(&s);
    });
    let mut both = docker.exec_start("ab", true).unwrap();
    let plenty = vec![0; 8 << 20];
    assert_eq!(both.input.write_all(&plenty, &Wait::at_most(SHORT)), Ok(false));
    assert_eq!(both.input.write(b"more"), Ok(0));
}

/// Keeps the connection open and reads nothing until the client hangs up.
fn hold_without_reading(stream: &UnixStream) {
    let mut fd = [rustix::event::PollFd::new(stream, rustix::event::PollFlags::RDHUP)];
    rustix::event::poll(&mut fd, None).unwrap();
}

fn pull(answer: &'static [u8]) -> (Result<(), DockerError>, Vec<String>) {
    let (docker, _server) = answering(answer);
    let mut seen = Vec::new();
    let result = docker.pull("a:1", None, &Patience::of(patient()), &mut |m| seen.push(m.status.to_owned()));
    (result, seen)
}

#[test]
fn pulls() {
    let (result, seen) = pull(
        b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Pulling from a\",\"id\":\"1\"}\r\n{\"progress\":\"x\"}\r\n{\"status\":\"Done\"}",
    );
    assert_eq!((result, seen), (Ok(()), vec!["Pulling from a".to_owned(), "Done".to_owned()]));
    // An error inside the stream of a good answer.
    for body in [
        &b"HTTP/1.1 200 OK\r\n\r\n{\"errorDetail\":{\"message\":\"no space left\"},\"error\":\"x\"}\r\n"[..],
        b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"a\"}\r\n{\"error\":\"no space left\"}\r\n",
    ] {
        let Err(DockerError::Refused(refusal)) = pull(body).0 else { panic!("no refusal") };
        assert_eq!((refusal.status, refusal.message.as_str()), (200, "no space left"));
    }
    let (result, _) = pull(b"HTTP/1.1 404 N\r\nContent-Length: 29\r\n\r\n{\"message\":\"access denied\"}   ");
    assert_eq!(result.unwrap_err().refusal(), Some(&RefusalKind::NotFound));
    let (result, _) = pull(b"HTTP/1.1 200 OK\r\n\r\n<html>\n");
    assert!(matches!(result, Err(DockerError::BadAnswer(_))), "{result:?}");
    // Half a message, and a stream that breaks off, do not count as success.
    let (result, _) = pull(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":");
    assert!(matches!(result, Err(DockerError::BadAnswer(_))), "{result:?}");
    let (result, _) = pull(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    assert!(matches!(result, Err(DockerError::Lost(_))), "{result:?}");
}

/// An engine whose head takes longer than the deadline of a short call, like Docker's when a registry is
/// slow.
fn slow_head(answer: &'static [u8]) -> (Docker, Server) {
    let server = Server::start(vec![Box::new(move |mut s: UnixStream| {
        read_request(&s);
        s.write_all(ok("OK").as_bytes()).unwrap();
        read_request(&s);
        std::thread::sleep(SHORT * 3);
        s.write_all(answer).unwrap();
    })]);
    (Docker::Engine(Client::with_deadline(server.path(), SHORT)), server)
}

/// Docker sends no head before the first line of progress.
#[test]
fn a_pull_waits_for_its_head_as_long_as_for_progress() {
    let (docker, _server) = slow_head(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Done\"}\r\n");
    let mut seen = Vec::new();
    let result = docker.pull("a", None, &Patience::of(patient()), &mut |m| seen.push(m.status.to_owned()));
    assert_eq!((result, seen), (Ok(()), vec!["Done".to_owned()]));
    // A refusal arrives late, too; its text may arrive in pieces.
    let (docker, _server) =
        slow_head(b"HTTP/1.1 404 N\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"message\r\n5\r\n\":\"x\"\r\n1\r\n}\r\n0\r\n\r\n");
    let Err(DockerError::Refused(refusal)) = docker.pull("a", None, &Patience::of(patient()), &mut |_| {})
    else {
        panic!("no refusal")
    };
    assert_eq!((refusal.status, refusal.message.as_str()), (404, "x"));
    // A refusal that breaks off counts as a lost connection.
    let (docker, _server) = slow_head(b"HTTP/1.1 404 N\r\nContent-Length: 9\r\n\r\n{");
    let result = docker.pull("a", None, &Patience::of(patient()), &mut |_| {});
    assert!(matches!(result, Err(DockerError::Lost(_))), "{result:?}");
    let (docker, _server) = slow_head(b"HTTP/1.1 200");
    let result = docker.pull("a", None, &Patience::of(patient()), &mut |_| {});
    assert!(matches!(result, Err(DockerError::Lost(_))), "{result:?}");
}

#[test]
fn a_log_that_is_followed_waits_for_its_first_line() {
    let (docker, _server) = slow_head(b"HTTP/1.1 200 OK\r\n\r\n\x01\0\0\0\0\0\0\x02ab");
    let mut output = docker.logs("ab", &LOGS, false).unwrap();
    assert_eq!(output.next(&Wait::at_most(Duration::ZERO)), Ok(Output::Idle));
    assert_eq!(drain(&mut output).unwrap(), [(StreamKind::Stdout, "ab".to_owned())]);
    // A log that is not followed is available immediately, or Docker is stuck.
    let (docker, _server) = slow_head(b"");
    let error = docker.logs("ab", &LogOptions { follow: false, ..LOGS }, false).unwrap_err();
    assert_eq!(error, DockerError::Timeout("GET /containers/ab/logs".into()));
}

#[test]
fn a_load_outlasts_a_slow_head() {
    let (docker, _server) = slow_head(LOADED);
    assert_eq!(docker.load(&mut &b"tar"[..], &Wait::at_most(SHORT)).unwrap(), ["a:1"]);
}

const LOADED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n{\"stream\":\"Loaded image: a:1\"}\r\n";

/// The message names the side that is silent.
#[test]
fn a_pull_without_progress_ends() {
    const DOWNLOADING: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Downloading\"}\r\n";
    let stuck = |answer: &'static [u8], pong: Option<&'static str>| {
        let server = Server::start(vec![
            Box::new(move |mut s: UnixStream| {
                read_request(&s);
                s.write_all(ok("OK").as_bytes()).unwrap();
                read_request(&s);
                s.write_all(answer).unwrap();
                hold(&s);
            }),
            Box::new(move |mut s: UnixStream| {
                read_request(&s);
                match pong {
                    Some(pong) => s.write_all(ok(pong).as_bytes()).unwrap(),
                    None => hold(&s),
                }
            }),
        ]);
        (Docker::Engine(Client::with_deadline(server.path(), SHORT)), server)
    };
    for answer in [b"", DOWNLOADING] {
        let (docker, server) = stuck(answer, Some("OK"));
        let result = docker.pull("a", None, &Patience::of(Wait::at_most(SHORT)), &mut |_| {});
        let why = "pull of a: no progress in 0 s: the registry sends nothing (Docker itself answers)";
        assert_eq!(result.as_ref().unwrap_err().to_string(), why);
        assert_eq!(result, Err(DockerError::Stalled(why.into())));
        drop(docker);
        let pull = "POST /v1.41/images/create?fromImage=a&tag=latest";
        assert_eq!(server.requests(), ["GET /_ping", pull, "GET /_ping"]);
    }
    let (docker, _server) = stuck(DOWNLOADING, None);
    let result = docker.pull("a", None, &Patience::of(Wait::at_most(SHORT)), &mut |_| {});
    assert_eq!(result, Err(DockerError::Timeout("pull of a: no progress in 0 s".into())));
    let (docker, _server) = engine(|mut s| {
        read_request(&s);
        s.write_all(DOWNLOADING).unwrap();
        hold(&s);
    });
    let (wake, mut waker) = UnixStream::pair().unwrap();
    let wait = Wait { timeout: None, wake: Some(wake.as_fd()) };
    let result = docker.pull("a", None, &Patience::of(wait), &mut |_| waker.write_all(b"!").unwrap());
    assert_eq!(result, Err(DockerError::Lost("pull of a: given up".into())));
}

/// Bytes keep arriving, but no whole message.
#[test]
fn a_line_that_does_not_end_is_no_progress() {
    let server = Server::start(vec![
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
            read_request(&s);
            s.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Downloading\"}\r\n{\"status\":\"").unwrap();
            while s.write_all(b"x").is_ok() {
                std::thread::park_timeout(SHORT / 10);
            }
        }),
        Box::new(|mut s: UnixStream| {
            read_request(&s);
            s.write_all(ok("OK").as_bytes()).unwrap();
        }),
    ]);
    let docker = Docker::Engine(Client::with_deadline(server.path(), PATIENT));
    let result = docker.pull("a", None, &Patience::of(Wait::at_most(SHORT)), &mut |_| {});
    assert!(matches!(&result, Err(DockerError::Stalled(why)) if why.contains("no progress")), "{result:?}");
}

/// With a local copy of the image the wait for the registry's first message is shorter, the wait for its
/// layers is not.
#[test]
fn a_first_sign_has_a_deadline_of_its_own() {
    let patience = Patience { answer: Some(SHORT), progress: patient() };
    let (docker, _server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Pulling from a\"}\r\n").unwrap();
        std::thread::sleep(SHORT * 3);
        s.write_all(b"{\"status\":\"Done\"}\r\n").unwrap();
    });
    assert_eq!(docker.pull("a", None, &patience, &mut |_| {}), Ok(()));
    let (docker, _server) = engine(|s| {
        read_request(&s);
        hold(&s);
    });
    assert!(docker.pull("a", None, &patience, &mut |_| {}).is_err());
}

/// While layers are being unpacked, a slow disk may keep Docker silent for longer than the progress
/// deadline.
#[test]
fn a_pull_that_extracts_may_be_silent() {
    let (go, wait_for_go) = std::sync::mpsc::channel::<()>();
    let (docker, _server) = engine(move |mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"status\":\"Extracting\"}\r\n").unwrap();
        // Longer than the deadline, by the client's own clock.
        wait_for_go.recv_timeout(SHORT * 3).unwrap_err();
    });
    assert_eq!(docker.pull("a", None, &Patience::of(Wait::at_most(SHORT)), &mut |_| {}), Ok(()));
    drop(go);
}

#[test]
fn loads() {
    let archive: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
    let expected = archive.clone();
    let (docker, server) = engine(move |mut s| {
        assert!(read_request(&s) == expected, "the archive arrives whole");
        let body =
            "{\"stream\":\"Loaded image: a:1\\n\"}\r\n{\"stream\":\"Loaded image ID: sha256:2\\n\"}\r\n";
        s.write_all(ok(body).as_bytes()).unwrap();
    });
    let names = docker.load(&mut archive.as_slice(), &patient()).unwrap();
    assert_eq!(names, ["a:1", "sha256:2"]);
    assert_eq!(server.requests(), ["GET /_ping", "POST /v1.41/images/load?quiet=1"]);
}

#[test]
fn a_load_that_is_refused_early() {
    let (docker, _server) = engine(|mut s| {
        let mut some = [0; 300];
        s.read_exact(&mut some).unwrap();
        s.write_all(b"HTTP/1.1 500 E\r\nConnection: close\r\nContent-Length: 9\r\n\r\ndisk full").unwrap();
    });
    let mut endless = std::io::repeat(7);
    let Err(DockerError::Refused(refusal)) = docker.load(&mut endless, &patient()) else {
        panic!("no refusal")
    };
    assert_eq!(refusal.message, "disk full");
}

#[test]
fn a_load_that_stalls_or_cannot_be_read() {
    let (docker, _server) = engine(|s| hold_without_reading(&s));
    let result = docker.load(&mut std::io::repeat(7), &Wait::at_most(SHORT));
    assert_eq!(result, Err(DockerError::Timeout("image load: no progress in 0 s".into())));

    struct Broken;
    impl std::io::Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("bad sector"))
        }
    }
    let (docker, server) = engine(|s| hold(&s));
    let result = docker.load(&mut Broken, &patient());
    assert_eq!(result, Err(DockerError::Lost("image load: the archive cannot be read: bad sector".into())));
    assert_eq!(server.requests(), ["GET /_ping"], "what was begun is broken off");
}

/// docker-archive/classicswarm#2309: a stream that breaks in the middle of a line ends, with an error.
#[test]
fn k2309_events_end_when_docker_goes() {
    use super::super::event_stream::{EventAction, EventNext};
    let (docker, server) = engine(|mut s| {
        read_request(&s);
        s.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        let line = "{\"Action\":\"die\",\"Actor\":{\"ID\":\"ab\"},\"timeNano\":5}\n";
        s.write_all(chunk(line).as_bytes()).unwrap();
        s.write_all(b"9\r\n{\"Acti").unwrap();
    });
    let mut events = docker.events(&["k=v".into()], Some(0)).unwrap();
    let EventNext::Event(event) = events.next(&patient()) else { panic!("no event") };
    assert_eq!((event.id.as_str(), event.action, event.time_nano), ("ab", EventAction::Die, 5));
    let EventNext::End(why) = events.next(&patient()) else { panic!("no end") };
    assert!(why.contains("the connection broke in the middle of the answer"), "{why}");
    let filters = "%7B%22label%22%3A%5B%22k%3Dv%22%5D%2C%22type%22%3A%5B%22container%22%5D%7D";
    assert_eq!(
        server.requests(),
        ["GET /_ping".to_owned(), format!("GET /v1.41/events?since=0&filters={filters}")]
    );
}
