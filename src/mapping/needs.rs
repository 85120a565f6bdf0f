//! A container that is to be made: the body that Docker gets, and what has to be there before it is sent. Plain
//! data: the worker's thread makes or looks up what is needed.

use crate::network::Wanted;
use crate::runtime::CreateBody;
use crate::termination::LogFile;
use crate::volumes::SubPath;

/// A create call with all that comes before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// Docker's name for the container.
    pub name: String,
    /// What Docker is sent.
    pub body: Box<CreateBody>,
    /// What must be there before.
    pub needs: Needs,
}

/// What a create needs on the node. Nothing of it is sent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    /// Is made, or its mount taken out.
    pub termination_file: Option<LogFile>,
    /// Resolver settings and the hosts file.
    pub network: Option<Wanted>,
    /// Name of a seccomp profile below the root directory: its content goes into `security_opt`, or nothing is
    /// sent.
    pub seccomp_profile: Option<String>,
    /// Are bound, or nothing is sent.
    pub sub_paths: Vec<SubPath>,
}
