//! A hand-made client of the kubelet's streams: TLS, and over it SPDY or WebSocket in kubectl's way.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use podkeeper::testing::base::tls::of_any_server;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::ClientConnection;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::harness::PATIENCE;

/// A client's certificates, its own first, and their key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// A connection that never waits for one direction alone.
pub struct Link {
    socket: TcpStream,
    tls: ClientConnection,
    /// Bytes that the server sent and nothing has consumed.
    pub received: Vec<u8>,
    sending: Vec<u8>,
    /// The server sends nothing more.
    pub is_over: bool,
}

impl Link {
    /// Connects to a server of this machine.
    pub fn open(port: u16) -> Link {
        Link::open_as(port, None)
    }

    /// The same, with a certificate.
    pub fn open_as(port: u16, identity: Option<&Identity>) -> Link {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let config = of_any_server(Arc::new(default_provider())).unwrap();
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((chain, key)) => config.with_client_auth_cert(chain.clone(), key.clone_key()).unwrap(),
        };
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        Link { socket, tls, received: Vec::new(), sending: Vec::new(), is_over: false }
    }

    /// Makes the kernel keep no more than so many bytes that were not read.
    pub fn take_at_most(&self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.socket, bytes).unwrap();
    }

    /// The underlying connection of the system.
    pub fn into_socket(self) -> TcpStream {
        self.socket
    }

    /// Whether there are bytes that the server has not accepted.
    pub fn waits_to_send(&self) -> bool {
        !self.is_over && (self.tls.wants_write() || !self.sending.is_empty() || self.tls.is_handshaking())
    }

    /// Queues these bytes for sending.
    pub fn send(&mut self, bytes: &[u8]) {
        self.sending.extend_from_slice(bytes);
    }

    /// Moves as many bytes as possible, or waits for a moment. Without `reads` nothing is read from the
    /// server.
    pub fn turn(&mut self, reads: bool) {
        let mut moved = false;
        if !self.tls.wants_write() && !self.sending.is_empty() && !self.tls.is_handshaking() {
            let taken = self.tls.writer().write(&self.sending[..self.sending.len().min(64 * 1024)]).unwrap();
            self.sending.drain(..taken);
            moved = true;
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(_) => moved = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.is_over = true;
                    return;
                }
            }
        }
        if reads || self.tls.is_handshaking() {
            moved |= self.read();
        }
        if !moved && !self.is_over {
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, self.tls.wants_write());
            flags.set(PollFlags::IN, reads || self.tls.is_handshaking());
            let mut set = [PollFd::from_borrowed_fd(self.socket.as_fd(), flags)];
            poll(&mut set, Some(&Timespec { tv_sec: 0, tv_nsec: 20_000_000 })).unwrap();
        }
    }

    fn read(&mut self) -> bool {
        match self.tls.read_tls(&mut self.socket) {
            Ok(0) => self.is_over = true,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => self.is_over = true,
        }
        self.tls.process_new_packets().unwrap();
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.tls.reader().read(&mut buffer) {
                Ok(0) => {
                    self.is_over = true;
                    return true;
                }
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(_) => return true,
            }
        }
    }

    /// Runs until the condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Link) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
            assert!(!self.is_over, "the server ended the connection before: {what}");
            self.turn(true);
        }
    }

    /// Sends a request without a body; returns the head of its answer, and leaves the rest.
    pub fn ask(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> String {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(format!("{head}\r\n").as_bytes());
        let end = |link: &Link| link.received.windows(4).position(|at| at == b"\r\n\r\n");
        self.until("the head of the answer is there", |link| end(link).is_some());
        let length = end(self).unwrap() + 4;
        String::from_utf8(self.received.drain(..length).collect()).unwrap()
    }
}

/// Data that the server sent on one stream or channel.
#[derive(Debug, Default)]
pub struct Heard {
    pub bytes: Vec<u8>,
    pub is_ended: bool,
}

impl Heard {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// A client of SPDY/3.1, whose header blocks are never compressed.
pub struct Spdy {
    pub link: Link,
    next: u32,
    pub heard: BTreeMap<u32, Heard>,
    pub resets: Vec<u32>,
}

impl Spdy {
    /// Requests an upgrade; the answer must be 101.
    pub fn open(port: u16, target: &str, protocol: &str) -> Spdy {
        let mut link = Link::open(port);
        let headers =
            [("Connection", "Upgrade"), ("Upgrade", "SPDY/3.1"), ("X-Stream-Protocol-Version", protocol)];
        let head = link.ask("POST", target, &headers);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}{}", String::from_utf8_lossy(&link.received));
        assert!(head.contains(&format!("\r\nX-Stream-Protocol-Version: {protocol}\r\n")), "{head}");
        Spdy { link, next: 1, heard: BTreeMap::new(), resets: Vec::new() }
    }

    /// Opens a stream.
    pub fn stream(&mut self, headers: &[(&str, &str)]) -> u32 {
        let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            block.extend(text.as_bytes());
        }
        let stream = self.next;
        self.next += 2;
        let mut body = [stream.to_be_bytes(), [0; 4]].concat();
        body.extend([0, 0]);
        if stream == 1 {
            body.extend([0x78, 0x01]);
        }
        let length = u16::try_from(block.len()).unwrap();
        body.push(0);
        body.extend(length.to_le_bytes());
        body.extend((!length).to_le_bytes());
        body.extend(block);
        let mut frame = vec![0x80, 3, 0, 1];
        frame.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        self.link.send(&[frame, body].concat());
        stream
    }

    /// Sends data on a stream.
    pub fn send(&mut self, stream: u32, bytes: &[u8], fin: bool) {
        let mut head = stream.to_be_bytes().to_vec();
        head.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
        head[4] = u8::from(fin);
        self.link.send(&[&head, bytes].concat());
    }

    /// Reads the complete frames.
    pub fn hear(&mut self) {
        let bytes = std::mem::take(&mut self.link.received);
        let mut rest = bytes.as_slice();
        while let Some(head) = rest.first_chunk::<8>() {
            let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
            let Some(body) = rest.get(8..8 + length) else { break };
            let number = |at: usize| u32::from_be_bytes(body[at..at + 4].try_into().unwrap());
            if head[0] & 0x80 == 0 {
                let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
                let heard = self.heard.entry(stream).or_default();
                heard.bytes.extend_from_slice(body);
                heard.is_ended |= head[4] & 1 != 0;
            } else if head[3] == 3 {
                self.resets.push(number(0));
            }
            rest = &rest[8 + length..];
        }
        self.link.received = rest.to_vec();
    }

    /// Runs until the condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&Spdy) -> bool) {
        let begun = Instant::now();
        loop {
            self.hear();
            if holds(self) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not in time: {what}: {:?}", self.short());
            assert!(!self.link.is_over, "the server ended the connection before: {what}: {:?}", self.short());
            self.link.turn(true);
        }
    }

    fn short(&self) -> Vec<(u32, usize, bool)> {
        self.heard.iter().map(|(stream, heard)| (*stream, heard.bytes.len(), heard.is_ended)).collect()
    }

    /// Data of a stream, to its end.
    pub fn whole(&mut self, stream: u32) -> Heard {
        let is_whole = |spdy: &Spdy| spdy.heard.get(&stream).is_some_and(|heard| heard.is_ended);
        self.until(&format!("stream {stream} ends"), is_whole);
        self.heard.remove(&stream).unwrap()
    }
}

/// A client of WebSocket.
pub struct WebSocket {
    pub link: Link,
    pub heard: BTreeMap<u8, Heard>,
    pub is_closed: bool,
}

impl WebSocket {
    /// Requests an upgrade; the answer must be 101.
    pub fn open(port: u16, target: &str, protocol: &str) -> WebSocket {
        let mut link = Link::open(port);
        let headers = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("Sec-WebSocket-Protocol", protocol),
        ];
        let head = link.ask("GET", target, &headers);
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}{}", String::from_utf8_lossy(&link.received));
        assert!(head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nSec-WebSocket-Protocol: {protocol}\r\n")), "{head}");
        WebSocket { link, heard: BTreeMap::new(), is_closed: false }
    }

    /// Sends a message on a channel.
    pub fn send(&mut self, channel: u8, bytes: &[u8]) {
        let mask = [7, 11, 13, 17];
        let length = bytes.len() + 1;
        let mut frame = vec![0x82];
        match length {
            0..=125 => frame.push(0x80 | u8::try_from(length).unwrap()),
            126..=65_535 => {
                frame.push(0x80 | 126);
                frame.extend(u16::try_from(length).unwrap().to_be_bytes());
            }
            _ => {
                frame.push(0x80 | 127);
                frame.extend((length as u64).to_be_bytes());
            }
        }
        frame.extend(mask);
        let payload = std::iter::once(&channel).chain(bytes);
        frame.extend(payload.zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        self.link.send(&frame);
    }

    /// Sends a ping, as kubectl does each five seconds.
    pub fn ping(&mut self) {
        self.link.send(&[0x89, 0x80, 7, 11, 13, 17]);
    }

    /// Answers the server's close frame.
    pub fn answer_close(&mut self) {
        self.link.send(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
    }

    /// Reads the complete frames.
    pub fn hear(&mut self) {
        let bytes = std::mem::take(&mut self.link.received);
        let mut rest = bytes.as_slice();
        while let [first, length, after @ ..] = rest {
            let (length, after) = match (length, after) {
                (0..=125, after) => (usize::from(*length), after),
                (126, [a, b, after @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), after),
                _ => break,
            };
            let Some((payload, after)) = after.split_at_checked(length) else { break };
            match (first, payload.split_first()) {
                (0x88, _) => self.is_closed = true,
                (_, Some((channel, bytes))) => {
                    self.heard.entry(*channel).or_default().bytes.extend_from_slice(bytes);
                }
                _ => {}
            }
            rest = after;
        }
        self.link.received = rest.to_vec();
    }

    /// Runs until the condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&WebSocket) -> bool) {
        let begun = Instant::now();
        loop {
            self.hear();
            if holds(self) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
            assert!(!self.link.is_over, "the server ended the connection before: {what}");
            self.link.turn(true);
        }
    }
}

/// Lets the server work for this long, and reads nothing from it.
pub fn neglect(link: &mut Link, time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        link.turn(false);
    }
}
