//! What a pod machine has asked of its containers: which probes are to be made, and what is known of them
//! (upstream `pkg/kubelet/prober/prober_manager.go`). The set is told whole and only when it changes; results
//! come through the mailbox.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use super::Machine;
use super::output::Output;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::table::Table;
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
pub(super) struct Asked {
    results: Probes,
    /// They ran before the daemon began.
    adopted: BTreeSet<String>,
    /// When they started, or were first seen running.
    started: Table<String, Mono>,
    /// What was last told.
    told: Watch,
    /// The probes of this very pod, by container name.
    read: Option<(Arc<DesiredPod>, ByName)>,
}

impl Asked {
    /// Forgets what is gone.
    pub fn retain(&mut self, ids: &BTreeSet<String>) {
        let Probes { liveness, startup, readiness } = &mut self.results;
        for results in [liveness, startup, readiness] {
            results.retain(|id, _| ids.contains(id));
        }
        self.adopted.retain(|id| ids.contains(id));
        self.started.retain(|id, _| ids.contains(id));
    }

    /// How many things it remembers.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        let Probes { liveness, startup, readiness } = &self.results;
        let results = liveness.len() + startup.len() + readiness.len();
        results + self.adopted.len() + self.started.len() + self.told.targets.len()
    }

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
    pub(super) fn hear(&mut self, news: News) {
        match news {
            News::Probed { id, kind, verdict } => self.probed(id, kind, verdict),
            News::Said { id, reason, text, .. } => {
                if let Some(owned) = self.seen.get(&id).cloned() {
                    self.tell_of(&owned, words::probe(reason, text));
                }
            }
            News::Hooked { id, kind, result } => self.hooked(&id, kind, result),
        }
    }

    /// Takes a result; of a container that is gone it says nothing.
    fn probed(&mut self, id: String, kind: Kind, verdict: ProbeVerdict) {
        if !self.seen.get(&id).is_some_and(|c| c.state.is_running()) {
            return;
        }
        let results = match kind {
            Kind::Startup => &mut self.asked.results.startup,
            Kind::Readiness => &mut self.asked.results.readiness,
            Kind::Liveness => &mut self.asked.results.liveness,
        };
        results.insert(id, verdict);
    }

    /// This container runs and did so when the daemon began.
    pub(super) fn adopt(&mut self, id: &str) {
        self.asked.adopted.insert(id.to_owned());
    }

    /// What is known of this pod's probes. A container that ran before the daemon began has started and is
    /// ready until a probe says otherwise.
    pub(super) fn probes(&self, pod: &DesiredPod) -> Probes {
        let mut probes = self.asked.results.clone();
        let hooked = self.seen.all.iter().filter(|c| self.unready_by_hook(&c.id));
        let hooked: Vec<String> = hooked.map(|c| c.id.clone()).collect();
        let adopted = self.seen.all.iter().filter(|c| self.asked.adopted.contains(&c.id));
        for owned in adopted.filter(|c| c.uid == pod.uid && c.state.is_running()) {
            let Some((_, spec)) = owned.container_name().and_then(|name| pod.container(name)) else {
                continue;
            };
            if spec.startup_probe.is_some() {
                probes.startup.entry(owned.id.clone()).or_insert(ProbeVerdict::Success);
            }
            if spec.readiness_probe.is_some() {
                probes.readiness.entry(owned.id.clone()).or_insert(ProbeVerdict::Success);
            }
        }
        probes.readiness.extend(hooked.into_iter().map(|id| (id, ProbeVerdict::Failure)));
        probes
    }

    /// Tells what is to be asked from now on, if that has changed.
    pub(super) fn watch(&mut self, now: &Now) {
        let watch = Watch { targets: self.targets(now), hooks: self.hook_wishes() };
        if watch != self.asked.told {
            self.asked.told = watch.clone();
            self.out.push(Output::Watch(watch));
        }
    }

    fn targets(&mut self, now: &Now) -> Vec<Target> {
        let Some(pod) = self.state.pod().cloned() else { return Vec::new() };
        // A pod that is being stopped can still turn unready, and nothing else matters.
        let stopping = !matches!(self.state, State::Syncing(_));
        let of = self.asked.of(&pod);
        if of.is_empty() {
            return Vec::new();
        }
        let mut targets = Vec::new();
        let mut seen_first = Vec::new();
        for (name, three) in of.iter() {
            let Some(newest) = self.seen.newest(&pod.uid, name).filter(|c| c.state.is_running()) else {
                continue;
            };
            let [_, readiness, _] = three;
            if stopping && readiness.is_none() {
                continue;
            }
            let probes = if stopping { [None, readiness.clone(), None] } else { three.clone() };
            let id = newest.id.clone();
            let started = self.asked.started.get(&id).copied().unwrap_or(now.mono);
            seen_first.push((id.clone(), started));
            let address = self.address(newest);
            let adopted = self.asked.adopted.contains(&id);
            targets.push(Target { id, container: name.clone(), started, adopted, address, probes });
        }
        for (id, at) in seen_first {
            self.asked.started.insert(id, at);
        }
        targets
    }

    /// Where a container's ports are. As with the kubelet, which has no address for such a pod, the host's
    /// network is asked on its loopback.
    pub(super) fn address(&self, container: &Owned) -> Option<IpAddr> {
        match &self.all_seen().find(|c| Some(c.id.as_str()) == container.sandbox_id())?.role {
            Role::Sandbox { host_network: true, .. } => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Role::Sandbox { ips, .. } => ips.first()?.parse().ok(),
            Role::Container { .. } => None,
        }
    }
}

/// The grace of a kill that has one of its own (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`):
/// its probe's, or that of a pod which starts over.
pub(super) fn grace_of(pod: &DesiredPod, kill: &Kill) -> Option<u32> {
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
