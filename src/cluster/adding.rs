//! Makes the ephemeral containers of the server's pods, each on a thread of its own, because its image may have to be
//! pulled. One that could not be made is tried again while its pod runs, after longer and longer. One that an earlier daemon
//! made, and that the policy of this one forbids, is killed.
//!
//! Never here: a container that [`added`] does not name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crossbeam_channel::Sender;
use k8s_openapi::api::core::v1::{EphemeralContainer, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::pods::added::{self, Failures, Id, Why};
use super::{Happened, Shared};
use crate::api_client::pods::{PodsOfNode, is_mirror};
use crate::base::clock::{Clock, Mono, System};
use crate::base::table::{Set, Table};
use crate::base::{limits, order, thread};
use crate::pod::{PodKey, Source};
use crate::policy::PolicyView;
use crate::recorder::{List, ObjectEvent, Subject, words};
use crate::status::snapshot::{PodView, Snapshot};
use crate::worker;
use crate::worker::adding::{self, Adder, Job};

/// See the module.
#[derive(Clone)]
pub(super) struct Adding {
    pub(super) adder: Adder,
    pub(super) clock: System,
    pub(super) shared: Arc<Shared>,
    /// Wakes the thread that looks.
    pub(super) wake: Sender<()>,
    pub(super) state: Arc<Mutex<State>>,
    pub(super) happened: Happened,
}

#[derive(Debug, Default)]
pub(super) struct State {
    asked: Table<Id, Asked>,
    failures: Failures,
    /// Those that run as `policies` allow.
    allowed: Set<Id>,
    policies: Table<String, PolicyView>,
}

#[derive(Debug)]
enum Asked {
    /// For a pod of this namespace.
    UnderWay(String),
    /// It is being killed: that waits for no image.
    Killing,
    Made,
    /// Because the policy of today forbids it.
    Killed,
    /// How often, and when it is tried again.
    Failed(u32, Mono),
}

impl State {
    /// Forgets those of other pods. One that is being made counts until its thread ends: a registry that hangs may keep that
    /// for longer than its pod is there.
    fn forget(&mut self, is_there: impl Fn(&str) -> bool, policies: &Table<String, PolicyView>) {
        if self.policies != *policies {
            self.policies.clone_from(policies);
            self.allowed.clear();
        }
        self.allowed.retain(|(uid, _)| is_there(uid));
        self.asked
            .retain(|(uid, _), asked| matches!(asked, Asked::UnderWay(_) | Asked::Killing) || is_there(uid));
        self.failures.retain(is_there);
    }

    /// How many are being made for this pod, for this namespace, and in all: slow images of one keep no other waiting.
    fn busy(&self, uid: &str, namespace: &str) -> (usize, usize, usize) {
        let busy = self.asked.iter().filter_map(|((of, _), asked)| match asked {
            Asked::UnderWay(its) => Some((of == uid, its == namespace)),
            Asked::Killing | Asked::Made | Asked::Killed | Asked::Failed(..) => None,
        });
        busy.fold((0, 0, 0), |(a, b, c), (pod, space)| (a + usize::from(pod), b + usize::from(space), c + 1))
    }
}

impl Adding {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failures(&self) -> Failures {
        self.state().failures.clone()
    }

    /// Begins to make what is due, and to kill what may not run any more. Returns when to look again, if nothing changes
    /// before.
    pub(super) fn look(&self, snapshot: &Snapshot, server: &PodsOfNode, now: Mono) -> Option<Mono> {
        let uids: Set<&str> = order::set(snapshot.pods.iter().map(|view| view.pod.uid.as_str()));
        self.state().forget(|uid| uids.contains(uid), &snapshot.policies);
        let mut again: Option<Mono> = None;
        for view in snapshot.pods.iter().filter(|view| runs(view)) {
            let Some(copy) = server.pods.get(&view.pod.key).filter(|copy| is_same(copy, view)) else {
                continue;
            };
            for (container, docker_id) in added::running(&view.status, copy) {
                let Some(why) = self.forbidden(view, container, snapshot) else { continue };
                let work = Work::Kill { docker_id: docker_id.to_owned(), name: container.name.clone(), why };
                let until = self.begin_kill(view, &container.name, now, work);
                again = again.into_iter().chain(until).min();
            }
            for container in added::missing(&view.status, copy) {
                let until = self.begin(view, &container.name, now, || Work::make(view, container, snapshot));
                again = again.into_iter().chain(until).min();
            }
        }
        again
    }

    /// Why a container that runs may not do so by the policy of today. It is judged once by each policy.
    fn forbidden(
        &self,
        view: &PodView,
        container: &EphemeralContainer,
        snapshot: &Snapshot,
    ) -> Option<String> {
        let id = (view.pod.uid.clone(), container.name.clone());
        if self.state().allowed.contains(&id) {
            return None;
        }
        let why = worker::added::forbidden(&pod(view), Source::Api, container, &snapshot.policies);
        if why.is_none() {
            self.state().allowed.insert(id);
        }
        why
    }

    /// Begins to kill a container, or returns when that is due. Those that are being made keep it from nothing.
    fn begin_kill(&self, view: &PodView, name: &str, now: Mono, work: Work) -> Option<Mono> {
        let id = (view.pod.uid.clone(), name.to_owned());
        let mut state = self.state();
        let under_way = state.asked.values().filter(|asked| matches!(asked, Asked::Killing)).count();
        match state.asked.get(&id) {
            Some(Asked::UnderWay(_) | Asked::Killing | Asked::Killed) => return None,
            Some(Asked::Failed(_, until)) if now < *until => return Some(*until),
            _ if under_way >= limits::ADDED_KILLS_AT_ONCE => return None,
            Some(Asked::Failed(..) | Asked::Made) | None => state.asked.insert(id.clone(), Asked::Killing),
        };
        drop(state);
        self.work_on(view, id, 0, work);
        None
    }

    /// Begins to make a container, or returns when it is due.
    fn begin(&self, view: &PodView, name: &str, now: Mono, work: impl FnOnce() -> Work) -> Option<Mono> {
        let id = (view.pod.uid.clone(), name.to_owned());
        let mut state = self.state();
        let times = match state.asked.get(&id) {
            Some(Asked::UnderWay(_) | Asked::Killing | Asked::Killed | Asked::Made) => return None,
            Some(Asked::Failed(_, until)) if now < *until => return Some(*until),
            Some(Asked::Failed(times, _)) => *times,
            None => 0,
        };
        if let Some(why) = waits(state.busy(&id.0, &view.pod.key.namespace)) {
            // The end of one of them wakes the thread.
            if times == 0 {
                state.failures.note(id, Some(Why::Waits(why)));
            }
            return None;
        }
        if times == 0 {
            state.failures.note(id.clone(), None);
        }
        state.asked.insert(id.clone(), Asked::UnderWay(view.pod.key.namespace.clone()));
        drop(state);
        self.work_on(view, id, times, work());
        None
    }

    /// Does this work in a thread of its own; it has failed so many times.
    fn work_on(&self, view: &PodView, id: Id, times: u32, work: Work) {
        let (this, of, key) = (self.clone(), id.clone(), view.pod.key.clone());
        let begun = thread::spawn("pk-added", limits::SERVER_STACK, move || {
            let done = this.carry_out(&key, &of, work);
            this.ended(key, of, done, times);
        });
        if let Err(error) = begun {
            self.ended(view.pod.key.clone(), id, Err(format!("no thread can be started: {error}")), times);
        }
    }

    fn carry_out(&self, key: &PodKey, id: &Id, work: Work) -> Result<Asked, String> {
        match work {
            Work::Make(job) => {
                let is_wanted =
                    || self.shared.snapshot.get().pods.iter().any(|view| view.pod.uid == id.0 && runs(view));
                self.adder.add(&(*job)?, &is_wanted)?;
                Ok(Asked::Made)
            }
            Work::Kill { docker_id, name, why } => {
                let why =
                    format!("Stopping container {name}: pods of source api may not have it any more: {why}");
                log::warn!("pod {key}: {why}");
                self.adder.kill(docker_id).map_err(|error| format!("{why}: {error}"))?;
                let subject = Subject { list: List::Ephemeral, name };
                let words = words::killing(&subject.name, Some(&why));
                (self.happened)(ObjectEvent::new(key.clone(), id.0.clone(), Some(subject), words));
                Ok(Asked::Killed)
            }
        }
    }

    fn ended(&self, key: PodKey, id: Id, done: Result<Asked, String>, times: u32) {
        let longer = limits::POD_SAME_MIN.saturating_mul(2_u32.saturating_pow(times));
        let until = self.clock.now().mono.after(longer.min(limits::POD_REFUSED));
        let (asked, failure) = match done {
            Ok(asked) => (asked, None),
            Err(why) => {
                let subject = Subject { list: List::Ephemeral, name: id.1.clone() };
                (self.happened)(ObjectEvent::new(key, id.0.clone(), Some(subject), words::error(&why)));
                (Asked::Failed(times.saturating_add(1), until), Some(Why::Failed(why)))
            }
        };
        let mut state = self.state();
        state.asked.insert(id.clone(), asked);
        state.failures.note(id, failure);
        drop(state);
        // A full channel wakes as well.
        _ = self.wake.try_send(());
    }
}

/// What a container waits for while so many are being made for its pod, for its namespace, and in all.
fn waits((of_pod, of_namespace, all): (usize, usize, usize)) -> Option<String> {
    let (many, of) = if of_pod >= limits::ADDED_AT_ONCE_OF_POD {
        (of_pod, "this pod")
    } else if of_namespace >= limits::ADDED_AT_ONCE_OF_NAMESPACE {
        (of_namespace, "this namespace")
    } else if all >= limits::ADDED_AT_ONCE {
        (all, "this node")
    } else {
        return None;
    };
    Some(format!(
        "it waits until one of {many} other ephemeral containers of {of} is made: their images may be slow"
    ))
}

/// Whether something of the pod runs, and goes on.
fn runs(view: &PodView) -> bool {
    view.pod.source == Source::Api && view.is_told && view.runs && !view.returns && view.leaving.is_none()
}

fn is_same(copy: &Pod, view: &PodView) -> bool {
    copy.metadata.uid.as_ref() == Some(&view.pod.uid)
        && copy.metadata.deletion_timestamp.is_none()
        && !is_mirror(copy)
}

/// What has to be done with a container.
enum Work {
    /// Or why that is not possible.
    Make(Box<Result<Job, String>>),
    Kill {
        docker_id: String,
        name: String,
        why: String,
    },
}

impl Work {
    fn make(view: &PodView, container: &EphemeralContainer, snapshot: &Snapshot) -> Work {
        Work::Make(Box::new(job(view, container, snapshot)))
    }
}

/// The pod as it runs here.
fn pod(view: &PodView) -> Pod {
    let (pod, key) = (&view.pod, &view.pod.key);
    let metadata = ObjectMeta {
        name: Some(key.name.clone()),
        namespace: Some(key.namespace.clone()),
        uid: Some(pod.uid.clone()),
        ..pod.metadata.clone()
    };
    Pod { metadata, spec: Some(PodSpec::clone(&pod.spec)), status: None }
}

fn job(view: &PodView, container: &EphemeralContainer, snapshot: &Snapshot) -> Result<Job, String> {
    let value = serde_json::to_value(container).map_err(|why| why.to_string())?;
    adding::check(&value).map_err(|(field, why)| format!("{field}: {why}"))?;
    let target = container.target_container_name.as_deref().filter(|name| !name.is_empty());
    let target = target.map(|name| {
        let id = adding::running(&view.status, name).map(str::to_owned);
        id.ok_or_else(|| format!("container {name} does not run: nothing is added to it"))
    });
    Ok(Job {
        pod: Arc::new(pod(view)),
        policies: Arc::new(snapshot.policies.clone()),
        container: container.clone(),
        target: target.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_a_pod_and_of_a_namespace_are_counted() {
        let mut state = State::default();
        let mut put = |uid: &str, name: &str, asked| {
            state.asked.insert((uid.to_owned(), name.to_owned()), asked);
        };
        put("u1", "a", Asked::UnderWay("x".into()));
        put("u1", "b", Asked::UnderWay("x".into()));
        put("u1", "c", Asked::Made);
        put("u1", "d", Asked::Killing);
        put("u2", "a", Asked::UnderWay("x".into()));
        put("u3", "a", Asked::UnderWay("y".into()));
        put("u3", "b", Asked::Failed(1, Mono::default()));
        state.allowed.insert(("u3".into(), "a".into()));
        state.forget(|uid| uid == "u3", &Table::new());
        assert_eq!(state.allowed.len(), 1);
        assert_eq!(state.asked.len(), 6, "what is being made of a pod that is gone counts");
        assert_eq!(
            (state.busy("u1", "x"), state.busy("u3", "y"), state.busy("u4", "z")),
            ((2, 3, 4), (1, 1, 4), (0, 0, 4))
        );
        let told = [(1, 7, 15), (2, 2, 2), (1, 8, 8), (0, 0, 16)].map(waits);
        let of = |many: u32, of: &str| {
            let rest = "is made: their images may be slow";
            Some(format!("it waits until one of {many} other ephemeral containers of {of} {rest}"))
        };
        assert_eq!(told, [None, of(2, "this pod"), of(8, "this namespace"), of(16, "this node")]);
        state.forget(|_| true, &Table::from([("api".to_owned(), PolicyView::default())]));
        assert_eq!(state.allowed.len(), 0, "all are judged by the new policy");
    }
}
