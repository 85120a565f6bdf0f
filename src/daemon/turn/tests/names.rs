//! Several manifests that claim one name.

use std::sync::Arc;

use super::rig::{Rig, acts, pod};

/// `cp web.yaml web-copy.yaml`, with another content: the running pod keeps the name, whatever the names of
/// the files, also after a restart of the daemon.
#[test]
fn k136962_who_runs_keeps_the_name_after_a_restart() {
    let (first, second) = (pod("web/one in /m/a.yaml"), pod("web/two in /m/b.yaml"));
    for (running, kept) in [("one", "one"), ("two", "two")] {
        for spoke_first in [true, false] {
            let mut rig = Rig::new();
            let there = format!("web/{running}/app running");
            let both = [Arc::clone(&first), Arc::clone(&second)];
            let effects = if spoke_first {
                rig.want(&both);
                rig.list(&[&there])
            } else {
                rig.list(&[&there]);
                rig.want(&both)
            };
            assert_eq!(acts(effects), ["spawn web".to_owned(), format!("run web/{kept}")], "{running}");
            assert_eq!(rig.snapshot().problems.len(), 2, "both are told: {:?}", rig.snapshot().problems);
        }
    }
}

#[test]
fn k136962_the_loser_goes_unnoticed_and_takes_over_when_the_winner_goes() {
    let (first, second) = (pod("web/one in /m/a.yaml"), pod("web/two in /m/b.yaml"));
    let mut rig = Rig::listed();
    assert_eq!(acts(rig.want(&[Arc::clone(&first)])), ["spawn web, empty", "run web/one"]);
    assert_eq!(acts(rig.want(&[Arc::clone(&first), Arc::clone(&second)])), [""; 0]);
    assert_eq!(acts(rig.want(&[Arc::clone(&first)])), [""; 0], "the loser is deleted");
    rig.want(&[Arc::clone(&first), Arc::clone(&second)]);
    assert_eq!(acts(rig.want(&[second])), ["run web/two"], "one wish: the worker replaces the old life");
    assert!(rig.snapshot().problems.is_empty());
}

/// The worker replaces a running pod when the only manifest of its name is another one.
#[test]
fn k112814_changed_while_the_daemon_was_dead() {
    let mut rig = Rig::new();
    rig.want(&[pod("web/two")]);
    assert_eq!(acts(rig.list(&["web/one/POD running", "web/one/app running"])), ["spawn web", "run web/two"]);
}

#[test]
fn the_manifest_that_does_not_get_the_name_is_told_once_in_the_log_with_both_files() {
    let (first, second) = (pod("web/one in /m/a.yaml"), pod("web/two in /m/b.yaml"));
    let told = |effects: Vec<String>| -> Vec<String> {
        effects.into_iter().filter(|line| line.starts_with("ERROR")).collect()
    };
    let says = |loser: &str, holder: &str| {
        format!(
            "ERROR: /m/{loser}.yaml: pod default/web: the name is held by the pod from /m/{holder}.yaml, which keeps it; \
             this one is ignored until that one is gone or renamed"
        )
    };
    let both = [Arc::clone(&first), Arc::clone(&second)];
    let mut rig = Rig::listed();
    assert_eq!(told(rig.want(&both)), [says("b", "a")]);
    assert_eq!(told(rig.want(&[first.clone(), second.clone(), pod("other")])), [""; 0], "told once");
    rig.want(&[first]);
    assert_eq!(told(rig.want(&both)), [says("b", "a")], "it is back");
    // Docker shows which of them runs, and its list comes first.
    let mut rig = Rig::new();
    assert_eq!(told(rig.want(&both)), [""; 0]);
    assert_eq!(told(rig.list(&["web/two/app running"])), [says("a", "b")]);
}
