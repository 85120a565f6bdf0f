//! Decides when a pod's cgroup is made, changed and removed: before anything is made in it, when the pod's limits
//! change, and when it has no container left. The machine gives orders and continues after the reports. A pod without
//! its cgroup runs all the same, with the limits of its containers alone, and an event says so.

use log::Level;

use super::Machine;
use super::calls::{Job, Retry};
use super::containers::merge::{Origin, short};
use super::output::Output;
use super::state::State;
use crate::base::clock::Now;
use crate::base::order;
use crate::base::table::Table;
use crate::cgroup::{Driver, NoCgroup, PodCgroup, Report};
use crate::mapping::observe;
use crate::plan::Owned;
use crate::pod::DesiredPod;
use crate::pod::qos;
use crate::recorder::words;
use crate::runtime::{Call, ContainerDetail, CreateBody, DockerError, RefusalKind};

/// State of the cgroup of one UID.
#[derive(Debug, PartialEq)]
enum Known {
    /// Containers were found; an earlier daemon may have made the cgroup.
    Found,
    /// The cgroup was ordered.
    Asked(Box<Asked>),
    /// Its removal was ordered, and is not reported yet.
    Leaving,
    /// It was removed.
    Dropped,
}

/// An ordered cgroup.
#[derive(Debug, PartialEq)]
struct Asked {
    pod: PodCgroup,
    answer: Answer,
}

/// The reason why a cgroup is ordered again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Trouble {
    retry: Retry,
    /// By the last report, the pod of another podkeeper runs in it.
    taken: bool,
}

/// The report about an ordered cgroup.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// There is none yet: containers wait.
    Awaited,
    Good,
    /// It could not be made, or the pod of another podkeeper runs in it; it is ordered again.
    Bad(Trouble),
    /// It was ordered again; nothing waits.
    AwaitedAgain(Trouble),
}

impl Answer {
    /// The problem of the last report, if it had one.
    fn trouble(self) -> Option<Trouble> {
        match self {
            Answer::Bad(trouble) | Answer::AwaitedAgain(trouble) => Some(trouble),
            Answer::Awaited | Answer::Good => None,
        }
    }
}

/// A container that is missing in the list.
#[derive(Debug)]
struct Unlisted {
    /// UID of the pod whose cgroup it is in.
    uid: String,
    /// Inspects of it that failed.
    retry: Retry,
}

/// The cgroups of the pods of this name.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    /// By UID.
    known: Table<String, Known>,
    /// Containers in the cgroup of a pod that are missing in the list, by id, until Docker has described them.
    unlisted: Table<String, Unlisted>,
}

impl Cgroups {
    /// Whether the cgroup of some UID is being removed.
    pub fn is_leaving(&self) -> bool {
        self.known.values().any(|known| *known == Known::Leaving)
    }

    /// Notes that a sandbox has ended, and another one is made: the cgroup may have been removed meanwhile.
    pub fn doubt(&mut self, uid: &str) {
        if let Some(known @ Known::Asked(_)) = self.known.get_mut(uid) {
            *known = Known::Found;
        }
    }

    /// Whether an unknown container runs in the pod's cgroup.
    pub fn has_unlisted(&self) -> bool {
        !self.unlisted.is_empty()
    }

    /// Number of known cgroups.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len() + self.unlisted.len()
    }
}

impl Machine {
    /// Orders the pod's cgroup with its limits. `changing`: containers are being resized, and the cgroup has the larger
    /// limits of before and after.
    pub(super) fn order_cgroup(&mut self, pod: &DesiredPod, changing: bool, now: &Now) {
        if self.node.cgroups.is_none() {
            return;
        }
        let mut wanted = PodCgroup::of(pod, self.settings.pod_pids);
        let mut answer = Answer::Awaited;
        if let Some(Known::Asked(told)) = self.cgroups.known.get(&pod.uid) {
            if changing {
                wanted = wanted.with_room_for(&told.pod);
            }
            if told.pod == wanted {
                let Answer::Bad(trouble) = told.answer else { return };
                if now.mono < trouble.retry.until {
                    return self.out.wake_at(trouble.retry.until);
                }
                answer = Answer::AwaitedAgain(trouble);
            }
        }
        let asked = Asked { pod: wanted.clone(), answer };
        self.cgroups.known.insert(pod.uid.clone(), Known::Asked(Box::new(asked)));
        self.out.push(Output::Cgroup(Box::new(wanted)));
    }

    /// Whether containers of the pod may be made, as far as its cgroup is concerned: it exists, or cannot be made, and
    /// nothing unknown is in it.
    pub(super) fn cgroup_ready(&self, pod: &DesiredPod) -> bool {
        let known = self.cgroups.known.get(&pod.uid);
        !self.cgroups.has_unlisted()
            && !matches!(known, Some(Known::Asked(asked)) if asked.answer == Answer::Awaited)
    }

    /// Takes the ids of all containers with a cgroup in that of this UID. When Docker starts with a full disk, its list
    /// leaves out containers that it found running, and a new daemon has only the list. The kernel has them all: such a
    /// container is inspected by its id before anything is made, or it would run twice.
    fn found_inside(&mut self, uid: &str, inside: Vec<String>) {
        let unlisted = &mut self.cgroups.unlisted;
        unlisted.retain(|id, it| it.uid != uid || inside.contains(id));
        for id in inside {
            if self.containers.get(&id).is_none() && !unlisted.contains_key(&id) {
                unlisted.insert(id, Unlisted { uid: uid.to_owned(), retry: Retry::default() });
            }
        }
    }

    /// Inspects them. Returns false when nothing may be decided before the first answer.
    pub(super) fn look_inside(&mut self, now: &Now) -> bool {
        let all: Vec<(String, Retry)> =
            self.cgroups.unlisted.iter().map(|(id, it)| (id.clone(), it.retry)).collect();
        for (id, retry) in &all {
            let asked = |j: &Job| matches!(j, Job::Unlisted { id: it } if it == id);
            if now.mono < retry.until {
                self.out.wake_at(retry.until);
            } else if !self.calls.any(asked) && !self.calls.is_full() {
                self.call(Job::Unlisted { id: id.clone() }, Call::Inspect { id: id.clone() });
            }
        }
        all.iter().all(|(_, retry)| retry.has_failed())
    }

    /// Takes the inspect of a container that has a cgroup in the pod's and is missing in the list.
    pub(super) fn unlisted_told(
        &mut self,
        id: &str,
        answer: Result<Box<ContainerDetail>, DockerError>,
        now: &Now,
    ) {
        let error = match answer {
            Ok(detail) => {
                self.cgroups.unlisted.remove(id);
                let owned = observe::from_detail(&detail, &self.settings.map.root_dir);
                if let Some(owned) = owned.filter(|c| c.key == self.key) {
                    self.take_unlisted(owned, now);
                }
                return;
            }
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => {
                self.cgroups.unlisted.remove(id);
                return;
            }
            Err(error) => error,
        };
        let Some(Unlisted { uid, retry }) = self.cgroups.unlisted.get_mut(id) else { return };
        let first = !retry.has_failed();
        retry.failed(now);
        // When it is ordered again, the container may have ended.
        if let Some(Known::Asked(asked)) = self.cgroups.known.get_mut(uid.as_str()) {
            let taken = asked.answer.trouble().is_some_and(|trouble| trouble.taken);
            asked.answer = Answer::Bad(Trouble { retry: *retry, taken });
        }
        if first {
            self.tell(None, words::unlisted(short(id), &error.to_string()));
        }
    }

    /// Takes the container as one that was there before this daemon, like those of the first list.
    fn take_unlisted(&mut self, owned: Owned, now: &Now) {
        let line =
            format!("pod {}: container {} runs, and Docker's list lacks it", self.key, short(&owned.id));
        self.out.log(Level::Warn, line);
        let (id, runs) = (owned.id.clone(), owned.state.is_running());
        self.merge(owned, Origin::BeforeUs, now);
        if let Some(record) = self.containers.record_mut(&id) {
            record.run.adopted |= runs;
        }
    }

    /// Takes a report about an order.
    pub(super) fn cgroup_told(&mut self, report: Report, now: &Now) {
        match report {
            Report::Ensured { pod, moved, inside, result } => {
                self.found_inside(&pod.uid, inside);
                if let Some(why) = moved {
                    self.tell(None, words::cgroup_failed(&why));
                }
                let Some(Known::Asked(asked)) = self.cgroups.known.get_mut(&pod.uid) else { return };
                if asked.pod != *pod {
                    // Another cgroup has been ordered since.
                    return;
                }
                let Err(why) = result else {
                    asked.answer = Answer::Good;
                    return;
                };
                let mut retry = asked.answer.trouble().unwrap_or_default().retry;
                let first = !retry.has_failed();
                retry.failed(now);
                asked.answer = Answer::Bad(Trouble { retry, taken: matches!(why, NoCgroup::Taken(_)) });
                if first {
                    let why =
                        format!("{why}; the containers run with their own limits, and it is tried again");
                    self.tell(None, words::cgroup_failed(&why));
                }
            }
            Report::Removed { uid, result } => {
                if let Err(why) = result {
                    self.tell_of_uid(&uid, words::cgroup_stays(&why));
                }
                // It may have been ordered again.
                if self.cgroups.known.get(&uid) == Some(&Known::Leaving) {
                    self.cgroups.known.insert(uid, Known::Dropped);
                }
            }
        }
    }

    /// Removes cgroups without containers, except that of the wanted pod, unless it has ended.
    pub(super) fn drop_cgroups(&mut self) {
        if self.node.cgroups.is_none() {
            return;
        }
        for uid in self.containers.all().map(|c| &c.uid) {
            if !self.cgroups.known.contains_key(uid) {
                self.cgroups.known.insert(uid.clone(), Known::Found);
            }
        }
        let making = |j: &Job| {
            matches!(j, Job::Create { .. } | Job::CreateSandbox { .. } | Job::Conflict { .. } | Job::List)
        };
        if self.cgroups.known.is_empty() || self.looking.list_needed || self.calls.any(making) {
            return;
        }
        let ended = self.told.has_ended();
        let wanted = match &self.state {
            State::Syncing(pod) if !ended => Some(pod.uid.clone()),
            _ => None,
        };
        let (containers, out) = (&self.containers, &mut self.out);
        // A container that is missing in the list would be killed with the cgroup.
        let held = order::set(self.cgroups.unlisted.values().map(|it| it.uid.clone()));
        self.cgroups.known.retain(|uid, known| {
            let mut of_it = containers.all().filter(|c| c.uid == *uid).peekable();
            let gone = of_it.peek().is_none();
            // Dead containers that are kept for their logs are in no cgroup.
            if wanted.as_ref() == Some(uid) || held.contains(uid) || !of_it.all(|c| c.state.is_dead()) {
                return true;
            }
            if !matches!(known, Known::Leaving | Known::Dropped) && (gone || ended) {
                *known = Known::Leaving;
                out.push(Output::DropCgroup(uid.clone()));
            }
            !gone || *known == Known::Leaving
        });
    }

    /// Puts a container into its pod's cgroup, unless the pod of another podkeeper runs there: a kill of that pod would
    /// hit the container, too.
    pub(super) fn place(&self, body: &mut CreateBody, pod: &DesiredPod) {
        let trouble = match self.cgroups.known.get(&pod.uid) {
            Some(Known::Asked(asked)) => asked.answer.trouble(),
            _ => None,
        };
        let taken = trouble.is_some_and(|trouble| trouble.taken);
        match self.node.cgroups.as_ref().filter(|_| !taken) {
            Some(naming) => body.host_config.cgroup_parent = naming.parent(qos::class(&pod.spec), &pod.uid),
            // Each container then gets the limit that the pod should have.
            None => body.host_config.pids_limit = self.settings.pod_pids,
        }
    }

    /// Notes that systemd has made the slice with the sandbox: limits that systemd does not know are written now.
    pub(super) fn sandbox_has_cgroup(&mut self, uid: &str) {
        if self.node.cgroups.as_ref().is_some_and(|naming| naming.driver == Driver::Systemd) {
            self.cgroups.known.insert(uid.to_owned(), Known::Found);
        }
    }
}
