//! Words of events about images and pulls, from the kubelet's `images/`.

use std::time::Duration;

use super::{Words, normal, warning};
use crate::base::duration;
use crate::image::failure;
use crate::plan::backoff;

/// A pull begins.
#[must_use]
pub fn pulling(image: &str) -> Words {
    normal("Pulling", format!("Pulling image {image:?}"))
}

/// A pull has brought the image. `took`: the pull itself; `waited`: since the request; `size` in bytes, when
/// known.
#[must_use]
pub fn pulled(image: &str, took: Duration, waited: Duration, size: Option<u64>) -> Words {
    let mut message = format!(
        "Successfully pulled image {image:?} in {} ({} including waiting).",
        duration::text(took),
        duration::text(waited.max(took))
    );
    if let Some(size) = size {
        message.push_str(&format!(" Image size: {size} bytes."));
    }
    normal("Pulled", message)
}

/// No pull was needed.
#[must_use]
pub fn present(image: &str) -> Words {
    normal(
        "Pulled",
        format!("Container image {image:?} already present on machine and can be accessed by the pod"),
    )
}

/// The registry could not be reached, and the older copy is used (the kubelet would not start the
/// container).
#[must_use]
pub fn local_copy(image: &str, why: &str) -> Words {
    let message = format!("Failed to pull image {image:?}: {why}; the copy on this machine is used");
    warning("Failed", message)
}

#[must_use]
pub fn pull_failed(image: &str, why: &str) -> Words {
    warning("Failed", format!("Failed to pull image {image:?}: {why}"))
}

/// The retry of a failed pull is delayed.
#[must_use]
pub fn pull_backs_off(image: &str) -> Words {
    normal("BackOff", backoff::pull_message(image, None))
}

/// The image's name is not a reference.
#[must_use]
pub fn bad_image_name(image: &str, why: &str) -> Words {
    warning("InspectFailed", failure::invalid_name(image, why))
}

/// The image is missing, and the pull policy is `Never`.
#[must_use]
pub fn never_pulled(message: &str) -> Words {
    warning("ErrImageNeverPull", message)
}

/// Secrets with credentials are missing or damaged; `problem` is the kubelet's sentence, or podkeeper's.
#[must_use]
pub fn pull_secrets(problem: &str) -> Words {
    warning("FailedToRetrieveImagePullSecret", problem)
}
