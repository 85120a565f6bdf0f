//! The size of an image's configuration. Docker copies its labels into each container, each list and each event, so that
//! a large one makes every call slow, for the pods of all others too.
//!
//! An image that a pod's pull brought is judged after the pull, and for pods of sources behind others each image is judged
//! before each create, wherever it came from: what Docker does not answer must not count as small.

use crate::base::limits;
use crate::runtime::progress::bytes;
use crate::runtime::{DockerError, ImageDetail};

/// Why an image is not used, by the answer to its inspect; `None`: there is no reason, or it is not known yet.
#[must_use]
pub fn refusal(image: &str, answer: &Result<ImageDetail, DockerError>) -> Option<String> {
    let of = |length: usize| bytes(u64::try_from(length).unwrap_or(u64::MAX));
    let has = match answer {
        Ok(detail) if detail.configuration > limits::IMAGE_CONFIGURATION => of(detail.configuration),
        Err(DockerError::TooLarge(_)) => "more than can be read".to_owned(),
        Ok(_) | Err(_) => return None,
    };
    Some(format!(
        "the configuration of image {image} (labels, variables, commands) has {has}, and podkeeper takes {}: it is not \
         used",
        of(limits::IMAGE_CONFIGURATION)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with a label of 30 MB made each list of Docker take seconds. One with a label of 70 MB passed, because
    /// its inspect was too long to be read.
    #[test]
    fn an_image_of_very_large_labels_is_refused() {
        let of = |configuration| Ok(ImageDetail { configuration, ..ImageDetail::default() });
        assert_eq!(refusal("usual:1", &of(limits::IMAGE_CONFIGURATION)), None);
        let expected = |has: &str| {
            format!(
                "the configuration of image large:1 (labels, variables, commands) has {has}, and podkeeper takes \
                 256.0 KiB: it is not used"
            )
        };
        assert_eq!(refusal("large:1", &of(30 << 20)), Some(expected("30.0 MiB")));
        let too_large = Err(DockerError::TooLarge("GET /images/large:1/json".into()));
        assert_eq!(refusal("large:1", &too_large), Some(expected("more than can be read")));
        assert_eq!(refusal("late:1", &Err(DockerError::Timeout("GET /images/late:1/json".into()))), None);
    }
}
