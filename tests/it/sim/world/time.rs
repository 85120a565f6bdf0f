//! Time passes: each job of the world at its time.

use super::*;

impl World {
    /// Lets time pass. Returns at `until`, or when `stop` demands it after an event.
    pub fn run_until(&mut self, until: Mono) {
        let mut steps = 0u64;
        loop {
            let next = self.agenda.next_due().filter(|at| *at <= until);
            let due = self.engine.next_due().filter(|at| *at <= until);
            let Some(at) = [next, due].into_iter().flatten().min() else { break };
            self.now = self.now.max(at);
            let now = self.now();
            self.engine.advance(now);
            self.drain_events();
            if next == Some(at) {
                let job = self.agenda.pop().unwrap();
                self.happen(job);
                self.drain_events();
            }
            // Includes starts that are carried out late, without any present order.
            if self.engine.total_starts() != self.checked {
                self.checked = self.engine.total_starts();
                self.check_always();
            }
            steps += 1;
            assert!(steps < 400_000, "the world does not come to rest");
        }
        self.now = self.now.max(until);
        let now = self.now();
        self.engine.advance(now);
    }

    pub(super) fn happen(&mut self, job: Job) {
        match job {
            Job::Arrive { generation, key, token, call } => {
                let now = self.now();
                self.judge(&call);
                self.judge_stop(&call);
                self.judge_cluster_stop(&call);
                let before = self.starts_of(&call);
                let full =
                    self.no_space().filter(|_| matches!(call, Call::Create { .. } | Call::Start { .. }));
                let result = full.map_or_else(|| self.engine.perform(&call, now), Err);
                let after = self.starts_of(&call);
                if let Some((key, starts)) = after.filter(|after| before.as_ref().is_some_and(|b| b != after))
                {
                    *self.record.starts.entry(key).or_default() += u64::from(starts > 0);
                }
                self.note(|| format!("call {} {} -> {}", key.name, words(&call), result_words(&result)));
                if generation != self.generation {
                    return;
                }
                let delay = match &result {
                    Err(DockerError::Timeout(_)) => TIMEOUT,
                    _ if matches!(call, Call::Start { .. }) => Duration::from_millis(60 + self.below(150)),
                    _ => Duration::from_micros(300 + self.below(9000)),
                };
                let answer = Box::new(result);
                self.later(delay, Job::Answer { generation, key, token, answer });
            }
            Job::Answer { generation, key, token, answer } if generation == self.generation => {
                self.step_worker(&key, Some((token, *answer)));
            }
            Job::PullEnds { generation, key, request } if generation == self.generation => {
                let now = self.now();
                let was_there = self.engine.image_list().iter().any(|it| it.tags.contains(&request.image));
                let result = if request.builtin {
                    self.engine.load(&sandbox_image::image_tar(), now).map(drop)
                } else {
                    self.engine.pull(&request.image, now).map(drop)
                };
                let fits = self.pulled(&request.image, was_there || request.builtin || result.is_err());
                let outcome = match result {
                    Ok(()) if fits.is_err() => PullOutcome::Failed(fits.unwrap_err()),
                    Ok(()) => PullOutcome::Done,
                    Err(error) => PullOutcome::Failed(error.to_string()),
                };
                self.note(|| format!("pull {} -> {outcome:?}", request.image));
                let pulled = Pulled { image: request.image, outcome, took: Duration::ZERO, size: None };
                if let Some(worker) = self.daemon.as_mut().and_then(|d| d.workers.get_mut(&key)) {
                    worker.slot.pulled(pulled);
                }
                self.step_worker(&key, None);
            }
            Job::Wake { generation, key } if generation == self.generation => {
                let due = self.daemon.as_ref().and_then(|d| d.workers.get(&key)).and_then(|w| w.wake);
                if due.is_some_and(|at| at <= self.now) {
                    self.step_worker(&key, None);
                }
            }
            Job::Read { generation, key } if generation == self.generation => self.step_worker(&key, None),
            Job::Volumes { generation, key, order } if generation == self.generation => {
                self.volumes_done(&key, order);
            }
            Job::Network { generation, key, order } if generation == self.generation => {
                self.network_done(&key, order);
            }
            Job::Tick { generation } if generation == self.generation => self.event(Event::Tick),
            Job::Stream { generation } if generation == self.generation => self.stream(),
            Job::Scan { generation } if generation == self.generation => self.scan(),
            Job::Hub { generation, deed } if generation == self.generation => match deed {
                Deed::Look => self.look(),
                Deed::Ask => self.ask(),
                Deed::Answered => self.answered(),
                Deed::HeadStart => self.head_start_ends(),
            },
            Job::Cluster { generation, deed } => self.cluster_deed(deed, generation == self.generation),
            Job::Keep { generation, deed } => self.keeper_does(deed, generation == self.generation),
            Job::ProbeDue { generation } if generation == self.generation => self.ask_probes(),
            Job::Probed { generation, probe, outcome } if generation == self.generation => {
                self.probed(probe, &outcome);
            }
            _ => {}
        }
    }

    pub(super) fn scan(&mut self) {
        let generation = self.generation;
        self.later(Duration::from_secs(20), Job::Scan { generation });
        let update = if self.unreadable {
            SourceUpdate::Failed("the directory cannot be read".into())
        } else {
            let unchanged = self.daemon.as_ref().is_some_and(|d| d.last_files.as_ref() == Some(&self.files));
            if unchanged {
                return;
            }
            let pods = self.desired();
            let files = self.files.clone();
            self.daemon.as_mut().unwrap().last_files = Some(files);
            SourceUpdate::Full(PodSet { pods, ..PodSet::default() })
        };
        self.event(Event::Source(FromSource { source: Source::File, update }));
    }

    /// The event thread: subscribe, then list; list again after a minute; begin again when the
    /// stream ends.
    pub(super) fn stream(&mut self) {
        let generation = self.generation;
        let now = self.now();
        let again = Duration::from_millis(500);
        let due =
            self.daemon.as_ref().is_some_and(|d| d.cursor.is_none() || now.mono.since(d.listed_at) >= RELIST);
        if !due {
            self.later(RELIST / 4, Job::Stream { generation });
            return;
        }
        if self.daemon.as_ref().is_some_and(|d| d.cursor.is_none()) {
            match self.engine.subscribe(None) {
                Ok(cursor) => self.daemon.as_mut().unwrap().cursor = Some(cursor),
                Err(error) => {
                    self.event(Event::Runtime(RuntimeEvent::Lost(error.to_string())));
                    self.later(again, Job::Stream { generation });
                    return;
                }
            }
        }
        if self.daemon.as_ref().is_some_and(|d| d.image_cursor.is_none()) {
            let cursor = self.engine.subscribe_images(None).ok();
            self.daemon.as_mut().unwrap().image_cursor = cursor;
        }
        let call = Call::List { labels: vec![format!("{}={ROOT}", labels::ROOT_DIR)] };
        self.record.counts.lists += 1;
        match self.engine.perform(&call, now) {
            Ok(Reply::Containers(containers)) => {
                self.daemon.as_mut().unwrap().listed_at = now.mono;
                self.keeper_saw(&containers);
                self.event(Event::Runtime(RuntimeEvent::Listed { containers, version: Some("fake".into()) }));
                self.later(RELIST / 4, Job::Stream { generation });
            }
            other => {
                self.daemon.as_mut().unwrap().cursor = None;
                self.event(Event::Runtime(RuntimeEvent::Lost(format!("{:?}", other.err()))));
                self.later(again, Job::Stream { generation });
            }
        }
    }

    pub(super) fn drain_events(&mut self) {
        self.keeper_hears_of_images();
        loop {
            let Some(cursor) = self.daemon.as_mut().and_then(|d| d.cursor.as_mut()) else { return };
            match self.engine.next_event(cursor) {
                EventNext::Idle => return,
                EventNext::End(why) => {
                    self.daemon.as_mut().unwrap().cursor = None;
                    self.event(Event::Runtime(RuntimeEvent::Lost(why)));
                    let generation = self.generation;
                    self.later(Duration::from_millis(250), Job::Stream { generation });
                }
                EventNext::Event(event) => {
                    let hint = match event.action.as_str() {
                        "create" => Hint::Made(event.id.clone()),
                        "start" => Hint::Started(event.id.clone()),
                        "die" => Hint::Changed(event.id.clone()),
                        "oom" => Hint::OutOfMemory(event.id.clone()),
                        "destroy" => Hint::Removed(event.id.clone()),
                        _ => continue,
                    };
                    let of = |label: &str| event.labels.get(label).cloned();
                    if of(labels::ROOT_DIR).as_deref() != Some(ROOT) {
                        continue;
                    }
                    let (Some(namespace), Some(name)) = (of(labels::POD_NAMESPACE), of(labels::POD_NAME))
                    else {
                        continue;
                    };
                    let key = PodKey { namespace, name };
                    self.keeper_heard(&of("image").unwrap_or_default());
                    self.note(|| format!("event {} {}", event.action, short(&event.id)));
                    self.event(Event::Runtime(RuntimeEvent::Changed { key, hint }));
                }
            }
        }
    }
}
