//! Containers of evicted pods that Docker does not remove.

use super::*;

/// Regression: the status of an evicted pod names no containers, so its layer was not emptied while Docker, asked to
/// remove the container, did not answer; and innocent pods were evicted.
#[test]
fn containers_of_an_evicted_pod_are_left_over_until_the_shortage_ends() {
    let mut rig = Rig::new("keeper-left-over", vec![at_least(Signal::Pid, Amount::Units(100))]);
    write(&rig.root.join("proc/loadavg"), "0 0 0 1/950 1\n");
    let before = rig.rounds.parts.pods.get();
    let pod = Arc::clone(&before.pods[0].pod);
    let all = ended::of_pod(&before, &pod.uid);
    assert_eq!(all.values().collect::<Vec<_>>(), [&pod.key]);
    assert!(ended::of_pod(&before, "another").is_empty());
    rig.rounds.left_over.push((pod.uid.clone(), all.clone()));
    rig.look();
    assert!(rig.rounds.over(&before).is_empty(), "it runs");
    let mut node = (*before).clone();
    node.pods[0].is_told = true;
    node.pods[0].status = Arc::new(PodStatus { phase: Some("Failed".into()), ..PodStatus::default() });
    assert_eq!(rig.rounds.over(&node), all);
    node.pods.clear();
    assert_eq!(rig.rounds.over(&node), all, "its manifest is gone, too");
    write(&rig.root.join("proc/loadavg"), "0 0 0 1/100 1\n");
    rig.look();
    assert!(rig.rounds.over(&node).is_empty());
}
