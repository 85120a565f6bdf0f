//! The source of the server's pods: it watches, and sends whole sets. Requests and state are those of the program; only the
//! lookup of objects is left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use podkeeper::testing::api_client::pods::PodsOfNode;
use podkeeper::testing::api_client::{ApiError, Kind, WatchEvent};
use podkeeper::testing::pod::PodKey;
use podkeeper::testing::source::SourceUpdate;
use podkeeper::testing::source::api::{Ask, Meaning, forced, read};

use super::super::seconds;
use super::super::world::World;
use super::server::text;
use super::{BEAT, BEAT_AGAIN, Deed, Mine, PATIENCE, SERVER, acceptor, set_of, unreachable};

impl World {
    pub(super) fn opens(&mut self, ask: &Ask) {
        let is_lost = self.below(1000) < self.cluster().loses;
        let cluster = self.cluster_mut();
        if cluster.server.is_down || is_lost {
            let wait = if is_lost { PATIENCE } else { Duration::from_millis(5) };
            return self.cluster_does(wait, Deed::Ends(Err(unreachable())));
        }
        cluster.mine.stream += 1;
        let id = cluster.mine.stream;
        let since = match ask {
            Ask::Stream { .. } | Ask::List { .. } => None,
            Ask::Watch { version } => Some(version.parse().unwrap_or_default()),
        };
        cluster.mine.first = since.is_none().then(BTreeMap::new);
        match cluster.server.open(id, since) {
            Ok(()) if since.is_none() => {}
            Ok(()) => self.answers_again(),
            Err(why) => {
                let error = ApiError::Status {
                    code: 410,
                    reason: why.to_owned(),
                    message: why.to_owned(),
                    retry_after: None,
                };
                return self.cluster_does(Duration::ZERO, Deed::Ends(Err(error)));
            }
        }
        self.cluster_does(Duration::from_millis(5), Deed::Hears(id));
    }

    /// The source makes its next request after this time.
    pub(super) fn asks_after(&mut self, wait: Duration) {
        let mine = &mut self.cluster_mut().mine;
        mine.waits = true;
        let number = mine.ask;
        self.cluster_does(wait, Deed::Ask(number));
    }

    /// The lease is renewed, unless the request is lost. Its version shows when the server's data have gone back; and when
    /// the server is back, the source need not wait any longer.
    pub(super) fn beats(&mut self) {
        let is_lost = self.below(1000) < self.cluster().loses;
        let cluster = self.cluster_mut();
        if cluster.server.is_down || is_lost {
            cluster.mine.is_troubled = true;
            return self.cluster_does(BEAT_AGAIN, Deed::Beats);
        }
        if std::mem::take(&mut cluster.server.is_lease_older) {
            cluster.mine.has_expired = true;
            // The connections are cut.
            cluster.server.stream = None;
        }
        if std::mem::take(&mut cluster.mine.is_troubled) && cluster.mine.waits {
            self.asks_after(Duration::ZERO);
        }
        self.cluster_does(BEAT, Deed::Beats);
    }

    /// A request has failed, or a watch has ended; `Ok`: with an event.
    pub(super) fn ends(&mut self, result: Result<bool, ApiError>) {
        let (now, luck) = (self.now, self.below(1000));
        let mine = &mut self.cluster_mut().mine;
        mine.first = None;
        if std::mem::take(&mut mine.has_expired) {
            mine.reflector.expired();
            return self.asks_after(Duration::ZERO);
        }
        let wait = match &result {
            Ok(heard) => mine.reflector.ended(!heard, now, luck),
            Err(error) => mine.reflector.failed(error, now, luck),
        };
        if let Err(error) = result
            && !wait.is_zero()
        {
            mine.has_failed = true;
            if let Some(set) = mine.restored.take() {
                self.say_api(SourceUpdate::Restored(set));
            }
            self.say_api(SourceUpdate::Failed(error.to_string()));
        }
        self.asks_after(wait);
    }

    pub(super) fn hears(&mut self, id: u64) {
        let cluster = self.cluster_mut();
        let Some(stream) = cluster.server.stream.as_mut().filter(|stream| stream.id == id) else {
            return self.cluster_does(Duration::ZERO, Deed::Ends(Err(unreachable())));
        };
        let Some(event) = stream.events.pop_front() else {
            let is_silent = stream.since > self.cluster().server.version;
            return match self.below(300) {
                0 => {
                    self.cluster_mut().server.stream = None;
                    self.cluster_does(Duration::ZERO, Deed::Ends(Ok(true)));
                }
                1..10 if !is_silent => {
                    let bookmark = self.cluster().server.bookmark(false);
                    self.heard(bookmark);
                    self.cluster_does(seconds(1), Deed::Hears(id));
                }
                _ => self.cluster_does(seconds(1), Deed::Hears(id)),
            };
        };
        self.heard(event);
        let delay = self.some(11);
        self.cluster_does(delay, Deed::Hears(id));
    }

    pub(super) fn heard(&mut self, event: WatchEvent) {
        let version = event.version().to_owned();
        let key = PodKey {
            namespace: text(&event.object, "/metadata/namespace").to_owned(),
            name: text(&event.object, "/metadata/name").to_owned(),
        };
        let mine = &mut self.cluster_mut().mine;
        let read_it = |mine: &Mine| read(&event.object, &acceptor(), SERVER, mine.known.get(&key)).unwrap();
        match event.kind {
            Kind::Bookmark { is_initial_end: true } => {
                let Some(fresh) = mine.first.take() else { return };
                mine.reflector.complete(&version);
                (mine.known, mine.restored) = (fresh, None);
                self.sync();
                self.answers_again();
                return;
            }
            Kind::Bookmark { .. } => {}
            Kind::Added | Kind::Modified => {
                let read = read_it(mine);
                let set = mine.first.as_mut().unwrap_or(&mut mine.known);
                set.insert(key, read);
            }
            Kind::Deleted => {
                let gone = read_it(mine);
                let is_first = mine.first.is_some();
                let set = mine.first.as_ref().unwrap_or(&mine.known);
                let last = set.get(&key).filter(|last| last.pod.metadata.uid == gone.pod.metadata.uid);
                let Some(last) = last.cloned() else { return mine.reflector.heard(&version) };
                if let Some(forced) = forced(&last, &gone).filter(|_| !is_first) {
                    mine.known.insert(key.clone(), forced);
                    self.sync();
                }
                let mine = &mut self.cluster_mut().mine;
                mine.first.as_mut().unwrap_or(&mut mine.known).remove(&key);
            }
        }
        let mine = &mut self.cluster_mut().mine;
        mine.reflector.heard(&version);
        if mine.first.is_none() && !matches!(event.kind, Kind::Bookmark { .. }) {
            self.sync();
        }
    }

    /// Sends the set if it has changed, and stores it.
    pub(super) fn sync(&mut self) {
        let cluster = self.cluster_mut();
        let mine = &mut cluster.mine;
        let pods = mine.known.iter().map(|(key, read)| (key.clone(), Arc::clone(&read.pod)));
        mine.latest = PodsOfNode { is_complete: true, pods: pods.collect() };
        let mut set = set_of(Vec::new());
        let mut stored = Vec::new();
        for read in mine.known.values() {
            assert!(read.unread.is_none());
            match &read.meaning {
                Meaning::Wanted(pod, _) => {
                    set.pods.push(Arc::clone(pod));
                    stored.push(read.text.clone());
                }
                Meaning::Finished(pod) => set.pods.push(Arc::clone(pod)),
                Meaning::Mirror => {}
                Meaning::Refused(refused) => panic!("{refused:?}"),
                Meaning::Unusable(problem) => panic!("{problem:?}"),
            }
        }
        if mine.sent.as_ref() != Some(&set) {
            mine.has_failed = false;
            mine.sent = Some(set.clone());
            cluster.stored = stored;
            self.say_api(SourceUpdate::Full(set));
        }
        self.tell_cluster();
    }

    pub(super) fn answers_again(&mut self) {
        let mine = &mut self.cluster_mut().mine;
        if std::mem::take(&mut mine.has_failed) && mine.sent.is_some() {
            self.say_api(SourceUpdate::Same);
        }
    }
}
