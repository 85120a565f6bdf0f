//! The network of sandboxes that plugins attach. A running sandbox is attached; it is detached before it is stopped,
//! and once more when it ended by itself or is gone. It is removed only after that. The machine only gives orders;
//! `cni/` runs the plugins.

use super::Machine;
use super::calls::Retry;
use super::output::Output;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::base::table::Table;
use crate::cni::networks::Ready;
use crate::cni::wanted::capabilities;
use crate::cni::{Order, Report, Wanted};
use crate::plan::{Link, Owned, Role, RunState};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::recorder::words;

/// State of each such sandbox, by id. A sandbox that is not here was found, and nothing was ordered for it yet.
#[derive(Debug, Default)]
pub(super) struct Attachments(Table<String, Attachment>);

#[derive(Debug)]
struct Attachment {
    is: Is,
    /// UID of the sandbox's pod.
    uid: String,
    /// Retries of attaching, then of detaching.
    retry: Retry,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Is {
    /// Attaching was ordered; whether the sandbox is attached is not known.
    Asked,
    /// Plugins are attaching it.
    Attaching,
    Up,
    /// Attaching failed.
    Failed,
    /// Detaching is under way since this time.
    Leaving(Mono),
    /// Detaching failed.
    Stuck,
    Gone,
}

impl Attachments {
    /// Number of sandboxes.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn is(&self, id: &str) -> Option<Is> {
        self.0.get(id).map(|it| it.is)
    }
}

impl super::network::Network {
    /// Whether some sandbox is being detached, or will be tried again: no other code would do so before the daemon's
    /// next start.
    pub(super) fn is_leaving(&self) -> bool {
        self.attachments.0.values().any(|it| matches!(it.is, Is::Leaving(_) | Is::Stuck))
    }
}

impl Machine {
    /// Notes whether plugins can attach pods.
    pub(super) fn network_ready(&mut self, ready: Ready) {
        self.network.ready = Some(ready);
    }

    /// Asks whether there is a network. Returns true when the network allows a sandbox.
    pub(super) fn ask_network(&mut self, pod: &DesiredPod, now: &Now) -> bool {
        if pod.host_network() || !self.settings.map.network.cni.is_on {
            return true;
        }
        // The answer counts for one decision; later it may be another one.
        match self.network.ready.take() {
            Some(Ready::Yes) => return true,
            Some(Ready::No(why)) => {
                let words = words::network_not_ready(&why);
                if self.sandbox_problem(pod, &words.message) {
                    self.tell(None, words);
                }
                self.out.wake_at(now.mono.after(limits::CNI_READY_ASK));
            }
            Some(Ready::Unknown) => self.out.wake_at(now.mono.after(limits::CNI_READY_SOON)),
            None => self.out.push(Output::AskNetwork),
        }
        false
    }

    /// Asks for the addresses of sandboxes that an earlier daemon attached: until they are known, nothing is decided,
    /// and no status is sent. Returns true while an answer is missing.
    pub(super) fn recall_networks(&mut self, pod: &DesiredPod) -> bool {
        let of_earlier = self.recalled(pod);
        for id in &of_earlier {
            if self.network.attachments.is(id).is_none() {
                self.order_attach(pod, id, Retry::default());
            }
        }
        !of_earlier.is_empty()
    }

    /// Whether an address is being asked for without which a status would be wrong.
    pub(super) fn is_recalling(&self) -> bool {
        matches!(&self.state, State::Syncing(pod) if !self.recalled(pod).is_empty())
    }

    fn recalled(&self, pod: &DesiredPod) -> Vec<String> {
        self.containers.ids(|c, record| {
            let known = self.network.attachments.is(&c.id);
            c.is_by_plugins()
                && c.uid == pod.uid
                && c.state.is_running()
                && record.run.adopted
                && matches!(known, None | Some(Is::Asked))
        })
    }

    /// Orders the network of a running sandbox that has none. Returns true when it has one.
    pub(super) fn attach(&mut self, pod: &DesiredPod, id: &str, now: &Now) -> bool {
        if !self.containers.get(id).is_some_and(Owned::is_by_plugins) {
            return true;
        }
        match self.network.attachments.0.get(id).map(|it| (it.is, it.retry)) {
            Some((Is::Up, _)) => true,
            Some((Is::Failed, retry)) if now.mono < retry.until => {
                self.out.wake_at(retry.until);
                false
            }
            Some((Is::Failed, retry)) => {
                self.order_attach(pod, id, retry);
                false
            }
            None => {
                self.order_attach(pod, id, Retry::default());
                false
            }
            Some(_) => false,
        }
    }

    fn order_attach(&mut self, pod: &DesiredPod, id: &str, retry: Retry) {
        let it = Attachment { is: Is::Asked, uid: pod.uid.clone(), retry };
        self.network.attachments.0.insert(id.to_owned(), it);
        let wanted = self.wanted_of(id, &pod.uid);
        self.out.push(Output::Attach(Order::Attach(Box::new(wanted))));
    }

    fn wanted_of(&self, id: &str, uid: &str) -> Wanted {
        let pod = self.state.pod().filter(|pod| pod.uid == uid);
        Wanted {
            sandbox: id.to_owned(),
            key: self.key.clone(),
            uid: uid.to_owned(),
            capabilities: pod.map_or_else(|| Ok(serde_json::Map::new()), |pod| capabilities(pod)),
        }
    }

    /// Detaches a running sandbox before it is stopped: while it has a namespace, plugins find all that is theirs.
    /// Returns true while the stop has to wait, which is bounded.
    pub(super) fn detach_first(&mut self, id: &str, now: &Now) -> bool {
        let Some(owned) = self.containers.get(id).filter(|c| c.is_by_plugins() && c.state.is_running())
        else {
            return false;
        };
        let uid = owned.uid.clone();
        match self.network.attachments.is(id) {
            Some(Is::Gone | Is::Stuck) => false,
            Some(Is::Leaving(since)) => {
                let until = since.after(limits::CNI_LEAVE);
                if now.mono < until {
                    self.out.wake_at(until);
                }
                now.mono < until
            }
            _ => {
                self.order_detach(id, uid, Retry::default(), now);
                self.out.wake_at(now.mono.after(limits::CNI_LEAVE));
                true
            }
        }
    }

    fn order_detach(&mut self, id: &str, uid: String, retry: Retry, now: &Now) {
        let wanted = self.wanted_of(id, &uid);
        self.out.push(Output::Attach(Order::Detach(Box::new(wanted))));
        let it = Attachment { is: Is::Leaving(now.mono), uid, retry };
        self.network.attachments.0.insert(id.to_owned(), it);
    }

    /// Detaches sandboxes that ended by themselves or were removed, and retries failed ones.
    pub(super) fn detach_the_dead(&mut self, now: &Now) {
        let dead: Vec<(String, String)> = self
            .containers
            .all()
            .filter(|c| c.is_by_plugins() && c.state.is_dead() && ran(c))
            .map(|c| (c.id.clone(), c.uid.clone()))
            .collect();
        let known = self.network.attachments.0.iter();
        let vanished = known.filter(|(id, _)| self.containers.get(id).is_none());
        let vanished: Vec<(String, String)> = vanished.map(|(id, it)| (id.clone(), it.uid.clone())).collect();
        for (id, uid) in dead.iter().chain(&vanished) {
            match self.network.attachments.0.get(id).map(|it| (it.is, it.retry)) {
                Some((Is::Gone | Is::Leaving(_), _)) => {}
                Some((Is::Stuck, retry)) if now.mono < retry.until => self.out.wake_at(retry.until),
                Some((Is::Stuck, retry)) => self.order_detach(id, uid.clone(), retry, now),
                _ => self.order_detach(id, uid.clone(), Retry::default(), now),
            }
        }
        let containers = &self.containers;
        self.network.attachments.0.retain(|id, it| it.is != Is::Gone || containers.get(id).is_some());
    }

    /// Notes that a sandbox is gone from Docker: it may still be attached, also by an earlier daemon.
    pub(super) fn is_still_attached(&mut self, gone: &Owned) {
        if gone.is_by_plugins() && gone.state != RunState::Created && ran(gone) {
            let it = Attachment { is: Is::Failed, uid: gone.uid.clone(), retry: Retry::default() };
            self.network.attachments.0.get_or_insert(gone.id.clone(), it);
        }
    }

    /// Whether it must not be removed, because it has ended and is not detached.
    pub(super) fn is_attached(&self, id: &str) -> bool {
        let owned = self.containers.get(id).filter(|c| c.is_by_plugins() && ran(c));
        owned.is_some_and(|c| c.state.is_dead()) && self.network.attachments.is(id) != Some(Is::Gone)
    }

    /// Takes a report about an order.
    pub(super) fn network_told(&mut self, report: Report, now: &Now) {
        match report {
            Report::Attaching { sandbox } => self.attachment_is(&sandbox, Is::Attaching),
            Report::Attached { sandbox, result: Ok(addresses) } => {
                self.attachment_is(&sandbox, Is::Up);
                self.sandbox_has(&sandbox, addresses, Link::Up);
                self.members.no_longer_wait(Reason::ContainerCreating);
            }
            Report::Attached { sandbox, result: Err(why) } => self.attach_failed(&sandbox, &why, now),
            Report::Lost { sandbox } => {
                self.attachment_is(&sandbox, Is::Failed);
                self.sandbox_has(&sandbox, Vec::new(), Link::Lost);
            }
            Report::Detached { sandbox, result: Ok(()) } => {
                if let Some(it) = self.network.attachments.0.get_mut(&sandbox) {
                    it.is = Is::Gone;
                }
            }
            Report::Detached { sandbox, result: Err(why) } => self.detach_failed(&sandbox, &why, now),
        }
    }

    /// Sets the state, unless the sandbox is being detached by now.
    fn attachment_is(&mut self, id: &str, is: Is) {
        if let Some(it) = self.network.attachments.0.get_mut(id)
            && matches!(it.is, Is::Asked | Is::Attaching)
        {
            it.is = is;
        }
    }

    fn sandbox_has(&mut self, id: &str, addresses: Vec<String>, is: Link) {
        if let Some((Owned { role: Role::Sandbox { ips, link, .. }, .. }, _)) = self.containers.get_mut(id) {
            (*ips, *link) = (addresses, is);
        }
    }

    fn attach_failed(&mut self, id: &str, why: &str, now: &Now) {
        let Some(it) = self.network.attachments.0.get_mut(id) else { return };
        if !matches!(it.is, Is::Asked | Is::Attaching) {
            return;
        }
        it.is = Is::Failed;
        it.retry.failed_within(limits::CNI_RETRY_MIN, limits::CNI_RETRY_MAX, now);
        let (until, tries) = (it.retry.until, it.retry.tries);
        self.out.wake_at(until);
        if tries.is_multiple_of(limits::CNI_TRIES) {
            self.sandbox_has(id, Vec::new(), Link::Lost);
        }
        if let State::Syncing(pod) = self.state.clone() {
            let words = words::sandbox_failed(why);
            self.sandbox_problem(&pod, &words.message);
            self.tell(None, words);
        }
    }

    fn detach_failed(&mut self, id: &str, why: &str, now: &Now) {
        let Some(it) = self.network.attachments.0.get_mut(id) else { return };
        it.is = Is::Stuck;
        it.retry.failed_within(limits::CNI_RETRY_MIN, limits::CNI_RETRY_MAX, now);
        let (first, uid, until) = (it.retry.tries == 1, it.uid.clone(), it.retry.until);
        self.out.wake_at(until);
        // Its removal waits, and nothing else does.
        self.remove_later(id, now);
        if first {
            self.tell_of_uid(&uid, words::tear_down_failed(&self.key.clone(), why));
        }
    }
}

/// Whether it was started, so that it had a namespace.
fn ran(owned: &Owned) -> bool {
    !matches!(&owned.state, RunState::Exited(exit) if exit.cannot_run)
}
