//! Images: which image must exist before a container is made, the results of pulls, and images that arrive in other
//! ways. The pulls themselves are in `pulls`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;

use crate::base::clock::Now;
use crate::base::limits;
use crate::image::credentials::{DockerConfig, lookup};
use crate::image::grants;
use crate::image::pull_secrets::{self, PullSecrets};
use crate::image::{failure, reference};
use crate::machine::Machine;
use crate::machine::mailbox::{PullOutcome, Pulled};
use crate::machine::members::{ImageState, Part};
use crate::machine::output::{Output, PullRequest};
use crate::machine::start::pulls::{Asker, Failure};
use crate::machine::state::State;
use crate::plan::backoff;
use crate::pod::object::{Objects, secrets};
use crate::pod::waiting::Reason;
use crate::pod::{DesiredPod, Source};
use crate::recorder::words;
use crate::status::WaitingReason;

impl Machine {
    /// Requests the image of this attempt, if necessary; returns true if it may be used. The create itself finds out
    /// whether it is missing, so that a start with the image in place costs no extra call.
    pub(in crate::machine) fn ask_image(
        &mut self,
        pod: &Arc<DesiredPod>,
        container: &Container,
        attempt: u32,
        now: &Now,
    ) -> bool {
        let Some(image) = container.image.as_deref() else { return false };
        if self.images.is_pulling(image) || self.refuse_bad_image_name(&container.name, image) {
            return false;
        }
        let known = self.members.get(&container.name).image;
        if matches!(known, ImageState::Ensured { attempt: of, .. } if of == attempt) {
            return true;
        }
        let anothers = self.is_anothers(pod, image);
        if container.image_pull_policy.as_deref() == Some("Never") {
            if anothers {
                if self.node.grants.is_unknown(image) {
                    // Only Docker knows whether the image was loaded.
                    self.out.push(Output::Missing(image.to_owned()));
                }
                self.never_there(container, now);
            }
            // The image may be loaded meanwhile: the create tries again, more and more rarely.
            return !anothers;
        }
        if self.await_pull_again(pod, Some(&container.name), image, now) {
            return false;
        }
        let always = container.image_pull_policy.as_deref() == Some("Always");
        if !always && !anothers && known != ImageState::Missing {
            return true;
        }
        let asker = Asker { container: container.name.clone(), pod: Arc::clone(pod) };
        self.images.begin(image, Some(asker), now);
        let (image, credentials) = (image.to_owned(), self.pull_credentials(pod));
        self.tell(Some(&container.name), words::pulling(&image));
        let request = PullRequest {
            image,
            builtin: false,
            local_copy_will_do: always,
            credentials,
            source: pod.source,
        };
        self.out.push(Output::Pull(request));
        false
    }

    /// Shows on the container how long it waits after a failed pull. Returns true while it waits.
    pub(in crate::machine) fn await_pull_again(
        &mut self,
        pod: &Arc<DesiredPod>,
        container: Option<&str>,
        image: &str,
        now: &Now,
    ) -> bool {
        let Some(Failure { at, reason, message, until, delay }) = self.images.held_back(image, now) else {
            return false;
        };
        // As in the kubelet, the error itself is shown first, and then the back-off.
        let turn = at.after(delay / 2);
        let (reason, message, backs_off) = if now.mono < turn {
            self.out.wake_at(turn);
            (reason, message, None)
        } else {
            let message = backoff::pull_message(image, Some((reason.as_str(), &message)));
            (Reason::ImagePullBackOff, message, Some(words::pull_backs_off(image)))
        };
        match container {
            Some(name) => {
                let told = backs_off.into_iter().chain([words::error(reason.as_str())]);
                self.wait_for(name, reason, &message, told);
            }
            None => {
                let message = format!("sandbox image {image:?}: {message}");
                if self.sandbox_problem(pod, &message) {
                    self.tell(None, words::sandbox_failed(&message));
                }
            }
        }
        self.out.wake_at(until);
        true
    }

    /// Handles a create of this container that was refused because its image is missing.
    pub(in crate::machine) fn image_missing(&mut self, container: &Container, now: &Now) {
        let image = container.image.as_deref().unwrap_or_default();
        // The image that was inspected is gone, too.
        let member = self.members.get_mut(&container.name);
        member.image_user = None;
        if member.forget_ensured() {
            // It was pulled for this very attempt, and Docker still does not find it.
            self.retry_later(&Part::container(&container.name), now);
        }
        if container.image_pull_policy.as_deref() == Some("Never") {
            self.out.push(Output::Missing(image.to_owned()));
            self.never_there(container, now);
            return;
        }
        self.members.get_mut(&container.name).image = ImageState::Missing;
    }

    /// Handles an image that is not here for this pod and may not be pulled.
    fn never_there(&mut self, container: &Container, now: &Now) {
        let image = container.image.as_deref().unwrap_or_default();
        let message = match self.node.grants.is_unknown(image) {
            false => format!("Container image {image:?} is not present with pull policy of Never"),
            true => format!(
                "Container image {image:?} is not present with pull policy of Never, or may be another pod's: which \
                 images came with secrets is not known, for {} in the root directory is damaged",
                grants::FILE
            ),
        };
        let told = [words::never_pulled(&message), words::error(Reason::ErrImageNeverPull.as_str())];
        self.failed(&container.name, Reason::ErrImageNeverPull, &message, told);
        self.retry_later(&Part::container(&container.name), now);
    }

    /// Whether another pod's secret pulled this image, and the registry has not yet allowed it to this pod.
    fn is_anothers(&self, pod: &DesiredPod, image: &str) -> bool {
        let grants = &self.node.grants;
        if !grants.needs_credentials(image) {
            return false;
        }
        let secrets = pull_secrets::of_pod(pod, &self.objects);
        let shown = lookup(image, secrets.configs.iter().map(|config| &**config));
        !grants.allows(image, &shown)
    }

    /// Loads or pulls the missing sandbox image.
    pub(in crate::machine) fn fetch_sandbox_image(&mut self, now: &Now) {
        let image = self.settings.map.infra_image.clone();
        if !self.images.is_pulling(&image) {
            self.images.begin(&image, None, now);
            let builtin = self.settings.builtin_sandbox;
            let source = self.state.pod().map_or(Source::File, |pod| pod.source);
            self.out.push(Output::Pull(PullRequest::plain(image, builtin, source)));
        }
    }

    pub(in crate::machine) fn pulled(&mut self, pulled: Pulled, now: &Now) {
        let Pulled { image, outcome, took, size } = pulled;
        let Some((asker, since)) = self.images.end(&image) else { return };
        if let (Some(asker), Some(pod)) = (&asker, self.state.pod())
            && (pod.uid != asker.pod.uid || pod.spec.image_pull_secrets != asker.pod.spec.image_pull_secrets)
        {
            // It was pulled with the secrets of an earlier version: whether this one may use it is asked anew.
            return;
        }
        let container = asker.as_ref().map(|asker| asker.container.as_str());
        match outcome {
            PullOutcome::Done | PullOutcome::LocalCopy(_) => {
                if let Some(name) = container {
                    let waited = now.mono.since(since);
                    let told = match &outcome {
                        PullOutcome::LocalCopy(why) => words::local_copy(&image, why),
                        _ => words::pulled(&image, took, waited, size),
                    };
                    self.tell(Some(name), told);
                }
                let told = container.filter(|_| outcome == PullOutcome::Done);
                self.image_arrived(&image, told);
            }
            PullOutcome::Failed(why) => {
                match container {
                    Some(name) => self.tell(Some(name), words::pull_failed(&image, &why)),
                    None => {
                        let why = format!("failed pulling image {image:?}: {why}");
                        self.tell(None, words::sandbox_failed(&why));
                    }
                }
                // Without a registry the image may be loaded by hand: the next create finds out.
                if let State::Syncing(pod) = &self.state {
                    let users = pod.containers().filter(|(_, c)| c.image.as_deref() == Some(&image));
                    for (_, container) in users {
                        self.members.get_mut(&container.name).forget_missing();
                    }
                }
                self.images.failed(&image, &why, now);
            }
        }
    }

    /// Allows every container of this image for its next attempt. The event was emitted for the container `told`.
    fn image_arrived(&mut self, image: &str, told: Option<&str>) {
        let State::Syncing(pod) = self.state.clone() else { return };
        if image == self.settings.map.infra_image {
            let ensured = ImageState::Ensured { attempt: 0, told: true };
            self.members.sandbox.image = ensured;
        }
        for (_, container) in pod.containers().filter(|(_, c)| c.image.as_deref() == Some(image)) {
            let name = &container.name;
            let attempt = self.next_attempt(&pod, name);
            let member = self.members.get_mut(name);
            member.image = ImageState::Ensured { attempt, told: told == Some(name) };
            member.waiting = None;
        }
    }

    /// Shows the progress of a pull on the containers that wait for it, but only on those that never ran: one that
    /// ended shows its end until it runs again.
    pub(in crate::machine) fn pull_progress(&mut self, image: &str, words: &str) {
        let State::Syncing(pod) = self.state.clone() else { return };
        if words.is_empty() || !self.images.is_pulling(image) {
            return;
        }
        let reason = Reason::of_start(!pod.init_containers().is_empty());
        for (_, container) in pod.containers().filter(|(_, c)| c.image.as_deref() == Some(image)) {
            if self.containers.current().newest(&pod.uid, &container.name).is_none() {
                let message = format!("pulling image {image:?}: {words}");
                let waiting = WaitingReason { reason, message };
                self.members.get_mut(&container.name).waiting = Some(waiting);
            }
        }
    }

    /// Handles images (by full name) that arrived without a pull of ours: containers that waited for them continue at
    /// once, without a back-off.
    pub(in crate::machine) fn images_came(&mut self, came: &[String]) {
        let State::Syncing(pod) = self.state.clone() else { return };
        let is_here = |image: &str| came.contains(&reference::normal(image));
        let infra = self.settings.map.infra_image.clone();
        if is_here(&infra) {
            self.images.end(&infra);
            self.forget_pull_failure(&infra);
            self.members.sandbox.create_retry = None;
        }
        for (_, container) in pod.containers() {
            let Some(image) = container.image.as_deref().filter(|image| is_here(image)) else { continue };
            self.forget_pull_failure(image);
            let member = self.members.get_mut(&container.name);
            member.image_user = None;
            // A container with policy Always still has to ask the registry, and may then use the local image.
            if container.image_pull_policy.as_deref() != Some("Always") {
                self.images.end(image);
                member.forget_missing();
            }
            if member.waits_for(Reason::ErrImageNeverPull)
                || member.waits_for(Reason::CreateContainerConfigError)
            {
                member.create_retry = None;
            }
            member.waiting = None;
        }
    }

    /// Ends all back-offs of images, on the operator's request.
    pub(in crate::machine) fn try_images_again(&mut self) {
        self.images.forget_failures();
        for member in self.members.values_mut() {
            if [Reason::ErrImageNeverPull, Reason::CreateContainerConfigError, Reason::ImageInspectError]
                .iter()
                .any(|reason| member.waits_for(*reason))
            {
                member.create_retry = None;
            }
        }
        self.members.sandbox.create_retry = None;
    }

    /// The credentials of the pod's own secrets; errors in them are reported with each pull.
    pub(in crate::machine) fn pull_credentials(&mut self, pod: &DesiredPod) -> Vec<Arc<DockerConfig>> {
        let PullSecrets { configs, problems } = pull_secrets::of_pod(pod, &self.objects);
        for problem in problems {
            self.tell(None, words::pull_secrets(&problem));
        }
        configs
    }

    /// Takes new objects. If they change the credentials, a failed pull is retried at once.
    pub(in crate::machine) fn take_objects(&mut self, objects: Arc<Objects>) {
        let before = std::mem::replace(&mut self.objects, objects);
        // One without other values of Secrets would take the place of one with them.
        if secrets(&before).any(|secret| !secrets(&self.objects).any(|now| now == secret)) {
            self.told.objects.push(Arc::clone(&before));
        }
        let most = self.told.objects.len().saturating_sub(limits::OBJECTS_BEFORE);
        self.told.objects.drain(..most);
        let State::Syncing(pod) = &self.state else { return };
        self.volumes.objects_changed(pod);
        if pull_secrets::of_pod(pod, &before).configs != pull_secrets::of_pod(pod, &self.objects).configs {
            self.images.forget_failures();
        }
    }

    fn forget_pull_failure(&mut self, image: &str) {
        self.images.keep_failures(|other| other != image);
    }

    /// Shows an invalid image name on the container, which only an edit corrects. Returns true if it is invalid.
    pub(in crate::machine) fn refuse_bad_image_name(&mut self, container: &str, image: &str) -> bool {
        let Err(why) = reference::Reference::parse(image) else { return false };
        let message = failure::invalid_name(image, &why);
        let told = [words::bad_image_name(image, &why), words::error(Reason::InvalidImageName.as_str())];
        self.wait_for(container, Reason::InvalidImageName, &message, told);
        true
    }
}
