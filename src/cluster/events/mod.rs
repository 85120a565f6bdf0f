//! Events for an API server: the recorder's events, each sent once, and again when its count has changed. Pure.
//!
//! Upstream: `client-go/tools/record/event.go`, `events_cache.go`. The recorder's ring aggregates and counts, and it is
//! bounded; so this module has no queue, and an event that happened during an hour without a server is sent once when
//! the server is back, with its count. An event that the server has dropped is created again.
//!
//! Never here: a socket, or an event from before the daemon's start, unless it happened again.

mod tokens;

use std::sync::Arc;

use crate::base::json::json;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use crate::base::clock::Mono;
use crate::base::table::Table;
use crate::base::{limits, order};
use crate::cluster::answer::Answer;
use crate::recorder::ring::Kept;
use crate::recorder::{Involved, ObjectEvent, Weight};
use crate::status::seconds;

use tokens::Tokens;

/// The reporting component: the kubelet's name, because tools search for it.
const COMPONENT: &str = "kubelet";
/// The namespace of events about the node, which has no namespace itself.
const OF_NODES: &str = "default";

/// A request about an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Ask {
    /// Namespace of the event.
    pub namespace: String,
    /// Name of the event.
    pub name: String,
    /// Create the event; otherwise patch the one of that name.
    pub is_new: bool,
    /// The event, or the patch.
    pub body: Value,
    serial: i128,
    count: u32,
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Send this request, and report the answer.
    Ask(Ask),
    /// Wait until then, or until there are new events.
    Wait(Option<Mono>),
}

/// The server's copy of an event.
#[derive(Debug, Clone, Copy)]
struct Sent {
    count: u32,
    /// The server has lost the event, or has not taken it yet.
    is_lost: bool,
    late: Late,
}

/// Failures to send an event since the server has taken it.
#[derive(Debug, Clone, Copy, Default)]
struct Late {
    /// How often the server said that it could not take it, and took others between.
    tries: u32,
    /// Number of answers at the last time.
    answers: u64,
    /// It is not sent again before then.
    until: Mono,
    /// A token was taken for it.
    is_paid: bool,
}

/// A namespace whose last event failed: a webhook may hang for it alone.
#[derive(Debug, Clone, Copy, Default)]
struct Trouble {
    /// How many failed in a row.
    times: u32,
    /// When the last one failed, in the order of all failures.
    order: u64,
    /// None of its events is sent before then.
    until: Mono,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Post {
    sent: Table<i128, Sent>,
    tokens: Tokens,
    /// No event is sent before then.
    retry_at: Mono,
    troubles: Table<String, Trouble>,
    /// The namespace of the last event, if it failed.
    down: Option<String>,
    /// Number of answers about events, and of failures.
    answers: u64,
    failures: u64,
}

impl Post {
    /// The state after the events of an earlier daemon, which count as sent.
    #[must_use]
    pub fn after(earlier: &[Arc<Kept>]) -> Post {
        let sent = earlier
            .iter()
            .map(|kept| (kept.serial, Sent { count: kept.count, is_lost: false, late: Late::default() }));
        Post { sent: sent.collect(), ..Post::default() }
    }

    /// The next request, for the recorder's current events. `node` is the name of this node.
    pub fn next(&mut self, kept: &[Arc<Kept>], node: &str, now: Mono) -> Next {
        if now < self.retry_at {
            return Next::Wait(Some(self.retry_at));
        }
        if self.sent.len() > kept.len() {
            let known = order::set(kept.iter().map(|kept| kept.serial));
            self.sent.retain(|serial, _| known.contains(serial));
        }
        if !self.troubles.is_empty() {
            let known = order::set(kept.iter().map(|kept| namespace(kept)));
            self.troubles.retain(|of, _| known.contains(of.as_str()));
        }
        let mut later: Option<Mono> = None;
        // A namespace in trouble keeps no other waiting: what failed last comes last.
        let mut turns: Vec<u64> = self.troubles.values().map(|trouble| trouble.order).collect();
        turns.push(0);
        order::sort(&mut turns);
        for turn in turns {
            for kept in kept {
                let trouble = self.troubles.get(namespace(kept)).copied();
                if trouble.map_or(0, |trouble| trouble.order) != turn {
                    continue;
                }
                let sent = self.sent.get(&kept.serial).copied();
                if sent.is_some_and(|sent| !sent.is_lost && sent.count >= kept.count) {
                    continue;
                }
                let until = sent.map(|sent| sent.late.until).max(trouble.map(|trouble| trouble.until));
                if let Some(at) = until.filter(|at| now < *at) {
                    later = Some(later.map_or(at, |later| later.min(at)));
                    continue;
                }
                let is_paid = sent.is_some_and(|sent| sent.late.is_paid);
                match if is_paid { Ok(()) } else { self.tokens.take(&kept.event, now) } {
                    Ok(()) => return Next::Ask(ask(kept, sent.is_none_or(|sent| sent.is_lost), node)),
                    Err(at) => later = Some(later.map_or(at, |later| later.min(at))),
                }
            }
        }
        Next::Wait(later)
    }

    /// Takes the server's answer; `heard`: how often it has answered the node's heartbeats. Returns a line for the log, if
    /// there is something new to report.
    pub fn told(
        &mut self,
        ask: &Ask,
        answer: &Answer,
        heard: u64,
        now: Mono,
    ) -> Option<(log::Level, String)> {
        let answers = self.answers.saturating_add(heard);
        if let Answer::Failed(why) | Answer::Unable(why) = answer {
            let is_new = self.failed(ask, now);
            let unsent = Sent { count: 0, is_lost: true, late: Late::default() };
            let late = &mut self.sent.get_or_insert_with(ask.serial, || unsent).late;
            // The kubelet does not send such an event again. A server that takes nothing says nothing about this one.
            let counts = matches!(answer, Answer::Unable(_)) && (late.tries == 0 || late.answers != answers);
            late.tries = late.tries.saturating_add(u32::from(counts));
            (late.until, late.answers, late.is_paid) = (now.after(limits::API_EVENT_RETRY), answers, true);
            if late.tries < limits::API_EVENT_TRIES {
                let line = format!(
                    "the API server does not hear of event {}/{}: {why}; it is sent later",
                    ask.namespace, ask.name
                );
                return is_new.then_some((log::Level::Debug, line));
            }
        } else {
            self.answers = self.answers.saturating_add(1);
            self.troubles.remove(&ask.namespace);
            self.down = None;
        }
        let is_lost = !ask.is_new && *answer == Answer::Missing;
        // An earlier request has created it after all, with an unknown count.
        let count = if *answer == Answer::Exists && ask.count > 1 { 0 } else { ask.count };
        self.sent.insert(ask.serial, Sent { count, is_lost, late: Late::default() });
        // A namespace that is being removed accepts no events: this is not a problem.
        match answer {
            Answer::Forbidden(why) | Answer::Refused(why) | Answer::Unable(why) => {
                Some((log::Level::Debug, format!("event {}/{} is not taken: {why}", ask.namespace, ask.name)))
            }
            _ => None,
        }
    }

    /// Takes a failure: the event's own, its namespace's, or the server's. Returns true for the first since an answer.
    fn failed(&mut self, ask: &Ask, now: Mono) -> bool {
        let until = now.after(limits::API_EVENT_RETRY);
        self.failures = self.failures.saturating_add(1);
        let trouble = self.troubles.get_or_default(ask.namespace.clone());
        trouble.order = self.failures;
        trouble.times = trouble.times.saturating_add(1);
        if trouble.times > 1 {
            trouble.until = until;
        }
        match self.down.replace(ask.namespace.clone()) {
            Some(before) if before != ask.namespace => {
                self.retry_at = until;
                false
            }
            before => before.is_none(),
        }
    }
}

/// The namespace of an event.
fn namespace(kept: &Kept) -> &str {
    match &kept.event.of {
        Involved::Pod(key) => &key.namespace,
        Involved::Node(_) => OF_NODES,
    }
}

fn ask(kept: &Kept, is_new: bool, node: &str) -> Ask {
    let event = &kept.event;
    let namespace = namespace(kept);
    let object = match &event.of {
        Involved::Pod(key) => &key.name,
        Involved::Node(name) => name,
    };
    let name = format!("{object}.{:x}", kept.serial);
    let last = seconds(kept.last);
    let body = match is_new {
        true => made(kept, &name, namespace, node, &last),
        false => json!({ "count": kept.count, "lastTimestamp": last, "message": event.message }),
    };
    let (namespace, serial, count) = (namespace.to_owned(), kept.serial, kept.count);
    Ask { namespace, name, is_new, body, serial, count }
}

/// The event's type. The kubelet uses `Normal` for all conditions of a node (`pkg/kubelet/kubelet_node_status.go`,
/// `recordNodeStatusEvent`): monitoring sees them as conditions, not as warnings.
fn weight(event: &ObjectEvent) -> &'static str {
    match &event.of {
        Involved::Node(_) if event.message.contains(" status is now: ") => Weight::Normal.as_str(),
        Involved::Node(_) | Involved::Pod(_) => event.weight.as_str(),
    }
}

fn made(kept: &Kept, name: &str, namespace: &str, node: &str, last: &Time) -> Value {
    let event = &kept.event;
    let mut involved = match &event.of {
        Involved::Pod(key) => json!({
            "apiVersion": "v1", "kind": "Pod", "namespace": key.namespace, "name": key.name, "uid": event.uid,
        }),
        Involved::Node(name) => json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": name }),
    };
    if let (Some(subject), Some(involved)) = (&event.subject, involved.as_object_mut()) {
        involved.insert("fieldPath".to_owned(), subject.to_string().into());
    }
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": involved,
        "reason": event.reason,
        "message": event.message,
        "source": { "component": COMPONENT, "host": node },
        "reportingComponent": COMPONENT,
        "reportingInstance": node,
        "type": weight(event),
        "firstTimestamp": seconds(kept.first),
        "lastTimestamp": last,
        "count": kept.count,
    })
}

#[cfg(test)]
mod tests;
