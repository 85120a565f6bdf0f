//! `pull`: pulls images with the credentials of the daemon, which need not run. It shows a progress bar on a terminal,
//! otherwise a line now and then.

use std::io::{self, IsTerminal};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use super::engine;
use crate::base::hex::short_ids;
use crate::base::limits;
use crate::base::logging::one_line;
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, fail};
use crate::image::fetch::{self, Consent};
use crate::image::node_keys::NodeKeys;
use crate::image::reference::Reference;
use crate::runtime::connection::Wait;
use crate::runtime::docker::Docker;
use crate::runtime::progress::{Moment, Progress};
use crate::runtime::pull::Patience;

/// Pulls these images.
pub fn run(options: &Options, images: &[String]) -> Outcome {
    let docker = engine::docker(&options.docker.endpoint)?;
    Ok(all(&docker, &options.directories.root, options.docker.pull_progress_deadline, images))
}

/// Pulls these images, one after the other; a failure does not stop the next one. The credentials are those of this
/// root directory. A pull without progress for longer than `deadline` is given up.
pub fn all(docker: &Docker, root_dir: &Path, deadline: Duration, images: &[String]) -> Exit {
    crate::base::logging::init(0);
    let keys = NodeKeys::of_process(root_dir);
    let patience = Patience::of(Wait::at_most(deadline));
    let mut exit = Exit::Ok;
    for image in images {
        if let Err(why) = Reference::parse(image) {
            exit = fail(&format!("{image}: this is no name of an image: {why}"));
            continue;
        }
        let mut screen = Show::new(image);
        let mut progress = Progress::default();
        let result = fetch::pull(docker, image, [], &keys, Consent::Pull, &patience, &mut |message| {
            progress.take(message);
            screen.update(&progress);
        });
        match result {
            Ok(_) => screen.end(&format!("{image}: pulled{}", identity(docker, image))),
            Err(error) => {
                screen.end("");
                exit = fail(&format!("{image}: {error}"));
            }
        }
    }
    exit
}

/// ` (sha256:…)`, as far as it is known.
fn identity(docker: &Docker, image: &str) -> String {
    match docker.inspect_image(image) {
        Ok(detail) => {
            let digest = detail.digests.first().and_then(|d| d.split_once('@')).map(|(_, digest)| digest);
            format!(" ({})", digest.map_or_else(|| short_ids(&detail.id), str::to_owned))
        }
        Err(_) => String::new(),
    }
}

/// Writes a part of the picture.
fn show(text: &str) {
    // A pull goes on without a reader.
    _ = crate::cli::write(text);
}

/// The progress of a pull on the screen. The pull goes on without a reader.
struct Show<'a> {
    image: &'a str,
    /// Columns of the terminal; `None` when output is no terminal.
    columns: Option<usize>,
    shown: Instant,
}

/// Time between two pictures of the bar.
const FRAME: Duration = Duration::from_millis(100);
/// Columns of a terminal that does not report its size.
const COLUMNS: usize = 80;

impl Show<'_> {
    fn new(image: &str) -> Show<'_> {
        let columns = io::stdout().is_terminal().then(|| {
            let size = tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
            if size == 0 { COLUMNS } else { size }
        });
        let screen = Show { image, columns, shown: Instant::now() };
        match columns {
            Some(columns) => show(&format!("\r{}", bar(image, &Moment::default(), columns))),
            None => show(&format!("{image}: pulling\n")),
        }
        screen
    }

    fn update(&mut self, progress: &Progress) {
        let every = if self.columns.is_some() { FRAME } else { limits::PULL_PROGRESS };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        let moment = progress.moment();
        match self.columns {
            Some(columns) => show(&format!("\r{}", bar(self.image, &moment, columns))),
            None if moment.layers == 0 => {}
            None => show(&format!("{}: {}\n", self.image, moment.words())),
        }
    }

    /// Writes the last line.
    fn end(self, line: &str) {
        let clear = if self.columns.is_some() { "\r\x1b[K" } else { "" };
        let end = if line.is_empty() { "" } else { "\n" };
        show(&format!("{clear}{}{end}", one_line(line)));
    }
}

/// `busybox [=====>  ]  45% 1.0 MiB of 2.2 MiB, 1 of 3 layers ready`, at most as wide as the terminal.
fn bar(image: &str, moment: &Moment, columns: usize) -> String {
    const WIDTH: usize = 20;
    let permille = moment.permille();
    let filled = usize::try_from(permille.unwrap_or(0)).unwrap_or(0).saturating_mul(WIDTH) / 1000;
    let filled = filled.min(WIDTH);
    let tip = if filled < WIDTH && filled > 0 { ">" } else { "" };
    let done = format!("{}{tip}", "=".repeat(filled));
    let percent = permille.map_or(String::new(), |p| format!("{}%", p / 10));
    let line = format!("{image} [{done:<WIDTH$}] {percent:>4} {}", moment.words());
    // A line that wraps cannot be overwritten.
    let line: String = line.chars().take(columns.saturating_sub(1)).collect();
    format!("{}\x1b[K", line.trim_end())
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
