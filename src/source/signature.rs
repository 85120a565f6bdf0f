//! Detached signatures of manifests, in minisign's format: they decide whose manifests run on this node.
//!
//! A signature is bound to content, to the nodes that its trusted comment names with `node:` or `group:`, if it names
//! any, and to the version or time that it names: `edition` handles contents that are older than what was seen. It is
//! not bound to a path: a file name in the comment is not compared, because the signed content itself names the pod,
//! and builds sign under other names than nodes use.
//!
//! Never here: parsing content that is not verified.

mod slip;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::from_utf8;

use minisign_verify::{Error, PublicKey, Signature};

use crate::base::limits;
use crate::base::order;
use crate::base::regular;
use crate::manifest::base64;
use crate::manifest::edition::Edition;

/// Extension of a signature's file name or URL, without the dot.
pub const SUFFIX: &str = "minisig";
/// Label of the node with the name of the group that it belongs to.
pub const GROUP: &str = "podkeeper.dev/group";
/// Prefix of a comment in key files.
const COMMENT: &str = "untrusted comment:";

/// The trusted keys; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verifier {
    keys: Vec<(PublicKey, String)>,
    /// The node's name and group; without them only content for all nodes is accepted.
    node: Bound,
    /// `--manifest-min-version`.
    least: Edition,
}

/// The node's properties that a signature may be bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Bound {
    /// Lower-case node name.
    node: Option<String>,
    /// Value of the label [`GROUP`].
    group: Option<String>,
}

/// The reason why content is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// There is no signature.
    Missing,
    /// The signature is malformed.
    Malformed(&'static str),
    /// Another key signed: its id, and the ids of the trusted keys.
    OtherKey(String, String),
    /// The key of this id signed another content.
    Mismatch(String),
    /// The trusted comment has a word without a meaning that looks like a known word; both words.
    Misspelt(String, &'static str),
    /// The content is signed for other nodes: those that the trusted comment names, and this node.
    OtherNode(String, String),
    /// The edition of the content, and the lowest that is accepted.
    Old(Edition, Edition),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Missing => write!(f, "is not signed: there is no .{SUFFIX} beside it"),
            Refusal::Malformed(why) => write!(f, "its signature (.{SUFFIX}) is malformed: {why}"),
            Refusal::OtherKey(id, ours) => {
                write!(f, "is signed with key {id}, which is not trusted here (trusted: {ours})")
            }
            Refusal::Mismatch(id) => {
                write!(f, "its signature with key {id} does not match: one of the two was changed")
            }
            Refusal::Misspelt(word, meant) => write!(
                f,
                "its trusted comment says {word:?}, which means nothing: {meant}: is meant? Nothing of it is taken; \
                 sign it with a comment that says what is meant"
            ),
            Refusal::OtherNode(named, own) => {
                write!(f, "is signed for other nodes: its trusted comment names {named}, and this is {own}")
            }
            Refusal::Old(edition, least) => {
                write!(f, "has {edition}, and --manifest-min-version asks for {least} or higher")
            }
        }
    }
}

/// A key file that cannot be used; the text names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyFileError {
    /// It cannot be read: it may be there later, as on a file system that is mounted late.
    Unread(String),
    /// It holds no keys.
    Invalid(String),
}

impl Verifier {
    /// Reads the text of a key file: minisign's, or several of them one after the other.
    ///
    /// # Errors
    /// The first line that is no key, or that there is no key at all.
    pub fn parse(text: &str) -> Result<Verifier, String> {
        let mut keys = Vec::new();
        for (number, line) in text.lines().enumerate().map(|(n, l)| (n.saturating_add(1), l.trim())) {
            if line.is_empty() || line.starts_with('#') || line.starts_with(COMMENT) {
                continue;
            }
            let key = PublicKey::from_base64(line)
                .map_err(|e| format!("line {number} is no minisign public key: {}", reason(&e)))?;
            keys.push((key, key_id(line)));
        }
        match keys.len() {
            0 => Err("holds no minisign public key".to_owned()),
            n if n > limits::VERIFY_KEYS => Err(format!("more than {} keys", limits::VERIFY_KEYS)),
            _ => Ok(Verifier { keys, node: Bound::default(), least: Edition::default() }),
        }
    }

    /// The verifier for a node with this lower-case name and group.
    #[must_use]
    pub fn of_node(self, name: &str, group: Option<&str>) -> Verifier {
        Verifier { node: Bound { node: Some(name.to_owned()), group: group.map(str::to_owned) }, ..self }
    }

    /// The verifier that accepts no edition below this one.
    #[must_use]
    pub fn at_least(self, least: Edition) -> Verifier {
        Verifier { least, ..self }
    }

    /// Reads key files: all their keys are trusted.
    ///
    /// # Errors
    /// The first file that cannot be used, with its name.
    pub fn load(paths: &[PathBuf]) -> Result<Verifier, KeyFileError> {
        let mut keys = Vec::new();
        for path in paths {
            let named = |why: &dyn fmt::Display| format!("{}: {why}", path.display());
            let text = regular::read_text(path, limits::VERIFY_KEYS_BYTES);
            let text = text.map_err(|e| KeyFileError::Unread(named(&format!("cannot be read: {e}"))))?;
            keys.extend(Verifier::parse(&text).map_err(|why| KeyFileError::Invalid(named(&why)))?.keys);
        }
        let (node, least) = (Bound::default(), Edition::default());
        Ok(Verifier { keys, node, least })
    }

    /// Checks that one of the keys signed exactly this content, for this node. Both of minisign's forms are accepted,
    /// and the trusted comment must be signed, too. Returns the edition of the content.
    ///
    /// # Errors
    /// The reason why the content is refused.
    pub fn verify(&self, content: &[u8], signature: Option<&[u8]>) -> Result<Edition, Refusal> {
        let signature = signature.ok_or(Refusal::Missing)?;
        if signature.len() > limits::SIGNATURE_BYTES {
            return Err(Refusal::Malformed("it is too large"));
        }
        let text = from_utf8(signature).map_err(|_| Refusal::Malformed("it is not UTF-8"))?;
        let id = key_id(text.lines().nth(1).unwrap_or_default());
        let signature = Signature::decode(text).map_err(|e| Refusal::Malformed(reason(&e)))?;
        let mut ours = false;
        for (key, _) in &self.keys {
            match key.verify(content, &signature, true) {
                Ok(()) => return self.admits(signature.trusted_comment()),
                Err(Error::UnexpectedKeyId) => {}
                Err(_) => ours = true,
            }
        }
        if ours {
            return Err(Refusal::Mismatch(id));
        }
        // A file of settings and the command line may name the same key.
        let trusted = order::set(self.keys.iter().map(|(_, id)| id.as_str()));
        let trusted: Vec<&str> = trusted.into_iter().collect();
        Err(Refusal::OtherKey(id, trusted.join(", ")))
    }

    /// Checks a signed comment against this node and the lowest edition.
    fn admits(&self, comment: &str) -> Result<Edition, Refusal> {
        if let Some((word, meant)) = slip::find(comment) {
            return Err(Refusal::Misspelt(word.to_owned(), meant));
        }
        self.node.admits(comment)?;
        let edition = Edition::of_comment(comment).map_err(Refusal::Malformed)?;
        if edition < self.least { Err(Refusal::Old(edition, self.least)) } else { Ok(edition) }
    }
}

impl Bound {
    /// Checks that a signed comment that names nodes or groups names this one. Words are `node:a,b` and `group:x,y`,
    /// separated by spaces or tabs; others have no meaning, but those that look like these are refused ([`slip`]).
    fn admits(&self, comment: &str) -> Result<(), Refusal> {
        let mut named = Vec::new();
        for word in comment.split_whitespace() {
            let Some((kind @ ("node" | "group"), names)) = word.split_once(':') else { continue };
            for name in names.split(',') {
                if self.is_named(kind, name) {
                    return Ok(());
                }
                named.push(format!("{kind} {name:?}"));
            }
        }
        if named.is_empty() { Ok(()) } else { Err(Refusal::OtherNode(named.join(", "), self.to_string())) }
    }

    /// Compares names of nodes without case, and values of labels with case.
    fn is_named(&self, kind: &str, name: &str) -> bool {
        match kind {
            "node" => self.node.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name)),
            _ => self.group.as_deref() == Some(name),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node {node:?}")?,
            None => write!(f, "a node without a name")?,
        }
        match &self.group {
            Some(group) => write!(f, " of group {group:?}"),
            None => write!(f, " of no group"),
        }
    }
}

fn reason(error: &Error) -> &'static str {
    match error {
        Error::UnsupportedAlgorithm | Error::UnexpectedAlgorithm => "its algorithm is unknown",
        _ => "it is cut short or not in minisign's format",
    }
}

/// The path of a manifest's signature.
#[must_use]
pub fn beside(manifest: &Path) -> PathBuf {
    let mut path = OsString::from(manifest);
    path.push(".");
    path.push(SUFFIX);
    path.into()
}

/// The id of a key, as minisign prints it, from the base64 of a key or a signature; `?` when there is none.
fn key_id(text: &str) -> String {
    let mut bits: u128 = 0;
    // Two bytes of algorithm and eight of the id, the lowest first.
    for c in text.bytes().take(14) {
        let Some(digit) = base64::digit(c) else { return "?".to_owned() };
        bits = bits << 6 | u128::from(digit);
    }
    if text.len() < 14 {
        return "?".to_owned();
    }
    // 84 bits: 16, 64, and 4 of what follows.
    let id = u64::try_from(bits >> 4 & u128::from(u64::MAX)).unwrap_or_default();
    format!("{:X}", id.swap_bytes())
}

#[cfg(test)]
mod tests;
