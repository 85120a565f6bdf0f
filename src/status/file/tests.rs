use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use super::*;
use crate::base::table::Table;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::status::snapshot::PodView;

const SINCE: Timestamp = Timestamp::constant(1_795_000_000, 0);

pub(crate) fn snapshot() -> Snapshot {
    let pod = DesiredPod {
        withheld: Default::default(),
        ceiling: i32::MAX,
        weight: 0,
        written: None,
        shape: None,
        key: PodKey { namespace: "default".into(), name: "web-node1".into() },
        uid: "u1".into(),
        source: Source::File,
        origin: Origin { path: "/m/web.yaml".into(), document: 0 },
        metadata: ObjectMeta { name: Some("web-node1".into()), ..ObjectMeta::default() },
        spec: Arc::default(),
        status: PodStatus::default(),
    };
    let status = Arc::new(PodStatus { phase: Some("Running".into()), ..PodStatus::default() });
    let view = PodView {
        pod: Arc::new(pod),
        status,
        leaving: None,
        stale: false,
        is_kept: true,
        is_told: true,
        is_over: false,
        others: Vec::new(),
        runs: false,
        returns: false,
    };
    Snapshot {
        standings: Table::new(),
        root_dir: String::new(),
        node: "node1".into(),
        docker: DockerView {
            endpoint: "fake://".into(),
            reachable: true,
            stopping: ["left-1".to_owned()].into(),
            ..DockerView::default()
        },
        drain: None,
        conditions: Vec::new(),
        stuck: vec![Task::Source(Source::File)],
        info: NodeView::default(),
        also_wanted: Table::new(),
        evictions: Table::new(),
        resized: None,
        removing: ["left-1".to_owned()].into(),
        sources: vec![],
        policies: Table::new(),
        claims: Table::new(),
        pods: vec![view.clone(), PodView { leaving: Some(SINCE), ..view }],
        problems: vec![Problem {
            severity: Severity::Warning,
            path: "/m/web.yaml".into(),
            at: Some((3, 5)),
            pod: Some("default/web".into()),
            field: None,
            message: "x".into(),
        }],
    }
}

fn kept() -> KeptImages {
    KeptImages {
        pinned: vec!["a:1".into()],
        sandbox: "sandbox:1".into(),
        preloaded: Some(["b:1".into()].into()),
    }
}

#[test]
fn what_is_written_is_read_again() {
    let bytes = render(&snapshot(), 42, "0.1.0", &[], &kept());
    crate::base::testing::golden("cli/status.json", &String::from_utf8(bytes.clone()).unwrap());
    let status = parse(&bytes).unwrap();
    let file = status.file;
    assert_eq!((file.pid, file.version.as_str(), file.node.as_str()), (42, "0.1.0", "node1"));
    assert_eq!((file.pods.len(), status.pods.len()), (2, 2));
    assert_eq!(file.problems, snapshot().problems);
    assert_eq!(file.pods[0].metadata.deletion_timestamp, None);
    // As in the API, the time is the end of the grace period.
    let end = SINCE.checked_add(SignedDuration::from_secs(30)).unwrap();
    assert_eq!(file.pods[1].metadata.deletion_timestamp, Some(Time(end)));
    assert_eq!(file.pods[1].metadata.deletion_grace_period_seconds, Some(30));
    assert_eq!(file.origins["default/web-node1"], "/m/web.yaml");
    assert_eq!(status.pods[0]["status"]["phase"], "Running");
}

#[test]
fn pods_tell_where_they_are() {
    let mut node = snapshot();
    let begun = PodStatus { conditions: Some(vec![]), ..PodStatus::default() };
    node.pods[0].status = Arc::new(begun.clone());
    let mut host = (*node.pods[1].pod).clone();
    Arc::make_mut(&mut host.spec).host_network = Some(true);
    let view = PodView { pod: Arc::new(host), status: Arc::new(begun), ..node.pods[1].clone() };
    node.pods.push(view);
    let addresses = ["192.0.2.1".to_owned(), "fd00::1".to_owned()];
    let file = parse(&render(&node, 1, "a", &addresses, &kept())).unwrap().file;
    assert_eq!(file.addresses, addresses);
    let told = |i: usize| {
        let status = file.pods[i].status.clone().unwrap();
        (
            status.host_ip,
            status.host_ips.map(|ips| ips.len()),
            status.pod_ip,
            status.pod_ips.map(|ips| ips.len()),
        )
    };
    let here = Some("192.0.2.1".to_owned());
    assert_eq!(told(0), (here.clone(), Some(2), None, None));
    assert_eq!(told(1), (None, None, None, None), "it was not begun");
    assert_eq!(told(2), (here.clone(), Some(2), here, Some(2)));
}

#[test]
fn the_file_is_replaced_whole_and_only_root_reads_it() {
    let dir = crate::base::testing::scratch("status-write");
    write_atomically(&dir, NAME, &render(&Snapshot::default(), 1, "a", &[], &kept())).unwrap();
    write_atomically(&dir, NAME, &render(&snapshot(), 2, "b", &[], &kept())).unwrap();
    assert_eq!(read(&dir).unwrap().file.pid, 2);
    let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, [NAME]);
    assert_eq!(fs::metadata(dir.join(NAME)).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_dir_all(&dir).unwrap();
    let error = write_atomically(&dir, NAME, b"").unwrap_err().to_string();
    assert!(error.contains("status.json: No such file"), "{error}");
    assert!(matches!(read(&dir), Err(ReadError::Missing(_))));
}

#[test]
fn damaged_files_are_errors() {
    let good = render(&snapshot(), 1, "a", &[], &kept());
    for end in 0..good.len() {
        assert!(parse(&good[..end]).is_err(), "cut at {end}");
    }
    let check = |text: &str, part: &str| {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(part), "{error}");
    };
    check("[]", "another version of podkeeper (format none");
    check(r#"{"apiVersion":"podkeeper.dev/v2"}"#, "format podkeeper.dev/v2, not podkeeper.dev/v1");
    check(r#"{"apiVersion":"podkeeper.dev/v1"}"#, "damaged: missing field `kind`");
}
