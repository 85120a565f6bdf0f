use proptest::prelude::*;

use super::*;
use crate::mapping::tests::{config, pod};
use crate::plan::StartRef;
use crate::runtime::HostDetail;

const ROOT: &str = "/var/lib/podkeeper";

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_string(), (*value).to_string())).collect()
}

fn summary(name: &str, pairs: &[(&str, &str)]) -> ContainerSummary {
    ContainerSummary {
        id: "ab".repeat(32),
        name: name.into(),
        image: "busybox:static".into(),
        image_id: "sha256:1".into(),
        labels: labels(pairs),
        state: DockerState::Running,
        status: "Up 5 minutes".into(),
        created: 1_700_000_000,
        ips: None,
        networks: Vec::new(),
        length: 0,
    }
}

fn detail(all: &BTreeMap<String, String>, name: &str) -> ContainerDetail {
    ContainerDetail {
        id: "ab".repeat(32),
        name: name.into(),
        created: Timestamp::from_second(1).ok(),
        state: DockerState::Running,
        oom_killed: false,
        exit_code: 0,
        error: String::new(),
        started_at: Timestamp::from_second(2).ok(),
        finished_at: None,
        image_id: "sha256:1".into(),
        image: "busybox:static".into(),
        labels: all.clone(),
        stop_signal: None,
        tty: false,
        ips: vec!["172.17.0.2".into()],
        networks: Some(1),
        log_path: String::new(),
        host_config: HostDetail { network_mode: "default".into(), ..HostDetail::default() },
        start_unfinished: false,
    }
}

/// A pod with a container in each place, and its sandbox, as the mapping makes them.
fn made(pod_json: &str) -> Vec<(String, crate::runtime::CreateBody)> {
    let pod = pod(pod_json);
    let places = [(ContainerKind::Sidecar, 1), (ContainerKind::Regular, 0)];
    let containers = places.map(|(kind, index)| {
        mapping::tests::container(&pod, StartRef { kind, index }, 7, "sid", &config()).unwrap()
    });
    std::iter::once(mapping::tests::sandbox(&pod, 4, &config())).chain(containers).collect()
}

const POD: &str = r#"{"metadata":{"name":"web-n","namespace":"shop","uid":"u-1"},"spec":{
    "terminationGracePeriodSeconds":12,
    "initContainers":[{"name":"i","image":"x"},{"name":"s","image":"x","restartPolicy":"Always"}],
    "containers":[{"name":"main","image":"busybox:static","ports":[{"containerPort":80}],
     "lifecycle":{"stopSignal":"SIGQUIT","preStop":{"sleep":{"seconds":3}}}}]}}"#;

#[test]
fn what_is_mapped_is_read_back() {
    let made = made(POD);
    let read = |at: usize| {
        let (name, body) = &made[at];
        let mut detail = detail(&body.labels, name);
        detail.stop_signal.clone_from(&body.stop_signal);
        from_detail(&detail, ROOT).unwrap()
    };
    let key = PodKey { namespace: "shop".into(), name: "web-n".into() };
    let sandbox = read(0);
    let (ips, kept) = (vec!["172.17.0.2".into()], Kept::default());
    let role = Role::Sandbox { host_network: false, ips, link: Link::Up, kept };
    let expected = Owned {
        id: "ab".repeat(32),
        docker_name: "k8s_POD_web-n_shop_u-1_4".into(),
        key: key.clone(),
        uid: "u-1".into(),
        role,
        attempt: 4,
        state: RunState::Running { started: Timestamp::from_second(2).ok() },
        killed: false,
        start_sent: false,
        never_ran: 0,
        image: "busybox:static".into(),
        image_id: "sha256:1".into(),
        grace: None,
        manifest: Manifest {
            source: Some(Source::File),
            origin: Some("/etc/kubernetes/manifests/pod.yaml".into()),
            ..Manifest::default()
        },
        pre_stop: None,
        message: Default::default(),
        stop_signal: None,
        created: Timestamp::from_second(1).ok(),
        log_path: String::new(),
        resources: Default::default(),
    };
    assert_eq!(sandbox, expected);
    let mut again = detail(&made[0].1.labels, &made[0].0);
    again.labels.insert(labels::SEEN.to_owned(), "1970-01-01T00:01:00.000000000Z".to_owned());
    assert_eq!(from_detail(&again, ROOT).unwrap().kept().unwrap().seen, Timestamp::from_second(60).ok());
    let main = Owned {
        docker_name: "k8s_main_web-n_shop_u-1_7".into(),
        role: Role::Container {
            name: "main".into(),
            kind: ContainerKind::Regular,
            index: 0,
            sandbox_id: "sid".into(),
            hash: Some(crate::manifest::hash::container_hash("main", "busybox:static")),
        },
        attempt: 7,
        grace: Some(12),
        pre_stop: Some(Box::new(PreStop {
            handler: r#"{"sleep":{"seconds":3}}"#.into(),
            ports: r#"[{"containerPort":80}]"#.into(),
            sealed: true,
        })),
        message: Default::default(),
        stop_signal: Some("SIGQUIT".into()),
        ..expected.clone()
    };
    assert_eq!(read(2), main);
    let sidecar = read(1);
    assert!(matches!(sidecar.role, Role::Container { kind: ContainerKind::Sidecar, index: 1, .. }));

    // The list has the same data, except times, addresses and the signal.
    let (name, body) = &made[2];
    let mut listed = summary(name, &[]);
    listed.labels.clone_from(&body.labels);
    let expected = Owned {
        state: RunState::Running { started: None },
        start_sent: false,
        never_ran: 0,
        stop_signal: None,
        created: Timestamp::from_second(1_700_000_000).ok(),
        ..main
    };
    assert_eq!(from_summary(&listed, ROOT), Some(expected));
}

#[test]
fn host_network_is_known_from_the_list() {
    let check = |spec: &str, expected: bool| {
        let (name, body) = mapping::tests::sandbox(
            &pod(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{{{spec}"containers":[]}}}}"#)),
            0,
            &config(),
        );
        let mut listed = summary(&name, &[]);
        listed.labels.clone_from(&body.labels);
        let role = from_summary(&listed, ROOT).unwrap().role;
        assert_eq!(
            role,
            Role::Sandbox {
                host_network: expected,
                ips: Vec::new(),
                link: Link::Untold,
                kept: Kept::default()
            }
        );
        // The network mode and addresses of inspect do not matter: engines word them differently.
        let role = from_detail(&detail(&body.labels, &name), ROOT).unwrap().role;
        let (ips, link) = match expected {
            true => (vec![], Link::Untold),
            false => (vec!["172.17.0.2".to_string()], Link::Up),
        };
        assert_eq!(role, Role::Sandbox { host_network: expected, ips, link, kept: Kept::default() });
    };
    check(r#""hostNetwork":true,"#, true);
    check("", false);
    // Without the label, only the inspect shows it.
    let mut bare = detail(&labels(&[(labels::ROOT_DIR, ROOT)]), "k8s_POD_p_default_u_0");
    bare.host_config.network_mode = "host".into();
    let role = from_detail(&bare, ROOT).unwrap().role;
    assert_eq!(
        role,
        Role::Sandbox { host_network: true, ips: Vec::new(), link: Link::Untold, kept: Kept::default() }
    );
    // Docker ended before the start was complete.
    bare.start_unfinished = true;
    let role = from_detail(&bare, ROOT).unwrap().role;
    assert_eq!(
        role,
        Role::Sandbox { host_network: true, ips: Vec::new(), link: Link::Unfinished, kept: Kept::default() }
    );
}

#[test]
fn k2062_foreign_containers_are_left_alone() {
    let ours = [(labels::TYPE, "container"), (labels::POD_NAME, "web"), (labels::CONTAINER_NAME, "main")];
    let check = |name: &str, pairs: &[(&str, &str)]| {
        let listed = summary(name, pairs);
        assert_eq!(from_summary(&listed, ROOT), None, "{name} {pairs:?}");
        assert_eq!(from_detail(&detail(&listed.labels, name), ROOT), None, "{name} {pairs:?}");
    };
    let good_name = "k8s_main_web_default_u_0";
    check("", &[]);
    check("proud_turing", &[]);
    check(good_name, &[]);
    check(good_name, &ours);
    check(good_name, &[(labels::ROOT_DIR, "")]);
    check(good_name, &[(labels::ROOT_DIR, "/var/lib/kubelet")]);
    check(good_name, &[(labels::ROOT_DIR, "/var/lib/podkeeper/")]);
    check(good_name, &[("podkeeper.dev/root-dir2", ROOT), ("podkeeper.dev/", ROOT)]);
    // Marked as ours, but unreadable.
    check("proud_turing", &[(labels::ROOT_DIR, ROOT)]);
    check("k8s_x", &[(labels::ROOT_DIR, ROOT), ours[0], ours[1], ours[2]]);
}

#[test]
fn k2062_damaged_labels_do_not_hide_a_container() {
    let body = &made(POD)[2].1;
    let keys: Vec<&String> = body.labels.keys().filter(|key| *key != labels::ROOT_DIR).collect();
    for damage in ["", "\u{0}", "-1", "99999999999999999999", "é.é"] {
        for key in &keys {
            let mut all = body.labels.clone();
            all.insert((*key).clone(), damage.into());
            let got = from_detail(&detail(&all, "k8s_main_web-n_shop_u-1_7"), ROOT);
            let got = got.unwrap_or_else(|| panic!("{key} = {damage:?} hides it"));
            assert_eq!(got.attempt, 7, "{key} = {damage:?}");
        }
    }
    // All labels but the mark are lost: the name identifies it.
    let bare = detail(&labels(&[(labels::ROOT_DIR, ROOT)]), "k8s_main_web-n_shop_u-1_7_0000beef");
    let got = from_detail(&bare, ROOT).unwrap();
    assert_eq!((got.key.to_string().as_str(), got.uid.as_str(), got.attempt), ("shop/web-n", "u-1", 7));
    let unknown = Role::Container {
        name: "main".into(),
        kind: ContainerKind::Regular,
        index: 0,
        sandbox_id: String::new(),
        hash: None,
    };
    assert_eq!((got.role, got.manifest.source, got.grace), (unknown, None, None));
    // Renamed by another client: the labels identify it.
    let renamed = from_detail(&detail(&body.labels, "holiday"), ROOT).unwrap();
    assert_eq!((renamed.container_name(), renamed.attempt), (Some("main"), 7));
}

#[test]
fn states_of_an_inspect() {
    let at = |second: i64| Timestamp::from_second(second).ok();
    let check = |change: &dyn Fn(&mut ContainerDetail), expected: RunState| {
        let mut it = detail(&labels(&[(labels::ROOT_DIR, ROOT)]), "k8s_a_b_c_d_0");
        change(&mut it);
        assert_eq!(from_detail(&it, ROOT).unwrap().state, expected);
    };
    let exit = |code: i64| Exit {
        code,
        oom_killed: false,
        cannot_run: false,
        message: String::new(),
        started: at(2),
        finished: at(9),
        seen: None,
    };
    let ended = |it: &mut ContainerDetail, code: i64| {
        it.state = DockerState::Exited;
        it.finished_at = at(9);
        it.exit_code = code;
    };
    check(&|_| {}, RunState::Running { started: at(2) });
    check(&|it| ended(it, 0), RunState::Exited(exit(0)));
    check(&|it| ended(it, 143), RunState::Exited(exit(143)));
    check(
        &|it| {
            ended(it, 137);
            it.oom_killed = true;
        },
        RunState::Exited(Exit { oom_killed: true, ..exit(137) }),
    );
    let fresh = |it: &mut ContainerDetail| {
        it.state = DockerState::Created;
        it.started_at = None;
    };
    check(&fresh, RunState::Created);
    let cannot_run = |code: i64, message: &str| {
        RunState::Exited(Exit {
            cannot_run: true,
            message: message.into(),
            started: at(1),
            finished: at(1),
            ..exit(code)
        })
    };
    check(
        &|it| {
            fresh(it);
            it.exit_code = 127;
            it.error = "executable file not found".into();
        },
        cannot_run(127, "executable file not found"),
    );
    check(
        &|it| {
            fresh(it);
            it.state = DockerState::Exited;
            it.exit_code = 128;
        },
        cannot_run(128, ""),
    );
    // An inspect without some fields still shows that it ended.
    check(
        &|it| {
            it.state = DockerState::Exited;
            it.started_at = None;
        },
        RunState::Exited(Exit { started: None, finished: None, ..exit(0) }),
    );
    // Stuck in removal, regardless of other fields (moby/moby#22312).
    check(
        &|it| {
            ended(it, 1);
            it.state = DockerState::Removing;
        },
        RunState::Removing,
    );
}

#[test]
fn states_of_a_list() {
    let check = |state: DockerState, status: &str, expected: Option<i64>| {
        let mut listed = summary("k8s_a_b_c_d_0", &[(labels::ROOT_DIR, ROOT)]);
        (listed.state, listed.status) = (state, status.into());
        let code = match from_summary(&listed, ROOT).unwrap().state {
            RunState::Exited(exit) => Some(exit.code),
            _ => None,
        };
        assert_eq!((status, code), (status, expected));
    };
    check(DockerState::Exited, "Exited (137) 3 seconds ago", Some(137));
    check(DockerState::Exited, "Exited (0) Less than a second ago", Some(0));
    check(DockerState::Exited, "Exited (-1) 2 days ago", Some(-1));
    check(DockerState::Exited, "Exited", Some(137));
    check(DockerState::Exited, "Exited (", Some(137));
    check(DockerState::Exited, "Exited (é) x", Some(137));
    check(DockerState::Running, "Up 5 minutes (Paused)", None);
    check(DockerState::Removing, "Removal In Progress", None);
    check(DockerState::Created, "Created", None);
}

#[test]
fn k134153_only_the_written_attempt_orders() {
    // The clock was in 1970 when the newer one was created.
    let old = summary("k8s_a_b_c_d_0", &[(labels::ROOT_DIR, ROOT), (labels::RESTART_COUNT, "0")]);
    let mut new = summary("k8s_a_b_c_d_1", &[(labels::ROOT_DIR, ROOT), (labels::RESTART_COUNT, "1")]);
    new.created = 5;
    let all = [old, new].iter().filter_map(|listed| from_summary(listed, ROOT)).collect();
    let observed = crate::plan::Observed { all };
    assert_eq!(observed.newest("d", "a").unwrap().attempt, 1);
    let mut far = summary("k8s_a_b_c_d_2", &[(labels::ROOT_DIR, ROOT)]);
    far.created = i64::MAX;
    assert_eq!(from_summary(&far, ROOT).unwrap().created, None, "a time out of range is no reason to fail");
}

proptest! {
    #[test]
    fn never_panics(
        name in "k8s(_[a-z0-9]{1,4}){5}|.{0,20}",
        pairs in proptest::collection::btree_map(proptest::sample::select(labels::OURS), ".{0,8}|[0-9.a-z]{0,8}", 0..20),
        status in "Exited \\(.{0,6}\\).{0,5}|.{0,20}",
    ) {
        let mut listed = summary(&name, &[]);
        listed.status = status;
        listed.state = DockerState::Exited;
        listed.labels = pairs.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        let marked = listed.labels.get(labels::ROOT_DIR).map(String::as_str) == Some(ROOT);
        prop_assert!(marked || from_summary(&listed, ROOT).is_none());
        listed.labels.insert(labels::ROOT_DIR.into(), ROOT.into());
        let got = from_summary(&listed, ROOT);
        prop_assert!(got.is_some() || names::parse(&name).is_none());
        let _ = from_detail(&detail(&listed.labels, &name), ROOT);
    }
}

#[test]
fn a_sandbox_tells_of_its_pod_s_deadline() {
    let check = |label: Option<&str>, name_is_marked: bool, expected: Option<(Option<(&str, u64)>, bool)>| {
        let (mut name, mut body) = made(POD).remove(0);
        body.labels.extend(label.map(|text| (labels::ACTIVE_SINCE.to_owned(), text.to_owned())));
        if name_is_marked {
            name = names::with_suffix(&name, names::DEADLINE);
        }
        let read = from_detail(&detail(&body.labels, &name), ROOT).unwrap();
        assert_eq!(read.attempt, 4);
        let told = read
            .kept()
            .and_then(|kept| kept.deadline.clone())
            .map(|d| (d.since.map(|(boot, up)| (boot, up.as_millis())), d.passed));
        let expected = expected
            .map(|(since, passed)| (since.map(|(boot, up)| (boot.to_owned(), u128::from(up))), passed));
        assert_eq!(told, expected, "{label:?}");
        let mut listed = summary(&name, &[]);
        listed.labels.clone_from(&body.labels);
        assert_eq!(
            from_summary(&listed, ROOT).unwrap().kept().is_some_and(|kept| kept.deadline.is_some()),
            expected.is_some()
        );
    };
    check(None, false, None);
    check(Some("b-1/1500"), false, Some((Some(("b-1", 1500)), false)));
    check(Some("b-1/1500"), true, Some((Some(("b-1", 1500)), true)));
    check(None, true, Some((None, true)));
    // Damaged values are ignored, so the pod may live longer.
    for damaged in ["", "/5", "b-1", "b-1/", "b-1/-5", "b-1/x"] {
        check(Some(damaged), false, None);
    }
}

#[test]
fn the_way_to_last_words_is_told_by_labels() {
    let (name, mut body) = made(POD).remove(2);
    for (path, policy, expected) in [
        ("/dev/termination-log", "File", Way { file: true, log: false }),
        ("/dev/termination-log", "FallbackToLogsOnError", Way { file: true, log: true }),
        ("", "FallbackToLogsOnError", Way { file: false, log: true }),
        ("/x", "Nonsense", Way { file: true, log: false }),
    ] {
        body.labels.insert(labels::TERMINATION_MESSAGE_PATH.into(), path.into());
        body.labels.insert(labels::TERMINATION_MESSAGE_POLICY.into(), policy.into());
        assert_eq!(from_detail(&detail(&body.labels, &name), ROOT).unwrap().message, expected);
    }
}

/// An image may have the label, too, but does not know the sandbox's id.
#[test]
fn what_never_ran_is_told_by_podkeeper_alone() {
    let made = made(
        r#"{"metadata":{"name":"web"},"spec":{"initContainers":[{"name":"i","image":"i"},
        {"name":"s","image":"i","restartPolicy":"Always"}],"containers":[{"name":"a","image":"i"}]}}"#,
    );
    let (name, body) = made.last().unwrap();
    for (said, restarts) in [("2/sid", 5), ("2/other", 7), ("2", 7), ("x/sid", 7), ("99/sid", 0), ("", 7)] {
        let mut all = body.labels.clone();
        all.insert(labels::NEVER_RAN.to_owned(), said.to_owned());
        let owned = from_detail(&detail(&all, name), ROOT).unwrap();
        assert_eq!((owned.attempt, owned.restarts()), (7, restarts), "{said:?}");
    }
}
