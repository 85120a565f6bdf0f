//! The steps of the rig: answers of the engine, outputs of the machine.

use super::*;
use crate::base::table::Set;

impl Rig {
    /// Delivers the events since the last time.
    pub(super) fn hear(&mut self) {
        loop {
            match self.engine.next_event(&mut self.wire.cursor) {
                EventNext::Idle => return,
                EventNext::End(_) => match self.engine.subscribe(None) {
                    Ok(cursor) => self.wire.cursor = cursor,
                    Err(_) => return,
                },
                EventNext::Event(event) => {
                    let ours = event.labels.get(labels::ROOT_DIR).is_some_and(|root| root == ROOT);
                    if !self.wire.events || !ours {
                        continue;
                    }
                    let hint = match event.action.as_str() {
                        "start" => Hint::Started(event.id),
                        "die" => Hint::Changed(event.id),
                        "rename" => Hint::Renamed(event.id),
                        "oom" => Hint::OutOfMemory(event.id),
                        "destroy" => Hint::Removed(event.id),
                        _ => continue,
                    };
                    self.slot.hint(hint);
                    self.later(MS, Coming::Read);
                }
            }
        }
    }

    pub(super) fn happen(&mut self, coming: Coming) {
        match coming {
            Coming::Read => self.step(),
            Coming::Volumes(report) => {
                self.slot.volumes(report);
                self.step();
            }
            Coming::Network(report) => {
                self.slot.network(report);
                self.step();
            }
            Coming::Arrive(token, call) => {
                let words = self.words(&call);
                let hurt = self
                    .wire
                    .hurts
                    .iter_mut()
                    .find(|(begin, times, _)| *times > 0 && words.starts_with(begin));
                let hurt = hurt.map(|(_, times, how)| {
                    *times -= 1;
                    how.clone()
                });
                let now = self.now();
                let (answer, takes) = match hurt {
                    None => (self.engine.perform(&call, now), MS),
                    Some(Hurt::Slow(takes)) => (self.engine.perform(&call, now), takes),
                    Some(Hurt::Says(error)) => (Err(error), MS),
                    Some(Hurt::LeavesOut(ids)) => {
                        let mut answer = self.engine.perform(&call, now);
                        if let Ok(Reply::Containers(list)) = &mut answer {
                            list.retain(|c| !ids.contains(&c.id));
                        }
                        (answer, MS)
                    }
                    Some(Hurt::Warns(said)) => {
                        let mut answer = self.engine.perform(&call, now);
                        if let Ok(Reply::Created { warnings, .. }) = &mut answer {
                            *warnings = said;
                        }
                        (answer, MS)
                    }
                    Some(Hurt::DoneBut(error)) => {
                        drop(self.engine.perform(&call, now));
                        (Err(error), MS)
                    }
                };
                let takes = match (&answer, &call) {
                    (Err(DockerError::Timeout(_)), _) => TIMEOUT,
                    (Ok(_), Call::Start { .. }) => ms(100).max(takes),
                    _ => takes,
                };
                self.later(takes, Coming::Answer(token, Box::new(answer)));
            }
            Coming::Answer(token, answer) => {
                let now = self.now();
                self.machine.handle(Input::Reply(token, *answer), &now);
                self.step();
            }
            Coming::Pull(request) => {
                let now = self.now();
                let outcome = if request.builtin {
                    self.engine.add_image(&request.image, true);
                    PullOutcome::Done
                } else {
                    let image = Call::ImageInspect { image: request.image.clone() };
                    let there = self.engine.perform(&image, now).is_ok();
                    match self.engine.pull(&request.image, now) {
                        Ok(_) => PullOutcome::Done,
                        Err(error) if request.local_copy_will_do && there => {
                            PullOutcome::LocalCopy(error.to_string())
                        }
                        Err(error) => PullOutcome::Failed(error.to_string()),
                    }
                };
                self.slot.pulled(Pulled { image: request.image, outcome, took: PULL, size: Some(1 << 20) });
                self.step();
            }
        }
    }

    pub(super) fn cgroup_told(&mut self, report: cgroup::Report) {
        if !self.cgroups.hang {
            self.slot.cgroup(report);
            self.later(Duration::ZERO, Coming::Read);
        }
    }

    /// One turn of the worker, as its thread does it.
    pub(in crate::machine::tests) fn step(&mut self) {
        let now = self.now();
        let inbox = self.slot.take();
        inbox.inputs().for_each(|input| self.machine.handle(input, &now));
        let step = self.machine.step(&now);
        self.wake = step.wake;
        let mut unsent = Set::new();
        for output in step.out {
            match output {
                Output::Signalled(id, true) => _ = self.files.signalled.insert(id),
                Output::Signalled(id, false) => _ = self.files.signalled.remove(&id),
                Output::Call(token, Call::Start { .. }) if unsent.contains(&token) => {
                    let why = self.files.disk_full.clone().unwrap_or_default();
                    self.later(Duration::ZERO, Coming::Answer(token, Box::new(Err(Refusal::not_sent(why)))));
                }
                Output::Create(token, Create { needs, .. })
                    if self.volumes.parts_hang && !needs.parts.sub_paths.is_empty() =>
                {
                    self.volumes.unsent.insert(token);
                }
                Output::Withdraw(token) => {
                    if self.volumes.unsent.remove(&token) {
                        self.machine.handle(Input::Withdrawn(token), &now);
                        self.later(Duration::ZERO, Coming::Read);
                    }
                }
                Output::Create(token, Create { name, body, needs }) => {
                    let text = crate::base::json::text(&body);
                    let call = Call::Create { name, body };
                    let words = self.words(&call);
                    let unsent = (&needs.termination_file, &needs.seccomp_profile, &needs.parts.sub_paths);
                    self.sent.push(format!("{words} {text} {unsent:?} {:?}", needs.network));
                    self.calls.push((self.now, words));
                    self.later(MS, Coming::Arrive(token, call));
                }
                Output::Judge(token, image) => {
                    let call = Call::ImageInspect { image };
                    self.calls.push((self.now, "image".to_owned()));
                    self.later(MS, Coming::Arrive(token, call));
                }
                Output::Call(token, call) => {
                    let words = self.words(&call);
                    if let Call::Update { .. } = &call {
                        self.sent.push(format!("{words} {call:?}"));
                    }
                    self.calls.push((self.now, words));
                    self.later(MS, Coming::Arrive(token, call));
                }
                Output::Pull(request) => {
                    self.pulls.push((self.now, request.clone()));
                    self.later(PULL, Coming::Pull(request));
                }
                Output::Missing(_) => {}
                Output::ReadMessage { id, file } => {
                    let words = format!("{}#{}", file.container, file.attempt);
                    let text = self.files.last_words.get(&words).cloned().unwrap_or(Ok(String::new()));
                    match self.files.late.as_mut() {
                        Some(late) => late.push((id, text)),
                        None => self.machine.handle(Input::Message { id, read: text }, &now),
                    }
                    self.later(Duration::ZERO, Coming::Read);
                }
                Output::ForgetMessage(file) => {
                    self.files.messages_forgotten.push(format!("{}#{}", file.container, file.attempt));
                }
                Output::AskAddresses => {
                    self.machine.handle(Input::Addresses(self.files.addresses.clone()), &now);
                    self.later(Duration::ZERO, Coming::Read);
                }
                Output::AskNetwork => {
                    self.machine.handle(Input::NetworkReady(self.files.plugins.ready.clone()), &now);
                    self.later(Duration::ZERO, Coming::Read);
                }
                Output::Attach(order) => {
                    for (after, report) in self.files.plugins.told(self.now, &order) {
                        self.later(after, Coming::Network(report));
                    }
                }
                Output::Hosts(_, hosts) if self.files.disk_full.is_none() => self.files.hosts.push(hosts),
                Output::Hosts(token, _) => _ = unsent.insert(token),
                Output::ForgetPod(uid) => self.files.forgotten.push(uid),
                Output::Network => self.files.networks_asked += 1,
                Output::Volumes(order) => {
                    self.volumes.orders.push((self.now, volume_words(&order)));
                    let told = match order {
                        Order::SetUp(order) => VolumeReport::SetUp {
                            uid: order.pod.uid.clone(),
                            failed: self.volumes.broken.clone(),
                        },
                        Order::TearDown { uid } => {
                            VolumeReport::TornDown { uid, result: self.volumes.busy.clone() }
                        }
                    };
                    if !self.volumes.hang {
                        self.later(MS, Coming::Volumes(told));
                    }
                }
                Output::Logs(logs) => self.logs.push(logs),
                Output::Cgroup(pod) => {
                    self.cgroups.told.push(Ok((*pod).clone()));
                    let result = self.cgroups.answer.clone();
                    let parent = node().cgroups.map(|naming| naming.parent(pod.qos, &pod.uid));
                    let is_inside = |c: &&crate::runtime::fake::state::Container| {
                        c.state == DockerState::Running
                            && Some(&c.body.host_config.cgroup_parent) == parent.as_ref()
                    };
                    let inside = self.engine.containers().filter(is_inside).map(|c| c.id.clone()).collect();
                    self.cgroup_told(cgroup::Report::Ensured { pod, moved: None, inside, result });
                }
                Output::DropCgroup(uid) => {
                    self.cgroups.told.push(Err(uid.clone()));
                    self.cgroup_told(cgroup::Report::Removed { uid, result: Ok(()) });
                }
                Output::Watch(watch) => self.watched.push((self.now, watch)),
                Output::Event(event) => {
                    let level = event.weight.level();
                    let line = self.ring.add(event, &now);
                    self.log.extend(line.map(|line| (self.now, level, line)));
                }
                Output::Report(report) => self.reports.push(report),
                Output::Log(level, line) => self.log.push((self.now, level, line)),
            }
        }
    }

    // --- looking ------------------------------------------------------------------------------------

    /// Makes a call to the engine in place of an operator.
    pub(in crate::machine::tests) fn by_hand(&mut self, call: &Call) {
        let now = self.now();
        self.engine.perform(call, now).unwrap();
    }

    /// Whether nothing is under way, and nothing is due before `wake`.
    pub(in crate::machine::tests) fn at_rest(&self) -> bool {
        self.coming.is_empty()
    }
}
