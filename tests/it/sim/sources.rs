//! The file and the URL source side by side: each is right, wrong, fails or is silent. The real scanner, the
//! real state of the URL and the real restoring of remembered content; disk, server and store are in memory.

mod disk;
mod judge;
mod turmoil;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use podkeeper::testing::base::clock::Now;
use podkeeper::testing::base::limits;
use podkeeper::testing::daemon::turn::Event;
use podkeeper::testing::manifest::edition::Known;
use podkeeper::testing::manifest::{self, Context, Decoded};
use podkeeper::testing::pod::Source;
use podkeeper::testing::runtime::fake::{Behaviour, Restart};
use podkeeper::testing::runtime::{Call, DockerState, labels};
use podkeeper::testing::source::accept::Acceptor;
use podkeeper::testing::source::disk::{Disk, Found, Reading, Stamp};
use podkeeper::testing::source::hints::Hints;
use podkeeper::testing::source::http::Settings;
use podkeeper::testing::source::http::fetch::Validators;
use podkeeper::testing::source::http::state::{Answer, Content, State};
use podkeeper::testing::source::http::url::ManifestUrl;
use podkeeper::testing::source::in_force::Version;
use podkeeper::testing::source::last_good::Remembered;
use podkeeper::testing::source::last_good::replay::replay;
use podkeeper::testing::source::scan::Scanner;
use podkeeper::testing::source::{FromSource, PodSet, SourceUpdate};

use self::disk::SimDisk;
use super::scenes::with_volume;
use super::world::{Deed, NODE, ROOT, World};
use super::{run, seconds, seeds};

const DIRECTORY: &str = "/m";
const URL: &str = "https://fleet/pods";

/// The server's answer to a request.
#[derive(Clone, PartialEq)]
enum Says {
    Body(String),
    Nothing,
    Status(&'static str),
}

/// Both sources and their surroundings.
pub struct Hub {
    disk: SimDisk,
    server: Says,
    etag: u64,
    /// Content of the root directory's store.
    store: BTreeMap<(Source, String, Version), Remembered>,
    hints: Hints,
    /// The file source of the running daemon.
    scanner: Scanner,
    state: State,
    restored: Option<PodSet>,
    /// Whoever reads the directory waits.
    hangs: bool,
    /// Containers that may be stopped for a reason: their pods were not wanted for a while, or were
    /// wanted in two versions.
    doomed: BTreeSet<String>,
}

/// Settings of the URL source.
pub fn settings() -> Settings {
    Settings::new(ManifestUrl::parse(URL).unwrap())
}

fn acceptor(source: Source) -> Acceptor {
    Acceptor { decode, ..Acceptor::new(source, NODE.to_owned()) }
}

/// Like [`manifest::decode`]; the same few manifests are read again and again.
fn decode(bytes: &[u8], context: &Context<'_>) -> Decoded {
    thread_local! {
        static DECODED: RefCell<BTreeMap<(String, Vec<u8>), Decoded>> = const { RefCell::new(BTreeMap::new()) };
    }
    DECODED.with_borrow_mut(|all| {
        let new = || manifest::decode(bytes, context);
        all.entry((context.path.to_owned(), bytes.to_owned())).or_insert_with(new).clone()
    })
}

impl Hub {
    fn new() -> Hub {
        Hub {
            disk: SimDisk::default(),
            server: Says::Nothing,
            etag: 0,
            store: BTreeMap::new(),
            hints: Hints::default(),
            scanner: Scanner::new(DIRECTORY.into(), acceptor(Source::File)),
            state: State::default(),
            restored: None,
            hangs: false,
            doomed: BTreeSet::new(),
        }
    }

    /// A daemon starts with the content that the last one remembered. Returns that of the file source.
    pub fn boot(&mut self) -> Option<PodSet> {
        let of = |source: Source| -> Vec<Remembered> {
            let mine = self.store.iter().filter(|((s, _, _), _)| *s == source);
            mine.map(|(_, content)| content.clone()).collect()
        };
        let path = DIRECTORY.into();
        self.scanner = Scanner::on(Box::new(self.disk.clone()), path, acceptor(Source::File));
        self.scanner.restore(replay(of(Source::File), &acceptor(Source::File)));
        self.hints = Hints::default();
        self.state = State::default();
        let remembered = replay(of(Source::Http), &acceptor(Source::Http)).pop();
        self.restored = remembered.and_then(|remembered| self.state.restore(remembered));
        self.scanner.remembered()
    }

    fn remember(&mut self, source: Source, content: Remembered, needed: &[Version]) {
        self.store.retain(|(s, path, version), _| {
            *s != source || *path != content.path || needed.contains(version)
        });
        self.store.insert((source, content.path.clone(), content.version), content);
    }

    /// Newest accepted text of a path.
    fn accepted(&self, source: Source, path: &str) -> Option<String> {
        let mut of = self.store.range((source, path.to_owned(), 0)..=(source, path.to_owned(), u64::MAX));
        of.next_back().map(|(_, content)| String::from_utf8(content.bytes.0.clone()).unwrap())
    }

    /// The wanted pods: by name, the text from each source that has the pod.
    fn wanted(&self) -> BTreeMap<String, Vec<String>> {
        let mut wanted: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for ((source, path, _), _) in self.store.iter().rev() {
            if !seen.insert((*source, path)) {
                continue;
            }
            let text = self.accepted(*source, path).unwrap();
            let context = Context { node_name: NODE, source: *source, path };
            for pod in decode(text.as_bytes(), &context).pods {
                wanted.entry(pod.key.name.clone()).or_default().push(pod.written.clone().unwrap());
            }
        }
        wanted
    }
}

impl World {
    fn hub(&mut self) -> &mut Hub {
        self.hub.as_mut().expect("a world with both sources")
    }

    /// A daemon starts, or is to look at its sources again.
    pub fn begin_sources(&mut self) {
        if let Some(set) = self.hub().boot() {
            self.say(Source::File, SourceUpdate::Remembered(set));
        }
    }

    /// The file source looks.
    pub fn look(&mut self) {
        let now = self.now();
        let Some(hub) = &mut self.hub else { return };
        if hub.hangs {
            return self.deed(seconds(1), Deed::Look);
        }
        let hints = std::mem::take(&mut hub.hints);
        let outcome = hub.scanner.scan(now, &hints);
        let spoke = outcome.update.is_some();
        for (content, needed) in outcome.accepted {
            hub.remember(Source::File, content, &needed);
        }
        if spoke && !outcome.failed {
            let scanner = &hub.scanner;
            hub.store.retain(|(source, path, _), _| *source != Source::File || scanner.holds(path));
        }
        let period = if outcome.failed { seconds(5) } else { seconds(20) };
        let settle = outcome.settle.map_or(period, |at| at.since(now.mono).min(period));
        self.deed(settle.max(limits::SCAN_COALESCE), Deed::Look);
        self.doom();
        for update in outcome.before.into_iter().chain(outcome.update) {
            self.say(Source::File, update);
        }
        self.doom();
    }

    /// The URL source sends a request; the answer comes later.
    pub fn ask(&mut self) {
        let silent = self.hub().server == Says::Nothing;
        let latency = if silent { seconds(10) } else { Duration::from_millis(self.below(1200)) };
        self.deed(latency, Deed::Answered);
    }

    /// The head start of the server is over.
    pub fn head_start_ends(&mut self) {
        if let Some(set) = self.hub().restored.take() {
            self.say(Source::Http, SourceUpdate::Restored(set));
        }
    }

    /// The server's answer arrives.
    pub fn answered(&mut self) {
        let Some(hub) = &mut self.hub else { return };
        let asked = hub.state.validators();
        let answer = match &hub.server {
            Says::Nothing => Answer::Failed("no answer within 10s".to_owned()),
            Says::Status(status) => Answer::Failed(format!("the server answers {status}")),
            Says::Body(_) if asked.etag == Some(hub.etag.to_string()) => Answer::Unchanged,
            Says::Body(body) => {
                let validators = Validators { etag: Some(hub.etag.to_string()), last_modified: None };
                let content =
                    Content { bytes: body.clone().into_bytes().into(), signature: None, validators };
                let digest = content.digest();
                let judge = || acceptor(Source::Http).accept(URL, &content.bytes, None, &Known::default());
                let decoded = (!hub.state.known().contains(&digest)).then(judge);
                Answer::Content { digest, content, decoded }
            }
        };
        let failed = matches!(answer, Answer::Failed(_));
        let (updates, remember) = hub.state.take(answer, URL);
        if let Some(remember) = remember {
            let Content { bytes, validators: Validators { etag, last_modified }, .. } = remember.content;
            let (path, version) = (URL.to_owned(), remember.version);
            let content = Remembered { path, version, bytes, etag, last_modified, ..Remembered::default() };
            hub.remember(Source::Http, content, &remember.needed);
        }
        self.doom();
        for update in updates {
            let set = self
                .hub()
                .restored
                .take()
                .filter(|_| !matches!(update, SourceUpdate::Full(_) | SourceUpdate::Forgotten));
            if let Some(set) = set {
                self.say(Source::Http, SourceUpdate::Restored(set));
            }
            self.say(Source::Http, update);
        }
        self.doom();
        let wait = if failed { 10 + self.below(50) } else { 18 + self.below(4) };
        self.deed(seconds(wait), Deed::Ask);
    }

    fn say(&mut self, source: Source, update: SourceUpdate) {
        self.note(|| match &update {
            SourceUpdate::Full(set) => format!("{source} full {}", set.pods.len()),
            SourceUpdate::Restored(set) => format!("{source} restored {}", set.pods.len()),
            SourceUpdate::Remembered(set) => format!("{source} remembers {}", set.pods.len()),
            other => format!("{source} {other:?}").chars().take(120).collect(),
        });
        self.event(Event::Source(FromSource { source, update }));
    }
}

/// Whatever two sources contain, omit or corrupt, and whichever of daemon and machine dies meanwhile
/// (kubernetes/kubernetes#59275, #3355, #15122, #116880, #104648, #97722, #136962, #40123;
/// kontena/pharos-cluster#252).
fn trouble(w: &mut World) {
    w.engine.behave("prepare", Behaviour::exits(0, Duration::from_millis(300)));
    w.hub = Some(Hub::new());
    let steps = 10 + w.below(20);
    for _ in 0..w.below(5) {
        w.turmoil();
    }
    w.start_daemon();
    for _ in 0..steps {
        let pause = Duration::from_millis(100 + w.below(1 << (6 + w.seed % 9)));
        w.pass(pause);
        w.turmoil();
    }
    w.pass(seconds(400));
    w.check_accepted();
    w.check_wanted_runs();
    // Everything is right again.
    w.hub().hangs = false;
    w.hub().disk.0.lock().unwrap().unreadable = false;
    w.write_file("/m/pod0.yaml", &with_volume("pod0", 7, 0));
    w.serve(Says::Body(with_volume("pod5", 7, 5)));
    w.pass(seconds(200));
    w.check_accepted();
    w.check_wanted_runs();
    assert!(w.lives().iter().any(|(_, name, ..)| name == "pod5-node1"));
}

#[test]
fn k4441_two_sources_end_with_exactly_what_was_accepted_last() {
    seeds(200, trouble);
}

/// Regression: larger seeds that once failed. A pod of a URL waited for the directory, which could not be read any
/// more, because of dead containers under its name, also where those were of an earlier life. What was read while
/// another file was awaited was accepted, and not told before the directory could not be read any more.
#[test]
fn sources_that_failed_once() {
    for seed in [17281, 18759, 15453, 7780, 9796] {
        let (story, failed) = run(seed, false, &trouble);
        assert!(failed.is_none(), "SIM_SEED={seed}: {story}");
    }
}

/// The source answers 404 for an hour, the daemon and the machine die meanwhile: everything that ran keeps
/// running.
#[test]
fn k4441_an_hour_of_404_stops_nothing() {
    seeds(20, |w| {
        w.hub = Some(Hub::new());
        let pods: Vec<String> = (0..4).map(|n| with_volume(&format!("pod{n}"), 0, 0)).collect();
        w.serve(Says::Body(pods.join("---\n")));
        w.start_daemon();
        w.pass(seconds(60));
        let before = w.running();
        assert_eq!(before.len(), 8);
        w.serve(Says::Status("404 Not Found"));
        for round in 0..6 {
            w.pass(seconds(600));
            if round % 2 == w.seed % 2 {
                w.kill_daemon();
                w.start_daemon();
            }
        }
        w.pass(seconds(60));
        assert_eq!(w.running(), before);
        assert_eq!(w.record.kills, []);
        w.kill_daemon();
        let now = w.now();
        w.engine.restart_engine(Restart::PowerCut, now);
        w.start_daemon();
        w.pass(seconds(30));
        w.check_wanted_runs();
        assert_eq!(w.running().len(), 8);
    });
}

/// A pod moves to the other source, word for word: it is not restarted. The new source has it before
/// the old one drops it, so at every moment one of them wants it.
#[test]
fn a_pod_moves_between_the_sources_without_a_restart() {
    seeds(40, |w| {
        w.hub = Some(Hub::new());
        w.write_file("/m/pod0.yaml", &with_volume("pod0", 1, 0));
        w.serve(Says::Body(with_volume("pod9", 1, 0)));
        w.start_daemon();
        w.pass(seconds(60));
        let before = w.running();
        let both = format!("{}---\n{}", with_volume("pod9", 1, 0), with_volume("pod0", 1, 0));
        for _ in 0..3 {
            w.serve(Says::Body(both.clone()));
            w.pass(seconds(60));
            w.hub().disk.0.lock().unwrap().files.clear();
            w.pass(seconds(90));
            if w.seed % 2 == 0 {
                w.kill_daemon();
                w.start_daemon();
            }
            w.write_file("/m/pod0.yaml", &with_volume("pod0", 1, 0));
            w.pass(seconds(60));
            w.serve(Says::Body(with_volume("pod9", 1, 0)));
            w.pass(seconds(60));
        }
        assert_eq!(w.running(), before);
        assert_eq!((w.record.kills.len(), before.len()), (0, 4));
    });
}
