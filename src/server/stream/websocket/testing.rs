//! A WebSocket client for tests, written by hand, so that the library is not only tested against itself.

/// A frame of a client: masked.
pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x12, 0x34, 0x56, 0x78];
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | u8::try_from(short).unwrap()),
        middle @ 126..=65_535 => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
        }
        long => {
            frame.push(0x80 | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A complete binary message.
pub fn binary(payload: &[u8]) -> Vec<u8> {
    frame(0x82, payload)
}

/// The frames of a server: first byte (FIN and opcode) and payload. They must be complete and not masked.
pub fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match length {
            0..=125 => (usize::from(*length), rest),
            126 => (usize::from(u16::from_be_bytes(rest[..2].try_into().unwrap())), &rest[2..]),
            127 => (usize::try_from(u64::from_be_bytes(rest[..8].try_into().unwrap())).unwrap(), &rest[8..]),
            _ => panic!("a server's frame is not masked"),
        };
        let (payload, rest) = rest.split_at(length);
        frames.push((*first, payload.to_vec()));
        bytes = rest;
    }
    assert!(bytes.is_empty());
    frames
}
