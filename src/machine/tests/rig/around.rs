//! What stands around the machine of a rig: what becomes of its orders, and what lies between it and the engine.

use std::collections::{BTreeMap, BTreeSet};

use super::Hurt;
use crate::base::clock::Mono;
use crate::cgroup;
use crate::machine::Token;
use crate::network::hosts::HostsFile;
use crate::runtime::fake::Cursor;
use crate::volumes::Failure;

/// What becomes of orders about cgroups.
pub(in crate::machine::tests) struct Cgroups {
    /// What becomes of one that is asked for.
    pub(in crate::machine::tests) answer: Result<(), cgroup::NoCgroup>,
    /// Orders are not answered.
    pub(in crate::machine::tests) hang: bool,
    /// Every one that was told, and each UID whose cgroup was dropped.
    pub(in crate::machine::tests) told: Vec<Result<cgroup::PodCgroup, String>>,
}

/// What becomes of orders about volumes.
pub(in crate::machine::tests) struct Volumes {
    /// Orders, in words.
    pub(in crate::machine::tests) orders: Vec<(Mono, String)>,
    /// What a set-up brings.
    pub(in crate::machine::tests) broken: Vec<Failure>,
    /// What a tear-down brings.
    pub(in crate::machine::tests) busy: Result<(), String>,
    /// No order ends.
    pub(in crate::machine::tests) hang: bool,
    /// Parts are never bound, and what needs them is never sent.
    pub(in crate::machine::tests) parts_hang: bool,
    pub(super) unsent: BTreeSet<Token>,
}

/// Files and addresses of the node.
pub(in crate::machine::tests) struct Files {
    /// What the files of containers say, by name.
    pub(in crate::machine::tests) last_words: BTreeMap<String, Result<String, String>>,
    /// Those of them that are of no more use.
    pub(in crate::machine::tests) messages_forgotten: Vec<String>,
    /// UIDs whose files are of no more use.
    pub(in crate::machine::tests) forgotten: Vec<String>,
    /// The node's addresses.
    pub(in crate::machine::tests) addresses: Vec<String>,
    /// Every hosts file that was asked for.
    pub(in crate::machine::tests) hosts: Vec<HostsFile>,
    /// No hosts file can be written, for this reason.
    pub(in crate::machine::tests) disk_full: Option<String>,
    /// How often the network was asked for.
    pub(in crate::machine::tests) networks_asked: u32,
}

/// What is between the machine and the engine.
pub(in crate::machine::tests) struct Wire {
    /// Events reach the machine.
    pub(in crate::machine::tests) events: bool,
    pub(super) cursor: Cursor,
    pub(super) hurts: Vec<(String, u32, Hurt)>,
    pub(super) names: BTreeMap<String, String>,
}

impl Default for Cgroups {
    fn default() -> Cgroups {
        Cgroups { answer: Ok(()), hang: false, told: Vec::new() }
    }
}

impl Default for Volumes {
    fn default() -> Volumes {
        Volumes {
            orders: Vec::new(),
            broken: Vec::new(),
            busy: Ok(()),
            hang: false,
            parts_hang: false,
            unsent: BTreeSet::new(),
        }
    }
}

impl Default for Files {
    fn default() -> Files {
        Files {
            last_words: BTreeMap::new(),
            messages_forgotten: Vec::new(),
            forgotten: Vec::new(),
            addresses: vec!["192.0.2.2".into()],
            hosts: Vec::new(),
            disk_full: None,
            networks_asked: 0,
        }
    }
}

impl Wire {
    /// Nothing is hurt.
    pub(super) fn new(cursor: Cursor) -> Wire {
        Wire { events: true, cursor, hurts: Vec::new(), names: BTreeMap::new() }
    }
}
