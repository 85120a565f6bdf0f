//! Which images are removed, and in which order (upstream `pkg/kubelet/images/image_gc_manager.go`). Pure.
//!
//! An image stays while any container of it exists, in any state and of any owner; while a wanted pod names it, because
//! a node without a network could not pull it again; while it is pinned, preloaded or the sandbox image; and while it
//! is younger than the minimum age. Of the other images, the one that was unused for longest is removed first.

use std::fmt;
use std::time::Duration;

use super::pins::Pin;
use super::records::{Moment, Record, Records};
use super::wants::Wants;
use crate::base::duration;
use crate::base::hex::short_ids;
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::image::reference::normal;
use crate::runtime::{ContainerSummary, ImageSummary, labels};

/// When images are collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Disk usage in percent of the file system of images at which images are removed. 100 for never.
    pub high: u8,
    /// Disk usage in percent down to which images are removed.
    pub low: u8,
    /// An image that was first seen more recently than this is not removed.
    pub min_age: Duration,
    /// An image that was unused for longer than this is removed; zero for never.
    pub max_age: Duration,
    /// Images that stay.
    pub pinned: Vec<Pin>,
}

impl Default for Policy {
    /// The kubelet's defaults.
    fn default() -> Policy {
        let (min_age, max_age) = (Duration::from_secs(120), Duration::ZERO);
        Policy { high: 85, low: 80, min_age, max_age, pinned: Vec::new() }
    }
}

/// Images that stay even when unused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fixed {
    /// The sandbox's image.
    pub sandbox: String,
    /// Full names, or ids, of images that were preloaded.
    pub preloaded: Set<String>,
}

/// Why an image stays.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kept {
    /// A container of it exists: a pod, with the root directory if that is another one, or the name of a container that
    /// is not podkeeper's.
    Used(String),
    /// A wanted pod names it.
    Wanted(String),
    /// It is the image of pods' sandboxes.
    Sandbox,
    /// An archive of the preload directory brought it.
    Preloaded,
    /// `--pinned-images` names it.
    Pinned,
    /// An image that stays was made from it: Docker does not remove it.
    Parent(String),
    /// It was first seen more recently than this.
    Young(Duration),
    /// Some source has not reported yet.
    Unheard,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kept::Used(by) => write!(f, "used by {by}"),
            Kept::Wanted(pod) => write!(f, "wanted by pod {pod}"),
            Kept::Sandbox => f.write_str("sandbox of the pods"),
            Kept::Preloaded => f.write_str("preloaded"),
            Kept::Pinned => f.write_str("pinned"),
            Kept::Parent(of) => write!(f, "image {of} was made from it"),
            Kept::Young(age) => write!(f, "here for less than {}", duration::text(*age)),
            Kept::Unheard => f.write_str("not every source has said which pods it wants"),
        }
    }
}

/// An image and the decision about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The image.
    pub image: ImageSummary,
    /// Why it stays; `None`: it may be removed.
    pub kept: Option<Kept>,
    /// The image's record.
    pub record: Option<Record>,
}

/// The rules and data by which images are judged.
#[derive(Debug)]
pub struct Judge<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Images that stay.
    pub fixed: &'a Fixed,
    /// Images that pods want.
    pub wants: &'a Wants,
    /// Records of images.
    pub records: &'a Records,
    /// Uptime of the machine; `None`: the minimum age is ignored.
    pub now: Option<Moment>,
}

impl Judge<'_> {
    /// Judges images by all containers of the engine. Images that may be removed come first, in the order of removal,
    /// then those that stay. Pods of another root directory than `root_dir` are shown as such. Intermediate images of
    /// builds, if they are listed, only lead to the images that must stay with those that were made from them.
    #[must_use]
    pub fn all(
        &self,
        images: Vec<ImageSummary>,
        containers: &[ContainerSummary],
        root_dir: &str,
    ) -> Vec<Judged> {
        let users = users(containers, root_dir);
        let links = links(&images);
        let mut all: Vec<Judged> = images.into_iter().map(|image| self.one(image, &users)).collect();
        for link in all.iter_mut().filter(|it| links.contains(&it.image.id)) {
            // Docker removes it with the images that were made from it.
            link.kept.take_if(|kept| matches!(kept, Kept::Young(_)));
        }
        keep_parents(&mut all, &links);
        all.retain(|it| !links.contains(&it.image.id));
        // An image without a record was never used, and counts as seen last.
        let known = |it: &Judged| it.record.map_or((0, u64::MAX), |r| (r.used, r.first));
        let rank = |it: &Judged| (it.kept.is_some(), known(it), it.image.id.clone());
        order::sort_by(&mut all, |a, b| rank(a).cmp(&rank(b)));
        all
    }

    fn one(&self, image: ImageSummary, users: &Table<&str, String>) -> Judged {
        let record = self.records.get(&image.id).copied();
        let names: Vec<&String> = image.tags.iter().chain(&image.digests).collect();
        let full = full_names(&image);
        let pins = &self.policy.pinned;
        let young = || {
            let (now, record) = (self.now?, record?);
            let age = now.up.saturating_sub(record.seen_up);
            (age < self.policy.min_age).then_some(Kept::Young(self.policy.min_age))
        };
        let kept = if let Some(user) = users.get(image.id.as_str()) {
            Some(Kept::Used(user.clone()))
        } else if let Some(pod) = self.wants.of(&image.id, &full) {
            Some(Kept::Wanted(pod.to_owned()))
        } else if full.contains(&normal(&self.fixed.sandbox)) {
            Some(Kept::Sandbox)
        } else if full.iter().any(|name| self.fixed.preloaded.contains(name)) {
            Some(Kept::Preloaded)
        } else if pins.iter().any(|pin| pin.fits(&image.id, names.iter().copied().chain(&full))) {
            Some(Kept::Pinned)
        } else if !self.wants.heard {
            Some(Kept::Unheard)
        } else if self.wants.gives_up(&full) {
            None
        } else {
            young()
        };
        Judged { image, kept, record }
    }
}

/// The ids of intermediate images of builds: without a name, and others were made from them. Docker lists them only when
/// asked to, and removes them with the last of those others.
#[must_use]
pub fn links(images: &[ImageSummary]) -> Set<String> {
    let parents = order::set(images.iter().map(|image| image.parent.as_str()));
    let is_link =
        |image: &&ImageSummary| image.names().next().is_none() && parents.contains(image.id.as_str());
    order::set(images.iter().filter(is_link).map(|image| image.id.clone()))
}

/// Keeps what an image that stays was made from, and so on; names the image at the end of `links`.
fn keep_parents(all: &mut [Judged], links: &Set<String>) {
    let mut found: Vec<usize> =
        (0..all.len()).filter(|at| all.get(*at).is_some_and(|it| it.kept.is_some())).collect();
    while let Some(child) = found.pop().and_then(|at| all.get(at)).map(|it| it.image.clone()) {
        let is_parent = |it: &Judged| it.kept.is_none() && it.image.id == child.parent;
        if let Some(at) = all.iter().position(is_parent) {
            let through = all.iter().find(|it| it.image.id == child.id && links.contains(&child.id));
            let kept = match through.and_then(|it| it.kept.clone()) {
                Some(Kept::Parent(of)) => Kept::Parent(of),
                _ => Kept::Parent(short_ids(child.names().next().unwrap_or(&child.id))),
            };
            if let Some(parent) = all.get_mut(at) {
                parent.kept = Some(kept);
            }
            found.push(at);
        }
    }
}

/// All full names of an image, and its id. An image that Podman has built is `localhost/NAME`; a reference to `NAME`
/// alone means it, too.
#[must_use]
pub fn full_names(image: &ImageSummary) -> Set<String> {
    let names = image.tags.iter().chain(&image.digests);
    let of = |name: &String| [Some(normal(name)), name.strip_prefix("localhost/").map(normal)];
    order::set(names.flat_map(of).flatten().chain([image.id.clone()]))
}

impl Judged {
    /// Whether the image was unused for longer than this, if it is not zero.
    #[must_use]
    pub fn is_older(&self, max_age: Duration, now: Moment) -> bool {
        let unused = |record: Record| now.up.saturating_sub(record.unused_up);
        !max_age.is_zero() && self.record.is_some_and(|record| unused(record) > max_age)
    }
}

/// One container of each image by name: a running one before a dead one, pods of this root directory before those of
/// another podkeeper, and these before other containers.
fn users<'a>(containers: &'a [ContainerSummary], root_dir: &str) -> Table<&'a str, String> {
    let mut users: Table<&str, String> = Table::new();
    for rank in 0..3 {
        for container in containers {
            let label = |name| container.labels.get(name);
            let pod = label(labels::ROOT_DIR).zip(label(labels::POD_NAMESPACE)).zip(label(labels::POD_NAME));
            let (of, user) = match pod {
                Some(((root, namespace), name)) if root == root_dir => (0, format!("pod {namespace}/{name}")),
                Some(((root, namespace), name)) => {
                    (1, format!("pod {namespace}/{name} of another podkeeper (--root-dir {root})"))
                }
                None => (2, format!("container {}", short_ids(&container.name))),
            };
            if of == rank {
                users.get_or_insert_with(container.image_id.as_str(), || user);
            }
        }
    }
    users
}

#[cfg(test)]
pub(crate) mod tests;
