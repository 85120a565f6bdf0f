//! `load`: loads image archives into Docker, unpacked as the daemon does it. The daemon need not run.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::engine;
use crate::base::hex::short_ids;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, fail, print, say};
use crate::image::archive::{Archive, refusal_words};
use crate::runtime::DockerError;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;

/// Loads these archives, one after the other; a failure does not stop the next one.
pub fn run(options: &Options, files: &[PathBuf]) -> Outcome {
    let docker = engine::docker(&options.docker.endpoint)?;
    let mut exit = Exit::Ok;
    for file in files {
        let archive = if file == Path::new("-") {
            Archive::of(Box::new(io::stdin()))
        } else {
            Archive::open(file).map(|(archive, _)| archive)
        };
        let result =
            archive.and_then(|archive| load_one(&docker, archive, options.docker.pull_progress_deadline));
        match result {
            Ok(names) if names.is_empty() => say(&format!("{}: no image is in it", file.display())),
            Ok(names) => {
                names
                    .iter()
                    .for_each(|n| _ = print(&format!("{}: loaded {}\n", file.display(), short_ids(n))));
            }
            Err(why) => exit = fail(&format!("{}: {why}", file.display())),
        }
    }
    Ok(exit)
}

fn load_one(docker: &Docker, mut archive: Archive, deadline: Duration) -> Result<Vec<String>, String> {
    let result = docker.load(&mut archive, &Wait::at_most(deadline));
    result.map_err(|error| words(&error, archive.trouble()))
}

fn words(error: &DockerError, trouble: Option<&str>) -> String {
    match (trouble, error) {
        (Some(why), _) => why.to_owned(),
        (None, DockerError::Refused(refusal)) => refusal_words(&refusal.message),
        (None, error) => error.to_string(),
    }
}
