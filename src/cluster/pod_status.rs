//! The thread `pk-pod-status`: statuses of pods, mirror pods, and the ends of deletions. It sends the
//! requests of [`super::pods::desk`], one after the other, and sleeps while both sides agree.

use std::sync::Arc;

use crate::base::json::json;
use crossbeam_channel::{Receiver, after, select};
use serde_json::Value;

use super::adding::Adding;
use super::answer::Answer;
use super::around::Around;
use super::pods::desk::{Ask, Desk, News, Next, World};
use super::{Shared, is_over};
use crate::api_client::pods::ServerPods;
use crate::api_client::request::encoded;
use crate::api_client::{Client, Method, Request};
use crate::base::clock::{Clock, Mono, System};
use crate::base::{limits, pulse};
use crate::pod::PodKey;
use crate::recorder::{ObjectEvent, words};

pub(super) struct PodStatuses {
    pub(super) node: String,
    pub(super) client: Client,
    pub(super) clock: System,
    pub(super) shared: Arc<Shared>,
    pub(super) around: Around,
    pub(super) adding: Adding,
    /// A new snapshot, or the node's UID.
    pub(super) told: Receiver<()>,
    /// The server's pods have changed.
    pub(super) changed: Receiver<()>,
    pub(super) pods: ServerPods,
    pub(super) stopped: Receiver<()>,
    pub(super) happened: super::Happened,
}

impl PodStatuses {
    pub(super) fn run(&mut self) {
        let mut desk = Desk::default();
        while !is_over(&self.stopped) {
            let now = self.clock.now();
            let (snapshot, server, uid) = (self.shared.snapshot.get(), self.pods.latest(), self.shared.uid());
            let due = self.adding.look(&snapshot, &server, now.mono);
            let failures = self.adding.failures();
            let world = World {
                snapshot: &snapshot,
                server: &server,
                failures: &failures,
                addresses: self.around.addresses(now.mono),
                node: &self.node,
                uid: uid.as_deref(),
            };
            match desk.next(&world, &now) {
                Next::Wait(until) => {
                    if !self.rest(until.into_iter().chain(due).min()) {
                        return;
                    }
                }
                Next::Ask(key, ask) => {
                    let answer = Answer::of(self.client.call(&request(&key, &ask), limits::CLUSTER_DEADLINE));
                    if self.client.is_closed() {
                        return;
                    }
                    match desk.told(&key, ask, answer, &self.pods.latest(), self.clock.now().mono) {
                        Some(News::Line(level, line)) => log::log!(level, "{line}"),
                        Some(News::NoMirror(key, why)) => {
                            let view = snapshot.pods.iter().find(|view| view.pod.key == key);
                            let uid = view.map(|view| view.pod.uid.clone()).unwrap_or_default();
                            (self.happened)(ObjectEvent::new(key, uid, None, words::mirror_failed(&why)));
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// Waits until then, or until something has changed. Returns false when the handle is gone.
    fn rest(&self, until: Option<Mono>) -> bool {
        let wait = until.map(|at| at.since(self.clock.now().mono));
        let due = wait.map_or_else(crossbeam_channel::never, after);
        pulse::waits(|| {
            let goes_on = select! {
                recv(self.stopped) -> _ => false,
                recv(self.told) -> told => told.is_ok(),
                recv(self.changed) -> changed => changed.is_ok(),
                recv(due) -> _ => true,
            };
            // Changes in a burst are sent together.
            goes_on
                && self.stopped.recv_timeout(limits::CLUSTER_COALESCE).is_err_and(|error| error.is_timeout())
        })
    }
}

pub(super) fn request(key: &PodKey, ask: &Ask) -> Request {
    let pods = format!("/api/v1/namespaces/{}/pods", encoded(&key.namespace));
    let name = encoded(&key.name);
    let removal = |uid: &str, version: Option<&str>| -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": { "uid": uid, "resourceVersion": version },
        })
    };
    match ask {
        Ask::Status(patch) => Request::with(Method::StrategicPatch, format!("{pods}/{name}/status"), patch),
        Ask::Finish { uid, version } => {
            Request::with(Method::Delete, format!("{pods}/{name}"), &removal(uid, version.as_deref()))
        }
        Ask::DropMirror(uid) => Request::with(Method::Delete, format!("{pods}/{name}"), &removal(uid, None)),
        Ask::MakeMirror(pod) => Request::with(Method::Post, pods, pod),
    }
}
