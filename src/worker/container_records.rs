//! The bytes that Docker records of the containers of each source. Docker copies the labels of an image into each container
//! of it, and shows them, what is run and the mounts in each list: many containers of an image whose configuration is just
//! small enough, or with long arguments, would make each list as large as hundreds of megabytes, and Docker would run out of
//! memory, for the pods of all others too. The records of ended containers stay on the disk, which no eviction gives back.
//!
//! Never here: an estimate that only grows. Each list of the daemon gives the true number.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Table;
use crate::mapping::{kind_word, record};
use crate::pod::{ContainerKind, Source};
use crate::runtime::progress::bytes;
use crate::runtime::{ContainerSummary, DockerError, Refusal, labels};

/// The numbers, with what was admitted lately. Clones share them.
#[derive(Debug, Clone)]
pub struct ContainerRecords {
    counted: Arc<Mutex<Counted>>,
    /// Most bytes of the containers of one source.
    most: usize,
}

#[derive(Debug, Default)]
struct Counted {
    /// Bytes of the last list.
    listed: Table<Source, usize>,
    /// Until when a container counts that Docker may not list yet, the oldest first; after that until the next list.
    unlisted: VecDeque<(Mono, Source, usize)>,
}

impl ContainerRecords {
    /// Without any container. So many sources are behind others: each has its own part, which the others cannot use up.
    #[must_use]
    pub fn new(behind: usize) -> ContainerRecords {
        ContainerRecords { counted: Arc::default(), most: limits::RECORDS_BEHIND / behind.max(1) }
    }

    /// Takes the numbers from a list of all containers of this node, which was asked for at this time.
    pub fn listed(&self, containers: &[ContainerSummary], asked: Mono) {
        let mut now: Table<Source, usize> = Table::new();
        for (source, length) in containers.iter().filter_map(|found| Some((payer(found)?, recorded(found)))) {
            let sum = now.get_or_default(source);
            *sum = sum.saturating_add(length);
        }
        let mut counted = self.lock();
        counted.listed = now;
        while counted.unlisted.front().is_some_and(|(until, ..)| *until <= asked) {
            counted.unlisted.pop_front();
        }
    }

    /// Whether a list should come soon: much of what is counted may be listed by now, or has not been made.
    #[must_use]
    pub fn wants_list(&self) -> bool {
        let counted = self.lock();
        counted.unlisted.iter().map(|(.., bytes)| *bytes).fold(0, usize::saturating_add) > self.most / 2
    }

    /// Adds what Docker will record of a container that is about to be made for this source, bytes. It may be listed
    /// already a moment later, or only after the call was given up: it counts in addition for a while.
    ///
    /// # Errors
    /// The source has too much: the container waits.
    pub(super) fn admit(&self, source: Source, adds: usize, now: Mono) -> Result<(), DockerError> {
        let mut counted = self.lock();
        let listed = counted.listed.get(&source).copied().unwrap_or(0);
        let lately = counted.unlisted.iter().filter(|(_, of, _)| *of == source).map(|(.., bytes)| *bytes);
        let sum = lately.fold(listed, usize::saturating_add);
        if sum.saturating_add(adds) > self.most {
            return Err(Refusal::not_sent(format!(
                "Docker's records of the containers of source {source} have {} of at most {}, and this one adds {}: it \
                 waits until there are fewer",
                bytes(sum as u64),
                bytes(self.most as u64),
                bytes(adds as u64),
            )));
        }
        counted.unlisted.push_back((now.after(limits::RECORD_UNLISTED), source, adds));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
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
    container.length.max(record::noted(&container.labels).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::DockerState;

    const MOST: usize = limits::RECORDS_BEHIND;
    const PART: usize = MOST / 32;

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
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

    /// Regression: eight pods of a hundred init containers each, with arguments of quotes, made Docker's list 69 MB large
    /// before the bound of 8 MiB was noticed, because a container's own record counted only once it was listed.
    #[test]
    fn containers_are_admitted_until_all_are_too_large_and_again_when_they_are_gone() {
        let records = ContainerRecords::new(1);
        let admit = |bytes, seconds| records.admit(Source::Http, bytes, at(seconds));
        for _ in 0..32 {
            assert_eq!(admit(PART, 0), Ok(()));
        }
        let refused = admit(PART, 1).unwrap_err().to_string();
        let words = "of source http have 8.0 MiB of at most 8.0 MiB, and this one adds 256.0 KiB";
        assert!(refused.contains(words), "{refused}");
        assert_eq!(admit(0, 1), Ok(()));
        // Regression: what Docker did not list yet was forgotten with the next list.
        records.listed(&[], at(29));
        assert!(admit(1, 29).is_err());
        // Regression: and what no list had shown for 30 seconds was forgotten, too.
        assert!(admit(1, 300).is_err());
        assert!(records.wants_list());
        records.listed(&[], at(30));
        assert!(!records.wants_list());
        assert_eq!(admit(PART, 30), Ok(()), "it was not made, or has gone");
        let of = |length| listed("http", "regular.0", length);
        records.listed(&[of(PART), of(PART * 29)], at(31));
        assert_eq!(admit(PART, 31), Ok(()));
        assert!(admit(1, 31).is_err());
    }

    /// The environment is in no list, but on the disk.
    #[test]
    fn what_was_counted_at_the_create_counts_as_long_as_the_container_is_there() {
        let records = ContainerRecords::new(1);
        let mut container = listed("http", "init.0", 100);
        container.labels.extend([(labels::RECORDED.to_owned(), MOST.to_string())]);
        records.listed(&[container], at(0));
        assert!(records.admit(Source::Http, 1, at(0)).is_err());
    }

    /// One source behind others used up what all of them had together, and another got no container.
    #[test]
    fn each_source_has_its_own_part() {
        let records = ContainerRecords::new(2);
        let most = MOST / 2;
        records.listed(
            &[
                listed("file", "regular.0", 100 << 20),
                listed("http", "regular.0", most),
                listed("api", "init.0", most - PART),
            ],
            at(0),
        );
        let admitted = |seconds| {
            [Source::Http, Source::Api].map(|source| records.admit(source, PART, at(seconds)).is_ok())
        };
        assert_eq!(admitted(0), [false, true]);
        assert_eq!(admitted(0), [false, false]);
        // Over the API, containers were added to pods of another source.
        let added = kind_word(ContainerKind::Ephemeral);
        records.listed(&[listed("file", &format!("{added}.0"), most)], at(60));
        assert_eq!(admitted(60), [true, false]);
    }
}
