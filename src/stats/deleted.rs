//! Removed files that processes still have open, map into memory, run, or use as a directory: they take space on a
//! disk, and no walk finds them.
//!
//! A container controls these processes: no file of its own is opened, so that its file systems cannot make podkeeper
//! hang, and the numbers of descriptors and mappings are bounded. Each thread may have its own descriptors, and may
//! live on when the first thread of its process has ended. If a process hides files in messages that were not received
//! (`unix(7)`, `SCM_RIGHTS`) or in a ring of `io_uring(7)`, there is more than is counted.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::cgroup::Hierarchies;
use super::disk_use::{DiskUse, Round};
use super::{text, text_up_to};
use crate::base::limits;
use crate::base::order::Numbers;

/// File system types of containers' roots; removed files on them were in a writable layer.
const LAYERS: [&str; 4] = ["overlay", "aufs", "btrfs", "zfs"];

/// Which files count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Count files in containers' writable layers.
    pub layers: bool,
    /// Count files on file systems with these device numbers.
    pub devices: Vec<u64>,
}

/// Usage of removed files that processes of these cgroups, and of cgroups below, hold; each file once. `proc` is
/// `/proc`. If there are more than [`limits::DELETED_FILES`] files, too many descriptors, processes or cgroups, or
/// hidden files, or if the round's time is over, the result is the part that was found, and the round is marked as cut.
/// Each descriptor is a step of the round.
#[must_use]
pub fn held(
    proc: &Path,
    hierarchies: &Hierarchies,
    cgroups: &[PathBuf],
    counted: &Counted,
    round: &mut Round,
) -> DiskUse {
    let mut look = Look::new(proc, counted, round);
    let tops: Vec<PathBuf> = cgroups.iter().map(|cgroup| hierarchies.tree().join(cgroup)).collect();
    if look.cgroups(&tops).is_none() || look.is_hidden {
        look.round.cut();
    }
    look.sum
}

/// Processes of a cgroup and of those below it; `false` when there are too many of these.
fn pids(top: &Path, round: &mut Round) -> (Numbers, bool) {
    let (mut open, mut found) = (vec![top.to_owned()], Numbers::default());
    for _ in 0..limits::DELETED_CGROUPS {
        let Some(at) = open.pop() else { return (found, true) };
        if !round.goes_on() {
            return (found, false);
        }
        // A cgroup that has gone meanwhile has no processes.
        let text = text_up_to(&at.join("cgroup.procs"), limits::DELETED_PROCESSES).unwrap_or_default();
        let numbers = text.lines().filter_map(|line| line.parse::<u32>().ok()).map(u64::from);
        numbers.for_each(|number| _ = found.insert(number));
        // The last number may be incomplete when the text is cut.
        if u64::try_from(text.len()).is_ok_and(|len| len >= limits::DELETED_PROCESSES) {
            return (found, false);
        }
        let below = fs::read_dir(&at).into_iter().flatten().flatten();
        open.extend(below.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
    }
    let is_whole = open.is_empty();
    (found, is_whole)
}

/// The kernel adds this to the path of a file that has no name any more.
fn is_deleted(target: &[u8]) -> bool {
    target.ends_with(b" (deleted)")
}

/// Whether a ring may hold removed files (`io_uring/fdinfo.c`).
fn hides(info: &Path) -> bool {
    // A busy ring reports no files at that moment.
    let ask = || text_up_to(info, limits::DELETED_RING).and_then(|text| holds_removed(&text));
    let told = (0..limits::DELETED_RING_ASKED).find_map(|_| ask());
    // A ring that was closed meanwhile holds no files.
    told.unwrap_or_else(|| info.exists())
}

/// The same by the ring's own report; `None` when the report is incomplete. Some kernels report only the last name of
/// each file.
fn holds_removed(text: &str) -> Option<bool> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("UserFiles:"));
    let count: usize = lines.next()?.split_whitespace().nth(1)?.parse().ok()?;
    let files: Vec<&str> = lines.take(count).filter_map(|line| Some(line.split_once(": ")?.1)).collect();
    if files.len() < count {
        return None;
    }
    // The table has empty places.
    let mut files = files.into_iter().filter(|file| !matches!(*file, "" | "<none>"));
    let whole = ["/", "socket:[", "pipe:[", "anon_inode:"];
    let is_shown =
        |file: &str| whole.iter().any(|begin| file.starts_with(begin)) && !file.ends_with("(deleted)");
    Some(!files.all(is_shown))
}

struct Look<'a> {
    proc: &'a Path,
    counted: &'a Counted,
    /// Number of descriptors and mappings that may still be looked at.
    descriptors: usize,
    /// The same for descriptors of threads other than the first.
    of_threads: usize,
    /// Number of removed files that may still be looked at.
    left: usize,
    /// Device and inode of the files that were counted.
    seen: BTreeSet<(u64, u64)>,
    /// Sockets that were looked at.
    sockets: Numbers,
    /// A process has hidden files.
    is_hidden: bool,
    sum: DiskUse,
    round: &'a mut Round,
}

/// A table of descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The table of the first thread of a process.
    Leader,
    /// The table of another thread, which is usually the same one.
    Thread,
}

impl<'a> Look<'a> {
    fn new(proc: &'a Path, counted: &'a Counted, round: &'a mut Round) -> Look<'a> {
        Look {
            proc,
            counted,
            descriptors: limits::DELETED_DESCRIPTORS,
            of_threads: limits::DELETED_OF_THREADS,
            left: limits::DELETED_FILES,
            seen: BTreeSet::new(),
            sockets: Numbers::default(),
            is_hidden: false,
            sum: DiskUse::default(),
            round,
        }
    }

    /// Looks at all processes; `None` if there are too many.
    fn cgroups(&mut self, tops: &[PathBuf]) -> Option<()> {
        let (mut is_whole, mut all) = (true, Numbers::default());
        for top in tops {
            let (pids, are_all) = pids(top, self.round);
            is_whole &= are_all;
            pids.iter().for_each(|pid| _ = all.insert(pid));
        }
        let mut without_memory = Numbers::default();
        for pid in all.iter() {
            let leader = self.proc.join(pid.to_string());
            self.table(&leader, Whose::Leader)?;
            if !self.memory(&leader)? {
                without_memory.insert(pid);
            }
        }
        // The tables of first threads hold almost all descriptors, so they come first.
        for pid in all.iter() {
            self.threads(pid, without_memory.contains(pid))?;
        }
        is_whole.then_some(())
    }

    /// Looks at the other threads of a process. They share its memory, so the memory is read through them if the first
    /// thread has ended.
    fn threads(&mut self, pid: u64, mut wants_memory: bool) -> Option<()> {
        let tasks = self.proc.join(pid.to_string()).join("task");
        for entry in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(thread) = name.to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
            if thread == pid {
                continue;
            }
            // `task` has no `map_files`; but each thread has a directory beside those of processes, which no list
            // shows.
            let at = self.proc.join(thread.to_string());
            self.table(&at, Whose::Thread)?;
            if wants_memory {
                wants_memory = !self.memory(&at)?;
            }
        }
        Some(())
    }

    /// Looks at the open files of a thread, and at its working and root directories.
    fn table(&mut self, thread: &Path, whose: Whose) -> Option<()> {
        let mut mounts = None;
        for name in ["cwd", "root"] {
            self.standing(&thread.join(name), thread, &mut mounts)?;
        }
        for entry in fs::read_dir(thread.join("fd")).into_iter().flatten().flatten() {
            let left = match whose {
                Whose::Leader => &mut self.descriptors,
                Whose::Thread => &mut self.of_threads,
            };
            *left = left.checked_sub(1).filter(|_| self.round.goes_on())?;
            let link = entry.path();
            let Ok(target) = fs::read_link(&link) else { continue };
            let target = target.as_os_str().as_encoded_bytes();
            let info = || thread.join("fdinfo").join(entry.file_name());
            if let Some(socket) = target.strip_prefix(b"socket:[") {
                self.socket(socket, info);
            } else if target == b"anon_inode:[io_uring]" {
                self.is_hidden |= self.is_hidden || hides(&info());
            }
            if !is_deleted(target) {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let info = text(&info()).unwrap_or_default();
            let Some(mount) = super::field(&info, "mnt_id") else { continue };
            let mounts = mounts.get_or_insert_with(|| Mounts::of(thread, self.counted));
            // Files in memory are on a mount of the kernel's own, or on a tmpfs.
            if mounts.numbers.contains(mount) {
                self.file(&link, |_| true);
            }
        }
        Some(())
    }

    /// Looks at a link of `/proc` that holds a file without a descriptor.
    fn standing(&mut self, link: &Path, thread: &Path, mounts: &mut Option<Mounts>) -> Option<()> {
        self.round.goes_on().then_some(())?;
        if fs::read_link(link).is_ok_and(|target| is_deleted(target.as_os_str().as_encoded_bytes())) {
            let mounts = mounts.get_or_insert_with(|| Mounts::of(thread, self.counted));
            let counts = |device| mounts.devices.contains(device) || self.counted.devices.contains(&device);
            self.file(link, counts);
        }
        Some(())
    }

    /// Checks a socket for descriptors that were sent to it and not received (`net/unix/af_unix.c`, `unix_show_fdinfo`;
    /// since Linux 5.6).
    fn socket(&mut self, number: &[u8], info: impl Fn() -> PathBuf) {
        let number =
            std::str::from_utf8(number).ok().and_then(|text| text.trim_end_matches(']').parse().ok());
        let is_new = number.is_none_or(|number| !self.sockets.contains(number));
        if !is_new || self.is_hidden {
            return;
        }
        if let Some(number) = number.filter(|_| self.sockets.len() < limits::DELETED_SOCKETS) {
            self.sockets.insert(number);
        }
        let on_their_way = text(&info()).and_then(|info| super::field(&info, "scm_fds"));
        self.is_hidden = on_their_way.is_some_and(|count| count > 0);
    }

    /// Looks at the mapped files of a process, which it may have closed since, and at its program; returns whether the
    /// process has memory.
    fn memory(&mut self, process: &Path) -> Option<bool> {
        let mut mounts = None;
        self.standing(&process.join("exe"), process, &mut mounts)?;
        let text = text_up_to(&process.join("maps"), limits::DELETED_MAPS).unwrap_or_default();
        for line in text.lines() {
            self.descriptors = self.descriptors.checked_sub(1).filter(|_| self.round.goes_on())?;
            // `7f1c00000000-7f1c00001000 rw-s 00000000 08:01 131 /data/file (deleted)`
            let Some((range, _)) = line.split_once(' ').filter(|_| is_deleted(line.as_bytes())) else {
                continue;
            };
            self.left = self.left.checked_sub(1)?;
            let mounts = mounts.get_or_insert_with(|| Mounts::of(process, self.counted));
            // For a file of a layer the kernel may report the device below it.
            let counts = |device| mounts.devices.contains(device) || self.counted.devices.contains(&device);
            self.file(&process.join("map_files").join(range), counts);
        }
        let is_cut = u64::try_from(text.len()).is_ok_and(|len| len >= limits::DELETED_MAPS);
        (!is_cut).then_some(!text.is_empty())
    }

    /// Counts a removed file, if its device counts.
    fn file(&mut self, link: &Path, counts: impl Fn(u64) -> bool) {
        let wanted = StatxFlags::BASIC_STATS;
        // `STATX_DONT_SYNC` uses what the kernel knows: the container could be the server of the file system.
        let Ok(found) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, wanted) else { return };
        let device = rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor);
        let id = (device, found.stx_ino);
        if counts(device) && found.stx_nlink == 0 && self.seen.insert(id) {
            let bytes = found.stx_blocks.saturating_mul(512);
            self.sum = self.sum.and(DiskUse { bytes, inodes: 1 });
        }
    }
}

/// The mounts of a process.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mounts {
    /// The ids of the mounts that count.
    numbers: Numbers,
    /// Devices of the mounts that count.
    devices: Numbers,
}

impl Mounts {
    fn of(process: &Path, counted: &Counted) -> Mounts {
        // `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
        let table = text(&process.join("mountinfo")).unwrap_or_default();
        let line = |line: &str| {
            let mut fields = line.split(' ');
            let mount = fields.next()?.parse().ok()?;
            let (major, minor) = fields.nth(1)?.split_once(':')?;
            let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
            let kind = fields.skip_while(|field| *field != "-").nth(1)?;
            let counts = counted.layers && LAYERS.contains(&kind) || counted.devices.contains(&device);
            Some((mount, device, counts))
        };
        let mut mounts = Mounts::default();
        for (number, device, counts) in table.lines().filter_map(line) {
            if counts {
                mounts.numbers.insert(number);
                mounts.devices.insert(device);
            }
        }
        mounts
    }
}

#[cfg(test)]
mod tests;
