//! Which probes are to be made of the pod's containers, and what their results mean (upstream
//! `pkg/kubelet/prober/prober_manager.go`). The set is told whole and only when it changes; results come through the
//! mailbox.

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
    /// What was last told.
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
    /// Takes what a probe or a hook brought. What a probe says is an event of its container.
    pub(in crate::machine) fn take_news(&mut self, news: News) {
        match news {
            News::Probed { id, kind, since, verdict } => self.probed(&id, kind, since, verdict),
            News::Said { id, reason, text, .. } => {
                if let Some(owned) = self.containers.current().get(&id).cloned() {
                    self.tell_of(&owned, words::probe(reason, text));
                }
            }
            News::Hooked { id, kind, result } => self.hooked(&id, kind, result),
        }
    }

    /// Takes a result; of a container or a run that is over it says nothing.
    fn probed(&mut self, id: &str, kind: Kind, since: Mono, verdict: ProbeVerdict) {
        if let Some((owned, record)) = self.containers.current_mut(id)
            && owned.state.is_running()
            && record.run.probed_since == Some(since)
        {
            *record.run.verdict(kind) = Some(verdict);
        }
    }

    /// What is known of this pod's probes. A container that ran before the daemon began has started and is
    /// ready until a probe says otherwise. One whose postStart has not ended, or failed, is not ready.
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

    /// Tells what is to be asked from now on, if that has changed.
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
        // A pod that is being stopped can still turn unready, and nothing else matters.
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

    /// Where a container's ports are. As with the kubelet, which has no address for such a pod, the host's
    /// network is asked on its loopback.
    pub(in crate::machine) fn address(&self, container: &Owned) -> Option<IpAddr> {
        match &self.containers.get(container.sandbox_id()?)?.role {
            Role::Sandbox { host_network: true, .. } => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Role::Sandbox { ips, .. } => ips.first()?.parse().ok(),
            Role::Container { .. } => None,
        }
    }
}

/// The grace of a kill that has one of its own (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`):
/// its probe's, or that of a pod which starts over.
pub(in crate::machine) fn grace_of(pod: &DesiredPod, kill: &Kill) -> Option<u32> {
    let (_, container) = pod.container(&kill.name)?;
    let probe = match kill.reason {
        KillReason::LivenessProbe => container.liveness_probe.as_ref(),
        KillReason::StartupProbe => container.startup_probe.as_ref(),
        // As short as may be, and without its preStop hook.
        KillReason::StartOver => return Some(0),
        KillReason::Changed | KillReason::Unknown => None,
    };
    probe?.termination_grace_period_seconds.and_then(crate::base::duration::grace)
}
