//! The size of an image's configuration. Docker copies its labels into each container, each list and each event, so
//! that a large one makes every call slow, for the pods of all others too.

use crate::base::limits;
use crate::image::fetch::PullError;
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{Call, ImageDetail, Reply};

/// Removes a pulled image again whose configuration is too large.
///
/// # Errors
/// It is.
pub(super) fn check(docker: &Docker, image: &str) -> Result<(), PullError> {
    let Ok(Reply::Image(detail)) = docker.call(&Call::ImageInspect { image: image.to_owned() }) else {
        return Ok(());
    };
    let Some(why) = too_large(image, &detail) else { return Ok(()) };
    // Where something uses it, it stays, and the next pull is refused as this one is.
    _ = docker.call(&Call::ImageRemove { image: image.to_owned() });
    Err(PullError::Answered(why))
}

fn too_large(image: &str, detail: &ImageDetail) -> Option<String> {
    let of = |length: usize| bytes(u64::try_from(length).unwrap_or(u64::MAX));
    (detail.configuration > limits::IMAGE_CONFIGURATION).then(|| {
        format!(
            "the configuration of image {image} (labels, variables, commands) has {}, and podkeeper takes {}: it is not \
             used",
            of(detail.configuration),
            of(limits::IMAGE_CONFIGURATION)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with a label of 30 MB made each list of Docker take seconds.
    #[test]
    fn an_image_of_very_large_labels_is_refused() {
        let of = |configuration| ImageDetail { configuration, ..ImageDetail::default() };
        assert_eq!(too_large("usual:1", &of(limits::IMAGE_CONFIGURATION)), None);
        let why = too_large("large:1", &of(30 << 20)).unwrap();
        let expected = "the configuration of image large:1 (labels, variables, commands) has 30.0 MiB, and podkeeper \
                        takes 256.0 KiB: it is not used";
        assert_eq!(why, expected);
    }
}
