//! Pods that wait for others, and cycles of waiting.

mod ends;
mod last;
mod precedes;
mod rooms;
mod spared;

use std::sync::Arc;
use std::time::Duration;

use super::preempted::{node, of_source, sized};
use super::rig::{Rig, acts, config, pod, with_port};
use crate::base::clock::Mono;
use crate::daemon::config::{ApiSource, Config};
use crate::daemon::turn::Event;
use crate::daemon::turn::hold::CYCLE;
use crate::pod::problem::Refused;
use crate::pod::{DesiredPod, Source};
use crate::policy::{AllowedImage, Policies, SourcePolicy};
use crate::source::http::url::ManifestUrl;
use crate::source::{PodSet, SourceUpdate, http};

/// The pod with `podkeeper.dev/after` and a timeout of one minute.
pub(super) fn after(words: &str, on: &str) -> Arc<DesiredPod> {
    waiting(pod(words), on)
}

pub(super) fn waiting(pod: Arc<DesiredPod>, on: &str) -> Arc<DesiredPod> {
    let mut pod = Arc::unwrap_or_clone(pod);
    let notes = pod.metadata.annotations.get_or_insert_default();
    notes.insert(crate::pod::after::AFTER.into(), on.into());
    notes.insert(crate::pod::after::TIMEOUT.into(), "1m".into());
    Arc::new(pod)
}

pub(super) fn pass(rig: &mut Rig, seconds: u64) -> Vec<String> {
    rig.now = Mono(rig.now.0 + Duration::from_secs(seconds));
    acts(rig.handle(Event::Tick))
}

/// Regression: after a restart of the daemon nobody attended the version that ran while a newer one waited: it was not started
/// again when it ended, its deadline ended nothing, and it was shown as one that waits.
#[test]
fn the_version_before_one_that_waits_is_attended_after_a_restart() {
    let (old, newer) = (pod("web"), after("web/web-2", "nobody"));
    let mut rig = Rig::listed();
    rig.want(std::slice::from_ref(&old));
    rig.status(&old, "Running", false);
    rig.want(std::slice::from_ref(&newer));
    let found = ["web/web-1/POD running", "web/web-1/app running"];
    for is_late in [false, true] {
        let mut next = Rig::new();
        next.goes_on_from(&rig.snapshot());
        let told = match is_late {
            true => [next.list(&found), next.want(std::slice::from_ref(&newer))],
            false => [next.want(std::slice::from_ref(&newer)), next.list(&found)],
        };
        let told = acts(told.concat());
        assert!(told.starts_with(&["spawn web".to_owned(), "run web/web-1".to_owned()]), "{told:?}");
        next.status(&old, "Running", false);
        assert_eq!(next.shown(), "web Running");
        // What it waits for comes, or not.
        let nobody = pod("nobody");
        let all = [newer.clone(), nobody.clone()];
        let told = match is_late {
            true => pass(&mut next, 60),
            false => {
                next.want(&all);
                acts(next.status(&nobody, "Succeeded", false))
            }
        };
        assert!(told.contains(&"run web/web-2".to_owned()), "{told:?}");
    }
    // Its priority counts as before, and a source gets nothing that it may not have any more.
    let policy = |image: &str| SourcePolicy {
        allowed_images: Some(vec![AllowedImage::parse(image).unwrap()]),
        max_priority: Some(7),
        ..SourcePolicy::default()
    };
    for (image, attended) in [("busybox", Some(7)), ("other", None)] {
        let policy = Arc::new(Policies::all(policy(image)));
        let mut next = Rig::with(Config { policy, ..config() });
        next.goes_on_from(&rig.snapshot());
        next.want(std::slice::from_ref(&newer));
        next.list(&found);
        let entry = next.turn.entries.get(&newer.key).unwrap();
        assert_eq!(entry.desired.as_ref().map(|pod| pod.ceiling), attended, "{image}");
    }
    // A daemon that knows nothing of it leaves it alone until then.
    let mut next = Rig::new();
    next.want(std::slice::from_ref(&newer));
    let told = acts(next.list(&found));
    assert!(!told.iter().any(|act| act.starts_with("run") || act.starts_with("spawn")), "{told:?}");
}

#[test]
fn a_pod_waits_for_another_one_and_says_so() {
    let (db, web) = (pod("db"), after("web", "db,gone"));
    let mut rig = Rig::listed();
    assert_eq!(acts(rig.want(&[Arc::clone(&db), Arc::clone(&web)])), ["spawn db, empty", "run db/db-1"]);
    assert_eq!(rig.shown(), "db Pending, web Pending WaitingForPods");
    let message = rig.snapshot().pods[1].status.message.clone().unwrap();
    assert_eq!(
        message,
        "Waits for pod default/db to run, pod default/gone to run (there is no such pod); starts anyway after 60 s."
    );
    assert_eq!(acts(rig.status(&db, "Pending", false)), [""; 0]);
    assert_eq!(acts(rig.status(&db, "Running", false)), [""; 0]);
    let message = rig.snapshot().pods[1].status.message.clone().unwrap();
    assert_eq!(
        message,
        "Waits for pod default/gone to run (there is no such pod); starts anyway after 60 s."
    );
    let gone = pod("gone");
    rig.want(&[Arc::clone(&db), Arc::clone(&web), Arc::clone(&gone)]);
    assert_eq!(acts(rig.status(&gone, "Succeeded", false)), ["spawn web, empty", "run web/web-1"]);
    // The awaited pod dies: this one runs on.
    assert_eq!(acts(rig.status(&db, "Pending", false)), [""; 0]);
    assert_eq!(acts(rig.want(&[web])), ["stop db: its manifest is gone", "stop gone: its manifest is gone"]);
}

/// A pod that waited for a refused one did not say that it waits in vain.
#[test]
fn a_pod_that_waits_for_a_refused_one_says_so() {
    let web = after("web", "db");
    let mut rig = Rig::listed();
    let waits = |rig: &Rig, why: &str| {
        let message = rig.snapshot().pods.last().unwrap().status.message.clone().unwrap();
        assert_eq!(message, format!("Waits for pod default/db to run{why}; starts anyway after 60 s."));
    };
    let refused = || Refused { pod: pod("db"), at: None, reason: "PodSecurity".into(), message: "no".into() };
    let set = |refused: &[Refused]| {
        let (pods, refused) = (vec![Arc::clone(&web)], refused.to_vec());
        SourceUpdate::Full(PodSet { pods, refused, ..PodSet::default() })
    };
    rig.source(set(&[refused()]));
    waits(&rig, " (it is refused: PodSecurity)");
    rig.source(set(&[]));
    waits(&rig, " (there is no such pod)");
    rig.source(set(&[refused()]));
    waits(&rig, " (it is refused: PodSecurity)");
    rig.want(&[Arc::clone(&web), with_port("a", 80), with_port("db", 80)]);
    waits(&rig, " (it is refused: NodePorts)");
    rig.want(&[Arc::clone(&web), pod("db")]);
    waits(&rig, "");
}

#[test]
fn the_wait_is_one_deadline() {
    let web = after("web", "db");
    let mut rig = Rig::listed();
    assert_eq!(acts(rig.want(&[Arc::clone(&web)])), [""; 0]);
    assert_eq!(rig.turn.next_due(), Some(Mono(Duration::from_secs(60))));
    // Other changes neither delay the start nor repeat it.
    pass(&mut rig, 30);
    rig.want(&[Arc::clone(&web), pod("other")]);
    assert_eq!(rig.turn.next_due(), Some(Mono(Duration::from_secs(60))));
    assert_eq!(pass(&mut rig, 29), [""; 0]);
    assert_eq!(pass(&mut rig, 1), ["spawn web, empty", "run web/web-1"]);
    let told = rig.turn.events();
    let last = told.last().unwrap();
    assert_eq!(last.event.reason, "AfterTimeout");
    assert_eq!(
        last.event.message,
        "Waited 60 s for pod default/db to run (there is no such pod); starting all the same"
    );
    assert_eq!(rig.turn.next_due(), None);
    // Removed before its deadline: no state is left.
    let mut rig = Rig::listed();
    rig.want(&[web]);
    assert_eq!(acts(rig.want(&[])), [""; 0]);
    assert_eq!(rig.shown(), "");
    assert_eq!(pass(&mut rig, 60), [""; 0]);
}

#[test]
fn what_runs_does_not_wait() {
    let (old, new) = (pod("web/one in /m/web.yaml"), after("web/two in /m/web.yaml", "db"));
    // Found running: adopted.
    let mut rig = Rig::new();
    rig.list(&["web/two/app running"]);
    assert_eq!(acts(rig.want(&[Arc::clone(&new)])), ["spawn web", "run web/two"]);
    // Its containers have ended, as after a boot: it waits.
    let mut rig = Rig::new();
    rig.list(&["web/two/app exited"]);
    assert_eq!(acts(rig.want(&[Arc::clone(&new)])), [""; 0]);
    assert_eq!(acts(rig.want(&[])), ["spawn web", "stop web: its manifest is gone"]);
    // An edit waits, and meanwhile the version before it runs.
    let mut rig = Rig::listed();
    rig.want(&[Arc::clone(&old)]);
    rig.status(&old, "Running", false);
    assert_eq!(acts(rig.want(&[Arc::clone(&new)])), [""; 0]);
    assert_eq!(rig.shown(), "web Running");
    let db = pod("db");
    rig.want(&[Arc::clone(&new), Arc::clone(&db)]);
    assert_eq!(acts(rig.status(&db, "Running", false)), ["run web/two"]);
    // The edit is undone before that: no effect.
    let mut rig = Rig::listed();
    rig.want(&[Arc::clone(&old)]);
    rig.want(&[new]);
    assert_eq!(acts(rig.want(&[old])), ["run web/one"]);
    assert_eq!(pass(&mut rig, 60), [""; 0]);
}

#[test]
fn who_waits_keeps_its_port() {
    let mut rig = Rig::listed();
    let web = waiting(with_port("web", 80), "db");
    rig.want(&[Arc::clone(&web)]);
    rig.want(&[Arc::clone(&web), with_port("other", 80)]);
    assert_eq!(rig.shown(), "other Failed NodePorts, web Pending WaitingForPods");
    assert_eq!(pass(&mut rig, 60), ["spawn web, empty", "run web/web-1"]);
}

#[test]
fn a_cycle_refuses_the_one_that_closes_it() {
    let (a, b, c) = (after("a", "c"), after("b", "a"), after("c", "b=ready"));
    let mut rig = Rig::listed();
    rig.want(&[Arc::clone(&a), Arc::clone(&b)]);
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Pending WaitingForPods");
    let told = |rig: &mut Rig| {
        let told = rig.want(&[Arc::clone(&a), Arc::clone(&b), Arc::clone(&c)]);
        let events = told.iter().filter(|line| line.contains(CYCLE)).count();
        assert_eq!(acts(told), [""; 0]);
        events
    };
    // The event, as of each pod that is refused, and once.
    assert_eq!((told(&mut rig), told(&mut rig)), (1, 0));
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Pending WaitingForPods, c Failed DependencyCycle");
    let problems = rig.snapshot().problems;
    assert_eq!(problems.len(), 1);
    let says =
        "podkeeper.dev/after of default/c closes a cycle: default/c -> default/b -> default/a -> default/c";
    assert!(problems[0].message.ends_with(says), "{problems:?}");
    let waits = rig.snapshot().pods[0].status.message.clone().unwrap();
    assert!(waits.contains("pod default/c to run (it is refused: DependencyCycle);"), "{waits}");
    // The cycle is repaired in another pod: this one may start.
    let a2 = pod("a/a-2");
    assert_eq!(acts(rig.want(&[Arc::clone(&a2), b, Arc::clone(&c)])), ["spawn a, empty", "run a/a-2"]);
    assert_eq!(rig.shown(), "a Pending, b Pending WaitingForPods, c Pending WaitingForPods");
    assert!(rig.snapshot().problems.is_empty());
    // All at once: the last one by name.
    let mut rig = Rig::listed();
    rig.want(&[a, after("b", "a"), c]);
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Pending WaitingForPods, c Failed DependencyCycle");
}

#[test]
fn an_edit_that_closes_a_cycle_leaves_what_runs() {
    let (a, b) = (pod("a/a-1"), after("b", "a"));
    let mut rig = Rig::listed();
    rig.want(&[Arc::clone(&a), Arc::clone(&b)]);
    rig.status(&a, "Running", false);
    rig.status(&b, "Running", false);
    let bad = after("a/a-2", "b");
    assert_eq!(acts(rig.want(&[bad, b])), [""; 0]);
    assert_eq!(rig.shown(), "a Running, b Running");
    assert_eq!(rig.snapshot().problems.len(), 1);
}

#[test]
fn who_waits_is_judged_when_what_it_waits_for_changes_and_at_no_other_time() {
    let db = pod("db");
    let waiters: Vec<Arc<DesiredPod>> = (0..800).map(|n| after(&format!("w{n}"), "db=ready")).collect();
    let others: Vec<Arc<DesiredPod>> = (0..100).map(|n| pod(&format!("o{n}"))).collect();
    let mut config = config();
    Arc::make_mut(&mut config.node).max_pods = 5000;
    let mut rig = Rig::with(config);
    rig.list(&[]);
    let all: Vec<_> = waiters.iter().chain(&others).chain([&db]).cloned().collect();
    rig.want(&all);
    let begun = rig.turn.waiting.judged;
    assert!(begun <= 2 * waiters.len(), "{begun} judgements");
    for (n, other) in others.iter().enumerate() {
        let phase = if n % 2 == 0 { "Running" } else { "Succeeded" };
        assert_eq!(acts(rig.status(other, "Pending", false)), [""; 0]);
        assert_eq!(acts(rig.status(other, phase, false)), [""; 0]);
    }
    assert_eq!(rig.turn.waiting.judged, begun, "they wait for none of these");
    // One more manifest concerns none of them.
    rig.want(&all.iter().cloned().chain([pod("more")]).collect::<Vec<_>>());
    assert_eq!(rig.turn.waiting.judged, begun);
    rig.status(&db, "Pending", false);
    let once = rig.turn.waiting.judged;
    assert_eq!(once, begun + waiters.len());
    rig.status(&db, "Pending", false);
    assert_eq!(rig.turn.waiting.judged, once, "it says the same");
    // All are gone: no state is left.
    rig.want(&[]);
    assert!(rig.turn.waiting.is_empty());
}

/// Regression: seventy pods that waited for sixty-four others each, and hundreds that waited for one of them, were walked
/// through for each pod and each report: a container of another source that had ended was down for minutes.
#[test]
fn hundreds_that_would_close_a_cycle_are_judged_again_when_it_may_be_open() {
    let mut config = config();
    Arc::make_mut(&mut config.node).max_pods = 5000;
    let mut rig = Rig::with(config);
    rig.list(&[]);
    let long = |n: usize| format!("w{}{n:03}", "x".repeat(140));
    let chain: Vec<Arc<DesiredPod>> = (0..20)
        .map(|n| {
            let on: Vec<String> =
                (0..63).map(|m| long((n * 63 + m) % 200)).chain([format!("h{:02}", n + 1)]).collect();
            after(&format!("h{n:02}"), &on.join(","))
        })
        .collect();
    let closing: Vec<Arc<DesiredPod>> = (0..200).map(|n| after(&long(n), "h00")).collect();
    let other = pod("other");
    let all: Vec<_> = chain.iter().chain(&closing).chain([&other]).cloned().collect();
    rig.want(&all);
    assert_eq!(rig.snapshot().problems.len(), 200);
    let admitted = |rig: &Rig| rig.turn.waiting.admitted.get();
    let begun = admitted(&rig);
    for phase in ["Pending", "Running", "Succeeded"] {
        rig.status(&other, phase, false);
    }
    assert_eq!(admitted(&rig), begun, "no cycle may be open");
    // The chain goes: none is closed any more.
    rig.want(&closing);
    rig.now = rig.now.after(crate::base::limits::READMISSION);
    rig.handle(Event::Tick);
    assert_eq!(rig.snapshot().problems.len(), 0);
}

/// Regression: five hundred ended pods that waited for sixty-four names each were edited, and who waits for whom was put
/// together anew for each of them, for a minute in all.
#[test]
fn who_waits_for_whom_is_not_put_together_for_each_pod_that_has_ended() {
    let mut config = config();
    Arc::make_mut(&mut config.node).max_pods = 5000;
    let mut rig = Rig::with(config);
    rig.list(&[]);
    let job = |n: usize, note: &str| {
        let mut pod = Arc::unwrap_or_clone(after(&format!("j{n:03}"), "nobody"));
        let notes = pod.metadata.annotations.get_or_insert_default();
        notes.insert("x".into(), note.into());
        Arc::new(pod)
    };
    let jobs = |note: &str| -> Vec<Arc<DesiredPod>> { (0..100).map(|n| job(n, note)).collect() };
    rig.want(&jobs("1"));
    rig.now = rig.now.after(Duration::from_secs(61));
    rig.handle(Event::Tick);
    let begun = rig.turn.waiting.graphs;
    rig.want(&jobs("2"));
    assert!(rig.turn.waiting.graphs <= begun + 1, "an edit of something else");
    for job in jobs("2") {
        rig.status(&job, "Succeeded", false);
    }
    let begun = rig.turn.waiting.graphs;
    rig.want(&jobs("3"));
    assert!(rig.turn.waiting.graphs <= begun + 1, "they have ended");
}

/// Regression: the order of sources counted alone, so that a URL's pod kept one from the API from starting, although the URL
/// is behind.
#[test]
fn a_source_whose_pods_are_evicted_first_closes_no_cycle_for_the_others() {
    let mut config = config();
    config.sources.manifest_url = ManifestUrl::parse("https://fleet/pods").ok().map(http::Settings::new);
    config.sources.api = Some(ApiSource::Store);
    let first = SourcePolicy { evict_first: Some(true), ..SourcePolicy::default() };
    config.policy = Arc::new(Policies::all(SourcePolicy::default()).with(Source::Http, first));
    let (there, own) = (after("aa", "app"), after("app", "aa=ready"));
    for (order, expected) in [
        (
            [(Source::Http, &there), (Source::Api, &own)],
            "aa Pending WaitingForPods, app Pending WaitingForPods",
        ),
        (
            [(Source::Api, &own), (Source::Http, &there)],
            "aa Failed DependencyCycle, app Pending WaitingForPods",
        ),
    ] {
        let mut rig = Rig::listed_with(config.clone());
        rig.want(&[]);
        of_source(&mut rig, Source::Http, &[]);
        for (source, pod) in order {
            of_source(&mut rig, source, &[pod]);
        }
        assert_eq!(rig.shown(), expected);
    }
}

/// Regression: the room of a pod that waited kept away the very pod that it waited for, until it started without it.
#[test]
fn who_waits_keeps_no_room_from_those_that_it_waits_for() {
    let of = |name: &str, on: Option<&str>| {
        let pod = sized(name, 700, "");
        on.map_or_else(|| Arc::clone(&pod), |on| waiting(Arc::clone(&pod), on))
    };
    let (a, b, c) = (of("a", Some("b=succeeded")), of("b", Some("c=succeeded")), of("c", None));
    let mut rig = Rig::listed_with(node());
    assert_eq!(acts(rig.want(&[a.clone(), b.clone()])), [""; 0]);
    assert_eq!(rig.shown(), "a Pending WaitingForPods, b Pending WaitingForPods");
    let all = [a.clone(), b.clone(), c.clone()];
    assert_eq!(acts(rig.want(&all)), ["spawn c, empty", "run c/c-1"], "both wait for it");
    // Another pod gets none of the room, and what waited long enough none that is taken.
    let mut more = all.to_vec();
    more.push(of("d", None));
    assert_eq!(acts(rig.want(&more)), [""; 0]);
    assert_eq!(acts(rig.status(&c, "Running", false)), [""; 0]);
    assert_eq!(pass(&mut rig, 60), [""; 0]);
    assert_eq!(rig.shown(), "a Failed OutOfcpu, b Failed OutOfcpu, c Running, d Failed OutOfcpu");
    let mut rig = Rig::listed_with(node());
    rig.want(&all);
    assert_eq!(acts(rig.status(&c, "Succeeded", false)), ["spawn b, empty", "run b/b-1"]);
    assert_eq!(acts(rig.status(&b, "Succeeded", false)), ["spawn a, empty", "run a/a-1"]);
}
