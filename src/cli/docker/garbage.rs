//! Shared by `images` and `prune`: the data that the daemon's collector uses, and its decisions for this moment. While
//! no daemon runs, the images that manifests need are read from the last status file, and nothing is removed.
//!
//! Never here: a rule of its own about what may be removed.

use crate::base::table::Set;
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
use crate::status::snapshot::KeptImages;

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
        let kept = kept(status.kept_images.as_ref(), &records, order::set(preloaded));
        let pinned: Result<Vec<Pin>, String> = kept.pinned.iter().map(|pin| Pin::parse(pin)).collect();
        let policy = Policy { pinned: pinned?, ..Policy::default() };
        let (mut wants, now) = (Wants::of_file(&status), System::start().now().wall);
        // The daemon removes no image while it does not know which ones were preloaded.
        wants.heard &= kept.preloaded.is_some();
        let fixed = Fixed { sandbox: kept.sandbox, preloaded: kept.preloaded.unwrap_or_default() };
        Ok(Known { docker, root_dir, run_dir, daemon, wants, records, fixed, policy, now })
    }

    /// Judges all images, for removal by the user: no image is too young.
    pub fn judge(&self, images: Vec<ImageSummary>, containers: &[ContainerSummary]) -> Vec<Judged> {
        let Known { policy, fixed, wants, records, .. } = self;
        let root_dir = self.root_dir.to_string_lossy();
        Judge { policy, fixed, wants, records, now: None }.all(images, containers, &root_dir)
    }
}

/// The images that the daemon keeps. It tells them itself; those in the root directory are older if its disk was full
/// when the daemon started, and stand for what an earlier version does not tell.
fn kept(told: Option<&KeptImages>, records: &Records, preloaded: Set<String>) -> KeptImages {
    if let Some(told) = told {
        return told.clone();
    }
    let (sandbox, pinned) = records.fixed();
    let sandbox = Some(sandbox.to_owned()).filter(|name| !name.is_empty());
    KeptImages {
        pinned: pinned.to_vec(),
        sandbox: sandbox.unwrap_or_else(sandbox_image::image_name),
        preloaded: Some(preloaded),
    }
}

/// Whether the image is needed by now: the daemon may have heard of another pod since the first read, or have preloaded
/// the image.
pub(super) fn is_needed(run_dir: &Path, image: &ImageSummary) -> bool {
    let Ok(found) = file::read(run_dir) else { return true };
    // An earlier version does not tell.
    let preloaded = found.file.kept_images.as_ref().map_or(Some(Set::new()), |kept| kept.preloaded.clone());
    Wants::of_file(&found.file).needs(image, preloaded.as_ref())
}

/// The images and pods that manifests need now: the daemon may have heard of another pod since the first read.
pub(super) fn wants_now(run_dir: &Path) -> Option<Wants> {
    Some(Wants::of_file(&file::read(run_dir).ok()?.file))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the root directory was full when the daemon started with another image to keep, and `prune` removed
    /// that image.
    #[test]
    fn what_the_daemon_tells_comes_before_older_files() {
        let mut records = Records::default();
        records.set_fixed("old:1", vec!["old-pin:1".into()]);
        let told = KeptImages { pinned: vec!["pin:1".into()], sandbox: "new:1".into(), preloaded: None };
        assert_eq!(kept(Some(&told), &records, ["p:1".into()].into()), told);
        let earlier = kept(None, &records, ["p:1".into()].into());
        assert_eq!((&*earlier.sandbox, &*earlier.pinned), ("old:1", &["old-pin:1".to_owned()][..]));
        assert_eq!(earlier.preloaded, Some(["p:1".into()].into()));
        assert_eq!(kept(None, &Records::default(), Set::new()).sandbox, sandbox_image::image_name());
    }
}
