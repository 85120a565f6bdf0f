//! An ephemeral container as a Docker body: made by `podkeeper debug`, and taken over by the daemon, which
//! knows it by its labels. Pure.

use std::collections::BTreeMap;

use crate::order;
use crate::pod::ContainerKind;
use crate::runtime::{CreateBody, HostConfig, LogConfig, Mount, labels};

/// What is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ephemeral<'a> {
    /// Its name in the pod.
    pub name: &'a str,
    /// Image.
    pub image: &'a str,
    /// Command; the image's when empty.
    pub command: &'a [String],
    /// Standard input is open.
    pub stdin: bool,
    /// With a terminal.
    pub tty: bool,
    /// Docker id of the container whose processes it sees.
    pub target: Option<&'a str>,
    /// Host network, host processes, shared processes, as the pod has them.
    pub shares: Shares,
    /// The pod's hosts file on the node, if it has one.
    pub hosts: Option<String>,
}

/// What of the pod's namespaces a container without a target has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shares {
    /// `hostNetwork`.
    pub host_network: bool,
    /// `hostPID`.
    pub host_pid: bool,
    /// `shareProcessNamespace`.
    pub processes: bool,
}

/// Labels of the sandbox that all containers of its pod carry.
const OF_POD: &[&str] = &[
    labels::POD_NAME,
    labels::POD_NAMESPACE,
    labels::POD_UID,
    labels::ROOT_DIR,
    labels::SOURCE,
    labels::ORIGIN,
    labels::WRITTEN,
];

/// The body. `sandbox` and its labels: of the running sandbox that it joins.
#[must_use]
pub fn body(
    wanted: &Ephemeral<'_>,
    sandbox: &str,
    sandbox_labels: &BTreeMap<String, String>,
    logs: LogConfig,
) -> CreateBody {
    let joined = format!("container:{sandbox}");
    let pid_mode = match wanted.target {
        Some(target) => format!("container:{target}"),
        None if wanted.shares.host_pid => "host".to_owned(),
        None if wanted.shares.processes => joined.clone(),
        None => String::new(),
    };
    let of_pod = OF_POD.iter().filter_map(|key| Some(((*key).to_owned(), sandbox_labels.get(*key)?.clone())));
    let mut all = order::map(of_pod);
    super::put(&mut all, labels::TYPE, labels::TYPE_CONTAINER);
    super::put(&mut all, labels::SANDBOX_ID, sandbox);
    super::put(&mut all, labels::CONTAINER_NAME, wanted.name);
    super::put(&mut all, labels::KIND, format!("{}.0", super::kind_word(ContainerKind::Ephemeral)));
    super::put(&mut all, labels::RESTART_COUNT, "0");
    super::seal(&mut all);
    let hosts =
        wanted.hosts.clone().map(|source| Mount::bind(source, crate::network::hosts::TARGET.to_owned()));
    CreateBody {
        image: wanted.image.to_owned(),
        entrypoint: Some(wanted.command.to_vec()).filter(|words| !words.is_empty()),
        open_stdin: wanted.stdin,
        stdin_once: wanted.stdin,
        tty: wanted.tty,
        labels: all,
        healthcheck: Some(super::no_healthcheck()),
        host_config: HostConfig {
            uts_mode: if wanted.shares.host_network { "host".into() } else { String::new() },
            pid_mode,
            ipc_mode: joined.clone(),
            network_mode: joined,
            log_config: Some(logs),
            mounts: hosts.into_iter().collect(),
            ..HostConfig::default()
        },
        ..CreateBody::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::map::LogLimits;

    #[test]
    fn it_joins_the_sandbox_and_carries_the_pods_labels() {
        let of_sandbox =
            [(labels::POD_UID, "u"), (labels::ROOT_DIR, "/r"), (labels::SANDBOX_ATTEMPT, "3"), ("x", "y")];
        let of_sandbox = of_sandbox.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let command = ["sh".to_owned()];
        let mut wanted = Ephemeral {
            name: "debugger",
            image: "busybox",
            command: &command,
            stdin: true,
            tty: false,
            target: None,
            shares: Shares { processes: true, ..Shares::default() },
            hosts: Some("/r/pods/u/etc-hosts".to_owned()),
        };
        let logs = LogLimits { max_bytes: None, max_files: 2 }.config();
        let mut made = body(&wanted, "s", &of_sandbox, logs.clone());
        assert!(labels::OURS.iter().all(|key| made.labels.contains_key(*key)), "none is the image's");
        made.labels.retain(|_, value| !value.is_empty());
        let expected = serde_json::json!({
            "Image": "busybox", "Entrypoint": ["sh"], "OpenStdin": true, "StdinOnce": true,
            "Healthcheck": {"Test": ["NONE"]},
            "Labels": {
                "io.kubernetes.container.name": "debugger", "io.kubernetes.docker.type": "container",
                "io.kubernetes.pod.uid": "u", "io.kubernetes.sandbox.id": "s", "podkeeper.dev/root-dir": "/r",
                "podkeeper.dev/kind": "ephemeral.0", "annotation.io.kubernetes.container.restartCount": "0",
            },
            "HostConfig": {
                "NetworkMode": "container:s", "IpcMode": "container:s", "PidMode": "container:s",
                "RestartPolicy": {"Name": "no"}, "LogConfig": {"Type": "json-file", "Config": {}},
                "Mounts": [{"Type": "bind", "Source": "/r/pods/u/etc-hosts", "Target": "/etc/hosts"}],
            },
        });
        assert_eq!(serde_json::to_value(made).unwrap(), expected);
        let pid_mode =
            |wanted: &Ephemeral<'_>| body(wanted, "s", &of_sandbox, logs.clone()).host_config.pid_mode;
        wanted.shares.host_pid = true;
        assert_eq!(pid_mode(&wanted), "host");
        wanted.target = Some("t");
        assert_eq!(pid_mode(&wanted), "container:t");
        wanted.target = None;
        wanted.shares = Shares::default();
        assert_eq!(pid_mode(&wanted), "");
    }
}
