//! The bytes that Docker records of the containers of each source. Docker copies the labels of an image into each container
//! of it, and shows them, what is run and the mounts in each list: many containers of an image whose configuration is just
//! small enough, or with long arguments, would make each list as large as hundreds of megabytes, and Docker would run out of
//! memory, for the pods of all others too. The records of ended containers stay on the disk, which no eviction gives back.
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
pub struct ContainerRecords {
    of: Arc<Mutex<Table<Source, usize>>>,
    /// Most bytes of the containers of one source.
    most: usize,
}

impl ContainerRecords {
    /// Without any container. So many sources are behind others: each has its own part, which the others cannot use up.
    #[must_use]
    pub fn new(behind: usize) -> ContainerRecords {
        ContainerRecords { of: Arc::default(), most: limits::RECORDS_BEHIND / behind.max(1) }
    }

    /// Takes the numbers from a list of all containers of this node.
    pub fn listed(&self, containers: &[ContainerSummary]) {
        let mut now: Table<Source, usize> = Table::new();
        for (source, length) in containers.iter().filter_map(|found| Some((payer(found)?, recorded(found)))) {
            let sum = now.get_or_default(source);
            *sum = sum.saturating_add(length);
        }
        *self.lock() = now;
    }

    /// Adds what Docker will record of a container that is about to be made for this source: `recorded` bytes of its own
    /// and the configuration of its image. When the source has too much, the answer about the image becomes the reason
    /// why there is no container yet.
    pub(super) fn admit(
        &self,
        source: Source,
        recorded: usize,
        answer: Result<Reply, DockerError>,
    ) -> Result<Reply, DockerError> {
        let Ok(Reply::Image(detail)) = &answer else { return answer };
        if detail.configuration > limits::IMAGE_CONFIGURATION {
            // No container is made of it.
            return answer;
        }
        let mut of = self.lock();
        let sum = of.get_or_default(source);
        let adds = detail.configuration.saturating_add(recorded);
        match sum.checked_add(adds).filter(|sum| *sum <= self.most) {
            Some(more) => {
                *sum = more;
                drop(of);
                answer
            }
            None => Err(Refusal::not_sent(format!(
                "Docker's records of the containers of source {source} have {} of at most {}, and this one adds {}: it \
                 waits until there are fewer",
                bytes(*sum as u64),
                bytes(self.most as u64),
                bytes(adds as u64),
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

/// What Docker records of a container, bytes: what it sends of it in a list, or all that was counted when it was made.
fn recorded(container: &ContainerSummary) -> usize {
    let counted = container.labels.get(labels::RECORDED).and_then(|counted| counted.parse().ok());
    container.length.max(counted.unwrap_or(0))
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
        let records = ContainerRecords::new(1);
        let admit = |configuration| records.admit(Source::Http, 0, image(configuration));
        let parts = limits::RECORDS_BEHIND / PART;
        assert_eq!(admit(PART + 1), image(PART + 1), "it is refused elsewhere");
        for _ in 0..parts {
            assert_eq!(admit(PART), image(PART));
        }
        let refused = admit(PART).unwrap_err().to_string();
        assert!(
            refused.contains("of source http have 8.0 MiB of at most 8.0 MiB, and this one adds 256.0 KiB"),
            "{refused}"
        );
        assert_eq!(admit(0), image(0));
        let lost = || Err(DockerError::Timeout("GET /images/a/json".into()));
        assert_eq!(records.admit(Source::Http, 0, lost()), lost());
        let of = |length| listed("http", "regular.0", length);
        records.listed(&[of(PART), of(PART * (parts - 2))]);
        assert_eq!(admit(PART), image(PART));
        assert!(admit(1).is_err());
        records.listed(&[]);
        assert_eq!(admit(PART), image(PART));
    }

    /// Regression: eight pods of a hundred init containers each, with arguments of quotes, made Docker's list 69 MB large
    /// before the bound of 8 MiB was noticed, because a container's own record counted only once it was listed.
    #[test]
    fn a_containers_own_record_counts_before_it_is_listed() {
        let records = ContainerRecords::new(1);
        let admit = || records.admit(Source::Http, PART, image(PART)).is_ok();
        let admitted = (0..1000).filter(|_| admit()).count();
        assert_eq!(admitted, limits::RECORDS_BEHIND / (2 * PART));
    }

    /// The environment is in no list, but on the disk.
    #[test]
    fn what_was_counted_at_the_create_counts_as_long_as_the_container_is_there() {
        let records = ContainerRecords::new(1);
        let mut container = listed("http", "init.0", 100);
        let counted = limits::RECORDS_BEHIND.to_string();
        container.labels.extend([(labels::RECORDED.to_owned(), counted)]);
        records.listed(&[container]);
        assert!(records.admit(Source::Http, 0, image(1)).is_err());
    }

    /// One source behind others used up what all of them had together, and another got no container.
    #[test]
    fn each_source_has_its_own_part() {
        let records = ContainerRecords::new(2);
        let most = limits::RECORDS_BEHIND / 2;
        records.listed(&[
            listed("file", "regular.0", 100 << 20),
            listed("http", "regular.0", most),
            listed("api", "init.0", most - PART),
        ]);
        let admitted =
            || [Source::Http, Source::Api].map(|source| records.admit(source, 0, image(PART)).is_ok());
        assert_eq!(admitted(), [false, true]);
        assert_eq!(admitted(), [false, false]);
        // Over the API, containers were added to pods of another source.
        let added = kind_word(ContainerKind::Ephemeral);
        records.listed(&[listed("file", &format!("{added}.0"), most)]);
        assert_eq!(admitted(), [true, false]);
    }
}
