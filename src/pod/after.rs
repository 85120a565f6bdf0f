//! The pods that a pod waits for before it starts: annotations `podkeeper.dev/after` and
//! `podkeeper.dev/after-timeout` (docker/compose#10859: an order that also holds at boot). Pure.
//!
//! Never here: stopping a pod. A running pod is never stopped because of a pod it would wait for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;

use crate::base::clock::Mono;
use crate::base::duration::duration;
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::pod::{DesiredPod, PodKey, Source};

/// Annotation: `podA,other/podB=ready,job=succeeded`.
pub const AFTER: &str = "podkeeper.dev/after";
/// Annotation: how long the pod waits, as a Go duration.
pub const TIMEOUT: &str = "podkeeper.dev/after-timeout";

/// The dependencies of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct After {
    /// The pod waits for all of these.
    pub on: Vec<Dependency>,
    /// Longest wait; then the pod starts anyway.
    pub timeout: Duration,
}

/// One pod that another pod waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    /// Namespace of that pod.
    pub namespace: String,
    /// Its name in the manifest (the name on the node works, too).
    pub name: String,
    /// The state that it must reach.
    pub need: Need,
}

/// The state that a pod must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It runs, or has run: all its init containers are done and a container has been started.
    Started,
    /// Its condition `Ready` is true.
    Ready,
    /// Its phase is `Succeeded`.
    Succeeded,
}

/// An invalid annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAfter {
    /// Name of the annotation.
    pub key: &'static str,
    pub value: String,
    /// The mistake.
    pub why: String,
}

/// Parses the annotations of a pod in this namespace.
///
/// # Errors
/// Unknown syntax.
pub fn parse(
    namespace: &str,
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Option<After>, BadAfter> {
    let get = |key: &str| annotations.and_then(|all| all.get(key)).map(String::as_str);
    let bad = |key, value: &str, why: String| BadAfter { key, value: value.to_owned(), why };
    let timeout = match get(TIMEOUT) {
        None => limits::AFTER_TIMEOUT,
        Some(text) => {
            let read = duration(text.trim()).map_err(|why| bad(TIMEOUT, text, why))?;
            if read.is_zero() {
                return Err(bad(TIMEOUT, text, "must be greater than 0".to_owned()));
            }
            read
        }
    };
    let Some(text) = get(AFTER) else { return Ok(None) };
    let mut on = Vec::new();
    for word in text.split(',') {
        let one = dependency(word.trim(), namespace).map_err(|why| bad(AFTER, text, why))?;
        if !on.contains(&one) {
            on.push(one);
        }
        if on.len() > limits::AFTER_PODS {
            return Err(bad(AFTER, text, format!("must not name more than {} pods", limits::AFTER_PODS)));
        }
    }
    Ok(Some(After { on, timeout }))
}

/// The dependencies of a pod that passed validation.
#[must_use]
pub fn of(pod: &DesiredPod) -> Option<After> {
    parse(&pod.key.namespace, pod.metadata.annotations.as_ref()).ok().flatten()
}

fn dependency(word: &str, own: &str) -> Result<Dependency, String> {
    let (place, need) = match word.split_once('=') {
        None => (word, Need::Started),
        Some((place, "ready")) => (place, Need::Ready),
        Some((place, "succeeded")) => (place, Need::Succeeded),
        Some((_, other)) => return Err(format!("{other:?} must be ready or succeeded")),
    };
    let (namespace, name) = place.split_once('/').unwrap_or((own, place));
    if !(is_name(namespace) && is_name(name)) {
        return Err(format!("{place:?} must be the name of a pod, or NAMESPACE/NAME"));
    }
    Ok(Dependency { namespace: namespace.to_owned(), name: name.to_owned(), need })
}

fn is_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.');
    let outer = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    text.len() <= 253
        && text.bytes().all(inner)
        && outer(text.bytes().next())
        && outer(text.bytes().next_back())
}

impl Dependency {
    /// Pod identities that the name may mean, the more likely one first: names of static pods have the
    /// node's name as suffix.
    #[must_use]
    pub fn keys(&self, node: &str) -> [PodKey; 2] {
        let key = |name: String| PodKey { namespace: self.namespace.clone(), name };
        [key(format!("{}-{}", self.name, node.to_lowercase())), key(self.name.clone())]
    }
}

impl fmt::Display for Dependency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let need = match self.need {
            Need::Started => "run",
            Need::Ready => "be ready",
            Need::Succeeded => "succeed",
        };
        write!(f, "pod {}/{} to {need}", self.namespace, self.name)
    }
}

/// Who waits for whom among accepted pods: they close no cycle.
#[derive(Debug, Default)]
pub struct Graph {
    /// Those that wait for others, by key.
    pods: Vec<Arc<DesiredPod>>,
    /// For each name that one of them waits for, who does.
    waiters: Table<PodKey, Vec<Arc<DesiredPod>>>,
}

impl Graph {
    /// Makes it that of these accepted pods, in the order of their keys: those without dependencies are left out. Returns false
    /// when they wait for the same as before, in another version too. Only what changes is looked at: there may be
    /// hundreds, and tens of thousands of names.
    pub fn follow<'p>(&mut self, accepted: impl Iterator<Item = &'p Arc<DesiredPod>>, node: &str) -> bool {
        let mut old = std::mem::take(&mut self.pods).into_iter().peekable();
        let mut pods = Vec::with_capacity(old.len());
        let mut changes = false;
        for pod in accepted.filter(|pod| waits(pod)) {
            while let Some(gone) = old.next_if(|old| old.key < pod.key) {
                self.remove(&gone, node);
                changes = true;
            }
            let before = old.next_if(|old| old.key == pod.key);
            match before {
                Some(same) if is_alike(&same, pod) => pods.push(same),
                other => {
                    changes = true;
                    other.iter().for_each(|gone| self.remove(gone, node));
                    for key in keys_of(pod, node) {
                        self.waiters.get_or_default(key).push(Arc::clone(pod));
                    }
                    pods.push(Arc::clone(pod));
                }
            }
        }
        for gone in old {
            self.remove(&gone, node);
            changes = true;
        }
        self.pods = pods;
        changes
    }

    fn remove(&mut self, pod: &Arc<DesiredPod>, node: &str) {
        for key in keys_of(pod, node) {
            if let Some(waiters) = self.waiters.get_mut(&key) {
                waiters.retain(|waiter| !Arc::ptr_eq(waiter, pod));
                if waiters.is_empty() {
                    self.waiters.remove(&key);
                }
            }
        }
    }

    /// The pods that wait for this one.
    fn waiting_for(&self, key: &PodKey) -> &[Arc<DesiredPod>] {
        self.waiters.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// The cycle that a pod would close, if there is one: the pod, one that it waits for, …, the pod. Goes from the pod
    /// to those that wait for it, because most pods have none. `gives_way`: the pods of this source keep none of the pod's
    /// source from starting.
    #[must_use]
    pub fn cycle(
        &self,
        pod: &DesiredPod,
        node: &str,
        gives_way: impl Fn(Source) -> bool,
    ) -> Option<Vec<PodKey>> {
        let on: Set<PodKey> = keys_of(pod, node).collect();
        if on.contains(&pod.key) {
            return Some(vec![pod.key.clone(), pod.key.clone()]);
        }
        // A pod that waits for none that waits is in no cycle, however many wait for it.
        let waits_itself = |key: &PodKey| self.pods.binary_search_by(|pod| pod.key.cmp(key)).is_ok();
        if !on.iter().any(waits_itself) {
            return None;
        }
        // The next pod on the way to this one, for each that was seen.
        let mut toward: Table<&PodKey, Option<&PodKey>> = Table::new();
        let mut open: VecDeque<Option<&PodKey>> = VecDeque::from([None]);
        while let Some(at) = open.pop_front() {
            for waiter in self.waiting_for(at.unwrap_or(&pod.key)) {
                // The new version takes the place of the old one.
                if waiter.key == pod.key || gives_way(waiter.source) || toward.contains_key(&&waiter.key) {
                    continue;
                }
                toward.insert(&waiter.key, at);
                if on.contains(&waiter.key) {
                    let mut way = vec![pod.key.clone()];
                    let mut next = Some(&waiter.key);
                    while let Some(at) = next {
                        way.push(at.clone());
                        next = toward.get(&at).copied().flatten();
                    }
                    way.push(pod.key.clone());
                    return Some(way);
                }
                open.push_back(Some(&waiter.key));
            }
        }
        None
    }
}

/// The names that a pod waits for, by both identities that each may mean.
fn keys_of(pod: &DesiredPod, node: &str) -> impl Iterator<Item = PodKey> {
    let on = of(pod).map(|after| after.on).unwrap_or_default();
    on.into_iter().flat_map(move |dependency| dependency.keys(node))
}

/// Whether they are one pod that waits for the same.
fn is_alike(one: &Arc<DesiredPod>, other: &Arc<DesiredPod>) -> bool {
    let same = || one.key == other.key && one.source == other.source && text(one) == text(other);
    Arc::ptr_eq(one, other) || same()
}

fn text(pod: &DesiredPod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(AFTER)
}

/// Whether a pod waits for others at all.
fn waits(pod: &DesiredPod) -> bool {
    text(pod).is_some()
}

/// The cycle as text: `default/a -> default/b -> default/a`.
#[must_use]
pub fn way(keys: &[PodKey]) -> String {
    keys.iter().map(PodKey::to_string).collect::<Vec<_>>().join(" -> ")
}

/// The state of a pod that another pod waits for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Standing<'a> {
    /// No source has such a pod.
    Absent,
    /// It is refused, for this reason.
    Refused(&'a str),
    /// Its status is unknown: it was not started, or is being stopped.
    Unknown,
    Status(&'a PodStatus),
}

impl Standing<'_> {
    fn fulfils(&self, need: Need) -> bool {
        let Standing::Status(status) = self else { return false };
        let phase = status.phase.as_deref().unwrap_or_default();
        match need {
            Need::Started => matches!(phase, "Running" | "Succeeded" | "Failed"),
            Need::Succeeded => phase == "Succeeded",
            Need::Ready => {
                let mut conditions = status.conditions.iter().flatten();
                conditions.any(|c| c.type_ == "Ready" && c.status == "True")
            }
        }
    }
}

/// Whether a pod may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All its dependencies are fulfilled.
    Start,
    /// It has waited long enough; the unfulfilled dependencies.
    StartAnyway(String),
    /// The pod waits.
    Wait {
        /// The unfulfilled dependencies.
        message: String,
        /// The time at which it starts anyway.
        until: Mono,
    },
}

/// Decides for a pod that has waited since `since`.
#[must_use]
pub fn decide<'a>(
    after: &After,
    standing: impl Fn(&Dependency) -> Standing<'a>,
    since: Mono,
    now: Mono,
) -> Verdict {
    let missing = after.on.iter().filter_map(|dependency| {
        let standing = standing(dependency);
        let why = match standing {
            Standing::Absent => " (there is no such pod)".to_owned(),
            Standing::Refused(reason) => format!(" (it is refused: {reason})"),
            Standing::Unknown | Standing::Status(_) => String::new(),
        };
        (!standing.fulfils(dependency.need)).then(|| format!("{dependency}{why}"))
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return Verdict::Start;
    }
    let (message, until) = (missing.join(", "), since.after(after.timeout));
    if now >= until { Verdict::StartAnyway(message) } else { Verdict::Wait { message, until } }
}

#[cfg(test)]
mod tests;
