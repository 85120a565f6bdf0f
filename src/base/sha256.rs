//! SHA-256, from the library that TLS brings along.

use ring::{digest, hmac};

/// Bytes of a digest.
pub const BYTES: usize = 32;

/// SHA-256 of these bytes.
#[must_use]
pub fn hash(bytes: &[u8]) -> [u8; BYTES] {
    hash_all(&[bytes])
}

/// SHA-256 of these parts as if they were one.
#[must_use]
pub fn hash_all(parts: &[&[u8]]) -> [u8; BYTES] {
    let mut all = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| all.update(part));
    array(all.finish().as_ref())
}

/// HMAC-SHA256 of a message.
#[must_use]
pub fn mac(message: &[u8], key: &[u8]) -> [u8; BYTES] {
    array(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), message).as_ref())
}

fn array(digest: &[u8]) -> [u8; BYTES] {
    let mut out = [0; BYTES];
    out.iter_mut().zip(digest).for_each(|(out, byte)| *out = *byte);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::hex::hex;

    /// FIPS 180-2, appendix B.1, and RFC 4231, section 4.3: names of files that were written before depend on them.
    #[test]
    fn published_vectors() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex(&hash(b"abc")), abc);
        assert_eq!(hex(&hash_all(&[b"a", b"", b"bc"])), abc);
        let mac = mac(b"what do ya want for nothing?", b"Jefe");
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
