//! The real engine, asked by hand: without podkeeper's own client.

use super::*;

/// Removes whatever the script left, also when it fails.
pub(super) struct CleanUp(pub(super) String);

impl Drop for CleanUp {
    fn drop(&mut self) {
        let filters = encode(&json!({"label": [format!("podkeeper.test={}", self.0)]}));
        let (_, list) = http("GET", &format!("/containers/json?all=1&filters={filters}"), None);
        let list: Value = serde_json::from_str(&list).unwrap_or_default();
        for c in list.as_array().into_iter().flatten() {
            http("DELETE", &format!("/containers/{}?v=1&force=1", c["Id"].as_str().unwrap_or("-")), None);
        }
        http("DELETE", &format!("/images/{}image:1", self.0), None);
    }
}

pub(super) fn unix_now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

pub(super) fn encode(value: &Value) -> String {
    value.to_string().bytes().map(|b| format!("%{b:02X}")).collect()
}

/// Sends a request on a connection of its own (HTTP/1.0: the answer ends with it).
pub(super) fn ask(method: &str, path: &str, body: Option<Value>) -> UnixStream {
    let mut socket = UnixStream::connect("/var/run/docker.sock").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let body = body.map(|b| b.to_string()).unwrap_or_default();
    let head = format!("{method} /v1.41{path} HTTP/1.0\r\nHost: d\r\nContent-Type: application/json\r\n");
    socket.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
    socket
}

pub(super) fn http(method: &str, path: &str, body: Option<Value>) -> (u16, String) {
    let mut socket = ask(method, path, body);
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

pub(super) fn real(call: &Call) -> Result<Reply, DockerError> {
    let (method, path, body) = match call {
        Call::List { labels } => {
            let filters = encode(&json!({ "label": labels }));
            ("GET", format!("/containers/json?all=1&filters={filters}"), None)
        }
        Call::Inspect { id } => ("GET", format!("/containers/{id}/json"), None),
        Call::Create { name, body } => {
            ("POST", format!("/containers/create?name={name}"), Some(serde_json::to_value(body).unwrap()))
        }
        Call::Start { id } => ("POST", format!("/containers/{id}/start"), None),
        Call::Kill { id, signal } => ("POST", format!("/containers/{id}/kill?signal={signal}"), None),
        Call::Remove { id, force } => ("DELETE", format!("/containers/{id}?v=1&force={force}"), None),
        Call::Rename { id, name } => ("POST", format!("/containers/{id}/rename?name={name}"), None),
        Call::Update { id, resources } => {
            ("POST", format!("/containers/{id}/update"), Some(serde_json::to_value(resources).unwrap()))
        }
        Call::LogTail { id, lines } => {
            ("GET", format!("/containers/{id}/logs?stdout=1&stderr=1&tail={lines}"), None)
        }
        Call::ExecCreate { id, body } => ("POST", format!("/containers/{id}/exec"), Some(body.json())),
        Call::ExecInspect { id } => ("GET", format!("/exec/{id}/json"), None),
        Call::ImageInspect { image } => ("GET", format!("/images/{image}/json"), None),
        Call::ImageRemove { image } => ("DELETE", format!("/images/{image}"), None),
        Call::ImageList { .. } => ("GET", "/images/json".to_owned(), None),
        other => panic!("not in the script: {other:?}"),
    };
    let (status, text) = http(method, &path, body);
    let value: Value = serde_json::from_str(&text).unwrap_or_default();
    if status == 304 {
        return Ok(Reply::Already);
    }
    if status >= 300 {
        let message = value["message"].as_str().unwrap_or(&text).to_string();
        return Err(DockerError::Refused(Refusal { kind: RefusalKind::Server, status, message }));
    }
    let id = || value["Id"].as_str().unwrap().to_string();
    Ok(match call {
        Call::List { .. } => Reply::Containers(value.as_array().unwrap().iter().map(summary).collect()),
        Call::Inspect { .. } => Reply::Container(Box::new(detail(&value))),
        Call::Create { .. } => Reply::Created { id: id(), warnings: strings(&value["Warnings"]) },
        Call::ExecCreate { .. } => Reply::ExecCreated { id: id() },
        Call::ExecInspect { .. } => Reply::Exec(ExecDetail {
            running: value["Running"].as_bool().unwrap(),
            not_started: value["Pid"].as_i64().unwrap() == 0,
            exit_code: value["ExitCode"].as_i64(),
        }),
        Call::ImageInspect { .. } => Reply::Image(ImageDetail { id: id(), ..ImageDetail::default() }),
        Call::ImageList { .. } => Reply::Images(value.as_array().unwrap().iter().map(image).collect()),
        Call::LogTail { .. } => Reply::Output(text.into_bytes()),
        _ => Reply::Done,
    })
}

pub(super) fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|v| v.as_str().unwrap().to_string()).collect()
}

pub(super) fn labels(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(k, v)| (k.clone(), v.as_str().unwrap().to_string())).collect()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().trim_start_matches('/').to_string()
}

pub(super) fn summary(c: &Value) -> ContainerSummary {
    ContainerSummary {
        id: text(&c["Id"]),
        name: text(&c["Names"][0]),
        image: text(&c["Image"]),
        image_id: text(&c["ImageID"]),
        labels: labels(&c["Labels"]),
        state: DockerState::parse(&text(&c["State"])),
        status: text(&c["Status"]),
        created: c["Created"].as_i64().unwrap(),
        ips: None,
        networks: Vec::new(),
        length: 0,
    }
}

pub(super) fn image(i: &Value) -> ImageSummary {
    ImageSummary {
        id: text(&i["Id"]),
        parent: text(&i["ParentId"]),
        tags: strings(&i["RepoTags"]),
        digests: strings(&i["RepoDigests"]),
        size: i["Size"].as_u64().unwrap(),
        created: i["Created"].as_i64().unwrap(),
    }
}

pub(super) fn detail(c: &Value) -> ContainerDetail {
    let time = |value: &Value| {
        let text = value.as_str().unwrap();
        (!text.starts_with("0001")).then(|| text.parse::<Timestamp>().unwrap())
    };
    ContainerDetail {
        id: text(&c["Id"]),
        name: text(&c["Name"]),
        created: time(&c["Created"]),
        state: DockerState::parse(&text(&c["State"]["Status"])),
        oom_killed: c["State"]["OOMKilled"].as_bool().unwrap(),
        exit_code: c["State"]["ExitCode"].as_i64().unwrap(),
        error: text(&c["State"]["Error"]),
        started_at: time(&c["State"]["StartedAt"]),
        finished_at: time(&c["State"]["FinishedAt"]),
        image_id: text(&c["Image"]),
        image: text(&c["Config"]["Image"]),
        labels: labels(&c["Config"]["Labels"]),
        stop_signal: c["Config"]["StopSignal"].as_str().map(str::to_string),
        tty: c["Config"]["Tty"].as_bool().unwrap(),
        ips: Some(text(&c["NetworkSettings"]["IPAddress"])).filter(|ip| !ip.is_empty()).into_iter().collect(),
        networks: c["NetworkSettings"]["Networks"].as_object().map(|all| all.len()),
        log_path: text(&c["LogPath"]),
        host_config: HostDetail {
            network_mode: text(&c["HostConfig"]["NetworkMode"]),
            log_driver: text(&c["HostConfig"]["LogConfig"]["Type"]),
            resources: Resources {
                cpu_shares: limit(&c["HostConfig"]["CpuShares"]),
                cpu_period: limit(&c["HostConfig"]["CpuPeriod"]),
                cpu_quota: limit(&c["HostConfig"]["CpuQuota"]),
                memory: limit(&c["HostConfig"]["Memory"]),
                memory_swap: limit(&c["HostConfig"]["MemorySwap"]),
            },
            cgroup_parent: text(&c["HostConfig"]["CgroupParent"]),
            pids_limit: limit(&c["HostConfig"]["PidsLimit"]),
        },
        start_unfinished: false,
    }
}

pub(super) fn limit(value: &Value) -> Option<i64> {
    value.as_i64().filter(|n| *n != 0)
}
