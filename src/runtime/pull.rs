//! Pulls of images by Docker from a registry, and loads of image archives from podkeeper. Both answer with a
//! stream of JSON messages, and may fail inside an answer that began with 200.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::connection::{Polled, Wait, poll};
use super::exchange::{Answer, Exchange, Goal};
use super::http1::Malformed;
use super::lines::{Line, Lines};
use super::refusal::{refusal, refused};
use super::request::Request;
use super::stream::{Body, Read};
use super::types::DockerError;
use crate::base::limits;
use crate::runtime::progress::Message;

/// How long a pull may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    /// Longest time before the registry's first message, if it is shorter than [`Patience::progress`].
    pub answer: Option<Duration>,
    /// Longest time without a message, from the request on, and a wake-up that abandons the pull.
    pub progress: Wait<'a>,
}

impl<'a> Patience<'a> {
    /// The same time for the first message and for all others.
    #[must_use]
    pub fn of(progress: Wait<'a>) -> Patience<'a> {
        Patience { answer: None, progress }
    }

    /// The wait for the first message.
    #[must_use]
    pub fn first(&self) -> Wait<'a> {
        let times = [self.answer, self.progress.timeout];
        Wait { timeout: times.into_iter().flatten().min(), ..self.progress }
    }
}

/// Pulls `image`. `on_message` is called with each message of Docker as it arrives. Once Docker extracts, a
/// silence of [`limits::PULL_EXTRACT`] is allowed.
///
/// # Errors
/// [`DockerError::Refused`] with Docker's text, also when it arrived inside the stream;
/// [`DockerError::Stalled`] without progress, [`DockerError::Timeout`] when Docker does not answer other
/// calls either; [`DockerError::Lost`] when the pull was abandoned or the connection broke.
pub(super) fn pull(
    client: &Client,
    image: &str,
    auth: Option<&str>,
    patience: &Patience<'_>,
    on_message: &mut dyn FnMut(&Message<'_>),
) -> Result<(), DockerError> {
    let (body, begun) = Body::ask(client, Request::pull(image, auth))?;
    let mut messages = Messages::new(body, begun, format!("pull of {image}"));
    let mut wait = patience.first();
    let mut extracts = false;
    loop {
        let message = match messages.next(&wait)? {
            Next::Message(message) => message,
            Next::End => return Ok(()),
            Next::Stalled => return Err(silence_error(client, extracts, stall(&messages.what, &wait))),
        };
        if !extracts {
            wait = patience.progress;
        }
        let Some(status) = message.get("status").and_then(Value::as_str) else { continue };
        if status.starts_with("Extracting") {
            extracts = true;
            wait = with_extract_timeout(&wait);
        }
        let id = message.get("id").and_then(Value::as_str).unwrap_or_default();
        let bytes = |at| message.pointer(at).and_then(Value::as_u64).unwrap_or_default();
        let (current, total) = (bytes("/progressDetail/current"), bytes("/progressDetail/total"));
        on_message(&Message { id, status, current, total });
    }
}

/// Makes Docker ask the registry of `image` about it, without pulling it.
///
/// # Errors
/// [`DockerError::Refused`] with the registry's answer in Docker's words; otherwise as for a pull.
pub(super) fn ask_registry(
    client: &Client,
    image: &str,
    auth: Option<&str>,
    wait: &Wait<'_>,
) -> Result<(), DockerError> {
    let (body, begun) = Body::ask(client, Request::distribution(image, auth))?;
    let mut messages = Messages::new(body, begun, format!("question about {image}"));
    loop {
        match messages.next(wait)? {
            Next::Message(_) => {}
            Next::End => return Ok(()),
            Next::Stalled => return Err(silence_error(client, false, stall(&messages.what, wait))),
        }
    }
}

/// The error of a pull without progress. It names the silent side: Docker, if it does not answer a ping
/// either.
fn silence_error(client: &Client, extracts: bool, stall: String) -> DockerError {
    match client.ping() {
        Err(_) => DockerError::Timeout(stall),
        Ok(_) if extracts => DockerError::Stalled(format!("{stall} (Docker itself answers)")),
        Ok(_) => DockerError::Stalled(format!("{stall}: the registry sends nothing (Docker itself answers)")),
    }
}

/// Sends an image archive and returns the names (or ids) Docker gave its images. `wait` is the progress
/// deadline: the longest time in which Docker neither accepts a chunk ([`limits::LOAD_CHUNK`]) nor sends a
/// message. Once it has the whole archive, a silence of [`limits::PULL_EXTRACT`] is allowed.
///
/// # Errors
/// As for a pull; [`DockerError::Lost`] also when `archive` cannot be read to its end.
pub(super) fn load(
    client: &Client,
    archive: &mut dyn std::io::Read,
    wait: &Wait<'_>,
) -> Result<Vec<String>, DockerError> {
    client.version()?;
    let mut exchange = Exchange::begin(client, Some(Request::load()))?;
    let answer = match upload(&mut exchange, archive, wait)? {
        Some(early) => early,
        None => advance_upload(&mut exchange, &with_extract_timeout(wait), true)?
            .ok_or_else(|| given_up("image load"))?,
    };
    if answer.head.status >= 300 {
        return Err(refusal(answer.head.status, &answer.body));
    }
    let mut messages = Messages::new(Body::of(exchange), answer.body.0, "image load".to_owned());
    let mut names = Vec::new();
    let wait = with_extract_timeout(wait);
    loop {
        let message = match messages.next(&wait)? {
            Next::Message(message) => message,
            Next::End => return Ok(names),
            Next::Stalled => return Err(stalled("image load", &wait)),
        };
        let text = message.get("stream").and_then(Value::as_str).unwrap_or_default();
        let name = text.strip_prefix("Loaded image: ").or_else(|| text.strip_prefix("Loaded image ID: "));
        if let Some(name) = name
            && names.len() < limits::LOAD_NAMES
        {
            names.push(name.trim().to_owned());
        }
    }
}

/// Sends the archive in chunks. An early answer ends the upload: Docker reads no more of it.
fn upload(
    exchange: &mut Exchange,
    archive: &mut dyn std::io::Read,
    wait: &Wait<'_>,
) -> Result<Option<Answer>, DockerError> {
    let mut buffer = vec![0u8; limits::LOAD_CHUNK];
    loop {
        if let Some(answer) = advance_upload(exchange, wait, false)? {
            return Ok(Some(answer));
        }
        let n = match archive.read(&mut buffer) {
            Ok(n) => n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(DockerError::Lost(format!("image load: the archive cannot be read: {e}"))),
        };
        exchange.push(format!("{n:x}\r\n").as_bytes());
        exchange.push(buffer.get(..n).unwrap_or_default());
        exchange.push(b"\r\n");
        if n == 0 {
            return Ok(None);
        }
    }
}

/// Advances until there is an answer or, unless `to_answer`, until all pushed bytes are sent.
fn advance_upload(
    exchange: &mut Exchange,
    wait: &Wait<'_>,
    to_answer: bool,
) -> Result<Option<Answer>, DockerError> {
    let until = wait.until();
    loop {
        if let Some(answer) = exchange.advance(Goal::Head)? {
            return Ok(Some(answer));
        }
        if !to_answer && !exchange.wants_write() {
            return Ok(None);
        }
        let fds = std::iter::once((exchange.as_fd(), exchange.wants_write()));
        match poll(fds, wait.wake, until) {
            Polled::Ready => {}
            Polled::TimedOut => return Err(stalled("image load", wait)),
            Polled::Woken => return Err(given_up("image load")),
        }
    }
}

fn with_extract_timeout<'a>(wait: &Wait<'a>) -> Wait<'a> {
    Wait { timeout: wait.timeout.map(|t| t.max(limits::PULL_EXTRACT)), ..*wait }
}

fn stall(what: &str, wait: &Wait<'_>) -> String {
    format!("{what}: no progress in {} s", wait.timeout.unwrap_or_default().as_secs())
}

/// The error of a stalled load, which depends on Docker alone.
fn stalled(what: &str, wait: &Wait<'_>) -> DockerError {
    DockerError::Timeout(stall(what, wait))
}

fn given_up(what: &str) -> DockerError {
    DockerError::Lost(format!("{what}: given up"))
}

/// The JSON messages of a pull or load.
struct Messages {
    body: Body,
    lines: Lines,
    ended: bool,
    what: String,
}

/// The result of a wait for the next message.
enum Next {
    Message(Value),
    /// Success: any other end is an error.
    End,
    Stalled,
}

impl Messages {
    fn new(body: Body, begun: Vec<u8>, what: String) -> Messages {
        let mut lines = Lines::default();
        *lines.space() = begun;
        Messages { body, lines, ended: false, what }
    }

    /// Only a whole message counts as progress: otherwise a line without an end would keep a pull alive for
    /// ever.
    fn next(&mut self, wait: &Wait<'_>) -> Result<Next, DockerError> {
        let until = wait.until();
        let left = || until.map(|at| at.saturating_duration_since(Instant::now()));
        let mut is_late = false;
        loop {
            let bad = |why| DockerError::BadAnswer(format!("{}: {why}", self.what));
            match self.lines.next(self.ended).map_err(bad)? {
                // The skipped line may have been the error.
                Some(Line::TooLong) => return Err(bad(Malformed("a line of the stream is too long"))),
                Some(Line::Json(message)) => {
                    let text =
                        |at: &str| message.pointer(at).and_then(Value::as_str).filter(|t| !t.is_empty());
                    return match text("/errorDetail/message").or_else(|| text("/error")) {
                        Some(error) => Err(refused(200, error.to_owned())),
                        None => Ok(Next::Message(message)),
                    };
                }
                None if self.ended => return Ok(Next::End),
                // Bytes that had arrived were parsed first, because the process may have been stopped
                // meanwhile.
                None if is_late => return Ok(Next::Stalled),
                None => {}
            }
            match self.body.read(self.lines.space(), &Wait { timeout: left(), ..*wait })? {
                Read::Bytes => is_late = left().is_some_and(|left| left.is_zero()),
                Read::End => self.ended = true,
                Read::Idle => return Ok(Next::Stalled),
                Read::Woken => return Err(given_up(&self.what)),
            }
        }
    }
}
