//! The removal of one image, call by call. Pure.
//!
//! An image is removed by its id, which identifies it even if its names have moved, and which Docker refuses to remove
//! while a container of it exists. Only if it has several names, they are removed one by one: Docker checks for
//! containers only at the last name, so they are checked here.

use crate::runtime::{Call, DockerError, ImageSummary, RefusalKind, Reply};

/// An image that is being removed.
#[derive(Debug, Clone)]
pub struct Removal {
    image: ImageSummary,
    stage: Stage,
    /// Tags that were removed.
    taken: Vec<String>,
    /// Of these, only those are left that no other image has got since.
    are_free: bool,
}

#[derive(Debug, Clone)]
enum Stage {
    /// Remove the whole image.
    Whole,
    /// List the containers made from it.
    Users,
    /// Check whether this name still belongs to the image: in a list, because an inspect shows all of its configuration,
    /// which may be too long to be read. The second field has the names that follow, the next one last.
    Check(String, Vec<String>),
    /// Remove this name.
    Name(String, Vec<String>),
    /// Remove the image, with its last name.
    Last,
}

impl Removal {
    /// A removal before its first call.
    #[must_use]
    pub fn new(image: ImageSummary) -> Removal {
        Removal { image, stage: Stage::Whole, taken: Vec::new(), are_free: false }
    }

    /// The image that is being removed.
    #[must_use]
    pub fn image(&self) -> &ImageSummary {
        &self.image
    }

    /// The call to send to Docker now.
    #[must_use]
    pub fn call(&self) -> Call {
        match &self.stage {
            Stage::Whole | Stage::Last => Call::ImageRemove { image: self.image.id.clone() },
            Stage::Users => Call::List { labels: Vec::new() },
            Stage::Check(..) => Call::ImageList { all: false },
            Stage::Name(name, _) => Call::ImageRemove { image: name.clone() },
        }
    }

    /// The next call to give removed tags back, of an image that stays after all: Docker checks for containers only at the
    /// last name, so a pod may have started by another one. `None`: it has all of its tags, or others have them.
    pub fn give_back(&mut self) -> Option<Call> {
        if !self.are_free && !self.taken.is_empty() {
            return Some(Call::ImageList { all: false });
        }
        let name = self.taken.pop()?;
        Some(Call::ImageTag { image: self.image.id.clone(), name })
    }

    /// Takes Docker's answer to such a call. A tag that another image has got meanwhile stays there.
    pub fn given_back(&mut self, answer: Result<Reply, DockerError>) {
        if std::mem::replace(&mut self.are_free, true) {
            // Without the tag the image is still there.
            return;
        }
        match answer.and_then(Reply::images) {
            Ok(images) => self.taken.retain(|tag| !images.iter().any(|image| image.tags.contains(tag))),
            Err(_) => self.taken.clear(),
        }
    }

    /// Takes Docker's answer. Returns `None` if another call follows; otherwise whether the image existed until now.
    ///
    /// # Errors
    /// Errors of Docker; a container of the image exists by now.
    pub fn answer(&mut self, answer: Result<Reply, DockerError>) -> Option<Result<bool, DockerError>> {
        self.go_on(answer).transpose()
    }

    fn go_on(&mut self, answer: Result<Reply, DockerError>) -> Result<Option<bool>, DockerError> {
        let names = || self.image.names().rev().cloned().collect();
        self.stage = match (&mut self.stage, answer) {
            (Stage::Whole, Err(error)) if error.refusal() == Some(&RefusalKind::SeveralNames) => Stage::Users,
            (Stage::Whole, answer) => return is_removed(answer).map(Some),
            (Stage::Last, answer) => return is_removed(answer).map(|_| Some(true)),
            (Stage::Users, answer) => {
                let containers = answer?.containers()?;
                if let Some(user) = containers.iter().find(|it| it.image_id == self.image.id) {
                    let message = format!("container {} is made of it by now", user.name);
                    return Err(DockerError::BadAnswer(message));
                }
                after(names())
            }
            // The name may belong to another image by now.
            (Stage::Check(name, left), answer) => {
                let mut images = answer?.images()?.into_iter();
                let is_it = |it: &ImageSummary| it.id == self.image.id && it.names().any(|of| of == name);
                match images.any(|it| is_it(&it)) {
                    true => Stage::Name(std::mem::take(name), std::mem::take(left)),
                    false => after(std::mem::take(left)),
                }
            }
            (Stage::Name(name, left), answer) => {
                is_removed(answer)?;
                self.taken.extend(Some(std::mem::take(name)).filter(|name| self.image.tags.contains(name)));
                after(std::mem::take(left))
            }
        };
        Ok(None)
    }
}

/// The next of these names, the last one first.
fn after(mut names: Vec<String>) -> Stage {
    match names.pop() {
        Some(name) => Stage::Check(name, names),
        None => Stage::Last,
    }
}

/// Returns false if the image was gone already.
fn is_removed(answer: Result<Reply, DockerError>) -> Result<bool, DockerError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => Ok(false),
        Err(error) => Err(error),
    }
}
