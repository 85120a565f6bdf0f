//! The work of the event thread after each list of containers, before the main loop gets the list: a different Docker
//! may answer now, with another version and without the changes that podkeeper had made to it.
//!
//! Never here: a decision about a pod.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::Sender;

use crate::base::clock::{Clock as _, Mono, System};
use crate::cgroup::Cgroups;
use crate::cgroup::resource::{Resources, Settled};
use crate::daemon::events::{Listener, Listing};
use crate::daemon::turn::Event;
use crate::eviction::News;
use crate::garbage::collector::Collector;
use crate::image::preload::Preload;
use crate::network::docker::PodNetwork;
use crate::recorder::{Words, words};
use crate::runtime::docker::{Docker, RECURSIVE_READ_ONLY};
use crate::runtime::engine_root::EngineRoot;
use crate::runtime::event_stream::DockerEvent;
use crate::runtime::{Call, ContainerSummary, Reply};
use crate::status::writer::FileWatch;
use crate::worker::container_records::ContainerRecords;
use crate::worker::pulls::Pulls;

/// The parts that this work needs; see the module.
pub(super) struct Connected {
    pub(super) docker: Docker,
    /// `None` for a node without files.
    pub(super) run_dir: Option<FileWatch>,
    /// Whether this Docker can mount a directory and all mounts below it read-only.
    pub(super) recursive_mounts: Arc<AtomicBool>,
    pub(super) network: Arc<PodNetwork>,
    pub(super) cgroups: Cgroups,
    pub(super) docker_root: EngineRoot,
    /// Pulls, if podkeeper has its own sandbox image and must load it.
    pub(super) sandbox_image: Option<Pulls>,
    pub(super) preload: Option<Preload>,
    /// Remembers which images are used; `None` where none is removed.
    pub(super) garbage: Option<Arc<Collector>>,
    /// The cgroups of processes outside of pods, if podkeeper manages them.
    pub(super) resources: Option<Resources>,
    pub(super) container_records: ContainerRecords,
    pub(super) clock: System,
    pub(super) events: Sender<Event>,
}

impl Listener for Connected {
    /// Calls Docker, and waits for the pods' network for `limits::NETWORK_PATIENCE` at most.
    fn connected(&self, listing: Listing) {
        if let Some(run_dir) = &self.run_dir {
            run_dir.check();
        }
        self.recursive_mounts.store(self.docker.speaks(RECURSIVE_READ_ONLY), Ordering::Relaxed);
        PodNetwork::connected(&self.network);
        self.ask_about_the_engine();
        // Later a pod that lacks an image asks for it: the safety net of an idle node wakes no other thread.
        if listing == Listing::First {
            if let Some(pulls) = &self.sandbox_image {
                pulls.prepare_sandbox_image();
            }
            if let Some(preload) = &self.preload {
                preload.connected();
            }
        }
        // Another Docker process may answer now.
        if let Some(limited) = self.cgroups.limited() {
            let top = self.cgroups.parents.get().map(|naming| naming.top().display().to_string());
            let failed = limited.err().map(|why| (format!("/{}", top.unwrap_or_default()), why));
            let failed = failed.as_ref().map(|(top, why)| (top.as_str(), why.as_str()));
            self.tell(words::allocatable_enforced(failed));
        }
        for told in self.resources.iter().flat_map(|it| it.settle(self.docker.socket())) {
            let words = match told {
                Settled::Enforced(what, cgroup) => words::reserved_enforced(what, &cgroup),
                Settled::Failed(what, cgroup, why) => words::reserved_not_enforced(what, &cgroup, &why),
            };
            self.tell(words);
        }
    }

    fn lost(&self) {
        self.docker_root.lost();
    }

    fn wants_list(&self) -> bool {
        self.container_records.wants_list()
    }

    fn listed(&self, containers: &[ContainerSummary], took: Duration) {
        let now = self.clock.now().mono;
        self.container_records.listed(containers, Mono(now.0.saturating_sub(took)));
        if let Some(garbage) = &self.garbage {
            garbage.saw(containers);
        }
    }

    fn image(&self, image: &str) {
        if let Some(garbage) = &self.garbage {
            garbage.heard(image);
        }
    }

    fn wants_images(&self) -> bool {
        self.garbage.is_some()
    }

    fn image_event(&self, event: Option<&DockerEvent>) {
        if let Some(garbage) = &self.garbage {
            garbage.heard_of_image(event);
        }
    }
}

impl Connected {
    /// Sends an event of the node to the main loop.
    fn tell(&self, words: Words) {
        // Without a main loop the event is dropped.
        _ = self.events.send(Event::Node(News::Node(words)));
    }

    /// Asks Docker for its cgroup driver, which decides the names of the pods' cgroups, and for its root directory,
    /// which tells the disk that it fills. Without an answer, the next list asks again.
    fn ask_about_the_engine(&self) {
        if self.cgroups.is_decided() && !self.docker_root.is_due() {
            return;
        }
        if let Ok(Reply::Info(info)) = self.docker.call(&Call::Info) {
            self.docker_root.tell(&info.root_dir);
            if !self.cgroups.is_decided() {
                self.cgroups.decide(&info.cgroup_driver);
            }
        }
    }
}
