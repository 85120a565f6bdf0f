//! Answers of real engines, and the results when fields are missing.

use super::*;
use crate::runtime::{HostDetail, labels};
use proptest::prelude::*;
use serde_json::json;

const ID: &str = "d47b4e2ec17bca7b42729a645430eda068e3b4d9c4e90770a787708a4fd37c7b";

fn read(form: Form, value: &Value) -> Result<Reply, DockerError> {
    reply(form, "GET /x", 200, value.to_string().as_bytes())
}

/// The parts of an inspect of Docker 20.10 that podkeeper reads, and some that it does not.
fn inspect() -> Value {
    json!({
        "Id": ID,
        "Created": "2026-11-20T23:49:04.351188483Z",
        "Path": "sh",
        "State": {
            "Status": "exited", "Running": false, "Paused": false, "Restarting": false, "OOMKilled": true,
            "Dead": false, "Pid": 0, "ExitCode": 137, "Error": "boom",
            "StartedAt": "2026-11-20T23:49:05Z", "FinishedAt": "2026-11-20T23:49:06.5Z"
        },
        "Image": "sha256:4043",
        "LogPath": "/var/lib/docker/containers/d4/d4-json.log",
        "Name": "/k8s_web_web_default_0123_0",
        "ExecIDs": null,
        "HostConfig": { "Binds": null, "NetworkMode": "default", "LogConfig": { "Type": "json-file", "Config": {} } },
        "Config": {
            "Tty": true, "Image": "busybox:static", "StopSignal": "SIGUSR1",
            "Labels": { "io.kubernetes.pod.name": "web", "odd": 7 }
        },
        "NetworkSettings": {
            "IPAddress": "172.17.0.2", "GlobalIPv6Address": "",
            "Networks": { "bridge": { "IPAddress": "172.17.0.2", "GlobalIPv6Address": "" } }
        }
    })
}

fn detail(value: &Value) -> ContainerDetail {
    match read(Form::Container, value) {
        Ok(Reply::Container(detail)) => *detail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_inspect() {
    let expected = ContainerDetail {
        id: ID.into(),
        name: "k8s_web_web_default_0123_0".into(),
        created: Some("2026-11-20T23:49:04.351188483Z".parse().unwrap()),
        state: DockerState::Exited,
        oom_killed: true,
        exit_code: 137,
        error: "boom".into(),
        started_at: Some("2026-11-20T23:49:05Z".parse().unwrap()),
        finished_at: Some("2026-11-20T23:49:06.5Z".parse().unwrap()),
        image_id: "sha256:4043".into(),
        image: "busybox:static".into(),
        labels: [("io.kubernetes.pod.name".to_owned(), "web".to_owned())].into(),
        stop_signal: Some("SIGUSR1".into()),
        tty: true,
        ips: vec!["172.17.0.2".into()],
        networks: Some(1),
        log_path: "/var/lib/docker/containers/d4/d4-json.log".into(),
        host_config: HostDetail {
            network_mode: "default".into(),
            log_driver: "json-file".into(),
            ..HostDetail::default()
        },
        start_unfinished: false,
    };
    assert_eq!(detail(&inspect()), expected);
}

#[test]
fn the_number_of_a_container_s_process() {
    let check = |pid: Value, expected: Option<u32>| {
        let mut value = inspect();
        value["State"]["Pid"] = pid;
        assert_eq!(read(Form::Process, &value), Ok(Reply::Process(expected)));
    };
    check(json!(4711), Some(4711));
    check(json!(0), None);
    check(json!(-1), None);
    check(Value::Null, None);
}

#[test]
fn where_a_container_s_files_are() {
    let files = |change: &dyn Fn(&mut Value)| {
        let mut value = inspect();
        change(&mut value);
        match read(Form::Files, &value) {
            Ok(Reply::Files(files)) => *files,
            other => panic!("{other:?}"),
        }
    };
    let log_path = "/var/lib/docker/containers/d4/d4-json.log".to_owned();
    let log_driver = "json-file".to_owned();
    let none = ContainerFiles { log_path, log_driver, ..ContainerFiles::default() };
    let found = files(&|value| {
        value["GraphDriver"] = json!({"Data": {"UpperDir": "/d/diff"}, "Name": "overlay2"});
    });
    assert_eq!(found, ContainerFiles { upper_dir: Some("/d/diff".into()), ..none.clone() });
    // Other storage drivers, and the image store of containerd.
    assert_eq!(files(&|value| value["GraphDriver"] = json!({"Data": null, "Name": "overlayfs"})), none);
    assert_eq!(files(&|value| value["GraphDriver"] = json!({"Data": {"UpperDir": 7}})), none);
    let counted = files(&|value| value["SizeRw"] = json!(4096));
    assert_eq!(counted, ContainerFiles { size: Some(4096), ..none.clone() });
    // Volumes that the image declares; other binds are not Docker's, and a plugin's volume has no directory.
    let mounted = files(&|value| {
        value["Mounts"] = json!([
            {"Type": "volume", "Name": "c0", "Source": "/v/c0/_data", "Driver": "local", "Destination": "/data"},
            {"Type": "bind", "Source": "/etc", "Destination": "/etc"},
            {"Type": "volume", "Name": "c1", "Source": "", "Driver": "cloud"},
            7,
        ]);
    });
    assert_eq!(mounted, ContainerFiles { volumes: vec!["/v/c0/_data".into()], ..none.clone() });
    let sandboxed = files(&|value| {
        value["HostnamePath"] = json!("/d/containers/s/hostname");
        value["HostsPath"] = json!("");
        value["ResolvConfPath"] = json!("/d/containers/s/resolv.conf");
    });
    let shared = ["/d/containers/s/hostname", "/d/containers/s/resolv.conf"].map(str::to_owned).to_vec();
    assert_eq!(sandboxed, ContainerFiles { shared, ..none });
}

#[test]
fn a_failed_start_keeps_its_exit_code() {
    let mut value = inspect();
    value["State"] = json!({
        "Status": "created", "Running": false, "ExitCode": 127, "Error": "executable file not found",
        "StartedAt": "0001-01-01T00:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"
    });
    let got = detail(&value);
    assert_eq!(
        (got.state, got.exit_code, got.started_at, got.finished_at),
        (DockerState::Created, 127, None, None)
    );
}

#[test]
fn an_engine_that_ended_in_the_middle_of_a_start_left_no_time_of_it() {
    let check = |state: Value, expected: bool| {
        let mut value = inspect();
        value["State"] = state.clone();
        assert_eq!(detail(&value).start_unfinished, expected, "{state}");
    };
    let zero = "0001-01-01T00:00:00Z";
    check(json!({"Status": "running", "StartedAt": zero}), true);
    check(json!({"Status": "running", "StartedAt": "2026-11-20T23:49:05Z"}), false);
    check(json!({"Status": "running"}), false);
    check(json!({"Status": "created", "StartedAt": zero}), false);
    check(json!({"Status": "exited", "StartedAt": zero}), false);
}

/// balena-os/meta-balena#2062: an engine that drops or alters fields of inspect must not break the node. Each
/// field in turn is left out, set to null, and set to a value of another type.
#[test]
fn k2062_inspect_fields_dropped_or_altered() {
    fn leaves(value: &Value, at: &str, out: &mut Vec<String>) {
        if let Some(object) = value.as_object() {
            for (key, value) in object {
                let at = format!("{at}/{key}");
                leaves(value, &at, out);
                out.push(at);
            }
        }
    }
    let mut places = Vec::new();
    leaves(&inspect(), "", &mut places);
    assert!(places.len() > 30, "{places:?}");
    for at in &places {
        let (parent, key) = at.rsplit_once('/').unwrap();
        let mut dropped = inspect();
        dropped.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
        let mut odd = vec![dropped];
        for value in [Value::Null, json!([[]]), json!({"x": {}}), json!(-1)] {
            let mut altered = inspect();
            *altered.pointer_mut(at).unwrap() = value;
            odd.push(altered);
        }
        for value in odd {
            match (at.as_str(), read(Form::Container, &value)) {
                ("/Id" | "/State", got) => assert!(matches!(got, Err(DockerError::BadAnswer(_))), "{at}"),
                (_, Ok(Reply::Container(got))) => {
                    assert_eq!((got.id.as_str(), got.state), (ID, DockerState::Exited), "{at}");
                }
                (_, got) => panic!("{at}: {got:?}"),
            }
        }
    }
}

#[test]
fn states_without_the_word() {
    let check = |state: Value, expected: Option<DockerState>| {
        let mut value = inspect();
        value["State"] = state.clone();
        let got = match read(Form::Container, &value) {
            Ok(Reply::Container(detail)) => Some(detail.state),
            _ => None,
        };
        assert_eq!(got, expected, "{state}");
    };
    check(json!({"Running": true}), Some(DockerState::Running));
    check(json!({"Running": false}), Some(DockerState::Created));
    check(json!({"Running": false, "Dead": true}), Some(DockerState::Removing));
    check(json!({"Running": false, "FinishedAt": "2026-01-01T00:00:00Z"}), Some(DockerState::Exited));
    check(json!({}), None);
}

#[test]
fn addresses() {
    let check = |settings: Value, expected: &[&str]| {
        let mut value = inspect();
        value["NetworkSettings"] = settings.clone();
        assert_eq!(detail(&value).ips, expected, "{settings}");
    };
    check(json!({"IPAddress": "10.0.0.1", "GlobalIPv6Address": "fd00::1"}), &["10.0.0.1", "fd00::1"]);
    check(
        json!({"IPAddress": "", "Networks": {"a": {"IPAddress": ""}, "b": {"IPAddress": "10.0.0.2"}}}),
        &["10.0.0.2"],
    );
    check(json!({"Networks": {"a": {"GlobalIPv6Address": "fd00::2"}}}), &["fd00::2"]);
    check(json!({"Networks": null}), &[]);
    check(Value::Null, &[]);
}

#[test]
fn a_list() {
    let list = json!([
        {
            "Id": ID, "Names": ["/other/alias", "/k8s_POD_web_default_0_0"], "Image": "pause", "ImageID": "sha256:1",
            "Created": 7, "State": "running", "Status": "Up 5 minutes", "Labels": {"a": "b", "io.kubernetes.pod.name": "web"}
        },
        { "Id": "1", "Names": null, "Labels": null, "Status": "Exited (0) 3 seconds ago" },
        { "Id": "2", "Status": "Removal In Progress" },
        { "Id": "3", "Status": "Up 5 minutes (Paused)" },
        { "Id": "4", "Status": "Created" },
        { "Id": "5", "State": "frozen" },
        { "Names": ["/no-id"] },
        null
    ]);
    let Ok(Reply::Containers(got)) = read(Form::Containers, &list) else { panic!("not a list") };
    let expected = ContainerSummary {
        id: ID.into(),
        name: "k8s_POD_web_default_0_0".into(),
        image: "pause".into(),
        image_id: "sha256:1".into(),
        labels: [(labels::POD_NAME.to_owned(), "web".to_owned())].into(),
        state: DockerState::Running,
        status: "Up 5 minutes".into(),
        created: 7,
        ips: None,
        networks: Vec::new(),
        length: got[0].length,
    };
    assert_eq!(got[0], expected);
    let states: Vec<_> = got.iter().map(|c| (c.id.as_str(), c.state)).skip(1).collect();
    assert_eq!(
        states,
        [
            ("1", DockerState::Exited),
            ("2", DockerState::Removing),
            ("3", DockerState::Running),
            ("4", DockerState::Created),
            ("5", DockerState::Exited)
        ]
    );
    assert_eq!(reply(Form::Containers, "x", 200, b"null"), Ok(Reply::Containers(vec![])));
    for bad in ["{}", "[{}", "[] []", "7", ""] {
        let got = reply(Form::Containers, "GET /containers/json", 200, bad.as_bytes());
        let Err(DockerError::BadAnswer(why)) = got else { panic!("{bad}: {got:?}") };
        assert!(why.starts_with("GET /containers/json: "), "{why}");
    }
}

#[test]
fn images() {
    let inspect = json!({
        "Id": "sha256:1", "RepoTags": ["a:1", "<none>:<none>"], "RepoDigests": ["<none>@<none>"], "Size": 9,
        "Config": { "User": "1000", "StopSignal": "SIGINT", "Labels": { "a": "", "b": "" }, "Volumes": { "/v": {} } }
    });
    let expected = ImageDetail {
        id: "sha256:1".into(),
        tags: vec!["a:1".into()],
        digests: vec![],
        size: 9,
        user: "1000".into(),
        stop_signal: Some("SIGINT".into()),
        configuration: inspect["Config"].to_string().len(),
        entries: 3,
        volumes: vec!["/v".into()],
    };
    assert_eq!(read(Form::Image, &inspect), Ok(Reply::Image(expected)));
    let bare = json!({ "Id": "sha256:2", "RepoTags": null, "RepoDigests": ["a@sha256:3"], "Config": null });
    let expected =
        ImageDetail { digests: vec!["a@sha256:3".into()], configuration: 4, ..image_detail("sha256:2") };
    assert_eq!(read(Form::Image, &bare), Ok(Reply::Image(expected)));
    assert!(matches!(read(Form::Image, &json!({})), Err(DockerError::BadAnswer(_))));
}

fn image_detail(id: &str) -> ImageDetail {
    ImageDetail { id: id.into(), ..ImageDetail::default() }
}

#[test]
fn lists_of_images() {
    let list = json!([
        { "Id": "sha256:1", "RepoTags": ["a:1", "b:2"], "RepoDigests": ["a@sha256:3"], "Size": 9, "Created": 7,
          "ParentId": "sha256:2", "Labels": { "a": "b" }, "SharedSize": -1 },
        { "Id": "sha256:2", "RepoTags": ["<none>:<none>"], "RepoDigests": ["<none>@<none>"], "Size": -1 },
        { "RepoTags": ["no:id"] },
        { "Id": "sha256:4", "ParentId": "", "RepoTags": null, "Created": "long ago" }
    ]);
    let named = ImageSummary {
        id: "sha256:1".into(),
        parent: "sha256:2".into(),
        tags: vec!["a:1".into(), "b:2".into()],
        digests: vec!["a@sha256:3".into()],
        size: 9,
        created: 7,
    };
    let bare = |id: &str| ImageSummary { id: id.into(), ..ImageSummary::default() };
    let expected = vec![named, bare("sha256:2"), bare("sha256:4")];
    assert_eq!(read(Form::Images, &list), Ok(Reply::Images(expected)));
    assert_eq!(reply(Form::Images, "x", 200, b"null"), Ok(Reply::Images(vec![])));
    for bad in ["{}", "[{}", "7", ""] {
        let got = reply(Form::Images, "x", 200, bad.as_bytes());
        assert!(matches!(got, Err(DockerError::BadAnswer(_))), "{bad}: {got:?}");
    }
}

/// As in `docker system df`: cache in use cannot be freed, and shared cache counts elsewhere.
#[test]
fn the_build_cache_is_what_can_be_had_back() {
    let told = |caches: Value| read(Form::DiskUsage, &json!({ "LayersSize": 5, "BuildCache": caches }));
    let bytes = |build_cache| Ok(Reply::DiskUsage(DiskUsage { build_cache }));
    let cache =
        |size: i64, used: bool, shared: bool| json!({ "Size": size, "InUse": used, "Shared": shared });
    let caches =
        [cache(1, false, false), cache(2, true, false), cache(4, false, true), cache(8, false, false)];
    assert_eq!(told(json!(caches)), bytes(9));
    assert_eq!(
        told(json!([cache(-1, false, false), cache(i64::MAX, false, false), { "Size": "x" }])),
        bytes(i64::MAX as u64)
    );
    assert_eq!(told(Value::Null), bytes(0));
    assert_eq!(
        read(Form::Reclaimed, &json!({ "CachesDeleted": null, "SpaceReclaimed": 7 })),
        Ok(Reply::Reclaimed(7))
    );
    assert_eq!(read(Form::Reclaimed, &json!({})), Ok(Reply::Reclaimed(0)));
}

#[test]
fn the_small_ones() {
    assert_eq!(reply(Form::Done, "x", 204, b""), Ok(Reply::Done));
    assert_eq!(reply(Form::Done, "x", 304, b""), Ok(Reply::Already));
    for form in [Form::Containers, Form::Container, Form::Created, Form::Image, Form::Output] {
        let got = reply(form, "x", 304, b"");
        assert!(matches!(got, Err(DockerError::Refused(_))), "{form:?} is asked for, and not told: {got:?}");
    }
    assert_eq!(
        reply(Form::Created, "x", 201, br#"{"Id":"1","Warnings":["w"]}"#),
        Ok(Reply::Created { id: "1".into(), warnings: vec!["w".into()] })
    );
    assert_eq!(
        reply(Form::Created, "x", 201, br#"{"Id":"1","Warnings":null}"#),
        Ok(Reply::Created { id: "1".into(), warnings: vec![] })
    );
    assert!(matches!(reply(Form::Created, "x", 201, b"{}"), Err(DockerError::BadAnswer(_))));
    assert_eq!(
        reply(Form::ExecCreated, "x", 201, br#"{"Id":"1"}"#),
        Ok(Reply::ExecCreated { id: "1".into() })
    );
    assert_eq!(
        reply(Form::Exec, "x", 200, br#"{"Running":true,"ExitCode":null}"#),
        Ok(Reply::Exec(ExecDetail { running: true, not_started: false, exit_code: None }))
    );
    assert_eq!(
        reply(Form::Exec, "x", 200, br#"{"Running":true,"ExitCode":null,"Pid":0}"#),
        Ok(Reply::Exec(ExecDetail { running: true, not_started: true, exit_code: None }))
    );
    assert_eq!(
        reply(Form::Exec, "x", 200, br#"{"Running":false,"ExitCode":3,"Pid":7}"#),
        Ok(Reply::Exec(ExecDetail { running: false, not_started: false, exit_code: Some(3) }))
    );
    let Ok(Reply::Info(info)) = reply(Form::Info, "x", 200, br#"{"ServerVersion":"20.10","NCPU":2}"#) else {
        panic!("no info")
    };
    assert_eq!((info.server_version.as_str(), info.cgroup_version.as_str(), info.cpus), ("20.10", "1", 2));
    assert!(matches!(reply(Form::Done, "x", 404, b"gone"), Err(DockerError::Refused(_))));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..80), status in 100u16..600) {
        for form in [Form::Containers, Form::Container, Form::Created, Form::Exec, Form::Image, Form::Info] {
            let _ = reply(form, "x", status, &bytes);
        }
    }
}
