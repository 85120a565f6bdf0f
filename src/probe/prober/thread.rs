//! The body of the thread: attempts begin, advance and end, with one wait for all of them.

use std::collections::VecDeque;
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Sender, TrySendError, bounded};
use rustix::event::{PollFd, PollFlags};

use super::{News, ProbeListener, Shared};
use crate::base::clock::Clock;
use crate::base::wait;
use crate::base::{limits, thread};
use crate::pod::{PodKey, Source, turn};
use crate::probe::Kind;
use crate::probe::attempt::{Attempt, Kit, Question};
use crate::probe::outcome::{self, Outcome};
use crate::probe::schedule::{Finished, ProbeId, Said, Schedule};
use crate::probe::spec::{Action, HookKind, HookWish};
use crate::runtime::exec::Execution;

/// The probe or hook of an attempt.
enum Owner {
    Probe(ProbeId),
    Hook { key: PodKey, id: String, kind: HookKind },
}

struct Asking {
    owner: Owner,
    attempt: Attempt,
    began: Instant,
    name_asked: bool,
}

/// A watched pod.
struct Pod {
    key: PodKey,
    source: Option<Source>,
    listener: Arc<dyn ProbeListener>,
    /// Hooks that were started and are still wanted.
    hooks: Vec<(String, HookKind)>,
}

pub(super) struct Body {
    shared: Arc<Shared>,
    kit: Kit,
    schedule: Schedule,
    pods: Vec<Pod>,
    asking: Vec<Asking>,
    /// Exec probes that wait for their turn. Each source has its own places: commands of one that take long delay no
    /// probe of another.
    queue: VecDeque<ProbeId>,
    /// Commands that outlived their timeout: their output is read until they end.
    left: Vec<(ProbeId, Box<Execution>)>,
    names: Option<Sender<String>>,
}

impl Body {
    pub(super) fn new(shared: Arc<Shared>) -> Body {
        let seed = seed();
        Body {
            kit: Kit::new(shared.docker.clone()),
            shared,
            schedule: Schedule::new(seed),
            pods: Vec::new(),
            asking: Vec::new(),
            queue: VecDeque::new(),
            left: Vec::new(),
            names: None,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            self.read();
            self.begin_due();
            // An attempt that ended leaves a place, and its probe may be due again.
            if !self.advance() {
                self.wait();
            }
        }
    }

    fn read(&mut self) {
        let mut count = [0u8; 8];
        _ = rustix::io::read(&self.shared.wake, &mut count);
        let mut inner = self.shared.lock();
        let unread = std::mem::take(&mut inner.unread);
        let named = std::mem::take(&mut inner.named);
        drop(inner);
        let now = self.shared.clock.now().mono;
        for (name, result) in named {
            for asking in self.asking.iter_mut().filter(|a| a.attempt.wants_name() == Some(&name)) {
                asking.attempt.named(&result);
            }
        }
        for (key, listener, watch) in unread {
            let other = |pod: &Pod| pod.key == key && !Arc::ptr_eq(&pod.listener, &listener);
            if watch.is_empty() && self.pods.iter().any(other) {
                continue;
            }
            let gone = self.schedule.set(&key, &watch.targets, now);
            self.shared.lock().tallies.retain(|id, _| !gone.contains(id));
            self.queue.retain(|id| !gone.contains(id));
            self.left.retain(|(id, _)| !gone.contains(id));
            let wanted = |id: &str, kind: HookKind| watch.hooks.iter().any(|h| h.id == id && h.kind == kind);
            self.asking.retain(|asking| match &asking.owner {
                Owner::Probe(id) => !gone.contains(id),
                Owner::Hook { key: of, id, kind } => *of != key || wanted(id, *kind),
            });
            if watch.is_empty() {
                self.pods.retain(|pod| pod.key != key);
                continue;
            }
            let at = self.pods.iter().position(|pod| pod.key == key).unwrap_or(self.pods.len());
            if at == self.pods.len() {
                let (source, listener) = (watch.source, Arc::clone(&listener));
                self.pods.push(Pod { key: key.clone(), source, listener, hooks: Vec::new() });
            }
            let Some(pod) = self.pods.get_mut(at) else { continue };
            (pod.source, pod.listener) = (watch.source, listener);
            pod.hooks.retain(|(id, kind)| wanted(id, *kind));
            for hook in watch.hooks {
                let begun = pod.hooks.iter().any(|(id, kind)| *id == hook.id && *kind == hook.kind);
                if !begun {
                    pod.hooks.push((hook.id.clone(), hook.kind));
                    self.asking.push(begin_hook(&key, &hook, &self.kit));
                }
            }
        }
    }

    fn begin_due(&mut self) {
        let now = self.shared.clock.now().mono;
        while let Some(id) = self.schedule.take_due(now) {
            match self.schedule.question(id) {
                Some((_, probing)) if matches!(probing.action, Action::Exec(_)) => self.queue.push_back(id),
                Some(_) => self.begin(id),
                None => {}
            }
        }
        while let Some(id) = self.take_turn() {
            self.begin(id);
        }
    }

    /// The next exec probe of a source that has a place left.
    fn take_turn(&mut self) -> Option<ProbeId> {
        let starting: Vec<Option<Source>> = self.starting().map(|(source, _)| source).collect();
        let waiting = self.queue.iter().map(|id| self.source_of_probe(*id));
        let at = turn::first(waiting, &starting, limits::PROBE_EXECS)?;
        self.queue.remove(at)
    }

    /// Sources and start times of the execs that are still being started.
    fn starting(&self) -> impl Iterator<Item = (Option<Source>, Instant)> {
        let busy = |a: &&Asking| a.attempt.is_exec() && a.began.elapsed() < limits::PROBE_EXEC_BUSY;
        self.asking.iter().filter(busy).map(|a| (self.source_of(&a.owner), a.began))
    }

    fn source_of(&self, owner: &Owner) -> Option<Source> {
        match owner {
            Owner::Probe(id) => self.source_of_probe(*id),
            Owner::Hook { key, .. } => self.source_of_pod(key),
        }
    }

    fn source_of_probe(&self, id: ProbeId) -> Option<Source> {
        self.schedule.whose(id).and_then(|(key, ..)| self.source_of_pod(key))
    }

    fn source_of_pod(&self, key: &PodKey) -> Option<Source> {
        self.pods.iter().find(|pod| pod.key == *key).and_then(|pod| pod.source)
    }

    fn begin(&mut self, id: ProbeId) {
        let Some((target, probing)) = self.schedule.question(id) else { return };
        if let Action::Exec(command) = &probing.action {
            let mut left = self.left.iter().filter(|(of, _)| *of == id).map(|(_, run)| run);
            let count = left.clone().count();
            if count >= limits::PROBE_EXECS_LEFT
                && let Some(first) = left.next()
            {
                let text = outcome::exec_timed_out(command, probing.timing.timeout);
                let text = format!("{text} ({count} earlier ones still run, and no further one is made)");
                let attempt = Attempt::of_left(&self.kit, first, text);
                return self.ask(Owner::Probe(id), attempt);
            }
        }
        let question = Question {
            id: &target.id,
            address: target.address,
            action: &probing.action,
            timeout: Some(probing.timing.timeout),
            hook: None,
        };
        let attempt = Attempt::begin(&question, &self.kit);
        self.ask(Owner::Probe(id), attempt);
    }

    fn ask(&mut self, owner: Owner, attempt: Attempt) {
        self.asking.push(Asking { owner, attempt, began: Instant::now(), name_asked: false });
    }

    /// Advances all attempts. Returns whether one ended.
    fn advance(&mut self) -> bool {
        self.left.retain_mut(|(_, run)| run.advance().is_none());
        let mut ended = false;
        let mut at = 0;
        while let Some(asking) = self.asking.get_mut(at) {
            if let Some(name) = asking.attempt.wants_name().filter(|_| !asking.name_asked) {
                let name = name.to_owned();
                asking.name_asked = true;
                if let Err(why) = look_up(&self.shared, &mut self.names, &name) {
                    asking.attempt.named(&Err(why));
                }
            }
            let outcome = asking.attempt.advance(&self.kit);
            if let Owner::Hook { key, id, kind } = &asking.owner
                && let Some(step) = asking.attempt.take_news()
                && let Some(pod) = self.pods.iter().find(|pod| pod.key == *key)
            {
                pod.listener.notify(News::HookAt { id: id.clone(), kind: *kind, step });
            }
            let Some(outcome) = outcome else {
                at = at.saturating_add(1);
                continue;
            };
            ended = true;
            let Asking { owner, attempt, .. } = self.asking.swap_remove(at);
            match owner {
                Owner::Probe(id) => {
                    let is_doubt = attempt.is_doubt();
                    self.left.extend(attempt.into_running().map(|run| (id, run)));
                    match self.doubted(id, is_doubt, outcome) {
                        Ok(attempt) => self.ask(Owner::Probe(id), attempt),
                        Err(outcome) => self.finished(id, &outcome),
                    }
                }
                Owner::Hook { key, id, kind } => self.hooked(&key, id, kind, outcome),
            }
        }
        ended
    }

    /// A failure that would kill, which is looked at once more.
    fn doubted(&self, id: ProbeId, is_doubt: bool, outcome: Outcome) -> Result<Attempt, Outcome> {
        let kills = self.schedule.whose(id).is_some_and(|(_, _, kind)| kind != Kind::Readiness);
        match (self.schedule.question(id), &outcome) {
            (Some((target, _)), Outcome::Failed(_)) if kills && !is_doubt => {
                Ok(Attempt::of_doubt(&target.id, outcome))
            }
            _ => Err(outcome),
        }
    }

    fn finished(&mut self, id: ProbeId, outcome: &Outcome) {
        let now = self.shared.clock.now().mono;
        if let Some(whose) = self.schedule.whose(id) {
            self.shared.count(id, whose, outcome);
        }
        let Finished { said, changed } = self.schedule.finished(id, outcome, now);
        if let Some(Said { key, id, kind, reason, text }) = said
            && let Some(pod) = self.pods.iter().find(|pod| pod.key == key)
        {
            pod.listener.notify(News::Said { id, kind, reason, text });
        }
        let Some(changed) = changed else { return };
        if let Some(pod) = self.pods.iter().find(|pod| pod.key == changed.key) {
            pod.listener.notify(News::Probed {
                id: changed.id,
                kind: changed.kind,
                since: changed.since,
                verdict: changed.verdict,
            });
        }
    }

    fn hooked(&self, key: &PodKey, id: String, kind: HookKind, outcome: Outcome) {
        let result = match outcome {
            Outcome::Passed | Outcome::Warned(_) => Ok(()),
            Outcome::Failed(why) | Outcome::Errored { why, .. } => Err(why),
        };
        if let Some(pod) = self.pods.iter().find(|pod| pod.key == *key) {
            pod.listener.notify(News::Hooked { id, kind, result });
        }
    }

    fn wait(&mut self) {
        let due = self.schedule.next_due().map(|at| self.shared.clock.instant(at));
        let room = if self.queue.is_empty() {
            None
        } else {
            let began = self.starting().map(|(_, began)| began).min();
            began.and_then(|began| began.checked_add(limits::PROBE_EXEC_BUSY))
        };
        let attempts = self.asking.iter().filter_map(|a| a.attempt.wake());
        let left = self.left.iter().filter_map(|(_, run)| run.wake());
        let until = attempts.chain(left).chain(due).chain(room).min();
        let flags = |write| if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds = vec![PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN)];
        let asked = self.asking.iter().flat_map(|a| a.attempt.fds());
        let left = self.left.iter().filter_map(|(_, run)| Some((run.fd()?, run.wants_write())));
        fds.extend(asked.chain(left).map(|(fd, write)| PollFd::from_borrowed_fd(fd, flags(write))));
        // An interrupted wait is handled as a wake-up.
        _ = wait::until(fds, until);
    }
}

fn begin_hook(key: &PodKey, hook: &HookWish, kit: &Kit) -> Asking {
    let question = Question {
        id: &hook.id,
        address: hook.address,
        action: &hook.action,
        timeout: None,
        hook: Some(hook.kind),
    };
    let attempt = Attempt::begin(&question, kit);
    let owner = Owner::Hook { key: key.clone(), id: hook.id.clone(), kind: hook.kind };
    Asking { owner, attempt, began: Instant::now(), name_asked: false }
}

/// Sends a name to the thread that resolves names, which is started at the first name.
fn look_up(shared: &Arc<Shared>, names: &mut Option<Sender<String>>, name: &str) -> Result<(), String> {
    if names.is_none() {
        let (ask, asked) = bounded::<String>(limits::PROBE_NAMES);
        let shared = Arc::clone(shared);
        thread::spawn("pk-probe-dns", limits::WORKER_STACK, move || {
            for name in asked {
                let found = (name.as_str(), 0).to_socket_addrs();
                let result = match found.map(|mut all| all.next()) {
                    Ok(Some(address)) => Ok(address.ip()),
                    Ok(None) | Err(_) => Err("no such host".to_owned()),
                };
                shared.lock().named.push((name, result));
                shared.wake();
            }
        })
        .map_err(|e| format!("no thread: {e}"))?;
        *names = Some(ask);
    }
    match names.as_ref().map(|names| names.try_send(name.to_owned())) {
        Some(Ok(())) => Ok(()),
        Some(Err(TrySendError::Full(_))) => Err("too many names are being looked up".to_owned()),
        _ => Err("nobody looks names up".to_owned()),
    }
}

/// A seed that differs between processes, so that nodes that boot together do not probe together.
fn seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
