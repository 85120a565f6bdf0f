//! The surroundings of a rig's machine: reports about its orders, and the wire between it and the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Hurt;
use crate::base::clock::Mono;
use crate::base::table::Set;
use crate::cgroup;
use crate::cni::networks::Ready;
use crate::cni::{Order, Report};
use crate::machine::Token;
use crate::network::hosts::HostsFile;
use crate::runtime::fake::Cursor;
use crate::volumes::Failure;

/// Answers to orders about cgroups.
pub(in crate::machine::tests) struct Cgroups {
    /// The answer to an order for a cgroup.
    pub(in crate::machine::tests) answer: Result<(), cgroup::NoCgroup>,
    /// Orders are not answered.
    pub(in crate::machine::tests) hang: bool,
    /// Every ordered cgroup, and each UID whose cgroup was dropped.
    pub(in crate::machine::tests) told: Vec<Result<cgroup::PodCgroup, String>>,
}

/// Answers to orders about volumes.
pub(in crate::machine::tests) struct Volumes {
    /// Orders, in words.
    pub(in crate::machine::tests) orders: Vec<(Mono, String)>,
    /// Failures of a set-up.
    pub(in crate::machine::tests) broken: Vec<Failure>,
    /// Result of a tear-down.
    pub(in crate::machine::tests) busy: Result<(), String>,
    /// No order ends.
    pub(in crate::machine::tests) hang: bool,
    /// Parts are never bound, and creates that need them are never sent.
    pub(in crate::machine::tests) parts_hang: bool,
    pub(super) unsent: Set<Token>,
}

/// Files and addresses of the node.
pub(in crate::machine::tests) struct Files {
    /// Contents of the termination files of containers, by name.
    pub(in crate::machine::tests) last_words: BTreeMap<String, Result<String, String>>,
    /// The contents that are read late, by container; `None`: none is.
    pub(in crate::machine::tests) late: Option<Vec<(String, Result<String, String>)>>,
    /// Termination files that were released.
    pub(in crate::machine::tests) messages_forgotten: Vec<String>,
    /// UIDs whose files were released.
    pub(in crate::machine::tests) forgotten: Vec<String>,
    /// Containers whose ends the next daemon would not take for their own.
    pub(in crate::machine::tests) signalled: BTreeSet<String>,
    /// The node's addresses.
    pub(in crate::machine::tests) addresses: Vec<String>,
    /// Every hosts file that was ordered.
    pub(in crate::machine::tests) hosts: Vec<HostsFile>,
    /// The reason why no hosts file can be written.
    pub(in crate::machine::tests) disk_full: Option<String>,
    /// Number of requests for the network.
    pub(in crate::machine::tests) networks_asked: u32,
    /// Networks of plugins.
    pub(in crate::machine::tests) plugins: Plugins,
}

/// Plugins, and their resources on the node, which outlive a daemon.
pub(in crate::machine::tests) struct Plugins {
    /// Whether there is a network.
    pub(in crate::machine::tests) ready: Ready,
    /// The reason why attaching fails.
    pub(in crate::machine::tests) broken: Option<String>,
    /// The reason why detaching fails.
    pub(in crate::machine::tests) stuck: Option<String>,
    /// No order ends.
    pub(in crate::machine::tests) hang: bool,
    /// Addresses by sandbox.
    pub(in crate::machine::tests) held: BTreeMap<String, String>,
    /// Sandboxes whose address is in no namespace any more.
    pub(in crate::machine::tests) lost: Set<String>,
    /// Every order: `attach` or `detach`.
    pub(in crate::machine::tests) orders: Vec<(Mono, &'static str)>,
    given: u32,
}

impl Plugins {
    /// The reports about an order, each with its delay.
    pub(super) fn told(&mut self, now: Mono, order: &Order) -> Vec<(Duration, Report)> {
        let (Order::Attach(wanted) | Order::Detach(wanted)) = order;
        let sandbox = wanted.sandbox.clone();
        let soon = Duration::from_millis(1);
        let long = Duration::from_millis(100);
        let is_attach = matches!(order, Order::Attach(_));
        self.orders.push((now, if is_attach { "attach" } else { "detach" }));
        match order {
            _ if self.hang => Vec::new(),
            Order::Attach(_) if self.lost.contains(&sandbox) => vec![(soon, Report::Lost { sandbox })],
            Order::Attach(_) => {
                if let Some(ip) = self.held.get(&sandbox) {
                    return vec![(soon, Report::Attached { sandbox, result: Ok(vec![ip.clone()]) })];
                }
                let begins = (soon, Report::Attaching { sandbox: sandbox.clone() });
                let result = match &self.broken {
                    Some(why) => Err(why.clone()),
                    None => {
                        self.given += 1;
                        let ip = format!("10.244.0.{}", self.given);
                        self.held.insert(sandbox.clone(), ip.clone());
                        Ok(vec![ip])
                    }
                };
                vec![begins, (long, Report::Attached { sandbox, result })]
            }
            Order::Detach(_) => {
                let result = self.stuck.clone().map_or(Ok(()), Err);
                if result.is_ok() {
                    self.held.remove(&sandbox);
                }
                vec![(long, Report::Detached { sandbox, result })]
            }
        }
    }
}

/// The wire between the machine and the engine.
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
            unsent: Set::new(),
        }
    }
}

impl Default for Files {
    fn default() -> Files {
        Files {
            late: None,
            signalled: BTreeSet::new(),
            last_words: BTreeMap::new(),
            messages_forgotten: Vec::new(),
            forgotten: Vec::new(),
            addresses: vec!["192.0.2.2".into()],
            hosts: Vec::new(),
            disk_full: None,
            networks_asked: 0,
            plugins: Plugins {
                ready: Ready::Yes,
                broken: None,
                stuck: None,
                hang: false,
                held: BTreeMap::new(),
                lost: Set::new(),
                orders: Vec::new(),
                given: 0,
            },
        }
    }
}

impl Wire {
    /// A wire without faults.
    pub(super) fn new(cursor: Cursor) -> Wire {
        Wire { events: true, cursor, hurts: Vec::new(), names: BTreeMap::new() }
    }
}
