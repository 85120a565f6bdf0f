//! Hooks of a pod's containers (upstream `pkg/kubelet/lifecycle/handlers.go`): what runs after a start, while
//! nothing further of the pod is started; and what runs before the stop signal, within the grace.
//!
//! A hook is told once: that it ran is not written anywhere. So a daemon that dies in between does not run
//! a postStart again, for the container is found running, and does run a preStop again.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, LifecycleHandler};
use serde::Deserialize;
use serde_json::Value;

use super::Machine;
use super::made;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::limits;
use crate::plan::{Owned, PreStop, StartRef, actions};
use crate::pod::DesiredPod;
use crate::probe::spec::{Action, HookAction};
use crate::probe::{HookKind, HookWish};
use crate::recorder::words;

/// How far a hook is.
#[derive(Debug, Clone, PartialEq)]
enum Run {
    /// Somebody carries it out.
    Asked(Action),
    /// It sleeps until then.
    Sleeps(Mono),
    /// Its container is being stopped, and it is not waited for any more.
    GivenUp,
    /// It ended, well or not.
    Over,
    /// It ended, and what follows from that has been done.
    Settled,
}

/// Hooks by container id.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    all: Vec<(String, HookKind, Run)>,
    /// Containers whose postStart failed: they are killed.
    failed: BTreeSet<String>,
}

impl Hooks {
    fn get(&self, id: &str, kind: HookKind) -> Option<&Run> {
        self.all.iter().find(|(of, which, _)| of == id && *which == kind).map(|(_, _, run)| run)
    }

    fn get_mut(&mut self, id: &str, kind: HookKind) -> Option<&mut Run> {
        self.all.iter_mut().find(|(of, which, _)| of == id && *which == kind).map(|(_, _, run)| run)
    }

    fn remove(&mut self, id: &str, kind: HookKind) {
        self.all.retain(|(of, which, _)| of != id || *which != kind);
    }

    /// Forgets those of containers that do not run.
    pub fn retain(&mut self, runs: impl Fn(&str) -> bool) {
        self.all.retain(|(id, _, _)| runs(id));
        self.failed.retain(|id| runs(id));
    }

    /// How many things it remembers.
    #[cfg(test)]
    pub fn size(&self) -> usize {
        self.all.len() + self.failed.len()
    }
}

impl Machine {
    /// A container was started: its postStart hook begins.
    pub(super) fn begin_post_start(&mut self, id: &str, now: &Now) {
        let Some(pod) = self.state.pod().filter(|_| matches!(self.state, State::Syncing(_))) else { return };
        let Some(owned) = self.seen.get(id).filter(|c| c.uid == pod.uid) else { return };
        let Some((_, spec)) = owned.container_name().and_then(|name| pod.container(name)) else { return };
        let Some(handler) = spec.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return };
        let action = HookAction::of(handler, spec.ports.as_deref().unwrap_or_default());
        self.begin(id, HookKind::PostStart, action, now);
    }

    /// A postStart is under way: as with the kubelet, nothing further of the pod is started.
    pub(super) fn post_start_runs(&self) -> bool {
        let under_way = |run: &Run| matches!(run, Run::Asked(_) | Run::Sleeps(_));
        self.hooks.all.iter().any(|(_, kind, run)| *kind == HookKind::PostStart && under_way(run))
    }

    /// This container's postStart has not ended.
    fn in_post_start(&self, id: &str) -> bool {
        matches!(self.hooks.get(id, HookKind::PostStart), Some(Run::Asked(_) | Run::Sleeps(_) | Run::GivenUp))
    }

    /// This container is not ready, whatever its probes say: its postStart has not ended, or has failed, and
    /// it is being killed for that.
    pub(super) fn unready_by_hook(&self, id: &str) -> bool {
        self.in_post_start(id) || self.hooks.failed.contains(id)
    }

    /// Kills the containers whose postStart failed.
    pub(super) fn kill_after_post_start(&mut self, pod: &DesiredPod, now: &Now) {
        for id in self.hooks.failed.clone() {
            self.stop_one(&id, None, Some(&pod.spec), Some("FailedPostStartHook"), now);
        }
    }

    /// What its container says. Of one that an older podkeeper made, the image may say it: the pod's manifest is
    /// asked then, and where that is gone, nothing but its own command is run: no request leaves the host.
    fn pre_stop_action(&self, owned: &Owned) -> Option<HookAction> {
        let written = owned.pre_stop.as_deref()?;
        if written.sealed {
            return handler(written);
        }
        match self.state.pod().filter(|pod| pod.uid == owned.uid) {
            Some(pod) => handler(&*made::pre_stop_of(pod.container(owned.container_name()?)?.1)?),
            None => handler(written)
                .filter(|action| matches!(action, HookAction::Do(Action::Exec(_)) | HookAction::Sleep(_))),
        }
    }

    /// Begins the preStop hook of a container that is to be stopped with `grace`, unless it has begun, and
    /// takes it further. True: its stop signal has to wait.
    pub(super) fn pre_stop_runs(&mut self, id: &str, grace: Option<Duration>, now: &Now) -> bool {
        let began = self.stopping.unwrap_or(now.mono);
        if self.hooks.get(id, HookKind::PreStop).is_none() {
            let Some(owned) = self.all_seen().find(|c| c.id == id) else { return false };
            let Some(action) =
                self.pre_stop_action(owned).filter(|_| grace.is_some() && owned.state.is_running())
            else {
                return false;
            };
            // What has not ended by now has nothing to wait for it.
            if let Some(run) = self.hooks.get_mut(id, HookKind::PostStart)
                && matches!(run, Run::Asked(_) | Run::Sleeps(_))
            {
                *run = Run::GivenUp;
            }
            self.begin(id, HookKind::PreStop, action, now);
        }
        let stop = self.stops.get(id).copied();
        let own = grace.map_or(now.mono, |grace| began.after(grace));
        let deadline = stop.map_or(own, |stop| stop.deadline);
        let late = now.mono >= deadline;
        let Some(run) = self.hooks.get_mut(id, HookKind::PreStop) else { return false };
        match run {
            Run::Asked(_) if !late => {
                if stop.is_some() {
                    self.wake_at(deadline);
                }
                return true;
            }
            Run::Sleeps(until) if now.mono < *until && !late => {
                let until = *until;
                self.wake_at(until.min(deadline));
                return true;
            }
            Run::Settled => return false,
            Run::Asked(_) | Run::Sleeps(_) | Run::GivenUp | Run::Over => {}
        }
        // What it took is taken off, but for a little (upstream
        // `pkg/kubelet/kuberuntime/kuberuntime_container.go`): it counts from the signal, whose turn may come
        // later.
        if let Some(stop) = self.stops.get_mut(id) {
            *run = Run::Settled;
            stop.asked = now.mono;
            let least = Duration::from_secs(u64::from(limits::GRACE_MIN));
            stop.deadline = stop.deadline.max(now.mono.after(least));
        } else {
            *run = Run::Over;
        }
        false
    }

    fn begin(&mut self, id: &str, kind: HookKind, action: HookAction, now: &Now) {
        let run = match action {
            HookAction::Do(action) => Run::Asked(action),
            HookAction::Sleep(time) => Run::Sleeps(now.mono.after(time)),
            HookAction::Invalid => Run::Asked(Action::Exec(Vec::new())),
        };
        let invalid = action_is_invalid(&run);
        self.hooks.remove(id, kind);
        self.hooks.all.push((id.to_owned(), kind, run));
        if invalid {
            self.hooked(id, kind, Err("invalid handler".to_owned()));
        }
    }

    /// A hook ended.
    pub(super) fn hooked(&mut self, id: &str, kind: HookKind, result: Result<(), String>) {
        let Some(run) = self.hooks.get_mut(id, kind) else { return };
        if !matches!(run, Run::Asked(_) | Run::Sleeps(_)) {
            return;
        }
        *run = Run::Over;
        let Some(owned) = self.all_seen().find(|c| c.id == id).cloned() else { return };
        if result.is_ok() {
            return;
        }
        match kind {
            HookKind::PreStop => self.tell_of(&owned, words::pre_stop_failed()),
            HookKind::PostStart => {
                let words = words::post_start_failed();
                self.hooks.failed.insert(id.to_owned());
                if let Some(name) = owned.container_name() {
                    self.set_waiting(name, "PostStartHookError", &words.message);
                }
                self.tell_of(&owned, words);
            }
        }
    }

    /// Takes the time: sleeps that are over, containers that are gone.
    pub(super) fn tend_hooks(&mut self, now: &Now) {
        let runs: BTreeSet<&str> = self
            .seen
            .all
            .iter()
            .chain(&self.old.all)
            .filter(|c| c.state.is_running())
            .map(|c| &*c.id)
            .collect();
        self.hooks.retain(|id| runs.contains(id));
        let mut next = None;
        for (_, kind, run) in &mut self.hooks.all {
            match run {
                Run::Sleeps(until) if now.mono >= *until => *run = Run::Over,
                Run::Sleeps(until) if *kind == HookKind::PostStart => {
                    next = Some(next.map_or(*until, |n: Mono| n.min(*until)));
                }
                _ => {}
            }
        }
        if let Some(next) = next {
            self.wake_at(next);
        }
    }

    /// What somebody is to carry out.
    pub(super) fn hook_wishes(&self) -> Vec<HookWish> {
        let wish = |(id, kind, run): &(String, HookKind, Run)| {
            let Run::Asked(action) = run else { return None };
            let owned = self.all_seen().find(|c| c.id == *id)?;
            let address = self.address(owned);
            Some(HookWish { id: id.clone(), kind: *kind, action: action.clone(), address })
        };
        self.hooks.all.iter().filter_map(wish).collect()
    }
}

fn action_is_invalid(run: &Run) -> bool {
    matches!(run, Run::Asked(Action::Exec(command)) if command.is_empty())
}

/// Has this container a postStart hook?
pub(super) fn has_post_start(pod: &DesiredPod, at: StartRef) -> bool {
    let container = actions::container_of(pod, at);
    container.and_then(|c| c.lifecycle.as_ref()).is_some_and(|l| l.post_start.is_some())
}

/// What is written on the container, so that it holds without its manifest.
fn handler(written: &PreStop) -> Option<HookAction> {
    // By way of a value, as everything of the API is decoded: one copy of that code is enough.
    let value: Value = serde_json::from_str(&written.handler).ok()?;
    let handler = LifecycleHandler::deserialize(value).ok()?;
    let ports: Value = serde_json::from_str(&written.ports).unwrap_or_default();
    let ports = Vec::<ContainerPort>::deserialize(ports).unwrap_or_default();
    Some(HookAction::of(&handler, &ports))
}
