//! The only place that waits for descriptors with a deadline, and keeps the deadline.
//!
//! `ppoll` alone does not: its time-out is relative, and after a stop of the process (SIGSTOP, a debugger,
//! the freezer) the kernel continues with the time that was left before it, so deadlines are late by the
//! length of the stop. Longer waits add a kernel timer to the descriptors, set to an absolute time on the
//! monotonic clock, which keeps running while the process is stopped. As everywhere, suspend of the machine
//! does not count ([`crate::base::clock::Boot`]).

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, clock_gettime, timerfd_create,
    timerfd_settime,
};

use crate::base::{limits, pulse};

pub mod wall;

thread_local! {
    /// This thread's timer, made at its first longer wait.
    static TIMER: RefCell<Option<OwnedFd>> = const { RefCell::new(None) };
}

/// The time that is this much later than now, for deadlines; now, if there is no such time.
#[must_use]
pub fn later(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

/// Waits until one of these descriptors is ready or `until` is reached. Returns their flags in the same
/// order: all empty when the time is up, and also after a signal.
///
/// # Errors
/// An error of the kernel: out of memory.
pub fn until(set: Vec<PollFd<'_>>, until: Option<Instant>) -> Result<Vec<PollFlags>, Errno> {
    let left = until.map(|at| at.saturating_duration_since(Instant::now()));
    match (until, left) {
        (Some(at), Some(left)) if left > limits::WAIT_RELATIVE => TIMER.with_borrow_mut(|timer| {
            match set_timer(timer, at) {
                Some(fd) => with_timer(set, fd),
                // There is no descriptor left for a timer: waking up at intervals keeps the deadline as
                // well.
                None => relative(set, Some(limits::WAIT_RELATIVE)),
            }
        }),
        _ => relative(set, left),
    }
}

fn with_timer<'a>(mut set: Vec<PollFd<'a>>, timer: BorrowedFd<'a>) -> Result<Vec<PollFlags>, Errno> {
    set.push(PollFd::from_borrowed_fd(timer, PollFlags::IN));
    let mut there = relative(set, None)?;
    there.pop();
    Ok(there)
}

fn relative(mut set: Vec<PollFd<'_>>, time: Option<Duration>) -> Result<Vec<PollFlags>, Errno> {
    let time = time.map(to_timespec);
    match pulse::waits(|| poll(&mut set, time.as_ref())) {
        Ok(_) => Ok(set.iter().map(PollFd::revents).collect()),
        Err(Errno::INTR) => Ok(vec![PollFlags::empty(); set.len()]),
        Err(error) => Err(error),
    }
}

/// Sets the timer to this time.
fn set_timer(timer: &mut Option<OwnedFd>, at: Instant) -> Option<BorrowedFd<'_>> {
    let fd: &OwnedFd = match timer {
        Some(fd) => fd,
        None => {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            timer.insert(timerfd_create(TimerfdClockId::Monotonic, flags).ok()?)
        }
    };
    // In this order a stop of the process between the two calls makes the timer fire too early, never too
    // late.
    let now = clock_gettime(ClockId::Monotonic);
    let left = at.saturating_duration_since(Instant::now());
    let it_value = now.checked_add(to_timespec(left))?;
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &once).ok()?;
    Some((*fd).as_fd())
}

/// Rounded up, so that a wait never ends too early; a wait that is due has zero length.
fn to_timespec(wait: Duration) -> Timespec {
    if wait.is_zero() {
        return Timespec { tv_sec: 0, tv_nsec: 0 };
    }
    let wait = wait.saturating_add(Duration::from_micros(500)).min(Duration::from_secs(86_400));
    Timespec { tv_sec: i64::try_from(wait.as_secs()).unwrap_or(86_400), tv_nsec: wait.subsec_nanos().into() }
}

#[cfg(test)]
mod tests;
