//! How two versions of one pod differ (upstream `pkg/kubelet/config/config.go`, `checkAndUpdatePod`), and the
//! annotations that the merge itself writes. Pure; knows one pod at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::base::clock::Timestamp;
use crate::manifest::static_pod::{CONFIG_HASH, CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE};
use crate::merge::Op;
use crate::pod::{DesiredPod, Source};

/// Annotations that the agent writes; they are not part of the user's intent. `config.hash` is part of it.
const LOCAL: [&str; 3] = [CONFIG_SOURCE, CONFIG_SEEN, CONFIG_MIRROR];

/// The change of a pod whose UID stays: `None` when no reader needs to know. Both pods are annotated.
pub fn outcome(old: &DesiredPod, new: &DesiredPod) -> Option<Op> {
    if means_other(old, new) {
        let deleting = new.metadata.deletion_timestamp.is_some();
        return Some(if deleting { Op::Delete } else { Op::Update });
    }
    let moved = old.source != new.source || old.origin != new.origin;
    (moved || old.status != new.status).then_some(Op::Reconcile)
}

/// Whether the two differ in fields that the kubelet calls "meaningful". `None` and empty maps are equal.
fn means_other(old: &DesiredPod, new: &DesiredPod) -> bool {
    let (a, b) = (&old.metadata, &new.metadata);
    a.deletion_timestamp != b.deletion_timestamp
        || a.deletion_grace_period_seconds != b.deletion_grace_period_seconds
        || !a.labels.iter().flatten().eq(b.labels.iter().flatten())
        || !meant(a.annotations.as_ref()).eq(meant(b.annotations.as_ref()))
        || old.spec != new.spec
}

fn meant(all: Option<&BTreeMap<String, String>>) -> impl Iterator<Item = (&String, &String)> {
    all.into_iter().flatten().filter(|(key, _)| !LOCAL.contains(&key.as_str()))
}

/// The bounds of a source for its pods, which override their manifests.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    /// The highest priority.
    pub priority: i32,
    /// The longest grace period, seconds.
    pub grace: u32,
}

impl Most {
    fn shorten(self, pod: &mut DesiredPod) {
        let is_long = |grace: &Option<i64>| grace.is_some_and(|grace| grace > i64::from(self.grace));
        if is_long(&pod.spec.termination_grace_period_seconds) {
            Arc::make_mut(&mut pod.spec).termination_grace_period_seconds = Some(self.grace.into());
        }
        if is_long(&pod.metadata.deletion_grace_period_seconds) {
            pod.metadata.deletion_grace_period_seconds = Some(self.grace.into());
        }
    }
}

/// The pod in the form for other rooms: owned by `source`, with its local annotations and its UID, which is
/// an older one if the pod moved here. `old` is the stored version with the same UID: its first-seen time
/// (and mirror hash) are kept.
pub fn annotate(
    raw: &DesiredPod,
    uid: &str,
    source: Source,
    most: Most,
    seen: Timestamp,
    old: Option<&DesiredPod>,
) -> Arc<DesiredPod> {
    let mut pod = raw.clone();
    (pod.source, pod.ceiling) = (source, most.priority);
    most.shorten(&mut pod);
    if pod.uid != uid {
        uid.clone_into(&mut pod.uid);
        pod.metadata.uid = Some(uid.to_owned());
        if let Some(hash) = pod.metadata.annotations.as_mut().and_then(|a| a.get_mut(CONFIG_HASH)) {
            uid.clone_into(hash);
        }
    }
    let kept = |key: &str| old.and_then(|o| o.metadata.annotations.as_ref()?.get(key).cloned());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(CONFIG_SOURCE.into(), source.as_str().into());
    // Upstream's layout always has nine fractional digits.
    let first_seen = kept(CONFIG_SEEN).unwrap_or_else(|| format!("{seen:.9}"));
    annotations.insert(CONFIG_SEEN.into(), first_seen);
    if let Some(mirror) = kept(CONFIG_MIRROR) {
        annotations.insert(CONFIG_MIRROR.into(), mirror);
    }
    Arc::new(pod)
}
