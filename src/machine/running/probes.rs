//! The probes that run on the pod's containers, and the effects of their results (upstream
//! `pkg/kubelet/prober/prober_manager.go`). The set is sent as a whole and only when it changes; results come through
//! the mailbox.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use crate::base::clock::{Mono, Now};
use crate::machine::Machine;
use crate::machine::output::Output;
use crate::machine::running::hooks::is_unready;
use crate::machine::state::State;
use crate::plan::{Kill, KillReason, Owned, ProbeVerdict, Probes, Role};
use crate::pod::DesiredPod;
use crate::probe::prober::News;
use crate::probe::{Kind, Probing, Target, Watch};
use crate::recorder::words;

/// The three probes of a container, in [`Kind::ALL`]'s order.
type Three = [Option<Arc<Probing>>; 3];

/// By container name.
type ByName = Arc<Vec<(String, Three)>>;

#[derive(Debug, Default)]
pub(in crate::machine) struct Watched {
    /// The set that was sent last.
    told: Watch,
    /// The probes of this very pod, by container name.
    read: Option<(Arc<DesiredPod>, ByName)>,
}

impl Watched {
    fn of(&mut self, pod: &Arc<DesiredPod>) -> ByName {
        if let Some((_, known)) = self.read.as_ref().filter(|(of, _)| Arc::ptr_eq(of, pod)) {
            return Arc::clone(known);
        }
        let all = pod.containers().filter_map(|(_, c)| {
            let read = |probe: &Option<_>| Probing::of(probe.as_ref()?, c).map(Arc::new);
            let three = [&c.startup_probe, &c.readiness_probe, &c.liveness_probe].map(read);
            three.iter().any(Option::is_some).then(|| (c.name.clone(), three))
        });
        let all: ByName = Arc::new(all.collect());
        self.read = Some((Arc::clone(pod), Arc::clone(&all)));
        all
    }
}

impl Machine {
    /// Takes the result of a probe or a hook. A failed probe becomes an event of its container.
    pub(in crate::machine) fn take_news(&mut self, news: News, now: &Now) {
        match news {
            News::Probed { id, kind, since, verdict } => self.probed(&id, kind, since, verdict),
            News::Said { id, reason, text, .. } => {
                if let Some(owned) = self.containers.current().get(&id).cloned() {
                    self.tell_of(&owned, words::probe(reason, text));
                }
            }
            News::HookAt { id, kind, step } => self.hook_at(&id, kind, step, now),
            News::Hooked { id, kind, result } => self.hooked(&id, kind, result),
        }
    }

    /// Takes a result; one of a container or a run that is over does not count.
    fn probed(&mut self, id: &str, kind: Kind, since: Mono, verdict: ProbeVerdict) {
        if let Some((owned, record)) = self.containers.current_mut(id)
            && owned.state.is_running()
            && record.run.probed_since == Some(since)
        {
            *record.run.verdict(kind) = Some(verdict);
        }
    }

    /// Results of this pod's probes. A container that was running when the daemon started counts as started and ready
    /// until a probe says otherwise. One whose postStart has not ended, or has failed, is not ready.
    pub(in crate::machine) fn probes(&self, pod: &DesiredPod) -> Probes {
        let mut probes = Probes::default();
        for (owned, record) in self.containers.records() {
            let [mut startup, mut readiness, liveness] = record.run.verdicts;
            let spec = owned.container_name().and_then(|name| pod.container(name)).map(|(_, spec)| spec);
            let adopted = record.run.adopted && owned.uid == pod.uid && owned.state.is_running();
            if let Some(spec) = spec.filter(|_| adopted) {
                let passed = |probe: &Option<_>| probe.as_ref().map(|_| ProbeVerdict::Success);
                startup = startup.or_else(|| passed(&spec.startup_probe));
                readiness = readiness.or_else(|| passed(&spec.readiness_probe));
            }
            if is_unready(record) {
                readiness = Some(ProbeVerdict::Failure);
            }
            let all = [
                (startup, &mut probes.startup),
                (readiness, &mut probes.readiness),
                (liveness, &mut probes.liveness),
            ];
            for (verdict, results) in all {
                results.extend(verdict.map(|verdict| (owned.id.clone(), verdict)));
            }
        }
        probes
    }

    /// Sends the set of probes and hooks, if it has changed.
    pub(in crate::machine) fn watch(&mut self, now: &Now) {
        let (targets, hooks) = (self.targets(now), self.hook_wishes());
        let is_any = !targets.is_empty() || !hooks.is_empty();
        let source = self.state.pod().filter(|_| is_any).map(|pod| pod.source);
        let watch = Watch { source, targets, hooks };
        if watch != self.watched.told {
            self.watched.told = watch.clone();
            self.out.push(Output::Watch(watch));
        }
    }

    fn targets(&mut self, now: &Now) -> Vec<Target> {
        let Some(pod) = self.state.pod().cloned() else { return Vec::new() };
        // A pod that is being stopped can still become unready; other probes do not matter.
        let stopping = !matches!(self.state, State::Syncing(_));
        let of = self.watched.of(&pod);
        if of.is_empty() {
            return Vec::new();
        }
        let mut targets = Vec::new();
        for (name, three) in of.iter() {
            let Some(newest) = self.containers.current().newest(&pod.uid, name) else { continue };
            let [_, readiness, _] = three;
            if !newest.state.is_running() || (stopping && readiness.is_none()) {
                continue;
            }
            let probes = if stopping { [None, readiness.clone(), None] } else { three.clone() };
            let (id, address) = (newest.id.clone(), self.address(newest));
            let Some(record) = self.containers.record_mut(&id) else { continue };
            let started = *record.run.probed_since.get_or_insert(now.mono);
            let adopted = record.run.adopted;
            targets.push(Target { id, container: name.clone(), started, adopted, address, probes });
        }
        targets
    }

    /// The address of a container's ports. A pod on the host's network has no address of its own: as in the kubelet, it
    /// is probed on the host's loopback.
    pub(in crate::machine) fn address(&self, container: &Owned) -> Option<IpAddr> {
        match &self.containers.get(container.sandbox_id()?)?.role {
            Role::Sandbox { host_network: true, .. } => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Role::Sandbox { ips, .. } => ips.first()?.parse().ok(),
            Role::Container { .. } => None,
        }
    }
}

/// The grace of a kill that differs from the pod's (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`): that
/// of the probe, or that of a pod that starts over.
pub(in crate::machine) fn grace_of(pod: &DesiredPod, kill: &Kill) -> Option<u32> {
    let (_, container) = pod.container(&kill.name)?;
    let probe = match kill.reason {
        KillReason::LivenessProbe => container.liveness_probe.as_ref(),
        KillReason::StartupProbe => container.startup_probe.as_ref(),
        // The shortest grace, without the preStop hook.
        KillReason::StartOver => return Some(0),
        KillReason::Changed | KillReason::Unknown => None,
    };
    probe?.termination_grace_period_seconds.and_then(crate::base::duration::grace)
}
