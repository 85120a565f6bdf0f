//! Exit codes: one closed list, the same in the man page. Scripts rely on them; a number never changes its meaning.

use std::process::ExitCode;

/// Makes the type, its numbers and the table of the man page from one list: code, name, meaning.
macro_rules! exits {
    ($($code:literal $exit:ident $meaning:literal;)+) => {
        /// How a subcommand ends.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Exit {
            $(#[doc = $meaning] $exit,)+
            /// `exec`: the exit code of the command in the container, 0 to 255 (137 for SIGKILL).
            Command(u8),
        }

        impl Exit {
            /// Every fixed code with its meaning, as the man page lists them.
            pub const TABLE: &[(Exit, &str)] = &[$((Exit::$exit, $meaning),)+];

            /// The number of the exit code.
            #[must_use]
            pub fn code(self) -> u8 {
                match self {
                    $(Exit::$exit => $code,)+
                    Exit::Command(code) => code,
                }
            }
        }
    };
}

exits! {
    0 Ok "success";
    1 Failure "failure, or errors found by check";
    2 Usage "usage error";
    3 AlreadyRunning "another podkeeper runs on this root directory or run directory";
    4 Directory "the root directory or the run directory cannot be used";
    5 TimedOut "drain: not all pods stopped in time";
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
