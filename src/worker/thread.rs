//! The thread of a pod worker, which carries out what its [`Machine`] decides. It waits in one
//! place, for its mailbox and for the replies of all calls in flight; no call blocks it.

mod calls;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags};

use self::calls::{InFlight, InTurn};
use super::gate::Gates;
pub use super::mailbox::Tell;
use super::mailbox::{Mail, Mailbox};
use super::node::NodeCells;
use super::pulls::Pulls;
use super::{hollow, needs};
use crate::base::clock::{Clock, Mono, Now, System};
use crate::base::table::Table;
use crate::base::{limits, thread};
use crate::cgroup::{self, Cgroups};
use crate::cni::{networks::Networks, orders::PodNetworks};
use crate::machine::{FirstList, FromPod, Input, Machine, NodeFacts, Output, Settings, Token};
use crate::mapping::needs::Create;
use crate::mapping::record;
use crate::network::docker::PodNetwork;
use crate::network::files::NodeFiles;
use crate::pod::{PodKey, Source};
use crate::pod_logs::{ContainerLogs, PodLogs};
use crate::probe::{Prober, Watch};
use crate::recorder::{ObjectEvent, Words, words};
use crate::runtime::docker::{Docker, RECURSIVE_READ_ONLY};
use crate::runtime::{BindOptions, Call, DockerError, Refusal, labels};
use crate::status::task::{Pulses, Task};
use crate::termination::files::Files;
use crate::volumes::manager::{PodVolumes, Volumes};
use crate::worker::signalled::Signalled;

/// Shared by all workers of this node.
#[derive(Clone)]
pub struct Tools {
    /// Settings of the machines.
    pub settings: Arc<Settings>,
    /// Data of the node for the machines.
    pub node: NodeCells,
    /// Docker.
    pub docker: Docker,
    /// The daemon's clock.
    pub clock: System,
    /// Image pulls.
    pub pulls: Pulls,
    /// Probes and hooks.
    pub prober: Prober,
    /// Termination files of containers.
    pub termination: Files,
    /// Hosts and resolver files, and the node's addresses.
    pub files: NodeFiles,
    /// The network of the pods.
    pub network: Arc<PodNetwork>,
    /// Networks of CNI plugins.
    pub networks: Arc<Networks>,
    /// The pods' volumes.
    pub volumes: Volumes,
    /// The gates for starts and for judging, of all pods.
    pub gates: Gates,
    /// Links by which logs are found.
    pub logs: Arc<PodLogs>,
    /// Cgroups of pods.
    pub cgroups: Cgroups,
    /// The watched threads.
    pub pulses: Pulses,
    /// The containers that were signalled; `None`: the node has no machine, see [`super::hollow`].
    pub signalled: Option<Signalled>,
    /// Sends to the main loop; returns false if it is gone.
    pub tell: Tell,
}

/// A running worker. Dropping it tells the thread to end, without waiting for it.
#[derive(Debug)]
pub struct Worker {
    mailbox: Arc<Mailbox>,
}

impl Worker {
    /// Starts the thread of one pod. `found`: the containers that Docker's list had under its identity.
    ///
    /// # Errors
    /// The system has no thread or file descriptor left.
    pub fn spawn(key: &PodKey, found: FirstList, tools: Tools) -> io::Result<Worker> {
        let mailbox = Arc::new(Mailbox::new()?);
        let node = tools.node.facts();
        let machine = Machine::new(key.clone(), Arc::clone(&tools.settings), node.clone());
        let told = Arc::clone(&mailbox);
        let tell = Arc::new(move |report| told.put(|slot| slot.volumes(report)));
        let volumes = PodVolumes::new(&tools.volumes, key.clone(), tell);
        let told = Arc::clone(&mailbox);
        let cgroups = cgroup::PodCgroups::new(
            &tools.cgroups,
            Arc::new(move |report| told.put(|slot| slot.cgroup(report))),
        );
        let told = Arc::clone(&mailbox);
        let tell = Arc::new(move |report| told.put(|slot| slot.network(report)));
        let networks = PodNetworks::new(&tools.networks, tell);
        let body = Body {
            key: key.clone(),
            machine,
            node,
            mailbox: Arc::clone(&mailbox),
            tools,
            calls: Vec::new(),
            queued: VecDeque::new(),
            told: vec![Input::Found(found)],
            volumes,
            cgroups,
            networks,
            unbound: Table::new(),
            logs: ContainerLogs::new(),
            unsent: Table::new(),
        };
        thread::spawn(&thread_name(key), limits::WORKER_STACK, move || {
            body.tools.pulses.join(Task::Pod(body.key.clone()));
            body.run();
        })?;
        Ok(Worker { mailbox })
    }

    /// Its mailbox.
    #[must_use]
    pub fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.mailbox.close();
    }
}

/// `pk-` and the beginning of the pod's name, within the kernel's 15 bytes.
fn thread_name(key: &PodKey) -> String {
    key.name.chars().take(12).fold("pk-".to_owned(), |mut name, c| {
        name.push(c);
        name
    })
}

struct Body {
    key: PodKey,
    machine: Machine,
    /// The node's data that the machine has.
    node: NodeFacts,
    mailbox: Arc<Mailbox>,
    tools: Tools,
    calls: Vec<InFlight>,
    /// Calls that wait for their turn at a gate.
    queued: VecDeque<(Token, InTurn)>,
    /// Inputs for the machine that are ready.
    told: Vec<Input>,
    volumes: PodVolumes,
    cgroups: cgroup::PodCgroups,
    networks: PodNetworks,
    /// Creates that wait for parts of volumes, with their deadlines.
    unbound: Table<u64, (Create, Mono)>,
    /// Containers whose log links were made.
    logs: ContainerLogs,
    /// Starts that must not be sent, and why.
    unsent: Table<Token, String>,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.tools.gates.leave(&self.mailbox);
        self.tools.pulls.leave(&self.mailbox);
        PodNetwork::after_a_pod(&self.tools.network);
        let mailbox = Arc::clone(&self.mailbox);
        self.tools.prober.watch(&self.key, mailbox, Watch::default());
        // Granted turns that will not be used are passed on.
        drop(self.grants());
    }
}

impl Body {
    fn run(mut self) {
        PodNetwork::before_a_pod(&self.tools.network);
        loop {
            let Mail { inbox, bound, closed } = self.mailbox.take();
            if closed {
                return;
            }
            for permit in self.grants() {
                let place = self.queued.iter().position(|(_, wanted)| wanted.turn() == permit.turn());
                if let Some((token, wanted)) = place.and_then(|place| self.queued.remove(place)) {
                    self.takes_turn(token, wanted, permit);
                }
            }
            let now = self.tools.clock.now();
            if let Some(node) = self.tools.node.news(&mut self.node) {
                self.machine.handle(Input::Node(node), &now);
            }
            for (token, result) in bound {
                self.bound(token, result, &now);
            }
            self.give_up_binding(&now);
            // Ready answers come first, because hints may be about them.
            let told = std::mem::take(&mut self.told).into_iter();
            for input in told.chain(inbox.inputs()).chain(self.answers()) {
                self.machine.handle(input, &now);
            }
            let step = self.machine.step(&now);
            let mut called = false;
            for output in step.out {
                called |= matches!(output, Output::Call(..) | Output::Judge(..) | Output::Create(..));
                if !self.carry_out(output) {
                    return;
                }
            }
            // Calls that are answered already (nothing could be sent) are handled without waiting.
            let done =
                !self.told.is_empty() || (called && self.calls.iter().any(|c| c.pending.fd().is_none()));
            if !done {
                let permits = self.calls.iter_mut().filter_map(|call| call.permit.as_mut());
                let stuck = permits.filter_map(|permit| permit.pass_on_if_stuck(now.mono));
                let unbound = self.unbound.values().map(|(_, until)| *until);
                let wake = stuck.chain(unbound).chain(step.wake).min();
                self.wait(wake);
            }
        }
    }

    /// Returns false if the main loop is gone, so that this worker is not needed any more.
    fn carry_out(&mut self, output: Output) -> bool {
        let Some(output) = hollow::done(self.tools.signalled.is_none(), output, &mut self.told) else {
            return true;
        };
        match output {
            Output::Call(token, Call::Start { .. }) if self.unsent.contains_key(&token) => {
                let why = self.unsent.remove(&token).unwrap_or_default();
                self.told.push(Input::Reply(token, Err(Refusal::not_sent(why))));
            }
            Output::Call(token, Call::Start { id }) => self.in_turn(token, InTurn::Start(id)),
            Output::Create(token, create) => self.create_when_bound(token, create),
            Output::Call(token, call) => self.begin(token, &call),
            Output::Judge(token, image) => match self.tools.pulls.unjudged(&image) {
                Some(missing) => self.told.push(Input::Reply(token, Err(missing))),
                None => self.in_turn(token, InTurn::Judge(image)),
            },
            Output::Withdraw(token) => self.withdraw(token),
            Output::Signalled(id, is_signalled) => match (&self.tools.signalled, is_signalled) {
                (Some(signalled), true) => signalled.note(&id),
                (Some(signalled), false) => signalled.forget(&id),
                (None, _) => {}
            },
            Output::ReadMessage { id, file } => {
                let read = self.tools.termination.read(&file);
                self.told.push(Input::Message { id, read });
            }
            Output::Volumes(order) => self.volumes.order(order),
            Output::ForgetMessage(file) => self.tools.termination.remove(&file),
            Output::AskAddresses => self.told.push(Input::Addresses(self.tools.files.addresses())),
            Output::AskNetwork => self.told.push(Input::NetworkReady(self.tools.networks.ready())),
            Output::Attach(order) => self.networks.order(order),
            Output::Hosts(token, hosts) => {
                if let Err(why) = self.tools.files.write_hosts(&hosts) {
                    self.unsent.insert(token, why);
                }
            }
            Output::ForgetPod(uid) => self.tools.files.forget(&uid),
            Output::Network => PodNetwork::ensure_soon(&self.tools.network),
            Output::Pull(request) => self.tools.pulls.ask(request, &self.mailbox),
            Output::Missing(image) => self.tools.pulls.missing(&image),
            Output::Watch(watch) => {
                let mailbox = Arc::clone(&self.mailbox);
                self.tools.prober.watch(&self.key, mailbox, watch);
            }
            Output::Cgroup(pod) => self.cgroups.order(cgroup::Order::Ensure(pod)),
            Output::DropCgroup(uid) => self.cgroups.order(cgroup::Order::Remove(uid)),
            Output::Event(event) => return (self.tools.tell.0)(FromPod::Happened(event)),
            Output::Logs(logs) => {
                let trouble = self.tools.logs.set(&self.key, &self.logs, &logs);
                if let Some(why) = trouble {
                    let uid = logs.iter().chain(&self.logs).next().map(|log| log.uid.clone());
                    let words = words::log_link_failed(&why);
                    let event = ObjectEvent::new(self.key.clone(), uid.unwrap_or_default(), None, words);
                    // The main loop is gone: this thread ends with its next step.
                    _ = (self.tools.tell.0)(FromPod::Happened(event));
                }
                self.logs = logs;
            }
            Output::Report(report) => {
                return (self.tools.tell.0)(FromPod::Report { key: self.key.clone(), report });
            }
            Output::Log(level, line) => log::log!(level, "{line}"),
        }
        true
    }

    /// Prepares the node's part of a create just before it is sent; returns events for the pod.
    fn prepare(&self, Create { body, needs, .. }: &mut Create) -> Result<Vec<Words>, DockerError> {
        if let Some(recorded) = record::noted(&body.labels) {
            // Containers are made only for a pod that is wanted.
            let source = self.machine.pod().map_or(Source::File, |pod| pod.source);
            self.tools.node.container_records.admit(source, recorded, self.tools.clock.now().mono)?;
        }
        let root = Path::new(&self.tools.settings.map.root_dir);
        needs::complete(body, needs, root)?;
        let told = match &needs.network {
            Some(wanted) => self.tools.files.prepare(wanted, body).map_err(Refusal::not_sent)?,
            None => Vec::new(),
        };
        // This comes last, so that a refused create leaves no file.
        if let Some(file) = &needs.termination_file {
            needs::termination(body, &self.tools.termination, file, root)?;
        }
        Ok(told)
    }

    /// Handles the result of preparing a create's volumes.
    fn bound(&mut self, token: u64, result: Result<(), String>, now: &Now) {
        let Some((create, _)) = self.unbound.remove(&token) else { return };
        match result {
            Ok(()) => self.create(Token(token), create),
            Err(why) => self.machine.handle(Input::Unprepared(Token(token), why), now),
        }
    }

    /// Gives up on parts of volumes past their deadlines: their file system may hang, and neither the pod nor its end
    /// waits for that.
    fn give_up_binding(&mut self, now: &Now) {
        let late = self.unbound.iter().filter(|(_, (_, until))| now.mono >= *until);
        let late: Vec<u64> = late.map(|(token, _)| *token).collect();
        if late.is_empty() {
            return;
        }
        let doing = self.volumes.doing().unwrap_or_else(|| "the work on its volumes".to_owned());
        let waited = limits::SUB_PATHS.as_secs();
        for token in late {
            if let Some((create, _)) = self.unbound.get(&token) {
                self.volumes.withdraw(&calls::whose(create));
            }
            let why = format!(
                "{doing} has not ended within {waited} s: its file system may hang; podkeeper tries again"
            );
            self.bound(token, Err(why), now);
        }
    }

    /// Creates the container once the parts of volumes that it names are bound.
    fn create_when_bound(&mut self, token: Token, mut create: Create) {
        let parts = std::mem::take(&mut create.needs.parts);
        if parts.is_empty() {
            return self.create(token, create);
        }
        let of = calls::whose(&create);
        let until = self.tools.clock.now().mono.after(limits::SUB_PATHS);
        self.unbound.insert(token.0, (create, until));
        let mailbox = Arc::clone(&self.mailbox);
        let told = move |result| mailbox.bound(token.0, result);
        self.volumes.prepare(self.machine.pod(), of, parts, Box::new(told));
    }

    /// Sends a create without fields that this Docker does not know, unless leaving one out would change
    /// more than the pod allows.
    fn create(&mut self, token: Token, mut create: Create) {
        let body = &mut create.body;
        let newest = body.host_config.mounts.iter().any(|mount| {
            mount.bind_options.is_some_and(|o| o.read_only_force_recursive || o.read_only_non_recursive)
        });
        if newest && !self.tools.docker.speaks(RECURSIVE_READ_ONLY) {
            for mount in &mut body.host_config.mounts {
                let Some(options) = &mut mount.bind_options else { continue };
                if options.read_only_force_recursive {
                    // The refusal is sent like any other reply: a machine gets no input between two steps.
                    let why = Err("this Docker has no recursive read-only mounts".to_owned());
                    self.unbound.insert(token.0, (create, Mono(std::time::Duration::MAX)));
                    return self.mailbox.bound(token.0, why);
                }
                options.read_only_non_recursive = false;
                if *options == BindOptions::default() {
                    mount.bind_options = None;
                }
            }
        }
        let uid = body.labels.get(labels::POD_UID).cloned().unwrap_or_default();
        let told = match self.prepare(&mut create) {
            Ok(told) => told,
            Err(error) => return self.told.push(Input::Reply(token, Err(error))),
        };
        for words in told {
            let event = ObjectEvent::new(self.key.clone(), uid.clone(), None, words);
            // The main loop is gone: this thread ends with its next step.
            _ = (self.tools.tell.0)(FromPod::Happened(event));
        }
        PodNetwork::before_a_sandbox(&self.tools.network, &create.body.host_config.namespaces.network_mode);
        self.begin(token, &Call::Create { name: create.name, body: create.body });
    }

    fn wait(&self, wake: Option<Mono>) {
        let deadlines = self.calls.iter().filter_map(|c| c.pending.deadline());
        let wake = wake.map(|at| self.tools.clock.instant(at));
        let until = deadlines.chain(wake).min();
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(1 + self.calls.len());
        fds.push(PollFd::from_borrowed_fd(self.mailbox.as_fd(), PollFlags::IN));
        fds.extend(self.calls.iter().filter_map(|c| {
            let fd: BorrowedFd<'_> = c.pending.fd()?;
            let flags = if c.pending.wants_write() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            Some(PollFd::from_borrowed_fd(fd, flags))
        }));
        // An interrupted wait is a wake-up like any other: everything is checked again. If the wait fails because the
        // kernel has no memory, the loop must not spin.
        if let Err(error) = crate::base::wait::until(fds, until) {
            log::warn!("waiting for answers failed: {error}; tried again in a moment");
            std::thread::sleep(limits::WAIT_AGAIN);
        }
    }
}
