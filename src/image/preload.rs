//! Images without a registry (k3s-io/k3s#8781): archives of a directory are loaded into Docker, each when its
//! name, size or time has changed, in a thread of low priority; pods whose images exist start meanwhile.
//!
//! The directory may be missing, which is no error, and a directory that cannot be read does not count as
//! empty. A bad archive is logged once and does not stop the others. The list of loaded archives survives a
//! boot; when Docker has lost an image, its archive is loaded again. No image is ever removed from Docker
//! here.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::archive::{Archive, is_archive_name, refusal_words};
use super::reference::normal;
use super::remembered::{self, Loaded, Memory, Stamp};
use crate::base::clock::{Clock, Mono, Now, System};
use crate::base::order;
use crate::base::pace::Pace;
use crate::base::table::{Set, Table};
use crate::base::{limits, thread};
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{DockerError, RefusalKind};

/// Name of the file in the root directory that lists the loaded archives.
pub const MEMORY: &str = "preloaded";

/// What happened to an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// Its images were loaded; their full names.
    Came(Vec<String>),
    /// It cannot be loaded until it changes: its path, and why.
    Refused(String),
}

/// Receives what happens; returns false when the receiver is gone.
pub type Sink = Box<dyn Fn(Told) -> bool + Send>;

/// Receives the full names, or ids, of all images of archives in the directory when they have changed.
pub type List = Box<dyn Fn(&Set<String>) + Send>;

enum Command {
    /// SIGHUP: look now, including bad archives.
    Look,
    /// Docker answers (again).
    Connected,
    /// A pod wants an image that no archive has brought: a new archive may.
    Wanted,
    /// A pod wants this image (full name), and Docker may have lost it.
    Missing(String),
}

/// Handle of the thread `pk-preload`, which ends when the last handle is gone.
#[derive(Clone, Debug)]
pub struct Preload {
    commands: Sender<Command>,
    /// Full names of all images of archives in the directory; `None` before the list was read.
    brought: Arc<Mutex<Option<Set<String>>>>,
}

impl Preload {
    /// Starts the thread: looks at `dir` every `frequency`, and keeps its list in `root_dir`.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(
        dir: PathBuf,
        root_dir: &Path,
        frequency: Duration,
        docker: Docker,
        out: Sink,
        list: List,
    ) -> io::Result<Preload> {
        let (commands, asked) = bounded(limits::EVENT_QUEUE);
        let brought = Arc::default();
        let body = Body {
            dir,
            memory_path: root_dir.join(MEMORY),
            frequency,
            docker,
            out,
            list,
            brought: Arc::clone(&brought),
            clock: System::start(),
            memory: Memory::new(),
            checked: Set::new(),
            bad: Table::new(),
            listed: 0,
            trouble: None,
            retry: None,
        };
        let run = move || {
            // For this thread only. Without the permission it loads at full speed.
            _ = rustix::process::setpriority_process(None, limits::PRELOAD_NICE);
            body.run(&asked);
        };
        thread::spawn("pk-preload", limits::PRELOAD_STACK, run)?;
        Ok(Preload { commands, brought })
    }

    /// Makes the thread look at the directory now, including bad archives. Never blocks.
    pub fn rescan(&self) {
        self.tell(Command::Look);
    }

    /// Docker answers: archives that waited for it are tried again. Never blocks.
    pub fn connected(&self) {
        self.tell(Command::Connected);
    }

    /// A pod wants this image and Docker may not have it: makes the thread look at the directory. Never
    /// blocks.
    pub fn missing(&self, image: &str) {
        let image = normal(image);
        let known = self.brought().is_some_and(|brought| brought.contains(&image));
        self.tell(if known { Command::Missing(image) } else { Command::Wanted });
    }

    /// Full names, or ids, of all images of archives in the directory; `None` before they are known.
    #[must_use]
    pub fn brought(&self) -> Option<Set<String>> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, command: Command) {
        match self.commands.try_send(command) {
            // If the queue is full, the thread will look anyway.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

struct Body {
    dir: PathBuf,
    memory_path: PathBuf,
    frequency: Duration,
    docker: Docker,
    out: Sink,
    list: List,
    brought: Arc<Mutex<Option<Set<String>>>>,
    clock: System,
    memory: Memory,
    /// Archives whose images were seen in Docker since this process started.
    checked: Set<String>,
    /// Archives that cannot be loaded, until they change.
    bad: Table<String, Option<Stamp>>,
    /// Hash of the names and stamps at the last look.
    listed: u64,
    /// Error of the directory, logged once.
    trouble: Option<String>,
    /// Time of the next try with Docker, and the wait before it.
    retry: Option<(Mono, Duration)>,
}

/// The receiver is gone.
struct Over;

/// Result of one archive.
enum Outcome {
    Fine,
    /// The file may still be written.
    Unsettled,
    /// Docker could not load it this time.
    Later(DockerError),
}

impl Body {
    fn run(mut self, asked: &Receiver<Command>) {
        match remembered::read(&self.memory_path) {
            Ok(memory) => self.memory = memory,
            Err(why) => log::warn!(
                "{}: {why}; the archives in {} are loaded again",
                self.memory_path.display(),
                self.dir.display()
            ),
        }
        self.publish_brought();
        let (mut pace, mut before) = (Pace::new(self.frequency), None);
        loop {
            let Ok(again) = self.look() else { return };
            let quiet = before.replace(self.listed) == Some(self.listed);
            let again = if again < self.frequency { again } else { pace.next(quiet) };
            let command = match asked.recv_timeout(again) {
                Ok(command) => command,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for command in std::iter::once(command).chain(asked.try_iter()) {
                match command {
                    Command::Look => self.bad.clear(),
                    Command::Connected | Command::Wanted => {}
                    Command::Missing(image) => {
                        let brings = |loaded: &Loaded| loaded.images.iter().any(|i| normal(i) == image);
                        let memory = &self.memory;
                        self.checked.retain(|file| !memory.get(file).is_some_and(brings));
                    }
                }
            }
            self.retry = self.retry.map(|(_, wait)| (Mono::default(), wait));
        }
    }

    /// Looks at the directory once, and loads archives if needed. Returns the time until the next look.
    fn look(&mut self) -> Result<Duration, Over> {
        let now = self.clock.now();
        if let Some((at, _)) = self.retry
            && now.mono < at
        {
            return Ok(at.since(now.mono).min(self.frequency));
        }
        let files = match list(&self.dir) {
            Ok(files) => files,
            // An absent directory does not count as empty: a disk may not be mounted yet.
            Err(why) => {
                if let Some(why) = why.filter(|why| self.trouble.as_ref() != Some(why)) {
                    log::warn!("preload directory {}: {why}", self.dir.display());
                    self.trouble = Some(why);
                }
                return Ok(self.frequency);
            }
        };
        self.trouble = None;
        let mut hasher = DefaultHasher::new();
        files.iter().for_each(|(name, stamp)| (name, stamp.map(|s| (s.size, s.mtime))).hash(&mut hasher));
        self.listed = hasher.finish();
        let mut again = self.frequency;
        let mut failed = false;
        for (name, stamp) in &files {
            match self.one(name, *stamp, &now)? {
                Outcome::Fine => {}
                Outcome::Unsettled => again = again.min(limits::PRELOAD_SETTLE),
                Outcome::Later(error) => {
                    if self.retry.is_none() && !failed {
                        log::warn!("image archive {name}: {error}; podkeeper tries again");
                    }
                    failed = true;
                    // The next archive may work, unless Docker cannot be reached.
                    if matches!(error, DockerError::Unreachable(_)) {
                        break;
                    }
                }
            }
        }
        self.retry = failed.then(|| {
            let longer = |(_, wait): (Mono, Duration)| wait.saturating_mul(2).min(limits::PRELOAD_RETRY_MAX);
            let wait = self.retry.map_or(limits::PRELOAD_RETRY_MIN, longer);
            again = again.min(wait);
            (self.clock.now().mono.after(wait), wait)
        });
        self.bad.retain(|name, _| files.contains_key(name));
        let before = self.memory.len();
        self.memory.retain(|name, _| files.contains_key(name));
        if self.memory.len() != before {
            self.checked.retain(|name| files.contains_key(name));
            self.remember();
        }
        Ok(again)
    }

    fn one(&mut self, name: &str, stamp: Option<Stamp>, now: &Now) -> Result<Outcome, Over> {
        if self.bad.get(name).is_some_and(|bad| *bad == stamp) {
            return Ok(Outcome::Fine);
        }
        if let Some(loaded) = self.memory.get(name).filter(|loaded| Some(loaded.stamp) == stamp) {
            if self.checked.contains(name) {
                return Ok(Outcome::Fine);
            }
            match self.lost(&loaded.images) {
                Err(error) => return Ok(Outcome::Later(error)),
                Ok(None) => {
                    self.checked.insert(name.to_owned());
                    return Ok(Outcome::Fine);
                }
                Ok(Some(image)) => {
                    log::info!("Docker has lost image {image:?}: {name} is loaded again");
                }
            }
        } else if stamp.is_some_and(|stamp| is_young(stamp, now)) {
            return Ok(Outcome::Unsettled);
        }
        self.load(name, stamp)
    }

    /// The first of these images that Docker does not have.
    fn lost(&self, images: &[String]) -> Result<Option<String>, DockerError> {
        for image in images {
            match self.docker.inspect_image(image) {
                Ok(_) => {}
                Err(error) => match error.refusal() {
                    Some(RefusalKind::NoSuchImage) => return Ok(Some(image.clone())),
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }

    fn load(&mut self, name: &str, stamp: Option<Stamp>) -> Result<Outcome, Over> {
        let path = self.dir.join(name);
        let (mut archive, meta) = match Archive::open(&path) {
            Ok(open) => open,
            Err(why) => return Ok(self.mark_bad(name, stamp, &why)),
        };
        let stamp = stamp_of(&meta);
        let begun = Instant::now();
        let result = self.docker.load(&mut archive, &Wait::at_most(limits::PRELOAD_PROGRESS));
        let trouble = archive.trouble().map(str::to_owned);
        drop(archive);
        // The file was written to or replaced meanwhile: the result is not that of the current file.
        if path.metadata().ok().map(|meta| stamp_of(&meta)) != Some(stamp) {
            return Ok(Outcome::Unsettled);
        }
        let images = match (result, trouble) {
            (Ok(images), _) => images,
            (Err(_), Some(why)) => return Ok(self.mark_bad(name, Some(stamp), &why)),
            (Err(DockerError::Refused(refusal)), None) => {
                if refusal.message.contains("no space left") {
                    return Ok(Outcome::Later(DockerError::Refused(refusal)));
                }
                let why = refusal_words(&refusal.message);
                return Ok(self.mark_bad(name, Some(stamp), &why));
            }
            (Err(error), None) => return Ok(Outcome::Later(error)),
        };
        let (size, seconds) = (bytes(stamp.size), begun.elapsed().as_secs());
        log::info!("image archive {name} is loaded ({size}, {seconds} s): {}", images.join(", "));
        self.bad.remove(name);
        self.checked.insert(name.to_owned());
        let known: usize = self.memory.values().map(|loaded| loaded.images.len()).sum();
        let images: Vec<String> =
            images.into_iter().take(limits::PRELOAD_NAMES.saturating_sub(known)).collect();
        let came: Vec<String> = images.iter().map(|image| normal(image)).collect();
        let loaded = Loaded { stamp, images };
        if self.memory.get(name) != Some(&loaded) {
            self.memory.insert(name.to_owned(), loaded);
            self.remember();
        }
        if (self.out)(Told::Came(came)) { Ok(Outcome::Fine) } else { Err(Over) }
    }

    fn mark_bad(&mut self, name: &str, stamp: Option<Stamp>, why: &str) -> Outcome {
        let path = self.dir.join(name);
        let told = format!("image archive {}: {why}; it is left alone until it changes", path.display());
        // Without a receiver the daemon ends. The event is a line of the log, too.
        _ = (self.out)(Told::Refused(told));
        self.bad.insert(name.to_owned(), stamp);
        Outcome::Fine
    }

    fn remember(&mut self) {
        self.publish_brought();
        if let Err(error) = remembered::write(&self.memory_path, &self.memory) {
            log::warn!(
                "{}: {error}; after a restart the image archives are loaded again",
                self.memory_path.display()
            );
        }
    }

    fn publish_brought(&self) {
        let all = self.memory.values().flat_map(|loaded| &loaded.images).map(|image| normal(image));
        let all = order::set(all);
        let before = self.brought.lock().unwrap_or_else(PoisonError::into_inner).replace(all.clone());
        if before.as_ref() != Some(&all) {
            (self.list)(&all);
        }
    }
}

/// The archives of the directory, by name. Without a stamp: not a file, or its `stat` failed.
///
/// # Errors
/// The directory cannot be read; `None` when it does not exist, which is no error.
fn list(dir: &Path) -> Result<Table<String, Option<Stamp>>, Option<String>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(None),
        Err(error) => return Err(Some(error.to_string())),
    };
    let mut files = Table::new();
    for entry in entries {
        let entry = entry.map_err(|e| Some(e.to_string()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_archive_name(&name) {
            let meta = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file);
            files.insert(name, meta.map(|meta| stamp_of(&meta)));
            if files.len() > limits::PRELOAD_FILES {
                return Err(Some(format!("it holds more than {} archives", limits::PRELOAD_FILES)));
            }
        }
    }
    Ok(files)
}

fn stamp_of(meta: &fs::Metadata) -> Stamp {
    Stamp { size: meta.size(), mtime: (meta.mtime(), meta.mtime_nsec()) }
}

/// Whether the file changed a moment ago by the wall clock, which sets the file system's times: it may change
/// again. A clock that jumps costs one more look, or one failed load that is repeated.
fn is_young(stamp: Stamp, now: &Now) -> bool {
    let settle = i64::try_from(limits::PRELOAD_SETTLE.as_secs()).unwrap_or(i64::MAX);
    let age = now.wall.as_second().saturating_sub(stamp.mtime.0);
    (0..settle).contains(&age)
}

#[cfg(test)]
mod tests;
