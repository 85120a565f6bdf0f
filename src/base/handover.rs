//! Hands a thing from one thread to another: a place for one, and a bell. A channel of its own type is 3 KiB of code for
//! each type of message; here the things lie beside one channel of bells, which is the same for all.
//!
//! Never here: more than one thing at a time.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::base::wait;

type Place<T> = Arc<Mutex<Option<T>>>;

/// The side that gives. Clones give to the same place.
#[derive(Debug)]
pub struct Giver<T> {
    place: Place<T>,
    bell: Sender<()>,
}

/// The side that takes.
#[derive(Debug)]
pub struct Taker<T> {
    place: Place<T>,
    bell: Receiver<()>,
}

/// A new place, empty.
#[must_use]
pub fn handover<T>() -> (Giver<T>, Taker<T>) {
    let (place, (bell, heard)) = (Arc::new(Mutex::new(None)), bounded(1));
    (Giver { place: Arc::clone(&place), bell }, Taker { place, bell: heard })
}

impl<T> Clone for Giver<T> {
    fn clone(&self) -> Giver<T> {
        Giver { place: Arc::clone(&self.place), bell: self.bell.clone() }
    }
}

impl<T> Giver<T> {
    /// Puts the thing there, for the one that was not taken yet, and never waits. Returns false when it can no more be
    /// taken.
    pub fn give(&self, thing: T) -> bool {
        let old = self.place.lock().unwrap_or_else(PoisonError::into_inner).replace(thing);
        drop(old);
        !matches!(self.bell.try_send(()), Err(crossbeam_channel::TrySendError::Disconnected(())))
    }
}

impl<T> Taker<T> {
    /// Waits so long for the thing.
    ///
    /// # Errors
    /// It has not come, or cannot come any more.
    pub fn take(&self, patience: Duration) -> Result<T, RecvTimeoutError> {
        let until = wait::later(patience);
        loop {
            self.bell.recv_deadline(until)?;
            // A thing that came between a bell and its taking was taken with it, and its own bell stays.
            if let Some(thing) = self.here() {
                return Ok(thing);
            }
        }
    }

    /// Waits for the thing; `None` when it cannot come any more.
    #[must_use]
    pub fn await_it(&self) -> Option<T> {
        loop {
            self.bell.recv().ok()?;
            if let Some(thing) = self.here() {
                return Some(thing);
            }
        }
    }

    /// Rings once for each thing, and closes when none can come any more: for a wait for several things.
    #[must_use]
    pub fn bell(&self) -> &Receiver<()> {
        &self.bell
    }

    /// The thing, after the bell.
    #[must_use]
    pub fn here(&self) -> Option<T> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_thing_is_taken_once_and_an_end_is_told() {
        let (giver, taker) = handover::<u8>();
        assert_eq!(taker.take(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert!(giver.give(1) && giver.clone().give(2));
        assert_eq!(taker.take(Duration::ZERO), Ok(2));
        assert_eq!(taker.take(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert!(giver.give(3));
        drop(giver);
        assert_eq!(taker.await_it(), Some(3), "what was given before the end is there");
        assert_eq!(taker.await_it(), None);
        let (giver, taker) = handover::<u8>();
        drop(taker);
        assert!(!giver.give(1));
    }

    #[test]
    fn a_bell_of_a_thing_that_was_taken_already_is_no_end() {
        let (giver, taker) = handover::<u8>();
        assert!(giver.give(1));
        taker.bell().recv().unwrap();
        assert!(giver.give(2));
        assert_eq!(taker.here(), Some(2));
        assert_eq!(taker.take(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    }

    #[test]
    fn it_is_waited_for_in_another_thread() {
        let (giver, taker) = handover();
        let other = std::thread::spawn(move || giver.give("it"));
        assert_eq!(taker.await_it(), Some("it"));
        assert!(other.join().unwrap());
    }
}
