//! Hooks of a pod's containers (upstream `pkg/kubelet/lifecycle/handlers.go`): postStart runs after a start, while
//! nothing else of the pod is started; preStop runs before the stop signal, within the grace.
//!
//! That a hook ran is not stored anywhere. So a daemon that starts in between does not run a postStart again, because
//! the container is found running, but does run a preStop again.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerPort, LifecycleHandler};
use serde_json::Value;

use crate::base::clock::{Mono, Now};
use crate::base::json;
use crate::machine::Machine;
use crate::machine::containers::{Record, Run};
use crate::machine::start::made;
use crate::machine::state::State;
use crate::machine::stop::LEAST;
use crate::plan::{Owned, PreStop, StartRef, actions};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::probe::spec::{Action, HookAction};
use crate::probe::{HookKind, HookStep, HookWish};
use crate::recorder::words;

/// Progress of a hook.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::machine) enum Hook {
    /// A command that is to be started in Docker.
    Asked(Action),
    /// It is being run.
    Runs(Action),
    /// It sleeps until this time.
    Sleeps(Mono),
    /// Its container is being stopped, and the hook is not waited for any more.
    GivenUp,
    /// It ended.
    Over,
    /// It failed; the container of a failed postStart is killed.
    Failed,
    /// It ended, and the consequences have been drawn.
    Settled,
}

impl Hook {
    fn is_under_way(&self) -> bool {
        matches!(self, Hook::Asked(_) | Hook::Runs(_) | Hook::Sleeps(_))
    }
}

impl Machine {
    /// Starts the postStart hook of a container that was started.
    pub(in crate::machine) fn begin_post_start(&mut self, id: &str, now: &Now) {
        let Some(pod) = self.state.pod().filter(|_| matches!(self.state, State::Syncing(_))) else { return };
        let Some(owned) = self.containers.current().get(id).filter(|c| c.uid == pod.uid) else { return };
        let Some((_, spec)) = owned.container_name().and_then(|name| pod.container(name)) else { return };
        let Some(handler) = spec.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else { return };
        let action = HookAction::of(handler, spec.ports.as_deref().unwrap_or_default());
        self.begin(id, HookKind::PostStart, action, now);
    }

    fn hook(&self, id: &str, kind: HookKind) -> Option<&Hook> {
        self.containers.record(id)?.run.hooks.get(&kind)
    }

    fn hook_mut(&mut self, id: &str, kind: HookKind) -> Option<&mut Hook> {
        self.containers.record_mut(id)?.run.hooks.get_mut(&kind)
    }

    /// Whether a postStart is under way: as in the kubelet, nothing else of the pod is started then.
    pub(in crate::machine) fn post_start_runs(&self) -> bool {
        let runs =
            |record: &Record| record.run.hooks.get(&HookKind::PostStart).is_some_and(Hook::is_under_way);
        self.containers.records().any(|(_, record)| runs(record))
    }

    /// Kills the containers whose postStart failed.
    pub(in crate::machine) fn kill_after_post_start(&mut self, pod: &DesiredPod, now: &Now) {
        let failed = |record: &Record| record.run.hooks.get(&HookKind::PostStart) == Some(&Hook::Failed);
        for id in self.containers.ids(|_, record| failed(record)) {
            self.stop_one(&id, None, Some(&pod.spec), Some("FailedPostStartHook"), now);
        }
    }

    /// The preStop action on the labels of the container. On a container of an older podkeeper the handler may be the
    /// image's: then the pod's manifest counts, and without one only a command or a sleep is run, so that no request
    /// leaves the host.
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

    /// Starts the preStop hook of a container that is to be stopped with `grace`, unless it has started, and continues
    /// it. Returns true while the stop signal has to wait.
    pub(in crate::machine) fn advance_pre_stop(
        &mut self,
        id: &str,
        grace: Option<Duration>,
        now: &Now,
    ) -> bool {
        let began = self.stopping.since.unwrap_or(now.mono);
        if self.hook(id, HookKind::PreStop).is_none() {
            let Some(owned) = self.containers.get(id) else { return false };
            let Some(action) =
                self.pre_stop_action(owned).filter(|_| grace.is_some() && owned.state.is_running())
            else {
                return false;
            };
            // A postStart that is still running is not waited for any more.
            if let Some(hook) = self.hook_mut(id, HookKind::PostStart).filter(|hook| hook.is_under_way()) {
                *hook = Hook::GivenUp;
            }
            self.begin(id, HookKind::PreStop, action, now);
        }
        let own = grace.map_or(now.mono, |grace| began.after(grace));
        let Some(record) = self.containers.record_mut(id) else { return false };
        let Run { hooks, stop, .. } = &mut record.run;
        let Some(hook) = hooks.get_mut(&HookKind::PreStop) else { return false };
        let (began, deadline) = stop.as_ref().map_or((began, own), |stop| (stop.began, stop.deadline));
        // A command that Docker does not start has as much time again.
        let deadline = match hook {
            Hook::Asked(_) => deadline.after(deadline.since(began)),
            _ => deadline,
        };
        let late = now.mono >= deadline;
        match hook {
            Hook::Asked(_) | Hook::Runs(_) if !late => {
                if stop.is_some() {
                    self.out.wake_at(deadline);
                }
                return true;
            }
            Hook::Sleeps(until) if now.mono < *until && !late => {
                self.out.wake_at((*until).min(deadline));
                return true;
            }
            Hook::Settled => return false,
            Hook::Asked(_) | Hook::Runs(_) | Hook::Sleeps(_) | Hook::GivenUp | Hook::Over | Hook::Failed => {}
        }
        // The time of the hook is taken off the grace, down to a minimum (upstream
        // `pkg/kubelet/kuberuntime/kuberuntime_container.go`): the rest counts from the signal, which may be sent
        // later.
        if let Some(stop) = stop {
            *hook = Hook::Settled;
            stop.asked = now.mono;
            stop.deadline = stop.deadline.max(now.mono.after(LEAST));
        } else {
            *hook = Hook::Over;
        }
        false
    }

    fn begin(&mut self, id: &str, kind: HookKind, action: HookAction, now: &Now) {
        let hook = match action {
            HookAction::Do(action @ Action::Exec(_)) => Hook::Asked(action),
            HookAction::Do(action) => Hook::Runs(action),
            HookAction::Sleep(time) => Hook::Sleeps(now.mono.after(time)),
            HookAction::Invalid => Hook::Failed,
        };
        let has_failed = hook == Hook::Failed;
        if let Some(record) = self.containers.record_mut(id) {
            record.run.hooks.insert(kind, hook);
            if kind == HookKind::PreStop && !has_failed {
                record.run.has_pre_stop = true;
                record.run.first_told.get_or_insert(now.wall);
            }
        }
        if has_failed {
            self.tell_failed_hook(id, kind, "its handler is not valid");
        }
    }

    /// Takes what has become of a command so far. The grace begins anew for a container whose preStop hook could not begin
    /// before.
    pub(in crate::machine) fn hook_at(&mut self, id: &str, kind: HookKind, step: HookStep, now: &Now) {
        let Some(hook) = self.hook_mut(id, kind) else { return };
        let Hook::Asked(action) = hook else { return };
        if step == HookStep::Begun {
            *hook = Hook::Runs(action.clone());
        }
        if kind == HookKind::PreStop {
            self.hook_waited(id, now.mono);
        }
    }

    /// Notes the end of a hook.
    pub(in crate::machine) fn hooked(&mut self, id: &str, kind: HookKind, result: Result<(), String>) {
        let Some(hook) = self.hook_mut(id, kind).filter(|hook| hook.is_under_way()) else { return };
        *hook = if result.is_ok() { Hook::Over } else { Hook::Failed };
        if let Err(why) = result {
            self.tell_failed_hook(id, kind, &why);
        }
    }

    fn tell_failed_hook(&mut self, id: &str, kind: HookKind, why: &str) {
        let Some(owned) = self.containers.get(id).cloned() else { return };
        match kind {
            HookKind::PreStop => self.tell_of(&owned, words::pre_stop_failed(why)),
            HookKind::PostStart => {
                let pod = self.state.pod().filter(|pod| pod.uid == owned.uid).cloned();
                if let Some((name, pod)) = owned.container_name().zip(pod) {
                    let message = words::post_start_error(&pod, name, why);
                    self.set_waiting(name, Reason::PostStartHookError, &message);
                }
                self.tell_of(&owned, words::post_start_failed(why));
            }
        }
    }

    /// Continues hooks with the time: ends sleeps that are over, and hooks of containers that do not run any more.
    pub(in crate::machine) fn advance_hooks(&mut self, now: &Now) {
        for (owned, record) in self.containers.records_mut() {
            if !owned.state.is_running() {
                record.run.hooks.clear();
            }
            for kind in [HookKind::PostStart, HookKind::PreStop] {
                let Some(hook) = record.run.hooks.get_mut(&kind) else { continue };
                match hook {
                    Hook::Sleeps(until) if now.mono >= *until => *hook = Hook::Over,
                    // The stop sets the wake-up for a preStop.
                    Hook::Sleeps(until) if kind == HookKind::PostStart => self.out.wake_at(*until),
                    _ => {}
                }
            }
        }
    }

    /// The hooks to run.
    pub(in crate::machine) fn hook_wishes(&self) -> Vec<HookWish> {
        let mut wishes = Vec::new();
        for (owned, record) in self.containers.records() {
            for (kind, hook) in record.run.hooks.iter() {
                let (Hook::Asked(action) | Hook::Runs(action)) = hook else { continue };
                let address = self.address(owned);
                wishes.push(HookWish { id: owned.id.clone(), kind: *kind, action: action.clone(), address });
            }
        }
        wishes
    }
}

/// Whether the container is not ready, whatever its probes say: its postStart has not ended, or has failed, and the
/// container is being killed for that.
pub(in crate::machine) fn is_unready(record: &Record) -> bool {
    let post_start = record.run.hooks.get(&HookKind::PostStart);
    post_start.is_some_and(|hook| hook.is_under_way() || matches!(hook, Hook::GivenUp | Hook::Failed))
}

/// Whether this container has a postStart hook.
pub(in crate::machine) fn has_post_start(pod: &DesiredPod, at: StartRef) -> bool {
    let container = actions::container_of(pod, at);
    container.and_then(|c| c.lifecycle.as_ref()).is_some_and(|l| l.post_start.is_some())
}

/// Parses the handler of a container's label, which counts without a manifest, too.
fn handler(written: &PreStop) -> Option<HookAction> {
    // Decoded through a value, like all types of the API: one copy of that code is enough.
    let value: Value = serde_json::from_str(&written.handler).ok()?;
    let handler = json::read::<LifecycleHandler>(&value).ok()?;
    let ports: Value = serde_json::from_str(&written.ports).unwrap_or_default();
    let ports = json::read::<Vec<ContainerPort>>(&ports).unwrap_or_default();
    Some(HookAction::of(&handler, &ports))
}
