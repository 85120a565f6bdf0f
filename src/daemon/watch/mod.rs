//! Watches the main loop (upstream's `syncLoopMonitor`): the thread `pk-watch` checks regularly whether the other
//! threads come back from their work, logs once each thread that does not, and tells the service manager the state of
//! the service.
//!
//! It ends nothing itself. When the main loop hangs, it stops telling systemd that the service is well, and systemd's
//! watchdog ends the process; a pod's thread that hangs is only reported, because it affects one pod.
//!
//! Never here: a wait for another thread.

mod rounds;

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, TrySendError};

use crate::base::{limits, thread};
use crate::daemon::notify::Notifier;
use crate::daemon::turn::Event;
use crate::status::task::Pulses;
use rounds::{Rounds, Seen};

/// Handle of the thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Watch {
    shared: Arc<Shared>,
    notifier: Notifier,
}

#[derive(Debug, Default)]
struct Shared {
    slot: Mutex<Slot>,
    wake: Condvar,
}

/// The inputs of the thread; the latest one counts.
#[derive(Debug, Default)]
struct Slot {
    ready: bool,
    status: String,
    /// A reload was completed that began at this time of the monotonic clock, in microseconds.
    reloaded: Option<u64>,
    closed: bool,
}

impl Watch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread could not be started.
    pub(super) fn start(notifier: Notifier, pulses: Pulses, out: Sender<Event>) -> io::Result<Watch> {
        let shared = Arc::<Shared>::default();
        let body = Body { shared: Arc::clone(&shared), notifier: notifier.clone(), pulses, out };
        thread::spawn("pk-watch", limits::WORKER_STACK, move || body.run())?;
        Ok(Watch { shared, notifier })
    }

    /// Whether the service manager wants to know the state.
    pub(super) fn tells(&self) -> bool {
        self.notifier.listens()
    }

    /// Tells the state of the service. `ready`: it has begun its work.
    pub(super) fn tell(&self, ready: bool, status: String) {
        let mut slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let news = slot.ready != ready || slot.status != status;
        (slot.ready, slot.status) = (ready, status);
        drop(slot);
        if news {
            self.shared.wake.notify_one();
        }
    }

    /// Tells that a reload was completed that began at this time of the monotonic clock, in microseconds.
    pub(super) fn reloaded(&self, began: u64) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).reloaded = Some(began);
        if self.tells() {
            self.shared.wake.notify_one();
        }
    }

    /// Tells that the service ends.
    pub(super) fn stopping(&self) {
        self.notifier.send("STOPPING=1");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).closed = true;
        self.shared.wake.notify_one();
    }
}

/// The time of the monotonic clock, in microseconds, as systemd reads it.
pub(super) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000).saturating_add(nanos.unwrap_or(0) / 1000)
}

struct Body {
    shared: Arc<Shared>,
    notifier: Notifier,
    pulses: Pulses,
    out: Sender<Event>,
}

impl Body {
    fn run(&self) {
        let begun = Instant::now();
        let mut rounds = Rounds::new(self.notifier.watchdog, self.notifier.listens());
        loop {
            let slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
            if slot.closed {
                return;
            }
            let seen = Seen { ready: slot.ready, status: slot.status.clone() };
            drop(slot);
            let now = begun.elapsed();
            let step = rounds.step(now, &seen, || self.pulses.busy());
            for line in &step.log {
                log::error!("{line}");
            }
            step.tell.iter().for_each(|text| self.notifier.send(text));
            self.reload(&seen);
            let told = step.stuck.is_none_or(|stuck| match self.out.try_send(Event::Stuck(stuck)) {
                // The main loop hangs, or is busy: the event is sent again with the next look.
                Err(TrySendError::Full(_)) => false,
                Ok(()) | Err(TrySendError::Disconnected(_)) => true,
            });
            if !told {
                rounds.untold();
            }
            let slot = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let news = |slot: &Slot| slot.closed || slot.reloaded.is_some() || slot.ready && !seen.ready;
            if news(&slot) {
                continue;
            }
            let wait = |due: Duration| due.saturating_sub(begun.elapsed());
            let due = if slot.status == seen.status { rounds.due() } else { rounds.status_due() };
            drop(self.shared.wake.wait_timeout(slot, wait(due)));
        }
    }

    /// A reload is reported when it is done, beginning and end together: it takes no longer than one turn of the main
    /// loop.
    fn reload(&self, seen: &Seen) {
        let began = self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).reloaded.take();
        if let Some(began) = began {
            self.notifier.send(&format!("RELOADING=1\nMONOTONIC_USEC={began}"));
            if seen.ready {
                self.notifier.send("READY=1");
            }
        }
    }
}
