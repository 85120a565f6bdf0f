//! The format of one stored content: a header in clear, and everything else sealed. Pure.
//!
//! Manifests may hold secrets, so no part of them is on the disk in clear, not even their paths. The seal
//! (ChaCha20-Poly1305, a random nonce for each file) is the checksum too: its tag covers the content, the source and
//! the file's name, so that a file that was cut, changed, renamed or copied from another source is not used.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use super::{proof, seen};
use crate::base::concealed::Concealed;
use crate::base::{hex, sha256};
use crate::manifest::edition::Record;
use crate::pod::Source;
use crate::source::in_force::Version;

/// The first bytes of each file.
const MAGIC: &[u8; 8] = b"pk-good\n";
/// Format of the rest.
const FORMAT: u8 = 1;
/// Bytes before the sealed part: magic, format, nonce.
const HEADER: usize = MAGIC.len() + 1 + NONCE_LEN;
/// Extension of the files.
const SUFFIX: &str = ".good";
pub const KEY_BYTES: usize = 32;

/// Accepted content, with its attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Remembered {
    /// File path or URL.
    pub path: String,
    /// Its number among the contents of this path.
    pub version: Version,
    /// The bytes as they were read.
    pub bytes: Concealed<Vec<u8>>,
    /// The detached signature that came with them.
    pub signature: Option<Vec<u8>>,
    /// `ETag` of an HTTP answer.
    pub etag: Option<String>,
    /// `Last-Modified` of an HTTP answer, as sent.
    pub last_modified: Option<String>,
    /// The directory of the file was a mount point.
    pub mounted: bool,
}

/// The reason why a file is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// podkeeper never wrote such a file, or it was cut short.
    Foreign,
    /// Another version of podkeeper wrote it.
    Format(u8),
    /// The seal does not fit: another key was used, or the file was changed.
    Seal,
    /// The seal fits, but the content cannot be parsed.
    Content,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Foreign => f.write_str("it is cut short or no file of podkeeper's"),
            Unusable::Format(format) => write!(f, "it has format {format}, and only {FORMAT} is known"),
            Unusable::Seal => f.write_str("it was changed, or sealed with another key"),
            Unusable::Content => f.write_str("its content makes no sense"),
        }
    }
}

/// Seals files and names them.
pub struct Key {
    seal: LessSafeKey,
    /// Key for the names of files: a path is confidential, too.
    names: [u8; 32],
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Makes the key from 32 random bytes.
    #[must_use]
    pub fn new(bytes: &[u8; KEY_BYTES]) -> Option<Key> {
        let part = |of: &[u8]| sha256::mac(of, bytes);
        let seal = UnboundKey::new(&CHACHA20_POLY1305, &part(b"content")).ok()?;
        Some(Key { seal: LessSafeKey::new(seal), names: part(b"names") })
    }

    /// The common prefix of the names of all files of one path.
    #[must_use]
    pub fn stem(&self, path: &str) -> String {
        let mac = sha256::mac(path.as_bytes(), &self.names);
        format!("{:.32}", hex::hex(&mac))
    }

    /// The name of a file.
    #[must_use]
    pub fn name(&self, path: &str, version: Version) -> String {
        format!("{}-{version:016x}{SUFFIX}", self.stem(path))
    }

    /// The whole file for a content, and its name.
    #[must_use]
    pub fn seal(
        &self,
        source: Source,
        content: &Remembered,
        nonce: [u8; NONCE_LEN],
    ) -> Option<(String, Vec<u8>)> {
        let name = self.name(&content.path, content.version);
        let file = self.wrap(source, &name, encode(content)?, nonce)?;
        Some((name, file))
    }

    /// The whole file for the record of seen versions.
    #[must_use]
    pub fn seal_seen(&self, source: Source, record: &Record, nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        self.wrap(source, seen::NAME, record.encode(), nonce)
    }

    /// Opens the record of seen versions.
    ///
    /// # Errors
    /// The file is not exactly what was sealed for this source.
    pub fn open_seen(&self, source: Source, file: &[u8]) -> Result<Record, Unusable> {
        let plain = self.unwrapped(source, seen::NAME, file)?;
        Record::parse(&plain).map(Record::settled).ok_or(Unusable::Content)
    }

    /// The whole file that proves which key seals the others.
    #[must_use]
    pub fn seal_proof(&self, source: Source, nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        self.wrap(source, proof::NAME, Vec::new(), nonce)
    }

    /// Checks whether the seal of a file of this name fits, without parsing its content.
    ///
    /// # Errors
    /// The file was not sealed with this key for this source and name, or was changed.
    pub fn fits(&self, source: Source, name: &str, file: &[u8]) -> Result<(), Unusable> {
        self.unwrapped(source, name, file).map(|_| ())
    }

    fn wrap(
        &self,
        source: Source,
        name: &str,
        mut sealed: Vec<u8>,
        nonce: [u8; NONCE_LEN],
    ) -> Option<Vec<u8>> {
        let aad = Aad::from(bound_to(source, name));
        self.seal.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut sealed).ok()?;
        let mut file = Vec::with_capacity(HEADER.saturating_add(sealed.len()));
        file.extend_from_slice(MAGIC);
        file.push(FORMAT);
        file.extend_from_slice(&nonce);
        file.append(&mut sealed);
        Some(file)
    }

    /// Opens a file of this name.
    ///
    /// # Errors
    /// The file is not exactly what was sealed for this source and name.
    pub fn open(&self, source: Source, name: &str, file: &[u8]) -> Result<Remembered, Unusable> {
        let plain = self.unwrapped(source, name, file)?;
        let content = parse(&plain).ok_or(Unusable::Content)?;
        if self.name(&content.path, content.version) == name { Ok(content) } else { Err(Unusable::Content) }
    }

    fn unwrapped(&self, source: Source, name: &str, file: &[u8]) -> Result<Vec<u8>, Unusable> {
        let rest = file.strip_prefix(MAGIC).ok_or(Unusable::Foreign)?;
        let (format, rest) = rest.split_first().ok_or(Unusable::Foreign)?;
        if *format != FORMAT {
            return Err(Unusable::Format(*format));
        }
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>().ok_or(Unusable::Foreign)?;
        let mut sealed = sealed.to_vec();
        let aad = Aad::from(bound_to(source, name));
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let length = self.seal.open_in_place(nonce, aad, &mut sealed).map_err(|_| Unusable::Seal)?.len();
        sealed.truncate(length);
        Ok(sealed)
    }
}

/// Data that the tag covers and the file does not contain.
fn bound_to(source: Source, name: &str) -> Vec<u8> {
    let mut bound = MAGIC.to_vec();
    bound.push(FORMAT);
    bound.extend_from_slice(format!("{source}/{name}").as_bytes());
    bound
}

/// Whether [`Key::name`] makes such a name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let hex = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    name.strip_suffix(SUFFIX)
        .and_then(|stem| stem.split_once('-'))
        .is_some_and(|(path, version)| hex(path, 32) && hex(version, 16))
}

/// The fields in order, each after its length; `None` for a content that no file may hold.
fn encode(content: &Remembered) -> Option<Vec<u8>> {
    let mut out = content.version.to_le_bytes().to_vec();
    let flags = u8::from(content.signature.is_some())
        | u8::from(content.etag.is_some()) << 1
        | u8::from(content.last_modified.is_some()) << 2
        | u8::from(content.mounted) << 3;
    out.push(flags);
    let fields = [
        Some(content.path.as_bytes()),
        content.signature.as_deref(),
        content.etag.as_deref().map(str::as_bytes),
        content.last_modified.as_deref().map(str::as_bytes),
        Some(&content.bytes),
    ];
    for field in fields.into_iter().flatten() {
        out.extend_from_slice(&u32::try_from(field.len()).ok()?.to_le_bytes());
        out.extend_from_slice(field);
    }
    Some(out)
}

/// Parses the fields of an opened file; `None` for bytes that are never written.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Remembered> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (flags, mut rest) = rest.split_first()?;
    if *flags >= 1 << 4 {
        return None;
    }
    let has = |bit: u8| flags >> bit & 1 == 1;
    let rest = &mut rest;
    let content = Remembered {
        version: u64::from_le_bytes(*version),
        path: text(rest)?,
        signature: if has(0) { Some(field(rest)?.to_vec()) } else { None },
        etag: if has(1) { Some(text(rest)?) } else { None },
        last_modified: if has(2) { Some(text(rest)?) } else { None },
        bytes: Concealed(field(rest)?.to_vec()),
        mounted: has(3),
    };
    rest.is_empty().then_some(content)
}

/// Takes the next field.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (field, after) = after.split_at_checked(u32::from_le_bytes(*length).try_into().ok()?)?;
    *rest = after;
    Some(field)
}

fn text(rest: &mut &[u8]) -> Option<String> {
    field(rest).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key() -> Key {
        Key::new(&[7; KEY_BYTES]).unwrap()
    }

    fn content() -> Remembered {
        Remembered {
            path: "/etc/podkeeper/manifests/web.yaml".into(),
            version: 3,
            bytes: "password: hunter2".into(),
            signature: Some(b"sig".to_vec()),
            etag: Some("\"e\"".into()),
            last_modified: None,
            mounted: true,
        }
    }

    fn contents() -> impl Strategy<Value = Remembered> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..200);
        let more = (any::<Option<Vec<u8>>>(), any::<Option<String>>(), any::<Option<String>>());
        ("\\PC{0,30}", any::<u64>(), bytes, more, any::<bool>()).prop_map(
            |(path, version, bytes, (signature, etag, last_modified), mounted)| Remembered {
                path,
                version,
                bytes: Concealed(bytes),
                signature,
                etag,
                last_modified,
                mounted,
            },
        )
    }

    #[test]
    fn nothing_stands_in_clear() {
        let (name, file) = key().seal(Source::File, &content(), [1; NONCE_LEN]).unwrap();
        assert!(is_name(&name), "{name}");
        let both = [name.as_bytes(), &file].concat();
        for word in ["web", "hunter2", "sig", "manifests"] {
            assert!(!both.windows(word.len()).any(|w| w == word.as_bytes()), "{word}");
        }
        assert_eq!(key().open(Source::File, &name, &file), Ok(content()));
    }

    #[test]
    fn a_file_is_good_only_where_it_was_written() {
        let (name, file) = key().seal(Source::File, &content(), [1; NONCE_LEN]).unwrap();
        let check = |source, name: &str, file: &[u8], expected| {
            assert_eq!(key().open(source, name, file), Err(expected), "{source} {name}");
        };
        check(Source::Http, &name, &file, Unusable::Seal);
        check(Source::File, &key().name("/m/other.yaml", 3), &file, Unusable::Seal);
        check(Source::File, &key().name(&content().path, 4), &file, Unusable::Seal);
        check(Source::File, &name, b"", Unusable::Foreign);
        check(Source::File, &name, &file[..12], Unusable::Foreign);
        check(Source::File, &name, &file[..file.len() - 1], Unusable::Seal);
        let mut newer = file.clone();
        newer[MAGIC.len()] = 2;
        check(Source::File, &name, &newer, Unusable::Format(2));
        let other = Key::new(&[8; KEY_BYTES]).unwrap();
        assert_eq!(other.open(Source::File, &name, &file), Err(Unusable::Seal));
        assert_ne!(other.name(&content().path, 3), name);
    }

    #[test]
    fn names() {
        for bad in ["key", "x.good", "a-1.good", &format!("{}.damaged", key().name("a", 1)), "..good"] {
            assert!(!is_name(bad), "{bad}");
        }
        assert!(key().name("a", u64::MAX) > key().name("a", 10));
        assert!(key().name("a", 10) > key().name("a", 9));
    }

    proptest! {
        #[test]
        fn what_is_sealed_comes_back(content in contents(), nonce in any::<[u8; NONCE_LEN]>()) {
            let (name, file) = key().seal(Source::Http, &content, nonce).unwrap();
            prop_assert_eq!(key().open(Source::Http, &name, &file), Ok(content));
        }

        #[test]
        fn a_flipped_bit_or_a_cut_yields_nothing(content in contents(), at in any::<u32>(), bit in 0..8u8) {
            let (name, file) = key().seal(Source::File, &content, [9; NONCE_LEN]).unwrap();
            let at = at as usize % file.len();
            prop_assert!(key().open(Source::File, &name, &file[..at]).is_err());
            let mut flipped = file;
            flipped[at] ^= 1 << bit;
            prop_assert!(key().open(Source::File, &name, &flipped).is_err());
        }

        #[test]
        fn random_bytes_yield_nothing(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), ours: bool) {
            if ours {
                bytes.splice(0..0, [MAGIC.as_slice(), &[FORMAT]].concat());
            }
            prop_assert!(key().open(Source::File, &key().name("a", 1), &bytes).is_err());
            // Even opened bytes are not trusted.
            if let Some(content) = parse(&bytes) {
                prop_assert_eq!(encode(&content), Some(bytes));
            }
        }
    }
}
