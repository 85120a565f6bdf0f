//! Tests that volumes are ready before the sandbox and removed after the last container, in all cases.

use std::sync::Arc;

use super::rig::{Hurt, Rig, ms, ms_of, pod, pod_with, s, stop};
use crate::machine::output::Report;
use crate::machine::{Hint, Input, Token};
use crate::pod::DesiredPod;
use crate::pod::object::testing::{config_map, snapshot};
use crate::volumes::Failure;

fn with_volume() -> Arc<DesiredPod> {
    pod("{containers: [{name: app}], volumes: [{name: v, configMap: {name: c}}]}")
}

fn failure(why: &str, usable: bool) -> Failure {
    Failure { volume: "v".into(), why: why.into(), usable }
}

fn orders(rig: &mut Rig) -> Vec<String> {
    std::mem::take(&mut rig.volumes.orders).into_iter().map(|(_, words)| words).collect()
}

#[test]
fn set_up_first_and_taken_down_last() {
    let mut rig = Rig::fresh();
    rig.run(&with_volume());
    rig.pass(ms(500));
    assert_eq!(orders(&mut rig), ["set up"]);
    assert_eq!(rig.status(), "Running, app: running");
    rig.wish(stop(Some(0)));
    rig.pass_until("kill app#0 SIGTERM");
    assert_eq!(orders(&mut rig), [""; 0], "not while anything runs");
    rig.pass(s(10));
    assert_eq!(orders(&mut rig), ["tear down"]);
    assert!(rig.machine.state() == &crate::machine::State::Terminated);
    // Without volumes there are no orders.
    let mut rig = Rig::fresh();
    rig.run(&super::rig::app());
    rig.pass(s(1));
    rig.wish(stop(Some(0)));
    rig.pass(s(10));
    assert_eq!(orders(&mut rig), [""; 0]);
}

/// On a dead file system neither ends. No other event would show why the pod does not start, or does not end.
#[test]
fn work_on_volumes_that_hangs_is_told_once() {
    let mut rig = Rig::fresh();
    rig.volumes.hang = true;
    rig.run(&with_volume());
    rig.pass(s(100));
    assert_eq!(rig.waits("app"), "ContainerCreating: ");
    rig.pass(s(30));
    let told = "the volumes are not set up after 120 s: a file system may hang; podkeeper goes on waiting";
    assert_eq!(rig.waits("app"), format!("ContainerCreating: {told}"));
    rig.pass(s(3600));
    let events = |rig: &Rig| -> Vec<String> {
        let all = rig.log.iter().filter(|(_, level, _)| *level == log::Level::Warn);
        all.map(|(_, _, line)| line.clone()).filter(|line| line.contains("ount")).collect()
    };
    let set_up = events(&rig);
    assert!(set_up.len() == 1 && set_up[0].contains(&format!("FailedMount: {told}")), "{set_up:?}");
    let mut rig = Rig::up(&with_volume());
    rig.volumes.hang = true;
    rig.wish(stop(Some(0)));
    rig.pass(s(3600));
    let taken_down = events(&rig);
    let told = "the volumes are not taken down after 120 s: they have very many files, or a file system hangs; podkeeper goes on";
    assert!(
        taken_down.len() == 1 && taken_down[0].contains(&format!("FailedUnMount: {told}")),
        "{taken_down:?}"
    );
}

/// A container that an earlier daemon made, and may have started, would miss its volumes.
#[test]
fn not_taken_down_while_a_start_may_come_late() {
    for removable in [true, false] {
        let mut rig = Rig::fresh();
        rig.hurt("start app#0", u32::MAX, Hurt::Says(super::rig::timeout()));
        rig.run(&with_volume());
        rig.pass_until("start app#0");
        let mut rig = rig.reborn();
        rig.run(&with_volume());
        rig.hurt("remove app#0", u32::MAX, Hurt::Says(super::rig::timeout()));
        rig.pass(ms(500));
        orders(&mut rig);
        rig.wish(stop(Some(0)));
        rig.pass(s(30));
        assert_eq!(orders(&mut rig), [""; 0], "its start may come: {:?}", rig.calls);
        if removable {
            rig.heal();
        }
        rig.pass(s(90));
        assert_eq!(orders(&mut rig), ["tear down"], "removable: {removable}, {:?}", rig.calls);
    }
}

#[test]
fn a_failure_is_told_and_tried_again_ever_more_slowly() {
    let mut rig = Rig::fresh();
    rig.volumes.broken = vec![failure("configmap \"c\" not found", false)];
    rig.run(&with_volume());
    rig.pass(s(8));
    assert_eq!(rig.take_acts(), [""; 0], "not even a sandbox");
    let times: Vec<u64> = rig.volumes.orders.iter().map(|(at, _)| ms_of(*at)).collect();
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(gaps, [501, 1001, 2001, 4001]);
    let words = "MountVolume.SetUp failed for volume \"v\" : configmap \"c\" not found";
    assert_eq!(rig.waits("app"), format!("ContainerCreating: {words}"));
    assert!(rig.logged(log::Level::Warn).iter().any(|line| line.contains(&format!("FailedMount: {words}"))));
    rig.pass(s(1000));
    let times: Vec<u64> = rig.volumes.orders.iter().map(|(at, _)| ms_of(*at)).collect();
    assert_eq!(times[times.len() - 1] - times[times.len() - 2], 122_001);
    // What goes on is told once, and another failure is another event.
    let told =
        |rig: &Rig| rig.logged(log::Level::Warn).iter().filter(|it| it.contains("FailedMount")).count();
    assert_eq!(told(&rig), 1);
    rig.volumes.broken = vec![failure("configmap \"c\" has no key \"k\"", false)];
    rig.pass(s(1000));
    assert_eq!(told(&rig), 2);
    // A change of objects does not wait for the retry.
    rig.volumes.broken.clear();
    rig.give(snapshot(&config_map("c", "{k: v}")));
    rig.pass(ms(500));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(rig.waits("app"), "");
}

/// A pod that waits longer and longer for its volumes is removed at once when it is not wanted any more.
#[test]
fn tear_down_does_not_wait_for_the_next_set_up() {
    let mut rig = Rig::fresh();
    rig.volumes.broken = vec![failure("configmap \"c\" not found", false)];
    rig.run(&with_volume());
    rig.pass(s(1000));
    orders(&mut rig);
    rig.wish(stop(None));
    rig.pass(ms(100));
    assert_eq!(orders(&mut rig), ["tear down"]);
    assert!(rig.machine.state() == &crate::machine::State::Terminated);
    assert!(rig.at_rest());
}

/// An earlier daemon set them up. Docker is silent until another version of the pod is wanted, and by then no container
/// is left with the first one's UID.
#[test]
fn those_of_a_pod_that_changes_before_docker_answers_are_taken_down() {
    let mut rig = Rig::fresh().reborn();
    rig.engine.set_down(true);
    rig.run(&with_volume());
    rig.pass(s(10));
    rig.run(&pod_with("u2", "{containers: [{name: app}]}"));
    rig.pass(s(10));
    assert_eq!(orders(&mut rig), [""; 0], "nothing is known yet");
    rig.engine.set_down(false);
    rig.hint(Hint::All);
    rig.pass(s(5));
    assert_eq!(orders(&mut rig), ["tear down"]);
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn a_changed_object_is_followed_and_restarts_nothing() {
    let mut rig = Rig::fresh();
    rig.slot.objects(snapshot(&config_map("c", "{k: v}")));
    rig.run(&with_volume());
    rig.pass(s(1));
    rig.take_calls();
    orders(&mut rig);
    rig.give(snapshot(&config_map("c", "{k: w}")));
    rig.pass(ms(50));
    assert_eq!(orders(&mut rig), ["set up"]);
    // The object is gone: the existing files are used, also for the next container.
    rig.volumes.broken = vec![failure("configmap \"c\" not found", true)];
    rig.give(Arc::default());
    rig.pass(ms(50));
    let id = rig.id("app#0");
    rig.by_hand(&crate::runtime::Call::Kill { id, signal: "KILL".into() });
    rig.pass(s(20));
    assert_eq!(rig.take_acts(), ["create app#1", "start app#1"]);
}

#[test]
fn another_uid_s_volumes_go_while_the_new_ones_come() {
    let mut rig = Rig::up(&with_volume());
    orders(&mut rig);
    let new = pod_with("new", "{containers: [{name: app}], volumes: [{name: v, emptyDir: {}}]}");
    rig.volumes.busy = Err("device or resource busy".into());
    rig.run(&new);
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    let told = orders(&mut rig);
    assert_eq!(told.iter().filter(|words| *words == "set up new").count(), 1, "{told:?}");
    assert!(told.iter().filter(|words| *words == "tear down").count() > 3, "{told:?}");
    let freed = |rig: &Rig| rig.reports.iter().any(|report| matches!(report, Report::Freed(..)));
    assert!(!freed(&rig), "its volumes are there");
    rig.volumes.busy = Ok(());
    rig.pass(s(130));
    assert!(freed(&rig));
    orders(&mut rig);
    rig.pass(s(300));
    assert_eq!(orders(&mut rig), [""; 0], "once it worked, that was all");
    let warned = rig.logged(log::Level::Warn);
    assert_eq!(
        warned.iter().filter(|line| line.contains("FailedUnMount: volumes cannot be taken down")).count(),
        1,
        "{warned:?}"
    );
}

#[test]
fn the_next_daemon_sets_up_again_what_it_finds_and_ends_what_nobody_wants() {
    let rig = Rig::up(&with_volume());
    let mut rig = rig.reborn();
    rig.volumes.orders.clear();
    rig.run(&with_volume());
    rig.pass(s(1));
    assert_eq!(orders(&mut rig), ["set up"]);
    assert_eq!(rig.take_acts(), [""; 0]);
    // The container was found without its manifest.
    let mut rig = rig.reborn();
    rig.wish(stop(Some(0)));
    rig.pass(s(10));
    assert_eq!(orders(&mut rig), ["tear down"]);
}

#[test]
fn a_pod_that_ended_gives_its_volumes_back() {
    let mut rig = Rig::up(&pod(
        "{restartPolicy: Never, containers: [{name: app}], volumes: [{name: v, emptyDir: {}}]}",
    ));
    orders(&mut rig);
    let id = rig.id("app#0");
    rig.by_hand(&crate::runtime::Call::Kill { id, signal: "TERM".into() });
    rig.pass(s(60));
    assert_eq!(orders(&mut rig), ["tear down"]);
    assert!(rig.status().starts_with("Succeeded") || rig.status().starts_with("Failed"), "{}", rig.status());
}

/// Regression: a socket of the host that its server had made anew was never bound again, and no container of the pod could
/// start any more.
#[test]
fn paths_of_the_host_that_are_bound_are_bound_again_for_the_next_container() {
    let volumes = "volumes: [{name: v, hostPath: {path: /run/s.sock, type: Socket}}]";
    let pod = pod(&format!("{{containers: [{{name: app}}], {volumes}}}"));
    let crash = |rig: &mut Rig| {
        orders(rig);
        let id = rig.id("app#0");
        rig.by_hand(&crate::runtime::Call::Kill { id, signal: "KILL".into() });
        rig.pass(s(60));
        assert_eq!(rig.status(), "Running, app: running");
        orders(rig)
    };
    let mut behind = Rig::fresh_behind();
    behind.run(&pod);
    behind.pass(s(5));
    assert_eq!(crash(&mut behind), ["set up"]);
    // Docker resolves the path of others itself.
    let mut rig = Rig::fresh();
    rig.run(&pod);
    rig.pass(s(5));
    assert_eq!(crash(&mut rig), [""; 0]);
}

/// Regression: the records of a hundred ended containers filled a disk, for Docker writes six bytes for one `<`.
#[test]
fn the_record_of_a_container_behind_others_is_bounded() {
    let with = |length: usize| {
        let value = "<".repeat(length);
        pod(&format!("{{containers: [{{name: app, env: [{{name: A, value: '{value}'}}]}}]}}"))
    };
    let runs = |mut rig: Rig, length: usize| {
        rig.run(&with(length));
        rig.pass(s(5));
        rig.status()
    };
    assert_eq!(runs(Rig::fresh_behind(), 40_000), "Running, app: running");
    assert_eq!(runs(Rig::fresh(), 50_000), "Running, app: running");
    let mut behind = Rig::fresh_behind();
    behind.run(&with(50_000));
    behind.pass(s(5));
    let why = behind.waits("app");
    let words = "CreateContainerConfigError: its environment, command, arguments and mounts take 3";
    assert!(why.starts_with(words), "{why}");
    // A path of a mount is written four times, and the hundred of a container took 2 MB.
    let paths = |count: usize| {
        let mount = |n: usize| format!("{{name: v, mountPath: /{}{n}}}", "m".repeat(4000));
        let mounts: Vec<String> = (0..count).map(mount).collect();
        let mounts = mounts.join(", ");
        pod(&format!(
            "{{volumes: [{{name: v, emptyDir: {{}}}}], containers: [{{name: app, volumeMounts: [{mounts}]}}]}}"
        ))
    };
    let mut behind = Rig::fresh_behind();
    behind.run(&paths(20));
    behind.pass(s(5));
    assert!(behind.waits("app").starts_with(words), "{}", behind.waits("app"));
    // Docker keeps each command that a probe has run for minutes: fifteen of 250 KB took 2 GB.
    let probed = |value: &str| {
        let exec = format!("{{periodSeconds: 1, exec: {{command: [sh, -c, 'exit 0', '{value}']}}}}");
        pod(&format!(
            "{{containers: [{{name: app, env: [{{name: A, value: {}}}], readinessProbe: {exec}}}]}}",
            "a".repeat(3_000)
        ))
    };
    let probes = |mut rig: Rig, value: &str| {
        rig.run(&probed(value));
        rig.pass(s(5));
        (rig.status(), rig.waits("app"))
    };
    let (_, why) = probes(Rig::fresh_behind(), "$(A)$(A)");
    let words = "CreateContainerConfigError: the command of its readinessProbe takes 6074 bytes";
    assert!(why.starts_with(words), "{why}");
    assert_eq!(probes(Rig::fresh_behind(), "$(A)").0, "Running, app: running");
    assert_eq!(probes(Rig::fresh(), "$(A)$(A)").0, "Running, app: running");
    // What a sandbox is asked to open is in its record, too.
    let sysctl = format!("{{name: kernel.shm_rmid_forced, value: '{}'}}", "<".repeat(50_000));
    let mut behind = Rig::fresh_behind();
    behind.run(&pod(&format!("{{securityContext: {{sysctls: [{sysctl}]}}, containers: [{{name: app}}]}}")));
    behind.pass(s(5));
    assert_eq!(behind.times("create POD").len(), 0);
}

#[test]
fn what_cannot_be_prepared_is_not_created() {
    let mut rig = Rig::fresh();
    rig.hurt("create app#0", 9, super::rig::Hurt::Slow(s(9)));
    rig.run(&with_volume());
    rig.pass_until("create app#0");
    let secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {k: hunter2pass}}";
    rig.slot.objects(crate::pod::object::testing::snapshot(secret));
    rig.step();
    let why =
        "failed to prepare subPath for volumeMount \"v\": \"a/hunter2pass\": it leads out of the volume";
    let now = rig.now();
    let told = (0..100).map(Token).find_map(|token| {
        rig.machine.handle(Input::Unprepared(token, why.to_owned()), &now);
        let out = format!("{:?}", rig.machine.step(&now).out);
        out.contains("prepare subPath").then_some(out)
    });
    let told = told.unwrap();
    assert!(told.contains("a/<secret>") && told.contains("it leads out of the volume"), "{told}");
    assert!(!told.contains("hunter2pass"), "{told}");
}

/// Regression: a removal of a pod's files ended after a container of the same pod, given again, had been asked for. Docker refused
/// that one, the pod was dropped, and nobody freed the directory: another pod of the UID never started.
#[test]
fn what_is_asked_for_during_a_removal_is_removed_too() {
    let mut rig = Rig::up(&with_volume());
    let uid = with_volume().uid.clone();
    rig.volumes.hang = true;
    rig.wish(stop(Some(0)));
    rig.pass(s(20));
    assert_eq!(orders(&mut rig), ["set up", "tear down"]);
    // As the create of a container does whose image declares a volume.
    rig.machine.volumes.may_have(&uid);
    rig.volumes.hang = false;
    let now = rig.now();
    let torn_down = crate::volumes::Report::TornDown { uid: uid.clone(), result: Ok(()) };
    rig.machine.handle(Input::Volumes(torn_down), &now);
    assert!(rig.machine.volumes.uids().any(|known| *known == uid));
    rig.step();
    rig.pass(s(20));
    assert_eq!(orders(&mut rig), ["tear down"]);
    assert!(rig.machine.state() == &crate::machine::State::Terminated);
}
