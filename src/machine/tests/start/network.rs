//! Tests of addresses in environments, hosts files before starts, files that are removed with their pod, and containers
//! that were added by hand.

use super::rig::{Hurt, Rig, app, pod, pod_with, refusal, s, stop};
use crate::machine::{Hint, Wish};
use crate::mapping::ephemeral::{Ephemeral, Place, body};
use crate::runtime::fake::Field;
use crate::runtime::{Call, RefusalKind, Reply};

fn env(rig: &Rig, container: &str) -> Vec<String> {
    rig.engine.get(&rig.id(container)).unwrap().body.env.clone()
}

const TELLS: &str = "env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]";
const TELLS_NODE: &str = "env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}]";

#[test]
fn a_container_that_tells_the_pods_address_is_made_when_it_is_known() {
    let mut rig = Rig::fresh();
    rig.run(&pod(&format!("{{containers: [{{name: app, {TELLS}}}, {{name: other}}]}}")));
    rig.pass(s(5));
    let calls = rig.take_calls();
    let at = |call: &str| calls.iter().position(|c| c == call).unwrap();
    assert!(at("create other#0") < at("inspect POD#0"), "{calls:?}");
    assert!(at("inspect POD#0") < at("create app#0"), "{calls:?}");
    let ip = rig.last_status().pod_ip.unwrap();
    assert_eq!(env(&rig, "app#0"), [format!("A={ip}")]);
}

#[test]
fn a_sandbox_that_lost_its_network_is_made_anew() {
    let mut rig = Rig::up(&app());
    let sandbox = rig.id("POD#0");
    rig.engine.disconnect(&sandbox);
    rig.hint(Hint::Changed(sandbox));
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#1", "app#1"].map(String::from).into());
    assert!(rig.last_status().pod_ip.is_some());
    // The daemon after the one that saw the address.
    let mut rig = Rig::up(&app());
    let sandbox = rig.id("POD#0");
    rig.engine.disconnect(&sandbox);
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#1", "app#1"].map(String::from).into());
    // The host's network cannot be lost.
    let mut rig = Rig::up(&pod("{hostNetwork: true, containers: [{name: app}]}"));
    let sandbox = rig.id("POD#0");
    rig.engine.disconnect(&sandbox);
    rig.hint(Hint::Changed(sandbox));
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
}

#[test]
fn k2062_an_engine_that_tells_no_network_is_no_reason_for_another_sandbox() {
    let mut rig = Rig::fresh();
    rig.engine.drop_inspect_fields(&[Field::Ips]);
    rig.run(&app());
    rig.pass(s(5));
    let sandbox = rig.id("POD#0");
    rig.hint(Hint::Changed(sandbox));
    rig.pass(s(60));
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
}

#[test]
fn a_container_does_not_start_beside_a_hosts_file_that_is_wrong() {
    let mut rig = Rig::fresh();
    rig.files.disk_full = Some("/pods/uid-1/etc-hosts cannot be written: No space left on device".to_owned());
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0"].map(String::from).into());
    assert_eq!(
        rig.waits("app"),
        format!("CreateContainerConfigError: {}", rig.files.disk_full.as_ref().unwrap())
    );
    let line = "Failed: Error: /pods/uid-1/etc-hosts cannot be written: No space left on device";
    assert!(rig.logged(log::Level::Warn).iter().any(|l| l.contains(line)), "{:?}", rig.log);
    // It is made once, and started once there is space.
    rig.files.disk_full = None;
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    assert_eq!(rig.take_acts().iter().filter(|call| call.starts_with("create app")).count(), 1);
}

#[test]
fn the_nodes_addresses_are_asked_for_each_time() {
    let mut rig = Rig::fresh();
    rig.files.addresses = vec!["192.0.2.7".into(), "fd00::7".into()];
    rig.run(&pod(&format!("{{containers: [{{name: app, {TELLS_NODE}}}]}}")));
    rig.pass(s(5));
    assert_eq!(env(&rig, "app#0"), ["A=192.0.2.7,fd00::7"]);
    rig.files.addresses = vec!["192.0.2.8".into()];
    rig.by_hand(&Call::Kill { id: rig.id("app#0"), signal: "KILL".into() });
    rig.pass(s(30));
    assert_eq!(env(&rig, "app#1"), ["A=192.0.2.8"]);
    // Under host network the node's addresses are the pod's.
    let mut rig = Rig::fresh();
    rig.run(&pod(&format!("{{hostNetwork: true, containers: [{{name: app, {TELLS}}}]}}")));
    rig.pass(s(5));
    assert_eq!(env(&rig, "app#0"), ["A=192.0.2.2"]);
}

#[test]
fn a_node_without_an_address_is_waited_for() {
    let mut rig = Rig::fresh();
    rig.files.addresses.clear();
    rig.run(&pod(&format!("{{containers: [{{name: app, {TELLS_NODE}}}]}}")));
    rig.pass(s(5));
    assert_eq!(rig.waits("app"), "CreateContainerConfigError: host IP unknown; known addresses: []");
    rig.files.addresses = vec!["192.0.2.2".into()];
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
}

#[test]
fn the_hosts_file_says_the_address_before_the_start() {
    let rig = Rig::up(&app());
    let ip = rig.last_status().pod_ip.unwrap();
    let last = rig.files.hosts.last().unwrap();
    assert!(last.text.ends_with(&format!("{ip}\tweb-node\n")), "{last:?}");
    assert_eq!(rig.files.hosts.len(), 1);
    let mounts = "volumeMounts: [{name: v, mountPath: /etc/hosts}]";
    let rig = Rig::up(&pod(&format!("{{containers: [{{name: app, {mounts}}}]}}")));
    assert_eq!(rig.files.hosts, [], "it brings its own");
}

/// An engine that cannot inspect a sandbox must not keep its containers from starting.
#[test]
fn an_address_that_is_never_told_holds_nothing_up() {
    let mut rig = Rig::fresh();
    let no = refusal(RefusalKind::Server, 500, "no inspections today");
    rig.hurt("inspect POD", 1000, Hurt::Says(no));
    rig.run(&app());
    rig.pass(s(30));
    assert_eq!(rig.running().len(), 2);
}

#[test]
fn files_go_with_their_pod() {
    let mut rig = Rig::up(&app());
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(rig.files.forgotten, ["uid-1"]);
    // The same for a pod that is replaced, and for one whose containers somebody removed.
    let mut rig = Rig::up(&app());
    rig.run(&pod_with("uid-2", "{containers: [{name: app}]}"));
    rig.pass(s(60));
    assert_eq!(rig.files.forgotten, ["uid-1"]);
    for name in ["uid-2/app#0", "uid-2/POD#0"] {
        rig.by_hand(&Call::Remove { id: rig.id(name), force: true });
    }
    rig.wish(Wish::Stop(crate::machine::StopOrder::new(None, "gone")));
    rig.pass(s(60));
    assert_eq!(rig.files.forgotten, ["uid-1", "uid-2"]);
}

#[test]
fn a_name_that_is_too_long_is_told_once() {
    let long = "x".repeat(63);
    let mut rig = Rig::fresh();
    let spec = format!("hostname: {long}, subdomain: sub, setHostnameAsFQDN: true");
    rig.run(&pod(&format!("{{containers: [{{name: app}}], {spec}}}")));
    rig.pass(s(600));
    assert_eq!(rig.take_acts(), [""; 0]);
    assert!(rig.waits("app").contains("failed to construct FQDN"), "{}", rig.waits("app"));
    let told = rig.ring.all().iter().filter(|k| k.event.reason == "FailedCreatePodSandBox").count();
    assert_eq!(told, 1);
}

/// Makes and starts a container like `podkeeper debug`.
fn debug(rig: &mut Rig, name: &str) -> String {
    let sandbox = rig.engine.get(&rig.id("POD#0")).unwrap().clone();
    let container = k8s_openapi::api::core::v1::Container {
        name: name.to_owned(),
        image: Some("busybox".to_owned()),
        ..Default::default()
    };
    let wanted = Ephemeral {
        pod: &app(),
        container: &container,
        target: None,
        hosts: None,
        place: Place::default(),
        node_memory: 1 << 30,
        oom_floor: -1000,
    };
    let body = Box::new(body(&wanted, &sandbox.id, &sandbox.body.labels).0);
    let full = sandbox.name.replace("POD", name);
    let now = rig.now();
    let Ok(Reply::Created { id, .. }) = rig.engine.perform(&Call::Create { name: full, body }, now) else {
        panic!("it is not made");
    };
    id
}

fn added(rig: &Rig) -> Vec<String> {
    let status = rig.last_status();
    let list = status.ephemeral_container_statuses.into_iter().flatten();
    let words = list.map(|c| {
        let state = c.state.unwrap();
        let ended = state.terminated.map(|t| format!("ended {}", t.exit_code));
        let state =
            ended.unwrap_or(if state.running.is_some() { "running".into() } else { "waiting".into() });
        format!("{}: {state}", c.name)
    });
    words.collect()
}

#[test]
fn an_added_container_is_adopted_and_never_started_again() {
    let mut rig = Rig::up(&app());
    rig.take_calls();
    let id = debug(&mut rig, "look");
    // The daemon may see it before it is started.
    rig.hint(crate::machine::Hint::All);
    rig.pass(s(5));
    assert_eq!(rig.take_acts(), [""; 0], "it is not in the way");
    rig.by_hand(&Call::Start { id: id.clone() });
    rig.pass(s(5));
    assert_eq!(added(&rig), ["look: running"]);
    assert_eq!(rig.status(), "Running, app: running");
    rig.by_hand(&Call::Kill { id, signal: "KILL".into() });
    rig.pass(s(600));
    assert_eq!(added(&rig), ["look: ended 137"]);
    assert_eq!(rig.take_acts(), [""; 0], "kept for its log");
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.take_acts(), [""; 0], "also by the next daemon");
    assert_eq!(added(&rig), ["look: ended 137"]);
}

#[test]
fn an_added_container_ends_with_its_sandbox_and_goes_with_its_pod() {
    let mut rig = Rig::up(&app());
    let id = debug(&mut rig, "look");
    rig.by_hand(&Call::Start { id });
    rig.pass(s(5));
    rig.by_hand(&Call::Kill { id: rig.id("POD#0"), signal: "KILL".into() });
    rig.pass(s(60));
    assert_eq!(rig.status(), "Running, app: running");
    assert!(rig.running().contains("POD#1") && !rig.running().contains("look#0"), "{:?}", rig.running());
    assert_eq!(added(&rig), ["look: ended 0"], "as long as the pod lives");
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(added(&rig), ["look: ended 0"], "the next daemon tells it too");
    rig.wish(stop(None));
    rig.pass(s(60));
    assert_eq!(rig.engine.containers().count(), 0);
}

/// Both containers use the node's addresses, and the first is refused.
#[test]
fn a_container_that_is_refused_does_not_use_up_the_nodes_addresses() {
    let refused = "securityContext: {runAsNonRoot: true, runAsUser: 0}";
    let both =
        format!("{{containers: [{{name: bad, {refused}, {TELLS_NODE}}}, {{name: app, {TELLS_NODE}}}]}}");
    let mut rig = Rig::fresh();
    rig.run(&pod(&both));
    rig.pass(s(5));
    assert!(rig.running().contains("app#0"), "{:?}", rig.running());
}
