//! Tests of the events of a machine, and of their order.

use log::Level;

use super::rig::{Hurt, Rig, app, ms, no_space, pod, refusal, s, stop, timeout};
use crate::plan::ProbeVerdict;
use crate::pod::object::testing::{secret, snapshot};
use crate::probe::prober::News;
use crate::probe::{HookKind, Kind};
use crate::recorder::List;
use crate::runtime::fake::{Behaviour, Pull};
use crate::runtime::{DockerError, RefusalKind};

/// Events such as `W Failed app: Error: … x2`, the last seen one at the end.
fn told(rig: &Rig) -> Vec<String> {
    let line = |kept: &std::sync::Arc<crate::recorder::ring::Kept>| {
        let event = &kept.event;
        let weight = event.weight.as_str().get(..1).unwrap();
        let name = event.subject.as_ref().map(|s| format!(" {}", s.name)).unwrap_or_default();
        let times = if kept.count > 1 { format!(" x{}", kept.count) } else { String::new() };
        format!("{weight} {}{name}: {}{times}", event.reason, event.message)
    };
    rig.ring.all().iter().map(line).collect()
}

const START: [&str; 3] = [
    "N Pulled app: Container image \"busybox\" already present on machine and can be accessed by the pod",
    "N Created app: Container created",
    "N Started app: Container started",
];

fn starts_with(rig: &Rig, expected: &[&str]) {
    let told = told(rig);
    assert_eq!(told.get(..expected.len()).unwrap_or(&told), expected, "{told:?}");
}

#[test]
fn a_life() {
    let rig = Rig::up(&app());
    assert_eq!(told(&rig), START);
    // A new daemon emits no event about existing containers.
    let mut rig = rig.reborn();
    rig.ring = crate::recorder::Ring::default();
    rig.run(&app());
    rig.pass(s(5));
    assert_eq!(told(&rig), [""; 0]);
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(told(&rig), ["N Killing app: Stopping container app"]);
}

/// Regression: containers that ran on were told as made and started again, when their manifest came back after a change in
/// Docker.
#[test]
fn what_is_adopted_is_not_told_again() {
    let mut rig = Rig::up(&app()).reborn().found_later();
    rig.ring = crate::recorder::Ring::default();
    rig.run(&app());
    rig.pass(s(5));
    assert_eq!(told(&rig), [""; 0]);
}

/// The event of a call without an answer.
fn lost(call: &str) -> String {
    let (verb, what) = call.split_once(' ').unwrap();
    let what = if what == "POD" { "the sandbox".to_owned() } else { format!("container {what}") };
    format!("W FailedSync: error syncing pod: {verb} of {what}: {}; tried again", timeout())
}

#[test]
fn answers_that_are_lost_are_told_when_they_are_found_out() {
    for call in ["create app", "start app", "create POD", "start POD"] {
        let mut rig = Rig::fresh();
        rig.hurt(call, 1, Hurt::DoneBut(timeout()));
        rig.run(&app());
        rig.pass(s(300));
        let lost = lost(call);
        let (syncs, rest): (Vec<_>, Vec<_>) = told(&rig).into_iter().partition(|line| *line == lost);
        assert_eq!((syncs.len(), rest), (1, START.map(str::to_owned).to_vec()), "{call}");
    }
}

#[test]
fn pulls() {
    let image = |policy: &str| {
        pod(&format!("{{containers: [{{name: app, image: 'web:1', imagePullPolicy: {policy}}}]}}"))
    };
    let mut rig = Rig::fresh();
    rig.run(&image("Always"));
    rig.pass(s(5));
    assert_eq!(
        told(&rig),
        [
            "N Pulling app: Pulling image \"web:1\"",
            "N Pulled app: Successfully pulled image \"web:1\" in 1s (1s including waiting). Image size: 1048576 \
             bytes.",
            "N Created app: Container created",
            "N Started app: Container started",
        ]
    );
    let mut rig = Rig::fresh();
    rig.engine.script_pull("web:1", Pull::Fails("manifest unknown".into()));
    rig.run(&image("IfNotPresent"));
    rig.pass(s(30));
    assert_eq!(
        told(&rig),
        [
            "N Pulling app: Pulling image \"web:1\" x2",
            "W Failed app: Failed to pull image \"web:1\": manifest unknown x2",
            "W Failed app: Error: ErrImagePull x2",
            "N BackOff app: Back-off pulling image \"web:1\" x2",
            "W Failed app: Error: ImagePullBackOff x2",
        ]
    );
    let mut rig = Rig::fresh();
    rig.run(&image("Never"));
    rig.pass(ms(500));
    let never = "Container image \"web:1\" is not present with pull policy of Never";
    assert_eq!(
        told(&rig),
        [format!("W ErrImageNeverPull app: {never}"), "W Failed app: Error: ErrImageNeverPull".to_owned()]
    );
}

#[test]
fn containers_of_one_image_are_told_each() {
    let mut rig = Rig::fresh();
    rig.run(&pod("{initContainers: [{name: side, image: 'web:1', restartPolicy: Always}], \
         containers: [{name: app, image: 'web:1', imagePullPolicy: IfNotPresent}]}"));
    rig.pass(s(10));
    let told = told(&rig);
    let of = |name: &str| told.iter().filter(|l| l.contains(&format!(" {name}: "))).count();
    assert_eq!((of("side"), of("app")), (4, 3), "{told:?}");
    assert!(told.contains(&"N Pulled app: Container image \"web:1\" already present on machine and can be accessed by the pod".to_owned()));
    assert!(rig.ring.all().iter().any(|k| k.event.subject.as_ref().is_some_and(|s| s.list == List::Init)));
}

#[test]
fn failures_of_docker() {
    let check = |call: &str, how: Hurt, expected: &[&str]| {
        let mut rig = Rig::fresh();
        rig.hurt(call, u32::MAX, how);
        rig.run(&app());
        rig.pass(s(3));
        starts_with(&rig, expected);
    };
    let error = no_space();
    check("create app", Hurt::Says(no_space()), &[&format!("W Failed app: Error: {error} x2")]);
    check(
        "create POD",
        Hurt::Says(no_space()),
        &[&format!("W FailedCreatePodSandBox: Failed to create pod sandbox: {error} x2")],
    );
    let cannot = || refusal(RefusalKind::CannotRun, 400, "exec: no such file");
    let words = format!("W Failed app: Error: {}", cannot());
    let mut rig = Rig::fresh();
    rig.hurt("start app", 1, Hurt::Says(cannot()));
    rig.run(&app());
    rig.pass(s(3));
    assert!(told(&rig).contains(&words), "{:?}", told(&rig));
}

/// The read-only port shows statuses without authentication.
#[test]
fn a_secret_in_the_name_of_a_program_is_in_no_status() {
    let mut rig = Rig::fresh();
    let error = "exec: \"/nosuch/hunter2pass\": stat /nosuch/hunter2pass: no such file or directory";
    rig.hurt("start app", u32::MAX, Hurt::Says(refusal(RefusalKind::CannotRun, 400, error)));
    rig.slot.objects(snapshot(&secret("s", "{k: hunter2pass}")));
    rig.run(&app());
    rig.pass(s(30));
    let reports = format!("{:?}", rig.reports);
    assert!(reports.contains("/nosuch/<secret>"), "{reports}");
    assert!(!reports.contains("hunter2pass"), "{reports}");
    // Regression: what had been made of it showed a value when the Secret had another one.
    rig.slot.objects(snapshot(&secret("s", "{k: another1}")));
    rig.pass(s(400));
    // Nor when objects without such values changed after it.
    let map = "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: plain}}";
    rig.slot.objects(snapshot(&format!("{}\n{map}", secret("s", "{k: another1}"))));
    rig.pass(s(400));
    let reports = format!("{:?} {}", rig.reports, rig.logged(Level::Warn).join("\n"));
    assert!(!reports.contains("hunter2pass"), "{reports}");
}

/// Docker may answer all other calls: only the pod's event reports it.
#[test]
fn a_call_of_the_pod_that_gets_no_answer() {
    for call in ["create POD", "start POD", "create app", "start app"] {
        let mut rig = Rig::fresh();
        rig.hurt(call, u32::MAX, Hurt::Says(timeout()));
        rig.run(&app());
        rig.pass(s(60));
        let words = lost(call);
        assert_eq!(told(&rig).iter().filter(|line| line.starts_with(&words)).count(), 1, "{:?}", told(&rig));
        assert!(rig.logged(Level::Warn).len() < 5, "{:?}", rig.logged(Level::Warn));
    }
    // While Docker is not reachable, the node's condition says so, and not each pod.
    let mut rig = Rig::fresh();
    rig.hurt("", u32::MAX, Hurt::Says(DockerError::Unreachable("nobody listens".into())));
    rig.run(&app());
    rig.pass(s(60));
    assert!(told(&rig).is_empty(), "{:?}", told(&rig));
}

#[test]
fn a_crash_loop() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(100)));
    let pod = app();
    rig.run(&pod);
    rig.pass(s(60));
    let back_off = format!(
        "W BackOff app: Back-off restarting failed container app in pod {}",
        crate::plan::backoff::pod_words(&pod)
    );
    let [pulled, created, started] = START;
    assert_eq!(
        told(&rig),
        [format!("{pulled} x4"), format!("{created} x4"), format!("{started} x4"), format!("{back_off} x3")]
    );
}

#[test]
fn a_sandbox_that_dies() {
    let mut rig = Rig::up(&app());
    let sandbox = rig.id("POD#0");
    rig.by_hand(&crate::runtime::Call::Kill { id: sandbox, signal: "SIGKILL".into() });
    rig.pass(s(60));
    let [pulled, created, started] = START;
    assert_eq!(
        told(&rig),
        [
            "N SandboxChanged: Pod sandbox changed, it will be killed and re-created.".to_owned(),
            "N Killing app: Stopping container app".to_owned(),
            format!("{pulled} x2"),
            format!("{created} x2"),
            format!("{started} x2"),
        ]
    );
}

#[test]
fn probes_and_hooks() {
    let mut rig =
        Rig::up(&pod("{containers: [{name: app, image: busybox, livenessProbe: {exec: {command: [a]}}, \
         lifecycle: {postStart: {exec: {command: [b]}}}}]}"));
    let id = rig.id("app#0");
    for _ in 0..3 {
        let text = "Liveness probe failed: no\n".to_owned();
        rig.slot.news(News::Said { id: id.clone(), kind: Kind::Liveness, reason: "Unhealthy", text });
        rig.step();
    }
    rig.slot.news(News::Hooked { id: id.clone(), kind: HookKind::PostStart, result: Err("x".into()) });
    rig.step();
    assert_eq!(
        told(&rig).get(3..).unwrap(),
        [
            "W Unhealthy app: Liveness probe failed: no x3",
            "W FailedPostStartHook app: PostStartHook failed: x",
            "N Killing app: FailedPostStartHook",
        ]
    );
    // The same for a container that a probe kills.
    let mut rig =
        Rig::up(&pod("{containers: [{name: app, image: busybox, livenessProbe: {exec: {command: [a]}}}]}"));
    let news = rig.news("app#0", Kind::Liveness, ProbeVerdict::Failure);
    rig.slot.news(news);
    rig.step();
    assert_eq!(
        told(&rig).last().unwrap(),
        "N Killing app: Container app failed liveness probe, will be restarted"
    );
}

/// Errors of a pod are in its events, not only in the log.
#[test]
fn an_inspect_that_fails_is_an_event() {
    let one = |rig: &Rig, begin: &str| {
        let told = told(rig);
        assert_eq!(told.iter().filter(|line| line.starts_with(begin)).count(), 1, "{begin}: {told:?}");
    };
    let mut rig = Rig::fresh();
    rig.hurt("inspect app#0", 3, Hurt::Says(timeout()));
    rig.run(&app());
    rig.pass(s(300));
    one(&rig, "W FailedSync app: error determining status: container ");
}

#[test]
fn warnings_of_docker_are_events_of_what_it_made() {
    let mut rig = Rig::fresh();
    let swap = "Your kernel does not support swap limit capabilities";
    rig.hurt("create POD#0", 1, Hurt::Warns(vec!["no bridge filter".into()]));
    let many = (0..20).map(|n| format!("{swap} {n}")).collect();
    rig.hurt("create app#0", 1, Hurt::Warns(many));
    rig.run(&app());
    rig.pass(s(5));
    let warnings: Vec<String> =
        told(&rig).into_iter().filter(|line| line.contains("DockerWarning")).collect();
    let (of_pod, of_app) = warnings.split_first().unwrap();
    assert_eq!(of_pod, "W DockerWarning: Docker warns: no bridge filter");
    let expected: Vec<String> = (0..crate::base::limits::WARNINGS_PER_CREATE)
        .map(|n| format!("W DockerWarning app: Docker warns: {swap} {n}"))
        .collect();
    assert_eq!(of_app, expected, "as many as are told of one create");
    assert!(rig.status().starts_with("Running"), "{}", rig.status());
}
