//! The user that a container runs as, when it depends on its image. Docker is asked once for each attempt about what
//! the manifest leaves open. A user that the kubelet refuses is refused until the image changes. Such a container is
//! made from the image's id, because a tag may move in between.
//!
//! For pods of sources behind others Docker is asked each time, and an image of a large configuration is refused. It may
//! be on the node however it came; one that a pull of this moment brings does not count as there until it is judged.

use crate::base::clock::Now;
use crate::image::configuration;
use crate::machine::Machine;
use crate::machine::calls::Job;
use crate::machine::members::Part;
use crate::machine::output::Output;
use crate::machine::state::State;
use crate::mapping::security::{self, User};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::recorder::words;
use crate::runtime::{Call, DockerError, ImageDetail, RefusalKind};
use k8s_openapi::api::core::v1::Container;

/// Docker's facts about a container's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::machine) struct ImageUser {
    attempt: u32,
    /// `sha256:…`.
    id: String,
    user: String,
    of_image: OfImage,
}

/// What each container of an image gets from it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::machine) struct OfImage {
    /// Bytes that Docker records.
    pub(in crate::machine) recorded: usize,
    /// Paths of volumes.
    pub(in crate::machine) volumes: Vec<String>,
}

/// The user and the image that a container is made with.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::machine) struct Identity {
    /// Docker's `User`.
    pub(in crate::machine) user: Option<String>,
    /// Id of the image that was inspected; `None` when it does not matter.
    pub(in crate::machine) image: Option<String>,
    /// Nothing when it was not inspected.
    pub(in crate::machine) of_image: OfImage,
}

impl Machine {
    /// The identity for this attempt; `None` while it waits for the image's user, or for another image or manifest.
    pub(in crate::machine) fn ask_identity(
        &mut self,
        pod: &DesiredPod,
        container: &Container,
        attempt: u32,
        now: &Now,
    ) -> Option<Identity> {
        let name = &container.name;
        let known = self.members.get(name).image_user.as_ref().filter(|known| known.attempt == attempt);
        let is_judged = known.is_some() || !self.is_judging(pod);
        match security::user(pod, container, known.map(|known| known.user.as_str())) {
            User::Is(user) if is_judged => {
                let of_image = known.map(|known| known.of_image.clone()).unwrap_or_default();
                Some(Identity { user, image: known.map(|known| known.id.clone()), of_image })
            }
            User::Refused(why) => {
                if known.is_some() {
                    // The image may be corrected under the same name: it is inspected again, and pulled again if that
                    // is the policy.
                    let member = self.members.get_mut(name);
                    member.image_user = None;
                    member.forget_ensured();
                    self.retry_later(&Part::container(name), now);
                }
                self.wait_for(name, Reason::CreateContainerConfigError, &why, [words::error(&why)]);
                None
            }
            User::Is(_) | User::AsksImage => {
                let asked = |j: &Job| matches!(j, Job::ImageUser { container, .. } if container == name);
                if !self.calls.any(asked) && !self.calls.is_full() {
                    let image = container.image.clone().unwrap_or_default();
                    let job = Job::ImageUser { container: name.clone(), image: image.clone(), attempt };
                    if self.is_judging(pod) {
                        let token = self.calls.begin(job);
                        self.out.push(Output::Judge(token, image));
                    } else {
                        self.call(job, Call::ImageInspect { image });
                    }
                }
                None
            }
        }
    }

    /// Whether the images of this pod's containers are judged before each create.
    pub(in crate::machine) fn is_judging(&self, pod: &DesiredPod) -> bool {
        self.settings.map.policies.evict_first(pod.source)
    }

    /// Takes the image's user, for this attempt of this container.
    pub(in crate::machine) fn image_user(
        &mut self,
        name: String,
        image: &str,
        attempt: u32,
        answer: Result<ImageDetail, DockerError>,
        now: &Now,
    ) {
        let State::Syncing(pod) = self.state.clone() else { return };
        // Another image may be wanted by now.
        let wanted = pod.container(&name).map(|(_, c)| c);
        let Some(container) = wanted.filter(|c| c.image.as_deref() == Some(image)) else { return };
        if let Some(why) = configuration::refusal(image, &answer).filter(|_| self.is_judging(&pod)) {
            // It may be pulled again, if that is the policy.
            self.members.get_mut(&name).forget_ensured();
            self.retry_later(&Part::container(&name), now);
            return self.failed(&name, Reason::ImageInspectError, &why, [words::error(&why)]);
        }
        match answer {
            Ok(detail) => {
                let of_image =
                    OfImage { recorded: configuration::recorded(&detail), volumes: detail.volumes };
                let known = ImageUser { attempt, id: detail.id, user: detail.user, of_image };
                self.members.get_mut(&name).image_user = Some(known);
            }
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => {
                self.image_missing(container, now);
            }
            Err(error) => {
                let message = format!("Failed to inspect image {image:?}: {error}");
                self.retry_later(&Part::container(&name), now);
                self.failed(&name, Reason::ImageInspectError, &message, [words::error(&message)]);
            }
        }
    }
}
