//! The main thread: starts everyone, selects one event, hands it to the [`Turn`], carries out the effects.
//! It never blocks on anyone: mailboxes and slots take what it has to say.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use std::{fmt, io};

use crossbeam_channel::{Receiver, Sender, after, bounded, never, select_biased};

use crate::base::clock::{Clock, System};
use crate::base::limits;
use crate::cgroup::{self, Cgroups, Parents};
use crate::daemon::config::Config;
use crate::daemon::drain;
use crate::daemon::events::Events;
use crate::daemon::signals::{self, Signal};
use crate::daemon::turn::{Effect, Event, Turn};
use crate::image::grants::Grants;
use crate::image::node_keys::NodeKeys;
use crate::image::preload::Preload;
use crate::mapping::MapConfig;
use crate::network::docker::PodNetwork;
use crate::network::files::NodeFiles;
use crate::node::sys;
use crate::pod::{PodKey, Source};
use crate::pod_logs::PodLogs;
use crate::probe::Prober;
use crate::recorder::object;
use crate::runtime::docker::Endpoint;
use crate::runtime::docker::{Docker, RECURSIVE_READ_ONLY};
use crate::runtime::sandbox_image;
use crate::runtime::{Call, Reply};
use crate::source::accept::Acceptor;
use crate::source::file::FileSource;
use crate::source::http::HttpSource;
use crate::source::last_good::{Board, LastGood};
use crate::status::writer::{Restore, Writer};
use crate::termination::files::Files;
use crate::volumes::claim_move::Claims;
use crate::volumes::manager::{self, Volumes};
use crate::worker::gate::Gate;
use crate::worker::output::Settings;
use crate::worker::pulls::Pulls;
use crate::worker::thread::{Tell, Tools, Worker};

/// Why the daemon could not begin. Once it runs, nothing stops it but a signal.
#[derive(Debug)]
pub struct RunError(String);

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RunError {}

fn cannot(what: &str) -> impl Fn(io::Error) -> RunError {
    move |error| RunError(format!("{what}: {error}"))
}

/// Runs the daemon until SIGTERM or SIGINT, which leave the pods running. `restore` makes the run directory anew,
/// with its lock, when somebody has removed it.
///
/// # Errors
/// A thread could not be started at the very beginning.
pub fn run(config: Arc<Config>, restore: Restore) -> Result<(), RunError> {
    let signals = signals::catch(&config.root_dir).map_err(cannot("signals cannot be handled"))?;
    sys::raise_open_files();
    if let Err(error) = sys::live_long() {
        log::debug!("this process's oom_score_adj stays as it is: {error}");
    }
    let clock = System::start();
    let docker = Docker::connect(&config.docker, clock);
    let (events_in, events) = bounded(limits::EVENT_QUEUE);
    let preload =
        preload(&config, &docker, &events_in).map_err(cannot("the preload thread could not be started"))?;
    let missing = preload.clone();
    let on_missing = Box::new(move |image: &str| {
        if let Some(preload) = &missing {
            preload.missing(image);
        }
    });
    let keys = NodeKeys::of_process(&config.root_dir);
    let grants = Arc::new(Grants::open(&config.root_dir));
    let pulls = Pulls::new(docker.clone(), clock, config.pull_pace, keys, Arc::clone(&grants), on_missing);
    let root_dir = config.root_dir.to_string_lossy().into_owned();
    let cgroups = cgroups(&config, &root_dir);
    let settings = Arc::new(settings(&config, &root_dir, clock, cgroups.parents.clone(), grants));
    let builtin = settings.builtin_sandbox;
    let (prepared, connected) = (pulls.clone(), preload.clone());
    let wanted = config.network.docker_network.clone();
    let network = Arc::new(PodNetwork::new(docker.clone(), wanted, root_dir.clone()));
    let pods_network = Arc::clone(&network);
    let (asked, for_cgroups, recursive) =
        (docker.clone(), cgroups.clone(), settings.recursive_mounts.clone());
    let writer = Writer::start(&config.run_dir, &config.node_name, &config.network.node_ips, restore)
        .map_err(cannot("the status thread could not be started"))?;
    let eye = writer.eye(&config.run_dir, crate::status::file::LOCK);
    let on_connect = move || {
        eye.look();
        recursive.store(asked.speaks(RECURSIVE_READ_ONLY), Ordering::Relaxed);
        PodNetwork::connected(&pods_network);
        if !for_cgroups.is_decided()
            && let Ok(Reply::Info(info)) = asked.call(&Call::Info)
        {
            for_cgroups.decide(&info.cgroup_driver);
        }
        if builtin {
            prepared.prepare_sandbox_image();
        }
        if let Some(preload) = &connected {
            preload.connected();
        }
    };
    let stream =
        Events::start(docker.clone(), root_dir, config.sync_frequency, events_in.clone(), on_connect)
            .map_err(cannot("the event thread could not be started"))?;
    let claims = claims(&config, &events_in).map_err(cannot("the thread of claims could not be started"))?;
    if !config.sources().is_empty()
        && let Err(why) = LastGood::prepare(&config.root_dir, config.last_good_key_file.as_deref())
    {
        log::debug!("what sources say cannot be remembered yet: {why}");
    }
    let (key_file, board) = (config.last_good_key_file.as_deref(), Board::default());
    let store = |source| LastGood::new(&config.root_dir, key_file, source).seen_by(&board);
    // Both before one of them begins: each judges by what the other has seen.
    let file = config.manifest_path.as_ref().map(|path| (path, store(Source::File)));
    let http = config.manifest_url.as_ref().map(|settings| (settings, store(Source::Http)));
    let file = match file {
        None => None,
        Some((path, store)) => {
            let out = events_in.clone();
            let send = Box::new(move |update| out.send(Event::Source(update)).is_ok());
            let acceptor = acceptor(Source::File, &config);
            let started = FileSource::start(path.clone(), config.file_check_frequency, acceptor, store, send);
            Some(started.map_err(cannot("the file source could not be started"))?)
        }
    };
    let http = match http {
        None => None,
        Some((settings, store)) => {
            let out = events_in.clone();
            let send = Box::new(move |update| out.send(Event::Source(update)).is_ok());
            let acceptor = Acceptor { max_bytes: settings.max_bytes, ..acceptor(Source::Http, &config) };
            let started = HttpSource::start(settings.clone(), acceptor, store, send);
            Some(started.map_err(cannot("the URL source could not be started"))?)
        }
    };
    let prober = Prober::new(docker.clone(), clock).map_err(cannot("probes are not possible"))?;
    let termination = Files::new(config.root_dir.clone());
    let logs = Arc::new(PodLogs::new(&config.pod_logs_dir, &config.root_dir));
    let volumes = Volumes::new(volume_settings(&config, claims), clock);
    let gate = Gate::default();
    let files = NodeFiles::new(config.root_dir.clone(), config.network.clone(), termination.clone());
    let tools = Tools {
        settings,
        docker,
        clock,
        pulls,
        prober,
        termination,
        volumes,
        files,
        network,
        gate,
        logs,
        cgroups,
        tell: Tell(Arc::new(move |told| events_in.send(Event::from(told)).is_ok())),
    };
    let mut turn = Turn::new(Arc::clone(&config));
    match object::restore(&config.run_dir) {
        Ok(events) => turn.restore_events(events),
        Err(why) => log::warn!("earlier events are not shown: {why}"),
    }
    writer.found_events(turn.events());
    let mut main =
        Main { turn, workers: BTreeMap::new(), file, http, preload, writer, tools, failed: Vec::new() };
    main.handle(Event::Drain(drain::read(&config.root_dir)));
    main.run(&signals, &events);
    // Who waits to be heard must not hold up the end.
    drop(events);
    drop(stream);
    Ok(())
}

/// What a source of this node believes.
fn acceptor(source: Source, config: &Config) -> Acceptor {
    let mut acceptor = Acceptor::new(source, config.node_name.clone());
    acceptor.verifier.clone_from(&config.verifier);
    acceptor.policy = Arc::clone(&config.policy);
    acceptor
}

fn preload(config: &Config, docker: &Docker, events: &Sender<Event>) -> io::Result<Option<Preload>> {
    let Some(dir) = config.image_preload_dir.clone() else { return Ok(None) };
    let out = events.clone();
    let sink = Box::new(move |names| out.send(Event::ImagesCame(names)).is_ok());
    Preload::start(dir, &config.root_dir, config.file_check_frequency, docker.clone(), sink).map(Some)
}

fn cgroups(config: &Config, root_dir: &str) -> Cgroups {
    let node = &config.node;
    let settings = cgroup::node::Settings {
        // A Docker in memory has no processes.
        per_qos: node.cgroups_per_qos && config.docker != Endpoint::Fake,
        root: node.cgroup_root.clone(),
        milli_cpu: node.allocatable.milli_cpu,
        memory: Some(node.allocatable.memory).filter(|_| node.memory_reserved),
    };
    Cgroups::new(settings, cgroup::node::MOUNT.into(), root_dir.to_owned())
}

fn settings(
    config: &Config,
    root_dir: &str,
    clock: System,
    cgroups: Parents,
    grants: Arc<Grants>,
) -> Settings {
    let oom_floor = sys::oom_floor();
    if oom_floor > -1000 {
        log::info!("this process may not lower oom_score_adj: containers get at least {oom_floor}");
    }
    Settings {
        map: MapConfig {
            root_dir: root_dir.to_owned(),
            oom_floor,
            infra_image: config.infra_image.clone().unwrap_or_else(sandbox_image::image_name),
            node_memory: sys::total_memory(),
            logs: config.log_limits,
            node_name: config.node_name.clone(),
            network: config.network.clone(),
            policies: Arc::clone(&config.policy),
        },
        allocatable: config.node.allocatable,
        boot: clock.boot(),
        builtin_sandbox: config.infra_image.is_none(),
        cgroups,
        recursive_mounts: Arc::default(),
        grants,
        pod_pids: config.node.max_pids,
    }
}

fn claims(config: &Config, events: &Sender<Event>) -> io::Result<Arc<Claims>> {
    let out = events.clone();
    // Who hears nothing any more ends.
    let tell = Box::new(move |trouble| _ = out.send(Event::Claims(trouble)));
    let claims = Arc::new(Claims::new(config.root_dir.clone(), config.sources(), tell));
    Claims::start(&claims)?;
    Ok(claims)
}

fn volume_settings(config: &Config, claims: Arc<Claims>) -> manager::Settings {
    manager::Settings {
        root: config.root_dir.clone(),
        name: config.node_name.clone(),
        allocatable: config.node.allocatable,
        docker: match &config.docker {
            Endpoint::Unix(path) => Some(path.clone()),
            Endpoint::Fake => None,
        },
        policies: Arc::clone(&config.policy),
        claims,
    }
}

struct Main {
    turn: Turn,
    workers: BTreeMap<PodKey, Worker>,
    file: Option<FileSource>,
    http: Option<HttpSource>,
    preload: Option<Preload>,
    writer: Writer,
    tools: Tools,
    /// Workers whose thread could not be started in this round.
    failed: Vec<(PodKey, String)>,
}

impl Main {
    fn run(&mut self, signals: &Receiver<Signal>, events: &Receiver<Event>) {
        loop {
            // A burst becomes one published state.
            if events.is_empty() {
                self.publish();
            }
            let tick = self.tick();
            select_biased! {
                recv(signals) -> signal => match signal {
                    Ok(Signal::Rescan(drain)) => {
                        self.handle(Event::Drain(drain));
                        self.handle(Event::Rescan);
                    }
                    Ok(Signal::Ask) => self.writer.answer(),
                    Ok(Signal::End(number)) => {
                        log::info!("signal {number}: podkeeper ends now; the pods go on running");
                        return;
                    }
                    Err(_) => return,
                },
                recv(events) -> event => match event {
                    Ok(event) => self.handle(event),
                    Err(_) => return,
                },
                recv(tick) -> _ => self.handle(Event::Tick),
            }
        }
    }

    fn tick(&self) -> Receiver<Instant> {
        match self.turn.next_due() {
            None => never(),
            Some(at) => after(at.since(self.tools.clock.now().mono)),
        }
    }

    fn handle(&mut self, event: Event) {
        let now = self.tools.clock.now();
        let effects = self.turn.handle(event, &now);
        for effect in effects {
            self.carry_out(effect);
        }
        for (key, why) in std::mem::take(&mut self.failed) {
            for effect in self.turn.handle(Event::SpawnFailed { key, why }, &now) {
                self.carry_out(effect);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Spawn { key, known_empty } => {
                match Worker::spawn(&key, known_empty, self.tools.clone()) {
                    Ok(worker) => _ = self.workers.insert(key, worker),
                    Err(error) => self.failed.push((key, error.to_string())),
                }
            }
            Effect::Wish(key, wish) => {
                if let Some(worker) = self.workers.get(&key) {
                    worker.mailbox().put(|slot| slot.wish(wish));
                }
            }
            Effect::Objects(key, objects) => {
                if let Some(worker) = self.workers.get(&key) {
                    worker.mailbox().put(|slot| slot.objects(objects));
                }
            }
            Effect::Hint(key, hint) => {
                if let Some(worker) = self.workers.get(&key) {
                    worker.mailbox().put(|slot| slot.hint(hint));
                }
            }
            Effect::Retire(key) => _ = self.workers.remove(&key),
            Effect::Sweep(keep) => {
                let files = self.tools.termination.clone();
                let logs = Arc::clone(&self.tools.logs);
                let (cgroups, volumes) = (self.tools.cgroups.clone(), self.tools.volumes.clone());
                let sweep = move || {
                    cgroups.sweep(&keep.pods);
                    volumes.sweep(&keep.pods);
                    files.sweep(&keep.pods);
                    logs.sweep(&keep.containers);
                };
                let named = std::thread::Builder::new().name("pk-sweep".to_owned());
                // What is left is left to the next start.
                if let Err(error) = named.stack_size(limits::WORKER_STACK).spawn(sweep) {
                    log::warn!(
                        "what earlier pods left on the disk stays: no thread could be started: {error}"
                    );
                }
            }
            Effect::Rescan => {
                // First: who is told to try again must find it so.
                self.tools.pulls.ask_all_again();
                if let Some(file) = &self.file {
                    file.rescan();
                }
                if let Some(http) = &self.http {
                    http.rescan();
                }
                if let Some(preload) = &self.preload {
                    preload.rescan();
                }
            }
            Effect::Log(level, line) => log::log!(level, "{line}"),
        }
    }

    fn publish(&mut self) {
        if let Some((change, events)) = self.turn.take_events() {
            self.writer.publish_events(change, events);
        }
        if self.turn.take_changed() {
            let now = self.tools.clock.now();
            self.writer.publish(self.turn.snapshot(&now));
        }
    }
}
