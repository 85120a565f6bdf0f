//! The URL source: polls a server for manifests, and sends the results to the loop.
//!
//! The handle is public, the actor private. The actor (`pk-http`) waits, decides when to poll, and keeps the believed
//! content ([`state`]). Each poll is a thread of its own (`pk-http-poll`) that ends with its answer: no memory of TLS,
//! buffers or stack stays between polls, and a server or a resolver that hangs delays neither the end of the daemon nor
//! the store. At most one poll is under way.
//!
//! Every failure is [`SourceUpdate::Failed`]: never an empty set (invariant 2; the kubelet's source takes an empty body
//! for "no pods").

mod answer;
pub mod dial;
pub mod fetch;
pub mod headers;
mod job;
pub mod pace;
pub mod state;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod url;

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, after, at, bounded, never, select_biased};

use self::fetch::Validators;
use self::headers::Header;
use self::job::{Job, spawn};
use self::pace::Pace;
use self::state::{Answer, Content, State, ToRemember};
use self::tls::ClientFiles;
use self::url::ManifestUrl;
use crate::base::clock::{Clock, System};
use crate::base::dial::Names;
use crate::base::handover::Taker;
use crate::base::limits;
use crate::base::pulse;
use crate::base::table::Set;
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::file::Sink;
use crate::source::last_good::{Remembered, Saver};
use crate::source::running::Running;
use crate::source::{FromSource, PodSet, SourceUpdate};
use crate::status::task::{Pulses, Task};

/// Time limits of the phases of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// Looking the name up, and connecting: each.
    pub connect: Duration,
    /// The TLS handshake, and the answer's head: each.
    pub first_byte: Duration,
    /// All requests of a poll, from the first connection to the last byte.
    pub whole: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            connect: limits::URL_CONNECT,
            first_byte: limits::URL_FIRST_BYTE,
            whole: limits::URL_WHOLE,
        }
    }
}

/// The URL and the settings of polls.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `--manifest-url`.
    pub url: ManifestUrl,
    /// `--manifest-url-header`.
    pub headers: Vec<Header>,
    /// `--http-check-frequency`: from the end of a poll to the next one.
    pub frequency: Duration,
    /// `--manifest-url-ca-file`; the system's authorities when not given.
    pub ca_file: Option<PathBuf>,
    /// `--manifest-url-cert-file`, `--manifest-url-key-file`.
    pub client: Option<ClientFiles>,
    /// `--manifest-url-max-size`, bytes.
    pub max_bytes: usize,
    /// Time limits of each phase.
    pub patience: Patience,
}

impl Settings {
    /// The defaults for a URL.
    #[must_use]
    pub fn new(url: ManifestUrl) -> Settings {
        Settings {
            url,
            headers: Vec::new(),
            frequency: Duration::from_secs(20),
            ca_file: None,
            client: None,
            max_bytes: limits::MANIFEST_BYTES,
            patience: Patience::default(),
        }
    }
}

/// A running URL source. Dropping it ends the thread, and waits up to [`limits::SOURCE_END`] for that; a poll under way
/// is left alone. The receiver of the sink must be gone, or still receiving, when it is dropped.
#[derive(Debug)]
pub struct HttpSource {
    /// A message means "poll"; the end of the channel means "stop".
    wake: Option<Sender<()>>,
    thread: Running,
}

impl HttpSource {
    /// Starts polling, at once for the first time. `acceptor` judges the contents of `store` like an answer. They are
    /// sent as [`SourceUpdate::Restored`] when the server has given no good answer within
    /// [`limits::RESTORE_HEAD_START`].
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        settings: Settings,
        acceptor: Acceptor,
        store: impl Into<Saver>,
        out: Sink,
        pulses: Pulses,
    ) -> io::Result<HttpSource> {
        let (wake, woken) = bounded(1);
        let actor = Actor {
            job: Arc::new(Job { settings, acceptor, names: Names::default() }),
            store: store.into(),
            out,
            woken,
            state: State::default(),
            pace: Pace::default(),
            luck: RandomState::new(),
            polls: 0,
            clock: System::start(),
        };
        let thread = Running::spawn("pk-http", limits::WORKER_STACK, move || {
            pulses.join(Task::Source(Source::Http));
            actor.run();
        })?;
        Ok(HttpSource { wake: Some(wake), thread })
    }

    /// Requests a poll (SIGHUP). Never blocks.
    pub fn rescan(&self) {
        if let Some(wake) = &self.wake {
            // A full channel holds the same request.
            let _full = wake.try_send(());
        }
    }
}

impl Drop for HttpSource {
    fn drop(&mut self) {
        self.wake = None;
        // The thread may be writing to a slow disk.
        self.thread.await_end(limits::SOURCE_END);
    }
}

/// The handle is gone, or the receiver.
struct Stopped;

/// The end of a wait.
enum Came<T> {
    /// The handle requests a poll.
    Word,
    /// The awaited value.
    Awaited(T),
    /// Something else is due.
    Due,
    /// The handle is gone.
    End,
}

struct Actor {
    job: Arc<Job>,
    store: Saver,
    out: Sink,
    woken: Receiver<()>,
    state: State,
    pace: Pace,
    luck: RandomState,
    polls: u64,
    clock: System,
}

impl Actor {
    fn run(mut self) {
        // All ends of the thread are alike.
        let Err(Stopped) = self.work();
    }

    fn work(&mut self) -> Result<std::convert::Infallible, Stopped> {
        let head_start = Instant::now() + limits::RESTORE_HEAD_START;
        let mut restored = self.restore()?;
        loop {
            let job = Arc::clone(&self.job);
            let (validators, known) = (self.state.validators(), self.state.known());
            let seen = self.store.seen();
            let poll = spawn("pk-http-poll", move || job.poll(&validators, &known, &seen));
            let (answer, mut again) = self.wait_for_answer(poll, head_start, &mut restored)?;
            let Some(answer) = answer else { continue };
            let answered = !matches!(answer, Answer::Failed(_));
            let shown = self.job.settings.url.to_string();
            let (updates, remember) = self.state.take(answer, &shown);
            for update in updates {
                // The stored set is sent before bad news, and is not needed after good news.
                let set = restored
                    .take()
                    .filter(|_| !matches!(update, SourceUpdate::Full(_) | SourceUpdate::Forgotten));
                if let Some(set) = set {
                    self.send(SourceUpdate::Restored(set))?;
                }
                self.send(update)?;
            }
            // Stored after the pods were sent: a slow disk delays none.
            if let Some(remember) = remember {
                self.remember(remember);
            }
            again |= self.save()?;
            self.polls = self.polls.wrapping_add(1);
            let wait = self.pace.next(answered, self.job.settings.frequency, self.luck.hash_one(self.polls));
            let next = at(Instant::now() + wait);
            while !again {
                let now = self.clock.now().mono;
                let store = match self.store.due(now) {
                    Some(due) => after(due.since(now)),
                    None => never(),
                };
                let came = pulse::waits(|| {
                    select_biased! {
                        recv(self.woken) -> word => word.map_or(Came::End, |()| Came::Word),
                        recv(next) -> _ => Came::Awaited(()),
                        recv(store) -> _ => Came::Due,
                    }
                });
                match came {
                    Came::Word => {
                        again = true;
                        self.look_for_forget(true);
                    }
                    Came::Awaited(()) => again = true,
                    Came::Due => again = self.save()?,
                    Came::End => return Err(Stopped),
                }
            }
        }
    }

    /// Writes what is still to be stored, and reports the state of the store. Returns whether the stored contents have
    /// been forgotten, so that the URL must be polled again.
    fn save(&mut self) -> Result<bool, Stopped> {
        self.store.save(self.clock.now().mono);
        let forgotten = self.look_for_forget(false);
        if let Some(update) = self.store.take_news() {
            self.send(update)?;
        }
        Ok(forgotten)
    }

    /// Judges the stored contents in another thread, because this thread's stack is small.
    fn restore(&mut self) -> Result<Option<PodSet>, Stopped> {
        let path = self.job.settings.url.identity();
        let Some(store) = self.store.here() else { return Ok(None) };
        let mut remembered = store.load();
        if self.job.acceptor.wants_signature() {
            store.load_seen();
        }
        // Contents of a URL that was polled before are removed when this one has answered.
        remembered.retain(|content| content.path == path);
        if remembered.is_empty() {
            return Ok(None);
        }
        let job = Arc::clone(&self.job);
        let judged = spawn("pk-http-poll", move || job.replay(remembered));
        let judged = match judged {
            Ok(judged) => judged,
            Err(error) => {
                log::error!("no thread could be started to restore what was last accepted: {error}");
                return Ok(None);
            }
        };
        let judged = loop {
            let came = pulse::waits(|| {
                select_biased! {
                    recv(self.woken) -> word => word.map_or(Came::End, |()| Came::Word),
                    recv(judged.bell()) -> _ => Came::Awaited(judged.here()),
                }
            });
            match came {
                Came::Word | Came::Due => {}
                Came::Awaited(judged) => break judged,
                Came::End => return Err(Stopped),
            }
        };
        let Some(Some(mut replayed)) = judged else { return Ok(None) };
        replayed.path = path;
        if let Some(store) = self.store.here() {
            store.learn(std::slice::from_ref(&replayed));
        }
        Ok(self.state.restore(replayed))
    }

    fn remember(&mut self, ToRemember { content, version, needed, signed }: ToRemember) {
        if let Some(claim) = signed {
            self.store.note(&[(*claim, Set::new())], || self.state.names());
        }
        let path = self.job.settings.url.identity();
        let Content { bytes, signature, validators: Validators { etag, last_modified } } = content;
        self.store.retain(|remembered| *remembered == path);
        let content = Remembered { path, version, bytes, signature, etag, last_modified, mounted: false };
        self.store.remember(content, &needed);
    }

    /// After a request for a poll: the operator may have removed the store.
    fn look_for_forget(&mut self, asked: bool) -> bool {
        if asked {
            self.store.await_back();
        }
        let forgotten = self.store.was_forgotten(asked);
        if forgotten {
            log::info!("source http: what was remembered is forgotten; the URL is asked again");
            self.state.forget();
        }
        forgotten
    }

    /// Waits for the answer; returns it, and whether another poll was requested meanwhile. The answer is `None` when
    /// the store was forgotten meanwhile: its request is outdated and has to be repeated.
    fn wait_for_answer(
        &mut self,
        poll: io::Result<Taker<Answer>>,
        head_start: Instant,
        restored: &mut Option<PodSet>,
    ) -> Result<(Option<Answer>, bool), Stopped> {
        let poll = match poll {
            Ok(poll) => poll,
            Err(error) => {
                let failed = Answer::Failed(format!("no thread could be started: {error}"));
                return Ok((Some(failed), false));
            }
        };
        let (mut again, mut forgotten) = (false, false);
        loop {
            let head_start = if restored.is_some() { at(head_start) } else { never() };
            let came = pulse::waits(|| {
                select_biased! {
                    recv(self.woken) -> word => word.map_or(Came::End, |()| Came::Word),
                    recv(poll.bell()) -> _ => Came::Awaited(poll.here()),
                    recv(head_start) -> _ => Came::Due,
                }
            });
            match came {
                Came::Word => {
                    again = true;
                    if self.look_for_forget(true) {
                        forgotten = true;
                        *restored = None;
                    }
                }
                Came::Awaited(answer) => {
                    let answer = answer.unwrap_or_else(|| Answer::Failed("the poll ended early".to_owned()));
                    return Ok(((!forgotten).then_some(answer), again));
                }
                Came::Due => {
                    if let Some(set) = restored.take() {
                        self.send(SourceUpdate::Restored(set))?;
                    }
                }
                Came::End => return Err(Stopped),
            }
        }
    }

    fn send(&self, update: SourceUpdate) -> Result<(), Stopped> {
        let heard = (self.out)(FromSource { source: Source::Http, update });
        if heard { Ok(()) } else { Err(Stopped) }
    }
}
