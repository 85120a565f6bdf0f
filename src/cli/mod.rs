//! The command line: `flags` -> plain arguments (pure) -> configuration; one file per subcommand.
//! `show` has the commands that show the daemon's files, `docker` those that speak to Docker.
//! No code here decides about pods.

mod check;
mod completion;
mod config;
mod config_file;
mod configz;
mod docker;
mod drain;
pub mod exit;
pub mod flags;
mod forget;
mod given;
pub mod help;
mod hollow;
mod join;
mod kubeconfig;
mod lock;
mod nearest;
mod page;
pub mod parse;
mod pods;
mod reload;
mod rules;
mod run;
mod show;
#[cfg(test)]
mod tests;
pub mod value;
mod verbs;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use exit::Exit;
use parse::{Command, Files};

/// podkeeper's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs podkeeper with these arguments (without the program's name).
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let files = Files { read: &config_file::read, list: &config_file::files::list };
    let arguments: Vec<OsString> = arguments.collect();
    let command = match parse::parse_with(arguments.iter().cloned(), files) {
        Ok(command) => command,
        Err(error) => {
            say(&error.to_string());
            return error.exit.into();
        }
    };
    let outcome = match command {
        Command::Run(parsed) => Ok(run::run(&parsed, arguments)),
        Command::Check(parsed, paths) => Ok(check::run(&parsed, &paths)),
        Command::Config(parsed) => Ok(config::run(&parsed)),
        Command::Forget(options, source) => forget::run(&options, source),
        Command::Drain(options) => drain::drain(&options),
        Command::Resume(options) => drain::resume(&options),
        Command::Get(options, names) => show::get::run(&options, &names),
        Command::GetEvents(options) => show::events::run(&options),
        Command::GetSources(options) => show::sources::run(&options),
        Command::GetObjects(options, kind, names) => show::objects::run(&options, kind, &names),
        Command::Describe(options, names) => show::describe::run(&options, &names),
        Command::GetNode(options, names) => show::node::get(&options, &names),
        Command::DescribeNode(options, names) => show::node::describe(&options, &names),
        Command::TopNode(options, names) => show::top::node(&options, &names),
        Command::TopPods(options, names) => show::top::pods(&options, &names),
        Command::Stats(options) => docker::stats::run(&options),
        Command::Logs(options, of) => docker::logs::run(&options, &of),
        Command::Restart(options, pod) => docker::restart::run(&options, &pod),
        Command::Attach(options, pod) => docker::attach::run(&options, &pod),
        Command::PortForward(options, pod, ports) => docker::port_forward::run(&options, &pod, &ports),
        Command::Copy(options, copied) => docker::cp::run(&options, &copied),
        Command::Exec(options, pod, command) => docker::exec::run(&options, &pod, command),
        Command::Debug(options, pod, command) => docker::debug::run(&options, &pod, &command),
        Command::Explain(options, field) => show::explain::run(&options, &field),
        Command::Pull(options, images) => docker::pull::run(&options, &images),
        Command::Load(options, files) => docker::load::run(&options, &files),
        Command::Images(options) => docker::images::run(&options),
        Command::Prune(options) => docker::prune::run(&options),
        Command::Completion(shell) => Ok(print(&completion::text(shell))),
        Command::Kubeconfig(options) => kubeconfig::run(&options),
        Command::Page(options) => page::run(&options),
        Command::Join(options, server) => join::run(&options, &server),
        Command::Hollow(parsed) => hollow::run(&parsed),
        Command::Version => Ok(print(&format!("podkeeper {VERSION}\n"))),
        Command::Help(verb) => Ok(print(&help::text(verb))),
    };
    outcome.unwrap_or_else(|message| fail(&message)).into()
}

/// The result of a command. An error is a message for the user and means exit code 1.
type Outcome = Result<Exit, String>;

/// Writes to standard output. Returns false when the reader went away (`| head`), which is no failure.
fn write(text: &str) -> Result<bool, String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write: {error}")),
    }
}

/// Writes to standard output; reports a failure at once.
fn print(text: &str) -> Exit {
    write(text).map_or_else(|message| fail(&message), |_| Exit::Ok)
}

/// Writes lines to standard error; a failure to do so is ignored.
fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes `error: …` to standard error; returns exit code 1.
fn fail(message: &str) -> Exit {
    say(&format!("error: {}", crate::base::logging::one_line(message)));
    Exit::Failure
}
