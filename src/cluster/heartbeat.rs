//! The thread `pk-heartbeat`: registers the node, and updates its status and its lease. It sends
//! the requests of [`super::node::heart`], and sleeps in between.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use crossbeam_channel::{Receiver, Sender, after, select};
use serde_json::Value;

use super::answer::Answer;
use super::around::Around;
use super::node::heart::{Ask, Heart, News, Next};
use super::node::{Settings, lease, object};
use super::{Shared, is_over};
use crate::api_client::pods::ServerPods;
use crate::api_client::request::encoded;
use crate::api_client::{Client, Method, Request};
use crate::base::clock::{Clock, Mono, System};
use crate::base::{limits, pulse};
use crate::recorder::{ObjectEvent, words};
use crate::status::snapshot::Snapshot;

pub(super) struct Heartbeat {
    pub(super) settings: Settings,
    pub(super) client: Client,
    pub(super) clock: System,
    pub(super) shared: Arc<Shared>,
    pub(super) around: Around,
    pub(super) pods: ServerPods,
    pub(super) told: Receiver<()>,
    /// The node's watch has seen another object.
    pub(super) node_changed: Receiver<()>,
    /// Wakes the thread of pods, which waits for the node's UID.
    pub(super) tell_pods: Sender<()>,
    pub(super) stopped: Receiver<()>,
    pub(super) happened: super::Happened,
    pub(super) unheard: super::ToldOfTrouble,
}

impl Heartbeat {
    pub(super) fn run(&mut self) {
        (self.happened)(ObjectEvent::of_node(&self.settings.name, words::starting()));
        let seed = RandomState::new().hash_one(&self.settings.name);
        let mut heart = Heart::new(self.settings.clone(), seed, self.clock.now().mono);
        while !is_over(&self.stopped) {
            let snapshot = self.shared.snapshot.get();
            let now = self.clock.now();
            if snapshot.node.is_empty() {
                // The main loop has published no snapshot yet.
                if !self.rest(None, &mut heart) {
                    return;
                }
                continue;
            }
            let around = self.around.all(snapshot.docker.reachable, now.mono);
            match heart.next(&snapshot, &around, &now) {
                Next::Wait(until) => {
                    if !self.rest(Some(until), &mut heart) {
                        return;
                    }
                }
                Next::Ask(ask) => {
                    let answer = Answer::of(
                        self.client.call(&request(&self.settings.name, &ask), limits::HEARTBEAT_DEADLINE),
                    );
                    if self.client.is_closed() {
                        return;
                    }
                    if matches!(answer, Answer::Done(_)) {
                        self.shared.heard.fetch_add(1, Ordering::Relaxed);
                    }
                    let ours = self.ours(&snapshot);
                    let news = heart.told(&ask, answer, &ours, self.clock.now().mono);
                    self.tell(news, &heart);
                    self.share(heart.confirmed_uid());
                }
            }
        }
    }

    fn ours(&mut self, snapshot: &Snapshot) -> Value {
        let now = self.clock.now();
        let around = self.around.all(snapshot.docker.reachable, now.mono);
        object::node(&self.settings, snapshot, &around, now.wall)
    }

    /// Waits until then, or until there is news. Returns false when the handle is gone.
    fn rest(&self, until: Option<Mono>, heart: &mut Heart) -> bool {
        let wait = until.map(|at| at.since(self.clock.now().mono));
        let due = wait.map_or_else(crossbeam_channel::never, after);
        pulse::waits(|| {
            select! {
                recv(self.stopped) -> _ => false,
                recv(self.told) -> told => {
                    heart.nudge(self.clock.now().mono);
                    told.is_ok()
                }
                recv(self.node_changed) -> told => {
                    heart.has_seen(&self.pods.node(), self.clock.now().mono);
                    self.share(heart.confirmed_uid());
                    // The sender lives as long as `self.pods`.
                    told.is_ok()
                }
                recv(due) -> _ => true,
            }
        })
    }

    /// Tells the thread of pods the node's UID, or that it is not known now: the server refuses mirror pods of another one.
    fn share(&self, uid: Option<&str>) {
        let mut shared = self.shared.uid.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.as_deref() != uid {
            *shared = uid.map(str::to_owned);
            _ = self.tell_pods.try_send(());
        }
    }

    fn tell(&self, news: Vec<News>, heart: &Heart) {
        let name = &self.settings.name;
        for news in news {
            match news {
                News::Registered(_) => log::info!("node {name} is registered at the API server"),
                News::Rebooted => {
                    let boot = crate::base::clock::boot_id().unwrap_or_default();
                    (self.happened)(ObjectEvent::of_node(name, words::rebooted(name, &boot)));
                }
                News::Trouble(trouble) => {
                    if trouble.is_new {
                        let why = &trouble.why;
                        log::warn!("the API server does not hear of node {name}: {why}; it is tried again");
                    }
                    (self.unheard)(Some(trouble));
                }
                News::LabelsRefused(why) => {
                    log::warn!("the API server does not change the labels of node {name}: {why}");
                }
                News::Well => {
                    (self.unheard)(None);
                    log::info!("the API server hears of node {name} again");
                    self.pods.hurry();
                }
                News::WentBack => {
                    log::warn!("the API server's data are older than they were: its pods are read anew");
                    self.pods.expire();
                    self.client.cut();
                }
            }
        }
        self.shared.was_ready.store(heart.was_ready(), Ordering::Relaxed);
    }
}

pub(super) fn request(name: &str, ask: &Ask) -> Request {
    let name = encoded(name);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", lease::NAMESPACE);
    match ask {
        Ask::Create(node) => Request::with(Method::Post, "/api/v1/nodes", node),
        Ask::Read => Request::get(format!("/api/v1/nodes/{name}")),
        Ask::Patch(patch) => {
            Request::with(Method::StrategicPatch, format!("/api/v1/nodes/{name}/status"), patch)
        }
        Ask::ReadLease => Request::get(format!("{leases}/{name}")),
        Ask::CreateLease(lease) => Request::with(Method::Post, leases, lease),
        Ask::RenewLease(lease) => Request::with(Method::Put, format!("{leases}/{name}"), lease),
    }
}
