//! The images that the manifests in force need: each image that a wanted pod names is kept, even when its containers
//! are gone, ended or not created yet. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;

use super::images::full_names;
use crate::base::table::{Set, Table};
use crate::image::reference::normal;
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::runtime::ImageSummary;
use crate::status::snapshot::{PodView, Snapshot, SourceView, StatusFile};

/// Images and pods that are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wants {
    /// By full reference (or id as written): one pod that names the image.
    pub(super) images: BTreeMap<String, String>,
    /// Images of refused or evicted pods whose source is behind another one: when the disk is short, other pods must
    /// not be evicted for them.
    pub(super) given_up: Set<String>,
    /// Pods that are wanted or being stopped, `namespace/name`.
    pub pods: Set<String>,
    /// Whether every source has reported, or its last content was restored. Before that the wanted images are unknown,
    /// and no image is removed.
    pub heard: bool,
    /// Whether some source has not reported at all yet, not even a failure: more will be known soon.
    pub is_awaited: bool,
}

impl Wants {
    /// Wants by the daemon's own snapshot.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot) -> Wants {
        let mut wants = Wants::of_sources(&snapshot.sources);
        for view in &snapshot.pods {
            let key = view.pod.key.to_string();
            match view.status.phase.as_deref() == Some(FAILED) && is_behind(snapshot, view) {
                true => wants.give_up(&key, &view.pod.spec),
                false => wants.add(&key, &view.pod.spec),
            }
        }
        wants.add_more(&snapshot.also_wanted);
        wants
    }

    /// Wants by the status file of a daemon.
    #[must_use]
    pub fn of_file(file: &StatusFile) -> Wants {
        let mut wants = Wants::of_sources(&file.sources);
        for pod in &file.pods {
            let name = |name: &Option<String>| name.clone().unwrap_or_default();
            let key = format!("{}/{}", name(&pod.metadata.namespace), name(&pod.metadata.name));
            let Some(spec) = &pod.spec else { continue };
            let annotations = pod.metadata.annotations.as_ref();
            let source = annotations.and_then(|all| file.policies.get(all.get(CONFIG_SOURCE)?));
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            match phase == Some(FAILED) && source.is_some_and(|told| told.behind) {
                true => wants.give_up(&key, spec),
                false => wants.add(&key, spec),
            }
        }
        wants.add_more(&file.also_wanted);
        wants
    }

    /// A daemon has at least one source: an empty list means that it has not reported yet. If a source cannot be read
    /// and has no stored content, its wants are unknown: its containers may run on, and their images must stay for a
    /// restart.
    fn of_sources(sources: &[SourceView]) -> Wants {
        Wants {
            heard: !sources.is_empty() && sources.iter().all(SourceView::has_said),
            is_awaited: sources.is_empty() || sources.iter().any(SourceView::is_silent),
            ..Wants::default()
        }
    }

    /// Images of versions that do not run yet.
    fn add_more(&mut self, more: &Table<String, Set<String>>) {
        for (pod, image) in more.iter().flat_map(|(pod, images)| images.iter().map(move |image| (pod, image)))
        {
            self.images.entry(normal(image)).or_insert_with(|| pod.clone());
        }
    }

    pub(super) fn add(&mut self, pod: &str, spec: &PodSpec) {
        self.pods.insert(pod.to_owned());
        for image in images(spec) {
            self.images.entry(normal(image)).or_insert_with(|| pod.to_owned());
        }
    }

    fn give_up(&mut self, pod: &str, spec: &PodSpec) {
        self.pods.insert(pod.to_owned());
        self.given_up.extend(images(spec).map(normal));
    }

    /// Whether only pods that were given up name an image with one of these full names: its age does not protect it.
    #[must_use]
    pub fn gives_up(&self, names: &Set<String>) -> bool {
        names.iter().any(|name| self.given_up.contains(name))
    }

    /// Whether the image has to stay: a pod names it, or may name it, or it was preloaded. `preloaded`: the full names of
    /// preloaded images; `None` while they are not known.
    #[must_use]
    pub fn needs(&self, image: &ImageSummary, preloaded: Option<&Set<String>>) -> bool {
        let names = full_names(image);
        let is_preloaded = |all: &Set<String>| names.iter().any(|name| all.contains(name));
        !self.heard || preloaded.is_none_or(is_preloaded) || self.of(&image.id, &names).is_some()
    }

    /// A pod that names the image with this id and these full names. An image may be named by the beginning of its id.
    #[must_use]
    pub fn of(&self, id: &str, names: &Set<String>) -> Option<&str> {
        let named = names.iter().find_map(|name| self.images.get(name));
        let hex = id.strip_prefix("sha256:").unwrap_or(id);
        let by_id = || {
            let prefix = |name: &str| {
                let name = name.strip_prefix("sha256:").unwrap_or(name);
                // The stored name has the default registry added.
                let name = name.strip_prefix("docker.io/library/").unwrap_or(name);
                let name = name.strip_prefix("sha256:").unwrap_or(name);
                let name = name.strip_suffix(":latest").unwrap_or(name);
                name.len() >= SHORTEST && hex.starts_with(name)
            };
            self.images.iter().find_map(|(name, pod)| prefix(name).then_some(pod))
        };
        named.or_else(by_id).map(String::as_str)
    }
}

/// Images that containers of a pod name.
fn images(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let plain = containers.filter_map(|container| container.image.as_deref());
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    plain.chain(ephemeral.filter_map(|container| container.image.as_deref()))
}

/// Whether the pod's source is restricted to a stricter Pod Security level than another one.
pub(super) fn is_behind(snapshot: &Snapshot, view: &PodView) -> bool {
    snapshot.policies.get(view.pod.source.as_str()).is_some_and(|told| told.behind)
}

const FAILED: &str = "Failed";

/// Fewest digits of the beginning of an id that keep an image: as many as `docker images` prints. With fewer digits a
/// manifest could name all images.
const SHORTEST: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ImageSummary;

    fn wants(images: &[&str]) -> Wants {
        let containers: Vec<_> =
            images.iter().map(|i| serde_json::json!({ "name": "a", "image": i })).collect();
        let spec = serde_json::json!({ "containers": containers });
        let mut wants = Wants::default();
        wants.add("default/web", &serde_json::from_value(spec).unwrap());
        wants
    }

    #[test]
    fn an_image_is_wanted_by_whatever_name_a_pod_gives_it() {
        let id = format!("sha256:{}", "ab12".repeat(16));
        let digest = format!("r.io/a@sha256:{}", "cd".repeat(32));
        let image = ImageSummary {
            id: id.clone(),
            tags: vec!["r.io/a:1".into(), "busybox:latest".into()],
            digests: vec![digest.clone()],
            ..Default::default()
        };
        let names: Set<String> = image.tags.iter().chain(&image.digests).map(|n| normal(n)).collect();
        let by = |name: &str| wants(&[name]).of(&id, &names).map(str::to_owned);
        let tagged_digest = digest.replace('@', ":7@");
        for name in [
            "r.io/a:1",
            "busybox",
            "docker.io/library/busybox:latest",
            &digest,
            &tagged_digest,
            &id,
            &id[7..],
            &id[7..19],
            "ab12ab12ab12",
        ] {
            assert_eq!(by(name).as_deref(), Some("default/web"), "{name}");
        }
        for name in ["r.io/a:2", "r.io/a", "busybox:1", "ab1", "ab13ab12ab12", "not AN image"] {
            assert_eq!(by(name), None, "{name}");
        }
    }

    /// Regression: a URL of 1 MiB had room for the first four digits of most images, so that none was collected.
    #[test]
    fn a_few_digits_want_no_image() {
        let id = format!("sha256:{}", "ab12".repeat(16));
        for digits in ["ab12", "ab12ab12ab1", "sha256:ab12"] {
            assert_eq!(wants(&[digits]).of(&id, &Set::new()), None, "{digits}");
        }
    }

    /// Podman uses this name for an image that it has built, and accepts the name alone for it.
    #[test]
    fn what_podman_has_built_is_wanted_by_its_name_alone() {
        let image =
            |tag: &str| ImageSummary { id: "sha256:1".into(), tags: vec![tag.into()], ..Default::default() };
        let of = |wanted: &str, tag: &str| {
            let names = crate::garbage::images::full_names(&image(tag));
            wants(&[wanted]).of("sha256:1", &names).is_some()
        };
        assert!(of("app", "localhost/app:latest") && of("me/app:1", "localhost/me/app:1"));
        assert!(of("localhost/app", "localhost/app:latest"));
        assert!(!of("app:2", "localhost/app:1") && !of("app", "other/app:latest"));
    }

    #[test]
    fn nothing_is_known_before_every_source_has_spoken() {
        let view = |ready, restored, problem: Option<&str>| SourceView {
            ready,
            restored,
            problem: problem.map(str::to_owned),
            ..SourceView::silent("file")
        };
        let check = |sources: &[SourceView], heard: bool, is_awaited: bool| {
            let wants = Wants::of_sources(sources);
            assert_eq!((wants.heard, wants.is_awaited), (heard, is_awaited), "{sources:?}");
        };
        check(&[], false, true);
        check(&[view(true, false, None), view(false, true, Some("404"))], true, false);
        check(&[view(true, false, None), view(false, false, None)], false, true);
        // The source may have wanted any image, and may never be readable again.
        check(&[view(true, false, None), view(false, false, Some("404"))], false, false);
        check(&[view(false, false, None), view(false, false, Some("404"))], false, true);
    }

    #[test]
    fn every_kind_of_container_counts() {
        let spec = serde_json::json!({
            "containers": [{ "name": "a", "image": "a" }],
            "initContainers": [{ "name": "b", "image": "b" }],
            "ephemeralContainers": [{ "name": "c", "image": "c" }],
        });
        let mut wants = Wants::default();
        wants.add("default/web", &serde_json::from_value(spec).unwrap());
        let names: Vec<&str> = wants.images.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["docker.io/library/a:latest", "docker.io/library/b:latest", "docker.io/library/c:latest"]
        );
    }
}
