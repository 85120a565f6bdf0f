//! The whole life of a pod as lines: a field that changes the life changes a line.

use std::sync::Arc;

use super::rig::*;
use crate::machine::Report;
use crate::plan::ProbeVerdict;
use crate::pod::DesiredPod;
use crate::pod::object::Objects;
use crate::probe::prober::News;
use crate::probe::{HookKind, Kind};
use crate::runtime::Call;
use crate::runtime::fake::{Behaviour, OnTerm};

impl Rig {
    /// Answers every hook under way, and lets time pass.
    fn go_on(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let hooks = self.watched.last().map(|(_, watch)| watch.hooks.clone()).unwrap_or_default();
            for hook in hooks {
                let result = if hook.kind == HookKind::PostStart { Ok(()) } else { Err("no".to_owned()) };
                self.slot.news(News::Hooked { id: hook.id, kind: hook.kind, result });
                self.step();
            }
            self.pass(s(1));
        }
    }

    /// Gives every probe of a kind this result; returns whether there are any.
    fn all_probes(&mut self, kind: Kind, verdict: ProbeVerdict) -> bool {
        let mut targets = self.watched.last().map(|(_, watch)| watch.targets.clone()).unwrap_or_default();
        targets.retain(|target| target.probe(kind).is_some());
        for target in &targets {
            self.slot.news(News::Probed { id: target.id.clone(), kind, since: target.started, verdict });
            self.step();
        }
        !targets.is_empty()
    }
}

/// The life of a pod that starts, whose probes fail, which gets other resources, whose containers die with 42, and
/// which is stopped. `resized` is the pod with other resources.
pub(crate) fn story(pod: &Arc<DesiredPod>, objects: &Arc<Objects>, resized: &Arc<DesiredPod>) -> Vec<String> {
    let mut rig = Rig::fresh_for(pod);
    // Containers take 20 s to end, so that their grace shows.
    let slow = OnTerm::Exit { after: s(20), code: 42 };
    for (_, container) in pod.containers() {
        rig.engine.behave(&container.name, Behaviour { term: slow, ..Behaviour::default() });
    }
    for container in pod.init_containers().iter().filter(|c| c.restart_policy.is_none()) {
        rig.engine.behave(&container.name, Behaviour::exits(0, s(1)));
    }
    rig.give(Arc::clone(objects));
    rig.run(pod);
    rig.go_on(5);
    for (kind, verdict) in [
        (Kind::Startup, ProbeVerdict::Failure),
        (Kind::Startup, ProbeVerdict::Success),
        (Kind::Readiness, ProbeVerdict::Failure),
        (Kind::Readiness, ProbeVerdict::Success),
        (Kind::Liveness, ProbeVerdict::Failure),
        (Kind::Startup, ProbeVerdict::Success),
    ] {
        if rig.all_probes(kind, verdict) {
            rig.go_on(40);
        }
    }
    if resized != pod {
        rig.run(resized);
        rig.go_on(40);
    }
    for words in rig.running() {
        if !words.starts_with("POD") {
            let (id, now) = (rig.id(&words), rig.now());
            // A container that shares its processes may be dead by now.
            _ = rig.engine.perform(&Call::Kill { id, signal: "TERM".into() }, now);
        }
    }
    rig.go_on(40);
    rig.wish(stop(None));
    rig.go_on(40);
    told(rig)
}

fn told(rig: Rig) -> Vec<String> {
    let at = |at: &crate::base::clock::Mono| ms_of(*at);
    let mut lines = rig.sent;
    lines.extend(rig.calls.iter().map(|(time, words)| format!("{} {words}", at(time))));
    lines.extend(rig.pulls.iter().map(|(time, pull)| format!("{} {pull:?}", at(time))));
    lines.extend(rig.watched.iter().map(|(time, watch)| format!("{} {watch:?}", at(time))));
    lines.extend(rig.log.iter().map(|(time, _, line)| format!("{} {line}", at(time))));
    lines.extend(rig.volumes.orders.iter().map(|(time, order)| format!("{} {order}", at(time))));
    lines.extend(rig.files.hosts.iter().map(|hosts| hosts.text.clone()));
    lines.extend(rig.logs.iter().map(|logs| format!("{logs:?}")));
    lines.extend(rig.cgroups.told.iter().map(|cgroup| format!("{cgroup:?}")));
    lines.extend(rig.reports.iter().filter_map(|report| match report {
        Report::Status { status, terminating, .. } => {
            Some(format!("{} {terminating}", crate::base::json::text(&**status)))
        }
        _ => None,
    }));
    lines
}
