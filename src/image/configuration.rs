//! The size of an image's configuration. Docker copies its labels into each container, each list and each event, so that
//! a large one makes every call slow, for the pods of all others too. Many small labels are as bad as a few large ones:
//! Docker keeps the last 256 events, each with a map of its own; and each container of an image with volumes has its own.
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
    let (has, takes) = match answer {
        Ok(detail) if detail.configuration > limits::IMAGE_CONFIGURATION => {
            (of(detail.configuration), of(limits::IMAGE_CONFIGURATION))
        }
        Ok(detail) if detail.entries > limits::IMAGE_ENTRIES => {
            (format!("{} entries", detail.entries), limits::IMAGE_ENTRIES.to_string())
        }
        Ok(detail) if detail.volumes.len() > limits::IMAGE_VOLUMES => {
            (format!("{} volumes", detail.volumes.len()), limits::IMAGE_VOLUMES.to_string())
        }
        Err(DockerError::TooLarge(_)) => {
            ("more than can be read".to_owned(), of(limits::IMAGE_CONFIGURATION))
        }
        Ok(_) | Err(_) => return None,
    };
    Some(format!(
        "the configuration of image {image} (labels, variables, commands) has {has}, and podkeeper takes {takes}: it is \
         not used"
    ))
}

/// What Docker keeps of the image with each of its containers, bytes.
#[must_use]
pub fn recorded(detail: &ImageDetail) -> usize {
    detail.configuration.saturating_add(detail.volumes.len().saturating_mul(limits::VOLUME_RECORD))
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
        // An exec probe of one container of such an image made Docker take 3 GB in 68 seconds.
        let many = |entries, volumes| {
            let volumes = vec![String::new(); volumes];
            refusal("many:1", &Ok(ImageDetail { entries, volumes, ..ImageDetail::default() }))
        };
        assert_eq!(many(limits::IMAGE_ENTRIES, limits::IMAGE_VOLUMES), None);
        let why = many(27_500, 0).unwrap();
        assert!(why.contains("has 27500 entries, and podkeeper takes 512"), "{why}");
        // The volumes of 30 containers took all inodes of a disk.
        let why = many(limits::IMAGE_ENTRIES, 4000).unwrap();
        assert!(why.contains("has 4000 volumes, and podkeeper takes 32"), "{why}");
        assert_eq!(refusal("late:1", &Err(DockerError::Timeout("GET /images/late:1/json".into()))), None);
    }
}
