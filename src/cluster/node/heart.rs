//! When to send what about the node: registration first, then the status and the lease, each at its own interval.
//! Pure: it returns the next request, and takes the answer.

use std::time::Duration;

use serde_json::Value;

use super::{Settings, lease, object, status};
use crate::api_client::pods::NodeSeen;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::cluster::answer::Answer;
use crate::cluster::at;
use crate::cluster::chance::Chance;
use crate::status::snapshot::Snapshot;

const UID: &str = "/metadata/uid";

/// A request about the node.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Create the node object.
    Create(Value),
    /// Read the node object.
    Read,
    /// Patch its status, and with it its metadata.
    Patch(Value),
    /// Read the lease.
    ReadLease,
    /// Create the lease.
    CreateLease(Value),
    /// Renew the lease.
    RenewLease(Value),
}

/// The next action.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Send this request, and report the answer.
    Ask(Ask),
    /// Wait until then.
    Wait(Mono),
}

/// The meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// The node object exists, with this UID.
    Registered(String),
    /// The machine has booted since the last status.
    Rebooted,
    /// Why the server does not hear of the node now. Reported when it changes.
    Trouble(Trouble),
    /// The server does not take the labels of the node, and why. The registration goes on without them.
    LabelsRefused(String),
    /// The server accepts requests again.
    Well,
    /// The lease is older than it was: the server's data were restored from an older state.
    WentBack,
}

/// Why the server does not hear of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// For the operator.
    pub why: String,
    /// The server has decided about the request; otherwise nothing is known of it.
    pub is_answer: bool,
    /// It was not reported since the server last heard of the node.
    pub is_new: bool,
}

/// Progress of the registration.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Create,
    /// The object exists, or this node may not create it.
    Look,
    /// The metadata of the existing object has to be changed.
    Reconcile(Value),
    Done,
}

/// State of the lease.
#[derive(Debug, Clone, PartialEq)]
enum Lease {
    Unknown,
    Missing,
    Known(Value),
}

/// See the module.
#[derive(Debug)]
pub struct Heart {
    settings: Settings,
    chance: Chance,
    began: Mono,
    stage: Stage,
    register_at: Mono,
    register_wait: Duration,
    /// The object as the server has it.
    node: Option<Value>,
    /// The object must be read before the next change.
    stale: bool,
    /// Number of conflicts in a row.
    conflicts: u32,
    status_at: Mono,
    report_at: Mono,
    lease: Lease,
    lease_at: Mono,
    lease_wait: Duration,
    /// The last version of the lease. Nobody else writes it, so versions only go up.
    lease_version: u64,
    /// The server has had the node as Ready.
    was_ready: bool,
    /// The troubles since the server last heard of the node; the last one is the current one.
    troubles: Vec<String>,
    /// Why the node may not be created.
    forbidden: Option<String>,
}

impl Heart {
    /// The state before the first request. `seed` spreads the nodes of a cluster over time.
    #[must_use]
    pub fn new(settings: Settings, seed: u64, now: Mono) -> Heart {
        Heart {
            settings,
            chance: Chance::new(seed),
            began: now,
            stage: Stage::Create,
            register_at: now,
            register_wait: limits::REGISTER_MIN,
            node: None,
            stale: false,
            conflicts: 0,
            status_at: now,
            report_at: now,
            lease: Lease::Unknown,
            lease_at: now,
            lease_wait: limits::LEASE_RETRY_MIN,
            lease_version: 0,
            was_ready: false,
            troubles: Vec::new(),
            forbidden: None,
        }
    }

    /// The node's UID, once it is registered.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        let node = self.node.as_ref().filter(|_| self.stage == Stage::Done)?;
        at(node, UID).as_str()
    }

    /// The same, unless the object has to be read again first.
    #[must_use]
    pub fn confirmed_uid(&self) -> Option<&str> {
        self.uid().filter(|_| !self.stale)
    }

    /// Whether the server has had the node as Ready.
    #[must_use]
    pub fn was_ready(&self) -> bool {
        self.was_ready
    }

    /// Takes note that the node has changed. Before the node is first Ready, the status is sent soon.
    pub fn nudge(&mut self, now: Mono) {
        if !self.was_ready && now.since(self.began) < limits::FAST_STATUS {
            self.status_at = self.status_at.min(now.after(limits::FAST_STATUS_STEP));
        }
    }

    /// Takes what the node's watch has seen. An object that was removed or made anew by somebody else is read at once: until
    /// then the server has no status of this node.
    pub fn has_seen(&mut self, seen: &NodeSeen, now: Mono) {
        let is_ours = match seen {
            NodeSeen::Unknown => true,
            NodeSeen::Missing => false,
            NodeSeen::Uid(uid) => self.uid() == Some(uid),
        };
        if self.stage == Stage::Done && !is_ours {
            (self.stale, self.status_at) = (true, now);
        }
    }

    /// The next action, for the node's current state.
    pub fn next(&mut self, snapshot: &Snapshot, around: &object::Around<'_>, now: &Now) -> Next {
        let ours = || object::node(&self.settings, snapshot, around, now.wall);
        if self.stage != Stage::Done {
            if now.mono < self.register_at {
                return Next::Wait(self.register_at);
            }
            return Next::Ask(match &self.stage {
                Stage::Create if self.settings.register => Ask::Create(ours()),
                Stage::Create | Stage::Look | Stage::Done => Ask::Read,
                Stage::Reconcile(patch) => Ask::Patch(patch.clone()),
            });
        }
        if self.lease_at <= now.mono {
            let (name, lasts) = (&self.settings.name, self.settings.lease);
            let write = |known| lease::renewed(known, name, self.uid(), lasts, now.wall);
            return Next::Ask(match &self.lease {
                Lease::Unknown => Ask::ReadLease,
                Lease::Missing => Ask::CreateLease(write(None)),
                Lease::Known(known) => Ask::RenewLease(write(Some(known))),
            });
        }
        if self.status_at <= now.mono {
            if let Some(ask) = self.report(&ours(), now.mono) {
                return Next::Ask(ask);
            }
            self.status_at = now.mono.after(self.chance.jitter(self.settings.update));
        }
        Next::Wait(self.status_at.min(self.lease_at))
    }

    /// The status request that is due; `None` when the server has that status.
    fn report(&self, ours: &Value, now: Mono) -> Option<Ask> {
        let Some(node) = self.node.as_ref().filter(|_| !self.stale) else { return Some(Ask::Read) };
        let theirs = at(node, "/status");
        let wanted = status::wanted(theirs, at(ours, "/status"));
        let due = self.report_at <= now || status::differs(theirs, &wanted);
        due.then(|| Ask::Patch(status::body(theirs, &wanted)))
    }

    /// Takes the server's answer. `ours` is the node object as it would be created now.
    pub fn told(&mut self, ask: &Ask, answer: Answer, ours: &Value, now: Mono) -> Vec<News> {
        let mut news = self.note_trouble(&answer);
        if news.contains(&News::Well) {
            // Meanwhile the control plane may have declared the node lost.
            (self.stale, self.status_at) = (true, now);
        }
        match ask {
            Ask::ReadLease | Ask::CreateLease(_) | Ask::RenewLease(_) => {
                news.extend(self.has_gone_back(&answer).then_some(News::WentBack));
                self.told_lease(ask, answer, now);
            }
            _ if self.stage != Stage::Done => news.extend(self.told_registering(ask, answer, ours, now)),
            _ if self.is_another(&answer) => self.register_again(Stage::Look, now),
            _ => self.told_status(ask, answer, now),
        }
        news
    }

    /// Begins to register again, at this stage and after a wait that grows.
    fn register_again(&mut self, stage: Stage, now: Mono) {
        self.stage = stage;
        (self.register_at, self.node) = (now.after(self.register_wait), None);
        self.register_wait = self.register_wait.saturating_mul(2).min(limits::REGISTER_MAX);
        self.lease = Lease::Unknown;
    }

    /// Whether the answer is an object that somebody else has made in the place of the known one: it is registered anew.
    fn is_another(&self, answer: &Answer) -> bool {
        let Answer::Done(node) = answer else { return false };
        self.uid().is_some_and(|known| at(node, UID).as_str().is_some_and(|uid| uid != known))
    }

    fn note_trouble(&mut self, answer: &Answer) -> Vec<News> {
        let news = match answer {
            // The meaning of these depends on the next answer.
            Answer::Forbidden(_) | Answer::Missing | Answer::Exists if self.stage != Stage::Done => {
                return Vec::new();
            }
            Answer::Failed(why) => self.trouble(why.clone(), false),
            Answer::Unable(why) | Answer::Forbidden(why) | Answer::Refused(why) => {
                self.trouble(why.clone(), true)
            }
            Answer::Done(_) | Answer::Missing | Answer::Exists | Answer::Conflict => {
                let was = std::mem::take(&mut self.troubles);
                (!was.is_empty()).then_some(News::Well)
            }
        };
        news.into_iter().collect()
    }

    /// The news of a trouble; `None` when it is the current one.
    fn trouble(&mut self, why: String, is_answer: bool) -> Option<News> {
        let before = self.troubles.iter().position(|told| *told == why);
        if before.is_some_and(|at| at.saturating_add(1) == self.troubles.len()) {
            return None;
        }
        if let Some(at) = before {
            self.troubles.remove(at);
        }
        // Where every answer differs, no more of them are reported as new.
        let is_new = before.is_none() && self.troubles.len() < limits::HEARTBEAT_TROUBLES;
        if before.is_none() && !is_new {
            self.troubles.pop();
        }
        self.troubles.push(why.clone());
        Some(News::Trouble(Trouble { why, is_answer, is_new }))
    }

    fn told_registering(&mut self, ask: &Ask, answer: Answer, ours: &Value, now: Mono) -> Vec<News> {
        let stage = std::mem::replace(&mut self.stage, Stage::Create);
        match (ask, answer) {
            (Ask::Create(_) | Ask::Patch(_), Answer::Done(node)) => self.registered(node, now),
            (Ask::Create(_), answer @ (Answer::Exists | Answer::Forbidden(_))) => {
                if let Answer::Forbidden(why) = answer {
                    self.forbidden = Some(why);
                }
                self.stage = Stage::Look;
                Vec::new()
            }
            (Ask::Read, Answer::Done(node)) => {
                let boot = |node: &Value| at(node, "/status/nodeInfo/bootID").as_str().map(str::to_owned);
                let before = boot(&node).filter(|id| !id.is_empty());
                let rebooted = before.is_some() && before != boot(ours);
                let mut news = match status::metadata(&node, ours) {
                    Some(patch) => {
                        self.stage = Stage::Reconcile(patch);
                        self.node = Some(node);
                        Vec::new()
                    }
                    None => self.registered(node, now),
                };
                news.extend(rebooted.then_some(News::Rebooted));
                news
            }
            // The registration goes on without the rejected change.
            (Ask::Patch(_), Answer::Refused(why) | Answer::Forbidden(why)) if self.node.is_some() => {
                let node = self.node.take().unwrap_or_default();
                let mut news = self.registered(node, now);
                news.push(News::LabelsRefused(why));
                news
            }
            (ask, answer) => {
                // A missing object may be created meanwhile, and an existing one removed.
                self.stage = if matches!(answer, Answer::Failed(_) | Answer::Unable(_)) {
                    stage
                } else {
                    Stage::Create
                };
                self.register_at = now.after(self.register_wait);
                self.register_wait = self.register_wait.saturating_mul(2).min(limits::REGISTER_MAX);
                let why = self.forbidden.take().or_else(|| self.why_not_registered(ask, answer));
                why.and_then(|why| self.trouble(why, true)).into_iter().collect()
            }
        }
    }

    /// Why this answer is the end of an attempt to register; `None` when the next attempt may be better.
    fn why_not_registered(&self, ask: &Ask, answer: Answer) -> Option<String> {
        match (ask, answer) {
            (Ask::Read, Answer::Missing) if !self.settings.register => Some(format!(
                "the API server has no node object {:?}, and --register-node=false leaves it to others to create it",
                self.settings.name
            )),
            (_, Answer::Forbidden(why)) => Some(why),
            _ => None,
        }
    }

    fn registered(&mut self, node: Value, now: Mono) -> Vec<News> {
        self.stage = Stage::Done;
        self.status_at = now;
        self.lease_at = now;
        // The first status is always sent, even when it is unchanged: from then on the control plane counts the
        // intervals.
        self.report_at = now;
        let uid = at(&node, UID).as_str().unwrap_or_default().to_owned();
        self.has(node);
        vec![News::Registered(uid)]
    }

    /// The server has this node object.
    fn has(&mut self, node: Value) {
        let conditions = at(&node, "/status/conditions").as_array().map(Vec::as_slice).unwrap_or_default();
        self.was_ready |=
            conditions.iter().any(|c| *at(c, "/type") == "Ready" && *at(c, "/status") == "True");
        self.node = Some(node);
        self.stale = false;
    }

    fn told_status(&mut self, ask: &Ask, answer: Answer, now: Mono) {
        match (ask, answer) {
            (Ask::Patch(_), Answer::Done(node)) => {
                self.has(node);
                (self.conflicts, self.register_wait) = (0, limits::REGISTER_MIN);
                self.status_at = now.after(self.chance.jitter(self.settings.update));
                self.report_at = now.after(self.chance.around(self.settings.report));
            }
            (_, Answer::Done(node)) => self.has(node),
            (_, Answer::Missing) => {
                // The object was deleted, or the server's data were restored from an older state.
                self.register_again(Stage::Create, now);
            }
            (_, Answer::Conflict | Answer::Exists) if self.conflicts < limits::STATUS_TRIES => {
                self.stale = true;
                self.conflicts = self.conflicts.saturating_add(1);
            }
            (_, _) => {
                self.conflicts = 0;
                self.stale = true;
                self.status_at =
                    now.after(self.chance.jitter(self.settings.update.min(limits::POD_RETRY_MAX)));
            }
        }
    }

    /// Whether the server has an older lease than before. A watch of pods does not tell that: one from a version that is
    /// still to come is silent until then (kubernetes/kubernetes `pkg/storage/cacher`).
    fn has_gone_back(&mut self, answer: &Answer) -> bool {
        let Answer::Done(lease) = answer else { return false };
        let version = at(lease, "/metadata/resourceVersion").as_str().and_then(|text| text.parse().ok());
        version.is_some_and(|version| std::mem::replace(&mut self.lease_version, version) > version)
    }

    fn told_lease(&mut self, ask: &Ask, answer: Answer, now: Mono) {
        let renew = self.settings.lease / limits::LEASE_RENEWALS;
        self.lease = match (ask, answer) {
            (Ask::ReadLease, Answer::Done(lease)) => Lease::Known(lease),
            (_, Answer::Done(lease)) => {
                self.lease_wait = limits::LEASE_RETRY_MIN;
                self.lease_at = now.after(self.chance.jitter(renew));
                Lease::Known(lease)
            }
            (Ask::ReadLease, Answer::Missing) => Lease::Missing,
            (Ask::RenewLease(_), Answer::Missing) => {
                // The control plane removes the lease when the node is deleted, so the node is checked.
                (self.stale, self.status_at, self.lease_at) = (true, now, now.after(limits::LEASE_RETRY_MIN));
                Lease::Missing
            }
            (Ask::RenewLease(_), Answer::Conflict) => {
                // The same, for servers that report a removed lease as a conflict.
                (self.stale, self.status_at, self.lease_at) = (true, now, now.after(limits::LEASE_RETRY_MIN));
                Lease::Unknown
            }
            (_, answer) => {
                self.lease_at = now.after(self.lease_wait);
                self.lease_wait = self.lease_wait.saturating_mul(2).min(limits::LEASE_RETRY_MAX);
                match answer {
                    // The known lease is still valid: the server did not answer.
                    Answer::Failed(_) | Answer::Unable(_) => {
                        std::mem::replace(&mut self.lease, Lease::Unknown)
                    }
                    _ => Lease::Unknown,
                }
            }
        };
    }
}
