//! A SPDY client for tests: it writes frames like spdystream, and reads those of the server.

use zlib_rs::{Deflate, DeflateFlush, Status};

use super::dictionary;

/// Writes the frames of one connection, whose compressor has a state.
pub struct Client {
    deflate: Deflate,
}

impl Client {
    pub fn new() -> Client {
        let mut deflate = Deflate::new(9, true, 15);
        deflate.set_dictionary(&dictionary::bytes()).unwrap();
        Client { deflate }
    }

    /// A compressed block.
    pub fn compress(&mut self, block: &[u8]) -> Vec<u8> {
        let mut out = vec![0; block.len() + 4096];
        let before = self.deflate.total_out();
        let status = self.deflate.compress(block, &mut out, DeflateFlush::SyncFlush).unwrap();
        assert_eq!(status, Status::Ok);
        out.truncate(usize::try_from(self.deflate.total_out() - before).unwrap());
        out
    }

    /// A header block.
    pub fn headers(&mut self, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut block = u32::try_from(headers.len()).unwrap().to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
            block.extend(text.as_bytes());
        }
        self.compress(&block)
    }

    /// A SYN_STREAM frame.
    pub fn open(&mut self, stream: u32, flags: u8, headers: &[(&str, &str)]) -> Vec<u8> {
        let mut body = [stream.to_be_bytes(), [0; 4]].concat();
        body.extend([0, 0]);
        body.extend(self.headers(headers));
        control(1, flags, &body)
    }
}

/// A control frame.
pub fn control(kind: u16, flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80, 3];
    frame.extend(kind.to_be_bytes());
    frame.push(flags);
    frame.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(body);
    frame
}

/// A control frame that consists of numbers.
pub fn numbers(kind: u16, flags: u8, fields: &[u32]) -> Vec<u8> {
    let body: Vec<u8> = fields.iter().flat_map(|field| field.to_be_bytes()).collect();
    control(kind, flags, &body)
}

/// A data frame.
pub fn data(stream: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = stream.to_be_bytes().to_vec();
    frame.push(flags);
    frame.extend(&u32::try_from(bytes.len()).unwrap().to_be_bytes()[1..]);
    frame.extend(bytes);
    frame
}

/// A frame of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Control { kind: u16, body: Vec<u8> },
    Data { stream: u32, flags: u8, bytes: Vec<u8> },
}

/// The frames in the server's bytes, which must be complete.
pub fn frames(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(8);
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        let (body, rest) = rest.split_at(length);
        bytes = rest;
        frames.push(if head[0] & 0x80 == 0 {
            let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
            Frame::Data { stream, flags: head[4], bytes: body.to_vec() }
        } else {
            assert_eq!(head[..2], [0x80, 3]);
            Frame::Control { kind: u16::from_be_bytes([head[2], head[3]]), body: body.to_vec() }
        });
    }
    frames
}
