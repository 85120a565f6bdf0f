//! Exit codes: one closed list, the same in the man page. Scripts rely on them; a number never changes
//! its meaning.

use std::process::ExitCode;

/// How a subcommand ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Ok,
    /// 1: it failed, or (`check`) problems were found.
    Failure,
    /// 2: the command line makes no sense.
    Usage,
    /// 3: another podkeeper runs on this root directory or run directory.
    AlreadyRunning,
    /// 4: the root directory or the run directory cannot be used.
    Directory,
    /// 5: `drain`: not all pods stopped in time.
    TimedOut,
    /// `exec`: what the command in the container exited with, 0 to 255 (137 for SIGKILL).
    Command(u8),
}

impl Exit {
    /// Every fixed code with its number and meaning, as the man page lists them.
    pub const TABLE: &[(u8, &str)] = &[
        (0, "success"),
        (1, "failure, or errors found by check"),
        (2, "usage error"),
        (3, "another podkeeper runs on this root directory or run directory"),
        (4, "the root directory or the run directory cannot be used"),
        (5, "drain: not all pods stopped in time"),
    ];

    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::AlreadyRunning => 3,
            Exit::Directory => 4,
            Exit::TimedOut => 5,
            Exit::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
