//! The command line: `flags` -> plain arguments (pure) -> configuration; one file per subcommand.
//! Nothing is decided here about pods: the daemon's snapshot is shown, Docker is asked.

mod check;
mod columns;
mod config_file;
mod debug;
mod describe;
mod drain;
pub mod engine;
mod events;
mod exec;
pub mod exit;
mod explain;
pub mod flags;
mod forget;
mod get;
pub mod help;
mod human;
mod images;
mod lock;
mod logs;
#[cfg(test)]
mod man;
mod nearest;
pub mod parse;
mod pods;
mod profile;
mod rules;
mod run;
mod sources;
mod table;
mod target;
mod terminal;
pub mod value;
mod verbs;
mod watch;
mod yaml;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use exit::Exit;
use parse::Command;

/// podkeeper's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs podkeeper with these arguments (without the program's name).
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let command = match parse::parse(arguments, &config_file::read) {
        Ok(command) => command,
        Err(error) => {
            say(&error.to_string());
            return error.exit.into();
        }
    };
    let outcome = match command {
        Command::Run(options) => Ok(run::run(&options)),
        Command::Check(options, paths) => Ok(check::run(&options, &paths)),
        Command::Forget(options, source) => forget::run(&options, source),
        Command::Drain(options) => drain::drain(&options),
        Command::Resume(options) => drain::resume(&options),
        Command::Get(options, names) => get::run(&options, &names),
        Command::GetEvents(options) => events::run(&options),
        Command::GetSources(options) => sources::run(&options),
        Command::Describe(options, names) => describe::run(&options, &names),
        Command::Logs(options, pod) => logs::run(&options, &pod),
        Command::Exec(options, pod, command) => exec::run(&options, &pod, command),
        Command::Debug(options, pod, command) => debug::run(&options, &pod, &command),
        Command::Explain(options, field) => explain::run(&options, &field),
        Command::Pull(options, images) => images::pull(&options, &images),
        Command::Load(options, files) => images::load(&options, &files),
        Command::Version => Ok(print(&format!("podkeeper {VERSION}\n"))),
        Command::Help(verb) => Ok(print(&help::text(verb))),
    };
    outcome.unwrap_or_else(|message| fail(&message)).into()
}

/// How a command ends. An error is a message for the user, and exit code 1.
type Outcome = Result<Exit, String>;

/// Writes to standard output. False when its reader went away (`| head`), which is no failure.
fn write(text: &str) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// Writes to standard output; a failure is told at once.
fn print(text: &str) -> Exit {
    write(text).map_or_else(|message| fail(&message), |_| Exit::Ok)
}

/// Writes lines to standard error; when nobody reads them, there is nobody left to tell.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// `error: …` on standard error, exit code 1.
fn fail(message: &str) -> Exit {
    say(&format!("error: {}", crate::base::logging::one_line(message)));
    Exit::Failure
}

/// Compares with a golden file, or rewrites it when the environment has `UPDATE=1`.
#[cfg(test)]
pub(crate) fn golden(name: &str, got: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, got).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(got, expected, "{} (UPDATE=1 rewrites it)", path.display());
}

/// A new empty directory for a test.
#[cfg(test)]
pub(crate) fn scratch(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("podkeeper-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
