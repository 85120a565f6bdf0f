//! Sizes of images that only pods of sources behind others use here: sources with a stricter Pod Security level than
//! another source of the node. An image is no pod's file, and stays while a pod names it: a source that names large
//! images would fill the disk, and other sources' pods would be evicted for it. Pure.

use super::images::{Fixed, Policy, full_names};
use super::wants::{Wants, is_behind};
use crate::base::order;
use crate::base::table::{Set, Table};
use crate::image::reference::normal;
use crate::pod::is_final;
use crate::runtime::{ContainerSummary, ImageSummary, labels};
use crate::status::snapshot::Snapshot;

/// Sizes of images, bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// Bytes that would be freed with each pod, by UID.
    pub pods: Table<String, u64>,
    /// Bytes of images that only ended pods use, whose containers keep the images: no eviction frees them.
    pub ended: u64,
}

/// Divides the size of each image that could be removed with its pods among them. Layers that are shared with other
/// images count in full, because Docker does not tell them apart.
#[must_use]
pub fn of_pods(
    snapshot: &Snapshot,
    images: &[ImageSummary],
    containers: &[ContainerSummary],
    (fixed, policy): (&Fixed, &Policy),
) -> Shares {
    let mut shares = Shares::default();
    if !snapshot.pods.iter().any(|view| is_behind(snapshot, view)) {
        return shares;
    }
    let wants = snapshot.pods.iter().map(|view| {
        let mut wants = Wants::default();
        wants.add(&view.pod.key.to_string(), &view.pod.spec);
        (view, wants)
    });
    let wants: Vec<_> = wants.collect();
    for image in images {
        let names = full_names(image);
        if is_fixed(image, &names, fixed, policy) {
            continue;
        }
        let made = containers.iter().filter(|container| container.image_id == image.id);
        let users: Set<Option<String>> = order::set(made.map(pod_of));
        let is_more_wanted = |(pod, more): (&String, &Set<String>)| {
            let is_behind =
                wants.iter().any(|(view, _)| view.pod.key.to_string() == *pod && is_behind(snapshot, view));
            !is_behind && more.iter().any(|name| names.contains(&normal(name)))
        };
        if snapshot.also_wanted.iter().any(is_more_wanted) {
            continue;
        }
        let has = |key: &str, wants: &Wants| {
            wants.of(&image.id, &names).is_some() || users.contains(&Some(key.to_owned()))
        };
        let mut own = Vec::new();
        let mut left = users.clone();
        let mut is_anothers = false;
        for (view, wants) in &wants {
            let key = view.pod.key.to_string();
            if !has(&key, wants) {
                continue;
            }
            left.remove(&Some(key));
            is_anothers |= !is_behind(snapshot, view);
            if !is_final(view.status.phase.as_deref()) {
                own.push(view.pod.uid.clone());
            }
        }
        // A remaining container belongs to no known pod.
        if is_anothers || !left.is_empty() {
            continue;
        }
        let Some(share) = image.size.checked_div(own.len() as u64) else {
            let ended = if users.is_empty() { 0 } else { image.size };
            shares.ended = shares.ended.saturating_add(ended);
            continue;
        };
        for uid in own {
            let sum = shares.pods.get_or_default(uid);
            *sum = sum.saturating_add(share);
        }
    }
    shares
}

/// Whether the image stays, whatever the pods use.
fn is_fixed(image: &ImageSummary, names: &Set<String>, fixed: &Fixed, policy: &Policy) -> bool {
    let written = image.tags.iter().chain(&image.digests);
    names.contains(&normal(&fixed.sandbox))
        || names.iter().any(|name| fixed.preloaded.contains(name))
        || policy.pinned.iter().any(|pin| pin.fits(&image.id, written.clone().chain(names)))
}

/// `namespace/name` of the pod of a container.
fn pod_of(container: &ContainerSummary) -> Option<String> {
    let label = |name| container.labels.get(name).filter(|_| container.labels.contains_key(labels::ROOT_DIR));
    Some(format!("{}/{}", label(labels::POD_NAMESPACE)?, label(labels::POD_NAME)?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::garbage::images::tests::container;
    use crate::pod::{DesiredPod, Source};
    use crate::policy::PolicyView;
    use crate::status::file::tests::snapshot;
    use crate::status::snapshot::PodView;

    /// Regression: a pod with a large image filled the disk, counted as using nothing, and other pods were evicted.
    #[test]
    fn an_image_that_only_a_source_behind_others_has_counts_for_its_pods() {
        let mut node = snapshot();
        let template = node.pods[0].clone();
        let view = |name: &str, source, image: &str, phase: &str| {
            let mut pod = DesiredPod::clone(&template.pod);
            (pod.uid, pod.key.name, pod.source) = (name.to_owned(), name.to_owned(), source);
            let spec = serde_json::json!({"containers": [{"name": "app", "image": image}]});
            pod.spec = Arc::new(serde_json::from_value(spec).unwrap());
            let status = serde_json::from_value(serde_json::json!({ "phase": phase })).unwrap();
            PodView { pod: Arc::new(pod), status: Arc::new(status), ..template.clone() }
        };
        node.pods = vec![
            view("own", Source::File, "shared:1", "Running"),
            view("hog", Source::Http, "big:1", "Running"),
            view("also", Source::Http, "big:1", "Pending"),
            view("like", Source::Http, "shared:1", "Running"),
            view("refused", Source::Http, "named:1", "Failed"),
        ];
        node.also_wanted.clear();
        node.policies = [("http".to_owned(), PolicyView { behind: true, ..PolicyView::default() })].into();
        let image = |id: &str, name: &str, size| ImageSummary {
            id: id.into(),
            tags: vec![name.into()],
            size,
            ..Default::default()
        };
        let images = [
            image("sha256:1", "big:1", 100),
            image("sha256:2", "shared:1", 70),
            image("sha256:3", "named:1", 9),
        ];
        let (fixed, policy) = (Fixed::default(), Policy::default());
        let of = |node: &Snapshot, containers: &[ContainerSummary]| {
            let found = of_pods(node, &images, containers, (&fixed, &policy)).pods;
            found.into_iter().map(|(uid, bytes)| format!("{uid} {bytes}")).collect::<Vec<_>>()
        };
        assert_eq!(of(&node, &[]), ["also 50", "hog 50"]);
        assert_eq!(of(&node, &[container("stranger", "sha256:1")]), Vec::<String>::new(), "it would stay");
        // An image that the container of an ended pod keeps is no reason to evict another pod.
        let mut ended = container("hog", "sha256:1");
        let labels =
            [(labels::ROOT_DIR, "/r"), (labels::POD_NAMESPACE, "default"), (labels::POD_NAME, "hog")];
        ended.labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let mut past = node.clone();
        past.pods = vec![view("hog", Source::Http, "big:1", "Succeeded")];
        let shares = |node: &Snapshot| of_pods(node, &images, &[ended.clone()], (&fixed, &policy));
        assert_eq!(shares(&past), Shares { ended: 100, pods: Table::new() });
        assert_eq!(shares(&node).ended, 0);
        // Refused pods keep no image on a disk that is short.
        let wants = Wants::of_snapshot(&node);
        let names = |at: usize| full_names(&images[at]);
        assert!(wants.of("sha256:3", &names(2)).is_none() && wants.gives_up(&names(2)));
        assert!(wants.of("sha256:1", &names(0)).is_some() && !wants.gives_up(&names(0)));
        node.policies.clear();
        assert_eq!(of(&node, &[]), Vec::<String>::new(), "among equals files count");
        assert!(Wants::of_snapshot(&node).of("sha256:3", &names(2)).is_some());
    }
}
