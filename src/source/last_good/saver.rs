//! The store of a source as its thread uses it. Writing and removing happen in a thread of its own, `pk-last-good`, to
//! which the store is lent: a dead disk does not keep the source from reading manifests. Changes are kept here
//! meanwhile, only the newest of each path, and passed to the store when it is back.
//!
//! Never here: a wait for the disk or for that thread, except for a moment after an operator's request, and at the end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::{Board, LastGood, Remembered, seen};
use crate::base::clock::Mono;
use crate::base::handover::{Taker, handover};
use crate::base::table::{Set, Table};
use crate::base::{limits, order, thread};
use crate::manifest::edition::{Claim, Known, Record};
use crate::pod::Source;
use crate::source::SourceUpdate;
use crate::source::in_force::Version;
use crate::status::task::{Pulses, Task};

/// Brings a store up to date; ends early when the store is not wanted back any more.
type Write = fn(&mut LastGood, Mono, &Weak<()>);

/// The store of a source, which may be lent to its writing thread.
#[derive(Debug)]
pub struct Saver {
    /// The store, unless it is lent.
    here: Option<Box<LastGood>>,
    away: Option<Away>,
    /// The operator has sent a signal, and the directory was not checked since.
    asked: bool,
    pulses: Pulses,
    write: Write,
}

/// State while the store is lent.
#[derive(Debug)]
struct Away {
    back: Taker<Box<LastGood>>,
    /// Dropped when the store is not wanted back.
    _wanted: Arc<()>,
    /// When to look whether it is back, and the wait after that.
    look: Mono,
    wait: Duration,
    source: Source,
    board: Board,
    /// The highest signed versions, when the store was lent and now.
    lent: Arc<Record>,
    record: Arc<Record>,
    /// Signed content was accepted meanwhile.
    accepted: bool,
    /// Paths that the store knows.
    known: Set<String>,
    said: Table<String, Said>,
}

/// Changes of a path meanwhile.
#[derive(Debug, Default)]
struct Said {
    /// The new ones among the needed contents.
    contents: Vec<Remembered>,
    /// Contents that make the state, oldest first; none when the path is to be forgotten.
    needed: Vec<Version>,
}

impl From<LastGood> for Saver {
    fn from(store: LastGood) -> Saver {
        Saver::new(store, Pulses::default())
    }
}

impl Saver {
    /// The store of a source; `pulses` report a disk that does not answer, as [`Task::Store`].
    #[must_use]
    pub fn new(store: LastGood, pulses: Pulses) -> Saver {
        Saver { here: Some(Box::new(store)), away: None, asked: false, pulses, write }
    }

    /// The store itself, until the first write; used at the start.
    pub fn here(&mut self) -> Option<&mut LastGood> {
        self.here.as_deref_mut()
    }

    /// Like [`LastGood::seen`].
    #[must_use]
    pub fn seen(&self) -> Known {
        match (&self.here, &self.away) {
            (Some(store), _) => store.seen(),
            (None, Some(away)) => away.board.known(away.source, &away.record),
            (None, None) => Known::default(),
        }
    }

    /// Like [`LastGood::remember`].
    pub fn remember(&mut self, content: Remembered, needed: &[Version]) {
        if let Some(store) = &mut self.here {
            return store.remember(content, needed);
        }
        let Some(away) = &mut self.away else { return };
        let said = away.said.get_or_default(content.path.clone());
        said.contents.retain(|older| older.version != content.version && needed.contains(&older.version));
        said.contents.push(content);
        said.needed = needed.to_vec();
    }

    /// Like [`LastGood::retain`].
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        if let Some(store) = &mut self.here {
            return store.retain(wanted);
        }
        let Some(away) = &mut self.away else { return };
        let gone = away.known.iter().filter(|path| !wanted(path)).cloned();
        let gone: Vec<String> = gone.chain(away.said.keys().filter(|path| !wanted(path)).cloned()).collect();
        away.said.extend(gone.into_iter().map(|path| (path, Said::default())));
    }

    /// Like [`LastGood::note`].
    pub fn note(&mut self, signed: &[(Claim, Set<String>)], in_force: impl FnOnce() -> Set<String>) {
        if let Some(store) = &mut self.here {
            return store.note(signed, in_force);
        }
        let Some(away) = self.away.as_mut().filter(|_| !signed.is_empty()) else { return };
        away.accepted = true;
        seen::note(&mut away.record, away.source, signed, in_force);
        away.board.put(away.source, &away.record);
    }

    /// Waits a moment for the store, after an operator's request.
    pub fn await_back(&mut self) {
        let back = self.away.as_ref().map(|away| away.back.take(limits::LAST_GOOD_ASKED));
        if let Some(Ok(store)) = back {
            self.here = Some(store);
            self.catch_up();
        }
    }

    /// Like [`LastGood::was_forgotten`], after a request; while the store is lent, the check waits until it is back.
    pub fn was_forgotten(&mut self, asked: bool) -> bool {
        self.asked |= asked;
        match &mut self.here {
            Some(store) => std::mem::take(&mut self.asked) && store.was_forgotten(),
            None => false,
        }
    }

    /// Like [`LastGood::take_news`].
    pub fn take_news(&mut self) -> Option<SourceUpdate> {
        self.here.as_mut()?.take_news()
    }

    /// When [`Saver::save`] has something to do.
    #[must_use]
    pub fn due(&self, now: Mono) -> Option<Mono> {
        match (&self.here, &self.away) {
            (Some(store), _) if store.is_behind(now) => Some(now),
            (Some(store), _) => store.due(),
            (None, away) => away.as_ref().map(|away| away.look),
        }
    }

    /// Starts writing when something is to be written, and takes a lent store back that is ready.
    pub fn save(&mut self, now: Mono) {
        if let Some(away) = &mut self.away {
            let Ok(store) = away.back.take(Duration::ZERO) else {
                away.look = now.after(away.wait);
                away.wait = away.wait.saturating_mul(2).min(limits::LAST_GOOD_LOOK_MAX);
                return;
            };
            self.here = Some(store);
            self.catch_up();
        }
        if self.here.as_ref().is_some_and(|store| store.is_behind(now)) {
            self.lend(now);
        }
    }

    /// Passes the changes of the meantime to the store that is back.
    fn catch_up(&mut self) {
        let (Some(store), Some(away)) = (&mut self.here, self.away.take()) else { return };
        if away.accepted {
            store.take_record(&away.lent, away.record);
        }
        for (path, Said { contents, needed }) in away.said {
            if needed.is_empty() {
                store.retain(|other| *other != path);
            }
            contents.into_iter().for_each(|content| store.remember(content, &needed));
        }
    }

    fn lend(&mut self, now: Mono) {
        let Some(mut store) = self.here.take() else { return };
        let (give, take) = handover::<Box<LastGood>>();
        let (bring, back) = handover();
        let wanted = Arc::new(());
        let (is_wanted, write, pulses) = (Arc::downgrade(&wanted), self.write, self.pulses.clone());
        let source = store.source;
        let body = move || {
            pulses.join(Task::Store(source));
            let Some(mut store) = take.await_it() else { return };
            write(&mut store, now, &is_wanted);
            bring.give(store);
        };
        let (board, record) = (store.board.clone(), Arc::clone(store.record()));
        let known = order::set(store.paths.keys().cloned());
        if let Err(error) = thread::spawn("pk-last-good", limits::WORKER_STACK, body) {
            store.put_off(format!("no thread could be started to remember it: {error}"), now);
            self.here = Some(store);
            return;
        }
        // The thread waits.
        give.give(store);
        self.away = Some(Away {
            back,
            _wanted: wanted,
            look: now.after(limits::LAST_GOOD_LOOK_MIN),
            wait: limits::LAST_GOOD_LOOK_MIN.saturating_mul(2),
            source,
            board,
            lent: Arc::clone(&record),
            record,
            accepted: false,
            known,
            said: Table::new(),
        });
    }
}

impl Drop for Saver {
    /// Writes the last changes. The handle of the source waits a short time for that.
    fn drop(&mut self) {
        let back = self.away.as_ref().map(|away| away.back.take(limits::SOURCE_END));
        if let Some(Ok(store)) = back {
            self.here = Some(store);
            self.catch_up();
        }
        if let Some(store) = &mut self.here {
            let wanted = Arc::new(());
            // A failure is not retried.
            (self.write)(store, Mono::default(), &Arc::downgrade(&wanted));
        }
    }
}

fn write(store: &mut LastGood, now: Mono, is_wanted: &Weak<()>) {
    while is_wanted.strong_count() > 0 && store.is_behind(now) {
        store.save_some(now);
    }
}

#[cfg(test)]
pub(in crate::source) mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::source::testing::TempDir;

    /// A saver below this directory whose disk answers when there is a file `go` in it.
    pub(in crate::source) fn on_a_dead_disk(root: &Path) -> Saver {
        let write: Write = |store, now, is_wanted| {
            let go = store.dir.parent().and_then(Path::parent).unwrap().join("go");
            while is_wanted.strong_count() > 0 && !go.exists() {
                std::thread::sleep(Duration::from_millis(1));
            }
            super::write(store, now, is_wanted);
        };
        let mut saver = Saver::from(LastGood::new(root, None, Source::File));
        saver.write = write;
        saver
    }

    fn content(path: &str, version: Version, text: &str) -> Remembered {
        Remembered { path: path.into(), version, bytes: text.into(), ..Remembered::default() }
    }

    /// A source was not read any more while the disk of its store did not answer.
    #[test]
    fn a_dead_disk_holds_nobody_up_and_the_newest_is_remembered() {
        let temp = TempDir::new();
        let root = temp.path("");
        let mut saver = on_a_dead_disk(&root);
        assert!(saver.here().unwrap().load().is_empty());
        let now = Mono::default();
        assert_eq!(saver.due(now), None);
        for path in ["a", "b", "c"] {
            saver.remember(content(path, 1, "old"), &[1]);
        }
        assert_eq!(saver.due(now), Some(now));
        saver.save(now);
        let look = saver.due(now).unwrap();
        assert_eq!(look, now.after(limits::LAST_GOOD_LOOK_MIN));
        saver.save(look);
        assert_eq!(saver.due(look), Some(look.after(limits::LAST_GOOD_LOOK_MIN * 2)), "ever more rarely");
        saver.remember(content("a", 2, "newer"), &[1, 2]);
        saver.remember(content("a", 3, "newest"), &[3]);
        saver.remember(content("d", 1, "gone again"), &[1]);
        saver.retain(|path| ["a", "b"].contains(&path));
        assert!(!saver.was_forgotten(true), "it is looked up later");
        assert!(saver.take_news().is_none());
        fs::write(temp.path("go"), "").unwrap();
        while saver.due(now).is_some() {
            saver.save(now);
            std::thread::yield_now();
        }
        assert!(!saver.was_forgotten(false) && !saver.asked);
        let found = LastGood::new(&root, None, Source::File).load();
        let found: Vec<_> = found
            .iter()
            .map(|it| format!("{}#{}={:?}", it.path, it.version, it.bytes == "newest".into()))
            .collect();
        assert_eq!(found, ["a#3=true", "b#1=false"]);
    }

    #[test]
    fn what_was_said_last_is_written_at_the_end() {
        let temp = TempDir::new();
        let root = temp.path("");
        let mut saver = Saver::from(LastGood::new(&root, None, Source::File));
        saver.here().unwrap().load();
        saver.remember(content("a", 1, "one"), &[1]);
        saver.save(Mono::default());
        saver.remember(content("a", 2, "two"), &[2]);
        drop(saver);
        let found = LastGood::new(&root, None, Source::File).load();
        assert_eq!(found.iter().map(|it| (it.path.as_str(), it.version)).collect::<Vec<_>>(), [("a", 2)]);
    }
}
