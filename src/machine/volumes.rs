//! Volumes in a pod's life: set up before its sandbox is made, updated when objects change, and removed once none of
//! its containers runs. The machine only gives orders; `volumes/` does the work on the disk.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Volume;

use super::Machine;
use super::calls::Retry;
use super::output::Output;
use super::state::State;
use crate::base::clock::{Mono, Now};
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::layout::{self, Kind};
use crate::pod::DesiredPod;
use crate::pod::waiting::Reason;
use crate::recorder::words;
use crate::volumes::{self, Interest, Note, Order, Report, SetUp};

/// State of the volumes of each UID that this name had.
#[derive(Debug, Default)]
pub(super) struct Volumes(Table<String, Life>);

/// State of the volumes of one UID.
#[derive(Debug, Default)]
struct Life {
    /// The volumes that were set up last, or are being set up.
    wanted: Vec<Volume>,
    /// They have to be set up, or set up again.
    due: bool,
    /// All of them are ready.
    ready: bool,
    work: Work,
    /// Something may have been made since their removal was ordered.
    is_late: bool,
    /// They are wanted.
    interest: Interest,
    /// What the last set-up failed in, which was told.
    failed: Vec<volumes::Failure>,
    /// Containers that had ended when bound paths of the host were set up last.
    ended: Set<String>,
}

/// A kind of work on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    SetUp,
    TakeDown,
}

/// State of the last order.
#[derive(Debug, Default)]
enum Work {
    /// There was none, or it is done.
    #[default]
    Idle,
    /// It is being carried out.
    UnderWay {
        task: Task,
        since: Mono,
        /// The event that it takes long was emitted.
        told_slow: bool,
        /// Failures before it.
        failures: Retry,
    },
    /// It failed, and is ordered again.
    Failed { task: Task, failures: Retry },
}

impl Work {
    fn is_under_way(&self) -> bool {
        matches!(self, Work::UnderWay { .. })
    }

    /// Number of failures of this task in a row, and when it may be ordered again.
    fn failures(&self, of: Task) -> Retry {
        match self {
            Work::UnderWay { task, failures, .. } | Work::Failed { task, failures } if *task == of => {
                *failures
            }
            _ => Retry::default(),
        }
    }
}

impl Life {
    /// Requires a new set-up as wanted now; earlier failures do not count.
    fn set_up_anew(&mut self) {
        self.due = true;
        match &mut self.work {
            Work::UnderWay { task: Task::SetUp, failures, .. } => *failures = Retry::default(),
            Work::Failed { task: Task::SetUp, .. } => self.work = Work::Idle,
            _ => {}
        }
    }

    /// Notes an order.
    fn begin(&mut self, task: Task, now: &Now) {
        let failures = self.work.failures(task);
        self.work = Work::UnderWay { task, since: now.mono, told_slow: false, failures };
    }
}

impl Volumes {
    /// Notes that there may be files on disk.
    pub(super) fn uids(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    pub(super) fn may_have(&mut self, uid: &str) {
        let life = self.0.get_or_default(uid.to_owned());
        life.is_late |= matches!(life.work, Work::UnderWay { task: Task::TakeDown, .. });
    }

    /// Notes that an earlier daemon may have set up the first pod that is wanted. Later pods were either set up by this
    /// daemon, or were not wanted when it swept.
    pub(super) fn an_earlier_daemon_may_have(&mut self, uid: &str) {
        if self.0.is_empty() {
            self.may_have(uid);
        }
    }

    /// Number of known UIDs.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Handles new objects: volumes made of them are updated, without waiting for a retry.
    pub(super) fn objects_changed(&mut self, pod: &DesiredPod) {
        if volumes::use_objects(pod)
            && let Some(life) = self.0.get_mut(&pod.uid)
        {
            life.set_up_anew();
        }
    }
}

impl Machine {
    /// Orders missing volumes. Returns true if none is missing, and containers of the pod may be made.
    pub(super) fn ask_volumes(&mut self, pod: &Arc<DesiredPod>, now: &Now) -> bool {
        if layout::volumes(pod).next().is_none() {
            return true;
        }
        let ended = self.ended_with_bound_paths(pod);
        let life = self.volumes.0.get_or_default(pod.uid.clone());
        // The next container gets what is at the path then, like one whose path Docker resolves: a server makes its socket
        // anew, a file is replaced.
        if ended.iter().any(|id| !life.ended.contains(id)) {
            life.ready = false;
            life.set_up_anew();
        }
        life.ended = ended;
        if !layout::volumes(pod).eq(&life.wanted) {
            (life.wanted, life.ready) = (layout::volumes(pod).cloned().collect(), false);
            life.set_up_anew();
        }
        let ready = life.ready;
        if life.due && !life.work.is_under_way() {
            let until = life.work.failures(Task::SetUp).until;
            if now.mono < until {
                self.out.wake_at(until);
            } else {
                life.due = false;
                life.begin(Task::SetUp, now);
                let objects = Arc::clone(&self.objects);
                let order = SetUp { pod: Arc::clone(pod), objects, wanted: life.interest.of_an_order() };
                self.out.push(Output::Volumes(Order::SetUp(order)));
            }
        }
        self.tell_slow_volumes(&pod.uid, now);
        ready
    }

    /// The containers of the pod that have ended, if it has paths of the host that are bound before a container starts.
    fn ended_with_bound_paths(&self, pod: &DesiredPod) -> Set<String> {
        let policies = &self.settings.map.policies;
        let is_bound = |volume: &Volume| {
            matches!(Kind::of(volume), Kind::HostPath(_)) && layout::is_guarded(pod, &volume.name, policies)
        };
        if !layout::volumes(pod).any(is_bound) {
            return Set::new();
        }
        let dead = self.containers.all().filter(|c| c.uid == pod.uid && !c.is_sandbox() && c.state.is_dead());
        order::set(dead.map(|c| c.id.clone()))
    }

    /// Removes the volumes of every UID but this one, once none of its containers runs. Returns true if none are left.
    pub(super) fn end_volumes(&mut self, but: Option<&str>, now: &Now) -> bool {
        let over: Vec<String> =
            self.volumes.0.keys().filter(|uid| Some(uid.as_str()) != but).cloned().collect();
        for uid in &over {
            if let Some(life) = self.volumes.0.get_mut(uid) {
                life.interest = Interest::default();
            }
            let runs = self.containers.all().any(|c| c.uid == *uid && c.state.is_running());
            if runs || self.calls.is_starting() {
                continue;
            }
            // A start that an earlier daemon sent may still be carried out.
            let late = self.containers.records().filter(|(c, _)| c.uid == *uid && c.start_sent);
            let late = late.filter_map(|(_, record)| record.late_start).max();
            if let Some(until) = late.filter(|until| now.mono < *until) {
                self.out.wake_at(until);
                continue;
            }
            self.tell_slow_volumes(uid, now);
            let Some(life) = self.volumes.0.get_mut(uid).filter(|life| !life.work.is_under_way()) else {
                continue;
            };
            let until = life.work.failures(Task::TakeDown).until;
            if now.mono < until {
                self.out.wake_at(until);
                continue;
            }
            life.ready = false;
            life.begin(Task::TakeDown, now);
            self.out.push(Output::Volumes(Order::TearDown { uid: uid.clone() }));
        }
        over.is_empty()
    }

    /// Emits an event once when an order takes long: on a file system that hangs, nothing else shows why the pod does
    /// not start, or does not end.
    fn tell_slow_volumes(&mut self, uid: &str, now: &Now) {
        let Some(Work::UnderWay { since, told_slow: told @ false, .. }) =
            self.volumes.0.get_mut(uid).map(|life| &mut life.work)
        else {
            return;
        };
        let late = since.after(limits::VOLUMES_SLOW);
        if now.mono < late {
            self.out.wake_at(late);
            return;
        }
        *told = true;
        let pod = match &self.state {
            State::Syncing(pod) if pod.uid == uid => Some(Arc::clone(pod)),
            _ => None,
        };
        let words = words::volumes_slow(pod.is_some());
        if let Some(pod) = pod {
            self.volume_problem(&pod, &words.message);
        }
        self.tell_of_uid(uid, words);
    }

    /// Takes a report about an [`Output::Volumes`].
    pub(super) fn volumes_told(&mut self, report: Report, now: &Now) {
        match report {
            Report::SetUp { uid, failed } => self.volumes_set_up(&uid, failed, now),
            Report::Note { uid, volume, note } => {
                if self.state.pod().is_some_and(|pod| pod.uid == uid) {
                    self.tell(
                        None,
                        match note {
                            Note::Slow(files) => words::ownership_slow(&volume, files),
                            Note::BeginsEmpty(why) => words::volume_begins_empty(&volume, &why),
                        },
                    );
                }
            }
            Report::TornDown { uid, result: Ok(()) } => {
                // A create that was asked for meanwhile makes volumes of its image, whatever has become of it.
                if self.volumes.0.remove(&uid).is_some_and(|life| life.is_late) {
                    self.volumes.may_have(&uid);
                }
            }
            Report::TornDown { uid, result: Err(why) } => {
                let Some(life) = self.volumes.0.get_mut(&uid) else { return };
                // It is wanted again, and set up anew.
                (life.due, life.ready) = (true, false);
                let mut failures = life.work.failures(Task::TakeDown);
                let first = !failures.has_failed();
                failures.failed_within(limits::VOLUME_RETRY_MIN, limits::VOLUME_RETRY_MAX, now);
                life.work = Work::Failed { task: Task::TakeDown, failures };
                if first {
                    self.tell_of_uid(&uid, words::unmount_failed(&why));
                }
            }
        }
    }

    fn volumes_set_up(&mut self, uid: &str, failed: Vec<volumes::Failure>, now: &Now) {
        let Some(life) = self.volumes.0.get_mut(uid) else { return };
        life.ready = failed.iter().all(|failure| failure.usable);
        let before = std::mem::replace(&mut life.failed, failed.clone());
        let ready = life.ready;
        let mut failures = life.work.failures(Task::SetUp);
        life.work = Work::Idle;
        if !failed.is_empty() {
            // Unless it is to be repeated at once anyway.
            if !life.due {
                failures.failed_within(limits::VOLUME_RETRY_MIN, limits::VOLUME_RETRY_MAX, now);
            }
            life.due = true;
            life.work = Work::Failed { task: Task::SetUp, failures };
        }
        let State::Syncing(pod) = self.state.clone() else { return };
        if pod.uid != uid {
            return;
        }
        // A failure that goes on is one happening, however often it is tried again.
        for failure in failed.iter().filter(|failure| !before.contains(failure)) {
            self.tell(None, words::mount_failed(&failure.volume, &failure.why));
        }
        match failed.iter().find(|failure| !failure.usable) {
            Some(failure) => {
                let message = words::mount_failed(&failure.volume, &failure.why).message;
                self.volume_problem(&pod, &message);
            }
            None if ready => self.members.no_longer_wait(Reason::ContainerCreating),
            None => {}
        }
    }

    /// Shows the problem on containers that never ran. One that ended shows its end.
    fn volume_problem(&mut self, pod: &DesiredPod, message: &str) {
        for (_, container) in pod.containers() {
            if self.containers.current().newest(&pod.uid, &container.name).is_none() {
                self.set_waiting(&container.name, Reason::ContainerCreating, message);
            }
        }
    }
}
