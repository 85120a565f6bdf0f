//! One pass over all volumes of a pod: what is asked once for all of them.
//!
//! Never here: a mount or a file that is made.

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};

use super::{Trouble, cannot};
use crate::layout::{self, Kind};
use crate::pod::DesiredPod;
use crate::pod::downward::Facts;
use crate::pod::object::Objects;
use crate::volumes::in_memory::{self, Asker, Granted, InMemory, Refused};
use crate::volumes::manager::Node;
use crate::volumes::mounts;

/// One look at all volumes of a pod.
pub(super) struct Pass<'a> {
    pub(super) node: &'a Node,
    pub(super) pod: &'a DesiredPod,
    pub(super) objects: &'a Objects,
    /// Mounts below the pod's directory when it was first asked for one.
    mounts: OnceCell<Vec<PathBuf>>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(node: &'a Node, pod: &'a DesiredPod, objects: &'a Objects) -> Pass<'a> {
        Pass { node, pod, objects, mounts: OnceCell::new() }
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            pod: self.pod,
            node_name: &self.node.name,
            host_ips: &[],
            pod_ips: &[],
            allocatable: &self.node.allocatable,
        }
    }

    /// Takes the memory of all volumes before the first of them is made.
    pub(super) fn take_memory(&self) -> Result<Granted, Refused> {
        let (node, pod) = (self.node, self.pod);
        let volumes = || layout::volumes(pod).map(|volume| (volume.name.as_str(), Kind::of(volume)));
        let is_behind = node.policies.evict_first(pod.source);
        let Some((first, _)) = volumes().find(|(_, kind)| in_memory::counts(*kind)) else {
            // Where the mounts cannot be read, the next pod with such a volume is told.
            _ = node.root().map(|root| node.in_memory.note(&root, &pod.uid, is_behind));
            return Ok(Granted::default());
        };
        let refused = |why: String| Refused { volume: first.to_owned(), why };
        let unread = |error: io::Error| refused(format!("cannot read the mounts: {error}"));
        let root = node.root().map_err(refused)?;
        let memory = u64::try_from(node.allocatable.memory).unwrap_or(0);
        // More is refused whatever follows, and following all would take long.
        let most = match node.in_memory.has_some(&root, &pod.uid).map_err(unread)? {
            true => u64::MAX,
            false => InMemory::most(memory),
        };
        let facts = self.facts();
        let (mut wanted, mut sum) = (Vec::new(), 0_u64);
        for (name, kind) in volumes() {
            let Some(bytes) = in_memory::size(kind, &facts, self.objects) else { continue };
            wanted.push((name, bytes));
            sum = sum.saturating_add(bytes);
            if sum > most {
                break;
            }
        }
        let asker = Asker { uid: &pod.uid, is_behind, memory };
        node.in_memory.take(&root, asker, &wanted).map_err(unread)?
    }

    /// Whether something is mounted at a place of the pod. It is not looked up: its server may not answer.
    pub(super) fn is_mounted(&self, place: &Path) -> Result<bool, Trouble> {
        if let Some(mounts) = self.mounts.get() {
            return Ok(mounts.iter().any(|at| at == place));
        }
        let table = mounts::table().map_err(cannot("cannot read the mounts for", place))?;
        let pod = layout::pod_dir(&self.node.root()?, &self.pod.uid).unwrap_or_default();
        let found = mounts::below(&table, &pod).into_iter().map(|mounted| mounted.at.clone()).collect();
        Ok(self.mounts.get_or_init(|| found).iter().any(|at| at == place))
    }
}
