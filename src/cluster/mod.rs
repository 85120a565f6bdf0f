//! Reports to a Kubernetes API server: the node object and its lease, pods' statuses, mirror pods, events.
//!
//! [`node`], [`pods`] and [`events`] decide and are pure: each compares the server's state with the node's, and
//! returns the next request. `heartbeat`, `pod_status` and `event_sender` are threads that send them, each with one
//! request at a time. They read the latest snapshot when notified, so a server that hangs delays no other thread, and
//! nothing is queued.
//!
//! Never here: a decision about a pod on this node, or a request for which `system:node` has no right.

mod adding;
pub mod answer;
mod around;
mod chance;
mod event_sender;
pub mod events;
mod heartbeat;
pub mod node;
mod patch;
mod pod_status;
pub mod pods;
#[cfg(test)]
mod tests;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::api_client::Client;
use crate::api_client::pods::ServerPods;
use crate::base::clock::System;
use crate::base::{limits, thread};
use crate::recorder::ObjectEvent;
use crate::recorder::ring::Kept;
use crate::runtime::docker::Docker;
use crate::status::snapshot::{Latest, Snapshot};
use crate::status::task::{Pulses, Task};
use crate::worker::adding::Adder;

/// The parts of the threads.
pub struct Parts {
    /// Settings from flags.
    pub settings: node::Settings,
    /// The client of the server.
    pub client: Client,
    /// The server's pods of this node.
    pub pods: ServerPods,
    /// The engine whose images are reported.
    pub docker: Docker,
    /// Both clocks.
    pub clock: System,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    /// Events of an earlier daemon.
    pub earlier: Vec<Arc<Kept>>,
    /// Records an event.
    pub happened: Happened,
    /// Takes why the server does not hear of the node.
    pub unheard: ToldOfTrouble,
    /// Makes ephemeral containers.
    pub adder: Adder,
}

/// The function by which the threads record events.
pub type Happened = Arc<dyn Fn(ObjectEvent) + Send + Sync>;

/// The function that takes why the server does not hear of the node; `None`: it does.
pub type ToldOfTrouble = Arc<dyn Fn(Option<node::heart::Trouble>) + Send + Sync>;

/// Handle of the threads. Dropping it ends them; one with a request under way ends after it.
pub struct Cluster {
    shared: Arc<Shared>,
    to_heart: Sender<()>,
    to_pods: Sender<()>,
    to_events: Sender<()>,
    _stop: Sender<()>,
}

/// State shared by the threads.
#[derive(Debug, Default)]
struct Shared {
    snapshot: Latest,
    events: Mutex<Vec<Arc<Kept>>>,
    /// The node's UID, once it is registered.
    uid: Mutex<Option<String>>,
    /// The control plane has seen the node as Ready: status updates are no longer urgent.
    was_ready: AtomicBool,
    /// How often the server has carried out a request of the heartbeat.
    heard: AtomicU64,
}

impl Shared {
    fn uid(&self) -> Option<String> {
        self.uid.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn events(&self) -> Vec<Arc<Kept>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Cluster {
    /// Starts the threads `pk-heartbeat`, `pk-pod-status` and `pk-api-events`.
    ///
    /// # Errors
    /// A thread could not be started.
    pub fn start(parts: Parts, pulses: &Pulses) -> io::Result<Cluster> {
        let Parts { settings, client, pods, docker, clock, node_ips, earlier, happened, unheard, adder } =
            parts;
        // The sender forgets events that are not kept any more; until the first update it uses these.
        let events = Mutex::new(earlier.clone());
        let shared = Arc::new(Shared { events, ..Shared::default() });
        let (stop, stopped) = bounded(0);
        let [(to_heart, heart_told), (to_pods, pods_told), (to_events, events_told)] =
            [(); 3].map(|()| bounded(1));
        let around = || around::Around::new(docker.clone(), node_ips.clone(), settings.images);
        let mut heart = heartbeat::Heartbeat {
            settings: settings.clone(),
            client: client.heartbeat(),
            clock,
            shared: Arc::clone(&shared),
            around: around(),
            pods: pods.clone(),
            told: heart_told,
            node_changed: pods.subscribe_to_node(),
            tell_pods: to_pods.clone(),
            stopped: stopped.clone(),
            happened: Arc::clone(&happened),
            unheard,
        };
        begin("pk-heartbeat", Task::Heartbeat, pulses, move || heart.run())?;
        let adding = adding::Adding {
            adder,
            clock,
            shared: Arc::clone(&shared),
            wake: to_pods.clone(),
            state: Arc::default(),
            happened: Arc::clone(&happened),
        };
        let mut status = pod_status::PodStatuses {
            node: settings.name.clone(),
            client: client.clone(),
            clock,
            shared: Arc::clone(&shared),
            around: around(),
            adding,
            told: pods_told,
            changed: pods.subscribe(),
            pods,
            stopped: stopped.clone(),
            happened,
        };
        begin("pk-pod-status", Task::PodStatus, pulses, move || status.run())?;
        let mut sender = event_sender::EventSender {
            node: settings.name,
            client,
            clock,
            shared: Arc::clone(&shared),
            told: events_told,
            stopped,
            post: events::Post::after(&earlier),
        };
        begin("pk-api-events", Task::ApiEvents, pulses, move || sender.run())?;
        Ok(Cluster { shared, to_heart, to_pods, to_events, _stop: stop })
    }

    /// Takes the current snapshot. Never blocks.
    pub fn tell(&self, snapshot: Arc<Snapshot>) {
        self.shared.snapshot.tell(snapshot);
        // If the channel is full, the thread is notified already.
        _ = self.to_pods.try_send(());
        if !self.shared.was_ready.load(Ordering::Relaxed) {
            _ = self.to_heart.try_send(());
        }
    }

    /// Takes all kept events. Never blocks.
    pub fn tell_events(&self, events: Vec<Arc<Kept>>) {
        *self.shared.events.lock().unwrap_or_else(PoisonError::into_inner) = events;
        _ = self.to_events.try_send(());
    }
}

/// Starts a thread that is watched.
fn begin(
    name: &'static str,
    task: Task,
    pulses: &Pulses,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let pulses = pulses.clone();
    thread::spawn(name, limits::WORKER_STACK, move || {
        pulses.join(task);
        run();
    })?;
    Ok(())
}

/// The part of an object at this JSON pointer; null where there is none.
fn at<'a>(object: &'a serde_json::Value, pointer: &str) -> &'a serde_json::Value {
    object.pointer(pointer).unwrap_or(&serde_json::Value::Null)
}

/// Whether the handle is gone.
fn is_over(stopped: &Receiver<()>) -> bool {
    stopped.try_recv().is_err_and(|error| error.is_disconnected())
}
