//! The interface between the core and the endpoints: requests and replies.
//!
//! Never here: a path, or a right.

use std::io;
use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;

use super::census::Client;
use super::connection::{Body, Sink, Upgraded};
use super::http::answer::Answer;
use super::http::request::Request;

/// Answers the requests of a port.
pub trait Service: Send + Sync {
    /// Answers one request, on a thread of the pool. It may wait for a bounded time.
    fn answer(&self, asked: &mut Asked<'_>) -> Reply;
}

/// One request, with facts about the client.
#[derive(Debug)]
pub struct Asked<'a> {
    pub request: &'a Request,
    /// Address of the client.
    pub peer: SocketAddr,
    /// The client that the request is counted for.
    pub client: Client,
    /// Certificates from the TLS handshake, the client's own first. The handshake has proven that the client has the
    /// key; the signer is not verified yet.
    pub certificates: &'a [CertificateDer<'static>],
    pub body: Body<'a>,
}

/// Writes the body of an answer, piece by piece.
pub type Pour = Box<dyn FnOnce(&mut Sink<'_>) -> io::Result<()> + Send>;
/// Speaks another protocol on the connection.
pub type Speak = Box<dyn FnOnce(Upgraded) + Send>;

/// The reply to a request.
pub enum Reply {
    /// A complete answer.
    Whole(Answer),
    /// An answer whose body is made while it is sent. It may take long: few can be under way at a time.
    Stream(Answer, Pour),
    /// Status 101, and another protocol after it. It may take long, too.
    Upgrade(Answer, Speak),
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Reply {
        Reply::Whole(answer)
    }
}
