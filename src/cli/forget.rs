//! `forget`: takes away what is remembered of a source, and tells the daemon.

use std::path::Path;
use std::thread::sleep;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::exit::Exit;
use super::flags::Options;
use super::{fail, print, run};
use crate::base::limits;
use crate::pod::Source;
use crate::source::last_good::{directory, forget};

/// Forgets, whether a daemon runs or not.
pub fn run(options: &Options, source: Source) -> Exit {
    let root_dir = &options.directories.root;
    let gone = match forget::forget(root_dir, source) {
        Ok(gone) => gone,
        Err(error) => {
            return fail(&format!(
                "what is remembered in {} stays: {error}",
                directory(root_dir, source).display()
            ));
        }
    };
    let Some(count) = gone else {
        return print(&format!("nothing is remembered of source {source} in {}\n", root_dir.display()));
    };
    let contents = if count == 1 { "1 content" } else { &format!("{count} contents") };
    let said = format!("forgotten of source {source}: {contents}\n");
    print(&(said + &tell(root_dir, source)))
}

/// Tells the daemon and waits until it knows; the answer is for the user.
fn tell(root_dir: &Path, source: Source) -> String {
    if !run::is_alive(root_dir) {
        return "podkeeper is not running here: the next one begins without it\n".to_owned();
    }
    let pid = run::holder(root_dir);
    let process = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let Some(process) = process.filter(|p| kill_process(*p, Signal::HUP).is_ok()) else {
        return "podkeeper runs and could not be told: send it SIGHUP\n".to_owned();
    };
    let begun = Instant::now();
    // The daemon makes the directory anew when it has forgotten.
    while !directory(root_dir, source).exists() {
        if begun.elapsed() > limits::FORGET_PATIENCE {
            return format!("podkeeper (process {process}) was told; it has no such source, or is busy\n");
        }
        sleep(limits::FORGET_LOOK);
    }
    format!("podkeeper (process {process}) looks at the source again\n")
}
