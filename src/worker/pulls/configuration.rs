//! Judges an image that a pull has brought by the size of its configuration.

use crate::image::configuration;
use crate::image::fetch::PullError;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, Reply};

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
