//! Where pods come from. Each source is a thread that sends [`SourceUpdate`]s; it never decides what a
//! set means. "I could not read" is `Failed`, never an empty set (invariant 2).

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
use crate::pod::{DesiredPod, Source};

/// What a source says: the whole set it wants, or that it could not find out.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceUpdate {
    /// Everything the source wants, complete.
    Full(PodSet),
    /// Read well, and it holds what the last `Full` said.
    Same,
    /// What was last accepted, from the store, because the source itself has not answered (yet). Marks
    /// nothing ready.
    Restored(PodSet),
    /// The operator had everything forgotten that was accepted, and the source says nothing good: until it does,
    /// it asks for nothing. What else it says comes after this.
    Forgotten,
    /// Nothing is known; what runs stays. The text is for the operator.
    Failed(String),
    /// The source answered, and its content as a whole is not accepted: what runs stays, and is older
    /// than what the source holds.
    Refused {
        /// For the operator.
        why: String,
        /// What is wrong with the content, with places.
        problems: Vec<Problem>,
    },
    /// Of the store of last good versions: why not everything is remembered, or that it is again. Says
    /// nothing of the source itself.
    Store(Option<String>),
}

/// One complete reading of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodSet {
    /// In the order of origin (path, then document). Several may share one key: merge resolves that.
    pub pods: Vec<Arc<DesiredPod>>,
    /// Local objects, in the order of origin. Several may share one key: merge resolves that.
    pub objects: Vec<Arc<LocalObject>>,
    /// Pods that policy refuses. Where an older version of one is still in force, `pods` holds that one.
    pub refused: Vec<Refused>,
    /// Paths whose content is not usable now. Pods that were made from them and run are left alone,
    /// also after a restart of the daemon, until the path reads well again or is gone. A path that ends in a slash stands
    /// for all that is below it: something there cannot be read, and its name is not known.
    pub broken: Vec<String>,
    /// What the operator should know, errors and warnings.
    pub problems: Vec<Problem>,
    /// The node as this source's server has it.
    pub node: Option<NodeAtServer>,
}

/// An update with its sender.
#[derive(Debug, Clone, PartialEq)]
pub struct FromSource {
    /// Who says it.
    pub source: Source,
    /// What.
    pub update: SourceUpdate,
}
