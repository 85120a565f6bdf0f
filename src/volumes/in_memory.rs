//! The memory that volumes take: files of Secrets, tokens and fields, and the mounts of all that lie in memory. They are on
//! tmpfs that podkeeper makes, so no limit of a pod bounds them and no eviction finds them: one Secret in hundreds of
//! volumes would take all of a small node.
//!
//! A pod may always have a little. Only while all such volumes of the node take little, it may have more. Sources whose
//! pods are evicted first share half of that little for all of their pods.
//!
//! The bytes are counted here, and read from the kernel once in each daemon. Never here: a mount or a file that is made.

use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::mounts::{self, Mounted};
use super::payload;
use crate::base::human::many;
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::layout::{self, Kind};
use crate::pod::downward::Facts;
use crate::pod::object::Objects;
use crate::runtime::progress::bytes;

/// A page of the kernel: each file takes whole ones, and one for itself.
const PAGE: u64 = 4096;
/// A mount with its root, the directory of a version and the links to it.
const MOUNT: u64 = 2 * PAGE;

/// Memory of volumes: bytes by name.
pub(super) type Bytes = Table<String, u64>;

/// Whether such a volume takes memory that is counted here.
pub(super) fn counts(kind: Kind<'_>) -> bool {
    match kind {
        Kind::EmptyDir(spec) => spec.and_then(|spec| spec.medium.as_deref()).is_some_and(|it| !it.is_empty()),
        Kind::Secret(_) | Kind::DownwardApi(_) | Kind::Projected(_) => true,
        _ => false,
    }
}

/// Memory for a volume that is not there yet, or is to hold these files: bytes, a little too many rather than too few. No
/// file is made for it. `None`: it takes none that is counted here, or cannot be made.
pub(super) fn size(kind: Kind<'_>, facts: &Facts<'_>, objects: &Objects) -> Option<u64> {
    let mut sum = MOUNT;
    let whole = |length: usize| u64::try_from(length).unwrap_or(u64::MAX).div_ceil(PAGE);
    // Without all of its files it is not made: the reason is told then.
    let mut each = || {
        payload::each(kind, facts, objects, &mut |_, file| {
            sum = sum.saturating_add(whole(file.data.len()).saturating_add(1).saturating_mul(PAGE));
            Ok(())
        })
    };
    (counts(kind) && each().is_ok()).then_some(sum)
}

/// A pod that asks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    pub uid: &'a str,
    /// Its source's pods are evicted first.
    pub is_behind: bool,
    /// Memory of the node, bytes; 0: unknown.
    pub memory: u64,
}

/// The answer for the volumes of a pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Granted {
    /// The bytes that they took before.
    pub before: Bytes,
    /// Volumes that keep the files they have, and why they get no others.
    pub kept: Table<String, String>,
}

/// No volume of the pod may be made: the first that is too much, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub volume: String,
    pub why: String,
}

/// The bytes that all volumes of the node take; `None` until it was read from the kernel.
#[derive(Debug, Default)]
pub(super) struct InMemory(Mutex<Option<Shares>>);

impl InMemory {
    /// Most bytes with which a pod without volumes in memory has a chance.
    pub(super) fn most(memory: u64) -> u64 {
        if memory == 0 { u64::MAX } else { (memory / limits::IN_MEMORY_PART).max(limits::IN_MEMORY_OF_POD) }
    }

    /// Whether the pod has such volumes.
    ///
    /// # Errors
    /// The mounts cannot be read.
    pub(super) fn has_some(&self, root: &Path, uid: &str) -> io::Result<bool> {
        self.with(root, |shares| shares.0.get(uid).is_some_and(|pod| pod.sum > 0))
    }

    /// Takes memory for volumes of a pod, whose names and sizes these are. Others see it as taken from then on.
    ///
    /// # Errors
    /// The mounts cannot be read.
    pub(super) fn take(
        &self,
        root: &Path,
        asker: Asker<'_>,
        wanted: &[(&str, u64)],
    ) -> io::Result<Result<Granted, Refused>> {
        self.with(root, |shares| shares.take(asker, wanted))
    }

    /// Notes whether the source of a pod is behind others, for what an earlier daemon has made of it.
    ///
    /// # Errors
    /// The mounts cannot be read.
    pub(super) fn note(&self, root: &Path, uid: &str, is_behind: bool) -> io::Result<()> {
        self.with(root, |shares| {
            shares.0.get_mut(uid).into_iter().for_each(|share| share.is_behind = Some(is_behind));
        })
    }

    /// Counts mounts that are about to be made for a pod of a source behind others and take no memory for files. They stay
    /// until all volumes of the pod are removed, also when it has other containers or volumes by then. `places`: where
    /// they are below the pod's directory; each counts once.
    ///
    /// # Errors
    /// The mounts cannot be read; or there would be too many, and why.
    pub(super) fn take_mounts(
        &self,
        root: &Path,
        uid: &str,
        places: Vec<String>,
    ) -> io::Result<Result<(), String>> {
        self.with(root, |shares| shares.take_mounts(uid, places))
    }

    /// Notes what a volume takes after it could not be made.
    pub(super) fn put_back(&self, uid: &str, volume: &str, bytes: u64) {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = &mut *shares {
            shares.set(uid, volume, bytes);
        }
    }

    /// Notes that the volumes of a pod are gone.
    pub(super) fn forget(&self, uid: &str) {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shares) = &mut *shares {
            shares.0.remove(uid);
        }
    }

    fn with<T>(&self, root: &Path, work: impl FnOnce(&mut Shares) -> T) -> io::Result<T> {
        let mut shares = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let shares = match &mut *shares {
            Some(shares) => shares,
            none => none.insert(Shares::found(&mounts::table()?, &root.join("pods"), used)),
        };
        Ok(work(shares))
    }
}

/// Volumes by pod.
#[derive(Debug, Default)]
struct Shares(Table<String, Share>);

#[derive(Debug, Default)]
struct Share {
    /// `None`: an earlier daemon has made them, for a pod that has not asked yet.
    is_behind: Option<bool>,
    sum: u64,
    volumes: Bytes,
    /// Its other mounts: where they are below its directory.
    mounts: Set<String>,
}

impl Share {
    /// Returns what it took before.
    fn set(&mut self, volume: &str, bytes: u64) -> u64 {
        let before = if bytes == 0 {
            self.volumes.remove(volume)
        } else {
            self.volumes.insert(volume.to_owned(), bytes)
        };
        let before = before.unwrap_or(0);
        self.sum = self.sum.saturating_sub(before).saturating_add(bytes);
        before
    }
}

impl Shares {
    /// What an earlier daemon has left. `used`: bytes in the file system at a place.
    fn found(table: &[Mounted], pods: &Path, used: impl Fn(&Path) -> u64) -> Shares {
        let mut shares = Shares::default();
        for Mounted { at, kind, .. } in table {
            let parts: Vec<&str> =
                at.strip_prefix(pods).into_iter().flatten().filter_map(|part| part.to_str()).collect();
            let Some((uid, place @ [_, ..])) = parts.split_first() else { continue };
            let share = shares.0.get_or_default((*uid).to_owned());
            match *place {
                [layout::VOLUMES, plugin, volume]
                    if kind == "tmpfs" && layout::IN_MEMORY.contains(&plugin) =>
                {
                    share.set(volume, used(at).saturating_add(MOUNT));
                }
                [layout::VOLUMES, layout::EMPTY_DIR, volume] => _ = share.set(volume, MOUNT),
                _ => _ = share.mounts.insert(place.join("/")),
            }
        }
        shares
    }

    fn set(&mut self, uid: &str, volume: &str, bytes: u64) {
        if let Some(share) = self.0.get_mut(uid) {
            share.set(volume, bytes);
        }
    }

    fn take(&mut self, asker: Asker<'_>, wanted: &[(&str, u64)]) -> Result<Granted, Refused> {
        let mut granted = Granted::default();
        for &(volume, bytes) in wanted {
            let share = self.0.get_or_default(asker.uid.to_owned());
            share.is_behind = Some(asker.is_behind);
            let before = share.set(volume, bytes);
            match self.verdict(asker) {
                // What is there, and does not grow, is not refused.
                Err(why) if bytes > before => {
                    self.set(asker.uid, volume, before);
                    if before == 0 {
                        granted.before.iter().for_each(|(volume, bytes)| self.set(asker.uid, volume, *bytes));
                        return Err(Refused { volume: volume.to_owned(), why });
                    }
                    granted.kept.insert(volume.to_owned(), why);
                }
                _ => _ = granted.before.insert(volume.to_owned(), before),
            }
        }
        Ok(granted)
    }

    /// Number of mounts of all pods of sources behind others. A pod that has not asked yet may be of any source: it may be
    /// gone from its source, and end only slowly.
    fn mounts_behind(&self) -> usize {
        let behind = self.0.values().filter(|share| share.is_behind != Some(false));
        let count = |share: &Share| share.volumes.len().saturating_add(share.mounts.len());
        behind.fold(0, |sum, share| sum.saturating_add(count(share)))
    }

    fn take_mounts(&mut self, uid: &str, places: Vec<String>) -> Result<(), String> {
        let share = self.0.get_or_default(uid.to_owned());
        share.is_behind = Some(true);
        let new = order::set(places.into_iter().filter(|place| !share.mounts.contains(place)));
        let (mounts, most) = (self.mounts_behind().saturating_add(new.len()), limits::MOUNTS_BEHIND);
        if !new.is_empty() && mounts > most {
            return Err(format!(
                "with {} for it, those of pods of sources that are behind others would be {mounts}: all of these together \
                 get {most}",
                many(new.len(), "more mount"),
            ));
        }
        self.0.get_or_default(uid.to_owned()).mounts.extend(new);
        Ok(())
    }

    /// Whether the pod may have what it takes now.
    fn verdict(&self, asker: Asker<'_>) -> Result<(), String> {
        let sum = |of: &dyn Fn(&Share) -> bool| {
            self.0.values().filter(|share| of(share)).fold(0_u64, |sum, share| sum.saturating_add(share.sum))
        };
        let own = self.0.get(asker.uid).map_or(0, |share| share.sum);
        let most = asker.memory / limits::IN_MEMORY_PART;
        if asker.is_behind {
            let (mounts, most) = (self.mounts_behind(), limits::MOUNTS_BEHIND);
            if mounts > most {
                return Err(format!(
                    "it lies in memory, and with it volumes of Secrets, tokens and fields of sources that are behind others \
                     would be {mounts} mounts: all of these together get {most}"
                ));
            }
        }
        // Of a node whose memory is unknown nothing can be said.
        if asker.memory == 0 {
            return Ok(());
        }
        if asker.is_behind {
            let behind = sum(&|share| share.is_behind != Some(false));
            let most = most / limits::IN_MEMORY_BEHIND;
            if behind > most {
                return Err(format!(
                    "it lies in memory, and with it volumes of Secrets, tokens and fields of sources that are behind others \
                     would take {} there: all of these together get {}",
                    bytes(behind),
                    bytes(most)
                ));
            }
        }
        let all = sum(&|_| true);
        if own <= limits::IN_MEMORY_OF_POD || all <= most {
            return Ok(());
        }
        Err(format!(
            "it lies in memory, and with it volumes of Secrets, tokens and fields would take {} there, {} of it this pod: a pod gets more \
             than {} only while all together take at most {}",
            bytes(all),
            bytes(own),
            bytes(limits::IN_MEMORY_OF_POD),
            bytes(most)
        ))
    }
}

/// Memory of a tmpfs: its blocks, and a page for each inode.
fn used(place: &Path) -> u64 {
    let Ok(found) = rustix::fs::statvfs(place) else { return 0 };
    let blocks = found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize);
    blocks.saturating_add(found.f_files.saturating_sub(found.f_ffree).saturating_mul(PAGE))
}

#[cfg(test)]
mod tests;
