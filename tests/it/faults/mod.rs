//! A node whose daemon speaks to Docker through the [`Proxy`]; the test looks at the containers behind it.

mod chaos;
mod churn;
mod events;
mod eyes;
mod replies;
mod start;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use podkeeper::testing::base::clock::Timestamp;

use crate::harness::proxy::Proxy;
use crate::harness::{Container, Node, Options, SOCKET};

/// Node and proxy; the node is dropped first, so that its containers are removed while the engine can be
/// reached.
pub struct Faulty {
    pub node: Node,
    pub proxy: Proxy,
}

impl Faulty {
    /// A node whose daemon is not started yet.
    pub fn prepare(flags: &[&str]) -> Faulty {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("podkeeper-proxy-{}-{count}", std::process::id()));
        _ = std::fs::remove_file(&socket);
        let proxy = Proxy::start(Path::new(SOCKET), &socket);
        let node = Node::prepare(Options { endpoint: Some(socket), ..Options::flags(flags) });
        Faulty { node, proxy }
    }

    /// A node with a running daemon and an empty manifest directory.
    pub fn start(flags: &[&str]) -> Faulty {
        let faulty = Faulty::prepare(flags);
        faulty.launch();
        faulty
    }

    /// Starts the daemon; [`Proxy::forget`] the requests of the one before.
    pub fn launch(&self) {
        self.proxy.forget();
        self.node.launch_unawaited();
        self.proxy.victim(self.node.pid().unwrap());
    }

    /// Waits until `done`, or until the proxy has killed the daemon, which is reaped then. Returns whether
    /// it was killed. Once more than `step` changes have been requested, the death is certain to come.
    pub fn killed_before(&self, what: &str, step: usize, mut done: impl FnMut() -> bool) -> bool {
        self.node.wait_until(what, || self.proxy.killed() || done() && self.proxy.changes() <= step);
        let killed = self.proxy.killed();
        if killed {
            self.node.wait_for("the killed daemon is collected", || self.node.exited());
        }
        killed
    }

    /// Starts the daemon again, without a rule, and without waiting.
    pub fn launch_again(&self) {
        self.proxy.no_rule();
        self.launch();
    }
}

/// Shows that a container was not restarted: its id and its start time.
pub type Lives = BTreeMap<String, (String, Option<Timestamp>)>;

/// The running containers of a node.
pub fn lives(node: &Node) -> Lives {
    node.containers().iter().filter(|c| c.runs()).map(life).collect()
}

fn life(c: &Container) -> (String, (String, Option<Timestamp>)) {
    (c.id.clone(), (c.name.clone(), c.started_at))
}

/// Asserts that everything that ran `before` is still there, and has not been started again.
pub fn assert_untouched(before: &Lives, node: &Node, context: &str) {
    let now: Lives = node.containers().iter().map(life).collect();
    for (id, (name, started)) in before {
        let found = now.get(id).map(|(_, started)| started);
        assert_eq!(found, Some(started), "{context}: {name} was restarted or removed\n{}", node.picture());
    }
}

/// Asserts that no two running containers have the same pod and name.
pub fn assert_single(node: &Node, context: &str) {
    let mut seen = BTreeMap::new();
    for c in node.containers().into_iter().filter(Container::runs) {
        let place = (c.pod.clone(), c.container.clone());
        if let Some(first) = seen.insert(place, c.name.clone()) {
            panic!("{context}: {first} and {} both run\n{}", c.name, node.picture());
        }
    }
}
