//! One request: GET, to the end of the body or of our patience. What comes out is a whole body, or why not.
//!
//! Nothing that the server says is believed further than it can be checked: not its length, not where it
//! redirects to, not that a connection's end is the body's end. Texts repeat no query and no header.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;
use ureq::http::{HeaderMap, Request, StatusCode, header};
use ureq::{Agent, Timeout};

use super::dial::{self, Nowhere, Ready};
use super::url::ManifestUrl;
use super::{Patience, Settings, tls};
use crate::base::concealed::Concealed;
use crate::base::dial::Names;
use crate::base::limits;
use crate::base::tls::words_of;

/// What the server said of a version of its content: sent back to ask whether there is a newer one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`, as it came.
    pub etag: Option<String>,
    /// `Last-Modified`, as it came. It is compared by the server alone.
    pub last_modified: Option<String>,
}

impl Validators {
    /// There is nothing to ask with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// A good end of a request.
#[derive(Debug)]
pub enum Fetched {
    /// The server says that it holds what the validators say.
    Unchanged,
    /// A body, whole.
    Body {
        /// At most what was asked for.
        bytes: Concealed<Vec<u8>>,
        /// For the next request.
        validators: Validators,
    },
    /// 404 or 410.
    Missing(StatusCode),
}

/// The server of one poll: its addresses and how to speak to it.
#[derive(Debug)]
pub struct Server<'s> {
    settings: &'s Settings,
    addresses: Vec<SocketAddr>,
    tls: Option<Arc<ClientConfig>>,
    whole: Instant,
}

impl<'s> Server<'s> {
    /// Finds its addresses and reads the certificates. The time for the whole poll begins after that.
    ///
    /// # Errors
    /// What happened, in words.
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
    /// What happened, in words.
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
        let line = dial::dial(url, &self.addresses, self.tls.as_ref(), patience, self.whole)?;
        let agent = Agent::with_parts(config(patience, self.whole), Ready::new(line), Nowhere);
        let request = request(url, self.settings, validators).map_err(|e| format!("no request: {e}"))?;
        let mut response = agent.run(request).map_err(|e| words(e, patience))?;
        let (status, headers) = (response.status(), response.headers());
        match status {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if !validators.is_empty() => return Ok(Step::Done(Fetched::Unchanged)),
            StatusCode::NOT_FOUND | StatusCode::GONE => return Ok(Step::Done(Fetched::Missing(status))),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location = text(headers, header::LOCATION.as_str()).unwrap_or_default();
                return Ok(Step::Redirect(location.to_owned()));
            }
            _ => return Err(answered(status)),
        }
        check_head(headers, limit)?;
        let validators =
            Validators { etag: kept(headers, "etag"), last_modified: kept(headers, "last-modified") };
        let mut bytes = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
        let body = response.body_mut().as_reader().take(most).read_to_end(&mut bytes);
        body.map_err(|e| words(e.into(), patience))?;
        if bytes.len() > limit {
            return Err(too_large(limit));
        }
        Ok(Step::Done(Fetched::Body { bytes: Concealed(bytes), validators }))
    }
}

enum Step {
    Done(Fetched),
    Redirect(String),
}

/// How a status is told.
#[must_use]
pub fn answered(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("the server answers {} {reason}", status.as_u16()),
        None => format!("the server answers {}", status.as_u16()),
    }
}

fn config(patience: &Patience, whole: Instant) -> ureq::config::Config {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        // Proxies of the environment are for people: see the man page.
        .proxy(None)
        .user_agent(concat!("podkeeper/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .max_response_header_size(limits::URL_HEAD)
        .max_idle_connections(0)
        .timeout_send_request(Some(patience.first_byte))
        .timeout_recv_response(Some(patience.first_byte))
        .timeout_global(Some(whole.saturating_duration_since(Instant::now())))
        .build()
}

fn request(
    url: &ManifestUrl,
    settings: &Settings,
    validators: &Validators,
) -> Result<Request<()>, ureq::http::Error> {
    let mut request = Request::get(url.full()).header(header::CONNECTION, "close");
    for header in &settings.headers {
        request = request.header(&header.name, &header.value);
    }
    if let Some(etag) = &validators.etag {
        request = request.header(header::IF_NONE_MATCH, etag);
    }
    if let Some(time) = &validators.last_modified {
        request = request.header(header::IF_MODIFIED_SINCE, time);
    }
    request.body(())
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// A validator, if it is one that can be sent back.
fn kept(headers: &HeaderMap, name: &str) -> Option<String> {
    text(headers, name).filter(|t| !t.is_empty() && t.len() <= limits::URL_VALIDATOR).map(str::to_owned)
}

/// Refuses what could never be read whole, or is no manifest, before it is read.
fn check_head(headers: &HeaderMap, limit: usize) -> Result<(), String> {
    let coding = text(headers, "content-encoding").unwrap_or("identity").trim();
    if !coding.eq_ignore_ascii_case("identity") {
        return Err("the server sends an encoded (compressed) answer, which was not asked for".to_owned());
    }
    if text(headers, "content-type").is_some_and(|t| t.trim().to_ascii_lowercase().starts_with("text/html")) {
        return Err(WEB_PAGE.to_owned());
    }
    let length = text(headers, "content-length");
    if length.is_none() && !headers.contains_key(header::TRANSFER_ENCODING) {
        let why = "so a half answer looks like a whole one";
        return Err(format!("the server's answer has neither a length nor chunks, {why}: not taken"));
    }
    let length = length.and_then(|l| l.trim().parse::<u64>().ok());
    if length.is_some_and(|l| usize::try_from(l).is_ok_and(|l| l > limit) || usize::try_from(l).is_err()) {
        return Err(too_large(limit));
    }
    Ok(())
}

/// A server's error page, or that of a network that wants to be logged in to.
pub const WEB_PAGE: &str = "the server answers with a web page (HTML), not with a manifest";

fn too_large(limit: usize) -> String {
    format!("the server's answer is larger than {limit} bytes (--manifest-url-max-size)")
}

/// What went wrong, without ever-changing numbers: the loop logs each new text.
fn words(error: ureq::Error, patience: &Patience) -> String {
    match error {
        ureq::Error::Timeout(Timeout::SendRequest | Timeout::RecvResponse) => {
            format!("no answer within {:?}", patience.first_byte)
        }
        ureq::Error::Timeout(_) => format!("the answer was not whole within {:?}", patience.whole),
        ureq::Error::LargeResponseHeader(..) => {
            format!("the answer's head is larger than {} bytes", limits::URL_HEAD)
        }
        ureq::Error::Protocol(_) | ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
            "the server's answer breaks the rules of HTTP".to_owned()
        }
        ureq::Error::Io(error) => io_words(&error),
        error => format!("the request failed: {error}"),
    }
}

fn io_words(error: &io::Error) -> String {
    if let Some(words) = words_of(error, &tls::HINTS) {
        return words;
    }
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "the connection ended before the answer was whole".to_owned(),
        _ => format!("the connection failed: {error}"),
    }
}
