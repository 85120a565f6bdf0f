//! The API server as a source: the pods with this node's name, and the objects that they refer to.
//!
//! The thread `pk-api` makes the requests that [`reflector`] decides, reads pods ([`decode`]), looks up their objects
//! ([`objects`]) and sends whole sets. A pod is sent as soon as its own objects were looked up. The first set waits a
//! moment for the objects of all pods. After that, a waiting pod is sent too if none of its containers starts without
//! the objects; other waiting pods are sent as broken, and what runs of them is left alone.
//!
//! A server that cannot be reached is `Failed`, never an empty set (invariant 2). Bookmarks change no set.

mod checks;
mod claims;
mod classes;
pub mod decode;
mod due;
mod events;
mod look_up;
mod node;
mod objects;
pub mod reflector;
pub mod services;
mod set;
#[cfg(test)]
mod tests;
mod under_way;

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde_json::Value;

use self::classes::Classes;
use self::decode::Read;
use self::due::Due;
use self::events::{Bounds, Fresh, LeftOut};
use self::look_up::{Apart, LookUps};
use self::node::{NodeObject, NodeWatch};
use self::objects::Objects;
use self::reflector::{Ask, Luck, Reflector};
use crate::api_client::pods::{PodsOfNode, ServerPods};
use crate::api_client::request::encoded;
use crate::api_client::{ApiError, Client, Request};
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::limits;
use crate::base::pulse;
use crate::base::table::{Set, Table};
use crate::pod::{PodKey, Source};
use crate::source::accept::Acceptor;
use crate::source::file::Sink;
use crate::source::last_good::Saver;
use crate::source::running::Running;
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::task::{Pulses, Task};

/// The path of the set in the store. It does not contain the server's address, which may not be known yet.
const REMEMBERED: &str = "api";

/// The server and the use of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--kubeconfig`, absolute.
    pub kubeconfig: PathBuf,
    /// `--api-last-good`: the last set is stored, for a start without the server.
    pub remembers: bool,
}

/// Time limits of the source. Tests use shorter ones.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For one call for an object or a token.
    pub call: Duration,
    /// For the objects of all pods at a start.
    pub objects: Duration,
    /// Before a failed request for an object is repeated.
    pub again: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            call: limits::API_OBJECT_CALL,
            objects: limits::API_OBJECTS_PATIENCE,
            again: limits::API_LOOK_UP_AGAIN,
        }
    }
}

/// The parts of the source.
pub struct Parts {
    pub client: Client,
    pub acceptor: Acceptor,
    /// `None` when nothing is stored.
    pub store: Option<Saver>,
    /// The pods in the server's form, for other rooms.
    pub pods: ServerPods,
    pub clock: System,
    pub patience: Patience,
    pub pulses: Pulses,
    pub out: Sink,
}

/// A running source. Dropping it closes the client, and ends the thread.
#[derive(Debug)]
pub struct ApiSource {
    client: Client,
    wake: Sender<()>,
    is_cut: Arc<AtomicBool>,
    thread: Running,
    node: NodeWatch,
}

impl ApiSource {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(parts: Parts) -> io::Result<ApiSource> {
        let (wake, woken) = bounded(1);
        parts.pods.set_source(wake.clone());
        let (client, pulses) = (parts.client.clone(), parts.pulses.clone());
        let is_cut = Arc::new(AtomicBool::new(false));
        let (name, pods) = (&parts.acceptor.node_name, parts.pods.clone());
        let (watch, node) = NodeWatch::start(client.clone(), name, parts.clock, pods)?;
        let actor = Actor {
            woken,
            is_cut: Arc::clone(&is_cut),
            luck: Luck::default(),
            server: String::new(),
            reflector: Reflector::default(),
            known: Table::new(),
            objects: Objects::new(parts.patience.again),
            ready: Set::new(),
            waiting: Table::new(),
            waits_since: None,
            look_ups: LookUps::default(),
            sent: None,
            restored: None,
            failed: false,
            classes: Classes::default(),
            left_out: LeftOut::default(),
            node,
            due: Due { relist: None, objects: Mono::default(), retry: None, looked: Mono::default() },
            remembered: (0, String::new()),
            parts,
        };
        let thread = Running::spawn("pk-api", limits::URL_STACK, move || {
            pulses.join(Task::Source(Source::Api));
            actor.run();
        })?;
        Ok(ApiSource { client, wake, is_cut, thread, node: watch })
    }

    /// Requests a new list (SIGHUP). Never blocks.
    pub fn rescan(&self) {
        self.is_cut.store(true, Ordering::Release);
        // Before the request to wake up: the new list must not be cut. A heartbeat that is under way is not.
        self.client.cut_source();
        // A full channel holds the same request.
        let _full = self.wake.try_send(());
        self.node.rescan();
    }
}

impl Drop for ApiSource {
    fn drop(&mut self) {
        self.client.close();
        // The thread looks whether the client is closed.
        let _full = self.wake.try_send(());
        self.thread.await_end(limits::SOURCE_END);
    }
}

/// The handle is gone, or the receiver.
struct Stopped;

/// Why a round ended early.
enum Fault {
    Stopped,
    Failed(ApiError),
}

impl From<Stopped> for Fault {
    fn from(_: Stopped) -> Fault {
        Fault::Stopped
    }
}

impl From<ApiError> for Fault {
    fn from(error: ApiError) -> Fault {
        Fault::Failed(error)
    }
}

struct Actor {
    parts: Parts,
    woken: Receiver<()>,
    /// The daemon has cut its own connections, so that a failure says nothing about the server.
    is_cut: Arc<AtomicBool>,
    luck: Luck,
    /// The last known address of the server, for paths.
    server: String,
    reflector: Reflector,
    known: Table<PodKey, Read>,
    objects: Objects,
    /// UIDs of pods whose objects were looked up, or that are sent without them.
    ready: Set<String>,
    /// Pods that wait for their objects, with the reason.
    waiting: Table<PodKey, Apart>,
    /// Since when the first set waits.
    waits_since: Option<Mono>,
    look_ups: LookUps,
    sent: Option<PodSet>,
    /// The stored set, until the server has answered.
    restored: Option<PodSet>,
    /// The last update was `Failed`.
    failed: bool,
    /// Handlers of runtime classes.
    classes: Classes,
    /// Pods for which there is no room.
    left_out: LeftOut,
    /// Labels and taints of the node at the server.
    node: NodeObject,
    due: Due,
    /// Number and content of what is stored.
    remembered: (u64, String),
}

impl Actor {
    fn run(mut self) {
        // All ends of the thread are alike.
        let Err(Stopped) = self.work();
    }

    fn work(&mut self) -> Result<Infallible, Stopped> {
        self.restore();
        loop {
            if self.parts.pods.has_expired() {
                self.reflector.expired();
            }
            let wait = match self.reflect() {
                Ok(wait) => wait,
                Err(Fault::Stopped | Fault::Failed(ApiError::Closed)) => return Err(Stopped),
                Err(Fault::Failed(_)) if self.parts.client.is_closed() => return Err(Stopped),
                Err(Fault::Failed(_)) if self.parts.pods.has_expired() => {
                    self.reflector.expired();
                    Duration::ZERO
                }
                Err(Fault::Failed(ApiError::Unreachable(_))) if self.is_cut.swap(false, Ordering::AcqRel) => {
                    Duration::ZERO
                }
                Err(Fault::Failed(error)) => {
                    let (now, luck) = (self.now(), self.luck.draw());
                    let wait = self.reflector.failed(&error, now, luck);
                    // A failure that is retried at once is not reported.
                    if !wait.is_zero() {
                        self.tell_failed(&error)?;
                    }
                    wait
                }
            };
            match pulse::waits(|| self.woken.recv_timeout(wait)) {
                _ if self.parts.client.is_closed() => return Err(Stopped),
                Ok(()) => self.is_cut.store(false, Ordering::Release),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Stopped),
            }
        }
    }

    fn now(&self) -> Mono {
        self.parts.clock.now().mono
    }

    fn send(&self, update: SourceUpdate) -> Result<(), Stopped> {
        let heard = (self.parts.out)(FromSource { source: Source::Api, update });
        if heard { Ok(()) } else { Err(Stopped) }
    }

    fn tell_failed(&mut self, error: &ApiError) -> Result<(), Stopped> {
        if let Some(set) = self.restored.take() {
            // These pods run from the stored set.
            self.ready.extend(set.pods.iter().map(|pod| pod.uid.clone()));
            self.send(SourceUpdate::Restored(set))?;
        }
        self.failed = true;
        self.send(SourceUpdate::Failed(error.to_string()))
    }

    /// Makes the next request and reads its answer to the end. Returns how long to wait then.
    fn reflect(&mut self) -> Result<Duration, Fault> {
        if let Some(server) = self.parts.client.server() {
            self.server = server;
        }
        let selector = encoded(&format!("spec.nodeName={}", self.parts.acceptor.node_name));
        let base = format!("/api/v1/pods?fieldSelector={selector}");
        let seconds = limits::API_WATCH_MIN
            .as_secs()
            .saturating_add(self.luck.draw() % limits::API_WATCH_MIN.as_secs());
        let patience = if self.restored.is_some() { limits::API_FIRST } else { limits::API_CALL };
        let watch = format!("{base}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        match self.reflector.ask() {
            Ask::List { version } => {
                let path = format!("{base}&resourceVersion={}", encoded(&version));
                let list = self.parts.client.call(&Request::get(path), patience)?;
                // An empty list of something else would stop every pod.
                if list.get("kind").and_then(Value::as_str) != Some("PodList") {
                    let why = "what the server answers is no list of pods".to_owned();
                    return Err(ApiError::BadAnswer(why).into());
                }
                let items =
                    list.get("items").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                let mut fresh = Fresh::default();
                for item in items {
                    let (key, read) = self.read(item)?;
                    self.take(key, read, &mut Some(&mut fresh));
                }
                let version =
                    list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
                self.replace(fresh, version)?;
                Ok(Duration::ZERO)
            }
            Ask::Stream { version } => {
                let more = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                self.watch(&format!("{watch}{more}&resourceVersion={}", encoded(&version)), seconds, patience)
            }
            Ask::Watch { version } => {
                self.watch(&format!("{watch}&resourceVersion={}", encoded(&version)), seconds, patience)
            }
        }
    }

    fn watch(&mut self, path: &str, seconds: u64, patience: Duration) -> Result<Duration, Fault> {
        let begun = self.now();
        let end = begun.after(Duration::from_secs(seconds)).after(limits::API_CALL);
        let mut watch = self.parts.client.watch(path, patience)?;
        let mut first = matches!(self.reflector.ask(), Ask::Stream { .. }).then(Fresh::default);
        if first.is_none() {
            self.hope_for_node();
            self.answered()?;
        }
        let mut unsent = None;
        let outcome = self.follow(&mut watch, &mut first, &mut unsent, Bounds { begun, end, patience });
        // What was heard before a connection broke counts: the next watch begins behind it.
        if unsent.is_some() && !matches!(outcome, Err(Fault::Stopped)) {
            self.send_news()?;
            self.sync()?;
        }
        outcome
    }

    /// Reports that the server answers again, although nothing has changed.
    fn answered(&mut self) -> Result<(), Stopped> {
        if !std::mem::take(&mut self.failed) {
            return Ok(());
        }
        self.objects.hope();
        if self.sent.is_some() {
            self.send(SourceUpdate::Same)?;
        }
        Ok(())
    }

    /// The time until the next thing is due.
    fn pause(&self) -> Duration {
        let now = self.now();
        let store = self.parts.store.as_ref().and_then(|store| store.due(now));
        let objects = self.objects.all().next().map(|_| self.due.objects);
        // A request that takes long does not wake this thread.
        let is_slow = !self.look_ups.under_way.is_empty() || self.classes.is_awaited();
        let slow = is_slow.then(|| now.after(limits::API_LOOK_UP_POLL));
        let due = [self.objects.due(), self.classes.due()];
        let missing =
            due.into_iter().flatten().min().map(|due| self.due.of_missing(due, self.parts.patience.again));
        let due = [store, objects, missing, self.due.retry, self.due.relist, slow];
        let due = due.into_iter().flatten().min();
        let most = limits::API_WATCH_MIN;
        due.map_or(most, |due| due.since(now).clamp(limits::API_COALESCE, most))
    }

    /// Looks up objects that are due, and sends the set if it has changed.
    fn sync(&mut self) -> Result<(), Stopped> {
        self.look_up();
        let pods = self.known.iter().map(|(key, read)| (key.clone(), Arc::clone(&read.pod)));
        let latest = PodsOfNode { is_complete: true, pods: pods.collect() };
        let before = self.parts.pods.latest();
        let same = before.is_complete
            && before.pods.len() == latest.pods.len()
            && before.pods.iter().zip(&latest.pods).all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(a.1, b.1));
        if !same {
            self.parts.pods.put(latest);
        }
        if self.sent.is_none() && !self.waiting.is_empty() {
            let now = self.now();
            let since = *self.waits_since.get_or_insert(now);
            if now.since(since) < self.parts.patience.objects {
                return Ok(());
            }
            self.go_on_without();
        }
        self.send_set()?;
        self.save()
    }

    /// Sends what was heard, as far as nothing has to be looked up for it: a deletion does not wait for the objects of other
    /// pods.
    fn send_news(&mut self) -> Result<(), Stopped> {
        if self.sent.is_none() { Ok(()) } else { self.send_set() }
    }

    fn send_set(&mut self) -> Result<(), Stopped> {
        let set = self.set();
        if self.sent.as_ref() != Some(&set) {
            self.failed = false;
            self.send(SourceUpdate::Full(set.clone()))?;
            self.sent = Some(set);
        }
        Ok(())
    }
}
