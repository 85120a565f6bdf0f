//! The rights of pods on this node: the Pod Security Standards of Kubernetes
//! (`pod-security-admission/policy`), and the node's own allow lists, for each source.
//!
//! Pure: computes the violations of a policy by a pod. If the standard's page and upstream's code differ, the
//! code is followed: its identifiers, versions and texts are those that kubectl's users know. Nothing here
//! may panic, look at the machine, or change a pod to make it fit.

mod allow;
mod baseline;
mod image;
mod level;
mod permissions;
mod restricted;
mod source_policy;
pub mod standards;
mod standing;
mod told;
mod view;

#[cfg(test)]
mod tests;

pub use allow::{AllowedPath, PathAccess, Refusal};
pub use image::AllowedImage;
pub use level::{LevelVersion, parse_sources};
pub use source_policy::{Exceptions, Policies, SourcePolicy};
pub use standing::{Most, part};
pub use told::PolicyView;
