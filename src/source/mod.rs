//! The sources of pods. Each source is a thread that sends [`SourceUpdate`]s; it never decides what a set means. A
//! failure to read is `Failed`, never an empty set (invariant 2).

pub mod accept;
pub mod api;
pub mod disk;
pub(crate) mod entry;
pub mod file;
pub mod hints;
pub mod http;
pub mod in_force;
pub mod last_good;
mod running;
pub mod scan;
pub mod signature;
pub mod store;
#[cfg(test)]
pub(crate) mod testing;
pub mod watch;

use std::sync::Arc;

use crate::pod::object::LocalObject;
use crate::pod::placement::NodeAtServer;
use crate::pod::problem::{Problem, Refused};
use crate::pod::{DesiredPod, PodKey, Source};

/// A source's report: the whole set it wants, or that it could not read.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceUpdate {
    /// The complete set that the source wants.
    Full(PodSet),
    /// The source was read, and its content equals the last `Full`.
    Same,
    /// The last accepted content, from the store, because the source itself has not answered (yet). It makes nothing
    /// ready.
    Restored(PodSet),
    /// The same, before the source is read for the first time: it is put in force if that takes too long.
    Remembered(PodSet),
    /// The operator had everything forgotten that was accepted, and the source has nothing good: until it does, it asks
    /// for nothing. Its other updates come after this one.
    Forgotten,
    /// The source could not be read; running pods stay. The text is for the operator.
    Failed(String),
    /// The source answered, and its content as a whole is not accepted: running pods stay, and are older than the
    /// source's content.
    Refused {
        /// For the operator.
        why: String,
        /// Problems of the content, with places.
        problems: Vec<Problem>,
    },
    /// A report of the store of last good contents: the reason why not everything is stored, or `None` when it is
    /// again. It says nothing about the source itself.
    Store(Option<String>),
}

/// One complete reading of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSet {
    /// In the order of origin (path, then document). Several may share one key: merge resolves that.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Local objects, in the order of origin. Several may share one key: merge resolves that.
    pub objects: Vec<Arc<LocalObject>>,
    /// Pods that policy refuses. When an older version of such a pod is still in force, `pods` has it.
    pub refused: Vec<Refused>,
    /// Paths whose content is not usable now. Running pods that were made from them are left alone, also after a
    /// restart of the daemon, until the path is readable again or gone. A path that ends in a slash stands for
    /// everything below it: a file there cannot be read, and its name is not known.
    pub broken: Vec<String>,
    /// Errors and warnings for the operator.
    pub problems: Vec<Problem>,
    /// Pods that are not given yet, because their server does not give what they refer to. Empty for other sources.
    pub waiting: Vec<Waiting>,
    /// Some content is being written still: another set follows within seconds. Only until the first whole one.
    pub is_partial: bool,
    /// The node at this source's server.
    pub node: Option<NodeAtServer>,
}

/// A pod that its source does not give yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The pod.
    pub key: PodKey,
    /// Its UID.
    pub uid: String,
    /// What it waits for, and why that is not there.
    pub why: String,
}

/// An update with its sender.
#[derive(Debug, Clone, PartialEq)]
pub struct FromSource {
    /// The sender.
    pub source: Source,
    /// The update.
    pub update: SourceUpdate,
}
