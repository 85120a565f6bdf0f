//! Signal handling, separate from the main thread and from every disk: SIGTERM ends the daemon even when
//! both hang.
//!
//! Never here: reading a file in the thread that catches signals.

use std::io;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGURG};

use crate::base::{limits, thread};
use crate::daemon::drain::{self, Drain, Places};
use crate::daemon::reload::{Reader, Reload};

/// The request of a signal.
#[derive(Debug, PartialEq)]
pub enum Signal {
    /// Look at the sources again. Holds the current marker of a drained node.
    Rescan(Option<Drain>),
    /// The settings were read again, and differ from those in force.
    Reloaded(Box<Reload>),
    /// Asks whether the main thread still works.
    Ask,
    /// SIGTERM or SIGINT.
    End(i32),
}

/// Catches signals from now on. A first [`Signal::Rescan`] comes by itself, with the marker at the start; `marker` says
/// where that may be.
///
/// # Errors
/// A thread could not be started, or a handler could not be set.
pub fn catch(marker: Places, mut settings: Reader) -> io::Result<Receiver<Signal>> {
    let mut caught = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM, SIGURG])?;
    let (out, signals) = bounded(limits::SIGNAL_QUEUE);
    let rescan = rescans(move || drain::read(&marker), move || (settings.0)(), out.clone())?;
    // The channel is new, so it has room.
    let _room = rescan.try_send(());
    thread::spawn("pk-signals", limits::WORKER_STACK, move || {
        for signal in caught.forever() {
            match signal {
                SIGHUP => {
                    log::info!("signal 1: settings, manifests, archives and images are looked at again");
                    // A full channel holds the same request.
                    _ = rescan.try_send(());
                }
                // When the channel is full, the main thread hangs, or is about to answer.
                SIGURG => match out.try_send(Signal::Ask) {
                    Err(TrySendError::Disconnected(_)) => return,
                    Ok(()) | Err(TrySendError::Full(_)) => {}
                },
                _ => end(&out, signal),
            }
        }
    })?;
    Ok(signals)
}

/// Starts the thread that reads the settings and the marker on request and sends them. On a dead disk only this thread
/// hangs. At first the settings are those of the start.
fn rescans(
    read: impl Fn() -> Option<Drain> + Send + 'static,
    mut settings: impl FnMut() -> Option<Reload> + Send + 'static,
    out: Sender<Signal>,
) -> io::Result<Sender<()>> {
    let (ask, asked) = bounded(1);
    thread::spawn("pk-marker", limits::WORKER_STACK, move || {
        let mut is_first = true;
        for () in asked {
            if !std::mem::take(&mut is_first)
                && let Some(reload) = settings()
                && out.send(Signal::Reloaded(Box::new(reload))).is_err()
            {
                return;
            }
            if out.send(Signal::Rescan(read())).is_err() {
                return;
            }
        }
    })?;
    Ok(ask)
}

/// Tells the main thread to end, and ends the process if it does not end in time: a dead file system must not
/// keep the daemon alive. The pods go on running.
fn end(out: &Sender<Signal>, signal: i32) {
    let latest = Instant::now() + limits::END_PATIENCE;
    _ = out.send_deadline(Signal::End(signal), latest);
    std::thread::sleep(latest.saturating_duration_since(Instant::now()));
    log::warn!("podkeeper ends without waiting any longer for what hangs");
    std::process::exit(0);
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::unbounded;

    use super::*;

    #[test]
    fn a_marker_on_a_dead_disk_holds_no_signal_up() {
        let (answer, dead) = unbounded();
        let (began, begun) = unbounded();
        let (out, signals) = unbounded();
        let read = move || {
            let _told = began.send(());
            dead.recv().ok()
        };
        let ask = rescans(read, || None, out).unwrap();
        ask.try_send(()).unwrap();
        begun.recv().unwrap();
        // The thread hangs now. One more request is kept, because the marker may change meanwhile; further
        // ones are refused.
        ask.try_send(()).unwrap();
        assert!(ask.try_send(()).is_err());
        assert!(signals.is_empty());
        drop(answer);
        let said: Vec<Signal> = signals.iter().take(2).collect();
        assert_eq!(said, [Signal::Rescan(None), Signal::Rescan(None)]);
        // The thread ends when its sender is dropped.
        drop(ask);
        assert!(signals.recv().is_err());
    }

    #[test]
    fn settings_are_read_at_each_signal_but_not_at_the_start() {
        let (out, signals) = unbounded();
        let settings = || Some(Reload::Refused("wrong".to_owned()));
        let ask = rescans(|| None, settings, out).unwrap();
        ask.send(()).unwrap();
        assert_eq!(signals.recv().unwrap(), Signal::Rescan(None));
        ask.send(()).unwrap();
        let told = Signal::Reloaded(Box::new(Reload::Refused("wrong".to_owned())));
        assert_eq!(signals.iter().take(2).collect::<Vec<_>>(), [told, Signal::Rescan(None)]);
    }
}
