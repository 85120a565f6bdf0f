//! Tests of pods' cgroups, and of new resources for running containers.

use std::sync::Arc;

use super::rig::{Hurt, Rig, app, pod, pod_with, refusal, s, stop, timeout};
use crate::plan::testing::UID;
use crate::pod::DesiredPod;
use crate::runtime::{DockerState, RefusalKind};

/// One container `app` with these requests and limits, and `more` fields.
fn sized(cpu: &str, memory: &str, more: &str) -> Arc<DesiredPod> {
    pod(&format!(
        "{{containers: [{{name: app{more}, resources: {{requests: {{cpu: {cpu}}}, limits: {{memory: {memory}}}}}}}]}}"
    ))
}

fn told(rig: &mut Rig) -> Vec<String> {
    let all = std::mem::take(&mut rig.cgroups.told);
    let words = |told: Result<crate::cgroup::PodCgroup, String>| match told {
        Ok(c) => format!("{} {} {:?}", c.uid, c.values.cpu_shares, c.values.memory),
        Err(uid) => format!("no {uid}"),
    };
    all.into_iter().map(words).collect()
}

#[test]
fn a_cgroup_is_there_before_anything_is_made_in_it_and_goes_after_the_last() {
    let mut rig = Rig::fresh();
    rig.run(&app());
    rig.pass_until("create POD#0");
    assert_eq!(told(&mut rig), [format!("{UID} 2 None")]);
    rig.pass(s(5));
    let parents: Vec<_> = rig.engine.containers().map(|c| c.body.host_config.cgroup_parent.clone()).collect();
    assert_eq!(parents, vec![format!("/kubepods/besteffort/pod{UID}"); 2]);
    rig.wish(stop(None));
    rig.pass_until("remove app#0");
    assert!(told(&mut rig).is_empty());
    rig.pass(s(10));
    assert_eq!(told(&mut rig), [format!("no {UID}")]);
}

#[test]
fn another_uid_has_another_cgroup() {
    let mut rig = Rig::up(&app());
    rig.run(&pod_with("uid-2", "{containers: [{name: app}]}"));
    rig.pass(s(20));
    assert_eq!(told(&mut rig), [format!("{UID} 2 None"), "uid-2 2 None".to_owned(), format!("no {UID}")]);
}

#[test]
fn a_pod_that_has_ended_needs_none_and_what_an_earlier_daemon_made_is_removed() {
    let spec = "{restartPolicy: Never, containers: [{name: app, image: busybox}]}";
    let mut rig = Rig::up(&pod(spec));
    let id = rig.id("app#0");
    let now = rig.now();
    rig.engine.crash(&id, 0, now);
    rig.pass(s(20));
    assert_eq!(told(&mut rig), [format!("{UID} 2 None"), format!("no {UID}")]);
    rig.pass(s(600));
    assert_eq!(told(&mut rig), [] as [&str; 0]);
    // The container was found without its manifest.
    let mut rig = Rig::up(&app()).reborn();
    told(&mut rig);
    rig.wish(stop(None));
    rig.pass(s(20));
    assert_eq!(told(&mut rig), [format!("no {UID}")]);
}

#[test]
fn sizes_change_in_place_and_the_pods_cgroup_has_room_first() {
    let mut rig = Rig::up(&sized("1", "64Mi", ""));
    rig.take_calls();
    told(&mut rig);
    rig.run(&sized("500m", "128Mi", ""));
    rig.pass_until("update app#0");
    assert_eq!(told(&mut rig), [format!("{UID} 1024 Some(134217728)")], "the larger of both");
    rig.pass(s(10));
    assert_eq!(told(&mut rig), [format!("{UID} 512 Some(134217728)")]);
    assert_eq!(rig.take_acts(), ["update app#0"]);
    let host = &rig.engine.get(&rig.id("app#0")).unwrap().body.host_config;
    assert_eq!(
        (host.resources.cpu_shares, host.resources.memory, host.resources.memory_swap),
        (Some(512), Some(128 << 20), Some(128 << 20))
    );
    assert!(rig.logged(log::Level::Info).iter().any(|line| line.contains("ResizeCompleted")));
    // The next daemon has nothing to do.
    let mut rig = rig.reborn();
    rig.run(&sized("500m", "128Mi", ""));
    rig.pass(s(600));
    assert_eq!(rig.take_acts(), [] as [&str; 0]);
    // A daemon that finds other resources than wanted changes them.
    let mut rig = rig.reborn();
    rig.run(&sized("500m", "64Mi", ""));
    rig.pass(s(600));
    assert_eq!(rig.take_acts(), ["update app#0"]);
}

#[test]
fn a_restart_where_it_is_asked_for() {
    let policy = ", resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]";
    let mut rig = Rig::up(&sized("1", "64Mi", policy));
    rig.take_calls();
    rig.run(&sized("2", "64Mi", policy));
    rig.pass(s(10));
    assert_eq!(rig.take_acts(), ["update app#0"]);
    rig.run(&sized("2", "32Mi", policy));
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), ["kill app#0 SIGTERM", "create app#1", "start app#1"]);
    assert_eq!(rig.engine.get(&rig.id("app#1")).unwrap().body.host_config.resources.memory, Some(32 << 20));
}

/// The rows of `kuberuntime_manager_test.go` in which a policy asks for a restart.
#[test]
fn a_restart_is_for_the_resource_whose_policy_asks_for_it() {
    let restarted = ["kill app#0 SIGTERM", "create app#1", "start app#1"];
    let check = |resource: &str, cpu: &str, memory: &str, expected: &[&str]| {
        let policy =
            format!(", resizePolicy: [{{resourceName: {resource}, restartPolicy: RestartContainer}}]");
        let mut rig = Rig::up(&sized("1", "64Mi", &policy));
        rig.take_calls();
        rig.run(&sized(cpu, memory, &policy));
        rig.pass(s(60));
        assert_eq!(rig.take_acts(), expected, "{resource}: {cpu} {memory}");
    };
    check("cpu", "2", "128Mi", &restarted);
    check("memory", "2", "128Mi", &restarted);
    check("cpu", "1", "128Mi", &["update app#0"]);
    check("memory", "2", "64Mi", &["update app#0"]);
    check("memory", "1", "64Mi", &[]);
}

#[test]
fn what_docker_refuses_is_told_once_and_tried_again() {
    let mut rig = Rig::up(&sized("1", "64Mi", ""));
    rig.take_calls();
    rig.hurt("update", 3, Hurt::Says(refusal(RefusalKind::Server, 500, "device or resource busy")));
    rig.run(&sized("1", "32Mi", ""));
    rig.pass(s(2));
    let condition = |rig: &Rig| {
        let conditions = rig.last_status().conditions.unwrap_or_default();
        conditions.into_iter().find(|c| c.type_ == "PodResizeInProgress")
    };
    let shown = condition(&rig).unwrap();
    assert_eq!(
        (shown.reason.as_deref(), shown.message.as_deref()),
        (Some("Error"), Some("device or resource busy"))
    );
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), ["update app#0"; 4]);
    assert_eq!(condition(&rig), None);
    let told = rig.logged(log::Level::Warn).into_iter().filter(|line| line.contains("ResizeError")).count();
    assert_eq!(told, 1);
    assert_eq!(rig.running().len(), 2);
}

#[test]
fn an_update_without_an_answer_is_made_again_after_a_look() {
    let mut rig = Rig::up(&sized("1", "64Mi", ""));
    rig.take_calls();
    rig.hurt("update", 1, Hurt::DoneBut(timeout()));
    rig.run(&sized("1", "32Mi", ""));
    rig.pass(s(120));
    let memory = rig.engine.get(&rig.id("app#0")).unwrap().body.host_config.resources.memory;
    assert_eq!(memory, Some(32 << 20));
    assert_eq!(rig.running().len(), 2);
    assert!(rig.take_acts().iter().all(|act| act == "update app#0"));
}

#[test]
fn the_user_of_an_image_is_asked_for_once_for_each_attempt() {
    let spec = "{containers: [{name: app, image: busybox, securityContext: {runAsGroup: 7}}]}";
    let mut rig = Rig::up(&pod(spec));
    let user = |rig: &Rig, words: &str| rig.engine.get(&rig.id(words)).unwrap().body.user.clone();
    assert_eq!(user(&rig, "app#0").as_deref(), Some("0:7"));
    let id = rig.id("app#0");
    let now = rig.now();
    rig.engine.crash(&id, 1, now);
    rig.pass(s(30));
    assert_eq!(user(&rig, "app#1").as_deref(), Some("0:7"));
    // It may not run as root, and nothing is made.
    let spec = "{containers: [{name: app, image: busybox, securityContext: {runAsNonRoot: true}}]}";
    let mut rig = Rig::up(&pod(spec));
    rig.pass(s(600));
    assert_eq!(rig.in_state(DockerState::Running).len(), 1);
    let why = "CreateContainerConfigError: container has runAsNonRoot and image will run as root (pod: ";
    assert!(rig.waits("app").starts_with(why), "{}", rig.waits("app"));
    let looks = rig.calls.iter().filter(|(_, words)| words == "image").count();
    assert!((15..40).contains(&looks), "{looks} looks in ten minutes");
    // A missing image is pulled first.
    let spec = "{containers: [{name: app, image: other, imagePullPolicy: IfNotPresent, securityContext: {runAsGroup: 7}}]}";
    let mut rig = Rig::up(&pod(spec));
    rig.pass(s(30));
    assert_eq!(rig.pulls.len(), 1);
}

#[test]
fn what_could_not_be_sent_is_no_fault_of_docker() {
    let mut rig = Rig::fresh();
    let why = "seccomp: cannot load seccomp profile \"/root/seccomp/x.json\": No such file or directory";
    rig.hurt("create app#0", 2, Hurt::Says(refusal(RefusalKind::NotSent, 0, why)));
    rig.run(&app());
    rig.pass(s(1));
    assert!(
        rig.waits("app").starts_with(&format!("CreateContainerConfigError: {why}")),
        "{}",
        rig.waits("app")
    );
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
}
