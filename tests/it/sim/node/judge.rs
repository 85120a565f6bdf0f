//! Rules that the node's keeper must obey.

use podkeeper::testing::base::clock::Mono;
use podkeeper::testing::base::limits;
use podkeeper::testing::daemon::keeper::mind::Seen;
use podkeeper::testing::eviction::Eviction;
use podkeeper::testing::eviction::signal::{Resource, Signal};
use podkeeper::testing::eviction::threshold::Threshold;
use podkeeper::testing::garbage::Order;
use podkeeper::testing::runtime::{Call, DockerState, labels};

use super::super::world::{ROOT, World};
use super::model::Room;
use super::{CRITICAL, PINNED, PRELOADED};

impl World {
    /// Judges a call of the collector when it is decided on.
    pub fn judge_removal(&self, call: &Call) {
        match call {
            Call::Remove { id, force } => {
                assert!(!force);
                let Some(dead) = self.engine.get(id) else { return };
                let label = |key: &str| dead.body.labels.get(key).map_or("", String::as_str);
                assert_eq!(label(labels::ROOT_DIR), ROOT, "{} is not ours", dead.name);
                let pod = label(labels::POD_NAME);
                let wanted = self.known().into_iter().find(|known| known.key.name == pod);
                assert!(wanted.is_none(), "{} goes, and its pod is wanted", dead.name);
            }
            Call::ImageRemove { image } => {
                let all = self.engine.image_list();
                let Some(image) = all.into_iter().find(|it| it.id == *image || it.tags.contains(image))
                else {
                    return;
                };
                let is_named = |name: &str| image.tags.iter().any(|tag| tag == name);
                for pod in self.known() {
                    let names = pod.containers().filter_map(|(_, c)| c.image.as_deref());
                    let named = names.into_iter().find(|name| is_named(name));
                    assert!(named.is_none(), "{named:?} goes, which pod {} wants", pod.key);
                }
                assert!(!is_named(PINNED) && !is_named(PRELOADED), "{:?} goes", image.tags);
                assert!(!image.tags.iter().any(|tag| tag.starts_with("podkeeper")), "the sandbox image goes");
            }
            _ => {}
        }
    }

    /// Judges an eviction when it is decided on.
    pub fn judge_eviction(&mut self, threshold: &Threshold, seen: &Seen, eviction: &Eviction) {
        assert!(!eviction.key.name.starts_with(CRITICAL), "{} is critical", eviction.key);
        let now = self.now;
        let node = self.node.as_mut().unwrap();
        node.evicted.push((now, eviction.key.name.clone()));
        let keeping = node.keeping.as_ref().unwrap();
        if let Some((at, uid)) = &keeping.victims.get(&threshold.signal.pressure()) {
            let runs = self.engine.containers().any(|c| {
                let label = |key: &str| c.body.labels.get(key).map_or("", String::as_str);
                let is_sandbox = label(labels::CONTAINER_NAME) == labels::SANDBOX_NAME;
                c.state == DockerState::Running && label(labels::POD_UID) == uid && !is_sandbox
            });
            let waited = now.since(*at) >= limits::EVICTION_PATIENCE;
            assert!(!runs || waited, "{} goes while another victim still ends", eviction.key);
            let of_kernel =
                matches!(threshold.signal, Signal::Memory | Signal::AllocatableMemory | Signal::Pid);
            let is_stalled = of_kernel && self.engine.is_down();
            assert!(!runs || !is_stalled, "{} goes while Docker can stop nobody", eviction.key);
        }
        let of_images = matches!(threshold.signal, Signal::ImageFs | Signal::ImageFsInodes);
        let of_disk = of_images || matches!(threshold.signal, Signal::NodeFs | Signal::NodeFsInodes);
        if !of_disk || (seen.dedicated && !of_images) {
            return;
        }
        // A run that hangs is not waited for, and images that Docker refuses to remove are not garbage.
        let moved = keeping.steps.1;
        let hangs = keeping.run.as_ref().is_some_and(|(.., began)| {
            now.since(moved) >= limits::COLLECT_PATIENCE || now.since(*began) >= limits::COLLECT_LONGEST
        });
        let is_awaited = keeping.run.as_ref().is_some_and(|(_, order, _)| *order == Order::All) && !hangs;
        assert!(!is_awaited, "{} goes while garbage is being collected", eviction.key);
        let Some((began, ended, report)) = keeping.last.as_ref() else {
            assert!(hangs, "{} goes before garbage was collected", eviction.key);
            return;
        };
        if hangs || !report.errors.is_empty() {
            return;
        }
        assert!(keeping.counted.since(*ended) <= limits::COLLECT_FRESH, "garbage was collected too long ago");
        // Images that have become garbage meanwhile are removed the next time.
        if node.changed.after(limits::COLLECT_FRESH) > *began {
            return;
        }
        let began = *began;
        let garbage = self.garbage(began);
        let amount = |room: Room| {
            if threshold.signal.resource() == Resource::Inodes { room.inodes } else { room.bytes }
        };
        let found = seen.found.get(&threshold.signal).unwrap();
        let reclaim = threshold.reclaim.map_or(0, |amount| amount.of(found.capacity));
        let wanted = threshold.value.of(found.capacity) + reclaim;
        assert!(
            found.available + amount(garbage) < wanted,
            "{} goes, {} of {wanted} are left, and garbage has {garbage:?}",
            eviction.key,
            found.available
        );
    }

    /// Room that the policy allows to free: images that are unused and whose records are old enough at `then`, when the
    /// collector began to run. An image that has become old enough since is removed by the next run.
    fn garbage(&self, then: Mono) -> Room {
        let node = self.node.as_ref().unwrap();
        let keeping = node.keeping.as_ref().unwrap();
        let known = self.known();
        // The pods of some of these images have ended since.
        let wanted = |tag: &String| {
            keeping.wanted.contains(tag)
                || known.iter().any(|pod| pod.containers().any(|(_, c)| c.image.as_ref() == Some(tag)))
        };
        let may_go = |image: &podkeeper::testing::runtime::ImageSummary| {
            let is_used = self.engine.containers().any(|c| c.image_id() == image.id);
            let fixed = |tag: &String| tag == PINNED || tag == PRELOADED || tag.starts_with("podkeeper");
            let is_old = keeping
                .records
                .get(&image.id)
                .is_some_and(|record| then.0.saturating_sub(record.seen_up) >= node.policy.min_age);
            !is_used && is_old && !image.tags.iter().any(|tag| wanted(tag) || fixed(tag))
        };
        let images = self.engine.image_list().into_iter().filter(may_go);
        images.map(|image| Room::of_image(image.size)).fold(Room::default(), Room::and)
    }

    /// After the pressure: every wanted pod runs, the node is short of nothing, and the keeper does not
    /// look often.
    pub fn check_node_at_rest(&mut self) {
        let now = self.now();
        let snapshot = self.daemon.as_ref().unwrap().turn.snapshot(&now);
        let bad = snapshot.conditions.iter().find(|c| c.is_true != (c.type_ == "Ready"));
        let free = (self.free(true), self.free(false));
        assert!(bad.is_none(), "{bad:?}, {free:?}, {}", self.who_has());
        self.check_at_rest();
        let tags: Vec<String> = self.engine.image_list().into_iter().flat_map(|image| image.tags).collect();
        for kept in [PINNED, PRELOADED] {
            assert!(tags.iter().any(|tag| tag == kept), "{kept} is gone");
        }
        let looks = self.looks();
        assert!(looks <= 8, "{looks} looks in a minute of peace");
        let run = self.node.as_ref().unwrap().keeping.as_ref().unwrap().run.as_ref();
        let endless = run.filter(|(_, order, _)| *order == Order::All);
        assert!(endless.is_none(), "all garbage is collected in peace");
    }
}
