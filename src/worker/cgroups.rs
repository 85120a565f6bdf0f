//! When a pod's cgroup is made, changed and removed: before anything is made in it, when the pod asks for
//! other limits, and when no container of it is left.

use super::job::Job;
use super::machine::Machine;
use super::output::Output;
use super::state::State;
use crate::cgroup::{Driver, PodCgroup};
use crate::pod::DesiredPod;
use crate::qos;
use crate::runtime::CreateBody;

/// What is known of the cgroup of one UID.
#[derive(Debug, PartialEq)]
pub(super) enum Known {
    /// Containers were found; an earlier daemon made it, if anybody did.
    Found,
    /// Told so.
    As(Box<PodCgroup>),
    /// Its removal was told.
    Dropped,
}

impl Machine {
    /// Tells what the pod's cgroup must be like. `changing`: containers of it are being changed, and the
    /// cgroup holds the limits of before and after.
    pub(super) fn tend_cgroup(&mut self, pod: &DesiredPod, changing: bool) {
        if self.settings.cgroups.get().is_none() {
            return;
        }
        let mut wanted = PodCgroup::of(pod, self.settings.pod_pids);
        if let Some(Known::As(told)) = self.cgroups.get(&pod.uid) {
            if changing {
                wanted = wanted.with_room_for(told);
            }
            if **told == wanted {
                return;
            }
        }
        let wanted = Box::new(wanted);
        self.cgroups.insert(pod.uid.clone(), Known::As(wanted.clone()));
        self.out.push(Output::Cgroup(wanted));
    }

    /// Removes cgroups without containers, but that of the pod that is wanted, unless it has ended.
    pub(super) fn drop_cgroups(&mut self) {
        if self.settings.cgroups.get().is_none() {
            return;
        }
        let found = self.seen.all.iter().chain(&self.old.all).map(|c| &c.uid);
        for uid in found {
            if !self.cgroups.contains_key(uid) {
                self.cgroups.insert(uid.clone(), Known::Found);
            }
        }
        let making = |j: &Job| {
            matches!(j, Job::Create { .. } | Job::CreateSandbox { .. } | Job::Conflict { .. } | Job::List)
        };
        if self.cgroups.is_empty() || self.list_needed || self.any_in_flight(making) {
            return;
        }
        let ended =
            self.status.as_ref().is_some_and(|s| matches!(s.phase.as_deref(), Some("Succeeded" | "Failed")));
        let wanted = match &self.state {
            State::Syncing(pod) if !ended => Some(pod.uid.clone()),
            _ => None,
        };
        let (seen, old, out) = (&self.seen, &self.old, &mut self.out);
        self.cgroups.retain(|uid, known| {
            let mut of_it = seen.all.iter().chain(&old.all).filter(|c| c.uid == *uid).peekable();
            let gone = of_it.peek().is_none();
            // The dead that are kept for their logs are in no cgroup.
            if wanted.as_ref() == Some(uid) || !of_it.all(|c| c.state.is_dead()) {
                return true;
            }
            if *known != Known::Dropped && (gone || ended) {
                *known = Known::Dropped;
                out.push(Output::DropCgroup(uid.clone()));
            }
            !gone
        });
    }

    /// Puts a container into its pod's cgroup.
    pub(super) fn place(&self, body: &mut CreateBody, pod: &DesiredPod) {
        match self.settings.cgroups.get() {
            Some(naming) => body.host_config.cgroup_parent = naming.parent(qos::class(&pod.spec), &pod.uid),
            // Then each container has what the pod should have.
            None => body.host_config.pids_limit = self.settings.pod_pids,
        }
    }

    /// systemd has made the slice with the sandbox; what it knows nothing of is written now.
    pub(super) fn sandbox_has_cgroup(&mut self, uid: &str) {
        if self.settings.cgroups.get().is_some_and(|naming| naming.driver == Driver::Systemd) {
            self.cgroups.insert(uid.to_owned(), Known::Found);
        }
    }
}
