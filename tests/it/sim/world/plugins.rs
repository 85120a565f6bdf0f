//! CNI plugins of the world, and their data on the node: it outlives daemons.

use super::*;

/// Data of the plugins.
pub struct Plugins {
    /// Whether sandboxes are created to be attached by plugins.
    pub are_on: bool,
    /// By sandbox: whether it is attached, or was left half attached.
    held: BTreeMap<String, bool>,
    /// Sandboxes of orders of this daemon.
    pub(super) used: BTreeSet<String>,
    /// Sandboxes whose last order is to detach them.
    leaving: BTreeSet<String>,
    /// A random generator of its own, so that stories do not differ because of it.
    rng: Rng,
    /// Until this time they sometimes fail.
    pub fail: Mono,
}

impl Plugins {
    pub(super) fn new(seed: u64) -> Plugins {
        let (held, used, leaving) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Plugins { are_on: false, held, used, leaving, rng: Rng::new(seed ^ 0xc21), fail: Mono::default() }
    }
}

impl World {
    /// There is a network, except sometimes while plugins fail.
    pub(super) fn network_ready(&mut self) -> Ready {
        let missing = self.now < self.disk.plugins.fail && self.disk.plugins.rng.number().is_multiple_of(4);
        if missing { Ready::No("cni config uninitialized".to_owned()) } else { Ready::Yes }
    }

    /// An order takes time: a daemon may die before, in the middle and after.
    pub(super) fn attach(&mut self, key: &PodKey, order: NetworkOrder) {
        let (NetworkOrder::Attach(wanted) | NetworkOrder::Detach(wanted)) = &order;
        self.disk.plugins.used.insert(wanted.sandbox.clone());
        match &order {
            NetworkOrder::Attach(_) => _ = self.disk.plugins.leaving.remove(&wanted.sandbox),
            NetworkOrder::Detach(_) => _ = self.disk.plugins.leaving.insert(wanted.sandbox.clone()),
        }
        let (generation, delay) =
            (self.generation, Duration::from_micros(200 + self.disk.plugins.rng.number() % 50_000));
        self.later(delay, Job::Network { generation, key: key.clone(), order });
    }

    pub(super) fn network_done(&mut self, key: &PodKey, order: NetworkOrder) {
        let fails = self.now < self.disk.plugins.fail && self.disk.plugins.rng.number().is_multiple_of(6);
        let no = || "plugin type=\"bridge\" failed: no".to_owned();
        let why = || Err(no());
        let runs =
            |id: &str| self.engine.get(id).is_some_and(|sandbox| sandbox.state == DockerState::Running);
        let told = match &order {
            NetworkOrder::Attach(wanted) => {
                let sandbox = wanted.sandbox.clone();
                // Orders are carried out one after the other, and an order to detach ends this one.
                let ends = self.disk.plugins.leaving.contains(&sandbox);
                match self.disk.plugins.held.get(&sandbox) {
                    _ if ends || !runs(&sandbox) => NetworkReport::Attached { sandbox, result: why() },
                    Some(true) => {
                        NetworkReport::Attached { sandbox, result: Ok(vec!["10.1.0.2".to_owned()]) }
                    }
                    Some(false) if fails => NetworkReport::Attached { sandbox, result: why() },
                    Some(false) => {
                        self.disk.plugins.held.insert(sandbox.clone(), true);
                        NetworkReport::Attached { sandbox, result: Ok(vec!["10.1.0.2".to_owned()]) }
                    }
                    None => {
                        // Some plugins have run; the rest comes with the second half.
                        self.disk.plugins.held.insert(sandbox.clone(), false);
                        self.note(|| format!("attaching {}", short(&sandbox)));
                        let half = self.disk.plugins.rng.number() % 300;
                        let (generation, key) = (self.generation, key.clone());
                        self.later(Duration::from_millis(half), Job::Network { generation, key, order });
                        NetworkReport::Attaching { sandbox }
                    }
                }
            }
            NetworkOrder::Detach(wanted) => {
                let sandbox = wanted.sandbox.clone();
                let result = if fails { Err(no()) } else { Ok(()) };
                if result.is_ok() {
                    self.disk.plugins.held.remove(&sandbox);
                }
                NetworkReport::Detached { sandbox, result }
            }
        };
        self.note(|| format!("network {told:?}"));
        if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) {
            worker.slot.network(told);
        }
        self.step_worker(key, None);
    }

    /// Frees attachments of earlier daemons to sandboxes that are gone.
    pub(super) fn sweep_networks(&mut self) {
        let Plugins { held, used, .. } = &mut self.disk.plugins;
        held.retain(|id, _| used.contains(id) || self.engine.get(id).is_some());
    }

    /// At rest each running sandbox is attached, and nothing is held for others.
    pub fn check_networks(&self) {
        if !self.disk.plugins.are_on {
            return;
        }
        let label = |body: &CreateBody, key: &str| body.labels.get(key).cloned().unwrap_or_default();
        let ours = self.engine.containers().filter(|c| label(&c.body, labels::ROOT_DIR) == ROOT);
        let sandboxes = ours.filter(|c| label(&c.body, labels::CONTAINER_NAME) == labels::SANDBOX_NAME);
        let running: BTreeMap<String, bool> = sandboxes
            .filter(|c| {
                c.state == DockerState::Running && c.body.host_config.namespaces.network_mode == "none"
            })
            .map(|c| (c.id.clone(), true))
            .collect();
        assert_eq!(self.disk.plugins.held, running, "what plugins hold, and what runs");
    }
}
