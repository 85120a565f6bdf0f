//! The jobs of a pod's volumes, in the pod's thread and at its turn.
//!
//! Never here: which job comes next (`manager`).

use std::sync::Arc;

use super::manager::{Bound, Node, Tell, Use};
use super::mounts::Later;
use super::tear_down::Which;
use super::{Failure, Note, Order, Parts, Report, SubPath, image, owner, set_up, sub_path, tear_down};
use crate::layout;
use crate::pod::{DesiredPod, PodKey};

/// A job of one pod.
pub(super) enum Job {
    Order(Order),
    /// Of a container, by its pod's UID and its name; with the pod, if it is wanted.
    Parts((String, String), Option<Arc<DesiredPod>>, Parts, Bound),
}

impl Job {
    /// The pod's UID.
    pub(super) fn uid(&self) -> &str {
        match self {
            Job::Order(Order::SetUp(order)) => &order.pod.uid,
            Job::Order(Order::TearDown { uid }) | Job::Parts((uid, _), ..) => uid,
        }
    }
}

/// Does a job, and tells its result. `begins` gets what is done now, in words.
pub(super) fn work(node: &Arc<Node>, key: &PodKey, job: Job, tell: &Tell, begins: &dyn Fn(String)) {
    match job {
        Job::Order(Order::SetUp(order)) => {
            begins("setting up its volumes".to_owned());
            let uid = order.pod.uid.clone();
            let mut note = |volume: &str, note: Note| {
                tell(Report::Note { uid: uid.clone(), volume: volume.to_owned(), note });
            };
            let failed = set_up::all(node, &order, &mut note);
            tell(Report::SetUp { uid: order.pod.uid.clone(), failed });
        }
        Job::Order(Order::TearDown { uid }) => {
            begins("removing its volumes".to_owned());
            let result = node
                .root()
                .and_then(|root| tear_down::pod(&root, &uid, Which::All, &mut || node.ends.step(&uid)));
            if result.is_ok() {
                node.in_memory.forget(&uid);
                node.release(&uid, &Use::Worker(key.clone()));
            }
            tell(Report::TornDown { uid, result });
        }
        Job::Parts((uid, _), pod, Parts { sub_paths: list, image_volumes }, bound) => {
            let is_behind = pod.as_ref().is_some_and(|pod| node.policies.evict_first(pod.source));
            if let Err(why) = image_directories(node, (key, pod.as_deref()), &uid, &image_volumes) {
                return bound(Err(why));
            }
            let places = || list.iter().map(SubPath::place).collect();
            let counted = if is_behind { node.count_mounts(&uid, places()) } else { Ok(()) };
            bound(counted.and_then(|()| {
                list.iter().try_for_each(|wanted| {
                    let SubPath { volume, container, path, .. } = wanted;
                    begins(format!(
                        "preparing subPath {path:?} of volume {volume:?} for container {container:?}"
                    ));
                    sub_path::prepare(node, wanted, Later::of(is_behind))
                })
            }));
        }
    }
}

/// Makes the directories of volumes that an image declares. The pod's directory may be of a pod whose files are still being
/// removed.
fn image_directories(
    node: &Node,
    (key, pod): (&PodKey, Option<&DesiredPod>),
    uid: &str,
    names: &[String],
) -> Result<(), String> {
    if names.is_empty() {
        return Ok(());
    }
    // Whose the files are that are there is not known otherwise.
    let Some(pod) = pod else { return Err(format!("pod {uid} is not wanted any more")) };
    if !node.take(uid, &Use::Worker(key.clone())) {
        return Err(format!("the files of pod {uid} are still being removed"));
    }
    _ = owner::take(node, pod)?;
    let root = node.root()?;
    let made = names.iter().try_for_each(|name| image::make(&root, uid, name));
    made.map_err(|error| format!("a volume of its image cannot be made: {error}"))
}

/// Tells that a job is not done, for this reason.
pub(super) fn refuse(job: Job, why: &str, tell: &Tell) {
    match job {
        Job::Order(Order::SetUp(order)) => tell(all_failed(&order, why)),
        Job::Order(Order::TearDown { uid }) => tell(Report::TornDown { uid, result: Err(why.to_owned()) }),
        Job::Parts(_, _, _, bound) => bound(Err(why.to_owned())),
    }
}

/// The report of a set-up of which no volume was made.
pub(super) fn all_failed(order: &super::SetUp, why: &str) -> Report {
    let failure = |volume: &str| Failure { volume: volume.to_owned(), why: why.to_owned(), usable: false };
    let failed = layout::volumes(&order.pod).map(|volume| failure(&volume.name)).collect();
    Report::SetUp { uid: order.pod.uid.clone(), failed }
}
