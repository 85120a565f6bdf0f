//! Tests of the probes and hooks of a worker, and of the effects of their results.

use std::time::Duration;

use super::rig::*;
use crate::base::clock::Mono;
use crate::machine::Report;
use crate::plan::ProbeVerdict::{Failure, Success};
use crate::probe::prober::News;
use crate::probe::{HookKind, HookStep, Kind, Watch};
use crate::runtime::fake::Behaviour;
use crate::runtime::labels;

const PROBES: &str = "{containers: [{name: app, \
    startupProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 7}, \
    readinessProbe: {tcpSocket: {port: 80}}, \
    livenessProbe: {exec: {command: [\"true\"]}, terminationGracePeriodSeconds: 100}}, {name: other}]}";

impl Rig {
    fn told(&self) -> &Watch {
        &self.watched.last().expect("nothing is asked").1
    }

    /// Delivers a probe's result.
    pub(super) fn probed(&mut self, words: &str, kind: Kind, verdict: crate::plan::ProbeVerdict) {
        let news = self.news(words, kind, verdict);
        self.slot.news(news);
        self.step();
    }

    fn hook_ends(&mut self, words: &str, kind: HookKind, result: Result<(), String>) {
        let id = self.id(words);
        self.slot.news(News::Hooked { id, kind, result });
        self.step();
    }

    fn hook_at(&mut self, step: HookStep) {
        let id = self.id("app#0");
        self.slot.news(News::HookAt { id, kind: HookKind::PreStop, step });
        self.step();
    }

    /// `started`, `ready`, and whether the pod is ready, in the last status.
    fn ready(&self) -> (Option<bool>, bool, bool) {
        let last = self.reports.iter().rev().find_map(|r| match r {
            Report::Status { status, .. } => Some(status),
            _ => None,
        });
        let status = last.unwrap();
        let app = status.container_statuses.iter().flatten().find(|c| c.name == "app").unwrap();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").unwrap();
        (app.started, app.ready, ready.status == "True")
    }

    /// The kinds of probes of each container.
    fn asked(&self) -> Vec<String> {
        let kinds = |t: &crate::probe::Target| -> Vec<&str> {
            Kind::ALL.into_iter().filter(|k| t.probe(*k).is_some()).map(Kind::word).collect()
        };
        self.told().targets.iter().map(|t| format!("{}: {}", t.container, kinds(t).join(" "))).collect()
    }
}

#[test]
fn a_pod_without_probes_asks_nothing() {
    let rig = Rig::up(&app());
    assert!(rig.watched.is_empty());
}

#[test]
fn what_is_asked_is_told_when_it_changes() {
    let rig = Rig::up(&pod(PROBES));
    assert_eq!(rig.asked(), ["app: Startup Readiness Liveness"]);
    let target = &rig.told().targets[0];
    assert!(target.address.is_some() && !target.adopted);
    assert!(rig.watched.len() <= 2, "once, and once more with the address: {:?}", rig.watched);
}

#[test]
fn readiness_goes_into_the_status_and_stops_nothing() {
    let mut rig = Rig::up(&pod(PROBES));
    assert_eq!(rig.ready(), (Some(false), false, false));
    rig.probed("app#0", Kind::Startup, Success);
    assert_eq!(rig.ready(), (Some(true), false, false));
    rig.probed("app#0", Kind::Readiness, Success);
    assert_eq!(rig.ready(), (Some(true), true, true));
    rig.probed("app#0", Kind::Readiness, Failure);
    assert_eq!(rig.ready(), (Some(true), false, false));
    rig.take_acts();
    rig.pass(s(600));
    assert_eq!(rig.take_acts(), [""; 0]);
}

#[test]
fn a_result_of_another_container_is_dropped() {
    let mut rig = Rig::up(&pod(PROBES));
    rig.slot.news(News::Probed {
        id: "gone".into(),
        kind: Kind::Liveness,
        since: Mono::default(),
        verdict: Failure,
    });
    rig.step();
    rig.pass(s(60));
    assert_eq!(rig.running().len(), 3);
    assert_eq!(rig.machine.size(), Rig::up(&pod(PROBES)).machine.size());
}

#[test]
fn liveness_failure_kills_with_its_own_grace_and_starts_over() {
    let mut rig = Rig::up(&pod(PROBES));
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.probed("app#0", Kind::Startup, Success);
    rig.probed("app#0", Kind::Readiness, Success);
    rig.take_acts();
    rig.probed("app#0", Kind::Liveness, Failure);
    rig.pass(s(150));
    assert!(rig.running().contains("app#1"), "{:?}", rig.running());
    let log = rig.logged(log::Level::Info).join("\n");
    assert!(log.contains("Container app failed liveness probe, will be restarted"), "{log}");
    assert_eq!(rig.asked(), ["app: Startup Readiness Liveness"]);
    assert_eq!(rig.told().targets[0].id, rig.id("app#1"));
    assert_eq!(rig.ready(), (Some(false), false, false), "results do not outlive the container");
}

/// A probe's own grace replaces the pod's, shorter or longer, but only when that probe caused the kill (the table of
/// `kuberuntime_container_test.go`).
#[test]
fn whose_grace_a_kill_has() {
    let check = |startup: u64, liveness: u64, pod_s: u64, asks: Option<Kind>, expected: u64| {
        let probe = |name: &str, grace: u64| match grace {
            0 => String::new(),
            grace => {
                format!(", {name}: {{tcpSocket: {{port: 80}}, terminationGracePeriodSeconds: {grace}}}")
            }
        };
        let probes = probe("startupProbe", startup) + &probe("livenessProbe", liveness);
        let spec = |image: &str| {
            pod(&format!(
                "{{terminationGracePeriodSeconds: {pod_s}, containers: [{{name: app, image: {image}{probes}}}]}}"
            ))
        };
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&spec("busybox"));
        rig.pass(s(5));
        match asks {
            Some(kind) => rig.probed("app#0", kind, Failure),
            None => rig.run(&spec("other")),
        }
        rig.pass(s(90));
        let first = |call: &str| rig.times(call)[0];
        let grace = first("kill app#0 SIGKILL") - first("kill app#0 SIGTERM");
        assert_eq!(grace / 1000, expected, "{startup} {liveness} {pod_s} {asks:?}");
    };
    let (startup, liveness) = (Some(Kind::Startup), Some(Kind::Liveness));
    check(0, 0, 60, None, 60);
    check(0, 10, 60, liveness, 10);
    check(10, 0, 60, startup, 10);
    check(60, 0, 10, startup, 60);
    check(0, 60, 10, liveness, 60);
    check(0, 10, 60, None, 60);
    check(10, 0, 60, None, 60);
    check(10, 30, 60, None, 60);
    check(10, 30, 60, startup, 10);
    check(10, 30, 60, liveness, 30);
}

#[test]
fn while_a_pod_is_stopped_only_readiness_is_asked() {
    let mut rig = Rig::up(&pod(PROBES));
    rig.probed("app#0", Kind::Startup, Success);
    rig.wish(stop(Some(30)));
    rig.pass(ms(1));
    assert_eq!(rig.asked(), ["app: Readiness"]);
    rig.pass(s(60));
    assert!(rig.told().is_empty());
}

#[test]
fn k113646_what_ran_before_the_daemon_is_ready_until_told_otherwise() {
    let pod = pod(PROBES);
    let mut rig = Rig::up(&pod).reborn();
    rig.run(&pod);
    rig.pass(s(5));
    assert_eq!(rig.ready(), (Some(true), true, true));
    assert!(rig.told().targets[0].adopted);
    rig.probed("app#0", Kind::Readiness, Failure);
    assert_eq!(rig.ready(), (Some(true), false, false));
}

#[test]
fn nothing_more_is_started_while_a_post_start_runs() {
    let hooked =
        "{containers: [{name: app, lifecycle: {postStart: {exec: {command: [x]}}}}, {name: second}]}";
    let mut rig = Rig::up(&pod(hooked));
    rig.pass(s(1000));
    assert!(!rig.running().contains("second#0"));
    assert_eq!(rig.told().hooks.len(), 1);
    assert_eq!(rig.ready(), (Some(true), false, false));
    rig.hook_ends("app#0", HookKind::PostStart, Ok(()));
    rig.pass(s(2));
    assert!(rig.running().contains("second#0"));
    assert!(rig.told().is_empty());
    assert_eq!(rig.ready(), (Some(true), true, true));
}

#[test]
fn a_post_start_that_fails_kills_and_says_why_it_waits() {
    let hooked = "{containers: [{name: app, lifecycle: {postStart: {exec: {command: [x]}}}}]}";
    let mut rig = Rig::up(&pod(hooked));
    rig.take_acts();
    rig.hook_ends(
        "app#0",
        HookKind::PostStart,
        Err(crate::pod::waiting::hook_exited(&["/no".into()], 127, "secret")),
    );
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM"]);
    rig.pass(s(5));
    let log = rig.logged(log::Level::Warn).join("\n");
    let told = "FailedPostStartHook: PostStartHook failed: command '/no' exited with 127";
    assert!(log.contains(told) && !log.contains("secret"), "{log}");
    rig.pass(s(20));
    assert!(rig.running().contains("app#1"));
}

#[test]
fn a_container_whose_post_start_failed_is_not_ready_while_it_is_killed() {
    let hooked = "{containers: [{name: app, lifecycle: {postStart: {exec: {command: [x]}}}, \
        readinessProbe: {tcpSocket: {port: 80}}}]}";
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&pod(hooked));
    rig.pass_until("start app#0");
    rig.pass(s(1));
    rig.probed("app#0", Kind::Readiness, Success);
    rig.hook_ends("app#0", HookKind::PostStart, Err("no".into()));
    rig.pass(s(1));
    assert!(rig.running().contains("app#0"));
    assert_eq!(rig.ready(), (Some(true), false, false));
    // Probes do not change that, nor does the stop of its pod.
    rig.probed("app#0", Kind::Readiness, Failure);
    rig.probed("app#0", Kind::Readiness, Success);
    assert_eq!(rig.ready(), (Some(true), false, false));
    rig.wish(stop(None));
    rig.pass(s(1));
    assert!(rig.running().contains("app#0"));
    assert_eq!(rig.ready(), (Some(true), false, false));
}

#[test]
fn a_post_start_may_sleep() {
    let hooked =
        "{containers: [{name: app, lifecycle: {postStart: {sleep: {seconds: 20}}}}, {name: second}]}";
    let mut rig = Rig::up(&pod(hooked));
    rig.pass(s(14));
    assert!(!rig.running().contains("second#0"));
    rig.pass(s(3));
    let started = rig.times("start second#0")[0];
    let before = rig.times("start app#0")[0];
    assert!((20_000..20_500).contains(&(started - before)), "{started} {before}");
}

const PRE_STOP: &str = "{terminationGracePeriodSeconds: 30, containers: [{name: app, \
    lifecycle: {preStop: {exec: {command: [x]}}}}]}";

#[test]
fn pre_stop_comes_before_term_and_is_not_run_twice() {
    let mut rig = Rig::up(&pod(PRE_STOP));
    rig.take_acts();
    rig.wish(stop(None));
    rig.pass(s(10));
    assert_eq!(rig.take_acts(), [""; 0]);
    assert_eq!(rig.told().hooks.len(), 1);
    rig.hook_ends("app#0", HookKind::PreStop, Ok(()));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM"]);
    assert!(rig.told().is_empty());
    rig.pass(s(10));
    assert!(rig.is("terminated"));
}

#[test]
fn a_pre_stop_that_hangs_is_given_up_with_the_grace() {
    let check = |begun: Option<Duration>, given_up: u64| {
        let mut rig = Rig::up(&pod(PRE_STOP));
        rig.wish(stop(None));
        let asked = ms_of(rig.now);
        if let Some(after) = begun {
            rig.pass(after);
            rig.hook_at(HookStep::Begun);
        }
        rig.pass(s(100));
        assert_eq!((rig.times("kill app#0 SIGTERM")[0] - asked) / 1000, given_up, "{begun:?}");
    };
    check(Some(ms(1)), 30);
    // Its time counts from its start: Docker was stopped for more than the grace.
    check(Some(s(45)), 75);
    // Docker does not start it.
    check(None, 60);
}

/// Regression: its sidecars were told to end together with it, and were gone before it.
#[test]
fn sidecars_wait_for_a_container_whose_pre_stop_used_up_the_grace() {
    for begun in [true, false] {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::ignores_term());
        rig.run(&pod(
            "{terminationGracePeriodSeconds: 9, containers: [{name: app, lifecycle: {preStop: {exec: {command: [x]}}}}], \
             initContainers: [{name: one, restartPolicy: Always}, {name: two, restartPolicy: Always}]}",
        ));
        rig.pass(s(5));
        rig.wish(stop(None));
        rig.pass(ms(1));
        if begun {
            rig.hook_at(HookStep::Begun);
        }
        rig.pass(s(60));
        let at = |call: &str| *rig.times(call).last().unwrap();
        let calls = ["kill app#0 SIGTERM", "kill app#0 SIGKILL", "kill two#0 SIGTERM", "kill POD#0 SIGTERM"];
        assert!(calls.map(at).is_sorted(), "{begun}: {:?}", rig.calls);
        assert_eq!((at(calls[1]) - at(calls[0])) / 1000, 2, "{begun}: {:?}", rig.calls);
        assert!(at("kill one#0 SIGTERM") - at(calls[2]) < 500, "{begun}: {:?}", rig.calls);
    }
}

/// Regression: a preStop hook whose container was being stopped while Docker was away for longer than the grace never ran.
#[test]
fn a_pre_stop_that_waits_for_docker_does_not_use_up_the_grace() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::ignores_term());
    rig.run(&pod(PRE_STOP));
    rig.pass(s(5));
    rig.wish(stop(None));
    let mut waits = |seconds: u64| {
        for _ in 0..seconds {
            rig.hook_at(HookStep::Waits);
            rig.pass(s(1));
        }
    };
    waits(100);
    assert_eq!((rig.times("kill").len(), rig.told().hooks.len()), (0, 1));
    let back = ms_of(rig.now);
    rig.pass(s(10));
    rig.hook_ends("app#0", HookKind::PreStop, Ok(()));
    rig.pass(s(60));
    let after = |call: &str| (rig.times(call)[0] - back) / 1000;
    assert_eq!((after("kill app#0 SIGTERM"), after("kill app#0 SIGKILL")), (10, 29), "{:?}", rig.calls);
}

#[test]
fn a_pre_stop_is_not_run_without_grace() {
    let mut rig = Rig::up(&pod(PRE_STOP));
    rig.take_acts();
    rig.wish(stop(Some(0)));
    rig.pass(ms(1));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM"]);
}

#[test]
fn a_shorter_order_cuts_a_pre_stop() {
    let mut rig = Rig::up(&pod(PRE_STOP));
    rig.wish(stop(None));
    rig.pass(s(5));
    rig.take_acts();
    rig.wish(stop(Some(1)));
    rig.pass(ms(1));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM"]);
}

#[test]
fn the_pre_stop_of_a_sidecar_begins_with_the_pod_s_stop() {
    let spec = "{terminationGracePeriodSeconds: 30, initContainers: [{name: mesh, restartPolicy: Always, \
        lifecycle: {preStop: {sleep: {seconds: 4}}}}], containers: [{name: app, \
        lifecycle: {preStop: {sleep: {seconds: 6}}}}]}";
    let mut rig = Rig::up(&pod(spec));
    rig.pass(s(5));
    rig.wish(stop(None));
    let asked = ms_of(rig.now);
    rig.pass(s(30));
    let times = ["kill app#0 SIGTERM", "kill mesh#0 SIGTERM"].map(|call| (rig.times(call)[0] - asked) / 1000);
    assert_eq!(times, [6, 6], "its four seconds were over when its turn came");
}

#[test]
fn the_pre_stop_of_a_pod_whose_manifest_is_gone_is_read_from_its_container() {
    let mut rig = Rig::up(&pod(PRE_STOP)).reborn();
    rig.wish(stop(None));
    rig.pass(s(2));
    assert_eq!(rig.told().hooks.len(), 1);
    rig.hook_ends("app#0", HookKind::PreStop, Err("x".into()));
    assert!(rig.logged(log::Level::Warn).join("\n").contains("FailedPreStopHook: PreStopHook failed"));
    rig.pass(s(5));
    assert!(rig.is("terminated"));
}

/// On a container of an older podkeeper, a hook may come from its image: the manifest counts.
#[test]
fn the_image_of_a_container_of_an_older_podkeeper_sends_no_request_from_the_host() {
    let get = r#"{"httpGet":{"host":"10.0.0.1","path":"/","port":80}}"#;
    let hooks = |said: &str, with_manifest: bool, spec: &str| {
        let mut rig = Rig::up(&pod(spec));
        let id = rig.id("app#0");
        rig.engine.relabel(&id, labels::PRE_STOP, said);
        rig.engine.relabel(&id, labels::SEALED, "");
        let mut rig = rig.reborn();
        if with_manifest {
            rig.run(&pod(spec));
            rig.pass(s(5));
        }
        rig.wish(stop(None));
        rig.pass(s(2));
        let hooks = rig.watched.last().map(|(_, watch)| watch.hooks.clone()).unwrap_or_default();
        hooks.iter().map(|hook| format!("{:?}", hook.action)).collect::<Vec<_>>().join(" ")
    };
    let plain = "{terminationGracePeriodSeconds: 30, containers: [{name: app}]}";
    assert_eq!(hooks(get, false, plain), "", "nobody can say whose it is");
    assert_eq!(hooks(get, true, plain), "", "the manifest has none");
    assert!(hooks(r#"{"exec":{"command":["x"]}}"#, false, plain).contains("Exec"), "its own affair");
    assert!(hooks(get, true, PRE_STOP).contains("Exec"), "the manifest's");
}

#[test]
fn news_are_bounded_and_the_latest_wins() {
    let mut rig = Rig::fresh();
    for n in 0..5000 {
        let (id, verdict) = (format!("c{n}"), Success);
        rig.slot.news(News::Probed { id, kind: Kind::Liveness, since: Mono::default(), verdict });
    }
    let probed =
        |verdict| News::Probed { id: "z".into(), kind: Kind::Liveness, since: Mono::default(), verdict };
    rig.slot.news(probed(Success));
    rig.slot.news(probed(Failure));
    let inbox = rig.slot.take();
    assert_eq!(inbox.news.len(), crate::base::limits::MAILBOX_NEWS);
    assert_eq!(inbox.news.iter().filter(|n| n.is_about(&probed(Success))).count(), 1);
    assert_eq!(inbox.news.last(), Some(&probed(Failure)));
}
