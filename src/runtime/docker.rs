//! [`Docker`]: the one type through which all rooms call an engine, real or in memory.
//!
//! Each method does the same with every kind of engine.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::client::{Client, Pending};
use super::connection::Wait;
use super::event_stream::EventStream;
use super::fake::Fake;
use super::pull::Patience;
use super::request::{AttachOptions, LogOptions, Request};
use super::stream::{Body, Duplex, OutputStream};
use super::types::{
    Call, ContainerDetail, ContainerSummary, DockerError, DockerState, ImageDetail, Refusal, RefusalKind,
    Reply,
};
use crate::base::clock::System;
use crate::base::limits;
use crate::runtime::progress::Message;

/// From this API version on, recursive read-only mounts can be requested.
pub const RECURSIVE_READ_ONLY: (u16, u16) = (1, 44);

/// The address of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// `unix:///var/run/docker.sock`.
    Unix(PathBuf),
    /// `fake://`: the in-memory Docker, for load tests without containers.
    Fake,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Unix(path) => write!(f, "unix://{}", path.display()),
            Endpoint::Fake => f.write_str("fake://"),
        }
    }
}

impl Default for Endpoint {
    /// Docker's own socket.
    fn default() -> Endpoint {
        Endpoint::Unix(PathBuf::from("/var/run/docker.sock"))
    }
}

/// A handle on an engine; clones share it.
#[derive(Debug, Clone)]
pub enum Docker {
    /// A real engine behind a Unix socket.
    Engine(Client),
    /// The in-memory engine.
    Fake(Fake),
}

impl Docker {
    /// The engine of a configuration; no request is sent yet.
    #[must_use]
    pub fn connect(endpoint: &Endpoint, clock: System) -> Docker {
        match endpoint {
            Endpoint::Unix(path) => Docker::Engine(Client::new(path)),
            Endpoint::Fake => Docker::in_memory(clock, 0),
        }
    }

    /// An in-memory engine. The ids of its containers follow from `seed`.
    #[must_use]
    pub fn in_memory(clock: System, seed: u64) -> Docker {
        let fake = Fake::new(Arc::new(clock), seed);
        if let Err(error) = fake.drive() {
            log::error!("the in-memory engine has no clockwork: {error}");
        }
        Docker::Fake(fake)
    }

    /// The API version in use, as text for people behind the word Docker; `None` before the engine has answered.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let (major, minor) = match self {
            Docker::Engine(client) => client.version().ok()?,
            Docker::Fake(_) => return Some("in memory".to_owned()),
        };
        Some(format!("API {major}.{minor}"))
    }

    /// The socket; `None` for the in-memory engine.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Docker::Engine(client) => Some(client.path()),
            Docker::Fake(_) => None,
        }
    }

    /// Whether this API version, or a newer one, was agreed on.
    #[must_use]
    pub fn speaks(&self, version: (u16, u16)) -> bool {
        match self {
            Docker::Engine(client) => client.known_version().is_some_and(|known| known >= version),
            Docker::Fake(_) => true,
        }
    }

    /// Sends a short call and returns at once; see [`Pending`] and [`super::client::wait_any`].
    #[must_use]
    pub fn begin(&self, call: &Call) -> Pending {
        match self {
            Docker::Engine(client) => client.begin(call),
            Docker::Fake(fake) => Pending::ready(fake.perform(call)),
        }
    }

    /// Makes a short call and waits for its answer, at most until its deadline.
    ///
    /// # Errors
    /// Every [`DockerError`].
    pub fn call(&self, call: &Call) -> Result<Reply, DockerError> {
        self.begin(call).wait()
    }

    /// A container, by id or name.
    ///
    /// # Errors
    /// As for a short call; refused when Docker has no such container.
    pub fn inspect(&self, id: &str) -> Result<Box<ContainerDetail>, DockerError> {
        self.call(&Call::Inspect { id: id.to_owned() })?.container()
    }

    /// The first process of a container; `None` when the container does not run.
    ///
    /// # Errors
    /// As for a short call; refused when Docker has no such container.
    pub fn process(&self, id: &str) -> Result<Option<u32>, DockerError> {
        self.call(&Call::Process { id: id.to_owned() })?.process()
    }

    /// A local image, by id or name.
    ///
    /// # Errors
    /// As for a short call; refused when Docker has no such image.
    pub fn inspect_image(&self, image: &str) -> Result<ImageDetail, DockerError> {
        self.call(&Call::ImageInspect { image: image.to_owned() })?.image()
    }

    /// The containers, in whatever state, that have all of these labels (`key` or `key=value`).
    ///
    /// # Errors
    /// As for a short call.
    pub fn list(&self, labels: Vec<String>) -> Result<Vec<ContainerSummary>, DockerError> {
        self.call(&Call::List { labels })?.containers()
    }

    /// Subscribes to the events of containers that have all of these labels (`key` or `key=value`). Docker
    /// answers just before it begins to listen, so `since` (seconds of wall time; 0 for all that it
    /// remembers) closes the gap to a list that is made afterwards, at the price of old events.
    ///
    /// # Errors
    /// As for a short call.
    pub fn events(&self, labels: &[String], since: Option<i64>) -> Result<EventStream, DockerError> {
        match self {
            Docker::Engine(client) => {
                let (body, begun) = Body::open(client, Request::events(labels, since))?;
                Ok(EventStream::new(body, begun))
            }
            Docker::Fake(fake) => {
                let body = Body::over(fake.events(labels, since)?, "events")?;
                Ok(EventStream::new(body, Vec::new()))
            }
        }
    }

    /// Subscribes to the events of images, from `since` on, in seconds of wall time. Docker may refuse it with the first reading.
    ///
    /// # Errors
    /// As for a short call, until the request is sent.
    pub fn image_events(&self, since: i64) -> Result<EventStream, DockerError> {
        match self {
            Docker::Engine(client) => {
                let (body, begun) = Body::ask(client, Request::image_events(since))?;
                Ok(EventStream::new(body, begun))
            }
            Docker::Fake(fake) => {
                let body = Body::over(fake.image_events(Some(since))?, "events")?;
                Ok(EventStream::new(body, Vec::new()))
            }
        }
    }

    /// Pulls an image and waits until it is done, within `patience`. `auth` is the ready value of
    /// `X-Registry-Auth`; `on_message` is called with Docker's messages as they come.
    ///
    /// # Errors
    /// [`DockerError::Refused`] with Docker's text, [`DockerError::Stalled`] without progress (or
    /// [`DockerError::Timeout`], when Docker itself is stuck), [`DockerError::Lost`] when woken or broken off.
    pub fn pull(
        &self,
        image: &str,
        auth: Option<&str>,
        patience: &Patience<'_>,
        on_message: &mut dyn FnMut(&Message<'_>),
    ) -> Result<(), DockerError> {
        match self {
            Docker::Engine(client) => super::pull::pull(client, image, auth, patience, on_message),
            Docker::Fake(fake) => fake.pull(image, patience.first().timeout),
        }
    }

    /// Makes Docker ask the registry of `image` about it, with these credentials, without pulling it. `wait` as for a
    /// pull.
    ///
    /// # Errors
    /// As for a pull: [`DockerError::Refused`] when the registry refuses.
    pub fn ask_registry(&self, image: &str, auth: Option<&str>, wait: &Wait<'_>) -> Result<(), DockerError> {
        match self {
            Docker::Engine(client) => super::pull::ask_registry(client, image, auth, wait),
            Docker::Fake(fake) => fake.pull(image, wait.timeout),
        }
    }

    /// Loads an image archive (tar) and returns the names or ids in it. `wait` as for a pull.
    ///
    /// # Errors
    /// As for a pull; [`DockerError::Lost`] also when `archive` cannot be read.
    pub fn load(&self, archive: &mut dyn std::io::Read, wait: &Wait<'_>) -> Result<Vec<String>, DockerError> {
        match self {
            Docker::Engine(client) => super::pull::load(client, archive, wait),
            Docker::Fake(fake) => {
                let mut tar = Vec::new();
                let read = archive.read_to_end(&mut tar);
                read.map_err(|e| DockerError::Lost(format!("the archive cannot be read: {e}")))?;
                fake.load(&tar)
            }
        }
    }

    /// A container's log; `tty` as in [`super::types::ContainerDetail::tty`].
    ///
    /// # Errors
    /// As for a short call; with `follow`, a refusal may come with the first read.
    pub fn logs(&self, id: &str, options: &LogOptions, tty: bool) -> Result<OutputStream, DockerError> {
        match self {
            Docker::Engine(client) => {
                let request = Request::logs(id, options);
                // A followed log may be silent for hours.
                let open = if options.follow { Body::ask } else { Body::open };
                let (body, begun) = open(client, request)?;
                Ok(OutputStream::new(body, begun, tty))
            }
            Docker::Fake(fake) => {
                let last = options.tail.and_then(|n| usize::try_from(n).ok());
                let body = Body::over(fake.logs(id, options.follow, last)?, "logs")?;
                Ok(OutputStream::new(body, Vec::new(), tty))
            }
        }
    }

    /// A container's live streams; `tty` as in [`super::types::ContainerDetail::tty`].
    ///
    /// # Errors
    /// As for a short call.
    pub fn attach(&self, id: &str, options: AttachOptions, tty: bool) -> Result<Duplex, DockerError> {
        match self {
            Docker::Engine(client) => {
                let (body, begun) = Body::open(client, Request::attach(id, options))?;
                Ok(Duplex::new(body, begun, tty))
            }
            Docker::Fake(fake) => Ok(Duplex::new(Body::over(fake.attach(id)?, "attach")?, Vec::new(), tty)),
        }
    }

    /// As [`Docker::attach`], to a container that runs. Docker accepts an attach to one that has just ended too, and
    /// keeps it for the next start of that container, which never comes.
    ///
    /// # Errors
    /// As for a short call; [`RefusalKind::NotRunning`] when the container had ended before Docker joined its streams.
    pub fn attach_running(&self, id: &str, options: AttachOptions, tty: bool) -> Result<Duplex, DockerError> {
        let mut streams = self.attach(id, options, tty)?;
        // Docker's inspect waits for what it does at an end: streams that were joined before are closed by then.
        let runs = self.inspect(id)?.state == DockerState::Running;
        if runs || streams.output.is_there(&Wait::at_most(limits::ATTACH_LAST))? {
            return Ok(streams);
        }
        let message = "the container has ended: its output is in its log".to_owned();
        Err(DockerError::Refused(Refusal { kind: RefusalKind::NotRunning, status: 409, message }))
    }

    /// Starts an exec that was created with the same `tty` and takes over its streams.
    ///
    /// # Errors
    /// As for a short call.
    pub fn exec_start(&self, id: &str, tty: bool) -> Result<Duplex, DockerError> {
        match self {
            Docker::Engine(client) => {
                let (body, begun) = Body::open(client, Request::exec_start(id, tty))?;
                Ok(Duplex::new(body, begun, tty))
            }
            Docker::Fake(fake) => {
                Ok(Duplex::new(Body::over(fake.exec_start(id, tty)?, "exec")?, Vec::new(), tty))
            }
        }
    }

    /// The exit code of an exec whose streams have ended. It may lag behind, so it is awaited for at most
    /// [`limits::EXEC_EXIT`].
    ///
    /// # Errors
    /// As for a short call; [`DockerError::BadAnswer`] when it still runs then.
    pub fn exec_exit_code(&self, id: &str) -> Result<i64, DockerError> {
        let begun = Instant::now();
        loop {
            let detail = self.call(&Call::ExecInspect { id: id.to_owned() }).and_then(Reply::exec)?;
            match detail.exit_code.filter(|_| !detail.running) {
                Some(code) => return Ok(code),
                None if begun.elapsed() > limits::EXEC_EXIT => {
                    let why = "Docker does not tell the command's exit code";
                    return Err(DockerError::BadAnswer(why.to_owned()));
                }
                None => thread::sleep(limits::EXEC_EXIT_LOOK),
            }
        }
    }
}
