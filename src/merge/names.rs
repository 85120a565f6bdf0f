//! Which pod holds a name. Several manifests, in one source or in several, may claim one namespace/name.
//! There is exactly one holder (invariant 1), and the order of arrival inside a set never decides which one.
//!
//! The rule: a file takes precedence over a URL, and a URL over the API, regardless of which came first, so
//! that the running pods follow from the content of the sources and not from the order of their answers.
//! Within one source (kubernetes/kubernetes#136962): the running pod keeps its name; an edit follows its
//! file; otherwise the first by path.
//!
//! A pod of a source that has not reported since the daemon started is not replaced by one of a later source: it may
//! still be wanted. If that source cannot be read, those of its pods that are not remembered keep their names only
//! while they run: only that source could start them again. A later source that had the same pod, word for word, and
//! changes it meanwhile, waits with the change.
//!
//! A pod that another source takes over unchanged stays the same pod: it keeps its UID, and no container
//! restarts.

use std::sync::Arc;

use super::Running;
use crate::base::table::Table;
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::pod::{DesiredPod, Origin, PodKey, Source};

/// One pod that one source wants.
#[derive(Clone, Copy)]
pub struct Claim<'a> {
    pub source: Source,
    /// As the source sent it.
    pub pod: &'a Arc<DesiredPod>,
}

/// What a source has told since the daemon started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Told {
    /// Nothing yet.
    #[default]
    Nothing,
    /// That it cannot be read. What is remembered of it may be less than it has.
    NotAll,
    /// A whole set.
    All,
}

/// The pod that has the name.
#[derive(Debug)]
pub struct Holder {
    /// With the merge's annotations, as other rooms see it.
    pub pod: Arc<DesiredPod>,
    /// As its source sent it in its last set.
    pub raw: Arc<DesiredPod>,
}

/// All holders, by name.
pub type Holders = Table<PodKey, Holder>;

/// Lower ranks come first. Every component depends only on the claim or on the previous holder: a set that
/// still contains the holder cannot move the name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    source: Source,
    not_running: bool,
    not_holder: bool,
    other_origin: bool,
    other_path: bool,
    origin: &'a Origin,
    uid: &'a str,
}

fn rank<'a>(claim: Claim<'a>, holder: Option<&Holder>, running: Option<&Running>) -> Rank<'a> {
    let pod = claim.pod;
    let held = holder.map(|h| &*h.pod);
    let same_uid =
        holder.is_some_and(|h| (h.raw.uid == pod.uid && h.pod.source == claim.source) || h.is_resized(claim));
    let from_holders_source = held.filter(|h| h.source == claim.source);
    Rank {
        source: claim.source,
        not_running: running.is_none_or(|r| r.uid != pod.uid && !r.is(claim) && !r.is_resized(claim)),
        not_holder: !same_uid && held.is_none_or(|h| h.uid != pod.uid),
        other_origin: from_holders_source.is_none_or(|h| h.origin != pod.origin),
        other_path: from_holders_source.is_none_or(|h| h.origin.path != pod.origin.path),
        origin: &pod.origin,
        uid: &pod.uid,
    }
}

impl Running {
    /// Whether the claim is the running pod, unchanged, either from another source or where it had moved to
    /// before the daemon started. A manifest that only changed its path within one source is a new pod, as
    /// upstream (`pkg/kubelet/config/common.go`).
    fn is(&self, claim: Claim<'_>) -> bool {
        let here =
            |(source, path): &(Source, String)| *source != claim.source || *path == claim.pod.origin.path;
        self.written.is_some() && self.written == claim.pod.written && self.places.iter().any(here)
    }

    /// A source that precedes this one and may still want the pod.
    fn keeper(&self, before: Source, told: &impl Fn(Source) -> Told) -> Option<Source> {
        let keeps = |owner: &Source| match told(*owner) {
            Told::Nothing => true,
            Told::NotAll => self.is_alive,
            Told::All => false,
        };
        self.places.iter().map(|(owner, _)| *owner).filter(|owner| *owner < before).find(keeps)
    }

    /// The preceding source that may still want this pod, if the claim has to wait for it.
    fn is_kept_from(&self, claim: Claim<'_>, told: &impl Fn(Source) -> Told) -> Option<Source> {
        self.keeper(claim.source, told).filter(|_| !self.is(claim))
    }

    /// Whether the holder is this pod, which a preceding source that has not told may want, too.
    pub fn is_lent_to(&self, holder: &Holder, told: impl Fn(Source) -> Told) -> bool {
        holder.pod.uid == self.uid && self.keeper(holder.pod.source, &told).is_some()
    }

    /// Whether the claim is the running pod, at the same place, with different sizes of its containers.
    fn is_resized(&self, claim: Claim<'_>) -> bool {
        let here =
            |(source, path): &(Source, String)| *source == claim.source && *path == claim.pod.origin.path;
        self.shape.is_some() && self.shape == claim.pod.shape && self.places.iter().any(here)
    }
}

impl Holder {
    /// Whether the claim is the holder, at the same place, with different sizes of its containers.
    fn is_resized(&self, claim: Claim<'_>) -> bool {
        let (old, new) = (&self.raw, claim.pod);
        let here = self.pod.source == claim.source && old.origin.path == new.origin.path;
        here && old.shape.is_some() && old.shape == new.shape
    }
}

/// The UID under which a claim holds its name.
pub fn uid<'a>(claim: Claim<'a>, holder: Option<&'a Holder>, running: Option<&'a Running>) -> &'a str {
    let raw = claim.pod;
    if let Some(running) = running.filter(|r| r.is(claim) || r.is_resized(claim)) {
        return &running.uid;
    }
    let stays = holder.filter(|h| {
        let moved = h.pod.source != claim.source && raw.written.is_some() && raw.written == h.raw.written;
        moved || h.raw.uid == raw.uid || h.is_resized(claim)
    });
    stays.map_or(&raw.uid, |h| &h.pod.uid)
}

/// One winner for each claimed name, unless it has to wait. `running` holds the pods found in Docker at the
/// start, for names without a holder.
pub fn winners<'a>(
    claims: impl Iterator<Item = Claim<'a>>,
    holders: &Holders,
    running: &Table<PodKey, Running>,
    told: impl Fn(Source) -> Told,
) -> Table<&'a PodKey, Claim<'a>> {
    let mut best: Table<&'a PodKey, Claim<'a>> = Table::new();
    for claim in claims {
        let key = &claim.pod.key;
        if running.get(key).and_then(|r| r.is_kept_from(claim, &told)).is_some() {
            continue;
        }
        let now = best.get_or_insert(key, claim);
        let (holder, runs) = (holders.get(key), running.get(key));
        if rank(claim, holder, runs) < rank(*now, holder, runs) {
            *now = claim;
        }
    }
    best
}

/// Problems for both sides of every contested name, for claims that wait because a pod of another source has their
/// name, and for names that share one UID. In order of source and origin.
pub fn problems<'a>(
    claims: impl Iterator<Item = Claim<'a>>,
    holders: &Holders,
    running: &Table<PodKey, Running>,
    told: impl Fn(Source) -> Told,
) -> Vec<Problem> {
    let mut found = Vec::new();
    let mut uids: Table<&str, &DesiredPod> = Table::new();
    for claim in claims {
        let pod = claim.pod;
        if let Some(owner) = running.get(&pod.key).and_then(|running| running.is_kept_from(claim, &told)) {
            let message = format!(
                "a pod of source {owner} has this name, and that source was not read since podkeeper started: this one \
                 waits until it is read or that pod ends"
            );
            found.push(problem(Severity::Warning, pod, message));
            continue;
        }
        let Some(holder) = holders.get(&pod.key) else { continue };
        if !Arc::ptr_eq(&holder.raw, pod) {
            if pod.written.is_some() && pod.written == holder.raw.written && claim.source != holder.pod.source
            {
                let message = format!(
                    "the same pod is in {}, which holds it; this source takes it over when that one lets go",
                    holder.pod.origin
                );
                found.push(problem(Severity::Warning, pod, message));
                continue;
            }
            let held_by = format!(
                "the name is held by the pod from {}, which keeps it; this one is ignored until that one \
                 is gone or renamed",
                holder.pod.origin
            );
            found.push(problem(Severity::Error, pod, held_by));
            let ignored = format!("the pod from {} has the same name and is ignored", pod.origin);
            found.push(problem(Severity::Warning, &holder.pod, ignored));
            continue;
        }
        let first = *uids.get_or_insert(&pod.uid, pod);
        if first.key != pod.key {
            let message = format!(
                "metadata.uid {} is also that of pod {} from {}: only the first of them to run is not refused",
                pod.uid,
                as_written(first),
                first.origin
            );
            found.push(problem(Severity::Warning, pod, message));
        }
    }
    found
}

/// A problem about one pod as a whole.
pub fn problem(severity: Severity, pod: &DesiredPod, message: String) -> Problem {
    Problem {
        severity,
        path: pod.origin.path.clone(),
        at: None,
        pod: Some(as_written(pod)),
        field: None,
        message,
    }
}

/// `namespace/name` without the node's suffix that static pods get.
fn as_written(pod: &DesiredPod) -> String {
    let node = pod.spec.node_name.as_deref().unwrap_or_default().to_lowercase();
    let name = pod.key.name.as_str();
    let short = match pod.source {
        Source::File | Source::Http => name.strip_suffix(&node).and_then(|n| n.strip_suffix('-')),
        Source::Api => None,
    };
    format!("{}/{}", pod.key.namespace, short.unwrap_or(name))
}
