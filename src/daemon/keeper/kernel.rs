//! Kernel notifications that memory runs short. They come before the next look, which may be a minute away.
//!
//! Uses threshold events of the memory controller of version 1 (`Documentation/admin-guide/cgroup-v1/memory.rst`), for
//! the cgroups whose memory is watched; and, where the kernel has them, stall times of the whole machine
//! (`Documentation/accounting/psi.rst`). Both are optional: without them the next look comes at its usual time.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::base::limits;

/// The notifications that podkeeper has requested.
#[derive(Debug, Default)]
pub(super) struct Kernel {
    stalls: Option<File>,
    thresholds: Vec<Threshold>,
}

#[derive(Debug)]
struct Threshold {
    at: PathBuf,
    usage: u64,
    told: OwnedFd,
}

impl Kernel {
    /// Requests notifications about stalls of memory. `proc` is `/proc`.
    pub(super) fn open(proc: &Path) -> Kernel {
        let ask = || -> io::Result<File> {
            let mut file = OpenOptions::new().read(true).write(true).open(proc.join("pressure/memory"))?;
            // The kernel requires the final NUL.
            file.write_all(limits::MEMORY_STALLS.as_bytes())?;
            Ok(file)
        };
        let stalls =
            ask().inspect_err(|error| log::debug!("the kernel tells no stalls of memory: {error}")).ok();
        Kernel { stalls, thresholds: Vec::new() }
    }

    /// Requests a notification when the cgroup at each directory of the memory controller (version 1) uses so many
    /// bytes. An earlier request stays if its usage differs by at most a hundredth; otherwise it is replaced.
    pub(super) fn watch(&mut self, wanted: &[(PathBuf, u64)]) {
        let is_near = |a: u64, b: u64| a.abs_diff(b) <= b / 100;
        self.thresholds
            .retain(|old| wanted.iter().any(|(at, usage)| *at == old.at && is_near(old.usage, *usage)));
        for (at, usage) in wanted {
            if self.thresholds.iter().any(|old| old.at == *at) {
                continue;
            }
            match Threshold::ask(at, *usage) {
                Ok(threshold) => self.thresholds.push(threshold),
                Err(error) => log::debug!("the kernel tells no threshold of {}: {error}", at.display()),
            }
        }
    }

    /// The descriptors to poll.
    pub(super) fn set(&self) -> impl Iterator<Item = PollFd<'_>> {
        let stalls = self.stalls.iter().map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::PRI));
        stalls
            .chain(self.thresholds.iter().map(|it| PollFd::from_borrowed_fd(it.told.as_fd(), PollFlags::IN)))
    }

    /// Reads the descriptors that were ready, in the order of [`Kernel::set`]; returns whether the kernel has
    /// notified.
    pub(super) fn heard(&mut self, ready: &[PollFlags]) -> bool {
        let (stalls, thresholds) =
            ready.split_at_checked(usize::from(self.stalls.is_some())).unwrap_or_default();
        let mut told = false;
        for flags in stalls {
            told |= flags.contains(PollFlags::PRI);
            if flags.intersects(PollFlags::ERR | PollFlags::NVAL | PollFlags::HUP) {
                // A broken descriptor would always be ready.
                self.stalls = None;
            }
        }
        let mut at = 0;
        self.thresholds.retain(|threshold| {
            let flags = thresholds.get(at).copied().unwrap_or(PollFlags::empty());
            at += 1;
            if flags.is_empty() {
                return true;
            }
            told = true;
            // The kernel notifies of a removed cgroup, too, again and again.
            rustix::io::read(&threshold.told, &mut [0_u8; 8]).is_ok() && threshold.at.exists()
        });
        told
    }
}

impl Threshold {
    fn ask(at: &Path, usage: u64) -> io::Result<Threshold> {
        let told = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let figure = File::open(at.join("memory.usage_in_bytes"))?;
        let order = format!("{} {} {usage}", told.as_raw_fd(), figure.as_raw_fd());
        OpenOptions::new().write(true).open(at.join("cgroup.event_control"))?.write_all(order.as_bytes())?;
        Ok(Threshold { at: at.to_owned(), usage, told })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::base::wait;

    /// The kernel's files are plain files here, and the test plays the kernel: it writes to the registered descriptor.
    #[test]
    fn the_kernel_tells_when_a_cgroup_uses_so_much() {
        let at = crate::base::testing::scratch("keeper-kernel");
        std::fs::write(at.join("memory.usage_in_bytes"), "1\n").unwrap();
        std::fs::write(at.join("cgroup.event_control"), "").unwrap();
        let mut kernel = Kernel::default();
        kernel.watch(&[(at.clone(), 8 << 20)]);
        let asked = std::fs::read_to_string(at.join("cgroup.event_control")).unwrap();
        let told = kernel.thresholds.first().unwrap().told.as_raw_fd();
        let order: Vec<u64> = asked.split(' ').map(|word| word.parse().unwrap()).collect();
        assert_eq!((order.len(), order[0], order[2]), (3, u64::try_from(told).unwrap(), 8 << 20), "{asked}");
        // A repeated request stays as it is.
        kernel.watch(&[(at.clone(), (8 << 20) + 1)]);
        assert_eq!(kernel.thresholds.first().map(|it| it.usage), Some(8 << 20));
        let soon = || Some(Instant::now() + Duration::from_millis(50));
        let ready = wait::until(kernel.set().collect(), soon()).unwrap();
        assert!(!kernel.heard(&ready), "it has said nothing yet");
        let tell = |kernel: &Kernel| {
            let told = &kernel.thresholds.first().unwrap().told;
            rustix::io::write(told, &1_u64.to_ne_bytes()).unwrap();
        };
        for _ in 0..2 {
            tell(&kernel);
            let ready = wait::until(kernel.set().collect(), soon()).unwrap();
            assert!(kernel.heard(&ready));
            let ready = wait::until(kernel.set().collect(), soon()).unwrap();
            assert!(!kernel.heard(&ready), "it is told once");
        }
        // The kernel notifies of a removed cgroup, too.
        std::fs::remove_dir_all(&at).unwrap();
        tell(&kernel);
        let ready = wait::until(kernel.set().collect(), soon()).unwrap();
        assert!(kernel.heard(&ready) && kernel.thresholds.is_empty());
    }

    #[test]
    fn what_is_no_longer_short_is_not_listened_to() {
        let at = crate::base::testing::scratch("keeper-kernel-far");
        ["memory.usage_in_bytes", "cgroup.event_control"]
            .iter()
            .for_each(|f| std::fs::write(at.join(f), "").unwrap());
        let mut kernel = Kernel::default();
        kernel.watch(&[(at.clone(), 8 << 20)]);
        assert_eq!(kernel.set().count(), 1);
        kernel.watch(&[]);
        assert!(kernel.thresholds.is_empty());
        std::fs::remove_dir_all(&at).unwrap();
    }

    #[test]
    fn a_kernel_without_either_is_not_waited_for() {
        let mut kernel = Kernel::open(Path::new("/nonexistent"));
        kernel.watch(&[(PathBuf::from("/nonexistent"), 1)]);
        assert_eq!(kernel.set().count(), 0);
        assert!(!kernel.heard(&[]));
    }

    #[test]
    fn a_descriptor_that_broke_is_given_up() {
        let mut kernel = Kernel { stalls: File::open("/dev/null").ok(), thresholds: Vec::new() };
        assert!(!kernel.heard(&[PollFlags::ERR]));
        assert_eq!(kernel.set().count(), 0);
    }
}
