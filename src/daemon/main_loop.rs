//! The main thread: [`MainLoop::next_message`] selects one message, [`MainLoop::handle`] matches it, and the [`Turn`]
//! decides. It waits on channels alone and blocks on no other thread: mailboxes and slots take its messages.
//!
//! Never here: a decision. `wiring` starts the actors.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, after, bounded, never, select_biased};

use crate::base::clock::{Clock, Mono};
use crate::base::pulse::Pulses;
use crate::base::table::Table;
use crate::base::{limits, logging};
use crate::daemon::config::Config;
use crate::daemon::drain::Drain;
use crate::daemon::once::{self, Report};
use crate::daemon::reload::{Reader, Reload};
use crate::daemon::signals::{self, Signal};
use crate::daemon::turn::{Effect, Event, Turn};
use crate::daemon::watch;
use crate::daemon::wiring::{self, Actors, RunError, cannot};
use crate::machine::Slot;
use crate::node::{kernel, sys};
use crate::pod::PodKey;
use crate::recorder::object;
use crate::runtime::docker::Endpoint;
use crate::status::file;
use crate::status::writer::Restore;
use crate::worker::thread::Worker;

/// Runs the daemon until SIGTERM or SIGINT, which leave the pods running, or with `--runonce` until all pods run; then
/// that is reported. `restore` makes the run directory and its lock anew when they were removed; `settings` reads the
/// settings anew at SIGHUP.
///
/// # Errors
/// A thread could not be started.
pub fn run(config: Arc<Config>, restore: Restore, settings: Reader) -> Result<Option<Report>, RunError> {
    let signals = signals::catch(&config.root_dir, settings).map_err(cannot("signals cannot be handled"))?;
    // The kernel gives a signal to the first thread of the process, and no other one hears of it while that one waits
    // for a disk: so the first thread does nothing but wait.
    let keep = move || keep(config, signals, restore);
    let main = thread::Builder::new().name("main".to_owned()).spawn(keep);
    let main = main.map_err(cannot("the main thread could not be started"))?;
    main.join().unwrap_or(Ok(None))
}

/// The main thread.
fn keep(
    config: Arc<Config>,
    signals: Receiver<Signal>,
    restore: Restore,
) -> Result<Option<Report>, RunError> {
    sys::raise_open_files();
    if let Err(error) = sys::protect_from_oom_killer() {
        log::debug!("this process's oom_score_adj stays as it is: {error}");
    }
    // A Docker in memory has no node.
    if config.docker != Endpoint::Fake {
        kernel::set_up(Path::new(kernel::SETTINGS), config.node.host.protect_kernel_defaults)
            .map_err(|why| cannot("the kernel is not set up for pods")(io::Error::other(why)))?;
    }
    let (events_in, events) = bounded(limits::EVENT_QUEUE);
    let pulses = Pulses::default();
    watch::join_main(&pulses);
    let mut turn = Turn::new(Arc::clone(&config));
    match object::restore(&config.run_dir) {
        Ok(earlier) => turn.restore_events(earlier),
        Err(why) => log::warn!("earlier events are not shown: {why}"),
    }
    // What is not there, or cannot be read, costs nothing but a pod's wait.
    if let Ok(earlier) = file::read(&config.run_dir) {
        turn.restore_evictions(earlier.file.evictions);
    }
    let actors = wiring::start(&config, events_in, restore, pulses, turn.events())?;
    actors.writer.set_earlier_events(turn.events());
    if let Some(told) = &actors.told {
        told.tell_events(turn.events());
    }
    let once = config.runs_once.then(|| actors.tools.clock.now().mono);
    let mut main = MainLoop { turn, workers: Table::new(), actors, signals, events, once };
    Ok(if main.begin().is_continue() { main.run() } else { None })
}

/// What comes while the marker of a drained node is not read yet.
enum Before {
    /// This is how it is.
    Read(Option<Drain>),
    /// The settings are these now.
    Reloaded(Box<Reload>),
    /// Somebody asks whether the main thread works.
    Ask,
    /// The disk has not answered for so long.
    Late(Duration),
    /// SIGTERM or SIGINT.
    End(i32),
    /// No thread catches signals any more.
    Closed,
}

/// Waits for the marker, for signals, or for `patience`, whichever comes first.
fn before(signals: &Receiver<Signal>, patience: Option<Duration>) -> Before {
    let late = patience.map_or(never(), after);
    watch::waits(|| {
        select_biased! {
            recv(signals) -> signal => match signal {
                Ok(Signal::Rescan(drain)) => Before::Read(drain),
                Ok(Signal::Reloaded(reload)) => Before::Reloaded(reload),
                Ok(Signal::Ask) => Before::Ask,
                Ok(Signal::End(number)) => Before::End(number),
                Err(_) => Before::Closed,
            },
            recv(late) -> _ => Before::Late(patience.unwrap_or_default()),
        }
    })
}

/// A message to the main thread.
enum Message {
    Event(Event),
    Signal(Signal),
    /// A deadline has come.
    Due,
    /// A channel has no sender left.
    Closed,
}

/// Waits for one message. Signals have priority, then what is due: a flood of events must delay neither, and both are
/// few. Events come in the order in which they were sent. Whoever floods waits behind the others: the queue is bounded,
/// and a thread that cannot send has one event waiting, like any other.
fn next(signals: &Receiver<Signal>, due: &Receiver<Instant>, events: &Receiver<Event>) -> Message {
    watch::waits(|| {
        select_biased! {
            recv(signals) -> signal => signal.map_or(Message::Closed, Message::Signal),
            recv(due) -> _ => Message::Due,
            recv(events) -> event => event.map_or(Message::Closed, Message::Event),
        }
    })
}

struct MainLoop {
    turn: Turn,
    workers: Table<PodKey, Worker>,
    signals: Receiver<Signal>,
    // Declared before the actors, so dropped first: an actor that blocks on sending must not delay the end.
    events: Receiver<Event>,
    actors: Actors,
    /// `--runonce`: since when it runs.
    once: Option<Mono>,
}

/// The threads that send live as long as this one.
fn closed() -> ControlFlow<()> {
    log::error!("no thread tells the main loop anything: podkeeper ends; the pods go on running");
    ControlFlow::Break(())
}

impl MainLoop {
    fn end(&self, signal: i32) -> ControlFlow<()> {
        log::info!("signal {signal}: podkeeper ends now; the pods go on running");
        self.actors.watch.stopping();
        ControlFlow::Break(())
    }

    /// Waits for the marker of a drained node: until it is known, no pod is started or stopped. A disk that is dead
    /// keeps neither SIGTERM nor the command line from being answered.
    fn begin(&mut self) -> ControlFlow<()> {
        let mut patience = Some(limits::MARKER_PATIENCE);
        loop {
            match before(&self.signals, patience) {
                Before::Read(drain) => {
                    self.tell(Event::Drain(drain));
                    return ControlFlow::Continue(());
                }
                Before::Reloaded(reload) => self.reload(*reload),
                Before::Ask => self.actors.writer.answer(),
                Before::Late(waited) => {
                    patience = None;
                    log::error!(
                        "the root directory has not answered for {} s: whether the node is drained is not known, and \
                         no pod is started or stopped until it is",
                        waited.as_secs()
                    );
                    self.publish();
                }
                Before::End(number) => return self.end(number),
                Before::Closed => return closed(),
            }
        }
    }

    /// Returns what `--runonce` has come to; `None` when a signal has ended it.
    fn run(&mut self) -> Option<Report> {
        let mut unpublished = 0;
        loop {
            // Many events in a row become one published state, but not for ever.
            if self.events.is_empty() || unpublished >= limits::EVENT_QUEUE {
                self.publish();
                unpublished = 0;
                if let Some(report) = self.report() {
                    self.actors.watch.stopping();
                    return Some(report);
                }
            }
            unpublished = unpublished.saturating_add(1);
            let message = self.next_message();
            if self.handle(message).is_break() {
                return None;
            }
        }
    }

    fn next_message(&self) -> Message {
        next(&self.signals, &self.due(), &self.events)
    }

    fn due(&self) -> Receiver<Instant> {
        let now = self.actors.tools.clock.now().mono;
        let of_turn = self.turn.next_due().map(|at| at.since(now));
        let of_once = self.once.map(|begun| once::due(now.since(begun)));
        [of_turn, of_once].into_iter().flatten().min().map_or(never(), after)
    }

    fn report(&self) -> Option<Report> {
        let begun = self.once?;
        let now = self.actors.tools.clock.now();
        once::report(&self.turn.snapshot(&now), now.mono.since(begun))
    }

    fn handle(&mut self, message: Message) -> ControlFlow<()> {
        match message {
            Message::Event(event) => self.tell(event),
            Message::Due => self.tell(Event::Tick),
            Message::Signal(Signal::Rescan(drain)) => {
                let began = watch::monotonic();
                self.tell(Event::Drain(drain));
                self.tell(Event::Rescan);
                self.actors.watch.reloaded(began);
            }
            Message::Signal(Signal::Reloaded(reload)) => self.reload(*reload),
            Message::Signal(Signal::Ask) => self.actors.writer.answer(),
            Message::Signal(Signal::End(number)) => return self.end(number),
            Message::Closed => return closed(),
        }
        ControlFlow::Continue(())
    }

    fn reload(&mut self, reload: Reload) {
        if let Reload::Read { verbosity, now, .. } = &reload
            && now.contains(&"v")
        {
            logging::set(*verbosity);
        }
        self.tell(Event::Reloaded(reload));
    }

    /// Lets the turn decide, and carries out its effects. One that fails is an event, handled after the others; that
    /// comes to an end, for the turn lets time pass before it tries again.
    fn tell(&mut self, event: Event) {
        let now = self.actors.tools.clock.now();
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.turn.handle(event, &now) {
                events.extend(self.carry_out(effect));
            }
        }
    }

    /// Returns what the turn must hear of it.
    fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Spawn { key, found } => match Worker::spawn(&key, found, self.actors.tools.clone()) {
                Ok(worker) => _ = self.workers.insert(key, worker),
                Err(error) => return Some(Event::SpawnFailed { key, why: error.to_string() }),
            },
            Effect::Wish(key, wish) => self.put(&key, |slot| slot.wish(wish)),
            Effect::Objects(key, objects) => self.put(&key, |slot| slot.objects(objects)),
            Effect::Hint(key, hint) => self.put(&key, |slot| slot.hint(hint)),
            Effect::Retire(key) => _ = self.workers.remove(&key),
            Effect::Sweep(keep) => self.actors.sweep(keep),
            Effect::Rescan => self.actors.rescan(),
            Effect::Log(level, line) => log::log!(level, "{line}"),
        }
        None
    }

    /// Puts something into a worker's mailbox. There is no worker when its thread could not be started: the turn
    /// tells the next one everything.
    fn put(&self, key: &PodKey, what: impl FnOnce(&mut Slot)) {
        if let Some(worker) = self.workers.get(key) {
            worker.mailbox().put(what);
        }
    }

    fn publish(&mut self) {
        if let Some((change, events)) = self.turn.take_events() {
            if let Some(told) = &self.actors.told {
                told.tell_events(events.clone());
            }
            if let Some(cluster) = &self.actors.cluster {
                cluster.tell_events(events.clone());
            }
            self.actors.writer.publish_events(change, events);
        }
        if self.turn.take_changed() {
            let now = self.actors.tools.clock.now();
            let snapshot = Arc::new(self.turn.snapshot(&now));
            if self.actors.watch.tells() {
                self.actors.watch.tell(self.turn.is_ready(), snapshot.summary());
            }
            self.actors.keeper.tell(Arc::clone(&snapshot));
            self.actors.limits.tell(Arc::clone(&snapshot));
            if let Some(told) = &self.actors.told {
                told.tell(Arc::clone(&snapshot), Arc::clone(self.turn.local_objects()));
            }
            if let Some(cluster) = &self.actors.cluster {
                cluster.tell(Arc::clone(&snapshot));
            }
            self.actors.writer.publish(snapshot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::daemon::turn::tests::rig;

    /// Every part of a daemon, on the Docker in memory.
    #[test]
    fn a_manifest_becomes_a_pod_that_runs_and_a_signal_ends_the_loop() {
        let dir = crate::base::testing::scratch("main-loop");
        let within = |name: &str| dir.join(name);
        for name in ["manifests", "root", "run"] {
            fs::create_dir(within(name)).unwrap();
        }
        let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web}, \
                   spec: {containers: [{name: app, image: busybox}]}}";
        fs::write(within("manifests/web.yaml"), pod).unwrap();
        let config = Arc::new(Config {
            root_dir: within("root"),
            run_dir: within("run"),
            pod_logs_dir: within("pods"),
            ..rig::config_with(|it| it.manifest_path = Some(within("manifests")))
        });
        let (signal, signals) = bounded(2);
        let (events_in, events) = bounded(limits::EVENT_QUEUE);
        let actors =
            wiring::start(&config, events_in, Box::new(|| Ok(())), Pulses::default(), Vec::new()).unwrap();
        let turn = Turn::new(Arc::clone(&config));
        let mut main = MainLoop { turn, workers: Table::new(), actors, signals, events, once: None };
        // Much later than any machine needs; the loop would wait for ever.
        let (over, patience) = bounded::<()>(0);
        let watchdog = signal.clone();
        let watches = thread::spawn(move || {
            if patience.recv_timeout(Duration::from_secs(60)).is_err_and(|error| error.is_timeout()) {
                watchdog.send(Signal::End(0)).unwrap();
            }
        });
        signal.send(Signal::Rescan(None)).unwrap();
        assert!(main.begin().is_continue());
        let runs = |main: &MainLoop| {
            let snapshot = main.turn.snapshot(&main.actors.tools.clock.now());
            snapshot.pods.iter().any(|view| view.status.phase.as_deref() == Some("Running"))
        };
        while !runs(&main) {
            let message = main.next_message();
            assert!(main.handle(message).is_continue(), "it does not run in time");
        }
        assert_eq!(main.workers.keys().map(ToString::to_string).collect::<Vec<_>>(), ["default/web-n1"]);
        main.publish();
        signal.send(Signal::End(15)).unwrap();
        assert_eq!(main.run(), None);
        drop((over, main));
        watches.join().unwrap();
        // A thread that ends may still write.
        _ = fs::remove_dir_all(&dir);
    }

    #[test]
    fn until_the_marker_is_read_signals_are_heard() {
        let (out, signals) = unbounded();
        assert!(matches!(before(&signals, Some(Duration::ZERO)), Before::Late(_)), "a disk that hangs");
        out.send(Signal::Ask).unwrap();
        assert!(matches!(before(&signals, None), Before::Ask));
        let read = |drain| {
            out.send(Signal::Rescan(drain)).unwrap();
            match before(&signals, None) {
                Before::Read(drain) => drain,
                _ => panic!("another one"),
            }
        };
        assert_eq!(read(None), None);
        let marker = Drain { since: crate::base::clock::Timestamp::UNIX_EPOCH, grace: None, boot: None };
        assert_eq!(read(Some(marker.clone())), Some(marker));
        out.send(Signal::End(15)).unwrap();
        assert!(matches!(before(&signals, None), Before::End(15)));
        drop(out);
        assert!(matches!(before(&signals, None), Before::Closed));
    }

    #[test]
    fn a_flood_of_events_delays_neither_a_signal_nor_what_is_due() {
        let (signal, signals) = bounded(1);
        let (event, events) = unbounded();
        (0..9).for_each(|_| event.send(Event::Tick).unwrap());
        let due = after(Duration::ZERO);
        signal.send(Signal::Ask).unwrap();
        assert!(matches!(next(&signals, &due, &events), Message::Signal(Signal::Ask)));
        assert!(matches!(next(&signals, &due, &events), Message::Due));
        assert!(matches!(next(&signals, &never(), &events), Message::Event(Event::Tick)));
    }
}
