//! Looks up the objects that pods refer to: decides which objects are due, their order, and which pods wait for them.
//!
//! Never here: requests for pods.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Actor;
use super::decode::{Meaning, Token};
use super::objects::{Answer, Asker};
use super::under_way::UnderWay;
use crate::api_client::ApiError;
use crate::api_client::request::encoded;
use crate::base::clock::Mono;
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::node::runtimes;
use crate::pod::object::ObjectKey;
use crate::pod::object::refs::references;
use crate::pod::placement;
use crate::pod::problem::{Problem, Severity};
use crate::pod::{DesiredPod, PodKey};
use crate::source::Waiting;

/// A pod whose objects are looked up.
type Wanted = (Arc<DesiredPod>, Vec<Token>);

/// What is known of look-ups beside the objects.
#[derive(Default)]
pub(super) struct LookUps {
    pub(super) under_way: UnderWay<ObjectKey, Answer>,
    /// The last pod whose object the server did not answer for at once: the pods after it come first.
    behind: Option<PodKey>,
    /// Objects that are to be read again.
    stale: Set<ObjectKey>,
    /// How long a pod waits for the node's labels and taints: these are known then, or not for now.
    node_until: Option<Mono>,
    /// UIDs of pods for which the node was read because the known one refuses them.
    refused: Set<String>,
    /// Since when each new pod is known, by UID: its objects have to be read after that.
    since: Table<String, Mono>,
}

/// What a pod lacks.
struct Lacks {
    message: String,
    /// It was asked for in vain.
    has_failed: bool,
}

impl Lacks {
    /// `why`: the reason of the last failure.
    fn new(what: &str, why: Option<&str>) -> Lacks {
        let reason = why.map(|why| format!(": {why}")).unwrap_or_default();
        Lacks { message: format!("waits for {what}{reason}"), has_failed: why.is_some() }
    }

    fn of(self, pod: &DesiredPod) -> Apart {
        let Lacks { message, has_failed } = self;
        Apart {
            pod: pod.key.clone(),
            uid: pod.uid.clone(),
            path: pod.origin.path.clone(),
            message,
            has_failed,
        }
    }
}

/// A pod that waits for its objects.
pub(super) struct Apart {
    pod: PodKey,
    uid: String,
    path: String,
    message: String,
    has_failed: bool,
}

impl Apart {
    pub(super) fn problem(&self) -> Problem {
        Problem {
            severity: Severity::Warning,
            path: self.path.clone(),
            at: None,
            pod: Some(self.pod.to_string()),
            field: None,
            message: self.message.clone(),
        }
    }

    /// What is told of the pod, when the server has been asked in vain.
    pub(super) fn told(&self) -> Option<Waiting> {
        let told = || Waiting { key: self.pod.clone(), uid: self.uid.clone(), why: self.message.clone() };
        self.has_failed.then(told)
    }
}

/// One pass over all pods.
struct Round {
    now: Mono,
    /// The server did not answer: the other requests would wait in vain.
    is_gone: bool,
    /// An answer takes long: the others are not waited for.
    is_slow: bool,
    /// The last pod for which an answer was not there at once.
    behind: Option<PodKey>,
}

impl Actor {
    /// Looks up the objects of new pods, and all objects when that is due.
    pub(super) fn look_up(&mut self) {
        let now = self.now();
        self.due.looked = now;
        let wanted: Vec<Wanted> = self
            .known
            .values()
            .filter_map(|read| match &read.meaning {
                Meaning::Wanted(pod, tokens) => Some((Arc::clone(pod), tokens.clone())),
                _ => None,
            })
            .collect();
        let keys =
            order::set(wanted.iter().flat_map(|(pod, _)| references(pod)).map(|reference| reference.key));
        self.objects.retain(|key| keys.contains(key));
        self.look_ups.under_way.retain(|key| keys.contains(key));
        self.look_ups.stale.retain(|key| keys.contains(key));
        while let Some((key, answer)) = self.look_ups.under_way.next(Duration::ZERO) {
            self.take_answer(&key, answer);
        }
        self.classes.take_answers(Duration::ZERO, now, self.parts.patience.again);
        let uids = order::set(wanted.iter().map(|(pod, _)| pod.uid.clone()));
        self.ready.retain(|uid| uids.contains(uid));
        self.look_ups.refused.retain(|uid| uids.contains(uid));
        let ready = &self.ready;
        self.look_ups.since.retain(|uid, _| uids.contains(uid) && !ready.contains(uid));
        self.classes.retain(&order::set(wanted.iter().filter_map(|(pod, _)| runtimes::class(pod))), &uids);
        let all_due = self.due.objects <= now;
        if all_due {
            let more = self.luck.draw() % limits::API_OBJECTS_JITTER.as_secs().max(1);
            self.due.objects = now.after(limits::API_OBJECTS_EVERY).after(Duration::from_secs(more));
            self.look_ups.stale = keys;
        }
        self.waiting.clear();
        self.due.retry = None;
        let new = wanted.iter().filter(|(pod, _)| !is_deleted(pod) && !self.ready.contains(&pod.uid));
        let new: Vec<&DesiredPod> = new.map(|(pod, _)| &**pod).collect();
        self.know_node_for(&new);
        let mut round = Round { now, is_gone: false, is_slow: false, behind: self.look_ups.behind.take() };
        let order = in_turn(&wanted, round.behind.as_ref());
        for (pod, tokens) in order.into_iter().filter(|(pod, _)| !is_deleted(pod)) {
            match self.missing(pod, tokens, &mut round) {
                Some(message) => {
                    // From now on: events are heard before the server is waited for again.
                    self.due.retry = Some(self.now().after(self.parts.patience.again));
                    self.waiting.insert(pod.key.clone(), message.of(pod));
                }
                None => _ = self.ready.insert(pod.uid.clone()),
            }
        }
        self.look_ups.behind = round.behind;
    }

    /// Looks up the objects of one pod that are due; returns the reason why the pod waits.
    fn missing(&mut self, pod: &DesiredPod, tokens: &[Token], round: &mut Round) -> Option<Lacks> {
        let is_new = !self.ready.contains(&pod.uid);
        let since = is_new.then(|| *self.look_ups.since.get_or_insert(pod.uid.clone(), round.now));
        if self.classes.is_due(pod, since, round.now) && !round.is_gone {
            let asker = Asker::new(&self.parts, &self.server, None).within(limits::API_OBJECT_FIRST);
            let again = self.parts.patience.again;
            let is_there = self.classes.look_up(asker, pod, round.now, again, round.is_slow);
            round.is_slow = round.is_slow || !is_there;
        }
        if !self.classes.is_known(pod) {
            return Some(Lacks::new("its RuntimeClass", self.classes.why(pod)));
        }
        self.classes.give(pod);
        for key in order::set(references(pod).into_iter().map(|reference| reference.key)) {
            let token = tokens.iter().find(|token| token.key == key);
            let is_due = match token {
                Some(_) => self.objects.is_due(&key, round.now),
                None => {
                    !self.objects.is_known(&key)
                        || since.is_some_and(|since| !self.objects.is_read_since(&key, since))
                        || self.look_ups.stale.contains(&key) && self.objects.can_change(&key)
                        || self.objects.is_awaited(&key, round.now)
                }
            };
            if is_due && !round.is_gone && self.may_ask(&key, round.now) && !self.ask(&key, token, round) {
                round.behind = Some(pod.key.clone());
            }
            if !self.objects.is_known(&key) {
                let what = token.map_or_else(
                    || key.to_string(),
                    |token| format!("the token of service account {}", token.account),
                );
                return Some(Lacks::new(&what, self.objects.why(&key)));
            }
        }
        None
    }

    /// Whether there is room for one more request, and it is time for it.
    fn may_ask(&self, key: &ObjectKey, now: Mono) -> bool {
        let under_way = &self.look_ups.under_way;
        if under_way.has(key) || under_way.is_full() || !self.objects.may_ask(key, now) {
            return false;
        }
        let failed = || under_way.keys().filter(|key| self.objects.has_failed(key)).count();
        !self.objects.has_failed(key) || failed() < limits::API_LOOK_UPS_FAILED
    }

    /// Asks for one object or token, and waits a moment for the answer. Returns whether it is there.
    fn ask(&mut self, key: &ObjectKey, token: Option<&Token>, round: &mut Round) -> bool {
        let asker = Asker::new(&self.parts, &self.server, self.node.latest.as_ref());
        let asker = asker.within(self.objects.patience(key, self.parts.patience.call));
        self.look_ups.stale.remove(key);
        self.objects.begin(key, round.now);
        if token.is_some() {
            self.objects.begin_token(key, round.now);
        }
        let (of, token) = (key.clone(), token.cloned());
        let ask = move || {
            let result = asker.fetch(&of, token.as_ref());
            (token, result)
        };
        if let Err(error) = self.look_ups.under_way.begin(key.clone(), ask) {
            let now = self.now();
            self.objects.note(key, &Err(error), now);
            return false;
        }
        while !round.is_slow {
            let Some((of, answer)) = self.look_ups.under_way.next(limits::API_LOOK_UP_QUICK) else {
                round.is_slow = true;
                return false;
            };
            let is_own = of == *key;
            let is_lost = self.take_answer(&of, answer);
            if is_own {
                round.is_gone = is_lost;
                return !is_lost;
            }
        }
        false
    }

    /// Takes an answer; returns true when there was none.
    fn take_answer(&mut self, key: &ObjectKey, answer: Answer) -> bool {
        let now = self.now();
        let result = self.objects.take(&self.parts.acceptor, &self.server, key, answer, now);
        self.objects.note(key, &result, now);
        matches!(result, Err(ApiError::Unreachable(_) | ApiError::Closed))
    }

    /// Ends the wait of the first set. A pod that cannot start without a missing object is wanted now: none of its
    /// containers starts before. A pod with optional objects would start wrongly, and stays apart.
    pub(super) fn go_on_without(&mut self) {
        let pods = self.known.values().filter_map(|read| match &read.meaning {
            Meaning::Wanted(pod, _) if self.waiting.contains_key(&pod.key) => Some(pod),
            _ => None,
        });
        let must = pods
            .filter(|pod| references(pod).iter().all(|it| !it.optional || self.objects.is_known(&it.key)))
            .filter(|pod| self.classes.is_known(pod));
        let uids: Vec<String> = must.map(|pod| pod.uid.clone()).collect();
        self.ready.extend(uids);
    }

    /// After a failure the node may be another one by now.
    pub(super) fn hope_for_node(&mut self) {
        if self.failed {
            self.look_ups.node_until = None;
            self.node.hope();
        }
    }

    /// Takes over the node that these new pods are judged by.
    fn know_node_for(&mut self, new: &[&DesiredPod]) {
        if new.is_empty() {
            return;
        }
        // As the kubelet waits for its node before it asks for pods.
        let now = self.now();
        let until = *self.look_ups.node_until.get_or_insert(now.after(limits::API_FIRST));
        self.node.refresh(until.since(now));
        let refused = new.iter().filter(|pod| self.would_refuse(pod));
        let refused: Vec<String> = refused.map(|pod| pod.uid.clone()).collect();
        if !refused.is_empty() {
            self.look_ups.refused.extend(refused);
            self.look_at_node();
        }
    }

    /// Whether the known node may not have this pod, and was not read for it. The scheduler may know a later one, and what is
    /// refused is refused for good.
    fn would_refuse(&self, pod: &DesiredPod) -> bool {
        let Some(node) = self.node.latest.as_ref().filter(|_| !self.look_ups.refused.contains(&pod.uid))
        else {
            return false;
        };
        !placement::is_selected(&pod.spec, &self.parts.acceptor.node_name, &node.labels)
            || placement::untolerated(&pod.spec, &node.taints, "NoExecute").is_some()
    }

    /// Asks for the node now. The known one stays when there is no answer.
    fn look_at_node(&mut self) {
        let path = format!("/api/v1/nodes/{}", encoded(&self.parts.acceptor.node_name));
        let asker = Asker::new(&self.parts, &self.server, None).within(limits::API_FIRST);
        match asker.get(path) {
            // What is no node has no taints, and all pods would be let in.
            Ok(node) if node.get("kind").and_then(Value::as_str) == Some("Node") => self.node.put(&node),
            Ok(_) => log::debug!("the node's labels and taints are not known anew: the answer is no node"),
            Err(error) => log::debug!("the node's labels and taints are not known anew: {error}"),
        }
    }
}

/// All pods, one of each namespace in turn, beginning after this one: objects that hang delay neither other namespaces nor
/// always the same pods of their own.
fn in_turn<'w>(wanted: &'w [Wanted], behind: Option<&PodKey>) -> Vec<&'w Wanted> {
    let mut places: Table<&str, usize> = Table::new();
    let mut all: Vec<(usize, &Wanted)> = Vec::new();
    for one in wanted {
        let place = places.get_or_default(&*one.0.key.namespace);
        all.push((*place, one));
        *place = place.saturating_add(1);
    }
    // Those of a namespace stay in order.
    order::sort_by_key(&mut all, |(place, _)| *place);
    let at = behind.and_then(|key| all.iter().position(|(_, (pod, _))| pod.key == *key));
    all.rotate_left(at.map_or(0, |at| at.saturating_add(1)));
    all.into_iter().map(|(_, one)| one).collect()
}

pub(super) fn is_deleted(pod: &DesiredPod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
