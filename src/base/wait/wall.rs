//! A wait until a time of the wall clock, for times that come from outside, such as a certificate's end. It also ends
//! when the clock is set, as by NTP after a boot without a battery.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::base::clock::Timestamp;
use crate::base::limits;

/// Waits until one of these descriptors is ready, `mono` or `wall` is reached, or the wall clock was set. Returns the
/// descriptors' flags in the same order.
///
/// # Errors
/// An error of the kernel: out of memory.
pub fn until(
    set: Vec<PollFd<'_>>,
    mono: Option<Instant>,
    wall: Option<Timestamp>,
) -> Result<Vec<PollFlags>, Errno> {
    let Some(wall) = wall else { return super::until(set, mono) };
    let Some(timer) = timer(wall) else {
        // Checking at intervals works as well.
        let look = Instant::now() + limits::WALL_LOOK;
        return super::until(set, Some(mono.map_or(look, |mono| mono.min(look))));
    };
    let mut set = set;
    set.push(PollFd::from_borrowed_fd(timer.as_fd(), PollFlags::IN));
    let mut there = super::until(set, mono)?;
    there.pop();
    Ok(there)
}

/// Fires at this time, or when the clock was set.
fn timer(wall: Timestamp) -> Option<OwnedFd> {
    let timer =
        timerfd_create(TimerfdClockId::Realtime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK).ok()?;
    // A time of zero would turn the timer off.
    let it_value = Timespec { tv_sec: wall.as_second().max(1), tv_nsec: 0 };
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    let flags = TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET;
    timerfd_settime(&timer, flags, &once).ok()?;
    Some(timer)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::base::clock::{Clock as _, System};

    #[test]
    fn whatever_comes_first_ends_the_wait() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reading = || vec![PollFd::new(&ours, PollFlags::IN)];
        let wall = System::start().now().wall;
        let soon = |seconds: i64| Timestamp::from_second(wall.as_second() + seconds).ok();
        assert_eq!(until(reading(), None, soon(1)), Ok(vec![PollFlags::empty()]));
        assert_eq!(until(reading(), None, Some(Timestamp::UNIX_EPOCH)), Ok(vec![PollFlags::empty()]));
        assert_eq!(until(reading(), Some(Instant::now()), soon(1000)), Ok(vec![PollFlags::empty()]));
        drop(theirs);
        assert!(until(reading(), None, soon(1000)).is_ok_and(|there| !there[0].is_empty()));
    }
}
