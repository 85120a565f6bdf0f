//! `prune`: removes dead containers that nothing needs and then every unused image, as the collector does when the node
//! is short of disk. It reports what it removes, what stays and why, and which of Docker's other data it leaves alone.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::garbage::{Known, is_needed, wants_now};
use crate::base::human::many;
use crate::base::limits;
use crate::base::table::Table;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::pods::Daemon;
use crate::cli::{Outcome, fail, print, say};
use crate::garbage::collector::{containers, images, name, remove_container, remove_image};
use crate::garbage::dead;
use crate::garbage::images::Judged;
use crate::runtime::docker::Docker;
use crate::runtime::progress::bytes;
use crate::runtime::{Call, DockerError, RefusalKind, Reply};

/// Removes what nothing needs; with `--dry-run` only reports it.
pub fn run(options: &Options) -> Outcome {
    let known = Known::read(options).map_err(|why| format!("{why}; nothing is removed"))?;
    let dry = options.command.prune.dry_run;
    if let Some(why) = refused(dry, known.daemon, known.wants.heard) {
        return Err(why.to_owned());
    }
    let mut run = Prune { known, dry, exit: Exit::Ok };
    run.containers().map_err(|error| error.to_string())?;
    run.images().map_err(|error| error.to_string())?;
    run.build_cache(options.command.prune.build_cache);
    Ok(run.exit)
}

/// The reason why nothing is removed or reported. `heard`: every source has reported its pods. Without a daemon the
/// stored state may be older than the manifests, and a node without a network could not pull their images again.
fn refused(dry: bool, daemon: Daemon, heard: bool) -> Option<&'static str> {
    match daemon {
        Daemon::Gone if !dry => Some(
            "without a podkeeper that runs nobody knows what the manifests want by now: nothing is removed; \
             --dry-run tells what the last one would remove",
        ),
        Daemon::Silent(_) if !dry => Some(
            "podkeeper does not answer: what the manifests want by now is not known, and nothing is removed; \
             --dry-run tells what it would have removed",
        ),
        Daemon::Unheard(_) if !dry => Some(
            "podkeeper has not written its state: what the manifests want by now is not known, and nothing is removed; \
             --dry-run tells what the one before it would have removed",
        ),
        _ if !heard => {
            Some("not every source has said which pods it wants (podkeeper get sources): nothing is removed")
        }
        Daemon::Gone | Daemon::Silent(_) | Daemon::Unheard(_) | Daemon::Answers => None,
    }
}

struct Prune {
    known: Known,
    dry: bool,
    exit: Exit,
}

impl Prune {
    fn done(&self) -> &'static str {
        if self.dry { "would be removed" } else { "removed" }
    }

    fn failed(&mut self, what: &str, error: &DockerError) {
        self.exit = fail(&format!("{what}: {error}"));
    }

    fn containers(&mut self) -> Result<(), DockerError> {
        let all = containers(&self.known.docker)?;
        let root_dir = self.known.root_dir.to_string_lossy().into_owned();
        let wants = self.known.wants.clone();
        for container in dead::unneeded(&all, &root_dir, &wants) {
            let what = format!("container {}", container.name);
            // Its pod may have come back since.
            let wants = wants_now(&self.known.run_dir);
            if !wants.is_some_and(|wants| dead::is_unneeded(container, &root_dir, &wants)) {
                continue;
            }
            match if self.dry { Ok(()) } else { remove_container(&self.known.docker, &container.id) } {
                Ok(()) => _ = print(&format!("{what}: {}\n", self.done())),
                Err(error) => self.failed(&what, &error),
            }
        }
        Ok(())
    }

    fn images(&mut self) -> Result<(), DockerError> {
        let all = images(&self.known.docker)?;
        let containers = containers(&self.known.docker)?;
        let judged = self.known.judge(all, &containers);
        let (mut freed, mut count) = (0u64, 0);
        let mut left: VecDeque<&Judged> = judged.iter().filter(|it| it.kept.is_none()).collect();
        // How many were removed when Docker refused to remove it for the images that were made from it.
        let mut parents: Table<&str, usize> = Table::new();
        while let Some(it) = left.pop_front() {
            let what = format!("image {}", name(&it.image));
            match self.remove(it) {
                Ok(true) => {
                    print(&format!("{what} ({}): {}\n", bytes(it.image.size), self.done()));
                    freed = freed.saturating_add(it.image.size);
                    count += 1;
                }
                Ok(false) => {}
                Err(error @ DockerError::Unreachable(_)) => return Err(error),
                Err(error) if error.refusal() == Some(&RefusalKind::HasChildren) => {
                    // Those may go in this run, and may be images without a name, which Docker does not list.
                    if parents.insert(&it.image.id, count).is_none_or(|before| before < count) {
                        left.push_back(it);
                    } else {
                        print(&format!("{what}: kept: images that stay were made from it\n"));
                    }
                }
                Err(error) => self.failed(&what, &error),
            }
        }
        print(&summary(&judged, count, freed, self.done()));
        Ok(())
    }

    /// Returns false when the image is gone already, or needed by now.
    fn remove(&self, judged: &Judged) -> Result<bool, DockerError> {
        let image = &judged.image;
        let wanted = || is_needed(&self.known.run_dir, image);
        match () {
            () if wanted() => Ok(false),
            () if self.dry => Ok(true),
            () => remove_image(&self.known.docker, image, &|| !wanted()),
        }
    }

    /// Removes or reports the build cache. An engine that does not report one is left alone.
    fn build_cache(&mut self, prune: bool) {
        if !prune || self.dry {
            return match told(&self.known.docker, &Call::DiskUsage) {
                Ok(Reply::DiskUsage(usage)) if prune => {
                    _ = print(&format!("build cache: {}: would be removed\n", bytes(usage.build_cache)));
                }
                Ok(Reply::DiskUsage(usage)) => {
                    let size = bytes(usage.build_cache);
                    _ = print(&format!("build cache: {size}: kept, --prune-build-cache removes it\n"));
                }
                Ok(_) => {}
                Err(error) => say(&format!("warning: how much the build cache takes is not known: {error}")),
            };
        }
        match told(&self.known.docker, &Call::BuildPrune) {
            Ok(Reply::Reclaimed(size)) => _ = print(&format!("build cache: {}: removed\n", bytes(size))),
            Ok(_) => {}
            Err(error) => self.failed("build cache", &error),
        }
    }
}

/// Docker needs long to count disk usage.
fn told(docker: &Docker, call: &Call) -> Result<Reply, DockerError> {
    docker.begin(call).within(limits::DISK_USAGE).wait()
}

/// Images that stay, with the reasons, and the sums. Images share layers: fewer bytes than the sizes may become free.
fn summary(judged: &[Judged], count: usize, freed: u64, done: &str) -> String {
    let mut text = String::new();
    for (it, kept) in judged.iter().filter_map(|it| Some((it, it.kept.as_ref()?))) {
        // Writing to a string cannot fail.
        _ = writeln!(text, "image {}: kept: {kept}", name(&it.image));
    }
    let nameless = judged.iter().filter(|it| it.kept.is_none() && it.image.tags.is_empty()).count();
    _ = writeln!(
        text,
        "{} {done} ({}), {nameless} without a tag; {} kept",
        many(count, "image"),
        bytes(freed),
        judged.iter().filter(|it| it.kept.is_some()).count()
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garbage::images::Kept;
    use crate::runtime::ImageSummary;

    #[test]
    fn nothing_goes_while_it_is_not_known_what_is_wanted() {
        let silent = Daemon::Silent(crate::base::clock::Timestamp::UNIX_EPOCH);
        let starts =
            |dry, daemon, heard| refused(dry, daemon, heard).map(|why| why.split(' ').next().unwrap());
        assert_eq!(starts(false, Daemon::Answers, true), None);
        assert_eq!(starts(false, Daemon::Gone, true), Some("without"));
        assert_eq!(starts(false, silent, true), Some("podkeeper"));
        assert_eq!(starts(false, Daemon::Unheard(7), true), Some("podkeeper"));
        for daemon in [Daemon::Gone, silent, Daemon::Unheard(7), Daemon::Answers] {
            assert_eq!([starts(true, daemon, true), starts(true, daemon, false)], [None, Some("not")]);
        }
    }

    #[test]
    fn the_sums() {
        let judged = |tags: &[&str], kept| {
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let id = format!("sha256:{}", "ab".repeat(32));
            Judged { image: ImageSummary { id, tags, ..ImageSummary::default() }, kept, record: None }
        };
        let all = [judged(&["a:1"], None), judged(&[], None), judged(&["b:1"], Some(Kept::Pinned))];
        assert_eq!(
            summary(&all, 2, 3 << 20, "removed"),
            "image b:1: kept: pinned\n2 images removed (3.0 MiB), 1 without a tag; 1 kept\n"
        );
    }
}
