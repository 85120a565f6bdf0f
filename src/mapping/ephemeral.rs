//! An ephemeral container as a Docker body: created by `podkeeper debug`, and recognized by the daemon by its
//! labels. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EphemeralContainer};

use crate::base::order;
use crate::mapping::logs::{LogDriver, LogSettings};
use crate::mapping::needs::Needs;
use crate::mapping::resources;
use crate::pod::{ContainerKind, DesiredPod};
use crate::runtime::{CreateBody, HostConfig, Mount, labels};

/// The ephemeral container to create.
#[derive(Debug)]
pub struct Ephemeral<'a> {
    /// The pod it is added to.
    pub pod: &'a DesiredPod,
    /// The container; only name, image, command, arguments, plain variables, directory, streams and security context are
    /// used.
    pub container: &'a Container,
    /// Docker id of the container whose process namespace it joins.
    pub target: Option<&'a str>,
    /// The pod's hosts file on the node, if it has one.
    pub hosts: Option<String>,
    /// Cgroup and process limit of its sandbox.
    pub place: Place,
    /// Memory of the node, bytes.
    pub node_memory: i64,
    /// Lowest allowed `oom_score_adj`.
    pub oom_floor: i32,
}

/// The bounds of a pod's containers, as inspected on its sandbox.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The pod's cgroup; empty if pods have none.
    pub cgroup_parent: String,
    /// Process limit of each container; `None` for no limit.
    pub pids_limit: Option<i64>,
    /// Destination of their output.
    pub log_driver: LogDriver,
}

/// The same container as one of a spec: the API has two types with the same fields.
#[must_use]
pub fn as_container(added: &EphemeralContainer) -> Container {
    Container {
        name: added.name.clone(),
        image: added.image.clone(),
        command: added.command.clone(),
        args: added.args.clone(),
        env: added.env.clone(),
        working_dir: added.working_dir.clone(),
        stdin: added.stdin,
        tty: added.tty,
        security_context: added.security_context.clone(),
        ..Container::default()
    }
}

/// How much of its output is kept, for drivers with files.
const LOGS: LogSettings =
    LogSettings { driver: LogDriver::JsonFile, max_bytes: Some(1024 * 1024), max_files: 5 };

/// Labels of the sandbox that all containers of its pod have.
const OF_POD: &[&str] = &[
    labels::POD_NAME,
    labels::POD_NAMESPACE,
    labels::POD_UID,
    labels::ROOT_DIR,
    labels::SOURCE,
    labels::ORIGIN,
    labels::WRITTEN,
];

/// The body, and its needs. `sandbox` is the id of the running sandbox it joins, with that sandbox's labels.
#[must_use]
pub fn body(
    wanted: &Ephemeral<'_>,
    sandbox: &str,
    sandbox_labels: &BTreeMap<String, String>,
) -> (CreateBody, Needs) {
    let Ephemeral { pod, container, .. } = *wanted;
    let logs = LogSettings { driver: wanted.place.log_driver, ..LOGS };
    let of_pod = OF_POD.iter().filter_map(|key| Some(((*key).to_owned(), sandbox_labels.get(*key)?.clone())));
    let mut all = order::map(of_pod);
    super::put(&mut all, labels::TYPE, labels::TYPE_CONTAINER);
    super::put(&mut all, labels::SANDBOX_ID, sandbox);
    super::put(&mut all, labels::SEALED, sandbox);
    super::put(&mut all, labels::CONTAINER_NAME, &*container.name);
    super::put(&mut all, labels::KIND, format!("{}.0", super::kind_word(ContainerKind::Ephemeral)));
    super::put(&mut all, labels::RESTART_COUNT, "0");
    // For a daemon that finds it without its pod.
    if let Some(seconds) = pod.spec.termination_grace_period_seconds {
        super::put(&mut all, labels::TERMINATION_GRACE, seconds.to_string());
    }
    super::seal(&mut all);
    let hosts =
        wanted.hosts.clone().map(|source| Mount::bind(source, crate::network::hosts::TARGET.to_owned()));
    let mut body = CreateBody {
        image: super::image(container).to_owned(),
        entrypoint: container.command.clone().filter(|words| !words.is_empty()),
        cmd: container.args.clone().filter(|words| !words.is_empty()),
        env: container.env.iter().flatten().map(variable).collect(),
        working_dir: container.working_dir.clone().filter(|dir| !dir.is_empty()),
        open_stdin: super::flag(container.stdin),
        stdin_once: super::flag(container.stdin),
        tty: super::flag(container.tty),
        labels: all,
        healthcheck: Some(super::no_healthcheck()),
        host_config: HostConfig {
            namespaces: super::joined(pod, sandbox, wanted.target),
            privileged: super::privileged(container),
            cgroup_parent: wanted.place.cgroup_parent.clone(),
            pids_limit: wanted.place.pids_limit,
            log_config: Some(logs.config(&pod.key, &container.name)),
            runtime: sandbox_labels.get(labels::RUNTIME).cloned().unwrap_or_default(),
            mounts: hosts.into_iter().collect(),
            ..HostConfig::default()
        },
        ..CreateBody::default()
    };
    let host = &mut body.host_config;
    resources::apply(host, pod, ContainerKind::Ephemeral, container, wanted.node_memory, wanted.oom_floor);
    let seccomp_profile = super::security::apply(&mut body, pod, container);
    (body, Needs { seccomp_profile, ..Needs::default() })
}

/// `NAME=value`.
fn variable(variable: &EnvVar) -> String {
    format!("{}={}", variable.name, variable.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::pod;

    const HOST: &str = r#"{"hostPID": true, "containers": [{"name": "app", "image": "x"}]}"#;

    fn of(spec: &str) -> DesiredPod {
        pod(&format!(r#"{{"metadata": {{"name": "web"}}, "spec": {spec}}}"#))
    }

    fn made(pod: &DesiredPod, container: serde_json::Value, target: Option<&str>) -> serde_json::Value {
        let of_sandbox =
            [(labels::POD_UID, "u"), (labels::ROOT_DIR, "/r"), (labels::SANDBOX_ATTEMPT, "3"), ("x", "y")];
        let of_sandbox = of_sandbox.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let container: Container = serde_json::from_value(container).unwrap();
        let wanted = Ephemeral {
            pod,
            container: &container,
            target,
            hosts: Some("/r/pods/u/etc-hosts".to_owned()),
            place: Place {
                cgroup_parent: "/kubepods/besteffort/podu".to_owned(),
                pids_limit: Some(100),
                log_driver: LogDriver::None,
            },
            node_memory: 1 << 30,
            oom_floor: -1000,
        };
        let (mut made, needs) = body(&wanted, "s", &of_sandbox);
        assert_eq!(needs, Needs::default());
        assert!(labels::OURS.iter().all(|key| made.labels.contains_key(*key)), "none is the image's");
        made.labels.retain(|_, value| !value.is_empty());
        serde_json::to_value(made).unwrap()
    }

    #[test]
    fn it_joins_the_sandbox_and_carries_the_pods_labels() {
        let own = serde_json::json!({
            "name": "debugger", "image": "busybox", "command": ["sh"], "stdin": true,
        });
        let shared = of(r#"{"shareProcessNamespace": true, "containers": [{"name": "app", "image": "x"}]}"#);
        let expected = serde_json::json!({
            "Image": "busybox", "Entrypoint": ["sh"], "OpenStdin": true, "StdinOnce": true,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": {
                "io.kubernetes.container.name": "debugger", "io.kubernetes.docker.type": "container",
                "io.kubernetes.pod.uid": "u", "io.kubernetes.sandbox.id": "s", "podkeeper.dev/root-dir": "/r",
                "podkeeper.dev/sealed": "s",
                "podkeeper.dev/kind": "ephemeral.0", "annotation.io.kubernetes.container.restartCount": "0",
            },
            "HostConfig": {
                "NetworkMode": "container:s", "IpcMode": "container:s", "PidMode": "container:s",
                "CgroupParent": "/kubepods/besteffort/podu", "PidsLimit": 100, "OomScoreAdj": 1000,
                "CpuShares": 2,
                "RestartPolicy": {"Name": "no"}, "LogConfig": {"Type": "none", "Config": {}},
                "Mounts": [{"Type": "bind", "Source": "/r/pods/u/etc-hosts", "Target": "/etc/hosts"}],
            },
        });
        assert_eq!(made(&shared, own.clone(), None), expected);
        let pid_mode =
            |spec: &str, target| made(&of(spec), own.clone(), target)["HostConfig"]["PidMode"].clone();
        assert_eq!(pid_mode(HOST, None), "host");
        assert_eq!(pid_mode(HOST, Some("t")), "container:t");
        assert_eq!(
            pid_mode(r#"{"containers": [{"name": "app", "image": "x"}]}"#, None),
            serde_json::Value::Null
        );
    }

    #[test]
    fn it_has_the_pods_identity_and_its_own_security_context() {
        let pod =
            of(r#"{"securityContext": {"seccompProfile": {"type": "Unconfined"}, "supplementalGroups": [7]},
                       "containers": [{"name": "app", "image": "x"}]}"#);
        let with = |context: serde_json::Value| {
            made(&pod, serde_json::json!({"name": "d", "image": "x", "securityContext": context}), None)
                ["HostConfig"]
                .clone()
        };
        let host = with(serde_json::json!({"capabilities": {"add": ["SYS_PTRACE"]}}));
        assert_eq!(host["SecurityOpt"], serde_json::json!(["seccomp=unconfined"]));
        assert_eq!(host["GroupAdd"], serde_json::json!(["7"]));
        assert_eq!(host["CapAdd"], serde_json::json!(["SYS_PTRACE"]));
        assert_eq!(with(serde_json::json!({"privileged": true}))["Privileged"], true);
    }
}
