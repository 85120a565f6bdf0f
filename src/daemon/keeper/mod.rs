//! The keeper of the node: it looks at what the node has left, tells the main loop, and has garbage collected. It reads
//! figures and carries out what `eviction/` and `garbage/` decide.
//!
//! Far from every threshold it looks rarely; nobody has to ask it. Never here: a decision about which pod goes.

mod disk;
pub(super) mod local;

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use std::{io, thread};

use crossbeam_channel::Sender;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::base::pulse::Pulses;
use crate::base::{limits, wait};
use crate::daemon::turn::Event;
use crate::eviction::News;
use crate::garbage::collector::Collector;
use crate::node::pressure::Pressures;
use crate::status::snapshot::{Latest, Snapshot};

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    pods: Latest,
    _stop: OwnedFd,
}

impl Keeper {
    /// Starts the thread `pk-keeper`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start(
        pods: Latest,
        garbage: Arc<Collector>,
        out: Sender<Event>,
        pulses: Pulses,
    ) -> io::Result<Keeper> {
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let mut rounds = Rounds { pods: pods.clone(), _garbage: garbage, out };
        thread::Builder::new().name("pk-keeper".to_owned()).stack_size(limits::WORKER_STACK).spawn(
            move || {
                pulses.join("the keeper of the node".to_owned());
                keep(&mut rounds, &stopped);
            },
        )?;
        Ok(Keeper { pods, _stop: stop })
    }

    /// The pods as they are now. The thread is not woken for it.
    pub(super) fn tell(&self, snapshot: Arc<Snapshot>) {
        self.pods.tell(snapshot);
    }
}

/// Looks when it is due, until the handle or the main loop is gone.
fn keep(rounds: &mut Rounds, stopped: &OwnedFd) {
    loop {
        let Ok(due) = rounds.look(Instant::now()) else { return };
        let set = vec![PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN)];
        let ready = wait::until(set, due).unwrap_or_default();
        if ready.first().is_none_or(|flags| !flags.is_empty()) {
            return;
        }
    }
}

/// The main loop is gone.
struct Gone;

struct Rounds {
    pods: Latest,
    _garbage: Arc<Collector>,
    out: Sender<Event>,
}

impl Rounds {
    /// Looks at the node; returns when to look again.
    fn look(&mut self, _now: Instant) -> Result<Option<Instant>, Gone> {
        let _pods = self.pods.get();
        self.out.send(Event::Node(News::Pressures(Pressures::new()))).map_err(|_| Gone)?;
        Ok(None)
    }
}
