//! Names that Docker says are taken: finds the holder and decides what to do (kubernetes/kubernetes#40443,
//! moby/moby#22312). Never here: removing what podkeeper did not make.

use crate::base::clock::Now;
use crate::base::limits;
use crate::machine::Machine;
use crate::machine::calls::{Job, Place};
use crate::machine::containers::merge::short;
use crate::machine::members::Part;
use crate::machine::state::State;
use crate::mapping::observe;
use crate::plan::Owned;
use crate::runtime::{Call, ContainerDetail, DockerError, RefusalKind, names};

impl Machine {
    pub(in crate::machine) fn with_suffix(&self, part: &Part, name: String) -> String {
        match self.members.part(part).suffix {
            Some(suffix) => names::with_suffix(&name, suffix),
            None => name,
        }
    }

    /// Inspects the holder of a taken name.
    pub(in crate::machine) fn resolve_conflict(&mut self, name: String, place: Place) {
        self.call(Job::Conflict { name: name.clone(), place }, Call::Inspect { id: name });
    }

    /// Handles a taken name: the four cases of kubernetes/kubernetes#40443.
    pub(in crate::machine) fn conflict_seen(
        &mut self,
        name: &str,
        place: Place,
        answer: Result<Box<ContainerDetail>, DockerError>,
        now: &Now,
    ) {
        let part = place.part.clone();
        let detail = match answer {
            Ok(detail) => detail,
            Err(error) if error.refusal() == Some(&RefusalKind::NoSuchContainer) => {
                let lost = self.members.part(&part).create_lost;
                // Those of a source behind others may be what makes Docker slow.
                let is_behind = self.state.pod().is_some_and(|pod| self.is_judging(pod));
                let most = if is_behind { limits::CREATE_UNFINISHED } else { limits::CREATE_UNFINISHED / 4 };
                if lost.is_some_and(|lost| now.mono < lost.after(most)) {
                    // Another one would be one more that a slow Docker makes.
                    let wait = self.retry_later(&part, now);
                    let why = format!(
                        "Docker has not answered a create of {name}, and is still at it or has lost it; tried again in {} s",
                        wait.as_secs()
                    );
                    return self.create_problem(&part, why);
                }
                let suffix = &mut self.members.part_mut(&part).suffix;
                if suffix.replace(suffix_of(name, now)).is_some() {
                    // Even the new name is taken: Docker calls every name taken.
                    self.retry_later(&part, now);
                }
                let why = format!(
                    "the name {name} is taken by a container that Docker cannot find; a suffix is added"
                );
                self.create_problem(&part, why);
                return;
            }
            Err(error) => {
                return self.create_lost(&part, &format!("its name is taken, and by whom: {error}"), now);
            }
        };
        match self.holder(&detail, &place) {
            Holder::Ours(owned) => self.merge(*owned, self.origin(), now),
            // It should not run; the plan stops it as a stray.
            Holder::Stale(owned) if owned.state.is_running() => {
                self.merge(*owned, self.origin(), now);
            }
            Holder::Stale(owned) => {
                let why =
                    format!("the name {name} is held by an older container of this pod, which is removed");
                self.create_problem(&part, why);
                // There is no wait the first time. A holder that comes back was removed before, but Docker does not
                // list it: its name is given up (kubernetes/kubernetes#40443).
                let member = self.members.part_mut(&part);
                if member.create_retry.is_some() {
                    member.suffix = Some(suffix_of(name, now));
                }
                self.members.create_contradicted(&part, now);
                // It is removed like a dead container of an earlier life, before anything is made. If that fails, it
                // counts as an attempt and the next one has another name (moby/moby#22312).
                self.vanished(&owned.id);
                self.containers.put_earlier(*owned);
            }
            Holder::Foreign => {
                let wait = self.retry_later(&part, now);
                let message = format!(
                    "the container name {name} is held by {}, which podkeeper did not make; tried again in {} s",
                    short(&detail.id),
                    wait.as_secs()
                );
                self.create_problem(&part, message);
            }
        }
    }

    fn holder(&self, detail: &ContainerDetail, place: &Place) -> Holder {
        let Some(owned) = observe::from_detail(detail, &self.settings.map.root_dir) else {
            return Holder::Foreign;
        };
        let State::Syncing(pod) = &self.state else { return Holder::Stale(Box::new(owned)) };
        let same = owned.key == self.key
            && owned.uid == pod.uid
            && owned.attempt == place.attempt
            && Part::of(&owned) == place.part
            && !owned.state.is_dead();
        if same { Holder::Ours(Box::new(owned)) } else { Holder::Stale(Box::new(owned)) }
    }
}

/// The holder of a name for a new container.
enum Holder {
    /// The very container that was to be made: the answer to its create was lost.
    Ours(Box<Owned>),
    /// A container of ours that is not needed.
    Stale(Box<Owned>),
    /// A container that is not ours.
    Foreign,
}

/// A number that differs between tries, so that a second ghost is passed, too.
fn suffix_of(name: &str, now: &Now) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    for byte in name.bytes().chain(now.mono.0.as_nanos().to_le_bytes()) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}
