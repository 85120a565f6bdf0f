//! The node object at the server: its labels and taints, which others set. The thread `pk-node` watches it, so that a pod
//! that comes is judged by what the scheduler saw (`pkg/kubelet/kubelet.go`, `nodeLister`).
//!
//! Never here: what they mean for a pod; a change of the node object.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use serde_json::Value;

use super::reflector::{Ask, Luck, Reflector};
use crate::api_client::pods::{NodeSeen, ServerPods};
use crate::api_client::request::encoded;
use crate::api_client::{ApiError, Client, Kind, Next, Request, WatchEvent};
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::pulse;
use crate::base::{json, limits};
use crate::pod::placement::NodeAtServer;
use crate::source::running::Running;

/// What is known of the node object.
#[derive(Debug, Default)]
struct Known {
    /// The server has answered, or could not be asked: nobody waits for it any more.
    is_heard: bool,
    /// A watch tells of each change.
    is_watched: bool,
    /// The last version. It stays when the object is removed: podkeeper makes it again.
    node: Option<NodeAtServer>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    heard: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an answer; `None` when there is no such object, or no answer.
    fn put(&self, node: Option<NodeAtServer>) {
        let mut known = self.lock();
        known.is_heard = true;
        if node.is_some() {
            known.node = node;
        }
        self.heard.notify_all();
    }
}

/// The node object, for the thread that reads pods.
#[derive(Debug)]
pub struct NodeObject {
    shared: Arc<Shared>,
    wake: Sender<()>,
    /// What it last took over.
    pub latest: Option<NodeAtServer>,
}

impl NodeObject {
    /// Takes over the latest version; waits for the first answer for at most this time.
    pub fn refresh(&mut self, left: Duration) {
        let known = self.shared.lock();
        let waited =
            pulse::waits(|| self.shared.heard.wait_timeout_while(known, left, |known| !known.is_heard));
        let known = waited.unwrap_or_else(PoisonError::into_inner).0;
        self.latest.clone_from(&known.node);
    }

    /// Takes a version that was asked for.
    pub fn put(&mut self, object: &Value) {
        self.latest = Some(read(object));
        self.shared.put(self.latest.clone());
    }

    /// The server answers again: it is asked now, and pods wait for the answer as at a start.
    pub fn hope(&self) {
        {
            let mut known = self.shared.lock();
            known.is_heard = known.is_watched;
        }
        // A full channel holds the same request.
        let _full = self.wake.try_send(());
    }
}

/// The thread that watches the node object. The client has to be closed before this is dropped.
#[derive(Debug)]
pub struct NodeWatch {
    wake: Sender<()>,
    thread: Running,
}

impl NodeWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        client: Client,
        node_name: &str,
        clock: System,
        pods: ServerPods,
    ) -> io::Result<(NodeWatch, NodeObject)> {
        let (wake, woken) = bounded(1);
        let object = NodeObject { shared: Arc::default(), wake: wake.clone(), latest: None };
        let selector = encoded(&format!("metadata.name={node_name}"));
        let watcher = Watcher {
            client,
            base: format!("/api/v1/nodes?fieldSelector={selector}"),
            clock,
            shared: Arc::clone(&object.shared),
            pods,
            streamed: NodeSeen::Missing,
            reflector: Reflector::default(),
            luck: Luck::default(),
            woken,
        };
        let thread = Running::spawn("pk-node", limits::URL_STACK, move || watcher.run())?;
        Ok((NodeWatch { wake, thread }, object))
    }

    /// What cut its connection is over: it is asked now.
    pub fn rescan(&self) {
        let _full = self.wake.try_send(());
    }
}

impl Drop for NodeWatch {
    fn drop(&mut self) {
        self.rescan();
        self.thread.await_end(limits::SOURCE_END);
    }
}

struct Watcher {
    client: Client,
    /// Path of the list with this node alone.
    base: String,
    clock: System,
    shared: Arc<Shared>,
    /// Takes the UID for the heartbeat.
    pods: ServerPods,
    /// What a stream of the present state has told so far.
    streamed: NodeSeen,
    reflector: Reflector,
    luck: Luck,
    woken: Receiver<()>,
}

impl Watcher {
    fn run(mut self) {
        loop {
            let begun = self.now();
            let outcome = self.reflect();
            self.shared.lock().is_watched = false;
            if self.client.is_closed() {
                return;
            }
            let (now, luck) = (self.now(), self.luck.draw());
            let has_lasted = now.since(begun) >= limits::API_WATCH_SHORT;
            let wait = match outcome {
                Ok(wait) => wait,
                // Balancers close what is silent.
                Err(ApiError::Unreachable(_)) if has_lasted && self.is_watching() => {
                    self.reflector.worked();
                    self.reflector.ended(false, now, luck)
                }
                Err(error) => {
                    log::debug!("the node's labels and taints are not known anew: {error}");
                    let wait = self.reflector.failed(&error, now, luck);
                    // Another request follows at once: pods wait for its answer.
                    if !wait.is_zero() {
                        self.shared.put(None);
                    }
                    wait
                }
            };
            match self.woken.recv_timeout(wait) {
                Ok(()) => self.reflector.anew(),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn now(&self) -> Mono {
        self.clock.now().mono
    }

    fn is_watching(&self) -> bool {
        matches!(self.reflector.ask(), Ask::Watch { .. })
    }

    /// Makes the next request and reads its answer to the end. Returns how long to wait then.
    fn reflect(&mut self) -> Result<Duration, ApiError> {
        let seconds = limits::API_WATCH_MIN
            .as_secs()
            .saturating_add(self.luck.draw() % limits::API_WATCH_MIN.as_secs());
        let watch = format!("{}&watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}", self.base);
        match self.reflector.ask() {
            Ask::List { version } => {
                let path = format!("{}&resourceVersion={}", self.base, encoded(&version));
                let list = self.client.call(&Request::get(path), limits::API_CALL)?;
                if list.get("kind").and_then(Value::as_str) != Some("NodeList") {
                    return Err(ApiError::BadAnswer(
                        "what the server answers is no list of nodes".to_owned(),
                    ));
                }
                let node = list.pointer("/items/0");
                self.shared.put(node.map(read));
                self.pods.see_node(node.map_or(NodeSeen::Missing, seen));
                let version = list.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                self.reflector.complete(version.unwrap_or_default());
                Ok(Duration::ZERO)
            }
            Ask::Stream { version } => {
                let more = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
                self.streamed = NodeSeen::Missing;
                self.follow(&format!("{watch}{more}&resourceVersion={}", encoded(&version)), seconds)
            }
            Ask::Watch { version } => {
                self.follow(&format!("{watch}&resourceVersion={}", encoded(&version)), seconds)
            }
        }
    }

    fn follow(&mut self, path: &str, seconds: u64) -> Result<Duration, ApiError> {
        let begun = self.now();
        let end = begun.after(Duration::from_secs(seconds)).after(limits::API_CALL);
        let mut watch = self.client.watch(path, limits::API_CALL)?;
        self.shared.lock().is_watched = self.is_watching();
        let mut events = 0_u64;
        loop {
            let now = self.now();
            let wait = if self.is_watching() { end.since(now) } else { limits::API_CALL };
            match watch.next(wait)? {
                Next::Event(event) => {
                    events = events.saturating_add(1);
                    self.hear(&event)?;
                }
                Next::Quiet => {
                    return Err(ApiError::Unreachable("the server does not go on with a watch".to_owned()));
                }
                Next::End => {
                    let (now, luck) = (self.now(), self.luck.draw());
                    let is_early = events == 0 && now.since(begun) < limits::API_WATCH_SHORT;
                    return Ok(self.reflector.ended(is_early, now, luck));
                }
            }
        }
    }

    /// Notes the node object of an event. The part before the end of a stream's first state may be old.
    fn see(&mut self, seen: NodeSeen) {
        if self.is_watching() { self.pods.see_node(seen) } else { self.streamed = seen }
    }

    fn hear(&mut self, event: &WatchEvent) -> Result<(), ApiError> {
        if event.object.get("kind").and_then(Value::as_str) != Some("Node") {
            return Err(ApiError::BadAnswer("what the server tells is no event of a node".to_owned()));
        }
        match event.kind {
            Kind::Bookmark { is_initial_end: true } => {
                self.shared.put(None);
                self.shared.lock().is_watched = true;
                self.pods.see_node(self.streamed.clone());
                self.reflector.complete(event.version());
            }
            Kind::Added | Kind::Modified => {
                self.shared.put(Some(read(&event.object)));
                self.see(seen(&event.object));
            }
            Kind::Deleted => self.see(NodeSeen::Missing),
            Kind::Bookmark { .. } => {}
        }
        self.reflector.heard(event.version());
        Ok(())
    }
}

fn seen(object: &Value) -> NodeSeen {
    let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
    NodeSeen::Uid(uid.unwrap_or_default().to_owned())
}

/// Labels and taints; what cannot be read is left out.
fn read(object: &Value) -> NodeAtServer {
    let part = |path: &str| object.pointer(path).cloned().unwrap_or_default();
    let labels = json::read(&part("/metadata/labels")).unwrap_or_default();
    let taints = json::read(&part("/spec/taints")).unwrap_or_default();
    NodeAtServer { labels, taints }
}
