//! Parts that all pods share: the network in force, whether there is one, and the bound of running plugins.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::directory::{self, Network};
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::network::Cni;
use crate::runtime::docker::Docker;
use crate::runtime::{DockerError, RefusalKind};

/// The networks of this node.
#[derive(Debug)]
pub struct Networks {
    pub(super) dirs: Cni,
    pub(super) root_dir: String,
    pub(super) docker: Docker,
    state: Mutex<State>,
    turns: Mutex<usize>,
    turn: Condvar,
    /// Locked for reading while a pod is attached or detached, for writing while plugins collect.
    pub(super) work: RwLock<()>,
    /// Ends the thread that waits for a network.
    _looks: Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    /// The network in force: it stays even if its file is removed, as upstream.
    network: Option<Arc<Network>>,
    /// Why there is no network; `None` before the first look.
    missing: Option<String>,
    /// Sandboxes with orders of this daemon: a sweep skips them.
    live: Set<String>,
}

/// Whether pods can be attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    Yes,
    /// Not known yet.
    Unknown,
    /// They cannot, and why.
    No(String),
}

/// Receives whether the network is ready; `Some`: why it is not. Returns false when the receiver is gone.
pub type Tell = Box<dyn Fn(Option<String>) -> bool + Send>;

impl Networks {
    /// Creates the networks; if plugins are enabled, a thread looks for a network until there is one. `dirs` are
    /// used even when plugins are disabled, for pods of an earlier flag.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(dirs: Cni, root_dir: String, docker: Docker, tell: Tell) -> io::Result<Arc<Networks>> {
        let (handle, ends): (Sender<()>, Receiver<()>) = bounded(0);
        let is_on = dirs.is_on;
        let networks = Arc::new(Networks {
            dirs,
            root_dir,
            docker,
            state: Mutex::default(),
            turns: Mutex::default(),
            turn: Condvar::new(),
            work: RwLock::default(),
            _looks: handle,
        });
        if is_on {
            let own = Arc::downgrade(&networks);
            let body = move || look_until_ready(&own, &ends, &tell);
            thread::spawn("pk-cni-conf", limits::WORKER_STACK, body)?;
        }
        Ok(networks)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether pods can be attached, by the last look.
    #[must_use]
    pub fn ready(&self) -> Ready {
        let state = self.lock();
        match (&state.network, &state.missing) {
            (Some(_), _) => Ready::Yes,
            (None, None) => Ready::Unknown,
            (None, Some(why)) => Ready::No(why.clone()),
        }
    }

    /// The network in force, after reading its file again.
    ///
    /// # Errors
    /// There is no network, and there was none before.
    pub(super) fn network(&self) -> Result<Arc<Network>, String> {
        let known = self.lock().network.clone();
        let looked = directory::look(&self.dirs, known.as_ref());
        let mut state = self.lock();
        match (looked, known) {
            (Ok(network), _) => {
                if state.network.as_ref().is_none_or(|known| known.list != network.list) {
                    log::info!("network {} of {} is used for pods", network.list.name, network.file_name());
                }
                state.network = Some(Arc::clone(&network));
                state.missing = None;
                Ok(network)
            }
            (Err(why), Some(known)) => {
                if state.missing.as_ref() != Some(&why.0) {
                    log::warn!("{}: network {} is used further", why.0, known.list.name);
                }
                state.missing = Some(why.0);
                Ok(known)
            }
            (Err(why), None) => {
                let why = format!("cni config uninitialized: {}", why.0);
                if state.missing.as_ref() != Some(&why) {
                    log::warn!("network plugin is not ready: {why}");
                }
                state.missing = Some(why.clone());
                Err(why)
            }
        }
    }

    /// Marks that this sandbox has orders.
    pub(super) fn is_live(&self, sandbox: &str) {
        self.lock().live.insert(sandbox.to_owned());
    }

    /// Forgets this sandbox: nothing is held for it any more.
    pub(super) fn is_over(&self, sandbox: &str) {
        self.lock().live.remove(sandbox);
    }

    /// Whether no order of this daemon is about this sandbox.
    pub(super) fn is_stranger(&self, sandbox: &str) -> bool {
        !self.lock().live.contains(sandbox)
    }

    /// Whether Docker reports that there is no such container.
    pub(super) fn is_gone(&self, id: &str) -> Result<bool, DockerError> {
        match self.docker.process(id) {
            Ok(_) => Ok(false),
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Waits for a turn, for a bounded time, because plugins of other pods may hang.
    pub(super) fn enter(&self) -> Turn<'_> {
        let turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = |turns: &mut usize| *turns >= limits::CNI_AT_ONCE;
        let (mut turns, _) = self
            .turn
            .wait_timeout_while(turns, limits::CNI_TURN, is_full)
            .unwrap_or_else(PoisonError::into_inner);
        *turns = turns.saturating_add(1);
        Turn(self)
    }
}

fn look_until_ready(networks: &Weak<Networks>, ends: &Receiver<()>, tell: &Tell) {
    while let Some(own) = networks.upgrade() {
        let missing = own.network().err();
        drop(own);
        let is_ready = missing.is_none();
        if !tell(missing) || is_ready {
            return;
        }
        if ends.recv_timeout(limits::CNI_CONF_LOOK) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// Held while plugins work on a pod.
pub(super) struct Turn<'a>(&'a Networks);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.0.turns.lock().unwrap_or_else(PoisonError::into_inner);
        *turns = turns.saturating_sub(1);
        self.0.turn.notify_one();
    }
}
