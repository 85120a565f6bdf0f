//! The threads that answer requests: started when needed, ended when idle, at most a bounded number.
//!
//! Never here: a queue. When there is no thread, the client gets an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::base::{limits, thread};

/// The work of one thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads.
#[derive(Debug)]
pub struct Pool {
    jobs: Sender<Job>,
    takers: Receiver<Job>,
    threads: Count,
}

impl Pool {
    /// A pool of at most `most` threads.
    #[must_use]
    pub fn new(most: usize) -> Pool {
        // Without a buffer: sending succeeds only when a thread waits for a job.
        let (jobs, takers) = bounded(0);
        Pool { jobs, takers, threads: Count::new(most) }
    }

    /// Gives a job to a thread.
    ///
    /// # Errors
    /// The job, when all threads are busy, or none can be started.
    pub fn give(&self, job: Job) -> Result<(), Job> {
        let job = match self.jobs.try_send(job) {
            Ok(()) => return Ok(()),
            Err(error) => error.into_inner(),
        };
        let Some(place) = self.threads.take() else { return Err(job) };
        let takers = self.takers.clone();
        // Passed through a channel, so that it comes back when no thread can be started.
        let (hand, first) = bounded::<Job>(1);
        let work = move || {
            let _place = place;
            let mut next = first.recv().ok();
            while let Some(job) = next {
                job();
                next = takers.recv_timeout(limits::SERVER_THREAD_REST).ok();
            }
        };
        match thread::spawn("pk-request", limits::SERVER_STACK, work) {
            Ok(_) => hand.send(job).map_err(|error| error.0),
            Err(error) => {
                log::warn!("a request is not answered: no thread could be started: {error}");
                Err(job)
            }
        }
    }
}

/// A number of places; each is given back when it is dropped. Clones share them.
#[derive(Debug, Clone)]
pub struct Count {
    taken: Arc<AtomicUsize>,
    most: usize,
}

/// A taken place.
#[derive(Debug)]
pub struct Place {
    taken: Arc<AtomicUsize>,
}

impl Count {
    /// `most` places, all free.
    #[must_use]
    pub fn new(most: usize) -> Count {
        Count { taken: Arc::default(), most }
    }

    /// Takes a place, if one is free.
    #[must_use]
    pub fn take(&self) -> Option<Place> {
        let more = |taken: usize| taken.checked_add(1).filter(|taken| *taken <= self.most);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| Place { taken: Arc::clone(&self.taken) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_threads_than_the_bound_and_one_that_rests_is_used_again() {
        let pool = Pool::new(2);
        let (release, wait) = bounded::<()>(0);
        let (done, told) = bounded(8);
        let job = |wait: &Receiver<()>| -> Job {
            let (wait, done) = (wait.clone(), done.clone());
            Box::new(move || {
                _ = wait.recv();
                done.send(std::thread::current().id()).unwrap();
            })
        };
        assert!(pool.give(job(&wait)).is_ok() && pool.give(job(&wait)).is_ok());
        assert!(pool.give(job(&wait)).is_err(), "both are at work");
        release.send(()).unwrap();
        let first = told.recv().unwrap();
        // A thread that has finished waits for the next job a moment later.
        let mut third = Some(job(&wait));
        while let Some(job) = third.take() {
            third = pool.give(job).err();
            std::thread::yield_now();
        }
        release.send(()).unwrap();
        release.send(()).unwrap();
        assert!([told.recv().unwrap(), told.recv().unwrap()].contains(&first));
    }

    #[test]
    fn a_place_is_given_back_when_it_is_dropped() {
        let count = Count::new(1);
        let place = count.take().unwrap();
        assert!(count.take().is_none());
        drop(place);
        assert!(count.take().is_some());
    }
}
