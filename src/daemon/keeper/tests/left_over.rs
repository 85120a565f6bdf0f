//! Containers of evicted pods that Docker does not remove.

use serde_json::json;

use super::*;
use crate::base::clock::Now;

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

/// Regression: a pod whose manifest had gone left 400,000 links in a volume, and innocent pods were evicted while they
/// were removed.
#[test]
fn the_files_of_a_pod_that_is_gone_are_awaited_while_a_disk_is_short() {
    let mut rig = Rig::new("keeper-leaving", vec![at_least(Signal::NodeFs, Amount::Units(1))]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    let uid = node.pods[0].pod.uid.clone();
    let volumes = crate::layout::volumes_dir(&rig.root, &uid).unwrap();
    fs::create_dir_all(&volumes).unwrap();
    let now = rig.rounds.parts.clock.now().mono;
    let mut awaits = |node: &Snapshot, signal| rig.rounds.awaits_evicted(signal, node, &[], now);
    assert!(!awaits(&node, Signal::NodeFs), "it stays");
    // It could still be told to hurry.
    (node.pods[0].leaving, node.pods[0].is_kept) = (Some(crate::base::clock::Timestamp::UNIX_EPOCH), true);
    let ended = |running: bool| {
        let state = if running { json!({"running": {}}) } else { json!({"terminated": {"exitCode": 0}}) };
        let status = json!({"containerStatuses": [{"name": "app", "image": "", "imageID": "", "ready": false,
            "restartCount": 0, "state": state}]});
        Arc::new(serde_json::from_value(status).unwrap())
    };
    node.pods[0].status = ended(true);
    assert!(!awaits(&node, Signal::NodeFs), "it runs");
    node.pods[0].status = ended(false);
    assert!(!awaits(&node, Signal::Memory), "files are no memory");
    assert!(awaits(&node, Signal::NodeFs));
    // It is not shown any more while its files are removed.
    let mut rig = Rig::new("keeper-removing", vec![at_least(Signal::NodeFs, Amount::Units(1))]);
    fs::create_dir_all(crate::layout::volumes_dir(&rig.root, &uid).unwrap()).unwrap();
    node.removing = [uid].into();
    node.pods.clear();
    assert!(!rig.rounds.awaits_evicted(Signal::Memory, &node, &[], now));
    assert!(rig.rounds.awaits_evicted(Signal::NodeFs, &node, &[], now));
}

/// Regression: innocent pods were evicted while a daemon removed the files of a pod that had gone before it began.
#[test]
fn files_that_a_sweep_removes_are_awaited_while_a_disk_is_short() {
    let mut rig = Rig::new("keeper-swept", vec![at_least(Signal::NodeFs, Amount::Units(1))]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    node.pods.clear();
    fs::create_dir_all(crate::layout::volumes_dir(&rig.root, "gone").unwrap()).unwrap();
    let now = rig.rounds.parts.clock.now().mono;
    assert!(!rig.rounds.awaits_evicted(Signal::NodeFs, &node, &[], now));
    let ends = rig.rounds.parts.ends.clone();
    ends.sweep(["empty".to_owned(), "gone".to_owned()].into());
    assert!(!rig.rounds.awaits_evicted(Signal::Memory, &node, &[], now), "files are no memory");
    assert!(rig.rounds.awaits_evicted(Signal::NodeFs, &node, &[], now));
    ends.step_swept();
    assert_eq!((ends.steps("gone"), ends.steps("empty")), (1, 0), "it is watched");
    // A refused pod is shown. One that came back and runs has other volumes, too, and is not spared if these hang.
    for running in [false, true] {
        let mut rig =
            Rig::new(&format!("keeper-swept-{running}"), vec![at_least(Signal::NodeFs, Amount::Units(1))]);
        let mut node = (*rig.rounds.parts.pods.get()).clone();
        let uid = node.pods[0].pod.uid.clone();
        fs::create_dir_all(crate::layout::gone_dir(&rig.root, &uid).unwrap()).unwrap();
        let state = if running { json!({"running": {}}) } else { json!({"waiting": {}}) };
        let status = json!({"phase": "Failed", "containerStatuses": [{"name": "app", "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "state": state}]});
        node.pods[0].status = Arc::new(serde_json::from_value(status).unwrap());
        rig.rounds.parts.ends.sweep([uid.clone()].into());
        assert!(rig.rounds.awaits_evicted(Signal::NodeFs, &node, &[], now), "{running}");
        let victim = rig.rounds.victims.values().next().unwrap();
        let names = victim.volumes.iter().map(|path| path.file_name().unwrap().to_str().unwrap());
        let expected = if running { &[crate::layout::GONE][..] } else { &["volumes", crate::layout::GONE] };
        assert_eq!(names.collect::<Vec<_>>(), expected);
        assert_eq!(
            rig.rounds.mind.ending(),
            Some(format!("{uid}{}", if running { "/gone" } else { "" }).as_str())
        );
    }
}

/// Regression: a pod ended by itself when the disk was short, and innocent pods were evicted while its files were removed.
#[test]
fn the_files_of_a_pod_that_has_ended_are_awaited_while_a_disk_is_short() {
    let mut rig = Rig::new("keeper-ended-files", vec![at_least(Signal::NodeFs, Amount::Units(1))]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    let volumes = crate::layout::volumes_dir(&rig.root, &node.pods[0].pod.uid).unwrap();
    fs::create_dir_all(&volumes).unwrap();
    let Now { mono: now, wall } = rig.rounds.parts.clock.now();
    let mut awaits = |node: &Snapshot, signal| rig.rounds.awaits_evicted(signal, node, &[], now);
    node.pods[0].is_told = true;
    for (phase, ago, expected) in [("Running", 0, false), ("Succeeded", 3600, false), ("Succeeded", 20, true)]
    {
        let at = wall.checked_sub(std::time::Duration::from_secs(ago)).unwrap().to_string();
        let state = json!({"terminated": {"exitCode": 0, "finishedAt": at}});
        let status = json!({"phase": phase, "containerStatuses": [{"name": "app", "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "state": state}]});
        node.pods[0].status = Arc::new(serde_json::from_value(status).unwrap());
        assert!(!awaits(&node, Signal::Memory), "files are no memory");
        assert_eq!(awaits(&node, Signal::NodeFs), expected, "{phase} {ago}");
    }
}
