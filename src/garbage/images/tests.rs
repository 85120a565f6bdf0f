//! The rows of the kubelet's `image_gc_manager_test.go`, and podkeeper's own cases.

use std::collections::BTreeMap;

use super::*;
use crate::base::clock::Timestamp;
use crate::runtime::DockerState;

/// A container of that name and image that is not podkeeper's.
pub(crate) fn container(name: &str, image_id: &str) -> ContainerSummary {
    ContainerSummary {
        id: format!("id-of-{name}"),
        name: name.to_owned(),
        image: "x".into(),
        image_id: image_id.to_owned(),
        labels: BTreeMap::new(),
        state: DockerState::Exited,
        status: String::new(),
        created: 0,
        ips: None,
        networks: Vec::new(),
        length: 0,
    }
}

fn id(n: u32) -> String {
    format!("sha256:{n}")
}

fn image(n: u32, size: u64) -> ImageSummary {
    ImageSummary { id: id(n), tags: vec![format!("image-{n}:1")], size, ..ImageSummary::default() }
}

/// A node whose containers are podkeeper's.
struct Node {
    policy: Policy,
    fixed: Fixed,
    wants: Wants,
    records: Records,
    images: Vec<ImageSummary>,
    used: Vec<u32>,
    /// Uptime in seconds.
    up: u64,
}

impl Node {
    fn new(images: Vec<ImageSummary>, used: &[u32]) -> Node {
        Node {
            policy: Policy { min_age: Duration::ZERO, ..Policy::default() },
            fixed: Fixed::default(),
            wants: Wants { heard: true, ..Wants::default() },
            records: Records::default(),
            images,
            used: used.to_vec(),
            up: 1000,
        }
    }

    fn now(&self) -> Moment {
        Moment { up: Duration::from_secs(self.up), wall: Timestamp::from_second(77).unwrap() }
    }

    fn containers(&self) -> Vec<ContainerSummary> {
        self.used.iter().map(|n| container(&format!("c{n}"), &id(*n))).collect()
    }

    fn detect(&mut self) {
        let (now, containers) = (self.now(), self.containers());
        self.records.note_containers(&containers, now);
        self.records.note_images(&self.images, now);
    }

    fn judged(&mut self) -> Vec<Judged> {
        self.detect();
        let (policy, fixed, wants, records) = (&self.policy, &self.fixed, &self.wants, &self.records);
        Judge { policy, fixed, wants, records, now: Some(self.now()) }.all(
            self.images.clone(),
            &self.containers(),
            "/r",
        )
    }

    /// Frees at least this much; returns the freed amount, and how many images are left.
    fn free(&mut self, bytes: u64) -> (u64, usize) {
        let mut freed = 0;
        for judged in self.judged().into_iter().filter(|judged| judged.kept.is_none()) {
            if freed < bytes {
                freed += judged.image.size;
                self.images.retain(|image| image.id != judged.image.id);
            }
        }
        (freed, self.images.len())
    }

    fn kept(&mut self, n: u32) -> Option<Kept> {
        self.judged().into_iter().find(|judged| judged.image.id == id(n)).unwrap().kept
    }
}

/// `TestDetectImagesInitialDetect`: all images are first seen at the first look; images of containers count as used,
/// with a name or without.
#[test]
fn the_first_look() {
    let nameless = ImageSummary { tags: vec![], ..image(1, 2048) };
    let mut node = Node::new(vec![image(0, 1024), nameless, image(2, 2048)], &[1, 2]);
    node.detect();
    let of = |n| *node.records.get(&id(n)).unwrap();
    assert_eq!((of(0).used, of(0).in_use), (0, false));
    assert!(of(1).used > 0 && of(1).in_use && of(2).used > 0 && of(2).in_use);
}

/// Docker refuses to remove an image from which it has made another one.
#[test]
fn what_an_image_that_stays_was_made_from_stays() {
    let of = |n: u32, parent: &str| ImageSummary { parent: parent.to_owned(), ..image(n, 1024) };
    let images = vec![of(0, ""), of(1, &id(0)), of(2, &id(1)), of(3, &id(0)), of(4, "gone")];
    let mut node = Node::new(images, &[2]);
    let parent = |of: u32| Some(Kept::Parent(format!("image-{of}:1")));
    let all: Vec<Option<Kept>> = [0, 1, 3, 4].into_iter().map(|n| node.kept(n)).collect();
    assert_eq!(all, [parent(1), parent(2), None, None]);
    assert_eq!(node.free(u64::MAX), (2048, 3));
    // Images of which none stays go.
    node.used.clear();
    assert_eq!(node.free(u64::MAX), (3 * 1024, 0));
}

/// Regression: a build of several steps leaves images without a name, which Docker does not list with others. What these
/// were made from was to be removed in each run, and Docker refused it.
#[test]
fn what_an_image_that_stays_was_made_from_stays_also_behind_nameless_ones() {
    let of = |n: u32, parent: u32| ImageSummary { parent: id(parent), ..image(n, 1024) };
    let nameless = |n: u32, parent: u32| ImageSummary { tags: Vec::new(), ..of(n, parent) };
    let images = || vec![image(0, 1024), nameless(1, 0), nameless(2, 1), of(3, 2), nameless(4, 0)];
    let mut node = Node::new(images(), &[3]);
    let judged = |node: &mut Node| {
        let all = node.judged().into_iter().map(|it| (it.image.id, it.kept));
        all.collect::<Vec<_>>()
    };
    let user = Some(Kept::Used("container c3".into()));
    let made = Some(Kept::Parent("image-3:1".into()));
    assert_eq!(judged(&mut node), [(id(4), None), (id(0), made), (id(3), user)], "the last has no children");
    node.used = vec![1];
    let made = Some(Kept::Parent(id(1)));
    assert_eq!(judged(&mut node), [(id(4), None), (id(3), None), (id(0), made)]);
    node.used.clear();
    node.policy.min_age = Duration::from_secs(9);
    node.detect();
    node.images = vec![image(0, 1024), nameless(1, 0), of(3, 1)];
    node.up += 10;
    node.detect();
    assert!(judged(&mut node).iter().all(|(_, kept)| kept.is_none()), "a nameless one is never young");
}

/// `TestDetectImagesWithNewImage`.
#[test]
fn an_image_that_comes_later() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[1]);
    node.detect();
    let before = *node.records.get(&id(0)).unwrap();
    node.images.push(image(2, 1024));
    node.up += 1;
    node.detect();
    assert_eq!(node.records.get(&id(0)), Some(&before));
    let new = node.records.get(&id(2)).unwrap();
    assert!(new.first > before.first && new.used == 0 && new.seen_up > before.seen_up);
}

/// `TestDetectImagesContainerStopped`: the record of an image outlives its containers.
#[test]
fn a_container_that_is_gone() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[1]);
    node.detect();
    node.used.clear();
    node.up += 9;
    node.detect();
    let gone = *node.records.get(&id(1)).unwrap();
    assert!(!gone.in_use && gone.used > 0);
    assert_eq!(gone.unused_up, node.now().up);
    node.up += 9;
    node.detect();
    assert_eq!(node.records.get(&id(1)), Some(&gone), "later looks change nothing");
}

/// `TestDetectImagesWithRemovedImages`.
#[test]
fn images_that_are_gone() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[]);
    node.detect();
    node.images.clear();
    node.detect();
    assert!(node.records.get(&id(0)).is_none() && node.records.get(&id(1)).is_none());
}

/// `TestFreeSpaceImagesInUseContainersAreIgnored`.
#[test]
fn what_is_used_stays() {
    assert_eq!(Node::new(vec![image(0, 1024), image(1, 2048)], &[1]).free(2048), (1024, 1));
}

/// `TestDeleteUnusedImagesRemoveAllUnusedImages`.
#[test]
fn all_that_is_unused_goes() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048), image(2, 2048)], &[2]);
    assert_eq!(node.free(u64::MAX), (3072, 1));
}

/// `TestDeleteUnusedImagesExemptSandboxImage`.
#[test]
fn the_sandbox_image_stays() {
    let mut node = Node::new(vec![image(0, 1024)], &[]);
    node.fixed.sandbox = "docker.io/library/image-0:1".to_owned();
    assert_eq!(node.free(u64::MAX), (0, 1));
    assert_eq!(node.kept(0), Some(Kept::Sandbox));
}

/// `TestDoNotDeletePinnedImage`, `TestDeleteUnPinnedImage`, `TestAllPinnedImages`.
#[test]
fn pinned_images_stay() {
    let check = |pins: &[&str], expected| {
        let mut node = Node::new(vec![image(1, 1024), image(2, 1024)], &[]);
        node.policy.pinned = pins.iter().map(|text| Pin::parse(text).unwrap()).collect();
        assert_eq!(node.free(4096), expected, "{pins:?}");
    };
    check(&["image-1:1"], (1024, 1));
    check(&[], (2048, 0));
    check(&["image-1:1", "image-2:*"], (0, 2));
}

/// `TestDeletePinnedImage`: a pin is of the image that has the name now.
#[test]
fn an_image_that_lost_its_name_is_not_pinned() {
    let old = ImageSummary { tags: vec![], ..image(1, 1024) };
    let mut node =
        Node::new(vec![old, ImageSummary { tags: vec!["image-1:1".into()], ..image(2, 1024) }], &[]);
    node.policy.pinned = vec![Pin::parse("image-1:1").unwrap()];
    assert_eq!(node.free(u64::MAX), (1024, 1));
}

/// `TestDeleteUnusedImagesLimitByImageLiveTime`, `TestGarbageCollectImageNotOldEnough`.
#[test]
fn a_young_image_stays() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[1]);
    node.policy.min_age = Duration::from_secs(60);
    assert_eq!(node.free(1024), (0, 2));
    assert_eq!(node.kept(0), Some(Kept::Young(Duration::from_secs(60))));
    node.up += 59;
    assert_eq!(node.free(1024), (0, 2));
    node.up += 1;
    assert_eq!(node.free(1024), (1024, 1));
}

/// `TestFreeSpaceRemoveByLeastRecentlyUsed`.
#[test]
fn what_was_unused_for_longest_goes_first() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[0, 1]);
    node.detect();
    node.used = vec![1];
    node.detect();
    node.used = vec![];
    node.detect();
    assert_eq!(node.free(1024), (1024, 1));
    assert_eq!(node.images[0].id, id(1));
}

/// `TestFreeSpaceRemoveByLeastRecentlyUsedByRepoDigest`: Docker's list of containers always has the id. Events name
/// an image by its digest.
#[test]
fn an_event_by_digest_is_a_use() {
    let digest = |n: u32| format!("r.io/a@sha256:{}", format!("{n}").repeat(64));
    let with_digest = |n: u32| ImageSummary { tags: vec![], digests: vec![digest(n)], ..image(n, 1024) };
    let mut node = Node::new(vec![with_digest(1), with_digest(2)], &[]);
    node.detect();
    let now = node.now();
    node.records.note_use(&digest(1), now);
    assert_eq!(node.free(1024), (1024, 1));
    assert_eq!(node.images[0].id, id(1), "it was used, and the other never");
}

/// `TestFreeSpaceTiesBrokenByDetectedTime`: images that were never used are removed before used ones.
#[test]
fn what_was_never_used_goes_first() {
    let mut node = Node::new(vec![image(0, 1024)], &[0]);
    node.detect();
    node.images.push(image(1, 2048));
    node.detect();
    node.used.clear();
    node.detect();
    assert_eq!(node.free(1024), (2048, 1));
}

#[test]
fn of_two_that_were_never_used_the_older_one_goes_first() {
    let mut node = Node::new(vec![image(7, 1)], &[]);
    node.detect();
    node.images.insert(0, image(1, 1));
    assert_eq!(node.free(1), (1, 1));
    assert_eq!(node.images[0].id, id(1));
}

/// `TestGarbageCollectImageTooOld`, `…MatchWithRepoDigests`, `TestGarbageCollectImageMaxAgeDisabled`.
#[test]
fn what_is_unused_for_too_long_is_old() {
    let mut node = Node::new(vec![image(0, 1024), image(1, 2048)], &[0, 1]);
    node.detect();
    node.used = vec![1];
    let old = |node: &mut Node, max: u64| {
        let (judged, now) = (node.judged(), node.now());
        let old = judged.iter().filter(|it| it.kept.is_none() && it.is_older(Duration::from_secs(max), now));
        old.map(|it| it.image.id.clone()).collect::<Vec<_>>()
    };
    node.up += 500;
    assert_eq!(old(&mut node, 60), [] as [&str; 0], "it was used until now");
    node.up += 60;
    assert_eq!(old(&mut node, 60), [] as [&str; 0]);
    node.up += 1;
    assert_eq!(old(&mut node, 60), [id(0)]);
    node.up = u64::from(u32::MAX);
    assert_eq!(old(&mut node, 0), [] as [&str; 0], "no maximum");
}

#[test]
fn why_images_stay() {
    let mut node = Node::new((0..6).map(|n| image(n, 1)).collect(), &[0]);
    let pod = serde_json::json!({ "containers": [{ "name": "a", "image": "image-1:1" }, { "name": "b", "image": "image-0:1" }] });
    node.wants.add("default/web", &serde_json::from_value(pod).unwrap());
    node.fixed.sandbox = "image-2:1".to_owned();
    node.fixed.preloaded = [normal("image-3:1"), id(5)].into();
    node.policy.pinned = vec![Pin::parse("*image-4*").unwrap()];
    let kept = [
        Kept::Used("container c0".to_owned()),
        Kept::Wanted("default/web".to_owned()),
        Kept::Sandbox,
        Kept::Preloaded,
        Kept::Pinned,
        Kept::Preloaded,
    ];
    for (n, kept) in (0..).zip(kept) {
        assert_eq!(node.kept(n), Some(kept), "{n}");
    }
    node.images.push(image(9, 1));
    assert_eq!(node.kept(9), None);
    node.wants.heard = false;
    assert_eq!(node.kept(9), Some(Kept::Unheard));
}

#[test]
fn a_user_is_named_as_the_operator_knows_it() {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut ours = container("k8s_app_web_default_1_0", "sha256:1");
    ours.labels = [
        label(labels::ROOT_DIR, "/r"),
        label(labels::POD_NAMESPACE, "default"),
        label(labels::POD_NAME, "web-n1"),
    ]
    .into();
    let foreign = container("by-hand", "sha256:1");
    // `prune` named it like a pod of this node.
    let mut other = ours.clone();
    other.labels.insert(labels::ROOT_DIR.to_owned(), "/other".to_owned());
    for all in [
        [ours.clone(), other.clone(), foreign.clone()],
        [foreign.clone(), other.clone(), ours.clone()],
        [other.clone(), ours.clone(), foreign.clone()],
    ] {
        assert_eq!(users(&all, "/r")["sha256:1"], "pod default/web-n1");
    }
    assert_eq!(
        users(&[foreign.clone(), other], "/r")["sha256:1"],
        "pod default/web-n1 of another podkeeper (--root-dir /other)"
    );
    assert_eq!(users(&[foreign], "/r")["sha256:1"], "container by-hand");
}

proptest::proptest! {
    /// For all orders of use and detection: images in use, wanted or pinned are never removed, and of the others none
    /// is removed before one that was used earlier.
    #[test]
    fn nothing_that_is_needed_goes(
        uses in proptest::collection::vec(proptest::collection::vec(0u32..8, 0..4), 1..6),
        wanted in 0u32..8,
        pinned in 0u32..8,
    ) {
        let mut node = Node::new((0..8).map(|n| image(n, 1)).collect(), &[]);
        let pod = serde_json::json!({ "containers": [{ "name": "a", "image": format!("image-{wanted}:1") }] });
        node.wants.add("default/web", &serde_json::from_value(pod).unwrap());
        node.policy.pinned = vec![Pin::parse(&format!("image-{pinned}:1")).unwrap()];
        for used in &uses {
            node.used.clone_from(used);
            node.detect();
        }
        let judged = node.judged();
        let mut last = (0, 0);
        for it in judged.iter().filter(|it| it.kept.is_none()) {
            let record = it.record.unwrap();
            proptest::prop_assert!(last <= (record.used, record.first));
            last = (record.used, record.first);
            let is = |n: u32| it.image.id == id(n);
            proptest::prop_assert!(!is(wanted) && !is(pinned) && !node.used.iter().any(|n| is(*n)));
        }
        let free = (0..8).filter(|n| *n != wanted && *n != pinned && !node.used.contains(n)).count();
        proptest::prop_assert_eq!(judged.iter().filter(|it| it.kept.is_none()).count(), free);
    }
}
