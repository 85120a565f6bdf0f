//! Which pods go so that a critical one fits (upstream `pkg/kubelet/preemption/preemption.go`). Pure.
//!
//! Pods that request nothing go before those that request less than they limit, and these before those that are
//! guaranteed what they limit; of one class as few as possible, and the smaller of two that serve alike. Where nobody's
//! end would suffice, nobody goes.

use std::cmp::Ordering;

use crate::base::table::Table;
use crate::node::devices::DOMAIN;
use crate::pod::qos::{self, Qos};
use crate::pod::{DesiredPod, PodKey, priority, requests};

/// Reason of a pod that went, in its status and event (`pkg/kubelet/events/event.go`).
pub const PREEMPTING: &str = "Preempting";
/// The message of its status and event.
pub const MESSAGE: &str = "Preempted in order to admit critical pod";
/// The same, of its condition.
pub const CONDITION: &str = "Pod was preempted by Kubelet to accommodate a critical pod.";
/// The message of a pod that makes room for one of a source that precedes its own: the kubelet has no such sources.
pub const BEHIND: &str = "Preempted in order to admit a pod of a source that precedes its own";

/// The text of the condition of a pod with this message.
#[must_use]
pub fn condition(message: &str) -> &str {
    if message == MESSAGE { CONDITION } else { message }
}

/// Which pods may be stopped for one that has no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All that are not critical: the pod is critical.
    All,
    /// Those of sources that stand behind others, which its own does not: what they request keeps no pod of the others
    /// from starting.
    Behind,
}

impl Reach {
    /// The message of a pod that is stopped.
    #[must_use]
    pub fn message(self) -> &'static str {
        match self {
            Reach::All => MESSAGE,
            Reach::Behind => BEHIND,
        }
    }

    /// Why it is stopped, for the log.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Reach::All => "it is preempted by a critical pod",
            Reach::Behind => "it is preempted by a pod of a source that precedes its own",
        }
    }

    /// Whether a pod may be stopped.
    #[must_use]
    pub fn has(self, pod: &Candidate) -> bool {
        self == Reach::All || pod.goes_first
    }
}
/// The resource that each pod has one of.
pub const PODS: &str = "pods";
/// podkeeper's own memory, which pods of many or long lists take as long as they are there. The kubelet does not count it.
pub const MANIFEST_MEMORY: &str = "manifest-memory";

/// A pod that may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The pod.
    pub key: PodKey,
    /// Its source stands behind others: it goes before their pods, whatever each requests.
    pub goes_first: bool,
    /// Its class of service.
    pub class: Qos,
    /// The amount that its end frees of each missing resource, in the order of these.
    pub frees: Vec<i64>,
    /// Requested memory, bytes.
    pub memory: i64,
    /// Requested CPUs, thousandths.
    pub cpu: i64,
}

impl Candidate {
    /// The versions of one pod, which go together; `resources` are those that are missing. `None` when it is critical.
    #[must_use]
    pub fn of(versions: &[&DesiredPod], resources: &[&str], goes_first: bool) -> Option<Candidate> {
        let first = versions.first()?;
        if versions.iter().any(|pod| priority::is_critical(pod)) {
            return None;
        }
        // As with admission, of a pod that is being replaced the larger version counts.
        let all = |resource: &str| {
            let amounts = versions.iter().map(|pod| requested(pod, resource));
            match resource == MANIFEST_MEMORY || resource.starts_with(DOMAIN) {
                true => amounts.fold(0, i64::saturating_add),
                false => amounts.fold(0, i64::max),
            }
        };
        Some(Candidate {
            key: first.key.clone(),
            goes_first,
            class: qos::class(&first.spec),
            frees: resources.iter().map(|resource| all(resource)).collect(),
            memory: all("memory"),
            cpu: all("cpu"),
        })
    }

    /// The larger, the better protected.
    fn tier(&self) -> (bool, u8) {
        let class = match self.class {
            Qos::BestEffort => 0,
            Qos::Burstable => 1,
            Qos::Guaranteed => 2,
        };
        (!self.goes_first, class)
    }

    /// The smaller of two, then by name: the same pods choose the same.
    fn size(&self) -> (i64, i64, &PodKey) {
        (self.memory, self.cpu, &self.key)
    }
}

fn requested(pod: &DesiredPod, resource: &str) -> i64 {
    match resource {
        PODS => 1,
        MANIFEST_MEMORY => i64::try_from(pod.weight).unwrap_or(i64::MAX),
        _ => requests::request(&pod.spec, resource),
    }
}

/// The pods that go for what is missing of each resource; `None` when the end of all would not suffice.
#[must_use]
pub fn choose(missing: &[i64], pods: &[Candidate]) -> Option<Vec<PodKey>> {
    let mut tiers: Table<(bool, u8), Vec<&Candidate>> = Table::new();
    for pod in pods {
        tiers.get_or_default(pod.tier()).push(pod);
    }
    let mut chosen: Vec<&Candidate> = Vec::new();
    // The best protected first, of whom only those go that all others together cannot replace.
    while let Some((_, pods)) = tiers.pop_last() {
        let others = tiers.values().flatten().chain(&chosen).copied();
        let left = without(missing, others);
        chosen.extend(nearest(&left, pods)?);
    }
    if !is_enough(missing, &chosen) {
        return None;
    }
    // Who was taken first may have become needless by those that were taken later.
    for pod in chosen.clone() {
        let others: Vec<&Candidate> = chosen.iter().copied().filter(|other| other.key != pod.key).collect();
        if is_enough(missing, &others) {
            chosen = others;
        }
    }
    Some(chosen.into_iter().rev().map(|pod| pod.key.clone()).collect())
}

/// Of these pods those that free what is missing, one after the other, the nearest to it first.
fn nearest<'a>(missing: &[i64], mut pods: Vec<&'a Candidate>) -> Option<Vec<&'a Candidate>> {
    let (mut left, mut chosen) = (missing.to_vec(), Vec::new());
    while left.iter().any(|amount| *amount > 0) {
        let next = pods.iter().copied().min_by(|a, b| compare(a, b, &left))?;
        pods.retain(|pod| pod.key != next.key);
        left = without(&left, [next].into_iter());
        chosen.push(next);
    }
    Some(chosen)
}

fn compare(a: &Candidate, b: &Candidate, missing: &[i64]) -> Ordering {
    distance(a, missing).total_cmp(&distance(b, missing)).then_with(|| a.size().cmp(&b.size()))
}

/// How much of what is missing a pod would leave missing: each resource counts alike, by its part.
fn distance(pod: &Candidate, missing: &[i64]) -> f64 {
    let parts = missing.iter().zip(&pod.frees).filter(|(amount, _)| **amount > 0).map(|(amount, frees)| {
        let left = amount.saturating_sub(*frees).max(0) as f64 / *amount as f64;
        left * left
    });
    parts.sum()
}

/// The amounts that are still missing when these are gone, at least 0.
fn without<'a>(missing: &[i64], gone: impl Iterator<Item = &'a Candidate>) -> Vec<i64> {
    gone.fold(missing.to_vec(), |left, pod| {
        left.iter().zip(&pod.frees).map(|(left, frees)| left.saturating_sub(*frees).max(0)).collect()
    })
}

fn is_enough(missing: &[i64], gone: &[&Candidate]) -> bool {
    without(missing, gone.iter().copied()).iter().all(|left| *left <= 0)
}

#[cfg(test)]
mod tests;
