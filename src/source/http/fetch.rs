//! One request: GET, up to the end of the body or a time limit. The result is a complete body, or the reason why not.
//!
//! Data from the server are checked before they are trusted: its length, the target of a redirect, and whether the end
//! of a connection is the end of the body. Error texts repeat no query and no header.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;

use super::answer::{self, Head};
use super::dial::{self, Late, Line};
use super::url::ManifestUrl;
use super::{Patience, Settings, tls};
use crate::base::concealed::Concealed;
use crate::base::dial::Names;
use crate::base::http::{Body, Broken};
use crate::base::limits;
use crate::base::tls::words_of;

/// The server's marks of a version, sent back to ask whether there is a newer one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`, as sent.
    pub etag: Option<String>,
    /// `Last-Modified`, as sent. Only the server compares it.
    pub last_modified: Option<String>,
}

impl Validators {
    /// Whether there is no validator.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// A successful request.
#[derive(Debug)]
pub enum Fetched {
    /// The server's content has not changed since the validators.
    Unchanged,
    /// A complete body.
    Body {
        /// At most the requested limit.
        bytes: Concealed<Vec<u8>>,
        /// For the next request.
        validators: Validators,
    },
    /// 404 or 410.
    Missing(u16),
}

/// The server of one poll: its addresses, and the settings of connections.
#[derive(Debug)]
pub struct Server<'s> {
    settings: &'s Settings,
    addresses: Vec<SocketAddr>,
    tls: Option<Arc<ClientConfig>>,
    whole: Instant,
}

impl<'s> Server<'s> {
    /// Looks up the addresses and reads the certificates. The limit of the whole poll starts after that.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn find(settings: &'s Settings, names: &Names) -> Result<Server<'s>, String> {
        let (url, patience) = (&settings.url, &settings.patience);
        let tls = match url.is_https() {
            true => Some(tls::configure(settings.ca_file.as_deref(), settings.client.as_ref())?),
            false => None,
        };
        let addresses = names.find(url.host(), url.port(), patience.connect)?;
        let whole = Instant::now() + patience.whole;
        Ok(Server { settings, addresses, tls: tls.map(Arc::new), whole })
    }

    /// Gets a URL of this server, of at most `limit` bytes, following redirects that stay on it.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn get(&self, url: &ManifestUrl, limit: usize, validators: &Validators) -> Result<Fetched, String> {
        let mut url = url.clone();
        for _ in 0..=limits::URL_REDIRECTS {
            match self.get_once(&url, limit, validators)? {
                Step::Done(fetched) => return Ok(fetched),
                Step::Redirect(location) => {
                    url =
                        url.redirected(&location).map_err(|why| format!("the server answers with {why}"))?;
                }
            }
        }
        Err(format!("the server redirects more than {} times", limits::URL_REDIRECTS))
    }

    fn get_once(&self, url: &ManifestUrl, limit: usize, validators: &Validators) -> Result<Step, String> {
        let patience = &self.settings.patience;
        let mut line = dial::dial(url, &self.addresses, self.tls.as_ref(), patience, self.whole)?;
        let failed = |error: &io::Error, late| words(error, late, patience);
        let request = request(url, self.settings, validators);
        let late = line.set_until(Instant::now() + patience.first_byte, self.whole);
        line.send(request.as_bytes()).map_err(|error| failed(&error, late))?;
        let late = line.set_until(Instant::now() + patience.first_byte, self.whole);
        let mut begun = Vec::new();
        let head = read_head(&mut line, &mut begun, |error| failed(error, late))?;
        match head.status {
            200 => {}
            304 if !validators.is_empty() => return Ok(Step::Done(Fetched::Unchanged)),
            404 | 410 => return Ok(Step::Done(Fetched::Missing(head.status))),
            301 | 302 | 303 | 307 | 308 => {
                return Ok(Step::Redirect(head.text("location").unwrap_or_default().to_owned()));
            }
            status => return Err(answered(status)),
        }
        let mut body = check_head(&head, limit)?;
        let validators =
            Validators { etag: kept(&head, "etag"), last_modified: kept(&head, "last-modified") };
        let late = line.set_until(self.whole, self.whole);
        let mut bytes = Concealed(Vec::new());
        let mut buffer = vec![0; limits::URL_BUFFER];
        feed(&mut body, &begun, &mut bytes.0, limit)?;
        while !body.is_done() {
            let piece = line.read(&mut buffer).map_err(|error| failed(&error, late))?;
            feed(&mut body, piece, &mut bytes.0, limit)?;
        }
        Ok(Step::Done(Fetched::Body { bytes, validators }))
    }
}

/// Reads the head of the answer, skipping interim ones; `rest` gets the part of the body that came with it.
fn read_head(
    line: &mut Line,
    rest: &mut Vec<u8>,
    failed: impl Fn(&io::Error) -> String,
) -> Result<Head, String> {
    let mut buffer = vec![0; limits::URL_HEAD];
    let mut taken = 0_usize;
    loop {
        if let Some((head, end)) = answer::head(rest).map_err(|_| BROKEN.to_owned())? {
            rest.drain(..end);
            if !answer::is_interim(&head) {
                return Ok(head);
            }
            taken = taken.saturating_add(end);
            continue;
        }
        let room = limits::URL_HEAD.saturating_sub(taken).saturating_sub(rest.len());
        if room == 0 {
            return Err(format!("the answer's head is larger than {} bytes", limits::URL_HEAD));
        }
        let piece = line.read(buffer.get_mut(..room).unwrap_or_default()).map_err(|error| failed(&error))?;
        rest.extend_from_slice(piece);
    }
}

/// Appends the bytes of the body.
fn feed(body: &mut Body, mut piece: &[u8], bytes: &mut Vec<u8>, limit: usize) -> Result<(), String> {
    body.feed(&mut piece, bytes).map_err(|why| match why {
        Broken::TooLong => too_large(limit),
        _ => BROKEN.to_owned(),
    })
}

enum Step {
    Done(Fetched),
    Redirect(String),
}

/// The text for a status.
#[must_use]
pub fn answered(status: u16) -> String {
    match answer::reason(status) {
        Some(reason) => format!("the server answers {status} {reason}"),
        None => format!("the server answers {status}"),
    }
}

/// The request. The operator's headers replace the usual ones. Proxies of the environment are ignored: see the man
/// page.
fn request(url: &ManifestUrl, settings: &Settings, validators: &Validators) -> String {
    let usual = [
        ("host", url.authority()),
        ("user-agent", concat!("podkeeper/", env!("CARGO_PKG_VERSION")).to_owned()),
        ("accept", "*/*".to_owned()),
    ];
    let mut text = format!("GET {} HTTP/1.1\r\n", url.target());
    let mut add = |name: &str, value: &str| {
        for part in [name, ": ", value, "\r\n"] {
            text.push_str(part);
        }
    };
    for (name, value) in &usual {
        if settings.headers.iter().all(|header| header.name != *name) {
            add(name, value);
        }
    }
    add("accept-encoding", "identity");
    add("connection", "close");
    for header in &settings.headers {
        add(&header.name, &header.value);
    }
    if let Some(etag) = &validators.etag {
        add("if-none-match", etag);
    }
    if let Some(time) = &validators.last_modified {
        add("if-modified-since", time);
    }
    text.push_str("\r\n");
    text
}

/// A validator, if it can be sent back.
fn kept(head: &Head, name: &str) -> Option<String> {
    head.text(name).filter(|t| !t.is_empty() && t.len() <= limits::URL_VALIDATOR).map(str::to_owned)
}

/// The reader of the body. Refuses a body that could never be read completely, or is no manifest, before reading it.
fn check_head(head: &Head, limit: usize) -> Result<Body, String> {
    let coding = head.text("content-encoding").unwrap_or("identity");
    if !coding.eq_ignore_ascii_case("identity") {
        return Err("the server sends an encoded (compressed) answer, which was not asked for".to_owned());
    }
    if head.text("content-type").is_some_and(|t| t.to_ascii_lowercase().starts_with("text/html")) {
        return Err(WEB_PAGE.to_owned());
    }
    let Some(framing) = head.framing() else {
        let why = "so a half answer looks like a whole one";
        return Err(format!("the server's answer has neither a length nor chunks, {why}: not taken"));
    };
    let most = u64::try_from(limit).unwrap_or(u64::MAX);
    if head.length.is_some_and(|length| length > most) {
        return Err(too_large(limit));
    }
    Ok(Body::new(framing, most))
}

/// The message for a server's error page, or the login page of a network.
pub const WEB_PAGE: &str = "the server answers with a web page (HTML), not with a manifest";

fn too_large(limit: usize) -> String {
    format!("the server's answer is larger than {limit} bytes (--manifest-url-max-size)")
}

const BROKEN: &str = "the server's answer breaks the rules of HTTP";

/// A description of the error, without numbers that change: the loop logs each new text.
fn words(error: &io::Error, late: Late, patience: &Patience) -> String {
    if let Some(words) = words_of(error, &tls::HINTS) {
        return words;
    }
    match error.kind() {
        io::ErrorKind::TimedOut if late == Late::Phase => {
            format!("no answer within {:?}", patience.first_byte)
        }
        io::ErrorKind::TimedOut => format!("the answer was not whole within {:?}", patience.whole),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "the connection ended before the answer was whole".to_owned(),
        _ => format!("the connection failed: {error}"),
    }
}
