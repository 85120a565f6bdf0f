//! The event thread on the in-memory engine: list after each connect, hints in between.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crossbeam_channel::unbounded;

use super::*;
use crate::base::clock::System;
use crate::runtime::fake::{Fake, Fault, FaultPlan, State};
use crate::runtime::{Call, CreateBody};

const ROOT: &str = "/var/lib/podkeeper";
/// Long enough for any machine; the events come much earlier.
const PATIENCE: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(3600);

struct Rig {
    fake: Fake,
    heard: Receiver<Event>,
    connects: Arc<AtomicU32>,
    /// The lists among them that were the first of a stream.
    firsts: Arc<AtomicU32>,
    /// Images that the listener got: one entry for each list, and one for each container that was
    /// created.
    images: Arc<Mutex<Vec<String>>>,
    _events: Events,
}

struct Counts {
    count: Arc<AtomicU32>,
    firsts: Arc<AtomicU32>,
    images: Arc<Mutex<Vec<String>>>,
}

impl Listener for Counts {
    fn connected(&self, listing: Listing) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.firsts.fetch_add(u32::from(listing == Listing::First), Ordering::SeqCst);
    }
    fn lost(&self) {}
    fn wants_list(&self) -> bool {
        false
    }
    fn listed(&self, containers: &[ContainerSummary], _: Duration) {
        let images = containers.iter().map(|c| format!("listed {}", c.image));
        self.images.lock().unwrap().extend(images);
    }
    fn image(&self, image: &str) {
        self.images.lock().unwrap().push(format!("made of {image}"));
    }
    fn wants_images(&self) -> bool {
        true
    }
    fn image_event(&self, event: Option<&DockerEvent>) {
        let what = event.map_or("missed".to_owned(), |e| format!("{:?} {}", e.action, e.name()));
        self.images.lock().unwrap().push(what);
    }
}

/// Regression: an image that nobody used was new when the disk was full.
#[test]
fn images_that_come_are_heard_of_without_a_list() {
    let rig = start(fake(), NEVER);
    assert_eq!(rig.next(), "listed 0");
    rig.fake.pull("a:1", None).unwrap();
    rig.fake.with(|state| state.tag_image("a:1", "b:1"));
    let heard = |n: usize| {
        let begun = Instant::now();
        while rig.images.lock().unwrap().len() < n && begun.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        rig.images.lock().unwrap().clone()
    };
    assert_eq!(heard(2), ["Pull a", "Tag b:1"]);
    rig.fake.with(State::cut_events);
    assert!(rig.next_like("lost").starts_with("lost"));
    assert_eq!(rig.next_like("listed"), "listed 0");
    assert_eq!(rig.connects.load(Ordering::SeqCst), 2);
    rig.fake.pull("c:1", None).unwrap();
    let all = heard(6);
    assert_eq!(all.get(2).map(String::as_str), Some("missed"));
    assert_eq!(all.last().map(String::as_str), Some("Pull c"));
}

fn now() -> crate::base::clock::Now {
    crate::base::clock::Clock::now(&System::start())
}

fn start(fake: Fake, relist: Duration) -> Rig {
    let (out, heard) = unbounded();
    let connects = Arc::new(AtomicU32::new(0));
    let (count, firsts) = (Arc::clone(&connects), Arc::<AtomicU32>::default());
    let images = Arc::<Mutex<Vec<String>>>::default();
    let listener = Counts { count, firsts: Arc::clone(&firsts), images: Arc::clone(&images) };
    let events =
        Events::start(Docker::Fake(fake.clone()), ROOT.into(), relist, out, || (), listener).unwrap();
    Rig { fake, heard, connects, firsts, images, _events: events }
}

fn fake() -> Fake {
    Fake::new(Arc::new(System::start()), 1)
}

/// Adds a container of pod `name`. Returns its id.
fn plant(fake: &Fake, root: &str, name: &str, running: bool) -> String {
    let all = [
        (labels::ROOT_DIR, root),
        (labels::POD_NAMESPACE, "default"),
        (labels::POD_NAME, name),
        (labels::POD_UID, "u"),
        (labels::CONTAINER_NAME, "app"),
        (labels::RESTART_COUNT, "0"),
    ];
    fake.with(|state| state.plant(&format!("k8s_app_{name}_default_u_0"), &all, running, now()))
}

impl Rig {
    /// The next event, in words.
    fn next(&self) -> String {
        match self.heard.recv_timeout(PATIENCE).expect("nothing is heard") {
            Event::Runtime(RuntimeEvent::Listed { containers, version }) => {
                assert!(version.is_some());
                format!("listed {}", containers.len())
            }
            Event::Runtime(RuntimeEvent::Lost(why)) => format!("lost: {why}"),
            Event::Runtime(RuntimeEvent::Changed { key, hint }) => match hint {
                Hint::Made(_) => format!("{key} made"),
                Hint::Started(_) => format!("{key} started"),
                Hint::Changed(_) => format!("{key} changed"),
                Hint::Renamed(_) => format!("{key} renamed"),
                Hint::OutOfMemory(_) => format!("{key} out of memory"),
                Hint::Removed(_) => format!("{key} removed"),
                Hint::Images(_) => format!("{key} images"),
                Hint::Retry => format!("{key} retry"),
                Hint::Dead(_) => format!("{key} dead"),
                Hint::All => format!("{key} all"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The next event that begins with these words; earlier events are skipped.
    fn next_like(&self, words: &str) -> String {
        for _ in 0..100_000 {
            let next = self.next();
            if next.starts_with(words) {
                return next;
            }
        }
        panic!("never {words}");
    }
}

#[test]
fn a_list_comes_first_and_then_hints() {
    let fake = fake();
    plant(&fake, ROOT, "old", true);
    let rig = start(fake, NEVER);
    assert_eq!(rig.next_like("listed"), "listed 1");
    let id = plant(&rig.fake, ROOT, "web", true);
    assert_eq!(rig.next_like("default/web"), "default/web made");
    assert_eq!(rig.next_like("default/web"), "default/web started");
    let name = "k8s_app_web_default_u_0_a6a10001".to_owned();
    rig.fake.perform(&Call::Rename { id: id.clone(), name }).unwrap();
    assert_eq!(rig.next_like("default/web"), "default/web renamed");
    rig.fake.with(|state| state.crash(&id, 1, now()));
    assert_eq!(rig.next_like("default/web"), "default/web changed");
    rig.fake.with(|state| state.remove_behind_our_back(&id, now()));
    assert_eq!(rig.next_like("default/web"), "default/web removed");
    assert_eq!(rig.connects.load(Ordering::SeqCst), 1);
}

#[test]
fn what_is_not_ours_is_not_heard() {
    let rig = start(fake(), NEVER);
    assert_eq!(rig.next_like("listed"), "listed 0");
    plant(&rig.fake, "/elsewhere", "foreign", true);
    rig.fake.with(|state| _ = state.plant("odd", &[], true, now()));
    // A container of this root directory without a pod's name.
    rig.fake.with(|state| _ = state.plant("nameless", &[(labels::ROOT_DIR, ROOT)], true, now()));
    plant(&rig.fake, ROOT, "web", true);
    assert_eq!(rig.next(), "default/web made");
    assert_eq!(rig.next(), "default/web started");
}

#[test]
fn k2309_when_the_stream_ends_it_is_told_and_everything_is_listed_again() {
    let rig = start(fake(), NEVER);
    assert_eq!(rig.next_like("listed"), "listed 0");
    for round in 1..4 {
        rig.fake.with(|state| state.cut_events());
        let lost = rig.next_like("lost");
        assert!(lost.starts_with("lost: Docker's event stream ended"), "{lost}");
        // The stream is cut: only the list can show this container.
        plant(&rig.fake, ROOT, &format!("web{round}"), true);
        assert_eq!(rig.next_like("listed"), format!("listed {round}"));
    }
    assert_eq!(rig.connects.load(Ordering::SeqCst), 4);
    assert_eq!(rig.firsts.load(Ordering::SeqCst), 4, "another Docker may have answered each time");
}

#[test]
fn docker_that_is_not_there_is_waited_for() {
    let fake = fake();
    fake.with(|state| state.set_down(true));
    let rig = start(fake, NEVER);
    for _ in 0..2 {
        assert!(rig.next().starts_with("lost: Docker is not reachable"));
    }
    assert_eq!(rig.connects.load(Ordering::SeqCst), 0);
    rig.fake.with(|state| state.set_down(false));
    assert_eq!(rig.next_like("listed"), "listed 0");
    assert_eq!(rig.connects.load(Ordering::SeqCst), 1);
}

/// Events are lost, or the stream is silent: the safety net still lists the containers.
#[test]
fn k2309_a_silent_stream_is_no_blindness() {
    let fake = fake();
    let plan = FaultPlan::seeded(1, &[(Fault::EventsSilent, 10_000)], crate::base::clock::Mono(NEVER));
    fake.with(|state| state.faults = plan);
    let rig = start(fake, Duration::from_millis(50));
    assert_eq!(rig.next_like("listed"), "listed 0");
    plant(&rig.fake, ROOT, "web", true);
    assert_eq!(rig.next_like("listed 1"), "listed 1");
    assert_eq!(rig.next_like("listed 1"), "listed 1", "and again");
}

#[test]
fn the_thread_ends_with_the_main_loop() {
    let fake = fake();
    let rig = start(fake, Duration::from_millis(10));
    assert_eq!(rig.next_like("listed"), "listed 0");
    let connects = Arc::clone(&rig.connects);
    drop(rig);
    // The thread holds the counter while it lives.
    let begun = Instant::now();
    while Arc::strong_count(&connects) > 1 {
        assert!(begun.elapsed() < PATIENCE, "it lives on");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn lists_that_tell_something_else_are_told_apart() {
    let fake = fake();
    let list = |fake: &Fake| digest(&Docker::Fake(fake.clone()).list(Vec::new()).unwrap());
    let empty = list(&fake);
    plant(&fake, ROOT, "a", true);
    let one = list(&fake);
    assert_eq!(list(&fake), one);
    plant(&fake, ROOT, "b", false);
    assert!(empty != one && one != list(&fake));
}

/// The listener must learn which images are in use, because a container may be gone before the next
/// list.
#[test]
fn the_listener_hears_of_images() {
    let fake = fake();
    fake.with(|state| drop(state.add_image("busybox:1", true)));
    let make = |name: &str| {
        let labels = [(labels::ROOT_DIR.to_owned(), ROOT.to_owned())].into();
        let body = CreateBody { image: "busybox:1".into(), labels, ..CreateBody::default() };
        fake.perform(&Call::Create { name: name.into(), body: Box::new(body) }).unwrap();
    };
    make("before");
    let rig = start(fake.clone(), NEVER);
    assert_eq!(rig.next(), "listed 1");
    make("after");
    let begun = Instant::now();
    let heard = || rig.images.lock().unwrap().iter().filter(|line| *line == "made of busybox:1").count();
    // The engine sends the first event again.
    while heard() < 2 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", rig.images);
        std::thread::yield_now();
    }
    assert!(rig.images.lock().unwrap().contains(&"listed busybox:1".to_owned()));
}
