//! Requests that are under way, each in a thread of its own: one that hangs keeps neither events nor other requests waiting.
//!
//! Never here: what is requested, or what an answer means.

use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::api_client::ApiError;
use crate::base::table::Set;
use crate::base::{limits, thread};

/// The requests that are under way, by what they ask for.
#[derive(Debug)]
pub struct UnderWay<K, A> {
    /// Those whose answers are wanted.
    keys: Set<K>,
    threads: usize,
    out: Sender<(K, A)>,
    answers: Receiver<(K, A)>,
}

impl<K, A> Default for UnderWay<K, A> {
    fn default() -> UnderWay<K, A> {
        let (out, answers) = unbounded();
        UnderWay { keys: Set::new(), threads: 0, out, answers }
    }
}

impl<K: Clone + Ord + Send + 'static, A: Send + 'static> UnderWay<K, A> {
    /// Whether this is under way, and its answer wanted.
    #[must_use]
    pub fn has<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.keys.contains(key)
    }

    /// Those whose answers are wanted.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.keys.iter()
    }

    /// Whether no request is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads == 0
    }

    /// Whether there is no room for another one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.threads >= limits::API_LOOK_UPS_AT_ONCE
    }

    /// Forgets those that nobody wants any more. Their requests go on until they end.
    pub fn retain(&mut self, wanted: impl Fn(&K) -> bool) {
        self.keys.retain(|key| wanted(key));
    }

    /// Begins a request.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(&mut self, key: K, ask: impl FnOnce() -> A + Send + 'static) -> Result<(), ApiError> {
        let (of, out) = (key.clone(), self.out.clone());
        // The source may have ended meanwhile.
        let body = move || _ = out.send((of, ask()));
        thread::spawn("pk-object", limits::URL_STACK, body)
            .map_err(|error| ApiError::Unreachable(format!("no thread can be started: {error}")))?;
        self.threads = self.threads.saturating_add(1);
        self.keys.insert(key);
        Ok(())
    }

    /// The next answer that is still wanted, if one comes within this time.
    pub fn next(&mut self, wait: Duration) -> Option<(K, A)> {
        let end = std::time::Instant::now() + wait;
        while !self.is_empty() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            let (key, answer) = self.answers.recv_timeout(left).ok()?;
            self.threads = self.threads.saturating_sub(1);
            if self.keys.remove(&key) {
                return Some((key, answer));
            }
        }
        None
    }
}
