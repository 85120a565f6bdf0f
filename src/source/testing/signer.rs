//! Signs manifests as minisign does, with a key of the tests alone and any trusted comment. The integration
//! tests compile this file, too.

use ring::signature::{Ed25519KeyPair, KeyPair as _};

/// A key pair.
pub struct Signer(Ed25519KeyPair);

impl Signer {
    pub fn new() -> Signer {
        Signer(Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap())
    }

    /// The text of its key file.
    pub fn key(&self) -> String {
        let key = [b"Ed12345678", self.0.public_key().as_ref()].concat();
        format!("untrusted comment: a key of the tests\n{}\n", base64(&key))
    }

    pub fn sign(&self, content: &[u8], comment: &str) -> Vec<u8> {
        let of_content = self.0.sign(content);
        let global = self.0.sign(&[of_content.as_ref(), comment.as_bytes()].concat());
        let signature = base64(&[b"Ed12345678", of_content.as_ref()].concat());
        let global = base64(global.as_ref());
        format!("untrusted comment: x\n{signature}\ntrusted comment: {comment}\n{global}\n").into()
    }
}

/// Base64 in the alphabet of key files.
pub fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |b, byte| b << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let digit = digits[(bits >> (18 - 6 * n) & 63) as usize] as char;
            text.push(if n > chunk.len() { '=' } else { digit });
        }
    }
    text
}
