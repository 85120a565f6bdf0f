//! The image thread: pulls one image after the other (`--serialize-image-pulls` of the kubelet) and loads
//! the built-in sandbox image. A worker asks, and finds the answer in its mailbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};

use super::machine::PullRequest;
use super::mailbox::{PullOutcome, Pulled};
use super::thread::Mailbox;
use crate::limits;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, RefusalKind, sandbox_image};

struct Ask {
    request: PullRequest,
    answer: Option<Arc<Mailbox>>,
}

/// Handle of the image thread; it ends when the last handle is gone.
#[derive(Clone)]
pub struct Pulls {
    queue: Sender<Ask>,
}

impl Pulls {
    /// Starts the thread. `progress`: a pull during which nothing moves for this long is given up.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn start(docker: Docker, progress: Duration) -> io::Result<Pulls> {
        let (queue, asked) = bounded(limits::PULL_QUEUE);
        let body = move || serve(&docker, progress, &asked);
        thread::Builder::new().name("pk-images".to_owned()).stack_size(limits::WORKER_STACK).spawn(body)?;
        Ok(Pulls { queue })
    }

    /// Asks for an image; never blocks. The answer comes into the mailbox.
    pub fn ask(&self, request: PullRequest, answer: Arc<Mailbox>) {
        let ask = Ask { request, answer: Some(answer) };
        if let Err(TrySendError::Full(ask) | TrySendError::Disconnected(ask)) = self.queue.try_send(ask) {
            reply(&ask, &PullOutcome::Failed("too many images are waiting to be pulled".to_owned()));
        }
    }

    /// Has the built-in sandbox image loaded ahead of the first pod.
    pub fn prepare_sandbox_image(&self) {
        let request =
            PullRequest { image: sandbox_image::image_name(), builtin: true, local_copy_will_do: false };
        // A full queue is no loss: the pod that misses the image asks again.
        _ = self.queue.try_send(Ask { request, answer: None });
    }
}

fn reply(ask: &Ask, outcome: &PullOutcome) {
    if let Some(mailbox) = &ask.answer {
        let pulled = Pulled { image: ask.request.image.clone(), outcome: outcome.clone() };
        mailbox.put(|slot| slot.pulled(pulled));
    }
}

fn serve(docker: &Docker, progress: Duration, asked: &Receiver<Ask>) {
    while let Ok(first) = asked.recv() {
        let mut waiting: BTreeMap<String, Vec<Ask>> = BTreeMap::new();
        let mut order = vec![first.request.image.clone()];
        waiting.entry(first.request.image.clone()).or_default().push(first);
        // Those who ask for the same image meanwhile get the same answer.
        while let Some(image) = order.first().cloned() {
            order.remove(0);
            let Some(request) = waiting.get(&image).and_then(|asks| asks.first()).map(|a| a.request.clone())
            else {
                continue;
            };
            let pulled = pull(docker, &request, progress);
            for ask in asked.try_iter() {
                let image = ask.request.image.clone();
                if !waiting.contains_key(&image) {
                    order.push(image.clone());
                }
                waiting.entry(image).or_default().push(ask);
            }
            // One pull, and each one's own answer: who may use an older copy gets it.
            let asks = waiting.remove(&image).unwrap_or_default();
            let lenient = asks.iter().any(|ask| ask.request.local_copy_will_do);
            let there = matches!(&pulled, Err(e) if lenient && !is_answer(e)) && present(docker, &image);
            for ask in asks {
                let outcome = match &pulled {
                    Ok(()) => PullOutcome::Done,
                    Err(error) if there && ask.request.local_copy_will_do => {
                        PullOutcome::LocalCopy(error.to_string())
                    }
                    Err(error) if ask.request.builtin => {
                        let why = format!("the built-in sandbox image could not be loaded: {error}");
                        PullOutcome::Failed(why)
                    }
                    Err(error) => PullOutcome::Failed(error.to_string()),
                };
                reply(&ask, &outcome);
            }
        }
    }
}

fn pull(docker: &Docker, request: &PullRequest, progress: Duration) -> Result<(), DockerError> {
    let wait = Wait::at_most(progress);
    if !request.builtin {
        return docker.pull(&request.image, None, &wait, &mut |_| ());
    }
    if present(docker, &request.image) {
        return Ok(());
    }
    docker.load(&mut sandbox_image::image_tar().as_slice(), &wait).map(drop)
}

fn present(docker: &Docker, image: &str) -> bool {
    docker.call(&Call::ImageInspect { image: image.to_owned() }).is_ok()
}

/// The registry itself said no: an older copy must not be used in its place. Everything else means that
/// it could not be asked (k3s-io/k3s#8781, kubeedge/kubeedge#4441).
fn is_answer(error: &DockerError) -> bool {
    const ANSWERS: [&str; 6] = [
        "manifest unknown",
        "not found",
        "unauthorized",
        "denied",
        "no matching manifest",
        "invalid reference",
    ];
    match error {
        DockerError::Refused(refusal) => {
            let message = refusal.message.to_ascii_lowercase();
            // "server misbehaving ... not found" and the like come from a resolver, not a registry.
            let network = ["dial tcp", "lookup ", "no route", "timeout", "connection refused"];
            let asked = !network.iter().any(|n| message.contains(n));
            refusal.kind == RefusalKind::BadRequest || (asked && ANSWERS.iter().any(|a| message.contains(a)))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
