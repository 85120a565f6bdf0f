//! What stands between the core and the endpoints: what an endpoint is asked, and what it returns.
//!
//! Never here: a path, or a right.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;

use super::connection::{Body, Sink, Upgraded};
use super::http::answer::Answer;
use super::http::request::Request;

/// What answers the requests of a port.
pub trait Service: Send + Sync {
    /// Answers one request, on a thread of the pool. It may wait, but not without an end.
    fn answer(&self, asked: &mut Asked<'_>) -> Reply;
}

/// One request, and what is known of the client.
#[derive(Debug)]
pub struct Asked<'a> {
    pub request: &'a Request,
    /// Where the connection comes from.
    pub peer: SocketAddr,
    /// What the client showed in the TLS handshake, its own certificate first. The handshake has proven that it has the
    /// key; who signed the certificate has not been looked at.
    pub certificates: &'a [CertificateDer<'static>],
    pub body: Body<'a>,
}

/// Writes the body of an answer, piece by piece.
pub type Pour = Box<dyn FnOnce(&mut Sink<'_>) -> io::Result<()> + Send>;
/// Speaks another protocol on the connection.
pub type Speak = Box<dyn FnOnce(Upgraded) + Send>;

/// What becomes of a request.
pub enum Reply {
    /// This answer.
    Whole(Answer),
    /// An answer whose body comes as it is made. It may take long: few can be under way at a time.
    Stream(Answer, Pour),
    /// Status 101, and another protocol from then on. It may take long, as above.
    Upgrade(Answer, Speak),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Whole(answer)
    }
}
