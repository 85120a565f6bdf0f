//! When a pod's cgroup is made, changed and removed: before anything is made in it, when the pod asks for
//! other limits, and when no container of it is left. The machine orders and goes on when it hears what became
//! of it; without its cgroup a pod runs all the same, with the limits of its containers alone, and says so.

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

/// What is known of the cgroup of one UID.
#[derive(Debug, PartialEq)]
enum Known {
    /// Containers were found; an earlier daemon made it, if it was made.
    Found,
    /// It was asked for.
    Asked(Box<Asked>),
    /// Its removal was ordered, and is not known to be done.
    Leaving,
    /// It was removed.
    Dropped,
}

/// A cgroup that was asked for.
#[derive(Debug, PartialEq)]
struct Asked {
    pod: PodCgroup,
    answer: Answer,
}

/// Why a cgroup is asked for again.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Trouble {
    retry: Retry,
    /// By the last answer another podkeeper's pod runs in it.
    taken: bool,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Answer {
    /// Not known yet: containers wait.
    Awaited,
    Good,
    /// It could not be made so, or another podkeeper's pod runs in it, and it is asked for again.
    Bad(Trouble),
    /// Asked for again; nothing waits.
    AwaitedAgain(Trouble),
}

impl Answer {
    /// What was wrong by the last answer, if anything was.
    fn trouble(self) -> Option<Trouble> {
        match self {
            Answer::Bad(trouble) | Answer::AwaitedAgain(trouble) => Some(trouble),
            Answer::Awaited | Answer::Good => None,
        }
    }
}

/// A container that no list has told of.
#[derive(Debug)]
struct Unlisted {
    /// UID of the pod in whose cgroup it is.
    uid: String,
    /// Looks at it that failed.
    retry: Retry,
}

/// The cgroups of this name's pods.
#[derive(Debug, Default)]
pub(super) struct Cgroups {
    /// By UID.
    known: Table<String, Known>,
    /// Containers in the cgroup of a pod that no list has told of, by id, until Docker has said what they are.
    unlisted: Table<String, Unlisted>,
}

impl Cgroups {
    /// The cgroup of some UID is being removed.
    pub fn is_leaving(&self) -> bool {
        self.known.values().any(|known| *known == Known::Leaving)
    }

    /// A sandbox has ended, and another one comes: somebody may have taken the cgroup away from under it.
    pub fn doubt(&mut self, uid: &str) {
        if let Some(known @ Known::Asked(_)) = self.known.get_mut(uid) {
            *known = Known::Found;
        }
    }

    /// Something runs in the pod's cgroup of which nothing is known.
    pub fn has_unlisted(&self) -> bool {
        !self.unlisted.is_empty()
    }

    /// How many are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len() + self.unlisted.len()
    }
}

impl Machine {
    /// Tells what the pod's cgroup must be like. `changing`: containers of it are being changed, and the
    /// cgroup holds the limits of before and after.
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

    /// Containers of the pod may be made, as far as its cgroup is concerned: it is there, or cannot be had, and
    /// nothing unknown is in it.
    pub(super) fn cgroup_ready(&self, pod: &DesiredPod) -> bool {
        let known = self.cgroups.known.get(&pod.uid);
        !self.cgroups.has_unlisted()
            && !matches!(known, Some(Known::Asked(asked)) if asked.answer == Answer::Awaited)
    }

    /// Takes the ids of all that has a cgroup in that of this UID. What Docker found running when it began with a full disk it
    /// leaves out of its list, and a new daemon has nothing but the list. The kernel knows better: such a container is
    /// looked at by its id, and nothing is made before, or it would run twice.
    fn found_inside(&mut self, uid: &str, inside: Vec<String>) {
        let unlisted = &mut self.cgroups.unlisted;
        unlisted.retain(|id, it| it.uid != uid || inside.contains(id));
        for id in inside {
            if self.containers.get(&id).is_none() && !unlisted.contains_key(&id) {
                unlisted.insert(id, Unlisted { uid: uid.to_owned(), retry: Retry::default() });
            }
        }
    }

    /// Asks for them. False: nothing is decided before the first answer.
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

    /// Takes what Docker tells of a container that has a cgroup in the pod's and is in no list.
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
        // By then it may have ended, and be there no more.
        if let Some(Known::Asked(asked)) = self.cgroups.known.get_mut(uid.as_str()) {
            let taken = asked.answer.trouble().is_some_and(|trouble| trouble.taken);
            asked.answer = Answer::Bad(Trouble { retry: *retry, taken });
        }
        if first {
            self.tell(None, words::unlisted(short(id), &error.to_string()));
        }
    }

    /// The container was there before this daemon looked, as those that the first list shows.
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

    /// Takes what became of an order.
    pub(super) fn cgroup_told(&mut self, report: Report, now: &Now) {
        match report {
            Report::Ensured { pod, moved, inside, result } => {
                self.found_inside(&pod.uid, inside);
                if let Some(why) = moved {
                    self.tell(None, words::cgroup_failed(&why));
                }
                let Some(Known::Asked(asked)) = self.cgroups.known.get_mut(&pod.uid) else { return };
                if asked.pod != *pod {
                    // Another one has been asked for since.
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
                // Unless it is wanted again.
                if self.cgroups.known.get(&uid) == Some(&Known::Leaving) {
                    self.cgroups.known.insert(uid, Known::Dropped);
                }
            }
        }
    }

    /// Removes cgroups without containers, but that of the pod that is wanted, unless it has ended.
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
        // What runs in it unlisted would be killed with it.
        let held = order::set(self.cgroups.unlisted.values().map(|it| it.uid.clone()));
        self.cgroups.known.retain(|uid, known| {
            let mut of_it = containers.all().filter(|c| c.uid == *uid).peekable();
            let gone = of_it.peek().is_none();
            // The dead that are kept for their logs are in no cgroup.
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

    /// Puts a container into its pod's cgroup, unless another podkeeper's pod runs there: it would be killed with that
    /// one.
    pub(super) fn place(&self, body: &mut CreateBody, pod: &DesiredPod) {
        let trouble = match self.cgroups.known.get(&pod.uid) {
            Some(Known::Asked(asked)) => asked.answer.trouble(),
            _ => None,
        };
        let taken = trouble.is_some_and(|trouble| trouble.taken);
        match self.node.cgroups.as_ref().filter(|_| !taken) {
            Some(naming) => body.host_config.cgroup_parent = naming.parent(qos::class(&pod.spec), &pod.uid),
            // Each container then has the limit that the pod should have.
            None => body.host_config.pids_limit = self.settings.pod_pids,
        }
    }

    /// systemd has made the slice with the sandbox; limits that it does not know are written now.
    pub(super) fn sandbox_has_cgroup(&mut self, uid: &str) {
        if self.node.cgroups.as_ref().is_some_and(|naming| naming.driver == Driver::Systemd) {
            self.cgroups.known.insert(uid.to_owned(), Known::Found);
        }
    }
}
