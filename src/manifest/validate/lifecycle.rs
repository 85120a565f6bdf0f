//! Hooks, the stop signal, and the handlers that hooks and probes share.

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, LifecycleHandler, PodSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::path::{Path, Report, forbidden, invalid_plain, required, unsupported};
use super::{accepted, between, names, needed};

/// Signals of the API (Linux); the real-time signals between `SIGRTMIN` and `SIGRTMAX` are valid, too.
const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGRTMAX",
    "SIGRTMIN",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

pub(super) fn check(container: &Container, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let Some(lifecycle) = &container.lifecycle else { return };
    let path = path.field("lifecycle");
    for (name, handler) in [("postStart", &lifecycle.post_start), ("preStop", &lifecycle.pre_stop)] {
        if let Some(handler) = handler {
            self::handler(handler, spec, &path.field(name), report);
        }
    }
    if let Some(signal) = lifecycle.stop_signal.as_deref() {
        let path = path.field("stopSignal");
        if spec.os.is_none() {
            report.error(&path, forbidden("may not be set for containers with empty `spec.os.name`"));
        }
        if !known_signal(signal) {
            report.error(&path, unsupported(signal, SIGNALS));
        }
    }
}

fn known_signal(signal: &str) -> bool {
    // SIGRTMIN+1 to +15 and SIGRTMAX-1 to -14.
    let real_time = |start: &str, most: u8| {
        let number = signal.strip_prefix(start).filter(|n| !n.starts_with(['0', '+']));
        number.and_then(|n| n.parse::<u8>().ok()).is_some_and(|n| (1..=most).contains(&n))
    };
    SIGNALS.contains(&signal) || real_time("SIGRTMIN+", 15) || real_time("SIGRTMAX-", 14)
}

fn handler(handler: &LifecycleHandler, spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let mut handlers = 0_usize;
    let mut one = |name: &str, report: &mut Report<'_>| {
        handlers = handlers.saturating_add(1);
        if handlers > 1 {
            report.error(&path.field(name), forbidden("may not specify more than 1 handler type"));
        }
    };
    if let Some(exec) = &handler.exec {
        one("exec", report);
        self::exec(exec, &path.field("exec"), report);
    }
    if let Some(get) = &handler.http_get {
        one("httpGet", report);
        http_get(get, &path.field("httpGet"), report);
    }
    if let Some(socket) = &handler.tcp_socket {
        one("tcpSocket", report);
        port(&socket.port, &path.field("tcpSocket").field("port"), report);
    }
    if let Some(sleep) = &handler.sleep {
        one("sleep", report);
        let grace = spec.termination_grace_period_seconds.unwrap_or_default();
        if sleep.seconds < 0 || sleep.seconds > grace {
            let detail =
                format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
            report.error(&path.field("sleep").field("seconds"), invalid_plain(sleep.seconds, &detail));
        }
    }
    if handlers == 0 {
        report.error(path, required("must specify a handler type"));
    }
}

pub(super) fn exec(exec: &ExecAction, path: &Path<'_>, report: &mut Report<'_>) {
    if exec.command.as_deref().unwrap_or_default().is_empty() {
        report.error(&path.field("command"), required(""));
    }
}

pub(super) fn http_get(get: &HTTPGetAction, path: &Path<'_>, report: &mut Report<'_>) {
    if get.path.as_deref().unwrap_or_default().is_empty() {
        report.error(&path.field("path"), required(""));
    }
    port(&get.port, &path.field("port"), report);
    let scheme = get.scheme.as_deref().unwrap_or_default();
    if !matches!(scheme, "HTTP" | "HTTPS") {
        report.error(&path.field("scheme"), unsupported(scheme, &["HTTP", "HTTPS"]));
    }
    let headers = path.field("httpHeaders");
    for (i, header) in get.http_headers.iter().flatten().enumerate() {
        needed(&header.name, names::header, &headers.index(i).field("name"), report);
    }
}

/// A number or the name of a port.
pub(super) fn port(port: &IntOrString, path: &Path<'_>, report: &mut Report<'_>) {
    match port {
        IntOrString::Int(number) => between(Some((*number).into()), 1, 65535, path, report),
        IntOrString::String(name) => accepted(name, names::port_name, path, report),
    }
}
