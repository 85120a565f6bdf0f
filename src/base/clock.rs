//! Time: the only room that reads the wall clock. Pure rooms get a [`Now`]; tests make their own. (Code that
//! waits for a socket measures its deadline with `Instant`, which cannot jump.)
//!
//! Wall-clock time never orders or decides (invariant 3): timers use [`Mono`], wall time is only printed.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// A point on the monotonic clock: time since the process (or the simulation) began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mono(pub Duration);

impl Mono {
    /// The point `d` later; saturates.
    #[must_use]
    pub fn after(self, d: Duration) -> Mono {
        Mono(self.0.saturating_add(d))
    }
    /// The time from `earlier` to here; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// For every timer, comparison and order.
    pub mono: Mono,
    /// For printing only: it may be in 1970 and may jump.
    pub wall: Timestamp,
}

/// This boot of the machine, and the uptime at the daemon's start: a time that outlives this process and does
/// not depend on the wall clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Boot {
    /// The kernel's boot id; empty when it cannot be read.
    pub id: String,
    /// Uptime of the machine at [`Mono`] zero, suspend not counted.
    pub began: Duration,
}

impl Boot {
    /// Uptime of the machine at `at`.
    #[must_use]
    pub fn at(&self, at: Mono) -> Duration {
        self.began.saturating_add(at.0)
    }
}

/// A source of time. The real one is [`System`]; the simulation has its own.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Now;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy)]
pub struct System {
    start: Instant,
}

impl System {
    /// A clock whose monotonic zero is now.
    #[must_use]
    pub fn start() -> Self {
        System { start: Instant::now() }
    }
    /// This boot of the machine.
    #[must_use]
    pub fn boot(&self) -> Boot {
        let up = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let seconds = u64::try_from(up.tv_sec).unwrap_or(0);
        let up = Duration::new(seconds, u32::try_from(up.tv_nsec).unwrap_or(0));
        Boot { id: boot_id().unwrap_or_default(), began: up.saturating_sub(self.start.elapsed()) }
    }
    /// The `Instant` of a point on this clock, for blocking calls.
    #[must_use]
    pub fn instant(&self, at: Mono) -> Instant {
        self.start.checked_add(at.0).unwrap_or_else(|| self.start + Duration::from_secs(86_400 * 365))
    }
}

impl Clock for System {
    fn now(&self) -> Now {
        Now { mono: Mono(self.start.elapsed()), wall: wall_now() }
    }
}

/// The kernel's boot id; `None` when it cannot be read.
#[must_use]
pub fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

fn wall_now() -> Timestamp {
    let (before_epoch, distance) = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(after) => (false, after),
        Err(before) => (true, before.duration()),
    };
    let seconds = i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    let nanos = i32::try_from(distance.subsec_nanos()).unwrap_or(0);
    let (seconds, nanos) = if before_epoch { (-seconds, -nanos) } else { (seconds, nanos) };
    // A clock past year 9999 prints as the epoch: no decision depends on it.
    Timestamp::new(seconds, nanos).unwrap_or(Timestamp::UNIX_EPOCH)
}
