//! Signs of life: how long a thread has been at work without waiting. A thread that waits is well, for any time; a
//! thread that has taken work and does not come back to wait hangs, for example on a dead disk.
//!
//! Never here: a judgement about which time is too long.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

thread_local! {
    /// The pulse of this thread, if it has one.
    static OWN: RefCell<Option<Arc<Pulse>>> = const { RefCell::new(None) };
}

/// Threads that joined, each with its task.
type Joined<T> = Vec<(T, Weak<Pulse>)>;

/// All watched threads, each with its task. Clones share them.
#[derive(Debug, Clone)]
pub struct Pulses<T> {
    begun: Instant,
    all: Arc<Mutex<Joined<T>>>,
}

impl<T> Default for Pulses<T> {
    fn default() -> Pulses<T> {
        Pulses { begun: Instant::now(), all: Arc::default() }
    }
}

#[derive(Debug)]
struct Pulse {
    begun: Instant,
    /// Microseconds from `begun` to the time at which work was taken, plus one; 0 while the thread waits.
    busy: AtomicU64,
}

/// A thread that was at work when the list was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Busy<T> {
    /// The thread's task.
    pub task: T,
    /// When it took its work, since the creation of [`Pulses`].
    pub since: Duration,
    /// How long it has been at work.
    pub age: Duration,
}

impl<T: Clone> Pulses<T> {
    /// Watches this thread from now on, until it ends. It counts as busy until it waits.
    pub fn join(&self, task: T) {
        let pulse = Arc::new(Pulse { begun: self.begun, busy: AtomicU64::new(0) });
        pulse.moves();
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, pulse)| pulse.strong_count() > 0);
        all.push((task, Arc::downgrade(&pulse)));
        drop(all);
        OWN.with_borrow_mut(|own| *own = Some(pulse));
    }

    /// The threads that are at work, in the order in which they joined.
    #[must_use]
    pub fn busy(&self) -> Vec<Busy<T>> {
        let now = self.begun.elapsed();
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = all.iter().filter_map(|(task, pulse)| {
            let since = Duration::from_micros(pulse.upgrade()?.busy.load(Ordering::Relaxed).checked_sub(1)?);
            Some(Busy { task: task.clone(), since, age: now.saturating_sub(since) })
        });
        busy.collect()
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
        let tasks = |pulses: &Pulses<u8>| pulses.busy().into_iter().map(|busy| busy.task).collect::<Vec<_>>();
        let (step, steps) = bounded::<()>(0);
        let (told, tells) = bounded::<()>(0);
        let of_thread = pulses.clone();
        let thread = thread::spawn(move || {
            of_thread.join(7);
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
        assert_eq!(tasks(&pulses), [7]);
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
