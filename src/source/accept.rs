//! Decides whether bytes from a source are accepted, and what they mean: the one door for files, answers, and stored
//! contents of either. Pure. Content that is refused here goes no further.

use std::sync::Arc;

use crate::base::{limits, sha256};
use crate::manifest::edition::{Claim, Edition, Known, name_of_url, names_of};
use crate::manifest::{self, Context, Decoded};
use crate::pod::Source;
use crate::pod::problem::Refused;
use crate::pod::problem::Severity;
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
            let mut decoded = self.judge((self.decode)(bytes, &context), bytes, &context);
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
    fn judge(&self, mut decoded: Decoded, bytes: &[u8], context: &Context<'_>) -> Decoded {
        let policy = self.policy.of(self.source);
        let mut fields = Vec::new();
        for pod in std::mem::take(&mut decoded.pods) {
            // A pod that an API server has bound to this node fails by the node's admission, after all that runs.
            let permitted = || if self.source == Source::Api { Ok(()) } else { policy.permits(&pod) };
            match policy.check(&pod.metadata, &pod.spec).and_then(|()| permitted()) {
                Ok(()) => decoded.pods.push(pod),
                Err(Refusal { reason, message, field }) => {
                    fields.push((pod.origin.document, field));
                    decoded.refused.push(Refused { pod, at: None, reason, message });
                }
            }
        }
        // What an API server says has no lines that anybody could look at.
        if !fields.is_empty() && self.source != Source::Api {
            let places = manifest::places(bytes, context, &fields);
            decoded.refused.iter_mut().zip(places).for_each(|(refused, at)| refused.at = at);
        }
        decoded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::SourcePolicy;

    /// Nobody could see where in a file a pod has what the policy refuses.
    #[test]
    fn a_pod_that_the_policy_refuses_is_refused_at_its_field() {
        let namespaces =
            SourcePolicy { allowed_namespaces: Some(vec!["default".into()]), ..Default::default() };
        let places = |source| {
            let rules = Acceptor::new(source, "node1".into());
            let rules = Acceptor { policy: Arc::new(Policies::all(namespaces.clone())), ..rules };
            let pod = |namespace: &str| {
                format!(
                    "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  namespace: {namespace}\nspec:\n  containers:\n  - \
                     name: app\n    image: busybox\n"
                )
            };
            let text = [pod("default"), pod("other")].join("---\n");
            let decoded = rules.accept("/m/a.yaml", text.as_bytes(), None, &Known::default());
            assert_eq!(decoded.pods.len(), 1, "{:?}", decoded.problems);
            decoded.refused.iter().map(|refused| refused.at).collect::<Vec<_>>()
        };
        assert_eq!(places(Source::File), [Some((15, 3))]);
        assert_eq!(places(Source::Api), [None]);
    }
}
