//! Probes of containers.

use k8s_openapi::api::core::v1::{Container, Probe};

use super::super::path::{Path, Report, forbidden, invalid_plain, required};
use super::{between, lifecycle, not_negative};

pub(super) fn check_all(container: &Container, path: &Path<'_>, report: &mut Report<'_>) {
    for (name, probe, restarts) in [
        ("livenessProbe", &container.liveness_probe, true),
        ("readinessProbe", &container.readiness_probe, false),
        ("startupProbe", &container.startup_probe, true),
    ] {
        if let Some(probe) = probe {
            check(probe, restarts, &path.field(name), report);
        }
    }
}

/// `restarts`: a failure kills the container, so successThreshold must be 1 and a grace period may be set.
fn check(probe: &Probe, restarts: bool, path: &Path<'_>, report: &mut Report<'_>) {
    let mut handlers = 0_usize;
    let mut handler = |name: &str, report: &mut Report<'_>| {
        handlers = handlers.saturating_add(1);
        if handlers > 1 {
            report.error(&path.field(name), forbidden("may not specify more than 1 handler type"));
        }
    };
    if let Some(exec) = &probe.exec {
        handler("exec", report);
        lifecycle::exec(exec, &path.field("exec"), report);
    }
    if let Some(get) = &probe.http_get {
        handler("httpGet", report);
        lifecycle::http_get(get, &path.field("httpGet"), report);
    }
    if let Some(socket) = &probe.tcp_socket {
        handler("tcpSocket", report);
        lifecycle::port(&socket.port, &path.field("tcpSocket").field("port"), report);
    }
    if let Some(grpc) = &probe.grpc {
        handler("grpc", report);
        between(Some(grpc.port.into()), 1, 65535, &path.field("grpc").field("port"), report);
    }
    if handlers == 0 {
        report.error(path, required("must specify a handler type"));
    }
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        not_negative(value.map(i64::from), &path.field(name), report);
    }
    if let Some(successes) = probe.success_threshold.filter(|n| restarts && *n > 1) {
        report.error(&path.field("successThreshold"), invalid_plain(successes, "must be 1"));
    }
    if let Some(grace) = probe.termination_grace_period_seconds {
        let path = path.field("terminationGracePeriodSeconds");
        if !restarts {
            report.error(&path, invalid_plain(grace, "must not be set for readinessProbes"));
        } else if grace <= 0 {
            report.error(&path, invalid_plain(grace, "must be greater than 0"));
        }
    }
}
