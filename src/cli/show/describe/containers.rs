//! The containers' part of a page.

use std::collections::BTreeMap;
use std::fmt::Write;

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, ContainerState, ContainerStatus, EnvFromSource, EnvVar, EnvVarSource, Pod,
    Probe,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::Page;
use crate::base::human;
use crate::base::logging::one_line;
use crate::base::order;
use crate::pod::object::is_made;

/// One group of containers with their statuses.
pub(super) fn describe(
    page: &mut Page,
    title: &str,
    list: &[Container],
    statuses: &[ContainerStatus],
    pod: &Pod,
) {
    page.line(0, &format!("{title}:{}", if list.is_empty() { " <none>" } else { "" }));
    for container in list {
        let status = statuses.iter().find(|s| s.name == container.name);
        basics(page, container, status);
        lines(page, "Command", container.command.as_deref());
        lines(page, "Args", container.args.as_deref());
        if let Some(status) = status {
            states(page, status);
        }
        if let Some(resources) = &container.resources {
            quantities(page, "Limits", resources.limits.as_ref());
            quantities(page, "Requests", resources.requests.as_ref());
        }
        let probes = [
            ("Liveness", &container.liveness_probe),
            ("Readiness", &container.readiness_probe),
            ("Startup", &container.startup_probe),
        ];
        for (name, probe) in probes {
            if let Some(probe) = probe {
                page.field(2, name, &describe_probe(probe));
            }
        }
        environment(page, container, pod);
        mounts(page, container);
    }
}

/// Ephemeral containers: only their status describes them.
pub(super) fn ephemeral(page: &mut Page, statuses: &[ContainerStatus]) {
    page.line(0, "Ephemeral Containers:");
    for status in statuses {
        let (name, image) = (status.name.clone(), Some(status.image.clone()));
        basics(page, &Container { name, image, ..Container::default() }, Some(status));
        states(page, status);
    }
}

fn basics(page: &mut Page, container: &Container, status: Option<&ContainerStatus>) {
    page.line(1, &format!("{}:", container.name));
    if let Some(status) = status {
        page.field(2, "Container ID", status.container_id.as_deref().unwrap_or_default());
    }
    page.field(2, "Image", container.image.as_deref().unwrap_or_default());
    if let Some(status) = status {
        page.field(2, "Image ID", &status.image_id);
    }
    let list = container.ports.as_deref().unwrap_or_default();
    ports(page, "Port", list, |p| p.container_port);
    ports(page, "Host Port", list, |p| p.host_port.unwrap_or(0));
}

fn ports(page: &mut Page, name: &str, list: &[ContainerPort], number: impl Fn(&ContainerPort) -> i32) {
    let text = |p: &ContainerPort| format!("{}/{}", number(p), p.protocol.as_deref().unwrap_or("TCP"));
    match list {
        [] => page.field(2, name, "<none>"),
        [one] => page.field(2, name, &text(one)),
        many => page.field(2, &format!("{name}s"), &many.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

fn lines(page: &mut Page, title: &str, words: Option<&[String]>) {
    let Some(words) = words.filter(|w| !w.is_empty()) else { return };
    page.line(2, &format!("{title}:"));
    for line in words.iter().flat_map(|word| word.split('\n')) {
        page.line(3, line);
    }
}

fn states(page: &mut Page, status: &ContainerStatus) {
    state(page, "State", status.state.as_ref());
    if status.last_state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        state(page, "Last State", status.last_state.as_ref());
    }
    page.field(2, "Ready", if status.ready { "True" } else { "False" });
    page.field(2, "Restart Count", &status.restart_count.to_string());
}

fn state(page: &mut Page, name: &str, state: Option<&ContainerState>) {
    if let Some(running) = state.and_then(|s| s.running.as_ref()) {
        page.field(2, name, "Running");
        page.field(3, "Started", &human::date(running.started_at.as_ref()));
    } else if let Some(ended) = state.and_then(|s| s.terminated.as_ref()) {
        page.field(2, name, "Terminated");
        page.optional(3, "Reason", ended.reason.as_ref());
        page.optional(3, "Message", ended.message.as_ref());
        page.field(3, "Exit Code", &ended.exit_code.to_string());
        if let Some(signal) = ended.signal.filter(|s| *s > 0) {
            page.field(3, "Signal", &signal.to_string());
        }
        page.field(3, "Started", &human::date(ended.started_at.as_ref()));
        page.field(3, "Finished", &human::date(ended.finished_at.as_ref()));
    } else {
        page.field(2, name, "Waiting");
        if let Some(waiting) = state.and_then(|s| s.waiting.as_ref()) {
            page.optional(3, "Reason", waiting.reason.as_ref());
            page.optional(3, "Message", waiting.message.as_ref());
        }
    }
}

fn quantities(page: &mut Page, title: &str, list: Option<&BTreeMap<String, Quantity>>) {
    let Some(list) = list.filter(|l| !l.is_empty()) else { return };
    page.line(2, &format!("{title}:"));
    for (name, quantity) in list {
        page.field(3, name, &quantity.0);
    }
}

/// `http-get http://:8080/ok delay=0s timeout=1s period=10s #success=1 #failure=3`.
fn describe_probe(probe: &Probe) -> String {
    let number = |n: Option<i32>, default: i32| n.unwrap_or(default);
    let numbers = format!(
        "delay={}s timeout={}s period={}s #success={} #failure={}",
        number(probe.initial_delay_seconds, 0),
        number(probe.timeout_seconds, 1),
        number(probe.period_seconds, 10),
        number(probe.success_threshold, 1),
        number(probe.failure_threshold, 3)
    );
    let port = |p: &IntOrString| match p {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(name) => name.clone(),
    };
    let what = if let Some(exec) = &probe.exec {
        format!("exec [{}]", exec.command.as_deref().unwrap_or_default().join(" "))
    } else if let Some(get) = &probe.http_get {
        let scheme = get.scheme.as_deref().unwrap_or("HTTP").to_lowercase();
        let path = get.path.as_deref().unwrap_or_default();
        let slash = if path.starts_with('/') || path.is_empty() { "" } else { "/" };
        format!(
            "http-get {scheme}://{}:{}{slash}{path}",
            get.host.as_deref().unwrap_or_default(),
            port(&get.port)
        )
    } else if let Some(tcp) = &probe.tcp_socket {
        format!("tcp-socket {}:{}", tcp.host.as_deref().unwrap_or_default(), port(&tcp.port))
    } else if let Some(grpc) = &probe.grpc {
        format!("grpc <pod>:{} {}", grpc.port, grpc.service.as_deref().unwrap_or_default())
    } else {
        "unknown".into()
    };
    format!("{what} {numbers}")
}

fn environment(page: &mut Page, container: &Container, pod: &Pod) {
    // The variables of Services are of no object that a reader could look for.
    let is_shown =
        |source: &&EnvFromSource| !source.config_map_ref.as_ref().is_some_and(|map| is_made(&map.name));
    let from: Vec<&EnvFromSource> = container.env_from.iter().flatten().filter(is_shown).collect();
    if !from.is_empty() {
        page.line(2, "Environment Variables from:");
    }
    for source in from {
        let (name, kind, optional) = match (&source.config_map_ref, &source.secret_ref) {
            (Some(map), _) => (map.name.as_str(), "ConfigMap", map.optional),
            (None, Some(secret)) => (secret.name.as_str(), "Secret", secret.optional),
            (None, None) => continue,
        };
        let optional = optional.unwrap_or(false);
        let _ = writeln!(page.0, "      {}\t{kind}\tOptional: {optional}", one_line(name));
    }
    match container.env.as_deref().filter(|e| !e.is_empty()) {
        None => page.field(2, "Environment", "<none>"),
        Some(variables) => {
            page.line(2, "Environment:");
            for variable in variables {
                one_variable(page, variable, pod);
            }
        }
    }
}

fn one_variable(page: &mut Page, variable: &EnvVar, pod: &Pod) {
    let Some(from) = &variable.value_from else {
        let mut name = format!("{}:", one_line(&variable.name));
        for line in variable.value.as_deref().unwrap_or_default().split('\n') {
            let _ = writeln!(page.0, "      {name}\t{}", one_line(line));
            name.clear();
        }
        return;
    };
    page.field(3, &variable.name, &describe_source(from, pod));
}

fn describe_source(from: &EnvVarSource, pod: &Pod) -> String {
    if let Some(field) = &from.field_ref {
        let known = match field.field_path.as_str() {
            "metadata.name" => pod.metadata.name.as_deref(),
            "metadata.namespace" => pod.metadata.namespace.as_deref(),
            "metadata.uid" => pod.metadata.uid.as_deref(),
            _ => None,
        };
        let version = field.api_version.as_deref().unwrap_or("v1");
        format!("{} ({version}:{})", known.unwrap_or_default(), field.field_path)
    } else if let Some(resource) = &from.resource_field_ref {
        format!("({})", resource.resource)
    } else if let Some(secret) = &from.secret_key_ref {
        let optional = secret.optional.unwrap_or(false);
        format!("<set to the key '{}' in secret '{}'>  Optional: {optional}", secret.key, secret.name)
    } else if let Some(map) = &from.config_map_key_ref {
        let optional = map.optional.unwrap_or(false);
        format!("<set to the key '{}' of config map '{}'>  Optional: {optional}", map.key, map.name)
    } else {
        String::new()
    }
}

fn mounts(page: &mut Page, container: &Container) {
    let mut list: Vec<_> = container.volume_mounts.iter().flatten().collect();
    if list.is_empty() {
        return page.field(2, "Mounts", "<none>");
    }
    order::sort_by_key(&mut list, |m| &m.mount_path);
    page.line(2, "Mounts:");
    for mount in list {
        let mode = if mount.read_only == Some(true) { "ro" } else { "rw" };
        let path = mount.sub_path.as_deref().filter(|p| !p.is_empty());
        let path = path.map(|p| format!(",path={p:?}")).unwrap_or_default();
        page.line(3, &format!("{} from {} ({mode}{path})", mount.mount_path, mount.name));
    }
}
