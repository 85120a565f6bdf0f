//! Docker's event stream (docker-archive/classicswarm#2309): subscribe, then list; list again after each
//! reconnect, and every `--sync-frequency` as a safety net, less often while neither events nor lists show a change. An
//! event is only a hint to look at one container.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::base::pace::Pace;
use crate::base::{limits, pulse, thread};
use crate::daemon::image_events::ImageEvents;
use crate::daemon::turn::{Event, RuntimeEvent};
use crate::machine::Hint;
use crate::pod::PodKey;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::event_stream::{DockerEvent, EventAction, EventNext};
use crate::runtime::{ContainerSummary, DockerError, labels};

/// Which list of an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// The first: another Docker may answer than before.
    First,
    /// A later one, as a safety net: the same process answers.
    Later,
}

/// Another receiver of the thread's events and lists.
pub trait Listener: Send + 'static {
    /// Called after each successful list, before the list is sent.
    fn connected(&self, listing: Listing);
    /// Called when the stream has ended: another engine may answer next.
    fn lost(&self);
    /// Called with the list, which took so long.
    fn listed(&self, containers: &[ContainerSummary], took: Duration);
    /// Whether the next list should come soon.
    fn wants_list(&self) -> bool;
    /// Called for each container that was created, with its image.
    fn image(&self, image: &str);
    /// Whether it wants the events of images.
    fn wants_images(&self) -> bool;
    /// Called for each event of an image; `None`: some were missed.
    fn image_event(&self, event: Option<&DockerEvent>);
}

/// Handle of the event thread.
#[derive(Debug)]
pub struct Events {
    /// Dropping the handle ends the thread at its next wake-up.
    _stop: Sender<()>,
}

impl Events {
    /// Starts the thread `pk-events`. The thread calls `joins` first.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        docker: Docker,
        root_dir: String,
        relist: Duration,
        out: Sender<Event>,
        joins: impl FnOnce() + Send + 'static,
        listener: impl Listener,
    ) -> io::Result<Events> {
        let (stop, stopped) = bounded(0);
        let body = Body { docker, filter: format!("{}={root_dir}", labels::ROOT_DIR), relist, out, stopped };
        thread::spawn("pk-events", limits::WORKER_STACK, move || {
            joins();
            body.run(&listener);
        })?;
        Ok(Events { _stop: stop })
    }
}

struct Body {
    docker: Docker,
    filter: String,
    relist: Duration,
    out: Sender<Event>,
    stopped: Receiver<()>,
}

/// The main loop is gone.
struct Over;

impl Body {
    fn run(&self, listener: &dyn Listener) {
        let mut wait = limits::RECONNECT_MIN;
        let mut images = ImageEvents::default();
        loop {
            let began = Instant::now();
            let Ok(why) = self.follow(listener, &mut images) else { return };
            images.lost(listener);
            listener.lost();
            if self.tell(RuntimeEvent::Lost(why)).is_err() {
                return;
            }
            if began.elapsed() > limits::RECONNECT_MAX {
                wait = limits::RECONNECT_MIN;
            }
            match pulse::waits(|| self.stopped.recv_timeout(wait)) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
            wait = wait.saturating_mul(2).min(limits::RECONNECT_MAX);
        }
    }

    fn tell(&self, event: RuntimeEvent) -> Result<(), Over> {
        self.out.send(Event::Runtime(event)).map_err(|_| Over)
    }

    /// Subscribes, lists, and follows the stream. Returns why the stream ended.
    fn follow(&self, listener: &dyn Listener, images: &mut ImageEvents) -> Result<String, Over> {
        let filter = vec![self.filter.clone()];
        let mut stream = match self.docker.events(&filter, Some(0)) {
            Ok(stream) => stream,
            Err(error) => return Ok(error.to_string()),
        };
        let (mut pace, mut before, mut told) = (Pace::new(self.relist), None, false);
        let mut listing = Listing::First;
        loop {
            let asked = Instant::now();
            let containers = match self.list(&filter) {
                Ok(containers) => containers,
                Err(error) => return Ok(error.to_string()),
            };
            let digest = digest(&containers);
            let quiet = !std::mem::take(&mut told) && before.replace(digest) == Some(digest);
            // First, because the receiver of the list relies on the work of `connected`.
            listener.connected(std::mem::replace(&mut listing, Listing::Later));
            listener.listed(&containers, asked.elapsed());
            self.tell(RuntimeEvent::Listed { containers, version: self.docker.version() })?;
            // After the list: no pod waits for it.
            images.subscribe(&self.docker, listener);
            let listed = Instant::now();
            let mut relist = pace.next(quiet);
            loop {
                if listener.wants_list() {
                    relist = relist.min(limits::RECORD_UNLISTED);
                }
                let left = relist.saturating_sub(listed.elapsed());
                if left.is_zero() {
                    break;
                }
                // First, because a container may be made of an image that has just got its name.
                let left = if images.take(listener) { Duration::ZERO } else { left };
                match stream.next(&Wait { timeout: Some(left), wake: images.as_fd() }) {
                    EventNext::Event(event) => {
                        told = true;
                        if let Some(image) =
                            event.labels.get(IMAGE).filter(|_| event.action == EventAction::Create)
                        {
                            listener.image(image);
                        }
                        if let Some((key, hint)) = translate(&event) {
                            self.tell(RuntimeEvent::Changed { key, hint })?;
                        }
                    }
                    // An event could not be read: some container has changed, and only a list can show
                    // which one.
                    EventNext::Unread => {
                        told = true;
                        relist = relist.min(limits::UNREAD_LIST);
                    }
                    EventNext::Idle => {}
                    EventNext::End(why) => return Ok(format!("Docker's event stream ended: {why}")),
                }
            }
        }
    }

    fn list(&self, filter: &[String]) -> Result<Vec<ContainerSummary>, DockerError> {
        self.docker.list(filter.to_vec())
    }
}

/// A hash of the list's containers and their states, to tell one list from another.
fn digest(containers: &[ContainerSummary]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for container in containers {
        (&container.id, container.state, &container.ips).hash(&mut hasher);
    }
    hasher.finish()
}

/// The key under which Docker puts a container's image beside the labels in an event.
const IMAGE: &str = "image";

/// The pod that an event is about, and what to look at. `None`: the event does not matter.
fn translate(event: &DockerEvent) -> Option<(PodKey, Hint)> {
    let id = event.id.clone();
    let hint = match event.action {
        EventAction::Create => Hint::Made(id),
        EventAction::Start => Hint::Started(id),
        EventAction::Die => Hint::Changed(id),
        EventAction::Rename => Hint::Renamed(id),
        EventAction::Oom => Hint::OutOfMemory(id),
        EventAction::Destroy => Hint::Removed(id),
        EventAction::Tag
        | EventAction::Untag
        | EventAction::Pull
        | EventAction::Load
        | EventAction::Other => {
            return None;
        }
    };
    let namespace = event.labels.get(labels::POD_NAMESPACE)?.clone();
    let name = event.labels.get(labels::POD_NAME)?.clone();
    Some((PodKey { namespace, name }, hint))
}

#[cfg(test)]
mod tests;
