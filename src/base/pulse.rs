//! Signs of life: since when a thread has been at work without waiting for anything. A thread that waits is well, however
//! long; one that has taken work and does not come back to wait hangs, in a dead disk for example.
//!
//! Never here: a judgement about how long is too long.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

thread_local! {
    /// The pulse of this thread, if it has one.
    static OWN: RefCell<Option<Arc<Pulse>>> = const { RefCell::new(None) };
}

/// All threads that are watched. Clones share them.
#[derive(Debug, Clone)]
pub struct Pulses {
    begun: Instant,
    all: Arc<Mutex<Vec<Weak<Pulse>>>>,
}

impl Default for Pulses {
    fn default() -> Pulses {
        Pulses { begun: Instant::now(), all: Arc::default() }
    }
}

#[derive(Debug)]
struct Pulse {
    name: String,
    begun: Instant,
    /// Microseconds from `begun` to the moment at which work was taken, plus one; 0 while it waits.
    busy: AtomicU64,
}

/// A thread that was at work at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy {
    /// What the thread does, as users call it.
    pub name: String,
    /// When it took its work, from the beginning of [`Pulses`].
    pub since: Duration,
    /// For how long it has been at it.
    pub age: Duration,
}

impl Pulses {
    /// Has this thread watched from now on, until it ends. It counts as busy until it waits.
    pub fn join(&self, name: String) {
        let pulse = Arc::new(Pulse { name, begun: self.begun, busy: AtomicU64::new(0) });
        pulse.moves();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|pulse| pulse.strong_count() > 0);
        all.push(Arc::downgrade(&pulse));
        drop(all);
        OWN.with_borrow_mut(|own| *own = Some(pulse));
    }

    /// The threads that are at work, those that joined first before the others.
    #[must_use]
    pub fn busy(&self) -> Vec<Busy> {
        let now = self.begun.elapsed();
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let all = all.iter().filter_map(Weak::upgrade);
        all.filter_map(|pulse| {
            let since = Duration::from_micros(pulse.busy.load(Ordering::Relaxed).checked_sub(1)?);
            Some(Busy { name: pulse.name.clone(), since, age: now.saturating_sub(since) })
        })
        .collect()
    }
}

impl Pulse {
    fn moves(&self) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX - 1);
        self.busy.store(micros.saturating_add(1), Ordering::Relaxed);
    }
}

/// Runs `wait`, during which this thread is idle.
pub fn waits<T>(wait: impl FnOnce() -> T) -> T {
    OWN.with_borrow(|own| {
        let Some(pulse) = own else { return wait() };
        pulse.busy.store(0, Ordering::Relaxed);
        let result = wait();
        pulse.moves();
        result
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use crossbeam_channel::bounded;

    use super::*;

    #[test]
    fn a_thread_is_busy_until_it_waits_and_again_after_it() {
        let pulses = Pulses::default();
        let names = |pulses: &Pulses| pulses.busy().into_iter().map(|busy| busy.name).collect::<Vec<_>>();
        let (step, steps) = bounded::<()>(0);
        let (told, tells) = bounded::<()>(0);
        let of_thread = pulses.clone();
        let thread = thread::spawn(move || {
            of_thread.join("the thread".to_owned());
            told.send(()).unwrap();
            steps.recv().unwrap();
            waits(|| {
                told.send(()).unwrap();
                steps.recv().unwrap();
            });
            told.send(()).unwrap();
            steps.recv().unwrap();
        });
        tells.recv().unwrap();
        let first = pulses.busy();
        assert_eq!(names(&pulses), ["the thread"]);
        step.send(()).unwrap();
        tells.recv().unwrap();
        assert!(pulses.busy().is_empty(), "it waits");
        step.send(()).unwrap();
        tells.recv().unwrap();
        assert!(pulses.busy()[0].since > first[0].since, "another piece of work has another stamp");
        step.send(()).unwrap();
        thread.join().unwrap();
        assert!(pulses.busy().is_empty(), "it has ended");
        assert_eq!(waits(|| 7), 7, "a thread that nobody watches");
    }
}
