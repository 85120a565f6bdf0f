//! Decides whether bytes from a source are accepted, and what they mean: the one door for files, answers, and stored
//! contents of either. Pure. Content that is refused here goes no further.

use std::sync::Arc;

use crate::base::{limits, sha256};
use crate::manifest::edition::{Claim, Edition, Known, name_of_url, names_of};
use crate::manifest::{self, Context, Decoded};
use crate::pod::problem::Refused;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Source};
use crate::policy::{Policies, Refusal};
use crate::source::entry::whole_file;
use crate::source::signature::Verifier;

/// Turns bytes into pods and objects; [`manifest::decode`] but in tests.
pub type Decode = fn(&[u8], &Context<'_>) -> Decoded;

/// The rules of one source.
#[derive(Debug, Clone)]
pub struct Acceptor {
    /// The source of the bytes.
    pub source: Source,
    /// Lower-case node name.
    pub node_name: String,
    /// Most bytes of one file or body.
    pub max_bytes: usize,
    /// Checks signatures; `None` when none are required.
    pub verifier: Option<Arc<Verifier>>,
    /// Rules for pods.
    pub policy: Arc<Policies>,
    /// The function that reads bytes.
    pub decode: Decode,
}

impl Acceptor {
    /// The rules for a source of this node, without a check of signatures.
    #[must_use]
    pub fn new(source: Source, node_name: String) -> Acceptor {
        Acceptor {
            source,
            node_name,
            max_bytes: limits::MANIFEST_BYTES,
            verifier: None,
            policy: Arc::default(),
            decode: manifest::decode,
        }
    }

    /// Whether content needs a valid signature.
    #[must_use]
    pub fn wants_signature(&self) -> bool {
        self.verifier.is_some()
    }

    /// Judges the content of `path` (a file's path or a URL). `signature` is the detached signature that came with it;
    /// it is ignored where no signature is required. Signed content must not be older than `seen` says.
    #[must_use]
    pub fn accept(&self, path: &str, bytes: &[u8], signature: Option<&[u8]>, seen: &Known) -> Decoded {
        let judged = self.open(bytes, signature).and_then(|edition| {
            let context = Context { node_name: &self.node_name, source: self.source, path };
            let mut decoded = self.judge((self.decode)(bytes, &context));
            if let Some(edition) = edition.filter(|_| decoded.is_good()) {
                let claim = self.claim(path, bytes, edition, &decoded);
                seen.check(&claim, self.source.as_str())?;
                decoded.signed = Some(Box::new(claim));
            }
            Ok(decoded)
        });
        judged.unwrap_or_else(|why| Decoded {
            problems: vec![whole_file(Severity::Error, path, why)],
            ..Decoded::default()
        })
    }

    /// Whether the bytes are decoded, and their edition where signatures are required.
    fn open(&self, bytes: &[u8], signature: Option<&[u8]>) -> Result<Option<Edition>, String> {
        if bytes.len() > self.max_bytes {
            return Err(format!("is larger than the {} bytes a manifest may have: not read", self.max_bytes));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err("is empty".to_owned());
        }
        // The signature is checked before the bytes are parsed.
        let verified = self.verifier.as_ref().map(|v| v.verify(bytes, signature));
        verified.transpose().map_err(|refusal| refusal.to_string())
    }

    fn claim(&self, path: &str, bytes: &[u8], edition: Edition, decoded: &Decoded) -> Claim {
        let mut names = names_of(&decoded.pods, &decoded.refused, &decoded.objects);
        if self.source == Source::Http {
            // Objects that the content lacks are removed.
            names.insert(name_of_url(path));
        }
        Claim { edition, digest: sha256::hash(bytes), names }
    }

    /// Separates the pods that the policy refuses: they stop neither other pods nor running ones.
    fn judge(&self, mut decoded: Decoded) -> Decoded {
        let policy = self.policy.of(self.source);
        let check = |pod: &DesiredPod| policy.check(&pod.metadata, &pod.spec).err();
        for pod in std::mem::take(&mut decoded.pods) {
            match check(&pod) {
                None => decoded.pods.push(pod),
                Some(Refusal { reason, message, .. }) => {
                    decoded.refused.push(Refused { pod, reason, message })
                }
            }
        }
        decoded
    }
}
