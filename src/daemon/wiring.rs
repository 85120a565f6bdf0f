//! Creation and start of the daemon's actors, one function each, and their shared parts.
//!
//! Never here: a decision, or a wait. The main loop is in `main_loop`.

mod error;
mod on_host;
mod servers;
mod sources;
mod to_cluster;

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::path::Path;
use std::sync::Arc;

use crossbeam_channel::Sender;

pub(super) use error::{RunError, cannot, no_start_of};

use crate::api::holdings::Reading;
use crate::api::told::ApiBoard;
use crate::api_client::Client;
use crate::base::clock::System;
use crate::base::locks::LOCK;
use crate::base::order;
use crate::base::table::Set;
use crate::base::{limits, thread};
use crate::cgroup::resource::Resources;
use crate::cgroup::{self, Cgroups};
use crate::cluster::Cluster;
use crate::cni::networks::{self, Networks};
use crate::daemon::config::Config;
use crate::daemon::connected::Connected;
use crate::daemon::events::Events;
use crate::daemon::kmsg::KernelLog;
use crate::daemon::turn::{Event, InUse};
use crate::daemon::wiring::on_host::OnHost;
use crate::daemon::wiring::sources::Sources;
use crate::eviction::News;
use crate::garbage::collector::{self, Collector};
use crate::image::grants::Grants;
use crate::image::node_keys::NodeKeys;
use crate::image::preload::{Preload, Told};
use crate::machine::Settings;
use crate::mapping::MapConfig;
use crate::network::docker::PodNetwork;
use crate::network::files::NodeFiles;
use crate::node::host::Enforce;
use crate::node::sys;
use crate::pod::Source;
use crate::pod_logs::PodLogs;
use crate::probe::Prober;
use crate::recorder::ring::Kept;
use crate::recorder::words;
use crate::runtime::docker::{Docker, Endpoint};
use crate::runtime::engine_root::EngineRoot;
use crate::runtime::sandbox_image;
use crate::server::Servers;
use crate::status::snapshot::{KeptImages, Latest};
use crate::status::task::{Pulses, Task};
use crate::status::writer::{Restore, Writer};
use crate::termination::files::Files;
use crate::volumes::Gone;
use crate::volumes::claim_move::Claims;
use crate::volumes::manager::{self, Volumes};
use crate::worker::container_records::ContainerRecords;
use crate::worker::gate::Gates;
use crate::worker::judged::Judged;
use crate::worker::node::NodeCells;
use crate::worker::pulls::Pulls;
use crate::worker::signalled::Signalled;
use crate::worker::thread::{Tell, Tools};

/// All actors beside the main thread, except the workers of pods. Dropping it ends them, in this order.
pub(super) struct Actors {
    _event_stream: Events,
    _kernel_log: Option<KernelLog>,
    _servers: Option<Servers>,
    _store: Option<Reading>,
    /// Where the API gets new content, if there is an API.
    pub(super) told: Option<ApiBoard>,
    /// Reports to an API server.
    pub(super) cluster: Option<Cluster>,
    sources: Sources,
    preload: Option<Preload>,
    /// The threads for this machine; a hollow node has none.
    pub(super) host: Option<OnHost>,
    /// The parts that each worker gets.
    pub(super) tools: Tools,
}

/// The kind of the node.
pub(super) enum Kind {
    /// The node of this machine. Holds the function that recreates its run directory.
    Whole(Restore),
    /// A node without a machine, on the in-memory Docker. Holds the client that all nodes of the process share.
    Hollow(Client),
}

impl Kind {
    /// The client of a hollow node, the function of a whole one, and the engine.
    fn parts(self, config: &Config, clock: System) -> (Option<Client>, Option<Restore>, Docker) {
        match self {
            Kind::Whole(restore) => (None, Some(restore), Docker::connect(&config.docker, clock)),
            Kind::Hollow(client) => {
                // No two nodes have containers of the same ids.
                let seed = BuildHasherDefault::<DefaultHasher>::default().hash_one(&config.node_name);
                (Some(client), None, Docker::in_memory(clock, seed))
            }
        }
    }
}

/// The parts that most actors use.
struct Parts<'a> {
    config: &'a Arc<Config>,
    root_dir: String,
    clock: System,
    docker: Docker,
    /// Sends to the main loop.
    events: Sender<Event>,
    /// The threads that are watched.
    pulses: Pulses,
    /// The client of a hollow node.
    hollow: Option<Client>,
}

/// Starts all actors.
///
/// # Errors
/// A thread could not be started.
pub(super) fn start(
    config: &Arc<Config>,
    events: Sender<Event>,
    kind: Kind,
    pulses: Pulses,
    earlier: Vec<Arc<Kept>>,
) -> Result<Actors, RunError> {
    let clock = System::start();
    let (hollow, restore, docker) = kind.parts(config, clock);
    let root_dir = config.root_dir.to_string_lossy().into_owned();
    let parts = Parts { config, root_dir, clock, docker, events, pulses, hollow };
    if sys::is_read_only(&config.root_dir) {
        // The queue is empty yet.
        _ = parts.events.try_send(Event::Node(News::Node(words::root_is_read_only(&config.root_dir))));
    }
    let writer = restore.map(|restore| parts.writer(restore)).transpose()?;
    let preload = parts.preload(writer.as_ref())?;
    let cgroups = parts.cgroups();
    let node = parts.node(&cgroups);
    let pulls = parts.pulls(preload.clone(), Arc::clone(&node.grants));
    let settings = Arc::new(parts.settings());
    let (network, networks) = (parts.network(), parts.networks()?);
    let (pods, docker_root) = (Latest::default(), EngineRoot::default());
    let garbage = Arc::new(parts.garbage(preload.clone(), pods.clone()));
    let stream = parts.event_stream(Connected {
        docker: parts.docker.clone(),
        run_dir: writer.as_ref().map(|writer| writer.watch(&config.run_dir, LOCK)),
        recursive_mounts: Arc::clone(&node.recursive_mounts),
        network: Arc::clone(&network),
        cgroups: cgroups.clone(),
        docker_root: docker_root.clone(),
        sandbox_image: settings.builtin_sandbox.then(|| pulls.clone()),
        preload: preload.clone(),
        garbage: Some(Arc::clone(&garbage)).filter(|_| parts.hollow.is_none()),
        resources: parts.resources(),
        container_records: node.container_records.clone(),
        clock: parts.clock,
        events: parts.events.clone(),
    })?;
    let volumes = parts.volumes(docker_root.clone())?;
    let (sources, prober) = (parts.sources()?, parts.prober()?);
    let kernel_log = parts.kernel_log()?;
    let adder = parts.adder(&pulls, &node);
    let (servers, store, told) = parts.serve(pods.clone(), &sources.server, prober.clone(), adder.clone())?;
    let cluster = parts.cluster(sources.server.clone(), earlier, adder)?;
    let host = parts.on_host(writer, &cgroups, (pods, volumes.ends()), garbage, docker_root)?;
    let termination = Files::new(config.root_dir.clone());
    let tools = Tools {
        settings,
        node,
        clock,
        pulls,
        prober,
        files: NodeFiles::new(config.root_dir.clone(), config.network.clone(), termination.clone()),
        termination,
        volumes,
        network,
        networks,
        gates: Gates::new(&parts.behind()),
        logs: Arc::new(PodLogs::new(&config.pod_logs_dir, &config.root_dir)),
        cgroups,
        pulses: parts.pulses.clone(),
        tell: parts.tell(),
        signalled: parts.hollow.is_none().then(|| Signalled::new(&config.run_dir)),
        docker: parts.docker,
    };
    Ok(Actors {
        _event_stream: stream,
        _kernel_log: kernel_log,
        _servers: servers,
        _store: store,
        told,
        cluster,
        sources,
        preload,
        host,
        tools,
    })
}

impl Actors {
    /// Makes every actor look again at the operator's files.
    pub(super) fn rescan(&self) {
        // First, because a worker that is told to retry must find the pulls reset.
        self.tools.pulls.ask_all_again();
        self.sources.rescan();
        if let Some(preload) = &self.preload {
            preload.rescan();
        }
    }

    /// Removes the files of earlier pods, in a thread of its own, because a disk may block.
    pub(super) fn sweep(&self, keep: InUse) {
        if self.tools.signalled.is_none() {
            return;
        }
        let (files, logs) = (self.tools.termination.clone(), Arc::clone(&self.tools.logs));
        let (cgroups, volumes) = (self.tools.cgroups.clone(), self.tools.volumes.clone());
        let networks = Arc::clone(&self.tools.networks);
        Actors::sweep_by(move || {
            cgroups.sweep(&keep.pods);
            volumes.sweep(Gone::AllBut(keep.pods.clone()));
            files.sweep(&keep.pods);
            logs.sweep(&keep.containers);
            networks.sweep();
        });
    }

    /// Removes the volumes of pods, likewise.
    pub(super) fn remove_volumes(&self, pods: Set<String>) {
        if self.tools.signalled.is_none() {
            return;
        }
        let volumes = self.tools.volumes.clone();
        Actors::sweep_by(move || volumes.sweep(Gone::These(pods)));
    }

    fn sweep_by(sweep: impl FnOnce() + Send + 'static) {
        if let Err(error) = thread::spawn("pk-sweep", limits::WORKER_STACK, sweep) {
            // The next start removes them.
            log::warn!("what earlier pods left on the disk stays: no thread could be started: {error}");
        }
    }
}

impl Parts<'_> {
    /// The in-memory Docker has no processes that the kernel could kill.
    fn kernel_log(&self) -> Result<Option<KernelLog>, RunError> {
        match self.config.docker {
            Endpoint::Fake => Ok(None),
            Endpoint::Unix(_) => KernelLog::start(Path::new("/dev/kmsg"), self.events.clone())
                .map_err(no_start_of("the thread that reads the kernel's log")),
        }
    }

    fn preload(&self, writer: Option<&Writer>) -> Result<Option<Preload>, RunError> {
        let config = self.config;
        let (Some(dir), Some(writer)) = (config.images.preload_dir.clone(), writer) else { return Ok(None) };
        let out = self.events.clone();
        let came = Box::new(move |told| {
            let event = match told {
                Told::Came(names) => Event::ImagesCame(names),
                Told::Refused(why) => Event::Node(News::Node(words::archive_refused(why))),
            };
            out.send(event).is_ok()
        });
        let (docker, preloaded) = (self.docker.clone(), writer.preloaded());
        let list = Box::new(move |images: &Set<String>| preloaded.tell(images));
        Preload::start(dir, &config.root_dir, config.sources.file_check_frequency, docker, came, list)
            .map(Some)
            .map_err(no_start_of("the preload thread"))
    }

    /// The sources behind others.
    fn behind(&self) -> Set<Source> {
        order::set(Source::ALL.into_iter().filter(|source| self.config.policy.evict_first(*source)))
    }

    fn pulls(&self, preload: Option<Preload>, grants: Arc<Grants>) -> Pulls {
        let on_missing = Box::new(move |image: &str| {
            if let Some(preload) = &preload {
                preload.missing(image);
            }
        });
        let keys = NodeKeys::of_process(&self.config.root_dir);
        let pace = (self.config.images.pulls, self.behind());
        Pulls::new(self.docker.clone(), self.clock, pace, keys, grants, on_missing)
    }

    fn garbage(&self, preload: Option<Preload>, pods: Latest) -> Collector {
        let config = self.config;
        let preloaded = move || preload.as_ref().map_or(Some(Set::new()), Preload::brought);
        Collector::new(collector::Settings {
            docker: self.docker.clone(),
            clock: Arc::new(self.clock),
            boot: self.clock.boot(),
            root_dir: config.root_dir.clone(),
            policy: config.images.garbage.clone(),
            sandbox: self.sandbox(),
            preloaded: Box::new(preloaded),
            pods,
        })
    }

    fn cgroups(&self) -> Cgroups {
        let node = &self.config.node;
        let is_enforced = node.host.enforces(Enforce::Pods);
        let settings = cgroup::node::Settings {
            // The in-memory Docker has no processes.
            per_qos: node.cgroups_per_qos && self.config.docker != Endpoint::Fake,
            root: node.cgroup_root.clone(),
            milli_cpu: node.allocatable.milli_cpu,
            memory: Some(node.memory_of_pods).filter(|_| node.memory_reserved && is_enforced),
            is_enforced,
        };
        Cgroups::new(settings, cgroup::node::MOUNT.into(), self.root_dir.clone())
    }

    fn resources(&self) -> Option<Resources> {
        let resources = Resources::of(&self.config.node, cgroup::node::MOUNT.into());
        resources.filter(|_| self.config.docker != Endpoint::Fake)
    }

    fn node(&self, cgroups: &Cgroups) -> NodeCells {
        let grants = match self.hollow {
            Some(_) => Grants::default(),
            None => Grants::open(&self.config.root_dir),
        };
        let grants = Arc::new(grants);
        NodeCells {
            cgroups: cgroups.parents.clone(),
            recursive_mounts: Arc::default(),
            grants,
            container_records: ContainerRecords::new(self.behind().len()),
            judged: Judged::default(),
        }
    }

    fn settings(&self) -> Settings {
        let config = self.config;
        let oom_floor = sys::oom_floor();
        if oom_floor > -1000 && self.hollow.is_none() {
            log::info!("this process may not lower oom_score_adj: containers get at least {oom_floor}");
        }
        Settings {
            map: MapConfig {
                root_dir: self.root_dir.clone(),
                oom_floor,
                infra_image: self.sandbox(),
                node_memory: sys::total_memory(),
                logs: config.logs,
                node_name: config.node_name.clone(),
                network: config.network.clone(),
                policies: Arc::clone(&config.policy),
            },
            allocatable: config.node.allocatable,
            boot: self.clock.boot(),
            builtin_sandbox: config.images.infra.is_none(),
            pod_pids: config.node.max_pids,
            max_restart_period: config.node.max_restart_period,
            dead: config.dead,
        }
    }

    fn network(&self) -> Arc<PodNetwork> {
        let wanted = self.config.network.docker_network.clone();
        Arc::new(PodNetwork::new(self.docker.clone(), wanted, self.root_dir.clone()))
    }

    fn networks(&self) -> Result<Arc<Networks>, RunError> {
        let out = self.events.clone();
        let tell: networks::Tell = Box::new(move |missing| out.send(Event::Network(missing)).is_ok());
        Networks::start(self.config.network.cni.clone(), self.root_dir.clone(), self.docker.clone(), tell)
            .map_err(no_start_of("the thread that looks for a network"))
    }

    fn sandbox(&self) -> String {
        self.config.images.infra.clone().unwrap_or_else(sandbox_image::image_name)
    }

    fn writer(&self, restore: Restore) -> Result<Writer, RunError> {
        let config = self.config;
        let kept = KeptImages {
            pinned: config.images.garbage.pinned.iter().map(ToString::to_string).collect(),
            sandbox: self.sandbox(),
            preloaded: config.images.preload_dir.is_none().then(Set::new),
        };
        Writer::start(&config.run_dir, &config.node_name, &config.network.node_ips, kept, restore)
            .map_err(no_start_of("the status thread"))
    }

    fn event_stream(&self, connected: Connected) -> Result<Events, RunError> {
        let (docker, root_dir) = (self.docker.clone(), self.root_dir.clone());
        let pulses = self.pulses.clone();
        let joins = move || pulses.join(Task::Events);
        Events::start(docker, root_dir, self.config.sync_frequency, self.events.clone(), joins, connected)
            .map_err(no_start_of("the event thread"))
    }

    fn volumes(&self, engine_root: EngineRoot) -> Result<Volumes, RunError> {
        let config = self.config;
        let out = self.events.clone();
        // Without a main loop the problem is not reported.
        let tell = Box::new(move |trouble| _ = out.send(Event::Claims(trouble)));
        let claims = Arc::new(Claims::new(config.root_dir.clone(), config.declared(), tell));
        if self.hollow.is_none() {
            Claims::start(&claims).map_err(no_start_of("the thread of claims"))?;
        }
        let settings = manager::Settings {
            root: config.root_dir.clone(),
            name: config.node_name.clone(),
            allocatable: config.node.allocatable,
            docker: match &config.docker {
                Endpoint::Unix(path) => Some(path.clone()),
                Endpoint::Fake => None,
            },
            engine_root,
            policies: Arc::clone(&config.policy),
            claims,
        };
        Ok(Volumes::new(settings, self.clock))
    }

    fn prober(&self) -> Result<Prober, RunError> {
        Prober::new(self.docker.clone(), self.clock).map_err(cannot("probes are not possible"))
    }

    fn tell(&self) -> Tell {
        let out = self.events.clone();
        Tell(Arc::new(move |told| out.send(Event::from(told)).is_ok()))
    }
}
