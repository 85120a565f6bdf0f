//! A container to be created: the body for Docker, and the prerequisites on the node. Plain data: the
//! worker's thread provides them.

use crate::network::Wanted;
use crate::runtime::CreateBody;
use crate::termination::LogFile;
use crate::volumes::Parts;

/// A create call with its prerequisites.
#[derive(Debug, Clone, PartialEq)]
pub struct Create {
    /// Docker's name for the container.
    pub name: String,
    /// The body that is sent to Docker.
    pub body: Box<CreateBody>,
    /// Prerequisites of the call.
    pub needs: Needs,
}

/// Prerequisites of a create on the node. They are not sent to Docker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Needs {
    /// Termination file to create; on a full or read-only disk its mount is left out.
    pub termination_file: Option<LogFile>,
    /// Resolver settings and hosts file.
    pub network: Option<Wanted>,
    /// Name of a seccomp profile below the root directory: its content is put into `security_opt`; without it
    /// the create is not sent.
    pub seccomp_profile: Option<String>,
    /// Parts of the pod's volumes; without them the create is not sent.
    pub parts: Parts,
}
