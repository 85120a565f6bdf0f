//! The user's terminal while a command in a container has it: raw, its size passed on, and put back on
//! every way out, also when a signal ends us.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;

use crate::cli::say;

/// How the terminal was before; `None` when it is not ours.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Whether standard input is a terminal. If not, the user, who asked for one, is told.
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

/// Raw mode, until it is dropped.
#[derive(Debug)]
pub struct Raw(());

impl Raw {
    /// Passes each key on as it is, without echo. From here on `resized` is called, on a thread of its
    /// own, whenever the size changes; a signal that ends the process puts the terminal back first.
    ///
    /// # Errors
    /// Standard input is no terminal, or no thread can be had.
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
                    // Ends the process as the signal would have, so that our parent sees it.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                } else if let Some((rows, columns)) = size() {
                    resized(rows, columns);
                }
            }
        };
        std::thread::Builder::new().name("pk-terminal".into()).spawn(watch)?;
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back as it was; a second call does nothing.
fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}
