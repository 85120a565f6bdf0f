//! Asks the daemon for a link, for `podkeeper page`: over the API itself, with a certificate that is signed for that
//! one request. Only root can read the authority's key. The certificate is written nowhere.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::digest::{SHA256, digest};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use serde_json::Value;

use super::{GROUP, LINK};
use crate::api::pki;
use crate::api_client::tls::{Named, configure};
use crate::base::dial::Socket;
use crate::base::limits;
use crate::base::wait::later;

/// A link.
#[derive(Clone)]
pub struct Made {
    /// Path and query, behind the address.
    pub path: String,
    /// The time in which it can be opened.
    pub time: Duration,
    /// SHA-256 of the daemon's certificate, in the format of browsers.
    pub fingerprint: String,
}

/// Asks the daemon of this root directory, whose API listens at this address, for a link.
///
/// # Errors
/// A sentence for the user.
pub fn link(root_dir: &Path, listens: SocketAddr) -> Result<Made, String> {
    if !pki::certificate_file(root_dir).exists() {
        return Err(format!("no daemon has had an API with the root directory {}", root_dir.display()));
    }
    let authority = pki::Authority::open(root_dir)?;
    let pair = authority.client("podkeeper page", GROUP)?;
    let named = |place: &str, text: &str| Named { place: place.to_owned(), bytes: text.as_bytes().to_vec() };
    let (certificate, key) = (named("memory", &pair.certificate), named("memory", &pair.key));
    let authorities = named("pki/api", &authority.certificate);
    let config = configure(Some(&authorities), Some((&certificate, &key)))?;
    let to = SocketAddr::new(reached(listens.ip()), listens.port());
    let failed = |error: &dyn std::fmt::Display| format!("the daemon cannot be asked at {to}: {error}");
    let until = later(limits::PAGE_ASK);
    let tls =
        ClientConnection::new(Arc::new(config), ServerName::from(to.ip())).map_err(|error| failed(&error))?;
    let tcp = TcpStream::connect_timeout(&to, limits::PAGE_ASK).map_err(|error| failed(&error))?;
    let mut stream = StreamOwned::new(tls, Socket { stream: Arc::new(tcp), until });
    let answer = exchange(&mut stream, to).map_err(|error| failed(&error))?;
    let shown = stream.conn.peer_certificates().and_then(<[_]>::first);
    let digest = digest(&SHA256, shown.map(AsRef::as_ref).unwrap_or_default());
    let pairs: Vec<String> = digest.as_ref().iter().map(|byte| format!("{byte:02X}")).collect();
    let (path, seconds) = read(&answer).map_err(|error| failed(&error))?;
    Ok(Made { path, time: Duration::from_secs(seconds), fingerprint: pairs.join(":") })
}

/// An API that listens on all addresses is reached on the loopback.
fn reached(listens: IpAddr) -> IpAddr {
    match listens {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => [127, 0, 0, 1].into(),
        IpAddr::V6(_) => [0, 0, 0, 0, 0, 0, 0, 1].into(),
    }
}

/// Sends the request; returns the whole answer.
fn exchange(stream: &mut StreamOwned<ClientConnection, Socket>, to: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut piece = [0_u8; 4096];
    let request =
        format!("POST {LINK} HTTP/1.1\r\nHost: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    loop {
        if answer.len() > limits::PAGE_ANSWER {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        match stream.read(&mut piece)? {
            0 => return Ok(answer),
            read => answer.extend_from_slice(piece.get(..read).unwrap_or_default()),
        }
    }
}

/// The link in an answer, and the number of seconds in which it can be opened.
///
/// # Errors
/// The daemon's message instead of a link.
fn read(answer: &[u8]) -> Result<(String, u64), String> {
    let mut headers = [httparse::EMPTY_HEADER; limits::SERVER_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let status = head.parse(answer).map_err(|error| error.to_string())?;
    let (httparse::Status::Complete(length), Some(code)) = (status, head.code) else {
        return Err("its answer ends too early".to_owned());
    };
    let body = answer.get(length..).unwrap_or_default();
    let value: Value = serde_json::from_slice(body).map_err(|_| format!("it answers {code}"))?;
    if code != 201 {
        let why = value.get("message").and_then(Value::as_str).unwrap_or_default();
        return Err(format!("it answers {code} {why}"));
    }
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let link = text("path").zip(text("token")).map(|(path, token)| format!("{path}?token={token}"));
    let seconds = value.get("seconds").and_then(Value::as_u64);
    link.zip(seconds).ok_or_else(|| "its answer is of another kind".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_link_or_says_why_not() {
        let answer = |code: u16, body: &str| format!("HTTP/1.1 {code} X\r\nContent-Length: 1\r\n\r\n{body}");
        let made = answer(201, r#"{"path": "/page/open", "token": "t", "seconds": 300}"#);
        assert_eq!(read(made.as_bytes()), Ok(("/page/open?token=t".to_owned(), 300)));
        let check = |text: &str, expected: &str| assert_eq!(read(text.as_bytes()), Err(expected.to_owned()));
        check(&answer(403, r#"{"message": "no"}"#), "it answers 403 no");
        check(&answer(404, "404 page not found"), "it answers 404");
        check(&answer(201, "{}"), "its answer is of another kind");
        check("HTTP/1.1 201 X\r\n", "its answer ends too early");
    }
}
