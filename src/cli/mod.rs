//! The command line: flag table -> plain arguments (pure) -> configuration; one file per subcommand.

use std::ffi::OsString;
use std::process::ExitCode;

/// Runs podkeeper with these arguments (without the program's name).
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = arguments;
    ExitCode::SUCCESS
}
