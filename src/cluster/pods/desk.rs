//! The next request about pods: a pure machine that compares the server's pods with this node's. See the room.
//!
//! The server's pods come from a watch, which lags behind what this node has written itself. An answer to such a write
//! counts until the watch shows that version or a later one, so that nothing is sent twice. A write that the watch
//! never shows (the server's data went back to an older state) counts only for a while.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::Value;

use super::added::{self, Failures};
use super::known::{Known, Late, Own, Settled, is_same, uid};
use super::{mirror, wanted};
use crate::api_client::pods::PodsOfNode;
use crate::base::clock::{Mono, Now};
use crate::base::pace::doubled;
use crate::base::table::Table;
use crate::base::{json, limits, order};
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
    /// Why ephemeral containers could not be made.
    pub failures: &'a Failures,
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

/// See the module.
#[derive(Debug)]
pub struct Desk {
    known: Table<PodKey, Known>,
    /// Failures of namespaces since their last answers: a webhook may hang for one of them alone.
    namespaces: Table<String, Late>,
    /// The server did not answer: no request before then.
    retry_at: Mono,
    retry: Duration,
    troubled: bool,
    /// The namespace of the last request, if it failed.
    down: Option<String>,
    /// When the last request was due.
    asked: Mono,
    /// Number of failures and of pods that were met, and of answers.
    count: u64,
    answers: u64,
}

impl Default for Desk {
    fn default() -> Desk {
        Desk {
            known: Table::new(),
            namespaces: Table::new(),
            retry_at: Mono::default(),
            retry: limits::POD_RETRY_MIN,
            troubled: false,
            down: None,
            asked: Mono::default(),
            count: 0,
            answers: 0,
        }
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
        let mut keys: Vec<&PodKey> = views.keys().copied().chain(bare).collect();
        if !self.namespaces.is_empty() {
            let namespaces = order::set(keys.iter().map(|key| &key.namespace));
            self.namespaces.retain(|namespace, _| namespaces.contains(namespace));
        }
        for key in &keys {
            if self.known.get(*key).is_none_or(|known| known.met == 0) {
                self.count = self.count.saturating_add(1);
                self.known.get_or_default(PodKey::clone(key)).met = self.count;
            }
        }
        order::sort_by_key(&mut keys, |key| self.turn(key));
        for key in keys {
            let late = self.lates(key).into_iter().flatten().map(|late| late.until).max();
            if let Some(until) = late.filter(|until| now.mono < *until) {
                again = again.into_iter().chain([until]).min();
                continue;
            }
            let ask = self.about(key, views.get(key).copied(), world, now);
            let known = self.known.get_or_default(key.clone());
            let Some(ask) = ask else {
                again = again.into_iter().chain(known.doubts(now.mono)).min();
                continue;
            };
            let held = known.refused.iter().chain(&known.taken).filter(|before| is_same(&before.ask, &ask));
            let until = held.map(|before| before.until).max();
            match until.filter(|until| now.mono < *until) {
                Some(until) => again = again.into_iter().chain([until]).min(),
                None => {
                    self.asked = now.mono;
                    return Next::Ask(key.clone(), ask);
                }
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
                && settled.of == (view.is_over, is_leaving, view.runs, view.returns)
                && settled.others == view.others
                && settled.addresses == world.addresses
                && settled.failures == world.failures.round
        };
        // A missing mirror pod may have to wait for the node's UID.
        if copy.is_some() && known.settled.as_ref().filter(same).is_some() {
            return None;
        }
        let may_drop = !known.refused.iter().any(|before| matches!(before.ask, Ask::DropMirror(_)));
        let ask = decide(view, copy.as_deref(), may_drop, world, now);
        if ask.is_none() {
            known.settled = Some(Settled {
                copy,
                status: Arc::clone(&view.status),
                of: (view.is_over, is_leaving, view.runs, view.returns),
                others: view.others.clone(),
                addresses: world.addresses.to_vec(),
                failures: world.failures.round,
            });
        }
        ask
    }

    /// The place of a pod among all: what failed last comes last, for neither a pod nor a namespace must keep the others
    /// waiting; and what was met last, for new ones may hang one after the other.
    fn turn(&self, key: &PodKey) -> [u64; 2] {
        let [namespace, own] = self.lates(key).map(|late| late.map_or(0, |late| late.order));
        [namespace, own.max(self.known.get(key).map_or(0, |known| known.met))]
    }

    /// Failures of its namespace, and its own.
    fn lates(&self, key: &PodKey) -> [Option<&Late>; 2] {
        [self.namespaces.get(&key.namespace), self.known.get(key).map(|known| &known.late)]
    }

    /// Takes a failure: the pod's own, its namespace's, or the server's. The first two keep no other pod waiting.
    fn failed(&mut self, key: &PodKey, answer: &Answer, now: Mono) -> Option<News> {
        self.count = self.count.saturating_add(1);
        let (order, answers) = (self.count, self.answers);
        let is_answered = matches!(answer, Answer::Unable(_));
        let is_known = |late: &Late| late.order > 0 && late.answers != answers;
        let others_are_answered = self.lates(key).into_iter().flatten().any(is_known);
        let namespace = self.namespaces.get_or_default(key.namespace.clone());
        let late = &mut self.known.get_or_default(key.clone()).late;
        let is_own = is_answered || others_are_answered || namespace.own > 0;
        let is_same = self.down.replace(key.namespace.clone()).is_some_and(|last| last == key.namespace);
        if is_own {
            // Of a namespace in which one after the other hangs, one is tried at a time.
            let hangs = !is_answered || now.since(self.asked) >= limits::POD_SLOW;
            namespace.own = namespace.own.saturating_add(u32::from(hangs && late.own == 0));
            if hangs && namespace.own > 1 {
                namespace.until = now.after(limits::POD_LATE_MAX);
            }
            late.until = now.after(doubled(limits::POD_RETRY_MIN, late.own, limits::POD_LATE_MAX));
            late.own = late.own.saturating_add(1);
        } else {
            // Another namespace is tried once before all wait.
            *(if is_same { &mut namespace.until } else { &mut self.retry_at }) = now.after(self.retry);
            self.retry = self.retry.saturating_mul(2).min(limits::POD_RETRY_MAX);
        }
        (late.order, late.answers) = (order, answers);
        (namespace.order, namespace.answers) = (order, answers);
        let why = answer.why();
        let (is_new, line) = match is_own {
            true => (
                late.own == 1,
                format!(
                    "pod {key}: the API server does not take what is told of it: {why}; it is tried again"
                ),
            ),
            false => (
                !std::mem::replace(&mut self.troubled, true),
                format!("the API server does not hear how pods are: {why} (pod {key}); it is tried again"),
            ),
        };
        is_new.then_some(News::Line(log::Level::Warn, line))
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
        if let Answer::Failed(_) | Answer::Unable(_) = &answer {
            return self.failed(key, &answer, now);
        }
        self.retry = limits::POD_RETRY_MIN;
        let well = std::mem::take(&mut self.troubled);
        self.answers = self.answers.saturating_add(1);
        self.namespaces.remove(&key.namespace);
        self.down = None;
        let known = self.known.get_or_default(key.clone());
        known.late = Late::default();
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
                let again = known.refused.as_ref().is_some_and(|before| is_same(&before.ask, &ask));
                let wait = if again { limits::POD_REFUSED } else { limits::POD_RETRY_MAX };
                known.refuse(ask, Some(wait), now);
                None
            }
            (Answer::Conflict | Answer::Exists, ask) => {
                // Of a deleted pod another version is known in a moment.
                let is_status = matches!(ask, Ask::Status(_));
                let wait = if is_status { limits::POD_RETRY_MIN } else { limits::POD_RETRY_MAX };
                known.refuse(ask, Some(wait), now);
                None
            }
            (answer, ask) => rejected(key, known, ask, &answer, server, now),
        };
        let back = || News::Line(log::Level::Info, "the API server hears how pods are again".to_owned());
        line.or_else(|| well.then(back))
    }
}

/// Notes a request that the server does not take. What somebody waits for, a deletion or the end of a job, is tried as often
/// as the kubelet does.
fn rejected(
    key: &PodKey,
    known: &mut Known,
    ask: Ask,
    answer: &Answer,
    server: &PodsOfNode,
    now: Mono,
) -> Option<News> {
    let what = match &ask {
        Ask::Status(_) => "its status",
        Ask::Finish { .. } => "the end of its deletion",
        Ask::MakeMirror(_) => "its mirror pod",
        Ask::DropMirror(_) => "the removal of its mirror pod",
    };
    let is_mirror = matches!(ask, Ask::MakeMirror(_));
    let is_deleted = server.pods.get(key).is_some_and(|pod| pod.metadata.deletion_timestamp.is_some());
    let tells_end = match &ask {
        Ask::Status(body) => {
            let phase = body.pointer("/status/phase").and_then(Value::as_str);
            matches!(phase, Some("Succeeded" | "Failed"))
        }
        _ => false,
    };
    let again = known.refuse(ask, (is_deleted || tells_end).then_some(limits::POD_SAME_MIN), now);
    let why = answer.why();
    match (again, is_mirror) {
        (true, _) => None,
        (false, true) => Some(News::NoMirror(key.clone(), why.to_owned())),
        (false, false) => {
            let line = format!("pod {key}: the API server does not take {what}: {why}");
            Some(News::Line(log::Level::Warn, line))
        }
    }
}

/// The request that is needed if the server has this copy. `may_drop`: it has not refused to remove that.
fn decide(view: &PodView, copy: Option<&Pod>, may_drop: bool, world: &World<'_>, now: &Now) -> Option<Ask> {
    let pod = &view.pod;
    if view.status.reason.as_deref() == Some(UNMANAGED) {
        return None;
    }
    let none = PodStatus::default();
    let Some(copy) = copy else {
        let node =
            world.uid.filter(|_| pod.source != Source::Api && view.is_kept && view.leaving.is_none())?;
        return Some(Ask::MakeMirror(mirror::body(pod, world.node, node)));
    };
    let (uid, theirs) = (uid(copy), copy.status.as_ref().unwrap_or(&none));
    match (pod.source, mirror::mirrored(copy)) {
        // A different pod of that name.
        (Source::Api, None) if uid != pod.uid => return None,
        (Source::Api, None) => {}
        // A file has taken the name, or has given it up.
        (Source::Api, Some(_)) => return Some(Ask::DropMirror(uid)),
        // Another user's pod has the name of a static one: it is not a mirror.
        (_, None) => return displace(view, copy, now),
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
            // As after a preemption: only a new mirror can show it.
            if may_drop && view.leaving.is_none() && wanted::runs_again(pod, theirs, &view.status) {
                return Some(Ask::DropMirror(uid));
            }
        }
    }
    // A server whose data went back to an older state does not know any more that the pod has ended.
    if !view.is_told && (wanted::is_terminal(theirs) || !wanted::is_terminal(&view.status)) {
        return None;
    }
    let mut told = addressed(&view.status, pod.host_network(), world.addresses);
    if pod.source == Source::Api && added::are_left_out(&view.status, copy) {
        added::show(told.to_mut(), copy, &uid, world.failures);
    }
    let is_deleted = copy.metadata.deletion_timestamp.is_some();
    let here = wanted::Here {
        pod,
        status: &told,
        is_leaving: view.leaving.is_some(),
        is_over: view.is_over,
        runs: view.runs,
        returns: view.returns,
        deletion: copy.metadata.generation.filter(|_| is_deleted),
        now: now.wall,
    };
    let version = copy.metadata.resource_version.clone();
    if let Some(mut body) = wanted::patch(theirs, &here, &uid) {
        // It ends because it is deleted: when the server's data go back, it may have to run again.
        if let Some(metadata) = body.pointer_mut("/metadata").filter(|_| is_deleted) {
            metadata["resourceVersion"] = version.into();
        }
        return Some(Ask::Status(body));
    }
    let finished = pod.source == Source::Api && is_deleted && view.is_over && wanted::is_terminal(theirs);
    finished.then_some(Ask::Finish { uid, version })
}

/// What becomes of a pod of the server that a static pod keeps from running.
fn displace(view: &PodView, copy: &Pod, now: &Now) -> Option<Ask> {
    let none = PodStatus::default();
    let (uid, theirs) = (uid(copy), copy.status.as_ref().unwrap_or(&none));
    // Containers of the static pod are started only when those of the other one are dead.
    let has_begun = view.status.phase.as_deref().is_some_and(|it| it != "Pending");
    if view.leaving.is_some() || !(has_begun || view.is_told && !view.others.contains(&uid)) {
        return None;
    }
    let is_deleted = copy.metadata.deletion_timestamp.is_some();
    let ends = wanted::displaced(theirs, &view.pod, copy, now.wall).map(Ask::Status);
    let version = copy.metadata.resource_version.clone();
    ends.or_else(|| is_deleted.then_some(Ask::Finish { uid, version }))
}

/// The pod in an answer.
fn pod_of(object: Value) -> Option<Arc<Pod>> {
    json::read(&object).ok().map(Arc::new)
}
