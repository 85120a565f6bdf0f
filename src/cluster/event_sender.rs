//! The thread `pk-api-events`: sends the requests of [`super::events`], and sleeps while the server has all
//! events.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crossbeam_channel::{Receiver, after, select};

use super::answer::Answer;
use super::events::{Ask, Next, Post};
use super::{Shared, is_over};
use crate::api_client::request::encoded;
use crate::api_client::{Client, Method, Request};
use crate::base::clock::{Clock, Mono, System};
use crate::base::{limits, pulse};

pub(super) struct EventSender {
    pub(super) node: String,
    pub(super) client: Client,
    pub(super) clock: System,
    pub(super) shared: Arc<Shared>,
    pub(super) told: Receiver<()>,
    pub(super) stopped: Receiver<()>,
    pub(super) post: Post,
}

impl EventSender {
    pub(super) fn run(&mut self) {
        while !is_over(&self.stopped) {
            let kept = self.shared.events();
            match self.post.next(&kept, &self.node, self.clock.now().mono) {
                Next::Wait(until) => {
                    if !self.rest(until) {
                        return;
                    }
                }
                Next::Ask(ask) => {
                    let answer = Answer::of(self.client.call(&request(&ask), limits::CLUSTER_DEADLINE));
                    let heard = self.shared.heard.load(Ordering::Relaxed);
                    if let Some((level, line)) = self.post.told(&ask, &answer, heard, self.clock.now().mono) {
                        log::log!(level, "{line}");
                    }
                }
            }
        }
    }

    /// Waits until then, or until there are new events. Returns false when the handle is gone.
    fn rest(&self, until: Option<Mono>) -> bool {
        let wait = until.map(|at| at.since(self.clock.now().mono));
        let due = wait.map_or_else(crossbeam_channel::never, after);
        pulse::waits(|| {
            select! {
                recv(self.stopped) -> _ => false,
                recv(self.told) -> told => told.is_ok(),
                recv(due) -> _ => true,
            }
        })
    }
}

pub(super) fn request(ask: &Ask) -> Request {
    let events = format!("/api/v1/namespaces/{}/events", encoded(&ask.namespace));
    match ask.is_new {
        true => Request::with(Method::Post, events, &ask.body),
        false => {
            let path = format!("{events}/{}", encoded(&ask.name));
            Request::with(Method::StrategicPatch, path, &ask.body)
        }
    }
}
