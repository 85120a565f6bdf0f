//! The request of an httpGet, the target of a redirect, and the verdict on an answer (upstream
//! `pkg/probe/http/http.go`, `pkg/probe/http/request.go`). Pure.

use std::net::IpAddr;

use super::outcome::Outcome;
use super::spec::{HookKind, HttpGet};

/// User agent of probes: the kubelet's name and reference level.
pub const USER_AGENT: &str = "kube-probe/1.36";
/// User agent of hooks.
pub const HOOK_AGENT: &str = "kube-lifecycle/1.36";

/// Target of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub tls: bool,
    /// Name or address, without brackets.
    pub host: String,
    pub port: u16,
    /// Path and query; starts with a slash, without blanks.
    pub target: String,
    /// Whether the port is written out.
    explicit_port: bool,
}

impl Url {
    /// The first URL of a probe.
    ///
    /// # Errors
    /// The port is invalid, or the pod's address is needed and unknown.
    pub fn first(get: &HttpGet, address: Option<IpAddr>) -> Result<Url, String> {
        let port = get.port.clone()?;
        let host = match (&get.host, address) {
            (Some(host), _) => host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            (None, Some(address)) => address.to_string(),
            (None, None) => return Err("the pod's address is not known".to_owned()),
        };
        Ok(Url { tls: get.tls, host, port, target: target(&get.path), explicit_port: true })
    }

    /// Host and port as in a `Host` header.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.explicit_port { format!("{host}:{}", self.port) } else { host }
    }

    /// The URL for error messages.
    #[must_use]
    pub fn shown(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.target)
    }

    /// The target of a redirect to `location`, and whether it names a server. `None` for a target that is
    /// not followed.
    #[must_use]
    pub fn join(&self, location: &str) -> Option<(Url, bool)> {
        let location = location.trim();
        let (tls, rest) = match location.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, Some(rest)),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, Some(rest)),
            Some((scheme, _)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => return None,
            _ => (self.tls, location.strip_prefix("//")),
        };
        if let Some(rest) = rest {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            let authority = authority.rsplit('@').next().unwrap_or_default();
            let (host, port) = split_port(authority)?;
            let default = if tls { 443 } else { 80 };
            let url = Url {
                tls,
                host: host.to_owned(),
                port: port.unwrap_or(default),
                target: target(path),
                explicit_port: port.is_some(),
            };
            return Some((url, true));
        }
        let path = if location.starts_with('/') {
            location.to_owned()
        } else {
            let own = self.target.split('?').next().unwrap_or("/");
            match location.strip_prefix('?') {
                Some(query) => format!("{own}?{query}"),
                None => format!("{}/{location}", own.rsplit_once('/').map_or("", |(dir, _)| dir)),
            }
        };
        Some((Url { target: target(&path), ..self.clone() }, false))
    }
}

/// `host:port`, `host`, `[v6]:port`, `[v6]`.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').unwrap_or_default())
        }
        None => authority.rsplit_once(':').unwrap_or((authority, "")),
    };
    if host.is_empty() {
        return None;
    }
    let port = if port.is_empty() { None } else { Some(port.parse().ok().filter(|p| *p > 0)?) };
    Some((host, port))
}

/// A path as it is sent: starts with a slash, without a fragment, other characters escaped.
fn target(path: &str) -> String {
    let path = path.split('#').next().unwrap_or_default();
    let mut out = String::with_capacity(path.len().saturating_add(1));
    if !path.starts_with('/') {
        out.push('/');
    }
    for byte in path.bytes() {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The bytes of a request. `named`: the configured `Host` is sent (in the first request, and after redirects
/// that name no server). `hook`: for a hook.
#[must_use]
pub fn request(get: &HttpGet, url: &Url, named: bool, hook: Option<HookKind>) -> Vec<u8> {
    let find = |name: &str| get.headers.iter().rev().find(|(n, _)| n.eq_ignore_ascii_case(name));
    let host = find("Host").map(|(_, value)| clean(value)).filter(|h| named && !h.is_empty());
    let mut out =
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n", url.target, host.unwrap_or_else(|| url.authority()));
    let agent = if hook.is_some() { HOOK_AGENT } else { USER_AGENT };
    for (name, default) in [("User-Agent", agent), ("Accept", "*/*")] {
        if find(name).is_none() {
            out.push_str(&format!("{name}: {default}\r\n"));
        }
    }
    for (name, value) in &get.headers {
        let own = ["Host", "Connection", "Transfer-Encoding", "Content-Length"];
        let value = clean(value);
        let removed = value.is_empty()
            && ["User-Agent", "Accept"].iter().any(|special| name.eq_ignore_ascii_case(special));
        if !removed && !own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            out.push_str(&format!("{}: {value}\r\n", clean(name)));
        }
    }
    out.push_str("Connection: close\r\n\r\n");
    out.into_bytes()
}

/// Removes line ends from a header, so that no further header can be injected.
fn clean(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>().trim().to_owned()
}

/// Decision on an answer whose head was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send a request there; true: the configured `Host` is sent again.
    Follow(Url, bool),
    /// Read the body, then judge.
    Judge,
    /// Fail with this message.
    Stop(String),
}

/// A redirect is followed only to the host name of the first request (the port may differ); other 3xx are
/// judged.
#[must_use]
pub fn next(
    status: u16,
    location: Option<&str>,
    first: &Url,
    here: &Url,
    named: bool,
    followed: usize,
) -> Next {
    let location = location.filter(|l| !l.is_empty() && matches!(status, 301 | 302 | 303 | 307 | 308));
    let Some(location) = location else { return Next::Judge };
    let Some((url, names_server)) = here.join(location) else {
        return Next::Stop(format!("failed to parse Location header {location:?}"));
    };
    if !url.host.eq_ignore_ascii_case(&first.host) {
        return Next::Judge;
    }
    if followed >= crate::base::limits::PROBE_REDIRECTS {
        return Next::Stop("stopped after 10 redirects".to_owned());
    }
    Next::Follow(url, named && !names_server)
}

/// The verdict on an answer. Only a redirect's message has the body.
#[must_use]
pub fn judge(status: u16, body: &[u8]) -> Outcome {
    match status {
        200..=299 => Outcome::Passed,
        300..=399 => {
            let body = String::from_utf8_lossy(body);
            Outcome::Warned(format!("Probe terminated redirects, Response body: {body}"))
        }
        _ => Outcome::Failed(format!("HTTP probe failed with statuscode: {status}")),
    }
}

#[cfg(test)]
mod tests;
