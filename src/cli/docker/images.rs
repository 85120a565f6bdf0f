//! `pull` and `load`: images for Docker by hand, with the credentials and the unpacking of the daemon, which
//! need not run. On a terminal a pull shows a bar, otherwise a line now and then.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use crate::base::hex::short_ids;
use crate::base::limits;
use crate::base::logging::one_line;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, fail, say};
use crate::image::archive::{Archive, refusal_words};
use crate::image::fetch;
use crate::image::node_keys::NodeKeys;
use crate::image::reference::Reference;
use crate::runtime::client::Client;
use crate::runtime::connection::Wait;
use crate::runtime::docker::{Docker, Endpoint};
use crate::runtime::progress::{Moment, Progress};
use crate::runtime::pull::Patience;
use crate::runtime::{Call, DockerError, Reply};

fn connect(options: &Options) -> Result<Docker, String> {
    match &options.docker.endpoint {
        Endpoint::Unix(path) => Ok(Docker::Engine(Client::new(path))),
        Endpoint::Fake => Err("fake:// has no images: its containers live in a daemon's memory".to_owned()),
    }
}

/// Pulls these images, one after the other; one that fails does not stop the next one.
pub fn pull(options: &Options, images: &[String]) -> Outcome {
    crate::base::logging::init(0);
    let docker = connect(options)?;
    let keys = NodeKeys::of_process(&options.directories.root);
    let patience = Patience::of(Wait::at_most(options.docker.pull_progress_deadline));
    let mut exit = Exit::Ok;
    for image in images {
        if let Err(why) = Reference::parse(image) {
            exit = fail(&format!("{image}: this is no name of an image: {why}"));
            continue;
        }
        let mut show = Show::new(image);
        let mut progress = Progress::default();
        let result = fetch::pull(&docker, image, [], &keys, &patience, &mut |message| {
            progress.take(message);
            show.update(&progress);
        });
        match result {
            Ok(_) => show.end(&format!("{image}: pulled{}", identity(&docker, image))),
            Err(error) => {
                show.end("");
                exit = fail(&format!("{image}: {error}"));
            }
        }
    }
    Ok(exit)
}

/// ` (sha256:…)`, as far as it is known.
fn identity(docker: &Docker, image: &str) -> String {
    match docker.call(&Call::ImageInspect { image: image.to_owned() }) {
        Ok(Reply::Image(detail)) => {
            let digest = detail.digests.first().and_then(|d| d.split_once('@')).map(|(_, digest)| digest);
            format!(" ({})", digest.map_or_else(|| short_ids(&detail.id), str::to_owned))
        }
        _ => String::new(),
    }
}

/// A pull on the screen. When nobody reads it any more, the pull goes on all the same.
struct Show<'a> {
    image: &'a str,
    /// Columns of the terminal; `None` when there is none.
    columns: Option<usize>,
    shown: Instant,
}

/// Between two pictures of the bar.
const FRAME: Duration = Duration::from_millis(100);
/// Columns when the terminal does not know.
const COLUMNS: usize = 80;

impl Show<'_> {
    fn new(image: &str) -> Show<'_> {
        let columns = io::stdout().is_terminal().then(|| {
            let size = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
            if size == 0 { COLUMNS } else { size }
        });
        let show = Show { image, columns, shown: Instant::now() };
        match columns {
            Some(columns) => write(&format!("\r{}", bar(image, &Moment::default(), columns))),
            None => write(&format!("{image}: pulling\n")),
        }
        show
    }

    fn update(&mut self, progress: &Progress) {
        let every = if self.columns.is_some() { FRAME } else { limits::PULL_PROGRESS };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let moment = progress.moment();
        match self.columns {
            Some(columns) => write(&format!("\r{}", bar(self.image, &moment, columns))),
            None if moment.layers == 0 => {}
            None => write(&format!("{}: {}\n", self.image, moment.words())),
        }
    }

    /// The last line.
    fn end(self, line: &str) {
        let clear = if self.columns.is_some() { "\r\x1b[K" } else { "" };
        let end = if line.is_empty() { "" } else { "\n" };
        write(&format!("{clear}{}{end}", one_line(line)));
    }
}

fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// `busybox [=====>     ]  45% 1.0 MiB of 2.2 MiB, 1 of 3 layers ready`, as wide as the terminal at most.
fn bar(image: &str, moment: &Moment, columns: usize) -> String {
    const WIDTH: usize = 20;
    let permille = moment.permille();
    let filled = usize::try_from(permille.unwrap_or(0)).unwrap_or(0).saturating_mul(WIDTH) / 1000;
    let filled = filled.min(WIDTH);
    let tip = if filled < WIDTH && filled > 0 { ">" } else { "" };
    let done = format!("{}{tip}", "=".repeat(filled));
    let percent = permille.map_or(String::new(), |p| format!("{}%", p / 10));
    let line = format!("{image} [{done:<WIDTH$}] {percent:>4} {}", moment.words());
    // A line that wraps could not be drawn over.
    let line: String = line.chars().take(columns.saturating_sub(1)).collect();
    format!("{}\x1b[K", line.trim_end())
}

/// Loads these archives, one after the other; one that fails does not stop the next one.
pub fn load(options: &Options, files: &[PathBuf]) -> Outcome {
    let docker = connect(options)?;
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
                names.iter().for_each(|n| write(&format!("{}: loaded {}\n", file.display(), short_ids(n))));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar() {
        let moment = Moment { done: 1 << 20, total: 4 << 20, exact: true, ready: 1, layers: 3 };
        let check = |moment: &Moment, columns, expected: &str| {
            assert_eq!(bar("a:1", moment, columns), format!("{expected}\x1b[K"));
        };
        check(&moment, 80, "a:1 [=====>              ]  25% 1.0 MiB of 4.0 MiB, 1 of 3 layers ready");
        check(&moment, 20, "a:1 [=====>");
        check(&Moment::default(), 80, "a:1 [                    ]");
        let all = Moment { done: 4 << 20, ready: 3, ..moment };
        check(&all, 80, "a:1 [====================] 100% 4.0 MiB of 4.0 MiB, 3 of 3 layers ready");
    }
}
