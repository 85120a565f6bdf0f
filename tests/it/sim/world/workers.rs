//! Workers of the world: their steps, cgroups and volumes.

use super::*;

impl World {
    pub(super) fn step_worker(&mut self, key: &PodKey, answer: Option<(Token, Result<Reply, DockerError>)>) {
        let now = self.now();
        let generation = self.generation;
        let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) else { return };
        let inbox = worker.slot.take();
        let answer = answer.map(|(token, answer)| Input::Reply(token, answer));
        inbox.inputs().chain(answer).for_each(|input| worker.machine.handle(input, &now));
        let step = worker.machine.step(&now);
        worker.wake = step.wake;
        if let Some(at) = step.wake {
            self.later(at.since(self.now), Job::Wake { generation, key: key.clone() });
        }
        for output in step.out {
            self.judge_volumes(&output);
            match output {
                Output::Create(token, Create { name, body, .. }) => {
                    let delay = Duration::from_micros(200 + self.below(3000));
                    let call = Call::Create { name, body };
                    self.later(delay, Job::Arrive { generation, key: key.clone(), token, call });
                }
                Output::Call(token, call) => {
                    let delay = Duration::from_micros(200 + self.below(3000));
                    self.later(delay, Job::Arrive { generation, key: key.clone(), token, call });
                }
                Output::Judge(token, image) => {
                    let delay = Duration::from_micros(200 + self.below(3000));
                    let call = Call::ImageInspect { image };
                    self.later(delay, Job::Arrive { generation, key: key.clone(), token, call });
                }
                // No call waits on this node to be sent.
                Output::Withdraw(_) => {}
                // A daemon of this world ends with its status file written, or lost.
                Output::Signalled(..) => {}
                Output::Pull(request) => {
                    let delay = Duration::from_millis(50 + self.below(3000));
                    self.later(delay, Job::PullEnds { generation, key: key.clone(), request });
                }
                // There is no preload directory in this world.
                Output::Missing(_) => {}
                Output::Watch(watch) => self.watch(key, &watch),
                Output::Event(event) => self.event(Event::Happened(event)),
                Output::Volumes(order) => self.volumes(key, order),
                // Nor a real disk: there are no termination files.
                Output::ReadMessage { id, .. } => {
                    let worker = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key));
                    if let Some(worker) = worker {
                        worker.machine.handle(Input::Message { id, read: Ok(String::new()) }, &now);
                    }
                    self.later(Duration::ZERO, Job::Read { generation, key: key.clone() });
                }
                Output::Attach(order) => self.attach(key, order),
                Output::AskNetwork => {
                    let ready = self.network_ready();
                    let worker = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key));
                    if let Some(worker) = worker {
                        worker.machine.handle(Input::NetworkReady(ready), &now);
                    }
                    self.later(Duration::ZERO, Job::Read { generation, key: key.clone() });
                }
                Output::ForgetMessage(_) | Output::Hosts(..) | Output::ForgetPod(_) | Output::Network => {}
                Output::AskAddresses => {
                    let worker = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key));
                    if let Some(worker) = worker {
                        worker.machine.handle(Input::Addresses(vec!["192.0.2.2".to_owned()]), &now);
                    }
                    self.later(Duration::ZERO, Job::Read { generation, key: key.clone() });
                }
                Output::Logs(_) => {}
                Output::Cgroup(pod) => {
                    self.note(|| format!("cgroup {}", pod.uid));
                    self.cgroups.used.insert(pod.uid.clone());
                    self.cgroups.there.insert(pod.uid.clone());
                    let runs = self.engine.containers().filter(|c| c.state == DockerState::Running);
                    let of_it = runs.filter(|c| c.body.labels.get(labels::POD_UID) == Some(&pod.uid));
                    let inside = of_it.map(|c| c.id.clone()).collect();
                    self.cgroup_told(
                        key,
                        cgroup::Report::Ensured { pod, moved: None, inside, result: Ok(()) },
                    );
                }
                Output::DropCgroup(uid) => {
                    self.note(|| format!("cgroup {uid} is removed"));
                    self.cgroups.used.remove(&uid);
                    self.cgroups.there.remove(&uid);
                    self.cgroup_told(key, cgroup::Report::Removed { uid, result: Ok(()) });
                }
                Output::Report(report) => self.event(Event::Worker { key: key.clone(), report }),
                Output::Log(level, line) => self.log(level, &line),
            }
        }
    }

    pub(super) fn cgroup_told(&mut self, key: &PodKey, report: cgroup::Report) {
        if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) {
            worker.slot.cgroup(report);
        }
        self.later(Duration::ZERO, Job::Read { generation: self.generation, key: key.clone() });
    }

    /// An order takes time, and begins at once: a daemon may die in the middle.
    pub(super) fn volumes(&mut self, key: &PodKey, order: Order) {
        match &order {
            Order::SetUp(order) => _ = self.disk.pods.insert(order.pod.uid.clone()),
            Order::TearDown { uid } => _ = self.disk.volumes.remove(uid),
        }
        let (generation, delay) =
            (self.generation, Duration::from_micros(200 + self.disk.rng.number() % 20_000));
        self.later(delay, Job::Volumes { generation, key: key.clone(), order });
    }

    pub(super) fn volumes_done(&mut self, key: &PodKey, order: Order) {
        let fails = self.now < self.disk.fails && self.disk.rng.number().is_multiple_of(8);
        let told = match order {
            Order::SetUp(order) if fails => {
                let why = "no space left on device".to_owned();
                let failed = vec![Failure { volume: "v".to_owned(), why, usable: false }];
                VolumeReport::SetUp { uid: order.pod.uid.clone(), failed }
            }
            Order::SetUp(order) => {
                self.disk.volumes.insert(order.pod.uid.clone());
                VolumeReport::SetUp { uid: order.pod.uid.clone(), failed: Vec::new() }
            }
            Order::TearDown { uid } if fails => {
                VolumeReport::TornDown { uid, result: Err("device or resource busy".to_owned()) }
            }
            Order::TearDown { uid } => {
                self.disk.pods.remove(&uid);
                VolumeReport::TornDown { uid, result: Ok(()) }
            }
        };
        if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(key)) {
            worker.slot.volumes(told);
        }
        self.step_worker(key, None);
    }

    /// Asserts that a machine's orders fit the existing volumes: no container without its volumes, no volume
    /// removed under a container.
    pub(super) fn judge_volumes(&self, output: &Output) {
        match output {
            Output::Create(_, Create { body, .. }) if body.host_config.mounts.iter().any(is_volume) => {
                let uid = body.labels.get(labels::POD_UID).unwrap();
                assert!(self.disk.volumes.contains(uid), "a container is made before its volumes are there");
            }
            Output::Volumes(Order::TearDown { uid }) => {
                let runs = self.engine.containers().any(|c| {
                    c.state == DockerState::Running && c.body.labels.get(labels::POD_UID) == Some(uid)
                });
                assert!(!runs, "volumes are taken down while {uid} runs");
            }
            _ => {}
        }
    }

    pub(super) fn check_disk(&self) {
        let wanted: BTreeSet<String> = self.desired().into_iter().map(|pod| pod.uid.clone()).collect();
        assert!(
            self.disk.pods.is_subset(&wanted),
            "left on the disk: {:?}",
            self.disk.pods.difference(&wanted)
        );
    }
}
