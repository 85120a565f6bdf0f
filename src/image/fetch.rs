//! One pull, with each matching credential until one works; the same code for the daemon and for the
//! command line.

use std::fmt;

use super::credentials::{Credential, DockerConfig, lookup};
use super::failure::{OVER_RATE, is_answer, join};
use super::grants::With;
use super::node_keys::NodeKeys;
use crate::base::limits;
use crate::runtime::DockerError;
use crate::runtime::docker::Docker;
use crate::runtime::progress::Message;
use crate::runtime::pull::Patience;

/// Why an image was not pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullError {
    /// More pulls than the node's rate allows; the registry was not asked.
    OverRate,
    /// The secret that would bring it could not be recorded; the registry was not asked.
    NotNoted,
    /// The registry was asked, with every credential, and refused.
    Answered(String),
    /// The registry, or Docker, could not be asked.
    Unasked(String),
    /// The registry was asked, and did not answer.
    Silent(String),
}

/// The evidence that the registry gives an image for these credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// A successful pull.
    Pull,
    /// An additional request to the registry after the pull: a pull by digest of a local image succeeds without
    /// its registry (Docker's `distribution/manifest.go` looks into the local store first).
    Asked,
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PullError::OverRate => f.write_str(OVER_RATE),
            PullError::NotNoted => write!(
                f,
                "{} images of this node were pulled with secrets of pods, and no more can be noted: remove images",
                limits::GRANTS
            ),
            PullError::Answered(why) | PullError::Unasked(why) | PullError::Silent(why) => f.write_str(why),
        }
    }
}

impl From<DockerError> for PullError {
    fn from(error: DockerError) -> PullError {
        let why = error.to_string();
        match error {
            DockerError::Stalled(_) => PullError::Silent(why),
            error if is_answer(&error) => PullError::Answered(why),
            _ => PullError::Unasked(why),
        }
    }
}

/// Pulls `image`: with the pod's own matching credentials (`secrets`), then with the node's, one after the other;
/// without any if none matches. A registry that cannot be reached is not tried again with the next one.
///
/// Returns the kind of credential that the registry accepted.
///
/// # Errors
/// All messages of the registry together, or why it could not be reached.
pub fn pull<'a>(
    docker: &Docker,
    image: &str,
    secrets: impl IntoIterator<Item = &'a DockerConfig> + Clone,
    keys: &NodeKeys,
    consent: Consent,
    patience: &Patience<'_>,
    told: &mut dyn FnMut(&Message<'_>),
) -> Result<With, PullError> {
    let node = keys.current(&mut |why| log::warn!("{why}"));
    let of_node = lookup(image, node.as_deref());
    let mut fitting = lookup(image, secrets);
    for credential in &of_node {
        if !fitting.contains(credential) {
            fitting.push(credential);
        }
    }
    let tries: Vec<Option<&Credential>> = match fitting.as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut answers = Vec::new();
    for credential in tries {
        let header = credential.map(Credential::header);
        let mut result = docker.pull(image, header.as_deref(), patience, told);
        if result.is_ok() && consent == Consent::Asked {
            result = docker.ask_registry(image, header.as_deref(), &patience.progress);
        }
        match result {
            Ok(()) => {
                let own = credential.filter(|credential| !of_node.contains(credential));
                return Ok(own.map_or(With::NodeOrNone, |credential| With::Secret(credential.clone())));
            }
            Err(error) => match PullError::from(error) {
                PullError::Answered(why) => answers.push(why),
                other => return Err(other),
            },
        }
    }
    Err(PullError::Answered(join(answers)))
}
