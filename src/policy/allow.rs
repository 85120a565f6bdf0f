//! Whether a pod may run: a Pod Security Standard, and the allow lists.

use std::fmt;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::image::{Reference, is_pinned};
use super::source_policy::SourcePolicy;
use super::standards::{evaluate, message};
use super::view::Pod;

/// Components of an absolute path, cleaned as text: links are not followed. `None` for a path that is not
/// absolute or has a `..`, which may lead elsewhere.
fn components(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').filter(|p| !matches!(*p, "" | ".")).collect();
    (!parts.contains(&"..")).then_some(parts)
}

/// A pod's access to a path of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathAccess {
    /// No access.
    None,
    /// Mount it read-only.
    ReadOnly,
    /// Mount it writable.
    Full,
}

/// An entry of `--allowed-host-paths`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedPath {
    /// Absolute and clean.
    path: String,
    /// Containers may only mount it read-only.
    read_only: bool,
}

impl AllowedPath {
    /// Parses `/var/log` or `/etc:ro`.
    ///
    /// # Errors
    /// The path is not absolute, has a `..` or a colon.
    pub fn parse(text: &str) -> Result<AllowedPath, String> {
        let (path, read_only) = match text.strip_suffix(":ro") {
            Some(path) => (path, true),
            None => (text, false),
        };
        let wrong = || format!("{text:?} must be an absolute path without \"..\", and :ro or nothing behind");
        let parts = components(path).filter(|_| !path.contains(':')).ok_or_else(wrong)?;
        Ok(AllowedPath { path: format!("/{}", parts.join("/")), read_only })
    }

    /// Everything.
    #[must_use]
    pub fn all() -> AllowedPath {
        AllowedPath { path: "/".to_owned(), read_only: false }
    }

    /// The access that these entries allow to a path, compared as text.
    #[must_use]
    pub fn access(allowed: &[AllowedPath], path: &str) -> PathAccess {
        let parts = components(path);
        let entries = parts.iter().flat_map(|parts| allowed.iter().filter(|a| a.holds(parts)));
        let of = |entry: &AllowedPath| if entry.read_only { PathAccess::ReadOnly } else { PathAccess::Full };
        entries.map(of).max().unwrap_or(PathAccess::None)
    }

    /// The outermost entry that contains the path, and the parts of the path below it. Pods may write below
    /// an entry, even below a nested entry.
    #[must_use]
    pub fn split<'p>(allowed: &[AllowedPath], path: &'p str) -> Option<(String, Vec<&'p str>)> {
        let parts = components(path)?;
        let holding = allowed.iter().filter(|entry| entry.holds(&parts));
        let outermost = holding.min_by_key(|entry| entry.path.len())?;
        let depth = components(&outermost.path).map_or(0, |own| own.len());
        Some((outermost.path.clone(), parts.get(depth..)?.to_vec()))
    }

    /// Whether the path is this one or below it.
    fn holds(&self, path: &[&str]) -> bool {
        components(&self.path).is_some_and(|own| path.starts_with(&own))
    }
}

impl fmt::Display for AllowedPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, if self.read_only { ":ro" } else { "" })
    }
}

/// Why a pod may not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// `PodSecurity`, `NamespaceNotAllowed`, `HostPathNotAllowed`, `ImageNotAllowed` or `ImageDigestRequired`.
    pub reason: String,
    /// The containers or volumes, and the reason.
    pub message: String,
    /// Path of the field, or of the first one if there are several.
    pub field: String,
}

impl SourcePolicy {
    /// Whether a pod of the source may run. `spec` has the API's defaults.
    ///
    /// # Errors
    /// The first of [`SourcePolicy::refusals`].
    pub fn check(&self, metadata: &ObjectMeta, spec: &PodSpec) -> Result<(), Refusal> {
        self.refusals(metadata, spec).into_iter().next().map_or(Ok(()), Err)
    }

    /// All reasons against a pod of the source, one entry for each.
    #[must_use]
    pub fn refusals(&self, metadata: &ObjectMeta, spec: &PodSpec) -> Vec<Refusal> {
        let mut refusals = Vec::new();
        let mut refuse = |reason: &str, all: Vec<(String, String)>| {
            let (fields, messages): (Vec<String>, Vec<String>) = all.into_iter().unzip();
            if let Some(field) = fields.into_iter().next() {
                refusals.push(Refusal { reason: reason.to_owned(), message: messages.join("; "), field });
            }
        };
        if let Some(at) = &self.pod_security {
            let violations = evaluate(at, metadata, spec);
            let first = violations.first().map(|first| (first.field.clone(), message(at, &violations)));
            refuse("PodSecurity", first.into_iter().collect());
        }
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        if self.allowed_namespaces.as_ref().is_some_and(|all| !all.iter().any(|one| one == namespace)) {
            let message = format!("namespace {namespace:?} is not allowed for pods of this source");
            refuse("NamespaceNotAllowed", vec![("metadata.namespace".to_owned(), message)]);
        }
        let pod = Pod::new(metadata, spec);
        if let Some(allowed) = &self.allowed_host_paths {
            refuse("HostPathNotAllowed", host_paths(&pod, allowed));
        }
        let images = images(&pod);
        if let Some(allowed) = &self.allowed_images {
            let is_allowed = |image: &str| {
                Reference::parse(image).is_some_and(|image| allowed.iter().any(|a| a.allows(&image)))
            };
            let bad = images.iter().filter(|named| !is_allowed(named.image));
            let say = |Named { field, who, image }: &Named<'_>| {
                (field.clone(), format!("{who}: image {image:?} is not allowed on this node"))
            };
            refuse("ImageNotAllowed", bad.map(say).collect());
        }
        if self.require_image_digest {
            let bad = images.iter().filter(|named| !is_pinned(named.image));
            let say = |Named { field, who, image }: &Named<'_>| {
                let message =
                    format!("{who}: image {image:?} must be named by its digest (NAME@sha256:DIGEST)");
                (field.clone(), message)
            };
            refuse("ImageDigestRequired", bad.map(say).collect());
        }
        refusals
    }
}

/// An image that the pod would pull.
struct Named<'a> {
    /// Path of the container or volume with this image.
    field: String,
    /// The same as text.
    who: String,
    image: &'a str,
}

/// Every image that the pod would pull.
fn images<'a>(pod: &Pod<'a>) -> Vec<Named<'a>> {
    let of = |c: &super::view::Each<'a>| Named {
        field: c.field.clone(),
        who: format!("container {:?}", c.name),
        image: c.image,
    };
    let mut all: Vec<Named<'a>> = pod.containers.iter().map(of).collect();
    for (at, volume) in pod.spec.volumes.iter().flatten().enumerate() {
        if let Some(image) = &volume.image {
            all.push(Named {
                field: format!("spec.volumes[{at}]"),
                who: format!("volume {:?}", volume.name),
                image: image.reference.as_deref().unwrap_or_default(),
            });
        }
    }
    all
}

/// The problems with the pod's hostPath volumes, each with the volume's field in front.
fn host_paths(pod: &Pod<'_>, allowed: &[AllowedPath]) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (at, volume) in pod.spec.volumes.iter().flatten().enumerate() {
        let field = format!("spec.volumes[{at}]");
        let Some(host) = &volume.host_path else { continue };
        let access = AllowedPath::access(allowed, &host.path);
        let what = format!("volume {:?}: hostPath {:?}", volume.name, host.path);
        if access == PathAccess::None {
            wrong.push((field, format!("{what} is not allowed on this node")));
        } else if access == PathAccess::ReadOnly {
            let writes = |c: &super::view::Each<'_>| {
                c.mounts.iter().any(|m| m.name == volume.name && m.read_only != Some(true))
            };
            let names = pod.names(&writes);
            if !names.is_empty() {
                let who = super::view::containers(&names);
                let message = format!("{what} is allowed read-only: {who} must mount it with readOnly=true");
                wrong.push((field, message));
            }
        }
    }
    wrong
}
