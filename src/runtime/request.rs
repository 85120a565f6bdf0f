//! The bytes of an HTTP/1.1 request: of a [`Call`], or of the opening of a stream. Pure.
//!
//! The API version is inserted last, by [`Request::bytes`]: it may be unknown until a connection has been
//! made.

use crate::base::json::json;

use super::body::NO_DETACH_KEYS;
use super::types::Call;

/// Media type of JSON bodies.
const JSON: &str = "application/json";

/// A request without the API version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST` or `DELETE`.
    pub method: &'static str,
    /// Path and query, percent-encoded, without the leading `/v1.41`.
    pub target: String,
    /// Further headers; values must not hold line ends.
    headers: Vec<(&'static str, String)>,
    body: Body,
}

#[derive(Clone, PartialEq, Eq)]
enum Body {
    None,
    Json(Vec<u8>),
    /// Sent later in chunks; the media type.
    Chunked(&'static str),
}

impl std::fmt::Debug for Body {
    /// Without the content: an environment may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Body::None => f.write_str("no body"),
            Body::Json(bytes) => write!(f, "<{} bytes of JSON>", bytes.len()),
            Body::Chunked(media) => write!(f, "chunks of {media}"),
        }
    }
}

/// Options of a container's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// Wait for further lines.
    pub follow: bool,
    /// Only this many of the last lines.
    pub tail: Option<u64>,
    /// Only lines since this wall time, `seconds` or `seconds.nanoseconds` as Docker reads it.
    pub since: Option<String>,
    /// Start each line with its time.
    pub timestamps: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttachOptions {
    /// Also standard input, if the container keeps it open.
    pub stdin: bool,
    /// Replay the log first.
    pub logs: bool,
}

impl Request {
    fn new(method: &'static str, target: impl Into<String>) -> Request {
        Request { method, target: target.into(), headers: Vec::new(), body: Body::None }
    }

    fn json(mut self, body: &impl serde::Serialize) -> Request {
        // Strings and numbers under string keys always serialise.
        self.body = Body::Json(serde_json::to_vec(body).unwrap_or_default());
        self
    }

    fn upgrade(mut self) -> Request {
        self.headers.push(("Connection", "Upgrade".to_owned()));
        self.headers.push(("Upgrade", "tcp".to_owned()));
        self
    }

    /// Asks for the API version, on an unversioned path.
    #[must_use]
    pub fn ping() -> Request {
        Request::new("GET", "/_ping")
    }

    /// A short call.
    #[must_use]
    pub fn call(call: &Call) -> Request {
        match call {
            Call::Info => Request::new("GET", "/info"),
            Call::List { labels } if labels.is_empty() => Request::new("GET", "/containers/json?all=1"),
            Call::List { labels } => {
                let filters = json!({ "label": labels }).to_string();
                Request::new("GET", format!("/containers/json?all=1&filters={}", encode(&filters)))
            }
            Call::Inspect { id } | Call::Process { id } => {
                Request::new("GET", format!("/containers/{}/json", encode(id)))
            }
            Call::Files { id, size } => {
                let size = if *size { "?size=1" } else { "" };
                Request::new("GET", format!("/containers/{}/json{size}", encode(id)))
            }
            Call::Create { name, body } => {
                Request::new("POST", format!("/containers/create?name={}", encode(name))).json(body)
            }
            Call::Start { id } => Request::new("POST", format!("/containers/{}/start", encode(id))),
            Call::Kill { id, signal } => {
                Request::new("POST", format!("/containers/{}/kill?signal={}", encode(id), encode(signal)))
            }
            Call::Remove { id, force } => {
                let force = if *force { "&force=1" } else { "" };
                Request::new("DELETE", format!("/containers/{}?v=1{force}", encode(id)))
            }
            Call::Update { id, resources } => {
                Request::new("POST", format!("/containers/{}/update", encode(id))).json(resources)
            }
            Call::Rename { id, name } => {
                Request::new("POST", format!("/containers/{}/rename?name={}", encode(id), encode(name)))
            }
            Call::LogTail { id, lines } => {
                Request::new("GET", format!("/containers/{}/logs?stdout=1&stderr=1&tail={lines}", encode(id)))
            }
            Call::Resize { id, rows, columns } => {
                Request::new("POST", format!("/containers/{}/resize?h={rows}&w={columns}", encode(id)))
            }
            Call::ExecCreate { id, body } => {
                Request::new("POST", format!("/containers/{}/exec", encode(id))).json(&body.json())
            }
            Call::ExecInspect { id } => Request::new("GET", format!("/exec/{}/json", encode(id))),
            Call::ExecResize { id, rows, columns } => {
                Request::new("POST", format!("/exec/{}/resize?h={rows}&w={columns}", encode(id)))
            }
            Call::ImageInspect { image } => {
                Request::new("GET", format!("/images/{}/json", encode_name(image)))
            }
            Call::ImageList { all: false } => Request::new("GET", "/images/json"),
            Call::ImageList { all: true } => Request::new("GET", "/images/json?all=1"),
            Call::ImageRemove { image } => Request::new("DELETE", format!("/images/{}", encode_name(image))),
            Call::ImageTag { image, name } => {
                let (name, tag) = split_image(name);
                let to = format!("repo={}&tag={}", encode(name), encode(tag));
                Request::new("POST", format!("/images/{}/tag?{to}", encode_name(image)))
            }
            Call::DiskUsage => Request::new("GET", "/system/df?type=build-cache"),
            Call::BuildPrune => Request::new("POST", "/build/prune?all=1"),
            Call::NetworkList { labels } => {
                let filters = json!({ "label": labels }).to_string();
                Request::new("GET", format!("/networks?filters={}", encode(&filters)))
            }
            Call::NetworkInspect { name } => Request::new("GET", format!("/networks/{}", encode(name))),
            Call::NetworkRemove { name } => Request::new("DELETE", format!("/networks/{}", encode(name))),
            Call::NetworkCreate { body } => Request::new("POST", "/networks/create").json(body),
        }
    }

    /// Container events whose labels match all of `labels` (`key` or `key=value`). `since` replays the events
    /// that the engine remembers (256) from that second of its wall clock on.
    #[must_use]
    pub fn events(labels: &[String], since: Option<i64>) -> Request {
        let filters = json!({ "type": ["container"], "label": labels }).to_string();
        let since = since.map(|s| format!("since={s}&")).unwrap_or_default();
        Request::new("GET", format!("/events?{since}filters={}", encode(&filters)))
    }

    /// Events of images; `since` as above. A stream of their own: a filter by labels would have to fit images, too.
    #[must_use]
    pub fn image_events(since: i64) -> Request {
        let filters = json!({ "type": ["image"] }).to_string();
        Request::new("GET", format!("/events?since={since}&filters={}", encode(&filters)))
    }

    /// A pull of `image`; `auth` is the ready value of `X-Registry-Auth` (URL-safe base64 with padding).
    #[must_use]
    pub fn pull(image: &str, auth: Option<&str>) -> Request {
        let (name, tag) = split_image(image);
        let mut request =
            Request::new("POST", format!("/images/create?fromImage={}&tag={}", encode(name), encode(tag)));
        authorize(&mut request, auth);
        request
    }

    /// A request for the registry's data about `image`, which Docker asks for each time. `auth` as for a
    /// pull.
    #[must_use]
    pub fn distribution(image: &str, auth: Option<&str>) -> Request {
        let mut request = Request::new("GET", format!("/distribution/{image}/json"));
        authorize(&mut request, auth);
        request
    }

    /// A load of an image archive, which follows in chunks.
    #[must_use]
    pub fn load() -> Request {
        Request { body: Body::Chunked("application/x-tar"), ..Request::new("POST", "/images/load?quiet=1") }
    }

    /// A container's log.
    #[must_use]
    pub fn logs(id: &str, options: &LogOptions) -> Request {
        let mut target = format!("/containers/{}/logs?stdout=1&stderr=1", encode(id));
        if options.follow {
            target.push_str("&follow=1");
        }
        if options.timestamps {
            target.push_str("&timestamps=1");
        }
        if let Some(since) = &options.since {
            target.push_str("&since=");
            target.push_str(&encode(since));
        }
        if let Some(tail) = options.tail {
            target.push_str(&format!("&tail={tail}"));
        }
        Request::new("GET", target)
    }

    /// A container's live streams.
    #[must_use]
    pub fn attach(id: &str, options: AttachOptions) -> Request {
        let mut target = format!("/containers/{}/attach?stream=1&stdout=1&stderr=1", encode(id));
        if options.stdin {
            target.push_str("&stdin=1");
        }
        if options.logs {
            target.push_str("&logs=1");
        }
        target.push_str("&detachKeys=");
        target.push_str(&encode(NO_DETACH_KEYS));
        Request::new("POST", target).upgrade()
    }

    /// Starts an exec and takes over its streams.
    #[must_use]
    pub fn exec_start(id: &str, tty: bool) -> Request {
        let body = json!({ "Detach": false, "Tty": tty });
        Request::new("POST", format!("/exec/{}/start", encode(id))).json(&body).upgrade()
    }

    /// Method and path, for messages.
    #[must_use]
    pub fn what(&self) -> String {
        let path = self.target.split('?').next().unwrap_or_default();
        format!("{} {path}", self.method)
    }

    /// The bytes to send (all of them, unless chunks follow), for this API version.
    #[must_use]
    pub fn bytes(&self, version: Option<(u16, u16)>) -> Vec<u8> {
        let prefix = version.map(|(major, minor)| format!("/v{major}.{minor}")).unwrap_or_default();
        let mut head = format!(
            "{} {prefix}{} HTTP/1.1\r\nHost: docker\r\nUser-Agent: podkeeper\r\n",
            self.method, self.target
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut body: &[u8] = &[];
        match &self.body {
            Body::None if self.method == "POST" => head.push_str("Content-Length: 0\r\n"),
            Body::None => {}
            Body::Json(json) => {
                head.push_str(&format!("Content-Type: {JSON}\r\nContent-Length: {}\r\n", json.len()));
                body = json;
            }
            Body::Chunked(media) => {
                head.push_str(&format!("Content-Type: {media}\r\nTransfer-Encoding: chunked\r\n"));
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}

/// `auth` is the ready value of the header.
fn authorize(request: &mut Request, auth: Option<&str>) {
    if let Some(auth) = auth {
        request.headers.push(("X-Registry-Auth", auth.chars().filter(|c| c.is_ascii_graphic()).collect()));
    }
}

/// Name, and tag or digest, of a reference; the tag is `latest` when it has neither (upstream
/// `pkg/util/parsers`). If it has both, the digest is used.
#[must_use]
pub fn split_image(image: &str) -> (&str, &str) {
    let (named, digest) = match image.split_once('@') {
        Some((named, digest)) => (named, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the registry's port.
    let (name, tag) = match named.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (named, "latest"),
    };
    (name, digest.unwrap_or(tag))
}

/// Percent-encodes everything but unreserved characters (RFC 3986).
fn encode(text: &str) -> String {
    escape(text, b"")
}

/// Like [`encode`], for an image name inside a path: Docker's router expects unencoded slashes.
fn encode_name(text: &str) -> String {
    escape(text, b"/:@")
}

fn escape(text: &str, also: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || also.contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests;
