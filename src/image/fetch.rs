//! One pull, with every credential that fits until one of them does: the same for the daemon and for the
//! command line.

use std::fmt;

use super::credentials::{Credential, DockerConfig, lookup};
use super::failure::{OVER_RATE, is_answer, join};
use super::node_keys::NodeKeys;
use super::progress::Message;
use crate::runtime::DockerError;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;

/// Why an image was not pulled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullError {
    /// More pulls than the node's rate lets; nobody was asked.
    OverRate,
    /// The registry was asked, with every credential, and said no.
    Answered(String),
    /// The registry, or Docker, could not be asked.
    Unasked(String),
}

impl fmt::Display for PullError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PullError::OverRate => f.write_str(OVER_RATE),
            PullError::Answered(why) | PullError::Unasked(why) => f.write_str(why),
        }
    }
}

impl From<DockerError> for PullError {
    fn from(error: DockerError) -> PullError {
        let asked = is_answer(&error);
        let why = error.to_string();
        if asked { PullError::Answered(why) } else { PullError::Unasked(why) }
    }
}

/// Pulls `image`: with the pod's own credentials that fit (`secrets`), then with the node's, each in turn;
/// without any when none fits. A registry that cannot be asked is not asked again with the next one.
/// `wait` is the progress deadline.
///
/// # Errors
/// All messages of the registry together, or why it could not be asked.
pub fn pull<'a>(
    docker: &Docker,
    image: &str,
    secrets: impl IntoIterator<Item = &'a DockerConfig> + Clone,
    keys: &NodeKeys,
    wait: &Wait<'_>,
    told: &mut dyn FnMut(&Message<'_>),
) -> Result<(), PullError> {
    let node = keys.current(&mut |why| log::warn!("{why}"));
    let mut fitting = lookup(image, secrets);
    for credential in lookup(image, node.as_deref()) {
        if !fitting.contains(&credential) {
            fitting.push(credential);
        }
    }
    let headers: Vec<Option<String>> = match fitting.as_slice() {
        [] => vec![None],
        some => some.iter().map(|credential| Some(Credential::header(credential))).collect(),
    };
    let mut answers = Vec::new();
    for header in headers {
        match docker.pull(image, header.as_deref(), wait, told) {
            Ok(()) => return Ok(()),
            Err(error) => match PullError::from(error) {
                PullError::Answered(why) => answers.push(why),
                other => return Err(other),
            },
        }
    }
    Err(PullError::Answered(join(answers)))
}
