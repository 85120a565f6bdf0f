//! The bounds of a client's calls, and their rate limit: a bucket of tokens, like client-go's (`util/flowcontrol`). Pure.

use std::time::{Duration, Instant};

use crate::base::limits;

/// The bounds of all calls of one client together, without heartbeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Calls per second in the long run, at least one.
    pub qps: u32,
    /// Calls on top of that at once.
    pub burst: u32,
    /// Calls at a time, and idle connections that are kept.
    pub calls: usize,
}

impl Default for Budget {
    /// That of one node.
    fn default() -> Budget {
        Budget { qps: limits::API_QPS, burst: limits::API_BURST, calls: limits::API_CALLS }
    }
}

/// See the head of this file.
#[derive(Debug)]
pub struct Bucket {
    /// When the bucket will be full, if no more tokens are taken.
    full_at: Instant,
    /// From token to token.
    each: Duration,
    burst: u32,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn full(budget: Budget, now: Instant) -> Bucket {
        Bucket { full_at: now, each: Duration::from_secs(1) / budget.qps.max(1), burst: budget.burst }
    }

    /// Takes a token, in advance if there is none. Returns how long to wait before the call.
    pub fn take(&mut self, now: Instant) -> Duration {
        self.full_at = self.full_at.max(now) + self.each;
        let burst = self.each.saturating_mul(self.burst);
        self.full_at.saturating_duration_since(now).saturating_sub(burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_a_second() {
        let begun = Instant::now();
        let mut bucket = Bucket::full(Budget::default(), begun);
        assert!((0..limits::API_BURST).all(|_| bucket.take(begun).is_zero()));
        assert_eq!(bucket.take(begun), Duration::from_millis(20));
        assert_eq!(bucket.take(begun), Duration::from_millis(40));
        // The tokens that were taken in advance have arrived by then.
        assert_eq!(bucket.take(begun + Duration::from_millis(60)), Duration::ZERO);
        let later = begun + Duration::from_secs(60);
        assert!((0..limits::API_BURST).all(|_| bucket.take(later).is_zero()));
        assert!(!bucket.take(later).is_zero());
    }
}
