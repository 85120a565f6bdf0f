//! Commands that a test waits for, with a limit: one that hangs fails its test, and not the whole run.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Far more than any command needs, for machines that are busy.
const LIMIT: Duration = Duration::from_secs(300);

/// A command that must end.
pub trait Bounded {
    /// Runs it without input, and collects its output.
    ///
    /// # Panics
    /// When it cannot be started, or has not ended within five minutes: then it is killed.
    fn ends(&mut self) -> Output {
        self.ends_with(b"")
    }

    /// The same with this input; it may end before it has read everything.
    ///
    /// # Panics
    /// As [`Bounded::ends`].
    fn ends_with(&mut self, input: &[u8]) -> Output;
}

impl Bounded for Command {
    fn ends_with(&mut self, input: &[u8]) -> Output {
        let mut child =
            self.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let mut stdin = child.stdin.take().unwrap();
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || _ = stdin.write_all(input));
            let ended = scope.spawn(move || {
                let in_time = is_done.recv_timeout(LIMIT) != Err(RecvTimeoutError::Timeout);
                if !in_time {
                    _ = rustix::process::kill_process(pid, Signal::KILL);
                }
                in_time
            });
            let output = child.wait_with_output().unwrap();
            drop(done);
            assert!(ended.join().unwrap(), "{self:?} has not ended in {LIMIT:?}: {output:?}");
            output
        })
    }
}
