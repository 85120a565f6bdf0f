//! Images that were refused for their configuration, for a moment: many containers that want the same image are answered
//! by one inspect, because each costs Docker several times the image's configuration.
//!
//! Never here: that an image is good. It may be another one by the next create.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::container_records::ContainerRecords;
use super::node::NodeCells;
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::limits;
use crate::base::table::Table;
use crate::image::configuration;
use crate::pod::Source;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, Reply};

/// The judging of images outside of pods' own threads: one at a time, in addition to those of the pods' gate.
#[derive(Debug, Clone)]
pub struct Judging {
    judged: Judged,
    records: ContainerRecords,
    clock: System,
    turn: Arc<Mutex<()>>,
}

impl Judging {
    /// It shares what the pods' threads know.
    #[must_use]
    pub fn new(node: &NodeCells, clock: System) -> Judging {
        let (judged, records) = (node.judged.clone(), node.container_records.clone());
        Judging { judged, records, clock, turn: Arc::default() }
    }

    /// Docker's answer about the image, when it is its turn. A Docker that hangs lets the turn pass at the call's deadline.
    ///
    /// # Errors
    /// Docker's.
    pub fn inspect(&self, docker: &Docker, image: &str) -> Result<Reply, DockerError> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = self.judged.refused(image, self.clock.now().mono) {
            return answer;
        }
        let answer = docker.call(&Call::ImageInspect { image: image.to_owned() });
        self.judged.note(image, &answer, self.clock.now().mono);
        drop(turn);
        answer
    }

    /// See [`ContainerRecords`]: admits a container for this source, of which Docker records so many bytes.
    ///
    /// # Errors
    /// The reason why it is not made now.
    pub fn admit(&self, source: Source, recorded: usize) -> Result<(), DockerError> {
        self.records.admit(source, recorded, self.clock.now().mono)
    }
}

type Answer = Result<Reply, DockerError>;

/// The refused images. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Judged(Arc<Mutex<Table<String, (Mono, Answer)>>>);

impl Judged {
    /// Docker's answer about an image that was refused a moment ago.
    pub(super) fn refused(&self, image: &str, now: Mono) -> Option<Answer> {
        let refused = self.lock();
        refused.get(image).filter(|(until, _)| now < *until).map(|(_, answer)| answer.clone())
    }

    /// Takes Docker's answer about an image, and remembers it if it is a reason to refuse the image.
    pub(super) fn note(&self, image: &str, answer: &Answer, now: Mono) {
        let of_image = match answer {
            Ok(Reply::Image(detail)) => Ok(detail.clone()),
            Ok(_) => return,
            Err(error) => Err(error.clone()),
        };
        if configuration::refusal(image, &of_image).is_none() {
            return;
        }
        let mut refused = self.lock();
        refused.retain(|_, (until, _)| now < *until);
        if refused.len() < limits::REFUSED_IMAGES {
            refused.insert(image.to_owned(), (now.after(limits::REFUSED_FOR), answer.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table<String, (Mono, Answer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::ImageDetail;

    /// 640 containers of an image of 5 MB of labels held up the other pods of the source for five minutes.
    #[test]
    fn the_refusal_of_an_image_answers_all_who_ask_for_a_moment() {
        let judged = Judged::default();
        let at = |seconds| Mono(std::time::Duration::from_secs(seconds));
        let image = |configuration| Ok(Reply::Image(ImageDetail { configuration, ..ImageDetail::default() }));
        let too_large = || Err(DockerError::TooLarge("GET /images/b/json".into()));
        judged.note("good", &image(limits::IMAGE_CONFIGURATION), at(1));
        judged.note("late", &Err(DockerError::Timeout("GET /images/late/json".into())), at(1));
        judged.note("large", &image(limits::IMAGE_CONFIGURATION + 1), at(1));
        judged.note("larger", &too_large(), at(5));
        let known = |now| ["good", "late", "large", "larger"].map(|image| judged.refused(image, at(now)));
        assert_eq!(known(30), [None, None, Some(image(limits::IMAGE_CONFIGURATION + 1)), Some(too_large())]);
        assert_eq!(known(32), [None, None, None, Some(too_large())]);
        for n in 0..1000 {
            judged.note(&n.to_string(), &too_large(), at(40));
        }
        assert_eq!(judged.lock().len(), limits::REFUSED_IMAGES);
        assert_eq!(judged.refused("0", at(41)), Some(too_large()));
    }
}
