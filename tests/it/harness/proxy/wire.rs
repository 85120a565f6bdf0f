//! HTTP as the proxy reads and writes it: heads, bodies, and streams with the effects of an event fault.

use std::io::{self, BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;

use super::EventFault;

/// The head of a message.
pub struct Head {
    pub first: String,
    pub headers: Vec<(String, String)>,
}

impl Head {
    /// `None`: the connection ended before the message.
    pub fn read(from: &mut impl BufRead) -> io::Result<Option<Head>> {
        let mut first = String::new();
        if from.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
                None => return Ok(Some(Head { first: first.trim_end().to_owned(), headers })),
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn set(&mut self, name: &str, value: String) {
        self.headers.retain(|(n, _)| !n.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value));
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = format!("{}\r\n", self.first);
        for (name, value) in &self.headers {
            out.push_str(&format!("{name}: {value}\r\n"));
        }
        out.push_str("\r\n");
        out.into_bytes()
    }

    /// Whether the message has no body.
    pub fn is_bare(&self) -> bool {
        matches!(self.status(), 204 | 304) || self.length().is_none() && !self.is_chunked()
    }

    pub fn is_chunked(&self) -> bool {
        self.get("Transfer-Encoding").is_some_and(|v| v.eq_ignore_ascii_case("chunked"))
    }

    pub fn length(&self) -> Option<usize> {
        self.get("Content-Length")?.parse().ok()
    }

    pub fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }
}

/// One chunk; empty at the end of the body.
pub fn read_chunk(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let size = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let mut data = vec![0; size + 2];
    from.read_exact(&mut data)?;
    data.truncate(size);
    Ok(data)
}

pub fn write_chunk(to: &mut impl Write, data: &[u8]) -> io::Result<()> {
    to.write_all(&[format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat())
}

pub fn read_body(head: &Head, from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    if head.is_chunked() {
        loop {
            let chunk = read_chunk(from)?;
            if chunk.is_empty() {
                return Ok(body);
            }
            body.extend(chunk);
        }
    }
    body.resize(head.length().unwrap_or(0), 0);
    from.read_exact(&mut body)?;
    Ok(body)
}

/// Copies in both directions until both have ended.
pub fn splice(
    mut from_client: BufReader<&UnixStream>,
    mut client: &UnixStream,
    mut from_engine: BufReader<&UnixStream>,
    mut engine: &UnixStream,
) -> io::Result<()> {
    thread::scope(|scope| {
        scope.spawn(move || {
            _ = io::copy(&mut from_client, &mut engine);
            _ = engine.shutdown(Shutdown::Write);
        });
        _ = io::copy(&mut from_engine, &mut client);
        _ = client.shutdown(Shutdown::Write);
    });
    Ok(())
}

/// Forwards a chunked body, each chunk as it comes. Faults act on lines: the engine sends one event per
/// chunk.
pub fn relay(from: &mut impl BufRead, to: &mut impl Write, fault: Option<EventFault>) -> io::Result<()> {
    let mut held: Option<Vec<u8>> = None;
    for count in 0.. {
        let chunk = read_chunk(from)?;
        if chunk.is_empty() {
            return write_chunk(to, &chunk);
        }
        match fault {
            None => write_chunk(to, &chunk)?,
            Some(EventFault::CutAfter(n)) if count >= n => {
                return write_chunk(to, &chunk[..chunk.len() / 2]).and(Err(io::ErrorKind::BrokenPipe.into()));
            }
            Some(EventFault::CutAfter(_)) => write_chunk(to, &chunk)?,
            Some(EventFault::LoseEveryThird) if count % 3 == 2 => {}
            Some(EventFault::LoseEveryThird) => write_chunk(to, &chunk)?,
            Some(EventFault::Swap) => match held.take() {
                None => held = Some(chunk),
                Some(first) => {
                    write_chunk(to, &chunk)?;
                    write_chunk(to, &first)?;
                }
            },
            Some(EventFault::Twice) => {
                write_chunk(to, &chunk)?;
                write_chunk(to, &chunk)?;
            }
            Some(EventFault::Silent) => {}
        }
    }
    Ok(())
}
