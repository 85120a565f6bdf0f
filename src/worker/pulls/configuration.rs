//! Judges an image that a pull brings by the size of its configuration. Until then it must not count as being there for
//! pods of sources behind others.

use super::{Pulls, Shared};
use crate::base::limits;
use crate::image::configuration;
use crate::image::fetch::PullError;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, ImageDetail, Refusal, RefusalKind};

/// Removes a pulled image again whose configuration is too large, or that Docker does not show in time although it
/// answers otherwise: each list of images would take as long, and no image would be collected any more. Without any answer
/// it stays: it is judged again before a container is made of it for a pod of a source behind others. One that was `here`
/// before the pull is not removed for being late: Docker may be busy.
///
/// # Errors
/// It is removed.
pub(super) fn check(docker: &Docker, image: &str, here: bool) -> Result<(), PullError> {
    let mut answer = docker.inspect_image(image);
    for _ in 1..limits::JUDGED_TIMES {
        if !is_late(&answer) {
            break;
        }
        answer = docker.inspect_image(image);
    }
    let late = || {
        let answers = !here && is_late(&answer) && docker.call(&Call::Info).is_ok();
        let times = limits::JUDGED_TIMES;
        answers.then(|| format!("Docker did not show the configuration of image {image} in time, {times} times: it is not used"))
    };
    let Some(why) = configuration::refusal(image, &answer).or_else(late) else { return Ok(()) };
    // Where something uses it, it stays, and the next pull is refused as this one is.
    _ = docker.call(&Call::ImageRemove { image: image.to_owned() });
    Err(PullError::Answered(why))
}

fn is_late(answer: &Result<ImageDetail, DockerError>) -> bool {
    matches!(answer, Err(DockerError::Timeout(_)))
}

impl Shared {
    /// Whether Docker has no such image, by its own words: one that it does not show in time may be there.
    pub(super) fn is_new(&self, image: &str) -> bool {
        let is_missing = |error: DockerError| error.refusal() == Some(&RefusalKind::NoSuchImage);
        self.docker.inspect_image(image).is_err_and(is_missing)
    }
}

impl Pulls {
    /// The answer for an image that is new, and that a pull is bringing: it is missing, so that the pod waits for the pull and what is said
    /// of it. Many pods that asked Docker for a large one at that moment took its memory.
    pub(in crate::worker) fn unjudged(&self, image: &str) -> Option<DockerError> {
        let message = format!("image {image} is being pulled");
        let missing = || DockerError::Refused(Refusal { kind: RefusalKind::NoSuchImage, status: 0, message });
        self.shared.queue().brings(image).then(missing)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::clock::{Mono, System};
    use crate::runtime::fake::{Fake, Fault, FaultPlan};

    const FOREVER: Mono = Mono(std::time::Duration::from_secs(1 << 40));

    fn left(fake: &Fake) -> usize {
        fake.with(|state| state.faults = FaultPlan::none());
        Docker::Fake(fake.clone()).call(&Call::ImageList { all: false }).unwrap().images().unwrap().len()
    }

    fn pulled() -> Fake {
        let fake = Fake::new(Arc::new(System::start()), 1);
        fake.with(|state| drop(state.add_image("late:1", true)));
        fake
    }

    #[test]
    fn an_image_that_docker_never_shows_in_time_does_not_stay() {
        let fake = pulled();
        fake.with(|state| state.hang_image("late:1"));
        assert_eq!(check(&Docker::Fake(fake.clone()), "late:1", true).map_err(|_| ()), Ok(()));
        assert_eq!(left(&fake), 1, "it was here before");
        fake.with(|state| state.hang_image("late:1"));
        let why = check(&Docker::Fake(fake.clone()), "late:1", false).unwrap_err();
        assert!(
            matches!(&why, PullError::Answered(why) if why.contains("late:1 in time, 3 times")),
            "{why:?}"
        );
        assert_eq!(left(&fake), 0);
    }

    /// A Docker that hangs says nothing about the image.
    #[test]
    fn an_image_stays_when_docker_answers_nothing() {
        let fake = pulled();
        fake.with(|state| state.faults = FaultPlan::seeded(1, &[(Fault::Hang, 10_000)], FOREVER));
        assert_eq!(check(&Docker::Fake(fake.clone()), "late:1", false).map_err(|_| ()), Ok(()));
        assert_eq!(left(&fake), 1);
    }
}
