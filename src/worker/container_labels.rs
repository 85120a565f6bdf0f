//! The bytes that Docker sends of all containers, most of which are labels. Docker copies the labels of an image into each container of it, and shows
//! them in each list: many containers of an image whose configuration is just small enough would make each list as large
//! as hundreds of megabytes, and Docker would run out of memory, for the pods of all others too.
//!
//! Never here: an estimate that only grows. Each list of the daemon gives the true number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::limits;
use crate::runtime::progress::bytes;
use crate::runtime::{ContainerSummary, DockerError, Refusal, Reply};

/// The number, with what was admitted since the last list. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ContainerLabels(Arc<AtomicUsize>);

impl ContainerLabels {
    /// Takes the number from a list of all containers of this node.
    pub fn listed(&self, containers: &[ContainerSummary]) {
        let length = containers.iter().fold(0, |sum: usize, found| sum.saturating_add(found.length));
        self.0.store(length, Ordering::SeqCst);
    }

    /// Adds the configuration of an image of which a container is about to be made. When all are too many, the answer
    /// about the image becomes the reason why there is no container yet.
    pub(super) fn admit(&self, answer: Result<Reply, DockerError>) -> Result<Reply, DockerError> {
        let Ok(Reply::Image(detail)) = &answer else { return answer };
        if detail.configuration > limits::IMAGE_CONFIGURATION {
            // No container is made of it.
            return answer;
        }
        let add =
            |sum: usize| sum.checked_add(detail.configuration).filter(|sum| *sum <= limits::CONTAINER_LABELS);
        match self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, add) {
            Ok(_) => answer,
            Err(sum) => Err(Refusal::not_sent(format!(
                "the labels of this node's containers have {} of at most {}, and a container of this image adds {}: it \
                 waits until there are fewer",
                bytes(sum as u64),
                bytes(limits::CONTAINER_LABELS as u64),
                bytes(detail.configuration as u64),
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{DockerState, ImageDetail};

    #[test]
    fn containers_of_large_labels_are_admitted_until_all_are_too_large_and_again_when_they_are_gone() {
        let labels = ContainerLabels::default();
        let image = |configuration| Ok(Reply::Image(ImageDetail { configuration, ..ImageDetail::default() }));
        let part = limits::IMAGE_CONFIGURATION;
        let parts = limits::CONTAINER_LABELS / part;
        assert_eq!(labels.admit(image(part + 1)), image(part + 1), "it is refused elsewhere");
        for _ in 0..parts {
            assert_eq!(labels.admit(image(part)), image(part));
        }
        let refused = labels.admit(image(part)).unwrap_err().to_string();
        assert!(
            refused.contains("have 8.0 MiB of at most 8.0 MiB, and a container of this image adds 256.0 KiB"),
            "{refused}"
        );
        assert_eq!(labels.admit(image(0)), image(0));
        let lost = || Err(DockerError::Timeout("GET /images/a/json".into()));
        assert_eq!(labels.admit(lost()), lost());
        let of = |length: usize| ContainerSummary {
            id: "1".into(),
            name: "a".into(),
            image: "busybox".into(),
            image_id: "sha256:1".into(),
            labels: [].into(),
            state: DockerState::Running,
            status: "Up".into(),
            created: 0,
            ips: None,
            networks: Vec::new(),
            length,
        };
        labels.listed(&[of(part), of(part * (parts - 2))]);
        assert_eq!(labels.admit(image(part)), image(part));
        assert!(labels.admit(image(1)).is_err());
        labels.listed(&[]);
        assert_eq!(labels.admit(image(part)), image(part));
    }
}
