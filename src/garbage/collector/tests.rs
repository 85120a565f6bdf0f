mod events;

use std::time::{Duration, Instant};

use super::*;
use crate::base::clock::{Mono, Timestamp};
use crate::image::reference::normal;
use crate::runtime::fake::{Fake, Fault, FaultPlan};
use crate::runtime::{CreateBody, RefusalKind, labels};
use crate::status::file::tests::snapshot;
use crate::status::snapshot::{Snapshot, SourceView};

/// A clock that is moved by hand, or by so much with each look at it.
struct Still(Mutex<Duration>, Mutex<Duration>);

impl Clock for Still {
    fn now(&self) -> Now {
        let mut now = self.0.lock().unwrap();
        *now += *self.1.lock().unwrap();
        Now { mono: Mono(*now), wall: Timestamp::UNIX_EPOCH }
    }
}

struct Rig {
    fake: Fake,
    clock: Arc<Still>,
    pods: Latest,
    collector: Arc<Collector>,
    root: PathBuf,
}

impl Rig {
    /// A node without pods whose images are old enough.
    fn new(name: &str, images: &[&str]) -> Rig {
        let root = crate::base::testing::scratch(name);
        let clock = Arc::new(Still(Mutex::new(Duration::from_secs(1)), Mutex::default()));
        let fake = Fake::new(Arc::clone(&clock) as Arc<dyn Clock>, 1);
        fake.with(|state| images.iter().for_each(|image| drop(state.add_image(image, true))));
        let pods = Latest::default();
        pods.tell(Arc::new(Snapshot { sources: vec![source(true)], ..Snapshot::default() }));
        let collector = Arc::new(Collector::new(Settings {
            docker: Docker::Fake(fake.clone()),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            boot: Boot { id: "b".into(), began: Duration::ZERO },
            root_dir: root.clone(),
            policy: Policy::default(),
            sandbox: "sandbox:1".into(),
            preloaded: Box::new(|| Some([normal("preloaded:1")].into())),
            pods: pods.clone(),
        }));
        let rig = Rig { fake, clock, pods, collector, root };
        rig.collect(Order::Old);
        rig.pass(120);
        rig
    }

    fn collect(&self, order: Order) -> Report {
        self.collector.collect(order, &Tie::default())
    }

    fn pass(&self, seconds: u64) {
        *self.clock.0.lock().unwrap() += Duration::from_secs(seconds);
    }

    fn create(&self, name: &str, image: &str) {
        let call = Call::Create {
            name: name.into(),
            body: Box::new(CreateBody { image: image.into(), ..CreateBody::default() }),
        };
        self.fake.perform(&call).unwrap();
    }

    fn left(&self) -> Vec<String> {
        let mut names: Vec<String> =
            images(&Docker::Fake(self.fake.clone())).unwrap().iter().map(name).collect();
        names.sort();
        names
    }

    fn faults(&self, fault: Fault) {
        let plan = FaultPlan::seeded(1, &[(fault, 10_000)], Mono(Duration::MAX));
        self.fake.with(|state| state.faults = plan);
    }
}

fn source(ready: bool) -> SourceView {
    SourceView { ready, ..SourceView::silent("file") }
}

impl Drop for Rig {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.root);
    }
}

#[test]
fn what_nothing_needs_goes_and_the_rest_stays() {
    let rig = Rig::new("collect", &["a:1", "b:1", "used:1", "sandbox:1", "preloaded:1"]);
    rig.create("by-hand", "used:1");
    rig.pods.tell(Arc::default());
    assert_eq!(rig.collect(Order::All).freed, 0, "the daemon has not told anything yet");
    rig.pods.tell(Arc::new(Snapshot { sources: vec![source(true)], ..Snapshot::default() }));
    let mut report = rig.collect(Order::All);
    report.images.sort();
    assert_eq!(rig.left(), ["preloaded:1", "sandbox:1", "used:1"]);
    assert_eq!(
        (report.freed, report.images, report.errors),
        (2 << 20, vec!["a:1".to_owned(), "b:1".into()], vec![])
    );
}

#[test]
fn it_stops_when_enough_is_freed() {
    let rig = Rig::new("enough", &["a:1", "b:1", "c:1"]);
    assert_eq!(rig.collect(Order::Free(1)).images.len(), 1);
    assert_eq!(rig.left().len(), 2);
    assert_eq!(rig.collect(Order::Free(0)).freed, 0);
    assert_eq!(rig.collect(Order::Old).freed, 0);
}

#[test]
fn what_a_pod_wants_stays_though_it_has_no_container() {
    let node = snapshot();
    let images: Set<String> = node
        .pods
        .iter()
        .flat_map(|view| view.pod.spec.containers.iter().filter_map(|c| c.image.clone()))
        .collect();
    let names: Vec<&str> = images.iter().map(String::as_str).chain(["a:1"]).collect();
    let rig = Rig::new("wanted", &names);
    let heard = |ready| rig.pods.tell(Arc::new(Snapshot { sources: vec![source(ready)], ..node.clone() }));
    heard(false);
    let report = rig.collect(Order::All);
    assert!(report.freed == 0 && report.unheard, "a source has not spoken: {report:?}");
    heard(true);
    assert_eq!(rig.collect(Order::All).images, ["a:1"]);
    assert_eq!(rig.left().len(), images.len());
}

/// Docker does not check for containers when it removes any name but the last of an image.
#[test]
fn an_image_with_several_names_goes_whole_or_not_at_all() {
    let rig = Rig::new("names", &["a:1"]);
    rig.fake.with(|state| state.tag_image("a:1", "b:2"));
    let docker = Docker::Fake(rig.fake.clone());
    let image = images(&docker).unwrap().remove(0);
    rig.create("late", "a:1");
    assert!(remove_image(&docker, &image, &|| true).is_err());
    assert_eq!(images(&docker).unwrap(), std::slice::from_ref(&image), "it has both names");
    rig.fake.perform(&Call::Remove { id: "late".into(), force: true }).unwrap();
    // One of its names now belongs to another image.
    rig.fake.with(|state| {
        state.add_image("c:1", true);
        state.tag_image("a:1", "d:1");
        state.tag_image("c:1", "b:2");
    });
    assert_eq!(remove_image(&docker, &image, &|| true), Ok(true));
    assert_eq!(rig.left(), ["c:1"]);
    let other = images(&docker).unwrap().remove(0);
    assert_eq!(other.tags, ["c:1", "b:2"]);
    assert_eq!(remove_image(&docker, &image, &|| true), Ok(false), "gone already");
}

#[test]
fn an_image_of_which_a_pod_comes_to_want_a_name_keeps_what_it_has() {
    let rig = Rig::new("names-wanted", &["a:1"]);
    rig.fake.with(|state| state.tag_image("a:1", "b:2"));
    let docker = Docker::Fake(rig.fake.clone());
    let image = images(&docker).unwrap().remove(0);
    let asked = std::cell::Cell::new(0);
    // Called for the whole image, for its containers, for the check of the first name, and for the removal of that
    // name.
    let may_go = || asked.replace(asked.get() + 1) < 4;
    assert_eq!(remove_image(&docker, &image, &may_go), Ok(false));
    let mut tags = images(&docker).unwrap().remove(0).tags;
    tags.sort();
    assert_eq!(tags, ["a:1", "b:2"], "the first one was removed and is given back");
}

/// A pod's pull brought another image of the name meanwhile.
#[test]
fn a_tag_that_another_image_has_got_is_not_taken_from_it() {
    let rig = Rig::new("names-moved", &["a:1"]);
    rig.fake.with(|state| state.tag_image("a:1", "b:2"));
    let docker = Docker::Fake(rig.fake.clone());
    let image = images(&docker).unwrap().remove(0);
    let asked = std::cell::Cell::new(0);
    let may_go = || {
        let is_removed = asked.replace(asked.get() + 1) == 4;
        if is_removed {
            rig.fake.with(|state| drop(state.add_image("a:1", true)));
        }
        !is_removed
    };
    assert_eq!(remove_image(&docker, &image, &may_go), Ok(false));
    let found = images(&docker).unwrap();
    let has = |tag: &str| found.iter().find(|it| it.tags.iter().any(|own| own == tag)).unwrap().id.clone();
    assert_eq!(has("b:2"), image.id);
    assert_ne!(has("a:1"), image.id, "the new image keeps its name");
}

/// Creates dead containers of pods that no source wants.
fn dead(rig: &Rig, names: &[&str]) {
    let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    for name in names {
        let labels = [
            label(labels::ROOT_DIR, &rig.root.to_string_lossy()),
            label(labels::POD_NAMESPACE, "default"),
            label(labels::POD_NAME, name),
        ];
        let body = CreateBody { image: "a:1".into(), labels: labels.into(), ..CreateBody::default() };
        let Ok(Reply::Created { id, .. }) =
            rig.fake.perform(&Call::Create { name: format!("dead-{name}"), body: Box::new(body) })
        else {
            panic!("{name} is not made");
        };
        rig.fake.perform(&Call::Start { id: id.clone() }).unwrap();
        rig.fake.perform(&Call::Kill { id, signal: "KILL".into() }).unwrap();
    }
}

#[test]
fn removals_of_dead_containers_that_hang_end_soon_and_images_go_on() {
    let rig = Rig::new("dead-hang", &["a:1", "b:1"]);
    dead(&rig, &["p", "q", "r", "s"]);
    rig.faults(Fault::SlowRemove);
    let report = rig.collect(Order::All);
    assert_eq!(report.errors.len(), 2, "{report:?}");
    assert!(!report.blind && report.images == ["b:1"], "{report:?}");
    let all = containers(&Docker::Fake(rig.fake.clone())).unwrap();
    let untouched = all.iter().filter(|it| it.state == crate::runtime::DockerState::Exited).count();
    assert_eq!(untouched, 2);
}

#[test]
fn a_dead_container_whose_pod_comes_back_meanwhile_stays() {
    let rig = Rig::new("dead-back", &["a:1"]);
    dead(&rig, &["p", "web-node1"]);
    let root_dir = rig.root.to_string_lossy();
    let mut run = Run::new(Order::All, rig.collector.moment());
    let docker = Docker::Fake(rig.fake.clone());
    while let Some(call) = run.next(&rig.collector.view(&root_dir)) {
        let answer = ask(&docker, &call);
        _ = run.answer(answer, &mut rig.collector.records(), &rig.collector.view(&root_dir));
        // A pod of this name comes right after the first list.
        rig.pods.tell(Arc::new(Snapshot { sources: vec![source(true)], ..snapshot() }));
    }
    let left: Vec<String> = containers(&docker).unwrap().into_iter().map(|it| it.name).collect();
    assert_eq!((left, run.report().containers), (vec!["dead-web-node1".into()], vec!["dead-p".to_owned()]));
}

#[test]
fn a_run_that_gives_way_removes_nothing_more() {
    let rig = Rig::new("gives-way", &["a:1", "b:1"]);
    let tie = Tie::default();
    tie.give_way();
    let report = rig.collector.collect(Order::Free(1 << 30), &tie);
    assert_eq!((report.freed, report.errors.len(), rig.left().len()), (0, 0, 2));
}

/// An image with hundreds of names takes hundreds of calls.
#[test]
fn the_removal_of_an_image_with_many_names_ends_with_its_run() {
    for gives_way in [false, true] {
        let rig = Rig::new(&format!("many-names-{gives_way}"), &["a:0"]);
        rig.fake.with(|state| (1..300).for_each(|n| state.tag_image("a:0", &format!("a:{n}"))));
        let (docker, root) = (Docker::Fake(rig.fake.clone()), rig.root.display().to_string());
        let view = || rig.collector.view(&root);
        let mut run = Run::new(Order::Free(1 << 30), rig.collector.moment());
        let mut calls = 0;
        while let Some(call) = run.next(&view()) {
            calls += 1;
            run.answer(docker.call(&call), &mut rig.collector.records(), &view());
            match calls {
                20 if gives_way => run.give_way(),
                20 => *rig.clock.0.lock().unwrap() += limits::GARBAGE_RUN,
                _ => {}
            }
        }
        let errors = run.report().errors;
        assert_eq!((calls, errors.len()), (20, usize::from(!gives_way)), "{errors:?}");
        let left = images(&docker).unwrap().remove(0).tags.len();
        assert!((280..300).contains(&left), "{left}");
    }
}

/// Each sync makes a list: threads do not pile up behind a disk that hangs, and a failed write is repeated later.
#[test]
fn one_thread_writes_the_latest_state() {
    let rig = Rig::new("writes", &["a:1"]);
    let file = rig.root.join(records::FILE);
    assert!(rig.collector.begins_to_write(), "somebody writes, and hangs");
    rig.create("first", "a:1");
    let list = containers(&Docker::Fake(rig.fake.clone())).unwrap();
    let before = std::fs::read(&file).unwrap();
    rig.collector.saw(&list);
    assert_eq!(*rig.collector.writing(), Writing::Again, "no other thread was started");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    // The disk fails.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    rig.collector.write();
    assert!(rig.collector.records().is_changed());
    std::fs::remove_dir(&file).unwrap();
    rig.collector.saw(&list);
    let began = Instant::now();
    while std::fs::read(&file).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "it is tried again with the next list");
        std::thread::yield_now();
    }
}

/// Regression: with a slow Docker the removal of many dead containers took all the time for which evictions wait, and a
/// pod was evicted although an unused image could have gone.
#[test]
fn dead_containers_that_take_long_leave_time_for_images() {
    let rig = Rig::new("slow-dead", &["a:1", "b:1"]);
    let root = rig.root.display().to_string();
    let of = [(labels::ROOT_DIR, &*root), (labels::POD_NAMESPACE, "default"), (labels::POD_NAME, "gone")];
    let now = rig.clock.now();
    rig.fake.with(|state| {
        for n in 0..100 {
            let id = state.plant(&format!("dead-{n}"), &of, true, now);
            state.crash(&id, 0, now);
        }
    });
    let began = rig.clock.now().mono;
    *rig.clock.1.lock().unwrap() = Duration::from_secs(2);
    let report = rig.collect(Order::All);
    assert!(!report.containers.is_empty(), "{report:?}");
    assert!(report.images.contains(&"a:1".to_owned()), "{report:?}");
    let took = rig.clock.now().mono.since(began);
    assert!(took < limits::COLLECT_PATIENCE, "{took:?}");
}

#[test]
fn one_that_docker_refuses_does_not_keep_the_others() {
    let rig = Rig::new("refused", &["a:1", "b:1"]);
    // The container was created after the images were judged: Docker refuses the removal.
    rig.create("late", "a:1");
    let docker = Docker::Fake(rig.fake.clone());
    let all = images(&docker).unwrap();
    let a = all.iter().find(|image| image.tags == ["a:1"]).unwrap();
    let error = remove_image(&docker, a, &|| true).unwrap_err();
    assert_eq!(error.refusal(), Some(&RefusalKind::Conflict));
    rig.faults(Fault::Refused500);
    let report = rig.collect(Order::All);
    assert!(report.blind && report.errors.len() == 1, "{report:?}");
    rig.fake.with(|state| state.faults = FaultPlan::none());
    assert_eq!(rig.collect(Order::All).images, ["b:1"]);
}

#[test]
fn a_docker_that_is_away_or_hangs_ends_the_run() {
    for fault in [Fault::Hang, Fault::Lost] {
        let rig = Rig::new("away", &["a:1"]);
        rig.faults(fault);
        let report = rig.collect(Order::All);
        assert!(report.blind && report.errors.len() == 1, "{fault:?}: {report:?}");
        rig.fake.with(|state| state.faults = FaultPlan::none());
        assert_eq!(rig.left(), ["a:1"]);
    }
}

#[test]
fn a_young_image_stays_until_it_is_old_enough() {
    let rig = Rig::new("young", &["a:1"]);
    rig.fake.with(|state| state.add_image("new:1", true));
    assert_eq!(rig.collect(Order::All).images, ["a:1"]);
    rig.pass(119);
    assert_eq!(rig.collect(Order::All).freed, 0);
    rig.pass(1);
    assert_eq!(rig.collect(Order::All).images, ["new:1"]);
}

#[test]
fn what_is_old_goes_though_there_is_room() {
    let mut rig = Rig::new("old", &["a:1"]);
    let old = Arc::get_mut(&mut rig.collector).unwrap();
    old.settings.policy.max_age = Duration::from_secs(200);
    assert_eq!(rig.collect(Order::Old).freed, 0);
    rig.pass(81);
    assert_eq!(rig.collect(Order::Old).images, ["a:1"]);
}

#[test]
fn the_order_outlives_the_daemon() {
    let rig = Rig::new("order", &["a:1", "b:1"]);
    rig.create("first", "a:1");
    rig.collector.saw(&containers(&Docker::Fake(rig.fake.clone())).unwrap());
    rig.fake.perform(&Call::Remove { id: "first".into(), force: true }).unwrap();
    rig.collector.saw(&[]);
    rig.collector.heard("b:1");
    rig.collect(Order::Old);
    // The thread of an earlier list may write it.
    let began = Instant::now();
    while *rig.collector.writing() != Writing::No || rig.collector.records().is_changed() {
        assert!(began.elapsed() < Duration::from_secs(60));
        std::thread::yield_now();
    }
    let again = records::read(&rig.root, "b");
    assert_eq!(again.get("x"), None);
    let used = |name: &str| {
        let images = images(&Docker::Fake(rig.fake.clone())).unwrap();
        let id = &images.iter().find(|image| image.tags == [name]).unwrap().id;
        again.get(id).unwrap().used
    };
    assert!(0 < used("a:1") && used("a:1") < used("b:1"));
    assert_eq!(rig.collect(Order::Free(1)).images, ["a:1"]);
}
