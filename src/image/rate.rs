//! A token bucket that limits how many pulls may start. Pure.
//!
//! As with the kubelet, a pull over the limit fails immediately instead of waiting, and is tried again after
//! its back-off. A check for a newer version of a local image waits for a token.

use std::time::Duration;

use crate::base::clock::Mono;

/// Tokens are added at a rate, up to a burst.
#[derive(Debug)]
pub struct Bucket {
    /// Per second; 0 for no limit.
    rate: u32,
    burst: u32,
    /// In thousandths of a token.
    left: u64,
    at: Mono,
}

const TOKEN: u64 = 1000;

impl Bucket {
    /// A full bucket. `rate` per second, 0 for no limit.
    #[must_use]
    pub fn new(rate: u32, burst: u32) -> Bucket {
        Bucket { rate, burst, left: u64::from(burst).saturating_mul(TOKEN), at: Mono::default() }
    }

    /// Takes a token, if there is one.
    pub fn take(&mut self, now: Mono) -> bool {
        if self.rate == 0 {
            return true;
        }
        let passed = now.since(self.at);
        let came = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).saturating_mul(u64::from(self.rate));
        // The remainder below a millisecond counts next time.
        self.at = self.at.after(Duration::from_millis(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)));
        let full = u64::from(self.burst).saturating_mul(TOKEN);
        self.left = self.left.saturating_add(came).min(full);
        match self.left.checked_sub(TOKEN) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Time from the last [`Bucket::take`] to the next token; `None` if there will be none.
    #[must_use]
    pub fn next(&self) -> Option<Duration> {
        let missing = TOKEN.saturating_sub(self.left);
        let millis = missing.div_ceil(u64::from(self.rate).max(1));
        (self.burst > 0).then(|| Duration::from_millis(millis))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Mono {
        Mono(Duration::from_millis(millis))
    }

    #[test]
    fn five_a_second_and_ten_at_once() {
        let mut bucket = Bucket::new(5, 10);
        let begun = (0..20).filter(|_| bucket.take(at(1000))).count();
        assert_eq!(begun, 10);
        assert!(!bucket.take(at(1199)));
        assert!(bucket.take(at(1200)));
        assert!(!bucket.take(at(1200)));
        let later = (0..20).filter(|_| bucket.take(at(60_000))).count();
        assert_eq!(later, 10, "never more than the burst");
    }

    #[test]
    fn it_tells_when_the_next_one_comes() {
        let mut bucket = Bucket::new(3, 1);
        assert!(bucket.take(at(0)) && !bucket.take(at(100)));
        let next = bucket.next().unwrap();
        assert_eq!(next, Duration::from_millis(234), "rounded up");
        assert!(!bucket.take(at(333)) && bucket.take(at(100).after(next)));
        assert_eq!(Bucket::new(3, 0).next(), None);
    }

    #[test]
    fn none_means_no_limit() {
        let mut bucket = Bucket::new(0, 0);
        assert!((0..1000).all(|_| bucket.take(at(0))));
    }

    #[test]
    fn many_short_looks_lose_no_time() {
        let mut bucket = Bucket::new(1, 1);
        assert!(bucket.take(at(0)));
        let micros = |n: u64| Mono(Duration::from_micros(n));
        let taken = (1..=40_000).filter(|n| bucket.take(micros(n * 50))).count();
        assert_eq!(taken, 2, "two seconds, two tokens");
    }
}
