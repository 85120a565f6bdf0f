//! The rate limit of calls: a bucket of tokens, like client-go's (`util/flowcontrol`). Pure.

use std::time::{Duration, Instant};

use crate::base::limits;

/// See the head of this file.
#[derive(Debug)]
pub struct Bucket {
    /// When the bucket will be full, if no more tokens are taken.
    full_at: Instant,
}

impl Bucket {
    /// A full bucket.
    #[must_use]
    pub fn full(now: Instant) -> Bucket {
        Bucket { full_at: now }
    }

    /// Takes a token, in advance if there is none. Returns how long to wait before the call.
    pub fn take(&mut self, now: Instant) -> Duration {
        let each = Duration::from_secs(1) / limits::API_QPS;
        self.full_at = self.full_at.max(now) + each;
        self.full_at.saturating_duration_since(now).saturating_sub(each.saturating_mul(limits::API_BURST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_so_many_a_second() {
        let begun = Instant::now();
        let mut bucket = Bucket::full(begun);
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
