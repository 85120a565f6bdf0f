//! Starts the threads for this machine, which a hollow node does not have.

use std::sync::Arc;

use super::{Parts, RunError, no_start_of};
use crate::base::locks::LOCK;
use crate::cgroup::Cgroups;
use crate::daemon::keeper::local::LimitWatch;
use crate::daemon::keeper::run_dir::RunDir;
use crate::daemon::keeper::{self, Keeper};
use crate::daemon::notify::Notifier;
use crate::daemon::watch::Watch;
use crate::eviction::threshold;
use crate::garbage::collector::Collector;
use crate::pod::ends::Ends;
use crate::runtime::docker::Endpoint;
use crate::runtime::engine_root::EngineRoot;
use crate::status::snapshot::Latest;
use crate::status::writer::Writer;

/// The actors that write to this machine's disk, measure the machine, and watch the process. Dropping it ends them, in
/// this order.
pub(in crate::daemon) struct OnHost {
    pub(in crate::daemon) writer: Writer,
    pub(in crate::daemon) keeper: Keeper,
    pub(in crate::daemon) limits: LimitWatch,
    pub(in crate::daemon) watch: Watch,
}

impl Parts<'_> {
    /// A node without a `writer` is a hollow one.
    pub(super) fn on_host(
        &self,
        writer: Option<Writer>,
        cgroups: &Cgroups,
        pods: (Latest, &Ends),
        garbage: Arc<Collector>,
        docker_root: EngineRoot,
    ) -> Result<Option<OnHost>, RunError> {
        let Some(writer) = writer else { return Ok(None) };
        let run_dir = &self.config.run_dir;
        let run_dir = RunDir::new(run_dir.clone(), writer.watch(run_dir, LOCK));
        Ok(Some(OnHost {
            writer,
            keeper: self.keeper(cgroups, pods, garbage, docker_root.clone(), run_dir)?,
            limits: self.limits(docker_root),
            watch: self.watch()?,
        }))
    }

    fn keeper(
        &self,
        cgroups: &Cgroups,
        (pods, ends): (Latest, &Ends),
        garbage: Arc<Collector>,
        docker_root: EngineRoot,
        run_dir: RunDir,
    ) -> Result<Keeper, RunError> {
        let (eviction, garbage) = match self.config.docker {
            Endpoint::Unix(_) => (self.config.eviction.clone(), Some(garbage)),
            Endpoint::Fake => (threshold::Settings::none(), None),
        };
        let parts = keeper::Parts {
            eviction,
            garbage,
            pods,
            ends: ends.clone(),
            root_dir: self.config.root_dir.clone(),
            run_dir: Some(run_dir),
            docker: self.docker.clone(),
            docker_root,
            clock: self.clock,
            parents: cgroups.parents.clone(),
            out: self.events.clone(),
        };
        Keeper::start(parts, self.pulses.clone()).map_err(no_start_of("the keeper of the node"))
    }

    fn watch(&self) -> Result<Watch, RunError> {
        Watch::start(Notifier::of_environment(), self.pulses.clone(), self.events.clone())
            .map_err(no_start_of("the watch over the threads"))
    }

    fn limits(&self, docker_root: EngineRoot) -> LimitWatch {
        LimitWatch::new(self.docker.clone(), self.config.root_dir.clone(), docker_root, self.events.clone())
    }
}
