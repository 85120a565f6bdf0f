//! The next request about pods: a pure machine that compares the server's pods with this node's. See the room.
//!
//! The server's pods come from a watch, which lags behind what this node has written itself. An answer to such a write
//! counts until the watch shows that version or a later one, so that nothing is sent twice. A write that the watch
//! never shows (the server's data went back to an older state) counts only for a while.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;

use super::{mirror, wanted};
use crate::api_client::pods::PodsOfNode;
use crate::base::clock::{Mono, Now};
use crate::base::table::Table;
use crate::base::{json, limits};
use crate::cluster::answer::Answer;
use crate::pod::{PodKey, Source};
use crate::status::file::addressed;
use crate::status::snapshot::{PodView, Snapshot, UNMANAGED};

/// A request about a pod.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Patch its status.
    Status(Value),
    /// Remove the object: its containers are dead, and the server has the last status. Only of this version: a server whose
    /// data went back to an older state does not delete it any more.
    Finish { uid: String, version: Option<String> },
    /// Create its mirror pod.
    MakeMirror(Value),
    /// Remove the mirror pod of this UID, which belongs to another version or to no pod.
    DropMirror(String),
}

/// News from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// A line for the log.
    Line(log::Level, String),
    /// The server rejects the mirror of this pod, and why.
    NoMirror(PodKey, String),
}

/// The states of both sides.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The node's state.
    pub snapshot: &'a Snapshot,
    /// The server's pods.
    pub server: &'a PodsOfNode,
    /// Addresses of the node.
    pub addresses: &'a [String],
    /// Name of the node.
    pub node: &'a str,
    /// Its UID, once it is registered.
    pub uid: Option<&'a str>,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Send this request about that pod, and report the answer.
    Ask(PodKey, Ask),
    /// Wait until then, or until something changes.
    Wait(Option<Mono>),
}

/// Remembered state of one pod.
#[derive(Debug, Default)]
struct Known {
    own: Option<Own>,
    /// These needed no request; while they are unchanged, none is needed.
    settled: Option<Settled>,
    /// A request that the server rejected, and the time before which it is not repeated.
    refused: Option<(Ask, Mono)>,
    /// The last status that the server accepted.
    taken: Option<Taken>,
    /// The object of this UID is gone, even if the watch still shows it, and since when.
    gone: Option<(String, Mono)>,
}

/// The answer to the last write.
#[derive(Debug)]
struct Own {
    pod: Arc<Pod>,
    since: Mono,
    /// The watch showed no pod then.
    is_new: bool,
}

/// An accepted status. A server that drops an unknown field, or another client that changes it back, would make
/// podkeeper send the same status again and again.
#[derive(Debug)]
struct Taken {
    ask: Ask,
    /// The same status is not sent again before then.
    until: Mono,
    wait: Duration,
}

#[derive(Debug)]
struct Settled {
    copy: Option<Arc<Pod>>,
    status: Arc<PodStatus>,
    is_over: bool,
    is_leaving: bool,
    addresses: Vec<String>,
}

/// See the module.
#[derive(Debug)]
pub struct Desk {
    known: Table<PodKey, Known>,
    /// The server did not answer: no request before then.
    retry_at: Mono,
    retry: Duration,
    troubled: bool,
}

impl Default for Desk {
    fn default() -> Desk {
        Desk { known: Table::new(), retry_at: Mono::default(), retry: limits::POD_RETRY_MIN, troubled: false }
    }
}

impl Desk {
    /// The next request, if any.
    pub fn next(&mut self, world: &World<'_>, now: &Now) -> Next {
        if !world.server.is_complete {
            return Next::Wait(None);
        }
        if now.mono < self.retry_at {
            return Next::Wait(Some(self.retry_at));
        }
        let mut again: Option<Mono> = None;
        let views: Table<_, _> = world.snapshot.pods.iter().map(|view| (&view.pod.key, view)).collect();
        self.known.retain(|key, _| views.contains_key(key) || world.server.pods.contains_key(key));
        let bare = world.server.pods.keys().filter(|key| !views.contains_key(key));
        let keys: Vec<&PodKey> = views.keys().copied().chain(bare).collect();
        for key in keys {
            let ask = self.about(key, views.get(key).copied(), world, now);
            let known = self.known.get_or_default(key.clone());
            let Some(ask) = ask else {
                again = again.into_iter().chain(known.doubts(now.mono)).min();
                continue;
            };
            let refused = known.refused.iter().map(|(ask, until)| (ask, *until));
            let held = refused.chain(known.taken.iter().map(|taken| (&taken.ask, taken.until)));
            let until = held.filter(|(before, _)| is_same(before, &ask)).map(|(_, until)| until).max();
            match until.filter(|until| now.mono < *until) {
                Some(until) => again = again.into_iter().chain([until]).min(),
                None => return Next::Ask(key.clone(), ask),
            }
        }
        Next::Wait(again)
    }

    /// The request that is due for one pod.
    fn about(&mut self, key: &PodKey, view: Option<&PodView>, world: &World<'_>, now: &Now) -> Option<Ask> {
        let known = self.known.get_or_default(key.clone());
        let copy = known.copy(world.server.pods.get(key), now.mono);
        let Some(view) = view else {
            let orphan = copy.filter(|copy| mirror::mirrored(copy).is_some());
            let heard = world.snapshot.sources.iter().all(|s| s.name == Source::Api.as_str() || s.ready);
            return orphan.filter(|_| heard).map(|copy| Ask::DropMirror(uid(&copy)));
        };
        let is_leaving = view.leaving.is_some();
        let same = |settled: &&Settled| {
            let same_copy = match (&settled.copy, &copy) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                (None, None) => true,
                _ => false,
            };
            same_copy
                && Arc::ptr_eq(&settled.status, &view.status)
                && (settled.is_over, settled.is_leaving) == (view.is_over, is_leaving)
                && settled.addresses == world.addresses
        };
        // A missing mirror pod may have to wait for the node's UID.
        if copy.is_some() && known.settled.as_ref().filter(same).is_some() {
            return None;
        }
        let ask = decide(view, copy.as_deref(), world, now);
        if ask.is_none() {
            known.settled = Some(Settled {
                copy,
                status: Arc::clone(&view.status),
                is_over: view.is_over,
                is_leaving,
                addresses: world.addresses.to_vec(),
            });
        }
        ask
    }

    /// Takes the server's answer. Returns news, if there is any.
    pub fn told(
        &mut self,
        key: &PodKey,
        ask: Ask,
        answer: Answer,
        server: &PodsOfNode,
        now: Mono,
    ) -> Option<News> {
        if let Answer::Failed(why) = &answer {
            self.retry_at = now.after(self.retry);
            self.retry = self.retry.saturating_mul(2).min(limits::POD_RETRY_MAX);
            let is_new = !std::mem::replace(&mut self.troubled, true);
            let line = format!("the API server does not hear how pods are: {why}; it is tried again");
            return is_new.then_some(News::Line(log::Level::Warn, line));
        }
        self.retry = limits::POD_RETRY_MIN;
        let well = std::mem::take(&mut self.troubled);
        let known = self.known.get_or_default(key.clone());
        let line = match (answer, ask) {
            (Answer::Done(object), ask @ (Ask::Status(_) | Ask::MakeMirror(_))) => {
                let is_new = !server.pods.contains_key(key);
                known.own = pod_of(object).map(|pod| Own { pod, since: now, is_new });
                known.refused = None;
                known.take(ask, now).then(|| {
                    let line =
                        format!("pod {key}: the API server takes its status, and does not keep all of it");
                    News::Line(log::Level::Debug, line)
                })
            }
            // The answer to a removal is the object as it was.
            (Answer::Done(_), Ask::Finish { uid, .. } | Ask::DropMirror(uid)) => {
                known.own = None;
                known.gone = Some((uid, now));
                None
            }
            (Answer::Missing, ask) => {
                known.own = None;
                known.gone = server.pods.get(key).map(|pod| (uid(pod), now));
                // For a mirror pod: its namespace is gone. A watch that hangs may show the object for long.
                let again = known.refused.as_ref().is_some_and(|(before, _)| is_same(before, &ask));
                let wait = if again { limits::POD_REFUSED } else { limits::POD_RETRY_MAX };
                known.refused = Some((ask, now.after(wait)));
                None
            }
            (Answer::Conflict | Answer::Exists, ask) => {
                // Of a deleted pod another version is known in a moment.
                let is_status = matches!(ask, Ask::Status(_));
                let wait = if is_status { limits::POD_RETRY_MIN } else { limits::POD_RETRY_MAX };
                known.refused = Some((ask, now.after(wait)));
                None
            }
            (answer, ask) => {
                let what = match &ask {
                    Ask::Status(_) => "its status",
                    Ask::Finish { .. } => "the end of its deletion",
                    Ask::MakeMirror(_) => "its mirror pod",
                    Ask::DropMirror(_) => "the removal of its mirror pod",
                };
                let is_mirror = matches!(ask, Ask::MakeMirror(_));
                let again = known.refused.as_ref().is_some_and(|(before, _)| *before == ask);
                known.refused = Some((ask, now.after(limits::POD_REFUSED)));
                let why = answer.why();
                let line = || format!("pod {key}: the API server does not take {what}: {why}");
                match (again, is_mirror) {
                    (true, _) => None,
                    (false, true) => Some(News::NoMirror(key.clone(), why.to_owned())),
                    (false, false) => Some(News::Line(log::Level::Warn, line())),
                }
            }
        };
        let back = || News::Line(log::Level::Info, "the API server hears how pods are again".to_owned());
        line.or_else(|| well.then(back))
    }
}

impl Known {
    /// Notes an accepted status. Returns true if the server has accepted the same one before.
    fn take(&mut self, ask: Ask, now: Mono) -> bool {
        if !matches!(ask, Ask::Status(_)) {
            return false;
        }
        let before = self.taken.take().filter(|before| is_same(&before.ask, &ask)).map(|before| before.wait);
        let wait =
            before.map_or(limits::POD_SAME_MIN, |wait| wait.saturating_mul(2).min(limits::POD_REFUSED));
        self.taken = Some(Taken { ask, until: now.after(wait), wait });
        before.is_some()
    }

    /// When the watch is believed again, whatever this node has written.
    fn doubts(&self, now: Mono) -> Option<Mono> {
        let own = self.own.as_ref().map(|own| own.since);
        let since = own.into_iter().chain(self.gone.as_ref().map(|(_, since)| *since));
        since.map(|since| since.after(limits::OWN_WRITE)).filter(|at| *at > now).min()
    }

    /// The server's copy of the pod, as far as it is known.
    fn copy(&mut self, watched: Option<&Arc<Pod>>, now: Mono) -> Option<Arc<Pod>> {
        let is_young = |since: &Mono| now.since(*since) < limits::OWN_WRITE;
        if let Some((gone, since)) = &self.gone {
            if is_young(since) && watched.is_some_and(|pod| uid(pod) == *gone) {
                return None;
            }
            self.gone = None;
        }
        let Some(Own { pod: own, since, is_new }) = &self.own else { return watched.cloned() };
        let counts = is_young(since)
            && match watched {
                // The watch shows a pod that was created here only later.
                None => *is_new,
                Some(watched) => uid(watched) == uid(own) && version(own) > version(watched),
            };
        if counts {
            return Some(Arc::clone(own));
        }
        self.own = None;
        watched.cloned()
    }
}

/// Whether two requests are the same except for times and the version that they count for.
fn is_same(a: &Ask, b: &Ask) -> bool {
    let timeless = |patch: &Value| {
        let mut patch = patch.clone();
        if let Some(metadata) = patch.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        let conditions = patch.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
            condition.remove("lastTransitionTime");
        }
        patch
    };
    match (a, b) {
        (Ask::Status(a), Ask::Status(b)) => timeless(a) == timeless(b),
        _ => a == b,
    }
}

/// The request that is needed if the server has this copy.
fn decide(view: &PodView, copy: Option<&Pod>, world: &World<'_>, now: &Now) -> Option<Ask> {
    let pod = &view.pod;
    if view.status.reason.as_deref() == Some(UNMANAGED) {
        return None;
    }
    let Some(copy) = copy else {
        let node =
            world.uid.filter(|_| pod.source != Source::Api && view.is_kept && view.leaving.is_none())?;
        return Some(Ask::MakeMirror(mirror::body(pod, world.node, node)));
    };
    let uid = uid(copy);
    match (pod.source, mirror::mirrored(copy)) {
        // A different pod of that name.
        (Source::Api, None) if uid != pod.uid => return None,
        (Source::Api, None) => {}
        // A file has taken the name, or has given it up.
        (Source::Api, Some(_)) => return Some(Ask::DropMirror(uid)),
        // Another user's pod has the name of a static one: it is not a mirror.
        (_, None) => return None,
        (_, Some(hash)) => {
            let is_of_it = mirror::hash(pod) == Some(hash);
            let is_current = is_of_it && copy.metadata.deletion_timestamp.is_none();
            if !is_current && view.leaving.is_none() {
                return Some(Ask::DropMirror(uid));
            }
            // The next version has a mirror of its own.
            if !is_of_it {
                return None;
            }
        }
    }
    let none = PodStatus::default();
    let theirs = copy.status.as_ref().unwrap_or(&none);
    // A server whose data went back to an older state does not know any more that the pod has ended.
    if !view.is_told && (wanted::is_terminal(theirs) || !wanted::is_terminal(&view.status)) {
        return None;
    }
    let told = addressed(&view.status, pod.host_network(), world.addresses);
    let here = wanted::Here {
        pod,
        status: &told,
        is_leaving: view.leaving.is_some(),
        is_over: view.is_over,
        now: now.wall,
    };
    let is_deleted = copy.metadata.deletion_timestamp.is_some();
    let version = copy.metadata.resource_version.clone();
    match wanted::patch(theirs, &here, &uid) {
        Ok(Some(mut body)) => {
            // It ends because it is deleted: when the server's data go back, it may have to run again.
            if let Some(metadata) = body.pointer_mut("/metadata").filter(|_| is_deleted) {
                metadata["resourceVersion"] = version.into();
            }
            return Some(Ask::Status(body));
        }
        Ok(None) => {}
        Err(why) => {
            log::debug!("pod {}: its status is not sent: {why}", pod.key);
            return None;
        }
    }
    let finished = pod.source == Source::Api && is_deleted && view.is_over && wanted::is_terminal(theirs);
    finished.then_some(Ask::Finish { uid, version })
}

fn uid(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

/// Versions of one object only grow; if a server's versions are not numbers, all count as equal.
fn version(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The pod in an answer.
fn pod_of(object: Value) -> Option<Arc<Pod>> {
    json::read(&object).ok().map(Arc::new)
}
