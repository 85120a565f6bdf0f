//! The removal of one image, call by call. Pure.
//!
//! By its id, which means no other image by the time that Docker hears of it, and which Docker refuses while a container
//! is made of it. Only of one that has several names these are taken away one by one: Docker does not look for
//! containers before the last, so they are looked for here.

use crate::runtime::{Call, DockerError, ImageSummary, RefusalKind, Reply};

/// An image that is being removed.
#[derive(Debug, Clone)]
pub struct Removal {
    image: ImageSummary,
    stage: Stage,
}

#[derive(Debug, Clone)]
enum Stage {
    /// All of it.
    Whole,
    /// Who is made of it by now?
    Users,
    /// Is this name still its own? Those that follow, the next one last.
    Inspect(String, Vec<String>),
    /// The name goes.
    Name(String, Vec<String>),
    /// With its last name it is gone.
    Last,
}

impl Removal {
    /// Nothing is asked yet.
    #[must_use]
    pub fn new(image: ImageSummary) -> Removal {
        Removal { image, stage: Stage::Whole }
    }

    /// What is removed.
    #[must_use]
    pub fn image(&self) -> &ImageSummary {
        &self.image
    }

    /// The call that Docker has to answer now.
    #[must_use]
    pub fn call(&self) -> Call {
        match &self.stage {
            Stage::Whole | Stage::Last => Call::ImageRemove { image: self.image.id.clone() },
            Stage::Users => Call::List { labels: Vec::new() },
            Stage::Inspect(name, _) => Call::ImageInspect { image: name.clone() },
            Stage::Name(name, _) => Call::ImageRemove { image: name.clone() },
        }
    }

    /// Docker's answer. `None`: another call follows; else whether the image was there until now.
    ///
    /// # Errors
    /// Docker's; a container is made of it by now.
    pub fn answer(&mut self, answer: Result<Reply, DockerError>) -> Option<Result<bool, DockerError>> {
        self.go_on(answer).transpose()
    }

    fn go_on(&mut self, answer: Result<Reply, DockerError>) -> Result<Option<bool>, DockerError> {
        let names = || self.image.tags.iter().chain(&self.image.digests).rev().cloned().collect();
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
            // It may be another image's by now.
            (Stage::Inspect(name, left), Ok(Reply::Image(detail))) if detail.id == self.image.id => {
                Stage::Name(std::mem::take(name), std::mem::take(left))
            }
            (Stage::Inspect(_, left), Ok(_)) => after(std::mem::take(left)),
            (Stage::Inspect(_, left), Err(error)) => match error.refusal() {
                Some(RefusalKind::NoSuchImage) => after(std::mem::take(left)),
                _ => return Err(error),
            },
            (Stage::Name(_, left), answer) => {
                is_removed(answer)?;
                after(std::mem::take(left))
            }
        };
        Ok(None)
    }
}

/// The next of these names, the last one first.
fn after(mut names: Vec<String>) -> Stage {
    match names.pop() {
        Some(name) => Stage::Inspect(name, names),
        None => Stage::Last,
    }
}

/// False when it was gone already.
fn is_removed(answer: Result<Reply, DockerError>) -> Result<bool, DockerError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => Ok(false),
        Err(error) => Err(error),
    }
}
