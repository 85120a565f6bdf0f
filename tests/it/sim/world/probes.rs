//! The prober of the world.

use super::*;

impl World {
    pub(super) fn watch(&mut self, key: &PodKey, watch: &Watch) {
        assert!(watch.hooks.is_empty(), "no manifest of this world has hooks");
        self.daemon.as_mut().unwrap().probes.set(key, &watch.targets, self.now);
        self.plan_probe();
    }

    pub(super) fn plan_probe(&mut self) {
        let generation = self.generation;
        let Some(daemon) = self.daemon.as_mut() else { return };
        let Some(at) = daemon.probes.next_due().map(|at| at.max(self.now)) else { return };
        if daemon.probe_due.is_none_or(|planned| at < planned) {
            daemon.probe_due = Some(at);
            self.later(at.since(self.now), Job::ProbeDue { generation });
        }
    }

    /// Runs the probes that are due. A container that does not run gives an error.
    pub(super) fn ask_probes(&mut self) {
        let (now, generation, seed) = (self.now, self.generation, self.seed);
        let daemon = self.daemon.as_mut().unwrap();
        if daemon.probe_due.take_if(|at| *at <= now).is_none() {
            return;
        }
        let mut asked = Vec::new();
        while let Some(probe) = daemon.probes.take_due(now) {
            let (target, probing) = daemon.probes.question(probe).unwrap();
            let kind = kind_of(target, probing);
            self.answers.ask(target, kind);
            let runs = self.engine.get(&target.id).is_some_and(|c| c.state == DockerState::Running);
            asked.push(if runs {
                let (outcome, takes) = self.answers.draw(&mut self.rng, kind, &target.container, seed);
                (takes, probe, outcome)
            } else {
                (Duration::from_millis(1), probe, Outcome::unknown("it does not run"))
            });
        }
        for (takes, probe, outcome) in asked {
            self.later(takes, Job::Probed { generation, probe, outcome });
        }
        self.plan_probe();
    }

    /// Gives an answer to the schedule, and its consequences to the worker.
    pub(super) fn probed(&mut self, probe: ProbeId, outcome: &Outcome) {
        let (now, generation) = (self.now, self.generation);
        let daemon = self.daemon.as_mut().unwrap();
        // `None`: the answer is no longer wanted.
        let Some((target, probing)) = daemon.probes.question(probe) else { return };
        let kind = kind_of(target, probing);
        self.answers.count(target, kind, &probing.timing, outcome);
        let finished = daemon.probes.finished(probe, outcome, now);
        if let Some(changed) = finished.changed {
            let worker = daemon.workers.get_mut(&changed.key).expect("a probe of a worker that is not there");
            let (since, verdict) = (changed.since, changed.verdict);
            worker.slot.news(News::Probed { id: changed.id.clone(), kind, since, verdict });
            let key = changed.key;
            self.note(|| format!("probe {} {} {kind:?}: {verdict:?}", key.name, short(&changed.id)));
            let delay = Duration::from_micros(self.below(2000));
            self.later(delay, Job::Read { generation, key });
        }
        self.plan_probe();
    }
}

/// Kind of this probe of the target.
fn kind_of(target: &Target, probing: &Probing) -> Kind {
    let this = |kind: &Kind| target.probe(*kind).is_some_and(|of| std::ptr::eq(&**of, probing));
    Kind::ALL.into_iter().find(this).expect("a probe that its target does not have")
}
