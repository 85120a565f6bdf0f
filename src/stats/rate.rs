//! Rates out of two readings of one counter. Pure.

use std::time::Duration;

/// CPU usage in `window`, billionths of a core, from two readings in nanoseconds. `None` when the counter went back
/// because the cgroup was created again, or when no time has passed.
#[must_use]
pub fn nano_cores(before: u64, after: u64, window: Duration) -> Option<u64> {
    let used = u128::from(after.checked_sub(before)?);
    let window = window.as_nanos();
    if window == 0 {
        return None;
    }
    u64::try_from(used.saturating_mul(1_000_000_000) / window).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores() {
        let check = |before, after, window, expected| {
            assert_eq!(nano_cores(before, after, Duration::from_millis(window)), expected);
        };
        check(0, 0, 1000, Some(0));
        check(5, 1_000_000_005, 1000, Some(1_000_000_000));
        check(0, 1, 1000, Some(1));
        check(0, 250_000_000, 500, Some(500_000_000));
        check(9, 8, 1000, None);
        check(0, 8, 0, None);
        check(0, u64::MAX, 1, None);
    }
}
