//! The user's terminal while a command in a container uses it: it is raw, its size is passed on, and its settings are
//! restored on every way out, also when a signal ends the process.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::base::{limits, thread};
use crate::cli::say;

/// The original settings of the terminal; `None` while it is not raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether standard input is a terminal. If not, the user, who asked for one, gets a message.
#[must_use]
pub fn is_usable() -> bool {
    let usable = io::stdin().is_terminal();
    if !usable {
        say("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    usable
}

/// Rows and columns; `None` when they are not known.
#[must_use]
pub fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stdin()).ok()?;
    (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
}

/// Raw mode, until dropped.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    /// Sets raw mode: each key is passed on as it is, without echo. From then on a thread calls `resized` whenever the
    /// size changes. A signal that ends the process restores the terminal first.
    ///
    /// # Errors
    /// Standard input is no terminal, or the thread cannot be made.
    pub fn enter(resized: impl Fn(u16, u16) + Send + 'static) -> io::Result<Raw> {
        let before = tcgetattr(io::stdin())?;
        let mut signals = Signals::new([SIGWINCH, SIGTERM, SIGHUP, SIGINT, SIGQUIT])?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let guard = Raw(());
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
        let watch = move || {
            for signal in signals.forever() {
                if signal != SIGWINCH {
                    restore();
                    // Ends the process as the signal would have, so that the parent sees it.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                } else if let Some((rows, columns)) = size() {
                    resized(rows, columns);
                }
            }
        };
        thread::spawn("pk-terminal", limits::MAIN_STACK, watch)?;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the settings of the terminal; a second call does nothing.
fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}
