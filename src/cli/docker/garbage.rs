//! Shared by `images` and `prune`: the data that the daemon's collector uses, and its decisions for this moment. While
//! no daemon runs, the images that manifests need are read from the last status file, and nothing is removed.
//!
//! Never here: a rule of its own about what may be removed.

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

/// The facts about a node's garbage that do not come from Docker.
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
    /// Reads the daemon's files.
    ///
    /// # Errors
    /// A message for the user: a file that says what must stay cannot be read.
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

    /// Judges all images, for removal by the user: no image is too young.
    pub fn judge(&self, images: Vec<ImageSummary>, containers: &[ContainerSummary]) -> Vec<Judged> {
        let Known { policy, fixed, wants, records, .. } = self;
        Judge { policy, fixed, wants, records, now: None }.all(images, containers)
    }
}

/// The images and pods that manifests need now: the daemon may have heard of another pod since the first read.
pub(super) fn wants_now(run_dir: &Path) -> Option<Wants> {
    Some(Wants::of_file(&file::read(run_dir).ok()?.file))
}
