//! Turns of pods at the work on their volumes. Each source has a few places: the volumes of many pods at once would take the
//! node's memory and its processors. A pod that waits for its turn has no thread.
//!
//! Never here: a source that waits for another; a place that is held for ever by a file system that hangs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

use crate::base::clock::{Clock as _, Mono, System};
use crate::base::{limits, thread};
use crate::pod::{Source, turn};

/// The work of one pod; it gets the reason when there is no thread for it.
pub(super) type Work = Box<dyn FnOnce(Result<(), String>) + Send>;

/// The turns of a node.
pub(super) struct Turns {
    clock: System,
    queue: Mutex<Queue<Work>>,
    changed: Condvar,
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turns")
    }
}

/// What waits and runs.
struct Queue<W> {
    waiting: VecDeque<(Option<Source>, W)>,
    busy: Vec<Busy>,
    /// For the next turn.
    id: u64,
    /// A thread waits for the next turn, or is on its way to do so.
    has_spare: bool,
}

struct Busy {
    id: u64,
    source: Option<Source>,
    since: Mono,
}

impl<W> Default for Queue<W> {
    fn default() -> Queue<W> {
        Queue { waiting: VecDeque::new(), busy: Vec::new(), id: 0, has_spare: false }
    }
}

impl<W> Queue<W> {
    /// The next work, if a place is free for it.
    fn take(&mut self, now: Mono) -> Option<(u64, W)> {
        // Work that takes long gives its place back, but not that of any number.
        let mut late: Vec<Option<Source>> = Vec::new();
        let mut busy: Vec<Option<Source>> = Vec::new();
        for it in &self.busy {
            let is_late = now.since(it.since) >= limits::VOLUMES_BUSY
                && late.iter().filter(|of| **of == it.source).count() < limits::VOLUMES_LATE;
            if is_late { late.push(it.source) } else { busy.push(it.source) }
        }
        let waiting = self.waiting.iter().map(|(source, _)| *source);
        let (source, work) = self.waiting.remove(turn::first(waiting, &busy, limits::VOLUMES_AT_ONCE)?)?;
        self.id = self.id.wrapping_add(1);
        self.busy.push(Busy { id: self.id, source, since: now });
        Some((self.id, work))
    }

    fn done(&mut self, id: u64) {
        self.busy.retain(|it| it.id != id);
    }

    /// When the next place may be given back.
    fn due(&self, now: Mono) -> Option<Mono> {
        self.busy.iter().map(|it| it.since.after(limits::VOLUMES_BUSY)).filter(|due| *due > now).min()
    }
}

impl Turns {
    pub(super) fn new(clock: System) -> Turns {
        Turns { clock, queue: Mutex::default(), changed: Condvar::new() }
    }

    /// Does this work in its turn, in a thread.
    pub(super) fn add(self: &Arc<Turns>, source: Option<Source>, work: Work) {
        let mut queue = self.lock();
        queue.waiting.push_back((source, work));
        if queue.has_spare {
            self.changed.notify_one();
            return;
        }
        let Err(error) = self.spawn(&mut queue) else { return };
        if queue.busy.is_empty() {
            let left = std::mem::take(&mut queue.waiting);
            drop(queue);
            left.into_iter().for_each(|(_, work)| work(Err(format!("no thread could be started: {error}"))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<Work>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spawn(self: &Arc<Turns>, queue: &mut Queue<Work>) -> io::Result<()> {
        let turns = Arc::clone(self);
        thread::spawn("pk-vol", limits::WORKER_STACK, move || turns.run())?;
        queue.has_spare = true;
        Ok(())
    }

    fn run(self: &Arc<Turns>) {
        let mut queue = self.lock();
        queue.has_spare = false;
        loop {
            let now = self.clock.now().mono;
            if let Some((id, work)) = queue.take(now) {
                // This thread may hang: another one sees to those that wait.
                if !queue.waiting.is_empty() && !queue.has_spare {
                    _ = self.spawn(&mut queue);
                }
                self.changed.notify_one();
                drop(queue);
                work(Ok(()));
                queue = self.lock();
                queue.done(id);
                continue;
            }
            if queue.waiting.is_empty() || queue.has_spare {
                // The spare one may have nothing to wait for.
                self.changed.notify_one();
                return;
            }
            queue.has_spare = true;
            queue = match queue.due(now) {
                Some(due) => {
                    let waited = self.changed.wait_timeout(queue, due.since(now));
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            };
            queue.has_spare = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crossbeam_channel::{bounded, unbounded};

    use super::*;
    use Source::{File, Http};

    const MANY: usize = 3 * (limits::VOLUMES_AT_ONCE + limits::VOLUMES_LATE);

    fn of(source: Source, count: usize) -> impl Iterator<Item = (Option<Source>, Source)> {
        std::iter::repeat_n((Some(source), source), count)
    }

    /// 109 pods of one source held the files of their Secrets at once.
    #[test]
    fn few_pods_of_a_source_work_at_once_and_no_other_source_waits_for_them() {
        let mut queue = Queue { waiting: of(Http, MANY).chain(of(File, 2)).collect(), ..Queue::default() };
        let now = Mono::default();
        let mut begun = Vec::new();
        while let Some((_, source)) = queue.take(now) {
            begun.push(source);
        }
        assert_eq!(begun.iter().filter(|source| **source == Http).count(), limits::VOLUMES_AT_ONCE);
        assert_eq!(begun.iter().filter(|source| **source == File).count(), 2);
        queue.done(1);
        assert!(queue.take(now).is_some() && queue.take(now).is_none());
    }

    #[test]
    fn work_that_hangs_gives_its_place_back_up_to_a_number() {
        let mut queue = Queue { waiting: of(Http, MANY).collect(), ..Queue::default() };
        let mut now = Mono::default();
        let mut begun = 0;
        for _ in 0..MANY {
            while queue.take(now).is_some() {
                begun += 1;
            }
            let due = queue.due(now);
            now = due.unwrap_or(now);
        }
        assert_eq!(begun, limits::VOLUMES_AT_ONCE + limits::VOLUMES_LATE);
        assert_eq!(queue.due(now), None);
        queue.waiting.extend(of(File, 1));
        assert_eq!(queue.take(now).map(|(_, source)| source), Some(File));
    }

    #[test]
    fn what_waits_is_done_when_a_place_is_left() {
        let turns = Arc::new(Turns::new(System::start()));
        let (hold, held) = bounded::<()>(0);
        let (tell, told) = unbounded();
        for n in 0..3 * limits::VOLUMES_AT_ONCE {
            let (held, tell) = (held.clone(), tell.clone());
            turns.add(
                Some(Http),
                Box::new(move |begun| {
                    _ = held.recv();
                    tell.send((n, begun)).unwrap();
                }),
            );
        }
        let patience = Duration::from_secs(20);
        let mine = tell.clone();
        turns.add(Some(File), Box::new(move |begun| mine.send((99, begun)).unwrap()));
        assert_eq!(told.recv_timeout(patience), Ok((99, Ok(()))));
        assert!(turns.lock().busy.len() <= limits::VOLUMES_AT_ONCE + 1);
        drop(hold);
        let mut done: Vec<usize> =
            (0..3 * limits::VOLUMES_AT_ONCE).map(|_| told.recv_timeout(patience).unwrap().0).collect();
        done.sort_unstable();
        assert_eq!(done, (0..3 * limits::VOLUMES_AT_ONCE).collect::<Vec<_>>());
        let until = std::time::Instant::now() + patience;
        while Arc::strong_count(&turns) > 1 {
            assert!(std::time::Instant::now() < until, "a thread is left");
            std::thread::yield_now();
        }
    }
}
