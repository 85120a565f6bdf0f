//! `forget`: removes the stored state of a source, and tells the daemon.

use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use super::flags::Options;
use super::lock::{self, Notified};
use super::{Outcome, print};
use crate::base::human::many;
use crate::base::limits;
use crate::pod::Source;
use crate::source::last_good::{directory, forget};

/// Forgets a source, whether a daemon runs or not.
pub fn run(options: &Options, source: Source) -> Outcome {
    let root_dir = &options.directories.root;
    lock::check_root(root_dir).map_err(|why| format!("{why}; nothing is forgotten"))?;
    let place = directory(root_dir, source);
    let gone = forget::forget(root_dir, source)
        .map_err(|error| format!("what is remembered in {} stays: {error}", place.display()))?;
    let Some(count) = gone else {
        return Ok(print(&format!("nothing is remembered of source {source} in {}\n", root_dir.display())));
    };
    let contents = many(count, "content");
    let said = format!("forgotten of source {source}: {contents}\n");
    Ok(print(&(said + &tell(root_dir, &options.directories.run, source))))
}

/// Tells the daemon and waits until it has forgotten, too; returns the answer for the user.
fn tell(root_dir: &Path, run_dir: &Path, source: Source) -> String {
    let process = match lock::tell(root_dir, run_dir) {
        Notified::Nobody => {
            return "podkeeper is not running here: the next one begins without it\n".to_owned();
        }
        Notified::Deaf => return format!("{}\n", lock::DEAF),
        Notified::Daemon(process) => process,
    };
    let begun = Instant::now();
    // The daemon makes the directory anew after it has forgotten.
    while !directory(root_dir, source).exists() {
        if begun.elapsed() > limits::FORGET_PATIENCE {
            return format!("podkeeper (process {process}) was told; it has no such source, or is busy\n");
        }
        sleep(limits::FORGET_LOOK);
    }
    format!("podkeeper (process {process}) looks at the source again\n")
}
