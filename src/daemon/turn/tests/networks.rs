//! Pods that run on another network than the flag names.

use super::rig::{Rig, config, pod, pod_of};
use crate::daemon::config::Config;
use crate::network::{DockerNetwork, NetworkConfig};

/// A node whose pods belong on this network.
fn node(named: Option<&str>) -> Rig {
    let docker_network = named.map(|name| DockerNetwork { name: name.into(), cidrs: Vec::new() });
    Rig::with(Config { network: NetworkConfig { docker_network, ..NetworkConfig::default() }, ..config() })
}

/// The number of events about it, and the problems.
fn told(rig: &Rig) -> (u32, Vec<String>) {
    let all = rig.turn.events();
    let events = all.iter().filter(|kept| kept.event.reason == "NetworkKept").map(|kept| kept.count).sum();
    (events, rig.snapshot().problems.iter().map(ToString::to_string).collect())
}

#[test]
fn a_pod_that_runs_is_told_that_it_keeps_its_network() {
    let says = |has: &str, now: &str| {
        format!(
            "/m/a.yaml: pod default/a: The pod stays on the Docker network {has}, on which its sandbox was made, {now}: \
             it moves when its sandbox is made anew, by drain and resume, say"
        )
    };
    let check = |named: Option<&str>, on: &str, expected: Option<&str>| {
        let mut rig = node(named);
        let (old, app) = (format!("a/a-1/POD running on {on}"), "a/a-1/app running");
        rig.want(&[pod("a"), pod_of("h", "{hostNetwork: true, containers: [{name: app}]}")]);
        rig.list(&[&old, app, "h/h-1/POD running on host"]);
        rig.seen("a", &[&old, app]);
        let expected = expected.map(|now| says(on, now));
        let first = (u32::from(expected.is_some()), expected.into_iter().collect::<Vec<_>>());
        assert_eq!(told(&rig), first, "{named:?} {on}");
        rig.list(&[&old, app, "h/h-1/POD running on host"]);
        assert_eq!(told(&rig), first, "told once");
        // Its sandbox is made again: this counts even before Docker's next list.
        let new = format!("a/a-1/POD#1 running on {}", named.unwrap_or("bridge"));
        rig.seen("a", &[&new, app]);
        assert_eq!(told(&rig), (first.0, Vec::new()));
        rig.list(&[&new, app]);
        assert_eq!(told(&rig), (first.0, Vec::new()));
    };
    check(Some("pods"), "bridge", Some("and --docker-network names pods now"));
    check(Some("pods"), "other", Some("and --docker-network names pods now"));
    check(None, "pods", Some("which --docker-network does not name any more"));
    check(Some("pods"), "pods", None);
    check(Some("pods"), "other+pods", None);
    check(None, "aaa+bridge", None);
    check(None, "bridge", None);
    check(None, "podman", None);
}
