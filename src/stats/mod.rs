//! Figures of the node, of its cgroups and disks: what the kernel tells, read when somebody asks.
//!
//! [`cgroup`] reads one cgroup of either version, [`places`] finds the cgroups of containers, [`disk_use`] counts trees,
//! [`deleted`] finds files without a name, [`node`] and [`process`] read `/proc`, and [`rate`] makes rates of two
//! readings. [`summary`] puts everything together in the kubelet's words. What the kernel does not tell is `None`, never 0.
//!
//! Never here: a thread, a cache, a call to Docker elsewhere than in [`engine`], or a decision.

pub mod cgroup;
pub mod container_disk;
pub mod counted;
pub mod deleted;
pub mod disk;
pub mod disk_use;
pub mod engine;
pub mod network;
pub mod node;
pub mod places;
pub mod pressure;
pub mod process;
pub mod rate;
pub mod summary;
#[cfg(test)]
mod testing;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::base::limits;

/// The text of one of the kernel's files, at most [`limits::KERNEL_FILE`] bytes of it.
fn text(path: &Path) -> Option<String> {
    text_up_to(path, limits::KERNEL_FILE)
}

/// The same with another bound.
fn text_up_to(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    // The kernel's files have no size, do not wait, and are no links that somebody else could lay.
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    // Names in it may be anything.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file that holds one number.
fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// The value of a line `NAME VALUE` or `NAME: VALUE kB`, as it stands.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix(':').or_else(|| rest.strip_prefix(' '))?.split_whitespace().next()?.parse().ok()
    })
}
