//! What `images` and `prune` share: what the collector of the daemon sees, and at once what it would do. While no daemon runs,
//! what manifests want is taken from what it wrote last, and nothing is removed.
//!
//! Never here: an opinion of its own about what may go.

use std::path::{Path, PathBuf};

use super::engine;
use crate::base::clock::{Clock, System, Timestamp, boot_id};
use crate::base::order;
use crate::cli::flags::{Options, endpoint};
use crate::cli::pods::{self, Daemon};
use crate::garbage::images::{Fixed, Judge, Judged, Policy};
use crate::garbage::pins::Pin;
use crate::garbage::records::{self, Records};
use crate::garbage::wants::Wants;
use crate::image::preload::MEMORY;
use crate::image::reference::normal;
use crate::image::remembered;
use crate::runtime::docker::Docker;
use crate::runtime::{ContainerSummary, ImageSummary, sandbox_image};
use crate::status::file;

/// What is known of a node's garbage without its Docker.
pub(super) struct Known {
    pub docker: Docker,
    pub root_dir: PathBuf,
    pub run_dir: PathBuf,
    pub daemon: Daemon,
    pub wants: Wants,
    pub now: Timestamp,
    records: Records,
    fixed: Fixed,
    policy: Policy,
}

impl Known {
    /// Reads what the daemon wrote.
    ///
    /// # Errors
    /// A message for the user: something is missing that says what must stay.
    pub fn read(options: &Options) -> Result<Known, String> {
        let run_dir = options.directories.run.clone();
        let status = pods::load(&run_dir)?.file;
        let daemon = Daemon::of(&run_dir, &status);
        let docker = engine::docker(&endpoint(&status.docker.endpoint)?)?;
        let root_dir = pods::root_dir(&status);
        let path = |name: &str| root_dir.join(name).display().to_string();
        let boot = boot_id().unwrap_or_default();
        let records = records::look(&root_dir, &boot)
            .map_err(|why| format!("{}: {why}: which images stay is not known", path(records::FILE)))?;
        let memory = remembered::read(&root_dir.join(MEMORY))
            .map_err(|why| format!("{}: {why}: which images were preloaded is not known", path(MEMORY)))?;
        let preloaded = memory.values().flat_map(|loaded| &loaded.images).map(|image| normal(image));
        let (sandbox, pins) = records.fixed();
        let builtin = || sandbox_image::image_name();
        let fixed = Fixed {
            sandbox: Some(sandbox.to_owned()).filter(|name| !name.is_empty()).unwrap_or_else(builtin),
            preloaded: order::set(preloaded),
        };
        let pinned: Result<Vec<Pin>, String> = pins.iter().map(|pin| Pin::parse(pin)).collect();
        let policy = Policy { pinned: pinned?, ..Policy::default() };
        let (wants, now) = (Wants::of_file(&status), System::start().now().wall);
        Ok(Known { docker, root_dir, run_dir, daemon, wants, records, fixed, policy, now })
    }

    /// The user decides, so that no image is too young.
    pub fn judge(&self, images: Vec<ImageSummary>, containers: &[ContainerSummary]) -> Vec<Judged> {
        let Known { policy, fixed, wants, records, .. } = self;
        Judge { policy, fixed, wants, records, now: None }.all(images, containers)
    }
}

/// What the manifests want by now, for the daemon may have been told of another pod meanwhile.
pub(super) fn wants_now(run_dir: &Path) -> Option<Wants> {
    Some(Wants::of_file(&file::read(run_dir).ok()?.file))
}
