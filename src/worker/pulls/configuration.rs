//! Judges an image that a pull brings by the size of its configuration. Until then it must not count as being there for
//! pods of sources behind others.

use super::Pulls;
use crate::image::configuration;
use crate::image::fetch::PullError;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, Refusal, RefusalKind, Reply};

/// Removes a pulled image again whose configuration is too large. Without an answer it stays: it is judged again before a
/// container is made of it for a pod of a source behind others.
///
/// # Errors
/// It is.
pub(super) fn check(docker: &Docker, image: &str) -> Result<(), PullError> {
    let answer = docker.call(&Call::ImageInspect { image: image.to_owned() }).and_then(Reply::image);
    let Some(why) = configuration::refusal(image, &answer) else { return Ok(()) };
    // Where something uses it, it stays, and the next pull is refused as this one is.
    _ = docker.call(&Call::ImageRemove { image: image.to_owned() });
    Err(PullError::Answered(why))
}

impl Pulls {
    /// The answer for an image that a pull is bringing: it is missing, so that the pod waits for the pull and what is said
    /// of it. Many pods that asked Docker for a large one at that moment took its memory.
    pub(in crate::worker) fn unjudged(&self, image: &str) -> Option<DockerError> {
        let message = format!("image {image} is being pulled");
        let missing = || DockerError::Refused(Refusal { kind: RefusalKind::NoSuchImage, status: 0, message });
        self.shared.queue().brings(image).then(missing)
    }
}
