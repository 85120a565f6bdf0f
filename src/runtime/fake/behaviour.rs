//! How processes behave in the in-memory Docker: scripted, never executed.
//!
//! A script is a word list (`exit=3@500 term=143@1000`), taken from [`ENV`] or [`LABEL`], or guessed from the
//! command line: `true`, `false`, `sleep` and a little of `sh -c` are known, so that ordinary example
//! manifests run and end on `fake://` as they do on Docker. Never here: a clock or state.

use std::time::Duration;

/// Environment variable of a container that holds its script.
pub const ENV: &str = "PODKEEPER_FAKE";
/// Label with a script: the way to script a sandbox, which has no environment.
pub const LABEL: &str = "podkeeper.dev/fake";

/// The action of the main process without a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Run {
    /// Runs until it is killed.
    Forever,
    /// Ends by itself.
    Exit {
        /// Time after its start.
        after: Duration,
        /// Exit code.
        code: i64,
    },
    /// The OOM killer kills it: code 137 and the flag.
    Oom {
        /// Time after its start.
        after: Duration,
    },
    /// The executable is not in the image: the start fails.
    Missing,
}

/// The reaction of the main process to its stop signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// It ignores the signal, like PID 1 without a handler: only KILL ends it.
    Ignore,
    /// The process ends.
    Exit {
        /// Time after the signal.
        after: Duration,
        /// Exit code.
        code: i64,
    },
}

/// The script of one container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behaviour {
    /// Without a signal.
    pub run: Run,
    /// On the stop signal.
    pub term: OnTerm,
    /// Time from KILL to the end: a process stuck in the kernel. Zero: it has ended before the call returns.
    pub kill: Duration,
    /// Its standard output.
    pub output: String,
}

impl Default for Behaviour {
    /// A well-behaved server: it runs for ever, and ends with 0 immediately on TERM.
    fn default() -> Self {
        Behaviour {
            run: Run::Forever,
            term: OnTerm::Exit { after: Duration::ZERO, code: 0 },
            kill: Duration::ZERO,
            output: String::new(),
        }
    }
}

impl Behaviour {
    /// Ends with `code` this long after each start.
    #[must_use]
    pub fn exits(code: i64, after: Duration) -> Self {
        Behaviour { run: Run::Exit { after, code }, ..Self::default() }
    }

    #[must_use]
    pub fn ignores_term() -> Self {
        Behaviour { term: OnTerm::Ignore, ..Self::default() }
    }

    /// Parses a word list: `exit=CODE`, `oom`, `missing`, `term=CODE`, `term=ignore`, `kill`, each with
    /// `@MILLISECONDS` if it does not happen immediately.
    ///
    /// # Errors
    /// The first unknown word.
    pub fn script(text: &str) -> Result<Self, String> {
        let mut it = Self::default();
        for word in text.split_whitespace() {
            let unknown = || format!("{word:?} is not a word of a fake script");
            let (what, after) = word.split_once('@').unwrap_or((word, "0"));
            let after = Duration::from_millis(after.parse().map_err(|_| unknown())?);
            match what.split_once('=').unwrap_or((what, "")) {
                ("exit", code) => {
                    it.run = Run::Exit { after, code: code.parse().map_err(|_| unknown())? };
                }
                ("term", "ignore") => it.term = OnTerm::Ignore,
                ("term", code) => {
                    it.term = OnTerm::Exit { after, code: code.parse().map_err(|_| unknown())? };
                }
                ("oom", "") => it.run = Run::Oom { after },
                ("missing", "") => it.run = Run::Missing,
                ("kill", "") => it.kill = after,
                _ => return Err(unknown()),
            }
        }
        Ok(it)
    }

    /// Guesses from the command line. An executable whose name begins with `no-such` is missing; an unknown
    /// command behaves as [`Behaviour::default`].
    #[must_use]
    pub fn command(words: &[String]) -> Self {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let Some(program) = words.first().map(|w| w.rsplit('/').next().unwrap_or(w)) else {
            return Self::default();
        };
        let now = Duration::ZERO;
        match (program, words.get(1..).unwrap_or_default()) {
            (missing, _) if missing.starts_with("no-such") => {
                Behaviour { run: Run::Missing, ..Self::default() }
            }
            // A word of shells; there is no such program.
            ("exit", _) => Behaviour { run: Run::Missing, ..Self::default() },
            ("true", _) => Self::exits(0, now),
            ("false", _) => Self::exits(1, now),
            ("sleep", [time, ..]) => {
                Behaviour { run: seconds(time).map_or(Run::Forever, done_after), ..Self::ignores_term() }
            }
            ("echo", text) => Behaviour { output: format!("{}\n", text.join(" ")), ..Self::exits(0, now) },
            ("sh" | "ash" | "bash", ["-c", text, ..]) => shell(text),
            _ => Self::default(),
        }
    }
}

fn done_after(after: Duration) -> Run {
    Run::Exit { after, code: 0 }
}

/// `None` for `infinity` and for text that is not a number.
fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// `echo`, `sleep`, `exit`, `trap "exit N" TERM` in sequence; the first other statement counts as a server.
fn shell(text: &str) -> Behaviour {
    let mut it = Behaviour::ignores_term();
    let mut passed = Duration::ZERO;
    for statement in text.split(['\n', ';', '&']).map(str::trim).filter(|s| !s.is_empty()) {
        let statement = statement.strip_prefix("exec ").unwrap_or(statement);
        let (word, rest) = statement.split_once(' ').unwrap_or((statement, ""));
        match word {
            "echo" => it.output.push_str(&format!("{}\n", rest.trim_matches(['"', '\'']))),
            "true" | ":" => {}
            "sleep" => match seconds(rest) {
                Some(time) => passed = passed.saturating_add(time),
                None => return it,
            },
            "exit" => {
                it.run = Run::Exit { after: passed, code: rest.parse().unwrap_or(0) };
                return it;
            }
            "trap" => {
                let code = rest.split(['"', '\'']).nth(1).and_then(|s| s.strip_prefix("exit"));
                if let Some(code) = code {
                    it.term = OnTerm::Exit { after: Duration::ZERO, code: code.trim().parse().unwrap_or(0) };
                }
            }
            _ => return it,
        }
    }
    it.run = done_after(passed);
    it
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn scripts() {
        let check =
            |text: &str, expected: Behaviour| assert_eq!(Behaviour::script(text), Ok(expected), "{text}");
        let default = Behaviour::default;
        check("", default());
        check("exit=3@500", Behaviour::exits(3, ms(500)));
        check("term=ignore kill@20", Behaviour { kill: ms(20), ..Behaviour::ignores_term() });
        check("oom@5", Behaviour { run: Run::Oom { after: ms(5) }, ..default() });
        check("missing", Behaviour { run: Run::Missing, ..default() });
        check("term=143@9", Behaviour { term: OnTerm::Exit { after: ms(9), code: 143 }, ..default() });
        for bad in ["exit", "exit=x", "term=", "oom@x", "dance", "kill=3"] {
            assert_eq!(Behaviour::script(bad), Err(format!("{bad:?} is not a word of a fake script")));
        }
    }

    #[test]
    fn commands() {
        let run = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let it = Behaviour::command(&words);
            (it.run, it.term == OnTerm::Ignore, it.output)
        };
        let exit = |code, after| Run::Exit { after: ms(after), code };
        let check = |words: &[&str], expected: Run, deaf: bool, output: &str| {
            assert_eq!(run(words), (expected, deaf, output.to_string()), "{words:?}");
        };
        check(&[], Run::Forever, false, "");
        check(&["/usr/sbin/nginx", "-g"], Run::Forever, false, "");
        check(&["/bin/true"], exit(0, 0), false, "");
        check(&["false"], exit(1, 0), false, "");
        check(&["sleep", "1.5"], exit(0, 1500), true, "");
        check(&["sleep", "infinity"], Run::Forever, true, "");
        check(&["exit", "1"], Run::Missing, false, "");
        check(&["/bin/no-such-thing"], Run::Missing, false, "");
        check(&["sh", "-c", "echo hello; sleep 2 && exit 3"], exit(3, 2000), true, "hello\n");
        check(&["sh", "-c", "echo 'a b'\necho c"], exit(0, 0), true, "a b\nc\n");
        check(&["sh", "-c", "httpd -f"], Run::Forever, true, "");
        check(&["sh", "-c", "trap 'exit 7' TERM; while :; do sleep 1; done"], Run::Forever, false, "");
        check(&["sh"], Run::Forever, false, "");
    }
}
