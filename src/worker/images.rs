//! What a machine hears about images besides the end of its own pulls: how far one is, and that one has
//! come by another way.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::machine::Machine;
use super::state::State;
use crate::image::credentials::DockerConfig;
use crate::image::pull_secrets::{self, PullSecrets};
use crate::image::{failure, reference};
use crate::object::Objects;
use crate::plan::backoff::Backoff;
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::labels;
use crate::status::WaitingReason;

/// Waiting reason (spec/03 section 8): nobody may pull what is not there.
pub(super) const NEVER_PULL: &str = "ErrImageNeverPull";

impl Machine {
    /// A pull is under way: the containers that wait for it say how far it is. Only those that never ran:
    /// one that ended shows its end until it runs again.
    pub(super) fn pull_progress(&mut self, image: &str, words: &str) {
        let State::Syncing(pod) = self.state.clone() else { return };
        if words.is_empty() || !self.pulling.contains_key(image) {
            return;
        }
        let reason = if pod.init_containers().is_empty() { "ContainerCreating" } else { "PodInitializing" };
        for (_, container) in pod.containers().filter(|(_, c)| c.image.as_deref() == Some(image)) {
            if self.seen.newest(&pod.uid, &container.name).is_none() {
                let message = format!("pulling image {image:?}: {words}");
                let waiting = WaitingReason { reason: reason.to_owned(), message };
                self.waiting.insert(container.name.clone(), waiting);
            }
        }
    }

    /// These images (in full) have come without a pull of ours: what waited for them goes on at once, not
    /// after a back-off.
    pub(super) fn images_came(&mut self, came: &BTreeSet<String>) {
        let State::Syncing(pod) = self.state.clone() else { return };
        let is_here = |image: &str| came.contains(&reference::normal(image));
        let infra = self.settings.map.infra_image.clone();
        if is_here(&infra) {
            self.pulling.remove(&infra);
            self.forget_pull_failure(&infra);
            self.create_retry.remove(labels::SANDBOX_NAME);
        }
        for (_, container) in pod.containers() {
            let Some(image) = container.image.as_deref().filter(|image| is_here(image)) else { continue };
            self.forget_pull_failure(image);
            self.image_users.remove(&container.name);
            // Who must have the registry's word waits for it, and may then use what is here.
            if container.image_pull_policy.as_deref() != Some("Always") {
                self.pulling.remove(image);
                self.missing.remove(&container.name);
            }
            if self.waiting.get(&container.name).is_some_and(|why| why.reason == NEVER_PULL) {
                self.create_retry.remove(&container.name);
            }
            self.waiting.remove(&container.name);
        }
    }

    /// The credentials of the pod's own secrets; what is wrong with them is told with each pull.
    pub(super) fn pull_credentials(&mut self, pod: &DesiredPod) -> Vec<Arc<DockerConfig>> {
        let PullSecrets { configs, problems } = pull_secrets::of_pod(pod, &self.objects);
        for problem in problems {
            self.tell(None, words::pull_secrets(&problem));
        }
        configs
    }

    /// Other objects are in force. With other credentials, a pull that failed is tried at once.
    pub(super) fn take_objects(&mut self, objects: Arc<Objects>) {
        let before = std::mem::replace(&mut self.objects, objects);
        let State::Syncing(pod) = &self.state else { return };
        self.volumes.objects_changed(pod);
        if pull_secrets::of_pod(pod, &before).configs != pull_secrets::of_pod(pod, &self.objects).configs {
            self.pulls = Backoff::pulls();
            self.pull_failures.clear();
        }
    }

    fn forget_pull_failure(&mut self, image: &str) {
        self.pull_failures.remove(image);
        self.pulls.retain(|other| other != image);
    }

    /// The image's name is none: nothing but an edit helps. Says so on the container.
    pub(super) fn is_no_image(&mut self, container: &str, image: &str) -> bool {
        let Err(why) = reference::Reference::parse(image) else { return false };
        let message = failure::invalid_name(image, &why);
        let told = [words::bad_image_name(image, &why), words::error(failure::INVALID_IMAGE_NAME)];
        self.wait_for(container, failure::INVALID_IMAGE_NAME, &message, told);
        true
    }
}
