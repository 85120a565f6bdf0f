//! The bytes that Docker sends of the containers of each source, most of which are labels. Docker copies the labels of an
//! image into each container of it, and shows them in each list: many containers of an image whose configuration is just
//! small enough would make each list as large as hundreds of megabytes, and Docker would run out of memory, for the pods
//! of all others too.
//!
//! Never here: an estimate that only grows. Each list of the daemon gives the true number.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::limits;
use crate::base::table::Table;
use crate::mapping::kind_word;
use crate::pod::{ContainerKind, Source};
use crate::runtime::progress::bytes;
use crate::runtime::{ContainerSummary, DockerError, Refusal, Reply, labels};

/// The numbers, with what was admitted since the last list. Clones share them.
#[derive(Debug, Clone)]
pub struct ContainerLabels {
    of: Arc<Mutex<Table<Source, usize>>>,
    /// Most bytes of the containers of one source.
    most: usize,
}

impl ContainerLabels {
    /// Without any container. So many sources are behind others: each has its own part, which the others cannot use up.
    #[must_use]
    pub fn new(behind: usize) -> ContainerLabels {
        ContainerLabels { of: Arc::default(), most: limits::CONTAINER_LABELS / behind.max(1) }
    }

    /// Takes the numbers from a list of all containers of this node.
    pub fn listed(&self, containers: &[ContainerSummary]) {
        let mut now: Table<Source, usize> = Table::new();
        for (source, length) in containers.iter().filter_map(|found| Some((payer(found)?, found.length))) {
            let sum = now.get_or_default(source);
            *sum = sum.saturating_add(length);
        }
        *self.lock() = now;
    }

    /// Adds the configuration of an image of which a container is about to be made for this source. When those of the
    /// source are too many, the answer about the image becomes the reason why there is no container yet.
    pub(super) fn admit(
        &self,
        source: Source,
        answer: Result<Reply, DockerError>,
    ) -> Result<Reply, DockerError> {
        let Ok(Reply::Image(detail)) = &answer else { return answer };
        if detail.configuration > limits::IMAGE_CONFIGURATION {
            // No container is made of it.
            return answer;
        }
        let mut of = self.lock();
        let sum = of.get_or_default(source);
        match sum.checked_add(detail.configuration).filter(|sum| *sum <= self.most) {
            Some(more) => {
                *sum = more;
                drop(of);
                answer
            }
            None => Err(Refusal::not_sent(format!(
                "the labels of the containers of source {source} have {} of at most {}, and a container of this image adds \
                 {}: it waits until there are fewer",
                bytes(*sum as u64),
                bytes(self.most as u64),
                bytes(detail.configuration as u64),
            ))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<Source, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The source whose part has this container. One that was added to a pod counts for the API, over which it was added,
/// whatever the pod's source is.
fn payer(container: &ContainerSummary) -> Option<Source> {
    let label = |key| container.labels.get(key).map_or("", String::as_str);
    let is_added = label(labels::KIND).starts_with(kind_word(ContainerKind::Ephemeral));
    if is_added { Some(Source::Api) } else { Source::parse(label(labels::SOURCE)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::{DockerState, ImageDetail};

    const PART: usize = limits::IMAGE_CONFIGURATION;

    fn image(configuration: usize) -> Result<Reply, DockerError> {
        Ok(Reply::Image(ImageDetail { configuration, ..ImageDetail::default() }))
    }

    fn listed(of: &str, kind: &str, length: usize) -> ContainerSummary {
        let labels = [(labels::SOURCE, of), (labels::KIND, kind)];
        ContainerSummary {
            id: "1".into(),
            name: "a".into(),
            image: "busybox".into(),
            image_id: "sha256:1".into(),
            labels: labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            state: DockerState::Running,
            status: "Up".into(),
            created: 0,
            ips: None,
            networks: Vec::new(),
            length,
        }
    }

    #[test]
    fn containers_of_large_labels_are_admitted_until_all_are_too_large_and_again_when_they_are_gone() {
        let labels = ContainerLabels::new(1);
        let admit = |configuration| labels.admit(Source::Http, image(configuration));
        let parts = limits::CONTAINER_LABELS / PART;
        assert_eq!(admit(PART + 1), image(PART + 1), "it is refused elsewhere");
        for _ in 0..parts {
            assert_eq!(admit(PART), image(PART));
        }
        let refused = admit(PART).unwrap_err().to_string();
        assert!(
            refused.contains(
                "of source http have 8.0 MiB of at most 8.0 MiB, and a container of this image adds 256.0 KiB"
            ),
            "{refused}"
        );
        assert_eq!(admit(0), image(0));
        let lost = || Err(DockerError::Timeout("GET /images/a/json".into()));
        assert_eq!(labels.admit(Source::Http, lost()), lost());
        let of = |length| listed("http", "regular.0", length);
        labels.listed(&[of(PART), of(PART * (parts - 2))]);
        assert_eq!(admit(PART), image(PART));
        assert!(admit(1).is_err());
        labels.listed(&[]);
        assert_eq!(admit(PART), image(PART));
    }

    /// One source behind others used up what all of them had together, and another got no container.
    #[test]
    fn each_source_has_its_own_part() {
        let labels = ContainerLabels::new(2);
        let most = limits::CONTAINER_LABELS / 2;
        labels.listed(&[
            listed("file", "regular.0", 100 << 20),
            listed("http", "regular.0", most),
            listed("api", "init.0", most - PART),
        ]);
        let admitted = || [Source::Http, Source::Api].map(|source| labels.admit(source, image(PART)).is_ok());
        assert_eq!(admitted(), [false, true]);
        assert_eq!(admitted(), [false, false]);
        // Over the API, containers were added to pods of another source.
        let added = kind_word(ContainerKind::Ephemeral);
        labels.listed(&[listed("file", &format!("{added}.0"), most)]);
        assert_eq!(admitted(), [true, false]);
    }
}
