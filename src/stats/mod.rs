//! Figures of the node, its cgroups and its disks, read from the kernel on request.
//!
//! [`cgroup`] reads one cgroup of either version, [`places`] finds the cgroups of containers, [`disk_use`] counts trees,
//! [`deleted`] finds files without a name, [`node`] and [`process`] read `/proc`, and [`rate`] makes rates of two
//! readings. [`summary`] puts everything together in the kubelet's words. Figures that the kernel does not report are
//! `None`, never 0.
//!
//! Never here: a thread, a cache, a call to Docker outside of [`asking`] and [`engine`], or a decision.

pub mod asking;
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

/// The text of one of the kernel's files, up to [`limits::KERNEL_FILE`] bytes.
fn text(path: &Path) -> Option<String> {
    text_up_to(path, limits::KERNEL_FILE)
}

/// The same with another bound.
fn text_up_to(path: &Path, most: u64) -> Option<String> {
    let mut bytes = Vec::new();
    // The kernel's files have no size and do not block, and other programs cannot replace them by links.
    File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    // Names in it may have any bytes.
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number in a file that holds only a number.
fn number(path: &Path) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

/// The value of a line `NAME VALUE` or `NAME: VALUE kB`, without conversion.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        rest.strip_prefix(':').or_else(|| rest.strip_prefix(' '))?.split_whitespace().next()?.parse().ok()
    })
}
