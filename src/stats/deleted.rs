//! Files that were removed and that processes still have open: they take room on a disk, and no walk finds them.
//!
//! A container owns what is looked at here: nothing is opened, so that nothing can hang in a file system of its own, and
//! so many descriptors are looked at. What a process has only mapped into its memory is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::cgroup::Hierarchies;
use super::disk_use::{DiskUse, Round};
use super::{text, text_up_to};
use crate::base::limits;

/// File systems of containers' roots; what is removed there was in a writable layer.
const LAYERS: [&str; 4] = ["overlay", "aufs", "btrfs", "zfs"];

/// Which files count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    /// Those in containers' writable layers.
    pub layers: bool,
    /// Those on file systems with these device numbers.
    pub devices: Vec<u64>,
}

/// What processes of these cgroups, and of those below, hold so, each file once. `proc` is `/proc`. Where they have more
/// than [`limits::DELETED_FILES`] of them, or more descriptors, processes or cgroups than are looked at, or the time of the
/// round is over, it is what was found, and the round is told that there is more. Each descriptor is a step of the round.
#[must_use]
pub fn held(
    proc: &Path,
    hierarchies: &Hierarchies,
    cgroups: &[PathBuf],
    counted: &Counted,
    round: &mut Round,
) -> DiskUse {
    let mut look = Look {
        descriptors: limits::DELETED_DESCRIPTORS,
        left: limits::DELETED_FILES,
        seen: BTreeSet::new(),
        sum: DiskUse::default(),
        round,
    };
    let tops: Vec<PathBuf> = cgroups.iter().map(|cgroup| hierarchies.tree().join(cgroup)).collect();
    if look.cgroups(&tops, proc, counted).is_none() {
        look.round.cut();
    }
    look.sum
}

/// Processes of a cgroup and of those below it; `false` when these are more than are looked at.
fn pids(top: &Path, round: &mut Round) -> (BTreeSet<u32>, bool) {
    let (mut open, mut found) = (vec![top.to_owned()], BTreeSet::new());
    for _ in 0..limits::DELETED_CGROUPS {
        let Some(at) = open.pop() else { return (found, true) };
        if !round.goes_on() {
            return (found, false);
        }
        // A cgroup that has gone meanwhile has no processes.
        let text = text_up_to(&at.join("cgroup.procs"), limits::DELETED_PROCESSES).unwrap_or_default();
        found.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        // What is cut may end within a number.
        if u64::try_from(text.len()).is_ok_and(|len| len >= limits::DELETED_PROCESSES) {
            return (found, false);
        }
        let below = fs::read_dir(&at).into_iter().flatten().flatten();
        open.extend(below.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path()));
    }
    let is_whole = open.is_empty();
    (found, is_whole)
}

struct Look<'a> {
    /// Descriptors that may still be looked at.
    descriptors: usize,
    /// Those of removed files among them.
    left: usize,
    /// Device and inode.
    seen: BTreeSet<(u32, u32, u64)>,
    sum: DiskUse,
    round: &'a mut Round,
}

impl Look<'_> {
    /// `None`: there is more than is looked at.
    fn cgroups(&mut self, tops: &[PathBuf], proc: &Path, counted: &Counted) -> Option<()> {
        let mut is_whole = true;
        for top in tops {
            let (pids, are_all) = pids(top, self.round);
            is_whole &= are_all;
            for pid in pids {
                self.process(&proc.join(pid.to_string()), counted)?;
            }
        }
        is_whole.then_some(())
    }

    fn process(&mut self, process: &Path, counted: &Counted) -> Option<()> {
        let mut mounts = None;
        for entry in fs::read_dir(process.join("fd")).into_iter().flatten().flatten() {
            self.descriptors = self.descriptors.checked_sub(1).filter(|_| self.round.goes_on())?;
            let link = entry.path();
            // The kernel writes so behind the name of what has none any more.
            let is_deleted = fs::read_link(&link)
                .is_ok_and(|target| target.as_os_str().as_encoded_bytes().ends_with(b" (deleted)"));
            if !is_deleted {
                continue;
            }
            self.left = self.left.checked_sub(1)?;
            let info = text(&process.join("fdinfo").join(entry.file_name())).unwrap_or_default();
            let Some(mount) = super::field(&info, "mnt_id") else { continue };
            let mounts = mounts.get_or_insert_with(|| on_disk(process, counted));
            // What is in memory is on a mount of the kernel's own, or on a tmpfs.
            if mounts.get(&mount).copied().unwrap_or_default() {
                self.file(&link);
            }
        }
        Some(())
    }

    fn file(&mut self, link: &Path) {
        let wanted = StatxFlags::BASIC_STATS;
        // What the file system knows without asking anybody: the container may be who would be asked.
        let Ok(found) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, wanted) else { return };
        let id = (found.stx_dev_major, found.stx_dev_minor, found.stx_ino);
        if found.stx_nlink == 0 && self.seen.insert(id) {
            let bytes = found.stx_blocks.saturating_mul(512);
            self.sum = self.sum.and(DiskUse { bytes, inodes: 1 });
        }
    }
}

/// By number of a process's mounts: whether what is there counts.
fn on_disk(process: &Path, counted: &Counted) -> BTreeMap<u64, bool> {
    // `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`
    let table = text(&process.join("mountinfo")).unwrap_or_default();
    let line = |line: &str| {
        let mut fields = line.split(' ');
        let mount = fields.next()?.parse().ok()?;
        let (major, minor) = fields.nth(1)?.split_once(':')?;
        let device = rustix::fs::makedev(major.parse().ok()?, minor.parse().ok()?);
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        let counts = counted.layers && LAYERS.contains(&kind) || counted.devices.contains(&device);
        Some((mount, counts))
    };
    table.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::stats::disk_use::{Progress, Reach};
    use crate::stats::testing::Tree;

    /// This process, in a cgroup of its own as far as the look is told.
    #[test]
    fn what_a_process_holds_is_found() {
        let tree = Tree::new("stats-deleted");
        tree.write("cgroup/cgroup.controllers", "memory\n");
        tree.write("cgroup/pod/cgroup.procs", "");
        tree.write("cgroup/pod/app/below/cgroup.procs", &format!("4194305\n{}\n", std::process::id()));
        tree.write("file", "");
        let path = tree.root().join("file");
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        file.write_all(&vec![1; 1 << 20]).unwrap();
        let again = file.try_clone().unwrap();
        let device = file.metadata().unwrap().dev();
        fs::remove_file(&path).unwrap();
        let hierarchies = Hierarchies::open(tree.root().join("cgroup"));
        let counted = Counted { layers: true, devices: vec![device] };
        let proc = Path::new("/proc");
        let held = |round: &mut Round| held(proc, &hierarchies, &[PathBuf::from("pod")], &counted, round);
        let progress = Arc::<Progress>::default();
        let mut round = Round::until(Instant::now() + Duration::from_secs(60), Arc::clone(&progress));
        let found = held(&mut round);
        assert_eq!(round.reach(), Reach::Whole);
        let descriptors = fs::read_dir("/proc/self/fd").unwrap().count() as u64;
        assert!(progress.steps() >= descriptors.min(4), "who watches sees it come further");
        // Other tests of this process may hold files, too.
        assert!(found.bytes >= 1 << 20 && found.inodes >= 1, "{found:?}");
        let with = |left, descriptors, process: &Path| {
            let (seen, sum, mut round) = (BTreeSet::new(), DiskUse::default(), Round::default());
            Look { left, descriptors, seen, sum, round: &mut round }.process(process, &counted)
        };
        let mut own = Round::default();
        let (seen, sum) = (BTreeSet::new(), DiskUse::default());
        let mut alone = Look { descriptors: 1000, left: 2, seen, sum, round: &mut own };
        for file in [&file, &again] {
            alone.file(&Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()));
        }
        assert_eq!(alone.sum.inodes, 1, "each file counts once");
        assert!(alone.sum.bytes >= 1 << 20, "{:?}", alone.sum);
        let process = Path::new("/proc/self");
        assert_eq!(with(1, 1000, process), None, "there are more removed files");
        assert_eq!(with(1000, 2, process), None, "there are more descriptors");
        let mut late = Round::until(Instant::now(), Arc::default());
        assert_eq!(
            (held(&mut late), late.reach()),
            (DiskUse::default(), Reach::Exceeded),
            "its time is over"
        );
        let cut = vec![b'1'; usize::try_from(limits::DELETED_PROCESSES).unwrap()];
        fs::write(tree.root().join("cgroup/pod/cgroup.procs"), cut).unwrap();
        let mut round = Round::default();
        _ = held(&mut round);
        assert_eq!(round.reach(), Reach::Exceeded, "the list of processes is cut");
    }

    #[test]
    fn what_lies_in_memory_is_not_on_a_disk() {
        let tree = Tree::new("stats-deleted-memory");
        tree.write(
            "mountinfo",
            "20 1 0:31 / / rw - overlay overlay rw,upperdir=/u\n\
             21 20 8:1 /pods/v /data rw,noatime master:1 - ext4 /dev/sda1 rw\n\
             22 20 8:2 / /other rw - ext4 /dev/sda2 rw\n\
             23 20 0:40 / /dev/shm rw - tmpfs shm rw\n\
             nonsense\n",
        );
        let devices = vec![rustix::fs::makedev(8, 1)];
        let found = |layers| on_disk(&tree.root(), &Counted { layers, devices: devices.clone() });
        assert_eq!(found(true), [(20, true), (21, true), (22, false), (23, false)].into());
        assert_eq!(found(false), [(20, false), (21, true), (22, false), (23, false)].into());
    }
}
