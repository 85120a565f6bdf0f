//! Tests of sandboxes that network plugins attach.

use super::rig::{Rig, app, pod, s, stop};
use crate::cni::networks::Ready;
use crate::machine::{Hint, Report};

fn orders(rig: &Rig) -> Vec<&'static str> {
    rig.files.plugins.orders.iter().map(|(_, order)| *order).collect()
}

fn up() -> Rig {
    let mut rig = Rig::fresh_with_plugins();
    rig.run(&app());
    rig.pass(s(10));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
    rig
}

fn ip(rig: &Rig) -> String {
    rig.last_status().pod_ip.unwrap_or_default()
}

#[test]
fn a_pod_is_attached_before_it_starts_and_taken_off_before_its_sandbox_ends() {
    let mut rig = Rig::fresh_with_plugins();
    const TELLS: &str = "env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]";
    rig.run(&pod(&format!(
        "{{containers: [{{name: app, {TELLS}, ports: [{{containerPort: 80, hostPort: 8080}}]}}]}}"
    )));
    rig.pass(s(10));
    let attached = rig.files.plugins.orders[0].0;
    let at = |rig: &Rig, call: &str| rig.calls.iter().find(|(_, words)| words == call).map(|(at, _)| *at);
    assert!(at(&rig, "start POD#0").unwrap() < attached && attached < at(&rig, "start app#0").unwrap());
    assert_eq!(rig.engine.get(&rig.id("app#0")).unwrap().body.env, ["A=10.244.0.1"]);
    let sandbox = &rig.engine.get(&rig.id("POD#0")).unwrap().body;
    assert_eq!(sandbox.host_config.namespaces.network_mode, "none");
    assert!(sandbox.host_config.port_bindings.is_empty() && sandbox.exposed_ports.is_empty());
    assert_eq!(ip(&rig), "10.244.0.1");
    // An inspect without an address changes nothing.
    rig.hint(Hint::Changed(rig.id("POD#0")));
    rig.pass(s(5));
    assert_eq!((ip(&rig).as_str(), orders(&rig)), ("10.244.0.1", vec!["attach"]));
    rig.wish(stop(Some(2)));
    rig.pass(s(60));
    assert_eq!(orders(&rig), ["attach", "detach"]);
    let detached = rig.files.plugins.orders[1].0;
    assert!(at(&rig, "kill POD#0 SIGTERM").is_some_and(|killed| detached < killed), "{:?}", rig.calls);
    assert!(rig.files.plugins.held.is_empty() && rig.engine.containers().next().is_none());
}

#[test]
fn without_a_network_only_pods_of_the_host_s_start() {
    let mut rig = Rig::fresh_with_plugins();
    rig.files.plugins.ready = Ready::Unknown;
    rig.run(&app());
    rig.pass(s(5));
    assert!(rig.running().is_empty() && rig.log.is_empty(), "{:?}", rig.log);
    rig.files.plugins.ready = Ready::No("cni config uninitialized".to_owned());
    rig.pass(s(60));
    let message = "network is not ready: container runtime network not ready: NetworkReady=false \
        reason:NetworkPluginNotReady message:docker: network plugin is not ready: cni config uninitialized";
    assert_eq!(rig.waits("app"), format!("ContainerCreating: {message}"));
    assert_eq!(rig.log.iter().filter(|(.., line)| line.contains("NetworkNotReady")).count(), 1);
    assert!(rig.take_calls().iter().all(|call| !call.starts_with("create")));
    rig.files.plugins.ready = Ready::Yes;
    rig.pass(s(10));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
    let mut rig = Rig::fresh_with_plugins();
    rig.files.plugins.ready = Ready::No(String::new());
    rig.run(&pod("{hostNetwork: true, containers: [{name: app}]}"));
    rig.pass(s(10));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
    assert!(orders(&rig).is_empty());
}

#[test]
fn the_next_daemon_finds_the_address_before_it_says_anything() {
    let mut rig = up().reborn().found();
    rig.files.plugins.hang = true;
    rig.run(&app());
    rig.pass(s(5));
    assert!(rig.reports.iter().all(|report| !format!("{report:?}").contains("Status")), "{:?}", rig.reports);
    let mut rig = up().reborn();
    rig.run(&app());
    rig.pass(s(10));
    assert_eq!((ip(&rig).as_str(), orders(&rig)), ("10.244.0.1", vec!["attach", "attach"]));
    assert_eq!(rig.running(), ["POD#0", "app#0"].map(String::from).into());
}

#[test]
fn a_sandbox_that_lost_what_plugins_gave_it_is_made_anew() {
    let mut rig = up();
    let sandbox = rig.id("POD#0");
    rig.files.plugins.lost.insert(sandbox);
    let mut rig = rig.reborn();
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#1", "app#1"].map(String::from).into());
    assert_eq!((ip(&rig).as_str(), rig.files.plugins.held.len()), ("10.244.0.2", 1));
}

#[test]
fn what_fails_is_told_and_tried_again() {
    let mut rig = Rig::fresh_with_plugins();
    rig.files.plugins.broken = Some("plugin type=\"bridge\" failed (add): no".to_owned());
    rig.run(&app());
    rig.pass(s(20));
    assert_eq!(rig.running(), ["POD#0"].map(String::from).into());
    assert!(
        rig.waits("app").ends_with("Failed to create pod sandbox: plugin type=\"bridge\" failed (add): no")
    );
    assert!((3..6).contains(&orders(&rig).len()), "{:?}", orders(&rig));
    // Detaching is retried for ever, but the sandbox is stopped after a while.
    rig.pass(s(600));
    assert!(!rig.running().contains("POD#0"));
    rig.files.plugins.broken = None;
    rig.pass(s(120));
    assert!(rig.running().iter().any(|name| name.starts_with("app#")), "{:?}", rig.running());
    assert_eq!(rig.files.plugins.held.len(), 1);
}

#[test]
fn what_cannot_be_taken_off_holds_no_pod_up_and_is_tried_again() {
    let mut rig = up();
    rig.files.plugins.stuck = Some("plugin type=\"bridge\" failed (delete): no".to_owned());
    rig.wish(stop(Some(2)));
    rig.pass(s(60));
    assert!(rig.running().is_empty());
    let told = "networkPlugin cni failed to teardown pod \\\"web-node_default\\\" network: plugin";
    assert_eq!(rig.log.iter().filter(|(.., line)| line.contains(told)).count(), 1, "{:?}", rig.log);
    // Its sandbox stays as the mark that it is still attached.
    assert_eq!(rig.engine.containers().count(), 1);
    rig.run(&app());
    rig.pass(s(20));
    assert!(rig.running().iter().any(|name| name.starts_with("app#")), "{:?}", rig.running());
    rig.files.plugins.stuck = None;
    rig.pass(s(120));
    assert_eq!(rig.files.plugins.held.len(), 1);
}

/// The worker ended, and the knowledge with it: the pod's address was not free before the daemon's next start.
#[test]
fn what_cannot_be_taken_off_of_a_pod_that_is_gone_is_tried_again() {
    let mut rig = up();
    rig.files.plugins.stuck = Some("plugin type=\"bridge\" failed (delete): no".to_owned());
    let (sandbox, now) = (rig.id("POD#0"), rig.now());
    rig.engine.remove_behind_our_back(&sandbox, now);
    rig.wish(stop(Some(2)));
    rig.pass(s(120));
    assert_eq!(rig.engine.containers().count(), 0, "{:?}", rig.calls);
    let is_gone = |rig: &Rig| rig.reports.iter().any(|report| matches!(report, Report::Gone(_)));
    assert!(!is_gone(&rig) && rig.files.plugins.held.len() == 1);
    rig.files.plugins.stuck = None;
    rig.pass(s(120));
    assert!(is_gone(&rig) && rig.files.plugins.held.is_empty());
}

#[test]
fn a_plugin_that_hangs_holds_the_end_up_for_a_while_alone() {
    let mut rig = up();
    rig.files.plugins.hang = true;
    rig.wish(stop(Some(2)));
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0"].map(String::from).into());
    rig.pass(s(60));
    assert!(rig.running().is_empty(), "{:?} {:?}", rig.calls, rig.files.plugins.orders);
}

#[test]
fn what_somebody_killed_or_removed_is_taken_off() {
    for removed in [false, true] {
        let mut rig = up();
        let sandbox = rig.id("POD#0");
        let now = rig.now();
        if removed {
            rig.engine.remove_behind_our_back(&sandbox, now);
        } else {
            rig.engine.crash(&sandbox, 137, now);
        }
        rig.hint(if removed { Hint::Removed(sandbox) } else { Hint::Changed(sandbox) });
        rig.pass(s(60));
        let sandbox = if removed { "POD#0" } else { "POD#1" };
        assert_eq!(rig.running(), [sandbox, "app#1"].map(String::from).into());
        assert_eq!((rig.files.plugins.held.len(), ip(&rig).as_str()), (1, "10.244.0.2"));
        assert_eq!(orders(&rig).iter().filter(|order| **order == "detach").count(), 1);
    }
}

#[test]
fn what_vanished_while_the_daemon_was_away_is_taken_off() {
    let rig = up();
    let (sandbox, now) = (rig.id("POD#0"), rig.now());
    // The list that the daemon started with still had it.
    let mut rig = rig.reborn().found();
    rig.engine.remove_behind_our_back(&sandbox, now);
    rig.run(&app());
    rig.pass(s(60));
    assert_eq!(rig.running(), ["POD#0", "app#1"].map(String::from).into());
    assert_eq!(rig.files.plugins.held.keys().collect::<Vec<_>>(), [&rig.id("POD#0")]);
}
