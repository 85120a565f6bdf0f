//! Tests that facts about one run of a container do not count for its next one: the same container, started by hand.

use super::rig::{Hurt, Rig, app, ms, pod, s};
use crate::plan::ProbeVerdict::{Failure, Success};
use crate::probe::Kind;
use crate::runtime::{Call, DockerError};

const PROBES: &str = "{containers: [{name: app, \
    startupProbe: {tcpSocket: {port: 80}}, readinessProbe: {tcpSocket: {port: 80}}, \
    livenessProbe: {tcpSocket: {port: 80}}}]}";

impl Rig {
    /// `docker restart`: the machine gets both events after both have happened.
    fn restart(&mut self, words: &str) {
        let id = self.id(words);
        let now = self.now();
        self.engine.crash(&id, 0, now);
        self.by_hand(&Call::Start { id });
    }

    /// Delivers a probe's result of the present run.
    fn answered(&mut self, words: &str, kind: Kind, verdict: crate::plan::ProbeVerdict) {
        let news = self.news(words, kind, verdict);
        self.slot.news(news);
        self.step();
    }

    fn started_and_ready(&self) -> (Option<bool>, bool) {
        let status = self.last_status();
        let app = status.container_statuses.into_iter().flatten().next().unwrap();
        (app.started, app.ready)
    }
}

#[test]
fn what_probes_said_of_one_run_says_nothing_of_the_next() {
    let mut rig = Rig::up(&pod(PROBES));
    rig.answered("app#0", Kind::Startup, Success);
    rig.answered("app#0", Kind::Readiness, Success);
    assert_eq!(rig.started_and_ready(), (Some(true), true));
    let before = rig.watched.last().unwrap().1.targets[0].clone();
    let late = rig.news("app#0", Kind::Readiness, Success);
    rig.restart("app#0");
    rig.pass(s(1));
    assert_eq!(rig.started_and_ready(), (Some(false), false));
    let after = rig.watched.last().unwrap().1.targets[0].clone();
    assert!(after.id == before.id && after.started > before.started, "its probes begin anew");
    // A result of the earlier run arrives late.
    rig.slot.news(late);
    rig.step();
    rig.answered("app#0", Kind::Startup, Success);
    assert_eq!(rig.started_and_ready(), (Some(true), false));
}

#[test]
fn an_adopted_container_that_is_started_by_hand_is_not_ready_by_assumption() {
    let mut rig = Rig::up(&pod(PROBES)).reborn();
    rig.run(&pod(PROBES));
    rig.pass(s(5));
    assert_eq!(rig.started_and_ready(), (Some(true), true));
    rig.restart("app#0");
    rig.pass(s(1));
    assert_eq!(rig.started_and_ready(), (Some(false), false));
}

#[test]
fn a_kill_that_a_probe_asked_for_is_not_for_the_run_after_it() {
    let mut rig = Rig::up(&pod(PROBES));
    rig.engine.behave("app", crate::runtime::fake::Behaviour::ignores_term());
    rig.restart("app#0");
    rig.pass(s(1));
    rig.answered("app#0", Kind::Startup, Success);
    rig.answered("app#0", Kind::Liveness, Failure);
    rig.pass(s(1));
    assert_eq!(rig.take_acts().last().unwrap(), "kill app#0 SIGTERM");
    rig.restart("app#0");
    rig.pass(s(100));
    assert_eq!(rig.take_acts(), [""; 0], "nobody has asked the new one yet");
}

/// Somebody starts it during its back-off, and it ends again.
#[test]
fn the_last_words_and_the_back_off_are_those_of_the_last_run() {
    let mut rig = Rig::up(&pod("{containers: [{name: app, terminationMessagePath: /dev/termination-log}]}"));
    let crash = |rig: &mut Rig, words: &str| {
        let (id, now) = (rig.id(words), rig.now());
        rig.engine.crash(&id, 3, now);
        rig.pass(s(2));
    };
    crash(&mut rig, "app#0");
    rig.files.last_words.insert("app#1".into(), Ok("first".into()));
    crash(&mut rig, "app#1");
    let told = |rig: &Rig| {
        let app = rig.last_status().container_statuses.unwrap().remove(0);
        app.last_state.unwrap().terminated.unwrap().message.unwrap_or_default()
    };
    assert_eq!(told(&rig), "first");
    rig.by_hand(&Call::Start { id: rig.id("app#1") });
    rig.pass(s(3));
    rig.files.last_words.insert("app#1".into(), Ok("second".into()));
    let ended = rig.now;
    crash(&mut rig, "app#1");
    assert_eq!(told(&rig), "second");
    let again = rig.pass_until("create app#2");
    assert!(again.since(ended) >= s(10), "{:?}", again.since(ended));
}

/// Its containers are in namespaces that are gone.
#[test]
fn a_sandbox_that_was_started_again_by_hand_is_replaced() {
    for spec in ["{containers: [{name: app}]}", "{hostNetwork: true, containers: [{name: app}]}"] {
        let mut rig = Rig::up(&pod(spec));
        rig.restart("POD#0");
        rig.pass(s(60));
        assert_eq!(rig.running(), ["POD#1".to_owned(), "app#1".to_owned()].into(), "{:?}", rig.calls);
    }
}

#[test]
fn a_start_whose_answer_was_lost_means_what_an_answered_one_means() {
    let hooked =
        "{containers: [{name: app, lifecycle: {postStart: {exec: {command: [x]}}}}, {name: second}]}";
    for lost in [DockerError::Lost("reset".into()), super::rig::timeout()] {
        let mut rig = Rig::fresh();
        rig.hurt("start POD#0", 1, Hurt::DoneBut(lost.clone()));
        rig.hurt("start app#0", 1, Hurt::DoneBut(lost));
        rig.run(&pod(hooked));
        rig.pass(s(60));
        assert_eq!(rig.running(), ["POD#0".to_owned(), "app#0".to_owned()].into(), "{:?}", rig.calls);
        assert_eq!(rig.watched.last().unwrap().1.hooks.len(), 1, "its postStart runs");
    }
}

#[test]
fn a_sandbox_that_dies_young_counts_though_the_answer_to_its_start_was_lost() {
    let mut rig = Rig::fresh();
    rig.hurt("start POD", u32::MAX, Hurt::DoneBut(DockerError::Lost("reset".into())));
    rig.engine.behave("POD", crate::runtime::fake::Behaviour::exits(1, ms(1500)));
    rig.run(&app());
    rig.pass(s(3600));
    let tries = rig.calls.iter().filter(|(_, words)| words.starts_with("create POD")).count();
    assert!((80..200).contains(&tries), "{tries} sandboxes in an hour");
}
