//! A man in the middle: a Unix-socket HTTP proxy between the daemon under test and a real engine. It
//! forwards everything unchanged, counts the requests that change something, and does harm where a
//! rule demands it.
//!
//! It must add nothing of its own: without rules the daemon cannot distinguish it from the engine.

mod wire;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;

use wire::{Head, read_body, relay, splice};

/// One request on its way to the engine.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`, `POST` or `DELETE`.
    pub method: String,
    /// Path without the API version in front.
    pub path: String,
    /// Query after the question mark, percent-encoded.
    pub query: String,
    /// Number among all requests, from 0.
    pub number: usize,
    /// Number among the requests that change something, from 0; `None` for a `GET`.
    pub mutation: Option<usize>,
}

impl Request {
    pub fn is(&self, method: &str, end: &str) -> bool {
        self.method == method && self.path.ends_with(end)
    }

    /// Whether it is a stream that never ends by itself.
    pub fn is_events(&self) -> bool {
        self.is("GET", "/events")
    }
}

/// The moment at which the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The engine never receives the call.
    BeforeRequest,
    /// The engine carried the call out, and the reply was never sent.
    BeforeReply,
    /// The reply has been sent.
    AfterReply,
}

pub type Edit = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// The fate of a request.
#[derive(Clone)]
pub enum Verdict {
    Kill(Moment),
    /// Never answered, never forwarded.
    Hold,
    /// Never forwarded; the connection ends after so long.
    Drop(Duration),
    /// The proxy's own answer: status and `message`.
    Answer(u16, String),
    /// Forwarded; half the reply comes back, then the connection ends.
    CutReply,
    /// Forwarded after so long.
    Late(Duration),
    /// Forwarded at once; the reply comes after so long.
    HoldReply(Duration),
    /// Forwarded twice; the second reply comes back.
    Twice,
    /// Forwarded; the reply is the one to the same request before, if there was one.
    Old,
    /// Forwarded; the reply is the proxy's own: status and `message`.
    Lie(u16, String),
    /// The reply's JSON is changed.
    Edit(Edit),
    /// The reply's headers are changed: every header of this name gets this value.
    Header(&'static str, &'static str),
    Events(EventFault),
}

/// A fault of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFault {
    /// After so many events, half a line and the end of the connection.
    CutAfter(usize),
    /// Every third event is lost.
    LoseEveryThird,
    /// Each event changes places with the next one.
    Swap,
    /// Each event comes twice.
    Twice,
    /// The connection stays, and nothing comes.
    Silent,
}

/// Prints the name, without its fields.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Kill(moment) => write!(f, "kill {moment:?}"),
            Verdict::Hold => f.write_str("hold"),
            Verdict::Drop(_) => f.write_str("drop"),
            Verdict::Answer(status, _) => write!(f, "answer {status}"),
            Verdict::CutReply => f.write_str("cut reply"),
            Verdict::Late(_) => f.write_str("late"),
            Verdict::HoldReply(_) => f.write_str("hold reply"),
            Verdict::Twice => f.write_str("twice"),
            Verdict::Old => f.write_str("old"),
            Verdict::Lie(status, _) => write!(f, "lie {status}"),
            Verdict::Edit(_) => f.write_str("edit"),
            Verdict::Header(name, _) => write!(f, "header {name}"),
            Verdict::Events(fault) => write!(f, "events {fault:?}"),
        }
    }
}

type Rule = Arc<dyn Fn(&Request) -> Option<Verdict> + Send + Sync>;

#[derive(Default)]
struct State {
    rule: Option<Rule>,
    victim: Option<Pid>,
    killed: bool,
    requests: usize,
    mutations: usize,
    log: Vec<String>,
    /// The last answer to each request, as bytes, for [`Verdict::Old`].
    answers: BTreeMap<String, Vec<u8>>,
    /// Both ends of every open connection, to break them all.
    open: Vec<(usize, UnixStream)>,
    over: bool,
}

struct Shared {
    backend: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

/// The proxy; when it is dropped, every connection ends.
pub struct Proxy {
    path: PathBuf,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens at `path` and speaks to the engine at `backend`.
    pub fn start(backend: &Path, path: &Path) -> Proxy {
        let listener = UnixListener::bind(path).unwrap();
        let shared = Arc::new(Shared {
            backend: backend.to_owned(),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if accepting.state.lock().unwrap().over {
                    return;
                }
                let shared = Arc::clone(&accepting);
                let stream = stream.unwrap();
                thread::spawn(move || {
                    // An error is a connection that ended: nobody is left to report it to.
                    _ = shared.serve(number, stream);
                    shared.state.lock().unwrap().open.retain(|(n, _)| *n != number);
                });
            }
        });
        Proxy { path: path.to_owned(), shared }
    }

    /// From now on this rule decides; requests for which it returns `None` pass.
    pub fn rule(&self, rule: impl Fn(&Request) -> Option<Verdict> + Send + Sync + 'static) {
        self.shared.state.lock().unwrap().rule = Some(Arc::new(rule));
    }

    pub fn no_rule(&self) {
        self.shared.state.lock().unwrap().rule = None;
    }

    /// Counts start again from 0, for a daemon that is started after this.
    pub fn forget(&self) {
        let mut state = self.shared.state.lock().unwrap();
        (state.victim, state.killed, state.requests, state.mutations) = (None, false, 0, 0);
        state.log.clear();
    }

    /// The process that [`Verdict::Kill`] kills: a child of this process.
    pub fn victim(&self, pid: u32) {
        self.shared.state.lock().unwrap().victim = Pid::from_raw(pid.cast_signed());
        self.shared.changed.notify_all();
    }

    pub fn killed(&self) -> bool {
        self.shared.state.lock().unwrap().killed
    }

    /// How many requests so far would change something.
    pub fn changes(&self) -> usize {
        self.shared.state.lock().unwrap().mutations
    }

    /// Requests so far, one line each.
    pub fn log(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().log.clone()
    }

    /// How many requests so far were of this kind.
    pub fn count(&self, method: &str, end: &str) -> usize {
        let state = self.shared.state.lock().unwrap();
        state.log.iter().filter(|line| line.starts_with(method) && line.ends_with(end)).count()
    }

    /// Waits until a request of this kind has come `times` times.
    pub fn wait_for(&self, method: &str, end: &str, times: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        let mut state = self.shared.state.lock().unwrap();
        while state.log.iter().filter(|l| l.starts_with(method) && l.ends_with(end)).count() < times {
            assert!(Instant::now() < until, "no {method} …{end} came: {:#?}", state.log);
            state = self.shared.changed.wait_timeout(state, Duration::from_secs(1)).unwrap().0;
        }
    }

    /// Ends all connections.
    pub fn break_all(&self) {
        for (_, stream) in &self.shared.state.lock().unwrap().open {
            _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().over = true;
        self.break_all();
        // Wakes the listener up.
        _ = UnixStream::connect(&self.path);
        _ = std::fs::remove_file(&self.path);
    }
}

impl Shared {
    fn serve(&self, number: usize, client: UnixStream) -> io::Result<()> {
        let engine = UnixStream::connect(&self.backend)?;
        {
            let mut state = self.state.lock().unwrap();
            state.open.push((number, client.try_clone()?));
            state.open.push((number, engine.try_clone()?));
        }
        let result = self.converse(&client, &engine);
        _ = client.shutdown(Shutdown::Both);
        _ = engine.shutdown(Shutdown::Both);
        result
    }

    fn converse(&self, client: &UnixStream, engine: &UnixStream) -> io::Result<()> {
        let mut from_client = BufReader::new(client);
        let mut from_engine = BufReader::new(engine);
        let (mut to_client, mut to_engine) = (client, engine);
        while let Some(mut head) = Head::read(&mut from_client)? {
            let body = read_body(&head, &mut from_client)?;
            let (request, verdict) = self.judge(&head);
            match &verdict {
                Some(Verdict::Kill(Moment::BeforeRequest)) => return self.kill(),
                Some(Verdict::Hold) => {
                    // Waits until the client gives up.
                    _ = from_client.read(&mut [0]);
                    return Ok(());
                }
                Some(Verdict::Drop(while_)) => {
                    thread::sleep(*while_);
                    return Ok(());
                }
                Some(Verdict::Answer(status, message)) => {
                    to_client.write_all(&own_answer(*status, message))?;
                    continue;
                }
                Some(Verdict::Late(while_)) => thread::sleep(*while_),
                _ => {}
            }
            if head.is_chunked() {
                head.headers.retain(|(n, _)| !n.eq_ignore_ascii_case("Transfer-Encoding"));
                head.set("Content-Length", body.len().to_string());
            }
            let sent = [head.bytes(), body].concat();
            to_engine.write_all(&sent)?;
            let Some(mut answer) = Head::read(&mut from_engine)? else { return Ok(()) };
            if matches!(verdict, Some(Verdict::Twice)) && answer.status() != 101 {
                if !answer.is_bare() {
                    read_body(&answer, &mut from_engine)?;
                }
                to_engine.write_all(&sent)?;
                answer = match Head::read(&mut from_engine)? {
                    Some(answer) => answer,
                    None => return Ok(()),
                };
            }
            if answer.status() == 101 {
                to_client.write_all(&answer.bytes())?;
                return splice(from_client, client, from_engine, engine);
            }
            if let Some(Verdict::Header(name, value)) = &verdict {
                answer.set(name, (*value).to_owned());
            }
            let streamed = answer.is_chunked() && request.method == "GET" && verdict.is_none();
            if request.is_events() || streamed {
                to_client.write_all(&answer.bytes())?;
                let fault = match &verdict {
                    Some(Verdict::Events(fault)) => Some(*fault),
                    _ => None,
                };
                relay(&mut from_engine, &mut to_client, fault)?;
                continue;
            }
            let bare = answer.is_bare();
            let mut body = if bare { Vec::new() } else { read_body(&answer, &mut from_engine)? };
            if let (Some(Verdict::Edit(edit)), Ok(mut value)) = (&verdict, serde_json::from_slice(&body)) {
                edit(&mut value);
                body = serde_json::to_vec(&value).unwrap();
            }
            if !bare {
                answer.headers.retain(|(n, _)| !n.eq_ignore_ascii_case("Transfer-Encoding"));
                answer.set("Content-Length", body.len().to_string());
            }
            let bytes = [answer.bytes(), body].concat();
            let before = self.remember(&head.first, &bytes);
            match &verdict {
                Some(Verdict::HoldReply(while_)) => {
                    thread::sleep(*while_);
                    to_client.write_all(&bytes)?;
                }
                Some(Verdict::Lie(status, message)) => to_client.write_all(&own_answer(*status, message))?,
                Some(Verdict::Old) => to_client.write_all(&before.unwrap_or(bytes))?,
                Some(Verdict::Kill(Moment::BeforeReply)) => return self.kill(),
                Some(Verdict::Kill(Moment::AfterReply)) => {
                    to_client.write_all(&bytes)?;
                    return self.kill();
                }
                Some(Verdict::CutReply) => {
                    to_client.write_all(&bytes[..bytes.len() / 2])?;
                    return Ok(());
                }
                _ => to_client.write_all(&bytes)?,
            }
        }
        Ok(())
    }

    /// The previous answer to the same request.
    fn remember(&self, request: &str, answer: &[u8]) -> Option<Vec<u8>> {
        self.state.lock().unwrap().answers.insert(request.to_owned(), answer.to_owned())
    }

    fn judge(&self, head: &Head) -> (Request, Option<Verdict>) {
        let mut words = head.first.split(' ');
        let method = words.next().unwrap_or_default().to_owned();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let versioned = path.strip_prefix("/v1.").and_then(|rest| rest.find('/').map(|at| &rest[at..]));
        let mut state = self.state.lock().unwrap();
        let mutation = (method != "GET" && method != "HEAD").then_some(state.mutations);
        let request = Request {
            path: versioned.unwrap_or(path).to_owned(),
            query: query.to_owned(),
            number: state.requests,
            mutation,
            method,
        };
        state.requests += 1;
        state.mutations += usize::from(mutation.is_some());
        state.log.push(format!("{} {}", request.method, request.path));
        self.changed.notify_all();
        let rule = state.rule.clone();
        drop(state);
        let verdict = rule.and_then(|rule| rule(&request));
        (request, verdict)
    }

    /// Kills the daemon and waits until it is dead; its parent still has to reap it.
    fn kill(&self) -> io::Result<()> {
        // The first call can come before the test has announced the daemon's process.
        let state = self.state.lock().unwrap();
        let victim = self.changed.wait_while(state, |s| s.victim.is_none() && !s.over).unwrap().victim;
        let Some(victim) = victim else { return Ok(()) };
        _ = kill_process(victim, Signal::KILL);
        _ = waitid(WaitId::Pid(victim), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        self.state.lock().unwrap().killed = true;
        self.changed.notify_all();
        Ok(())
    }
}

/// An answer from the proxy itself.
fn own_answer(status: u16, message: &str) -> Vec<u8> {
    let body = serde_json::json!({ "message": message }).to_string();
    let length = body.len();
    let kind = "Content-Type: application/json";
    format!("HTTP/1.1 {status} No\r\n{kind}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}
