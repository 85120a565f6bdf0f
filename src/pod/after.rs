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
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
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
    pods: Vec<Arc<DesiredPod>>,
    /// Each name that one of them waits for, with its place in `pods`; sorted.
    named: Vec<(PodKey, usize)>,
}

impl Graph {
    /// Of all accepted pods, in any order: those without dependencies are left out.
    #[must_use]
    pub fn of<'p>(accepted: impl Iterator<Item = &'p Arc<DesiredPod>>, node: &str) -> Graph {
        let pods: Vec<Arc<DesiredPod>> = accepted.filter(|pod| waits(pod)).cloned().collect();
        let edges = pods.iter().enumerate().flat_map(|(at, pod)| {
            let on = of(pod).map(|after| after.on).unwrap_or_default();
            on.into_iter().flat_map(|dependency| dependency.keys(node)).map(move |key| (key, at))
        });
        let mut named: Vec<(PodKey, usize)> = edges.collect();
        order::sort(&mut named);
        Graph { pods, named }
    }

    /// Whether it is that of these accepted pods: of another version of a pod that waits for the same, too.
    pub fn is_of<'p>(&self, accepted: impl Iterator<Item = &'p Arc<DesiredPod>>) -> bool {
        let mut own = self.pods.iter();
        let is_alike = |own: &Arc<DesiredPod>, pod: &Arc<DesiredPod>| {
            let same = || own.key == pod.key && own.source == pod.source && text(own) == text(pod);
            Arc::ptr_eq(own, pod) || same()
        };
        accepted.filter(|pod| waits(pod)).all(|pod| own.next().is_some_and(|own| is_alike(own, pod)))
            && own.next().is_none()
    }

    /// The pods that wait for this one.
    fn waiting_for(&self, key: &PodKey) -> impl Iterator<Item = usize> {
        let from = self.named.partition_point(|(named, _)| named < key);
        let all = self.named.get(from..).unwrap_or_default();
        all.iter().take_while(move |(named, _)| named == key).map(|(_, at)| *at)
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
        let keys = of(pod)?.on.into_iter().flat_map(|dependency| dependency.keys(node));
        let on: Set<PodKey> = order::set(keys);
        if on.contains(&pod.key) {
            return Some(vec![pod.key.clone(), pod.key.clone()]);
        }
        // The next pod on the way to this one, for each that was seen.
        let mut toward: Table<usize, Option<usize>> = Table::new();
        let mut open: VecDeque<Option<usize>> = VecDeque::from([None]);
        while let Some(at) = open.pop_front() {
            let key = match at {
                None => &pod.key,
                Some(at) => &self.pods.get(at)?.key,
            };
            for from in self.waiting_for(key) {
                let waiter = self.pods.get(from)?;
                // The new version takes the place of the old one.
                if waiter.key == pod.key || gives_way(waiter.source) || toward.contains_key(&from) {
                    continue;
                }
                toward.insert(from, at);
                if on.contains(&waiter.key) {
                    let mut way = vec![pod.key.clone()];
                    let mut next = Some(from);
                    while let Some(at) = next {
                        way.push(self.pods.get(at)?.key.clone());
                        next = toward.get(&at).copied().flatten();
                    }
                    way.push(pod.key.clone());
                    return Some(way);
                }
                open.push_back(Some(from));
            }
        }
        None
    }
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
