//! Removal of the files of pods that have no worker: an earlier daemon has left them.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::json;

use super::cluster;
use super::evicted::{eviction, later, running};
use super::rig::{Rig, pod, with_port};
use super::uids::two;
use crate::base::clock::Timestamp;
use crate::base::table::{Set, Table};
use crate::daemon::turn::{Earlier, Event};
use crate::pod::Source;
use crate::source::{FromSource, PodSet, SourceUpdate};

const WEB: &str = "web/web-1/app running";

/// The files of vanished pods are removed once: when every source has reported. Found and wanted pods keep
/// their files.
#[test]
fn what_is_left_on_disk_is_swept_once() {
    let mut rig = Rig::new();
    rig.list(&[WEB]);
    assert!(rig.sweeps.is_empty(), "the source has not spoken");
    rig.fail("no such directory");
    rig.list(&[WEB]);
    assert!(rig.sweeps.is_empty());
    rig.want(&[pod("a")]);
    let [swept] = rig.sweeps.as_slice() else { panic!("{:?}", rig.sweeps) };
    assert_eq!(swept.pods, ["a-1".to_owned(), "web-1".to_owned()].into());
    assert_eq!(swept.containers.len(), 1, "{swept:?}");
    rig.want(&[]);
    assert_eq!(rig.sweeps.len(), 1);
    // A found pod without a manifest may be gone without a worker having seen it.
    rig.list(&[]);
    assert_eq!(rig.sweeps.len(), 2);
    assert!(!rig.sweeps[1].pods.contains("web-1"), "{:?}", rig.sweeps[1]);
    rig.list(&[]);
    assert_eq!(rig.sweeps.len(), 2);
}

/// Regression: an earlier daemon had made the directory of a pod that this one refused; it stayed after the pod's
/// manifest had gone.
#[test]
fn the_files_of_a_refused_pod_are_swept_after_it_has_gone() {
    let mut rig = Rig::listed();
    rig.want(&[with_port("a", 80), with_port("b", 80)]);
    rig.list(&[]);
    let before = rig.sweeps.len();
    assert!(
        !rig.sweeps.last().unwrap().pods.contains("b-1"),
        "an earlier daemon may have been removing them"
    );
    rig.want(&[with_port("a", 80)]);
    rig.list(&[]);
    assert_eq!(rig.sweeps.len(), before + 1);
    assert!(!rig.sweeps.last().unwrap().pods.contains("b-1"));
    rig.list(&[]);
    assert_eq!(rig.sweeps.len(), before + 1, "once");
}

/// Regression: an earlier daemon was removing its volumes when it ended. They stayed until the pod ran again, and others were
/// evicted for them.
#[test]
fn the_volumes_of_what_an_earlier_daemon_evicted_are_removed() {
    let (mut rig, _) = running(&["a", "b"]);
    rig.handle(eviction("a", "a-1", true));
    rig.gone("a");
    let mut next = Rig::new();
    next.now = rig.now;
    next.goes_on_from(&rig.snapshot());
    next.want(&[pod("a"), pod("b")]);
    next.list(&["a/a-1/app exited", "b/b-1/POD running", "b/b-1/app running"]);
    assert_eq!(next.shown(), "a Failed Evicted, b Pending");
    assert!(next.sweeps[0].pods.contains("a-1"), "its containers are being removed");
    next.list(&["b/b-1/POD running", "b/b-1/app running"]);
    assert_eq!(next.sweeps.last().unwrap().pods, ["b-1".to_owned()].into());
}

/// Regression: while a source told nothing, for its server did not answer, they stayed, and others were evicted for them.
#[test]
fn their_volumes_are_removed_while_a_source_is_silent() {
    let (mut rig, _) = running(&["a", "b"]);
    for name in ["a", "b"] {
        rig.handle(eviction(name, &format!("{name}-1"), true));
        rig.gone(name);
    }
    let mut next = Rig::new();
    next.now = rig.now;
    next.goes_on_from(&rig.snapshot());
    let pods = vec![pod("a"), pod("b"), pod("c")];
    next.source(SourceUpdate::Restored(PodSet { pods, ..PodSet::default() }));
    assert_eq!(next.removals, [[""; 0]; 0], "Docker may have containers of them");
    next.list(&["b/b-1/app exited"]);
    assert_eq!(next.removals, [["a-1"]], "{}", next.shown());
    next.list(&[]);
    assert_eq!(next.removals[1..], [["b-1"]], "once each");
    next.list(&[]);
    assert_eq!((next.removals.len(), next.sweeps.len()), (2, 0));
    next.want(&[pod("a")]);
    assert_eq!((next.removals.len(), next.sweeps.len()), (2, 1));
    // The URL's pod is refused, and the node's own files, which are silent, may have a pod of its UID.
    for (is_silent, expected) in [(true, ""), (false, "e-1")] {
        let mut rig = two(&[]);
        if !is_silent {
            rig.want(&[]);
        }
        let pods = ["d", "e"].map(|name| {
            let mut pod = Arc::unwrap_or_clone(with_port(name, 80));
            pod.source = Source::Http;
            Arc::new(pod)
        });
        let update = SourceUpdate::Restored(PodSet { pods: pods.into(), ..PodSet::default() });
        rig.handle(Event::Source(FromSource { source: Source::Http, update }));
        later(&mut rig, Duration::from_secs(400));
        assert_eq!(rig.shown(), "d Pending, e Failed NodePorts");
        assert_eq!(rig.removals.concat().join(" "), expected);
    }
    // Refused, and never started by this daemon.
    let mut refused = Rig::new();
    let pods = vec![with_port("d", 80), with_port("e", 80)];
    refused.source(SourceUpdate::Restored(PodSet { pods, ..PodSet::default() }));
    refused.list(&[]);
    assert_eq!(
        (refused.removals.concat().join(" "), refused.shown()),
        ("e-1".into(), "d Pending, e Failed NodePorts".into())
    );
}

/// Regression: a pod of a job that had ended well while it was deleted was told as failed when the daemon ended before its server
/// had heard of it: nothing was left of its containers.
#[test]
fn how_a_deleted_pod_ended_is_told_by_the_next_daemon() {
    let at = Some(Time(Timestamp::UNIX_EPOCH));
    let written = |deleted: bool| {
        let status = json!({"phase": "Running", "containerStatuses": [{"name": "app", "image": "i", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"terminated": {"exitCode": 0}}}]});
        Pod {
            metadata: ObjectMeta {
                uid: Some("web-1".to_owned()),
                deletion_timestamp: at.clone().filter(|_| deleted),
                ..ObjectMeta::default()
            },
            spec: Some(PodSpec::default()),
            status: serde_json::from_value(status).unwrap(),
        }
    };
    for (deleted, ends) in [(true, 1), (false, 0)] {
        let mut pods = vec![written(deleted)];
        for _ in 0..2 {
            let mut rig = cluster::rig();
            let earlier = Earlier { pods, ..Earlier::default() };
            rig.turn.restore_unfinished(earlier, Set::new(), Table::new());
            rig.list(&[]);
            pods = rig.snapshot().docker.replaced;
            assert_eq!(pods.len(), ends, "for the one after it");
            let web = cluster::of_server(pod("web"), |pod| pod.metadata.deletion_timestamp = at.clone());
            cluster::set(&mut rig, &[web], None);
            let view = rig.snapshot().pods[0].clone();
            assert!(view.is_over && view.is_told);
            let codes = view.status.container_statuses.iter().flatten().filter_map(|c| {
                let ended = c.state.as_ref()?.terminated.as_ref()?;
                Some(ended.exit_code)
            });
            assert_eq!(codes.collect::<Vec<_>>(), vec![0; ends], "{deleted}");
        }
    }
}
