//! The URLs that may be polled, and the way they are shown. Pure.
//!
//! The server of the URL has root's power over this node: plain `http` is for loopback, unless the operator insists. A
//! query may hold a secret and is never shown.

use std::fmt;
use std::net::IpAddr;

use crate::base::hex;
use crate::base::limits;

/// A URL of manifests that keeps the rules of [`ManifestUrl::parse`].
#[derive(Clone, PartialEq, Eq)]
pub struct ManifestUrl {
    https: bool,
    /// Lower case, an IPv6 address without brackets.
    host: String,
    /// Never 0.
    port: u16,
    /// Begins with `/`.
    path: String,
    query: Option<String>,
}

impl ManifestUrl {
    /// Reads `http://HOST[:PORT][/PATH][?QUERY]`, or `https`.
    ///
    /// # Errors
    /// Another scheme, no host, user info, a fragment, or text that is no URL. The message repeats nothing of the URL,
    /// which may hold a secret.
    pub fn parse(text: &str) -> Result<ManifestUrl, String> {
        let form = || "must be https://HOST/PATH (or http://, see --manifest-url-allow-insecure)".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(form)?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(form()),
        };
        if !text.bytes().all(|b| b.is_ascii_graphic()) {
            return Err("must be ASCII without spaces: other characters are percent-encoded".to_owned());
        }
        if text.contains('#') {
            return Err("must not have a fragment (#...)".to_owned());
        }
        let (authority, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if authority.contains('@') {
            let instead = "give --manifest-url-header \"Authorization: Basic ...\" instead";
            return Err(format!("must not hold a user or a password: {instead}"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|a| a.split_once(']')) {
            Some((host, port)) => {
                let is_v6 = matches!(host.parse(), Ok(IpAddr::V6(_)));
                (is_v6.then_some(host).ok_or("has no valid IPv6 address in brackets")?, port)
            }
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let word = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        if host.is_empty() || !host.bytes().all(word) {
            return Err("has no valid host".to_owned());
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(if https { 443 } else { 80 }),
            None => None,
            Some(digits) => digits.parse().ok().filter(|port| *port != 0),
        };
        let port = port.ok_or("has no valid port")?;
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (tail, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        let url = ManifestUrl { https, host: host.to_ascii_lowercase(), port, path, query };
        // RFC 3986 allows fewer characters in a path and a query; clients send a few more.
        let stand_in_path = url.path.bytes().all(|byte| !matches!(byte, b'<' | b'>' | b'`'));
        let stand_in_query = |query: &String| query.bytes().all(|byte| !matches!(byte, b'<' | b'>' | b'"'));
        let is_valid = stand_in_path
            && url.query.as_ref().is_none_or(stand_in_query)
            && url.full().len() <= limits::URL_LENGTH;
        if is_valid { Ok(url) } else { Err("is no valid URL".to_owned()) }
    }

    /// Whether the scheme is https.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// Whether the host is a literal loopback address, or `localhost`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Name or address of the server; IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `host:port` without a default port, for the Host header.
    #[must_use]
    pub fn authority(&self) -> String {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        match (self.https, self.port) {
            (true, 443) | (false, 80) => format!("{open}{}{close}", self.host),
            (_, port) => format!("{open}{}{close}:{port}", self.host),
        }
    }

    /// Path and query, for the request alone.
    #[must_use]
    pub fn target(&self) -> String {
        let query = self.query.as_ref().map(|q| format!("?{q}")).unwrap_or_default();
        format!("{}{query}", self.path)
    }

    /// `https://host:port` without a default port: the only part of another's URL that may be shown.
    #[must_use]
    pub fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// The whole URL, for the request alone: never for a log, a status or an error.
    #[must_use]
    pub fn full(&self) -> String {
        format!("{}{}", self.origin(), self.target())
    }

    /// The key of its content in the store: the URL as it may be shown, and different for each query.
    #[must_use]
    pub fn identity(&self) -> String {
        let Some(query) = &self.query else { return self.to_string() };
        format!("{self}?{:.16}", hex::sha256(query.as_bytes()))
    }

    /// The URL of the detached signature: `.minisig` is appended to the path, and the query is the same.
    #[must_use]
    pub fn signature(&self) -> ManifestUrl {
        ManifestUrl { path: format!("{}.minisig", self.path), ..self.clone() }
    }

    /// The target of a redirect of this URL.
    ///
    /// # Errors
    /// The target must not be followed: it has another scheme, host or port, or is no URL.
    pub fn redirected(&self, location: &str) -> Result<ManifestUrl, String> {
        let location = location.split_once('#').map_or(location, |(url, _)| url).trim();
        let directory = self.path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let target = match location {
            "" => return Err("a redirect that names no place".to_owned()),
            l if l.starts_with("//") => format!("{}:{l}", if self.https { "https" } else { "http" }),
            l if l.starts_with('/') => format!("{}{l}", self.origin()),
            l if l.starts_with('?') => format!("{}{}{l}", self.origin(), self.path),
            l if l.split(['/', '?']).next().is_some_and(|first| first.contains(':')) => l.to_owned(),
            l => format!("{}{directory}/{l}", self.origin()),
        };
        let target = ManifestUrl::parse(&target)
            .map_err(|_| "a redirect to a place that may not be followed".to_owned())?;
        if (target.https, &target.host, target.port) != (self.https, &self.host, self.port) {
            let origin = target.origin();
            return Err(format!("a redirect to another server ({origin}), which is not followed"));
        }
        Ok(target)
    }
}

impl fmt::Display for ManifestUrl {
    /// Shows the URL without its query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.path)
    }
}

impl fmt::Debug for ManifestUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_how_they_are_shown() {
        let check = |text: &str, shown: &str, full: &str| {
            let url = ManifestUrl::parse(text).unwrap();
            assert_eq!((url.to_string().as_str(), url.full().as_str()), (shown, full));
            assert_eq!(format!("{url:?}"), shown);
        };
        check("https://Example.com", "https://example.com/", "https://example.com/");
        check("HTTPS://a:443/p", "https://a/p", "https://a/p");
        check(
            "http://127.0.0.1:8080/p?token=s",
            "http://127.0.0.1:8080/p",
            "http://127.0.0.1:8080/p?token=s",
        );
        check("http://a?q", "http://a/", "http://a/?q");
        check("http://[::1]:80/x", "http://[::1]/x", "http://[::1]/x");
        check("https://a/p/", "https://a/p/", "https://a/p/");
    }

    #[test]
    fn what_is_no_url_of_manifests() {
        let check = |text: &str, part: &str| {
            let error = ManifestUrl::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        };
        check("", "must be https://");
        check("example.com/secret", "must be https://");
        check("ftp://a/secret", "must be https://");
        check("file:///secret", "must be https://");
        check("https://", "no valid host");
        check("https:///secret", "no valid host");
        check("https://?secret", "no valid host");
        check("https://user:secret@a/", "user or a password");
        check("https://secret@a/", "user or a password");
        check("https://a/secret#x", "fragment");
        check("https://a/secret x", "ASCII");
        check("https://a/sécret", "ASCII");
        check("https://a:/x", "port");
        check("https://a:0/x", "port");
        check("https://a:65536/x", "port");
        check("https://a:b:1/x", "port");
        check("https://[::1/x", "host");
        check("https://[a]/x", "IPv6");
        check("https://[::1]x/x", "port");
        check("https://a%41/x", "host");
        check("https://a/\\\"<>{}`^|", "no valid URL");
    }

    #[test]
    fn loopback_is_a_literal_or_localhost() {
        let check = |host: &str, expected: bool| {
            assert_eq!(
                ManifestUrl::parse(&format!("http://{host}/")).unwrap().is_loopback(),
                expected,
                "{host}"
            );
        };
        check("127.0.0.1", true);
        check("127.255.0.9:81", true);
        check("[::1]:8080", true);
        check("LocalHost", true);
        check("localhost.", false);
        check("localhost.example.com", false);
        check("127.1", false);
        check("2130706433", false);
        check("0.0.0.0", false);
        check("[::ffff:127.0.0.1]", false);
        check("10.0.0.1", false);
    }

    #[test]
    fn redirects_stay_at_home() {
        let url = ManifestUrl::parse("https://a:8443/x/y?q=1").unwrap();
        let check = |location: &str, expected: &str| {
            assert_eq!(url.redirected(location).unwrap().full(), expected);
        };
        check("/z", "https://a:8443/z");
        check("/z?k#f", "https://a:8443/z?k");
        check("z", "https://a:8443/x/z");
        check("?k", "https://a:8443/x/y?k");
        check("https://A:8443/z", "https://a:8443/z");
        check("//a:8443/z", "https://a:8443/z");
        let refuse = |location: &str, part: &str| {
            let error = url.redirected(location).unwrap_err();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        };
        refuse("https://a/z?secret", "another server (https://a)");
        refuse("http://a:8443/secret", "another server (http://a:8443)");
        refuse("//b:8443/secret", "another server (https://b:8443)");
        refuse("file:///etc/secret", "may not be followed");
        refuse("https://u:secret@a:8443/", "may not be followed");
        refuse("#secret", "names no place");
    }

    #[test]
    fn the_signature_is_beside_the_content() {
        let check = |text: &str, expected: &str| {
            assert_eq!(ManifestUrl::parse(text).unwrap().signature().full(), expected);
        };
        check("https://a/pods.yaml", "https://a/pods.yaml.minisig");
        check("https://a/pods?v=1", "https://a/pods.minisig?v=1");
    }

    proptest::proptest! {
        #[test]
        fn nothing_but_the_origin_and_the_path_is_shown(text in "https?://[a-z@:/?#.\\[\\]0-9]{0,30}") {
            if let Ok(url) = ManifestUrl::parse(&text) {
                let shown = url.to_string();
                proptest::prop_assert!(!shown.contains(['?', '#', '@']) || shown.ends_with(&url.path));
                proptest::prop_assert_eq!(ManifestUrl::parse(&url.full()), Ok(url));
            }
        }
    }
}
