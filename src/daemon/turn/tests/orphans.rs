//! Podkeeper's containers that no manifest names.

use std::sync::Arc;

use super::preempted::{critical, node, of_source, one_behind, plain};
use super::rig::{Rig, acts, config, config_with, container, key, pod, with_port};
use crate::daemon::config::Config;
use crate::daemon::turn::{Event, RuntimeEvent};
use crate::machine::Hint;
use crate::node::Node;
use crate::pod::{DesiredPod, Source};
use crate::runtime::labels;

const WEB: &str = "web/web-1/app running";

/// Orphans are stopped only once their own source has reported.
#[test]
fn k59275_k116880_stopped_once_the_owning_source_has_spoken() {
    let mut rig = Rig::new();
    assert_eq!(acts(rig.list(&[WEB])), [""; 0], "nothing is known yet");
    assert_eq!(acts(rig.fail("no such directory")), [""; 0], "not readable is not empty");
    assert_eq!(acts(rig.list(&[WEB])), [""; 0]);
    assert_eq!(acts(rig.want(&[])), ["spawn web", "stop web: no manifest names it"]);
    rig.seen("web", &[WEB]);
    assert_eq!(acts(rig.list(&[WEB])), [""; 0], "it has its worker");
    assert_eq!(rig.gone("web"), ["retire web"]);
    assert_eq!(acts(rig.list(&[])), [""; 0]);
    // The source reports first.
    let mut rig = Rig::new();
    assert_eq!(acts(rig.want(&[])), [""; 0], "Docker has not been listed");
    assert_eq!(acts(rig.list(&[WEB])), ["spawn web", "stop web: no manifest names it"]);
}

/// Removed while its source cannot be read, and put back changed.
#[test]
fn k116880_removed_and_put_back_during_an_outage() {
    let mut rig = Rig::listed();
    rig.want(&[pod("a")]);
    rig.fail("cannot be read");
    assert_eq!(rig.want(&[pod("a/a-2")]).last().map(String::as_str), Some("run a/a-2"));
    rig.fail("cannot be read");
    assert_eq!(acts(rig.want(&[])), ["stop a: its manifest is gone"]);
    assert_eq!(acts(rig.want(&[pod("a/a-3")])), ["run a/a-3"]);
    assert_eq!(rig.gone("a"), [""; 0], "it is wanted again");
}

#[test]
fn kept_while_their_manifest_is_broken() {
    let mut rig = Rig::new();
    rig.want_with(&[], &["/m/web.yaml"]);
    let told = rig.list(&[WEB]);
    assert_eq!(acts(told.clone()), [""; 0]);
    assert!(
        told.iter().any(|l| l.starts_with("WARN: pod default/web runs, but its manifest /m/web.yaml")),
        "{told:?}"
    );
    assert_eq!(rig.list(&[WEB]), [""; 0], "told once");
    let problems = rig.snapshot().problems;
    assert!(problems.iter().any(|p| p.path == "/m/web.yaml"), "{problems:?}");
    // Read again: adopted. Or gone: stopped.
    assert_eq!(acts(rig.want(&[pod("web")])), ["spawn web", "run web/web-1"]);
    assert!(rig.snapshot().problems.is_empty());
    let mut rig = Rig::new();
    rig.want_with(&[], &["/m/web.yaml"]);
    rig.list(&[WEB]);
    assert_eq!(acts(rig.want(&[])), ["spawn web", "stop web: no manifest names it"]);
    // A file that is only not settled yet protects its pod without a log line.
    let mut rig = Rig::new();
    rig.unsettled("/m/web.yaml");
    assert_eq!(rig.list(&[WEB]), ["INFO: Docker 1.41 answers; 1 container is ours"]);
    // A file of unknown name below this directory cannot be read.
    let mut rig = Rig::new();
    rig.want_with(&[], &["/m/"]);
    assert_eq!(acts(rig.list(&[WEB])), [""; 0]);
    let mut rig = Rig::new();
    rig.want_with(&[], &["/m2/"]);
    assert_ne!(acts(rig.list(&[WEB])), [""; 0]);
    // An error in another file does not count.
    let mut rig = Rig::new();
    rig.want_with(&[], &["/m/other.yaml"]);
    assert_eq!(acts(rig.list(&[WEB])), ["spawn web", "stop web: no manifest names it"]);
}

#[test]
fn of_a_source_that_is_not_configured_they_go_when_all_others_have_spoken() {
    let mut rig = Rig::new();
    assert_eq!(acts(rig.list(&["web/web-1/app running of http"])), [""; 0]);
    assert_eq!(
        acts(rig.want(&[])),
        ["spawn web", "stop web: podkeeper was started without the source that named it"]
    );
    // Without any source there is none to wait for.
    let mut rig = Rig::with(config_with(|it| it.manifest_path = None));
    assert_eq!(
        acts(rig.list(&[WEB])),
        ["spawn web", "stop web: podkeeper was started without the source that named it"]
    );
}

/// The report of an undeclared source is ignored.
#[test]
fn k59275_an_undeclared_source_has_no_say() {
    use crate::pod::Source;
    use crate::source::{FromSource, PodSet, SourceUpdate};
    let mut rig = Rig::listed();
    for update in [
        SourceUpdate::Full(PodSet { pods: vec![pod("a")], ..PodSet::default() }),
        SourceUpdate::Failed("x".into()),
    ] {
        let event = crate::daemon::turn::Event::Source(FromSource { source: Source::Http, update });
        assert_eq!(acts(rig.handle(event)), [""; 0]);
    }
    assert_eq!(rig.snapshot().sources.len(), 1);
    assert_eq!(acts(rig.list(&["web/web-1/app running of http"])), [""; 0], "the file source has not spoken");
    assert_eq!(
        acts(rig.want(&[])),
        ["spawn web", "stop web: podkeeper was started without the source that named it"]
    );
}

#[test]
fn what_is_foreign_is_left_alone() {
    use crate::runtime::labels;
    let mut rig = Rig::new();
    rig.want(&[]);
    let mut foreign = super::rig::container(WEB);
    foreign.labels.insert(labels::ROOT_DIR.into(), "/elsewhere".into());
    let mut bare = super::rig::container(WEB);
    bare.labels.clear();
    let containers = vec![foreign, bare];
    let event = crate::daemon::turn::RuntimeEvent::Listed { containers, version: None };
    assert_eq!(acts(rig.handle(crate::daemon::turn::Event::Runtime(event))), [""; 0]);
}

/// Dead containers are removed, too; those of a refused pod by its stop.
#[test]
fn the_dead_go_as_well() {
    let mut rig = Rig::new();
    rig.want(&[]);
    let dead = "web/web-1/app exited";
    assert_eq!(acts(rig.list(&[dead])), ["spawn web", "stop web: no manifest names it"]);
    let mut rig = Rig::new();
    rig.want(&[with_port("a", 80), with_port("b", 80)]);
    let effects = acts(rig.list(&["a/a-1/app running", "b/b-1/app exited"]));
    assert_eq!(effects, ["spawn a", "run a/a-1", "spawn b", "stop b: it was rejected"]);
}

/// A pod may have moved to another source while the daemon was down: a source that gives it up does not stop
/// it before the other source has reported, or its content was restored.
#[test]
fn given_up_before_the_other_source_was_heard() {
    use crate::pod::Source;
    use crate::source::http::Settings;
    use crate::source::http::url::ManifestUrl;
    use crate::source::{FromSource, PodSet, SourceUpdate};
    let mut web = (*pod("web")).clone();
    web.written = Some("w".into());
    let moved = |pods: Vec<_>| {
        let update = SourceUpdate::Restored(PodSet { pods, ..PodSet::default() });
        crate::daemon::turn::Event::Source(FromSource { source: Source::Http, update })
    };
    let began = || {
        let url = Settings::new(ManifestUrl::parse("https://fleet/pods").unwrap());
        let mut rig = Rig::with(config_with(|it| it.manifest_url = Some(url)));
        rig.list(&[WEB]);
        rig.want(&[web.clone().into()]);
        assert_eq!(acts(rig.want(&[])), [""; 0], "the server was not heard");
        rig
    };
    let mut there = web.clone();
    there.source = Source::Http;
    let act = acts(began().handle(moved(vec![there.into()])));
    assert_eq!(act, ["run web/web-1"], "it is the server's by now, and the same");
    assert_eq!(acts(began().handle(moved(vec![]))), ["stop web: its manifest is gone"]);
}

#[test]
fn what_runs_and_is_in_no_manifest_now_is_shown_with_the_reason() {
    let mut rig = Rig::new();
    let found = ["a/a-1/POD running", "a/a-1/app#2 running", "a/a-1/app#1 exited"];
    rig.list(&found);
    // No source has reported.
    assert_eq!(rig.shown(), "a Running Unmanaged");
    let message = |rig: &Rig| rig.snapshot().pods[0].status.message.clone().unwrap();
    assert!(
        message(&rig).contains("source file has not been read since podkeeper began"),
        "{}",
        message(&rig)
    );
    // Its manifest exists and is not accepted, as with `--manifest-verify-key`.
    rig.want_with(&[], &["/m/a.yaml"]);
    assert_eq!(
        message(&rig),
        "its manifest /m/a.yaml is not accepted (not YAML): it is left alone, and not restarted"
    );
    let shown = rig.snapshot();
    let view = &shown.pods[0];
    assert_eq!(view.pod.origin.to_string(), "/m/a.yaml");
    assert_eq!(view.pod.spec.containers[0].name, "app");
    let status = &view.status.container_statuses.as_deref().unwrap()[0];
    assert_eq!(status.container_id.as_deref(), Some("docker://a-a-1-app-2"));
    assert_eq!((status.ready, status.restart_count), (true, 2));
    assert!(status.state.as_ref().unwrap().running.is_some());
    // It ends, and is not restarted.
    rig.turn.take_changed();
    rig.list(&["a/a-1/POD running", "a/a-1/app#2 exited"]);
    assert!(rig.turn.take_changed());
    assert_eq!(rig.shown(), "a Failed Unmanaged");
    // Its manifest is good again: it is a normal pod.
    rig.want(&[pod("a")]);
    assert_eq!(rig.shown(), "a Pending");
}

#[test]
fn an_orphan_that_is_being_stopped_is_terminating() {
    let mut all: Vec<_> = ["a/a-1/POD running", "a/a-1/app running"].map(container).into();
    all.iter_mut().for_each(|c| _ = c.labels.insert(labels::TERMINATION_GRACE.into(), "45".into()));
    let mut rig = Rig::new();
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: all.clone(), version: None }));
    assert_eq!(rig.shown(), "a Running Unmanaged");
    let began = rig.now().wall;
    rig.want(&[]);
    assert_eq!(rig.shown(), "a Running Unmanaged terminating");
    // Later lists and states do not move the time.
    rig.now = rig.now.after(std::time::Duration::from_secs(7));
    rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: all, version: None }));
    let view = &rig.snapshot().pods[0];
    assert_eq!((view.leaving, view.pod.spec.termination_grace_period_seconds), (Some(began), Some(45)));
}

#[test]
fn what_no_manifest_names_is_as_old_as_its_sandbox_says() {
    let mut all: Vec<_> = ["a/a-1/POD running", "a/a-1/app#2 running"].map(container).into();
    all[0].labels.insert(labels::SEEN.into(), "2026-11-22T08:00:00.5Z".into());
    let mut rig = Rig::new();
    let listed = RuntimeEvent::Listed { containers: all, version: None };
    rig.handle(Event::Runtime(listed));
    let shown = rig.snapshot();
    let start = shown.pods[0].status.start_time.clone().map(|time| time.0.to_string());
    assert_eq!(start.as_deref(), Some("2026-11-22T08:00:00Z"));
}

/// A pod that has ended is not shown as being stopped.
#[test]
fn an_orphan_of_which_an_added_container_runs_has_not_ended() {
    for (kind, state, shown) in [
        ("ephemeral.0", "running", "a Running Unmanaged terminating"),
        ("sidecar.0", "running", "a Running Unmanaged terminating"),
        ("ephemeral.0", "exited", "a Failed Unmanaged terminating"),
    ] {
        let look = format!("a/a-1/look {state}");
        let mut all: Vec<_> = ["a/a-1/POD running", "a/a-1/app exited", &look].map(container).into();
        all[2].labels.insert(labels::KIND.into(), kind.into());
        let mut rig = Rig::new();
        rig.handle(Event::Runtime(RuntimeEvent::Listed { containers: all, version: None }));
        rig.want(&[]);
        assert_eq!(rig.shown(), shown, "{kind} {state}");
    }
}

/// Regression: the room of a pod that was being stopped was given to others when podkeeper was restarted.
#[test]
fn a_pod_that_is_stopped_has_its_room_until_it_is_dead_also_for_the_next_daemon() {
    const RUNS: [&str; 2] = ["a/a-1/POD running", "a/a-1/app running"];
    let few = |config: Config| {
        let one = Node { max_pods: 1, ..(*node().node).clone() };
        Config { node: Arc::new(one), ..config }
    };
    let check = |what: &str,
                 config: &dyn Fn() -> Config,
                 next_pod: Arc<DesiredPod>,
                 is_written: bool,
                 waits: &str| {
        let mut rig = Rig::listed_with(config());
        let old = plain("a", 700);
        rig.want(std::slice::from_ref(&old));
        rig.status(&old, "Running", false);
        rig.want(&[]);
        rig.status(&old, "Running", true);
        for _ in 0..3 {
            let mut next = Rig::with(config());
            if is_written {
                next.goes_on_from(&rig.snapshot());
            }
            next.want(std::slice::from_ref(&next_pod));
            let told = acts(next.list(&RUNS));
            assert!(told.len() == 2 && told[1].starts_with("stop a: "), "{what}: {told:?}");
            assert!(next.shown().contains(waits), "{what}: {}", next.shown());
            rig = next;
        }
        let told = acts(rig.gone("a"));
        assert!(told.contains(&"run b/b-1".to_owned()), "{what}: {told:?}");
    };
    check("cpu", &node, plain("b", 700), true, "b Failed OutOfcpu");
    check("the number of pods", &|| few(node()), plain("b", 0), false, "b Failed OutOfpods");
    check("a critical pod", &node, critical("b", 700), true, "b Pending WaitingForRoom");
    // One that would fit beside it does not wait.
    let mut rig = Rig::with(node());
    rig.want(&[plain("b", 700)]);
    assert!(acts(rig.list(&RUNS)).contains(&"run b/b-1".to_owned()));
}

/// Regression: an edit counted as small as it would be, while the large version before it still ended.
#[test]
fn the_version_before_an_edit_has_its_room_until_it_is_dead_also_for_the_next_daemon() {
    let mut rig = Rig::listed_with(node());
    let (old, new, b) = (plain("a", 700), plain("a/a-2", 100), plain("b", 700));
    rig.want(std::slice::from_ref(&old));
    rig.status(&old, "Running", false);
    rig.want(std::slice::from_ref(&new));
    rig.status(&old, "Running", true);
    // Regression: the second daemon after the edit did not know the large version any more.
    let mut next = rig;
    for restart in 0..3 {
        let before = next.snapshot();
        // One between them that ended before Docker had answered.
        let mut blind = Rig::with(node());
        blind.goes_on_from(&before);
        blind.want(std::slice::from_ref(&new));
        next = Rig::with(node());
        next.goes_on_from(&blind.snapshot());
        next.want(&[Arc::clone(&new), Arc::clone(&b)]);
        next.list(&["a/a-1/POD running", "a/a-1/app running"]);
        assert!(next.shown().contains("b Failed OutOfcpu"), "{restart}: {}", next.shown());
        next.status(&new, "Pending", false);
    }
    let seen = |rig: &mut Rig, app: &str| acts(rig.seen("a", &["a/a-1/POD running", app]));
    assert_eq!(seen(&mut next, "a/a-1/app running"), [""; 0]);
    let told = seen(&mut next, "a/a-1/app exited");
    assert!(told.contains(&"run b/b-1".to_owned()), "{told:?}");
}

/// Regression: a pod that was being stopped when its daemon was killed, and that its source gave again with smaller sizes,
/// counted as small as it would be: others were started beside its large containers.
#[test]
fn a_pod_that_is_still_being_stopped_has_the_room_of_what_runs() {
    let (old, new, b) = (plain("a", 500), plain("a", 300), plain("b", 700));
    let mut rig = Rig::listed_with(node());
    rig.want(std::slice::from_ref(&old));
    rig.seen("a", &["a/a-1/POD running", "a/a-1/app running"]);
    rig.status(&old, "Running", false);
    rig.want(&[]);
    rig.status(&old, "Running", true);
    let mut next = Rig::with(node());
    next.goes_on_from(&rig.snapshot());
    next.want(&[Arc::clone(&new), Arc::clone(&b)]);
    next.list(&["a/a-1/POD running", "a/a-1/app running"]);
    assert_eq!(next.shown(), "a Pending, b Failed OutOfcpu");
    next.status(&new, "Pending", false);
    assert_eq!(acts(next.seen("a", &["a/a-1/POD running", "a/a-1/app running"])), [""; 0]);
    let told = acts(next.seen("a", &["a/a-1/POD running", "a/a-1/app exited"]));
    assert!(told.contains(&"run b/b-1".to_owned()), "{told:?}");
    // What runs anew is as large as it is wanted.
    next.list(&["a/a-1/POD#1 running", "a/a-1/app#1 running", "b/b-1/POD running"]);
    next.seen("a", &["a/a-1/POD#1 running", "a/a-1/app#1 running"]);
    next.status(&new, "Running", false);
    assert_eq!(next.shown(), "a Running, b Pending");
    next.want(&[new, b]);
    assert_eq!(next.turn.active_pods(), 2);
}

/// Regression: while one pod's version before an edit still ended, both its versions counted, and a pod that ran was stopped
/// at an edit of its own and refused.
#[test]
fn a_pod_that_is_being_replaced_counts_once() {
    let of = |name: &str| (plain(name, 400), plain(&format!("{name}/{name}-2"), 500));
    let ((old_a, new_a), (old_b, new_b)) = (of("a"), of("b"));
    let few = |max_pods: i64| Arc::new(Node { max_pods, ..(*node().node).clone() });
    let mut rig = Rig::listed_with(Config { node: few(2), ..node() });
    rig.want(&[Arc::clone(&old_a), Arc::clone(&old_b)]);
    rig.status(&old_a, "Running", false);
    rig.status(&old_b, "Running", false);
    rig.want(&[Arc::clone(&new_a), Arc::clone(&old_b)]);
    rig.status(&old_a, "Running", true);
    let told = acts(rig.want(&[Arc::clone(&new_a), Arc::clone(&new_b)]));
    assert_eq!(told, ["run b/b-2"], "{}", rig.shown());
    // The larger of its versions counts.
    let mut rig = Rig::listed_with(Config { node: few(3), ..node() });
    rig.want(&[Arc::clone(&old_a)]);
    rig.status(&old_a, "Running", false);
    rig.want(&[Arc::clone(&new_a)]);
    rig.status(&old_a, "Running", true);
    rig.want(&[Arc::clone(&new_a), plain("c", 501), plain("d", 500)]);
    assert!(rig.shown().contains("c Failed OutOfcpu, d Pending"), "{}", rig.shown());
}

/// Regression: a pod that its source told only after Docker's first list kept its room after its end.
#[test]
fn a_pod_that_is_told_late_and_ends_holds_no_room() {
    let mut rig = Rig::with(Config { policy: config().policy, ..one_behind() });
    of_source(&mut rig, Source::File, &[&plain("b", 700)]);
    rig.list(&["a/a-1/POD running of http", "a/a-1/app running of http"]);
    let job = plain("a", 700);
    of_source(&mut rig, Source::Http, &[&job]);
    let job = Arc::new(DesiredPod { source: Source::Http, ..(*job).clone() });
    rig.status(&job, "Running", false);
    let mut told = rig.seen("a", &["a/a-1/POD exited", "a/a-1/app exited"]);
    told.extend(rig.status(&job, "Succeeded", false));
    assert!(rig.shown().contains("a Succeeded, b Pending"), "{}", rig.shown());
}

/// The pod is left alone, for its source is silent, and ends by itself: the next list may be minutes away.
#[test]
fn a_pod_that_is_left_alone_has_its_room_until_it_ends_by_itself() {
    let began = || {
        let one = Node { max_pods: 1, ..(*node().node).clone() };
        let mut rig = Rig::with(Config { node: Arc::new(one), policy: config().policy, ..one_behind() });
        of_source(&mut rig, Source::File, &[&plain("b", 0)]);
        rig.list(&["a/a-1/POD running of http", "a/a-1/app running of http"]);
        assert!(rig.shown().contains("b Failed OutOfpods"), "{}", rig.shown());
        rig
    };
    let runs = "run b/b-1".to_owned();
    let ends = ["a/a-1/POD running of http", "a/a-1/app exited of http"];
    assert!(acts(began().list(&ends)).contains(&runs));
    let id = container("a/a-1/app running").id;
    for hint in [Hint::Changed(id.clone()), Hint::Removed(id.clone())] {
        let told =
            began().handle(Event::Runtime(RuntimeEvent::Changed { key: key("a"), hint: hint.clone() }));
        assert!(acts(told.clone()).contains(&runs), "{hint:?}: {told:?}");
    }
    // Regression: one that somebody renamed counted as ended.
    let renamed = RuntimeEvent::Changed { key: key("a"), hint: Hint::Renamed(id) };
    assert_eq!(acts(began().handle(Event::Runtime(renamed))), [""; 0]);
}
