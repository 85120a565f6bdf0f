//! Whether bytes from a source are accepted, and what they mean: the one door for files, answers and what
//! was remembered of either. Pure. What is not accepted here reaches nobody.

use std::sync::Arc;

use crate::base::limits;
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
    /// Whose bytes.
    pub source: Source,
    /// Lower-case node name.
    pub node_name: String,
    /// Most bytes of one file or body.
    pub max_bytes: usize,
    /// Whose signatures are asked for; `None` for nobody's.
    pub verifier: Option<Arc<Verifier>>,
    /// What pods may do here.
    pub policy: Arc<Policies>,
    /// How bytes are read.
    pub decode: Decode,
}

impl Acceptor {
    /// The rules for a source of this node.
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

    /// Content without a good signature is refused.
    #[must_use]
    pub fn wants_signature(&self) -> bool {
        self.verifier.is_some()
    }

    /// Judges the content of `path` (a file's path or a URL). `signature` is the detached signature that
    /// came with it, and is not looked at where none is asked for. `seen` is what signed content must not be
    /// older than.
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

    /// Whether the bytes are to be looked at, and how new they are where signatures are asked for.
    fn open(&self, bytes: &[u8], signature: Option<&[u8]>) -> Result<Option<Edition>, String> {
        if bytes.len() > self.max_bytes {
            return Err(format!("is larger than the {} bytes a manifest may have: not read", self.max_bytes));
        }
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err("is empty".to_owned());
        }
        // Before anything else looks at the bytes.
        let verified = self.verifier.as_ref().map(|v| v.verify(bytes, signature));
        verified.transpose().map_err(|refusal| refusal.to_string())
    }

    fn claim(&self, path: &str, bytes: &[u8], edition: Edition, decoded: &Decoded) -> Claim {
        let mut names = names_of(&decoded.pods, &decoded.refused, &decoded.objects);
        if self.source == Source::Http {
            // What is not in it is gone.
            names.insert(name_of_url(path));
        }
        Claim { edition, digest: hmac_sha256::Hash::hash(bytes), names }
    }

    /// Sets apart the pods that the policy refuses: they stop neither the others nor what runs.
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
