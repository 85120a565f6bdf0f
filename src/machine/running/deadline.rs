//! activeDeadlineSeconds (upstream `pkg/kubelet/active_deadline.go`): a pod that has been active for too long is
//! stopped with its own grace and has failed for good.
//!
//! The wall clock is not used. While the daemon lives it counts its own time; a label of the sandbox lets the next
//! daemon continue to count, within one boot of the machine. Unknown times (before the last boot, or under a daemon
//! whose sandbox is gone) do not count: a pod may live longer than its deadline then, and never shorter.
//!
//! A passed deadline is written into the sandbox's name before anything is stopped, so that no later daemon starts the
//! stopped containers again.

use std::time::Duration;

use crate::base::clock::Now;
use crate::machine::Machine;
use crate::machine::calls::{Job, Retry};
use crate::machine::told::has_ended;
use crate::plan::{Owned, Role};
use crate::pod::DesiredPod;
use crate::recorder::words;
use crate::runtime::{Call, DockerError, names};

/// State of the deadline, of the pod that was judged last.
#[derive(Debug, Default)]
pub(in crate::machine) struct Deadline(Option<Judged>);

#[derive(Debug)]
struct Judged {
    uid: String,
    /// Start of its activity, as time since the machine's boot.
    since: Duration,
    passed: bool,
    /// Failed attempts to rename the sandbox.
    mark: Retry,
}

impl Deadline {
    fn of(&self, uid: &str) -> Option<&Judged> {
        self.0.as_ref().filter(|judged| judged.uid == uid)
    }
}

/// Whether the pod may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::machine) enum Verdict {
    /// It may, for now.
    Active,
    /// It may not; the sandbox is being renamed.
    Marking,
    /// It may not: it has to be stopped.
    Passed,
}

impl Machine {
    /// Judges the wanted pod.
    pub(in crate::machine) fn deadline(&mut self, pod: &DesiredPod, now: &Now) -> Verdict {
        let up = self.settings.boot.at(now.mono);
        let (since, passed) = match self.deadline.of(&pod.uid) {
            Some(judged) => (judged.since, judged.passed),
            None => {
                let since = self.told_since(&pod.uid).unwrap_or(up);
                let judged = Judged { uid: pod.uid.clone(), since, passed: false, mark: Retry::default() };
                self.deadline = Deadline(Some(judged));
                (since, false)
            }
        };
        if !passed {
            // An older one may be of an earlier life, which Docker cannot remove.
            let told = self.containers.current().sandboxes(&pod.uid).first().is_some_and(|it| is_marked(it));
            if !told && !self.await_deadline(pod, up.saturating_sub(since), now) {
                return Verdict::Active;
            }
            if !told {
                self.tell(None, words::deadline_exceeded());
            }
            if let Some(judged) = &mut self.deadline.0 {
                judged.passed = true;
            }
        }
        self.mark(pod, now)
    }

    /// Returns true if the time is over and the pod has not ended by itself; else sets the wake-up for that time.
    fn await_deadline(&mut self, pod: &DesiredPod, active: Duration, now: &Now) -> bool {
        let Some(limit) = pod.spec.active_deadline_seconds.and_then(|s| u64::try_from(s).ok()) else {
            return false;
        };
        let left = Duration::from_secs(limit).saturating_sub(active);
        if self.told.has_ended() {
            return false;
        }
        if !left.is_zero() {
            self.out.wake_at(now.mono.after(left));
            return false;
        }
        !has_ended(&self.computed(pod, false, now))
    }

    /// Writes it into the name of the newest sandbox. A pod without one has nothing to stop.
    fn mark(&mut self, pod: &DesiredPod, now: &Now) -> Verdict {
        let Some(sandbox) = self.containers.current().sandboxes(&pod.uid).into_iter().next() else {
            return Verdict::Passed;
        };
        if is_marked(sandbox) {
            return Verdict::Passed;
        }
        let (id, name) = (sandbox.id.clone(), names::past_deadline(&self.key, &pod.uid, sandbox.attempt));
        let mark = self.deadline.of(&pod.uid).map_or(Retry::default(), |judged| judged.mark);
        let verdict = if mark.has_failed() { Verdict::Passed } else { Verdict::Marking };
        if now.mono < mark.until {
            self.out.wake_at(mark.until);
        } else if !self.calls.is_busy(&id) && !self.calls.is_full() {
            self.call(Job::Rename { id: id.clone(), name: name.clone() }, Call::Rename { id, name });
        }
        verdict
    }

    /// Takes the answer to the rename.
    pub(in crate::machine) fn renamed(
        &mut self,
        id: &str,
        name: String,
        answer: Result<(), DockerError>,
        now: &Now,
    ) {
        match answer {
            Ok(()) => {
                if let Some((sandbox, _)) = self.containers.current_mut(id) {
                    if let Role::Sandbox { kept, .. } = &mut sandbox.role {
                        kept.deadline.get_or_insert_default().passed = true;
                    }
                    sandbox.docker_name = name;
                }
            }
            Err(error) => {
                let first = self.mark_later(now);
                self.doubt(id);
                if first {
                    let why =
                        format!("that its deadline has passed cannot be written down: {error}; tried again");
                    self.tell(None, words::sync_failed(&why));
                }
            }
        }
    }

    /// Notes a failed rename: the stop does not wait for a second try. Returns whether this was the first one.
    pub(in crate::machine) fn mark_later(&mut self, now: &Now) -> bool {
        let Some(judged) = &mut self.deadline.0 else { return false };
        let first = !judged.mark.has_failed();
        judged.mark.failed(now);
        first
    }

    /// Whether its deadline has passed, and none of its containers runs any more: only then it holds nothing that other
    /// pods may need.
    pub(in crate::machine) fn ended_by_deadline(&self, pod: &DesiredPod) -> bool {
        self.deadline.of(&pod.uid).is_some_and(|judged| judged.passed) && !self.runs_any_of(pod)
    }

    /// The same, whoever stopped its containers last, and also when only an earlier daemon knew that its deadline has passed.
    pub(in crate::machine) fn stays_ended_by_deadline(&self, pod: &DesiredPod) -> bool {
        let is_told =
            || self.containers.current().sandboxes(&pod.uid).first().is_some_and(|it| is_marked(it));
        self.deadline.of(&pod.uid).map_or_else(is_told, |judged| judged.passed) && !self.runs_any_of(pod)
    }

    /// Whether a container of the pod runs; a sandbox does not count.
    fn runs_any_of(&self, pod: &DesiredPod) -> bool {
        let mut all = self.containers.current().all.iter();
        all.any(|c| c.uid == pod.uid && !c.is_sandbox() && c.state.is_running())
    }

    /// Value of the label of a new sandbox, for the next daemon; `None` for a pod without a deadline.
    pub(in crate::machine) fn active_since(&self, pod: &DesiredPod) -> Option<String> {
        pod.spec.active_deadline_seconds?;
        let boot = &self.settings.boot.id;
        let judged = self.deadline.of(&pod.uid)?;
        (!boot.is_empty()).then(|| format!("{boot}/{}", judged.since.as_millis()))
    }

    /// Start of the pod's activity, from its newest sandbox, if it is of this boot.
    fn told_since(&self, uid: &str) -> Option<Duration> {
        let sandboxes = self.containers.current().sandboxes(uid);
        let (boot, since) = sandboxes.first()?.kept()?.deadline.as_ref()?.since.as_ref()?;
        (*boot == self.settings.boot.id).then_some(*since)
    }
}

fn is_marked(sandbox: &Owned) -> bool {
    sandbox.kept().and_then(|kept| kept.deadline.as_ref()).is_some_and(|told| told.passed)
}
