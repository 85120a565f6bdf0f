//! Rules that must hold after every call, and at rest.

use super::*;

impl World {
    /// Counts a call, and notes whether it stops a running container.
    pub(super) fn judge(&mut self, call: &Call) {
        self.record.counts.calls += 1;
        self.record.counts.worker_lists += u64::from(matches!(call, Call::List { .. }));
        self.record.counts.apps +=
            u64::from(matches!(call, Call::Create { name, .. } if name.starts_with("k8s_app_")));
        let victim = match call {
            Call::Kill { id, .. } | Call::Remove { id, force: true } => self.engine.get(id),
            _ => None,
        };
        if let Some(victim) = victim.filter(|c| c.state == DockerState::Running) {
            let (name, id) = (victim.name.clone(), victim.id.clone());
            let sandbox = victim.body.labels.get(labels::SANDBOX_ID).and_then(|of| self.engine.get(of));
            if sandbox.is_some_and(|s| s.state == DockerState::Running) {
                self.answers.judge_kill(&name, &id);
            }
            self.record.kills.push((self.now, name, id));
        }
    }

    // --- rules that must hold -----------------------------------------------------------------------

    /// Invariant 1, after every call and death: one live set of containers for each identity.
    pub fn check_always(&self) {
        let mut uids: BTreeMap<(&str, &str), &str> = BTreeMap::new();
        let mut names: BTreeSet<(&str, &str, &str)> = BTreeSet::new();
        for c in self.engine.containers().filter(|c| c.state == DockerState::Running) {
            let label = |key: &str| c.body.labels.get(key).map_or("", String::as_str);
            if label(labels::ROOT_DIR) != ROOT {
                continue;
            }
            let key = (label(labels::POD_NAMESPACE), label(labels::POD_NAME));
            let name = (key.0, key.1, label(labels::CONTAINER_NAME));
            assert!(names.insert(name), "two of {name:?} run at once");
            let uid = label(labels::POD_UID);
            let other = uids.insert(key, uid);
            assert!(other.is_none_or(|o| o == uid), "two lives of {key:?} at once");
        }
    }

    /// UID, name and starts of the container that this call starts; `None` for sandboxes too.
    pub(super) fn starts_of(&self, call: &Call) -> Option<((String, String), u32)> {
        let Call::Start { id } = call else { return None };
        let c = self.engine.containers().find(|c| c.id == *id)?;
        let label = |key: &str| c.body.labels.get(key).cloned();
        Some(((label(labels::POD_UID)?, label(labels::CONTAINER_NAME)?), c.starts))
            .filter(|((_, name), _)| name != labels::SANDBOX_NAME)
    }

    /// Each start was recorded, after its creation; and the number of kept events is bounded.
    pub fn check_events(&self, exactly: bool) {
        for ((uid, name), starts) in &self.record.starts {
            let told = |reason: &str| {
                let key = (uid.clone(), name.clone(), reason.to_owned());
                self.record.told.get(&key).copied().unwrap_or_default()
            };
            let (created, started) = (told("Created"), told("Started"));
            assert!(started >= *starts, "{name} of {uid}: {starts} starts, {started} told");
            assert!(created >= started, "{name} of {uid}: {created} made, {started} started");
            if exactly {
                assert_eq!(
                    (created, started, told("Pulled")),
                    (*starts, *starts, *starts),
                    "{name} of {uid}"
                );
            }
        }
    }

    /// The number of events that the daemon keeps is bounded.
    pub fn check_ring(&self) -> usize {
        let Some(daemon) = &self.daemon else { return 0 };
        let kept = daemon.turn.events();
        assert!(kept.len() <= limits::EVENTS);
        for (at, one) in kept.iter().enumerate() {
            assert!(!kept.iter().skip(at + 1).any(|other| other.event == one.event), "{one:?} is kept twice");
        }
        kept.len()
    }

    /// Ids of podkeeper's running containers, by Docker name.
    pub fn running(&self) -> BTreeMap<String, String> {
        let ours = self.engine.containers().filter(|c| {
            c.state == DockerState::Running && c.body.labels.get(labels::ROOT_DIR).is_some_and(|r| r == ROOT)
        });
        ours.map(|c| (c.name.clone(), c.id.clone())).collect()
    }

    /// At rest: exactly the pods in the files run, and there are few dead containers.
    pub fn check_at_rest(&self) {
        self.check_ring();
        self.check_disk();
        self.check_networks();
        let mut wanted: BTreeSet<(String, String, String)> = BTreeSet::new();
        let mut taken: BTreeSet<PodKey> = BTreeSet::new();
        for pod in self.desired() {
            if !taken.insert(pod.key.clone()) {
                continue;
            }
            let base = |name: &str| (pod.key.to_string(), pod.uid.clone(), name.to_owned());
            wanted.insert(base("POD"));
            wanted.extend(pod.spec.containers.iter().map(|c| base(&c.name)));
            let sidecars = pod.init_containers().iter().filter(|c| c.restart_policy.is_some());
            wanted.extend(sidecars.map(|c| base(&c.name)));
        }
        let mut running: BTreeSet<(String, String, String)> = BTreeSet::new();
        let mut dead: BTreeMap<(String, String), u32> = BTreeMap::new();
        for c in self.engine.containers() {
            let label = |key: &str| c.body.labels.get(key).cloned().unwrap_or_default();
            if label(labels::ROOT_DIR) != ROOT {
                continue;
            }
            let key = format!("{}/{}", label(labels::POD_NAMESPACE), label(labels::POD_NAME));
            let name = label(labels::CONTAINER_NAME);
            match c.state {
                DockerState::Running => _ = running.insert((key, label(labels::POD_UID), name)),
                // Containers that Docker itself refuses to remove are not counted.
                DockerState::Exited | DockerState::Created if !self.engine.refuses_removal(&c.id) => {
                    *dead.entry((key, name)).or_default() += 1;
                }
                _ => {}
            }
        }
        assert_eq!(wanted, running, "what is wanted, and what runs");
        let uids: BTreeSet<&String> = running.iter().map(|(_, uid, _)| uid).collect();
        let without: Vec<_> = uids.iter().filter(|uid| !self.cgroups.there.contains(**uid)).collect();
        assert!(without.is_empty(), "run without a cgroup: {without:?}");
        let crowd = dead.iter().find(|(_, n)| **n > 1);
        assert!(crowd.is_none(), "too many dead {crowd:?}");
    }
}
