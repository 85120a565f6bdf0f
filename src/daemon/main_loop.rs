//! The main thread: [`MainLoop::next_message`] selects one message, [`MainLoop::handle`] matches it, and the [`Turn`]
//! decides. It waits on channels alone and blocks on no other thread: mailboxes and slots take its messages.
//!
//! Never here: a decision. `wiring` starts the actors.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, after, bounded, never, select_biased};

use crate::api_client::Client;
use crate::base::clock::{Clock, Mono, Now};
use crate::base::table::{Set, Table};
use crate::base::{limits, logging, pulse, thread};
use crate::daemon::config::Config;
use crate::daemon::drain::Places;
use crate::daemon::earlier;
use crate::daemon::once::{self, Report};
use crate::daemon::publishing::Publishing;
use crate::daemon::reload::{Reader, Reload};
use crate::daemon::settled::Settled;
use crate::daemon::signals::{self, Signal};
use crate::daemon::turn::{Effect, Event, RuntimeEvent, Turn};
use crate::daemon::watch;
use crate::daemon::wiring::{
    self, Actors, Kind, RunError, {cannot, no_start_of},
};
use crate::machine::Slot;
use crate::node::{kernel, sys};
use crate::pod::PodKey;
use crate::recorder::object;
use crate::runtime::docker::Endpoint;
use crate::status::resized;
use crate::status::task::{Pulses, Task};
use crate::status::writer::Restore;
use crate::worker::signalled::Signalled;
use crate::worker::thread::Worker;

/// Runs the daemon until SIGTERM or SIGINT, which leave the pods running; with `--runonce` until all pods run, and
/// returns the report. `restore` recreates the run directory and its lock if they were removed; `settings` reads the
/// settings again at SIGHUP.
///
/// # Errors
/// A thread could not be started.
pub fn run(config: Arc<Config>, restore: Restore, settings: Reader) -> Result<Option<Report>, RunError> {
    let marker = Places { root: config.root_dir.clone(), run: config.run_dir.clone() };
    let signals = signals::catch(marker, settings).map_err(cannot("signals cannot be handled"))?;
    // The kernel delivers a signal to the first thread of the process, and no other thread gets it while that thread
    // waits for a disk: so the first thread only waits.
    let main = move || run_main_thread(config, signals, restore);
    let main = thread::spawn("main", limits::MAIN_STACK, main);
    let main = main.map_err(no_start_of("the main thread"))?;
    main.join().unwrap_or(Err(RunError::Panicked))
}

fn run_main_thread(
    config: Arc<Config>,
    signals: Receiver<Signal>,
    restore: Restore,
) -> Result<Option<Report>, RunError> {
    sys::raise_open_files();
    if let Err(error) = sys::protect_from_oom_killer() {
        log::debug!("this process's oom_score_adj stays as it is: {error}");
    }
    // The in-memory Docker has no node.
    if config.docker != Endpoint::Fake {
        kernel::set_up(Path::new(kernel::SETTINGS), config.node.host.protect_kernel_defaults)
            .map_err(RunError::Kernel)?;
    }
    let (events_in, events) = bounded(limits::EVENT_QUEUE);
    let pulses = Pulses::default();
    pulses.join(Task::MainLoop);
    let mut turn = Turn::new(Arc::clone(&config));
    match object::restore(&config.run_dir) {
        Ok(earlier) => turn.restore_events(earlier),
        Err(why) => log::warn!("earlier events are not shown: {why}"),
    }
    let signalled = Signalled::new(&config.run_dir).earlier();
    turn.restore_unfinished(earlier::read(&config.run_dir), signalled, resized::read(&config.root_dir));
    let actors = wiring::start(&config, events_in, Kind::Whole(restore), pulses, turn.events())?;
    if let Some(host) = &actors.host {
        host.writer.set_earlier_events(turn.events());
    }
    if let Some(told) = &actors.told {
        told.tell_events(turn.events());
    }
    actors.remove_volumes(Set::new()); // What an earlier daemon was removing, whatever the sources will tell.
    let once = config.runs_once.then(|| actors.tools.clock.now().mono);
    let marker = Marker::Awaited(after(limits::MARKER_PATIENCE));
    let (workers, settled, publishing) = (Table::new(), Settled::Yes, Publishing::default());
    let mut main = MainLoop { turn, workers, actors, signals, events, marker, once, settled, publishing };
    Ok(main.run())
}

/// Runs a hollow node until its signal to end: the client is the one that all such nodes of the process share.
///
/// # Errors
/// A thread could not be started.
pub(super) fn run_hollow(
    config: Arc<Config>,
    signals: Receiver<Signal>,
    client: Client,
) -> Result<(), RunError> {
    let (events_in, events) = bounded(limits::EVENT_QUEUE);
    let turn = Turn::new(Arc::clone(&config));
    let actors = wiring::start(&config, events_in, Kind::Hollow(client), Pulses::default(), Vec::new())?;
    // It cannot be drained, so no marker is awaited.
    let marker = Marker::Known;
    let (workers, once, settled, publishing) = (Table::new(), None, Settled::NotMine, Publishing::default());
    let mut main = MainLoop { turn, workers, actors, signals, events, marker, once, settled, publishing };
    main.run();
    Ok(())
}

/// The marker of a drained node. A dead disk must not block SIGTERM or the command line.
enum Marker {
    /// The marker is not read yet, so no pod is started or stopped. The receiver gets a message when the disk does not
    /// answer in time.
    Awaited(Receiver<Instant>),
    Known,
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
/// few. Events come in the order in which they were sent. A thread that floods the queue does not displace the others:
/// the queue is bounded, and each thread that waits to send has one event waiting.
fn next(signals: &Receiver<Signal>, due: &Receiver<Instant>, events: &Receiver<Event>) -> Message {
    pulse::waits(|| {
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
    // Declared before the actors, so dropped first: an actor that blocks on sending must not delay the daemon's end.
    events: Receiver<Event>,
    actors: Actors,
    marker: Marker,
    /// `--runonce`: the time of the start.
    once: Option<Mono>,
    settled: Settled,
    publishing: Publishing,
}

/// The sending threads live as long as this one.
fn closed() -> ControlFlow<()> {
    log::error!("no thread tells the main loop anything: podkeeper ends; the pods go on running");
    ControlFlow::Break(())
}

impl MainLoop {
    fn end(&self, signal: i32) -> ControlFlow<()> {
        if let Some(host) = &self.actors.host {
            log::info!("signal {signal}: podkeeper ends now; the pods go on running");
            host.watch.stopping();
        }
        ControlFlow::Break(())
    }

    /// Returns the report of `--runonce`; `None` when a signal has ended the loop.
    fn run(&mut self) -> Option<Report> {
        let mut unpublished = 0;
        self.settled.worked(self.now().mono);
        loop {
            // Many events in a row are published as one state, up to a bound.
            let now = self.now();
            let is_enough = self.events.is_empty() || unpublished >= limits::EVENT_QUEUE;
            if self.publishing.may(is_enough, now.mono) && matches!(self.marker, Marker::Known) {
                self.publish(&now);
                unpublished = 0;
                if let Some(report) = self.report(&now) {
                    self.actors.host.as_ref().inspect(|host| host.watch.stopping());
                    return Some(report);
                }
            }
            unpublished = unpublished.saturating_add(1);
            let message = self.next_message(now.mono);
            let now = self.now();
            if self.handle(message, &now).is_break() {
                return None;
            }
            self.settled.give_back(now.mono);
        }
    }

    /// The loop reads the clock before and after each wait; all decisions use that time.
    fn now(&self) -> Now {
        self.actors.tools.clock.now()
    }

    fn next_message(&self, now: Mono) -> Message {
        match &self.marker {
            Marker::Awaited(late) => next(&self.signals, late, &never()),
            Marker::Known => next(&self.signals, &self.due(now), &self.events),
        }
    }

    fn due(&self, now: Mono) -> Receiver<Instant> {
        let of_turn = self.turn.next_due().map(|at| at.since(now));
        let of_once = self.once.map(|begun| once::due(now.since(begun)));
        let of_pages = self.settled.due(now);
        let of_state = self.publishing.due(now);
        [of_turn, of_once, of_pages, of_state].into_iter().flatten().min().map_or(never(), after)
    }

    fn report(&self, now: &Now) -> Option<Report> {
        let begun = self.once?;
        once::report(&self.turn.snapshot(now), now.mono.since(begun))
    }

    fn handle(&mut self, message: Message, now: &Now) -> ControlFlow<()> {
        match message {
            Message::Event(event) => self.tell(event, now),
            Message::Due if matches!(self.marker, Marker::Awaited(_)) => self.marker_is_late(now),
            Message::Due => self.tell(Event::Tick, now),
            Message::Signal(Signal::Rescan(drain)) => {
                match std::mem::replace(&mut self.marker, Marker::Known) {
                    Marker::Awaited(_) => self.tell(Event::Drain(drain), now),
                    Marker::Known => {
                        let began = watch::monotonic();
                        self.tell(Event::Drain(drain), now);
                        self.tell(Event::Rescan, now);
                        if let Some(host) = &self.actors.host {
                            host.watch.reloaded(began);
                        }
                    }
                }
            }
            Message::Signal(Signal::Reloaded(reload)) => self.reload(*reload, now),
            Message::Signal(Signal::Ask) => {
                if let Some(host) = &self.actors.host {
                    host.writer.answer();
                }
            }
            Message::Signal(Signal::End(number)) => return self.end(number),
            Message::Closed => return closed(),
        }
        ControlFlow::Continue(())
    }

    fn marker_is_late(&mut self, now: &Now) {
        log::error!(
            "the root directory has not answered for {} s: whether the node is drained is not known, and no pod is \
             started or stopped until it is",
            limits::MARKER_PATIENCE.as_secs()
        );
        self.publish(now);
    }

    fn reload(&mut self, reload: Reload, now: &Now) {
        if let Reload::Read { verbosity: Some(verbosity), .. } = &reload {
            logging::set(*verbosity);
        }
        self.tell(Event::Reloaded(reload), now);
    }

    /// Lets the turn decide, and carries out its effects. A failed effect is an event, handled after the others; this
    /// ends, because the turn waits before it tries again.
    fn tell(&mut self, event: Event, now: &Now) {
        let is_list = matches!(event, Event::Runtime(RuntimeEvent::Listed { .. }));
        let mut begun = false;
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.turn.handle(event, now) {
                begun = true;
                events.extend(self.carry_out(effect));
            }
        }
        if is_list {
            self.settled.listed(begun, now.mono);
        }
    }

    /// Returns the event for the turn when the effect has failed.
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
            Effect::RemoveVolumes(pods) => self.actors.remove_volumes(pods),
            Effect::Rescan => self.actors.rescan(),
            Effect::Log(level, line) => log::log!(level, "{line}"),
        }
        None
    }

    /// Puts something into a worker's mailbox. If the worker's thread could not be started there is no mailbox: the
    /// turn sends everything to the next worker.
    fn put(&self, key: &PodKey, what: impl FnOnce(&mut Slot)) {
        if let Some(worker) = self.workers.get(key) {
            worker.mailbox().put(what);
        }
    }

    fn publish(&mut self, now: &Now) {
        if let Some((change, events)) = self.turn.take_events() {
            if let Some(told) = &self.actors.told {
                told.tell_events(events.clone());
            }
            if let Some(cluster) = &self.actors.cluster {
                cluster.tell_events(events.clone());
            }
            if let Some(host) = &self.actors.host {
                host.writer.publish_events(change, events);
            }
        }
        if self.turn.take_changed() {
            self.settled.worked(now.mono);
            let snapshot = Arc::new(self.turn.snapshot(now));
            if let Some(told) = &self.actors.told {
                told.tell(Arc::clone(&snapshot), Arc::clone(self.turn.local_objects()));
            }
            if let Some(cluster) = &self.actors.cluster {
                cluster.tell(Arc::clone(&snapshot));
            }
            if let Some(host) = &self.actors.host {
                if host.watch.tells() {
                    host.watch.tell(self.turn.is_ready(), snapshot.summary());
                }
                host.keeper.tell(Arc::clone(&snapshot));
                host.limits.tell(Arc::clone(&snapshot));
                host.writer.publish(snapshot, Arc::clone(self.turn.local_objects()));
            }
            self.publishing.done(now.mono, self.now().mono);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use crossbeam_channel::unbounded;

    use super::*;
    use crate::daemon::turn::tests::rig;

    /// Every part of a daemon, with the in-memory Docker.
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
        let actors = wiring::start(
            &config,
            events_in,
            Kind::Whole(Box::new(|| Ok(()))),
            Pulses::default(),
            Vec::new(),
        )
        .unwrap();
        let turn = Turn::new(Arc::clone(&config));
        let marker = Marker::Awaited(after(Duration::ZERO));
        let (workers, once, settled, publishing) = (Table::new(), None, Settled::Yes, Publishing::default());
        let mut main = MainLoop { turn, workers, actors, signals, events, marker, once, settled, publishing };
        // Much later than any machine needs; without it a broken loop would wait for ever.
        let (over, patience) = bounded::<()>(0);
        let watchdog = signal.clone();
        let watches = std::thread::spawn(move || {
            if patience.recv_timeout(Duration::from_secs(60)).is_err_and(|error| error.is_timeout()) {
                watchdog.send(Signal::End(0)).unwrap();
            }
        });
        // The sources have sent their sets already; the disk of the marker hangs.
        for expected in ["ask", "late"] {
            if expected == "ask" {
                signal.send(Signal::Ask).unwrap();
            }
            let message = main.next_message(main.now().mono);
            let heard = match &message {
                Message::Signal(Signal::Ask) => "ask",
                Message::Due => "late",
                _ => "another one",
            };
            assert_eq!(heard, expected);
            let now = main.now();
            assert!(main.handle(message, &now).is_continue() && matches!(main.marker, Marker::Awaited(_)));
        }
        signal.send(Signal::Rescan(None)).unwrap();
        let (message, now) = (main.next_message(main.now().mono), main.now());
        assert!(main.handle(message, &now).is_continue() && matches!(main.marker, Marker::Known));
        let runs = |main: &MainLoop| {
            let snapshot = main.turn.snapshot(&main.now());
            snapshot.pods.iter().any(|view| view.status.phase.as_deref() == Some("Running"))
        };
        while !runs(&main) {
            let (message, now) = (main.next_message(main.now().mono), main.now());
            assert!(main.handle(message, &now).is_continue(), "it does not run in time");
        }
        assert_eq!(main.workers.keys().map(ToString::to_string).collect::<Vec<_>>(), ["default/web-n1"]);
        main.publish(&main.now());
        signal.send(Signal::End(15)).unwrap();
        assert_eq!(main.run(), None);
        drop((over, main));
        watches.join().unwrap();
        // A thread that ends may still write.
        _ = fs::remove_dir_all(&dir);
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
