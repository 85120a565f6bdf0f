//! Messages to the service manager about this service (`sd_notify(3)`): one datagram each, to the socket that systemd
//! names in the environment. Without such a socket nothing is sent.
//!
//! Never here: a decision about the message or its time.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::limits;
use crate::base::program::NOTIFY;

/// The connection to the service manager. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Notifier {
    line: Option<Arc<Line>>,
    /// The longest time between two signs of life that the manager accepts; `None`: it does not ask for them.
    pub(super) watchdog: Option<Duration>,
}

#[derive(Debug)]
struct Line {
    socket: UnixDatagram,
    to: SocketAddr,
    /// A failure was logged already.
    complained: AtomicBool,
}

impl Notifier {
    /// Reads the environment of this process.
    pub(super) fn of_environment() -> Notifier {
        Notifier::new(|name| std::env::var_os(name), std::process::id())
    }

    fn new(variable: impl Fn(&str) -> Option<OsString>, pid: u32) -> Notifier {
        let [socket, period, of] = NOTIFY.map(variable);
        let Some(name) = socket.filter(|name| !name.is_empty()) else { return Notifier::default() };
        let line = match line(&name) {
            Ok(line) => line,
            Err(error) => {
                log::warn!(
                    "NOTIFY_SOCKET {name:?} cannot be used: {error}; the service manager is told nothing"
                );
                return Notifier::default();
            }
        };
        let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
        // The variables are inherited: they may be meant for the parent process.
        let ours = of.is_none_or(|of| number(of) == Some(pid.into()));
        let period = period.filter(|_| ours).and_then(number).filter(|micros| *micros > 0);
        Notifier { line: Some(Arc::new(line)), watchdog: period.map(Duration::from_micros) }
    }

    /// Whether there is a service manager.
    pub(super) fn listens(&self) -> bool {
        self.line.is_some()
    }

    /// Sends the text, or drops it: a manager that does not read delays the caller by at most
    /// [`limits::NOTIFY_PATIENCE`].
    pub(super) fn send(&self, text: &str) {
        let Some(line) = &self.line else { return };
        match line.socket.send_to_addr(text.as_bytes(), &line.to) {
            Ok(_) => line.complained.store(false, Ordering::Relaxed),
            Err(error) => {
                if !line.complained.swap(true, Ordering::Relaxed) {
                    log::warn!("the service manager cannot be told anything: {error}");
                }
            }
        }
    }
}

fn line(name: &OsStr) -> io::Result<Line> {
    let to = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(name)?,
        _ => {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "it is neither a path nor an abstract name",
            ));
        }
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_write_timeout(Some(limits::NOTIFY_PATIENCE))?;
    Ok(Line { socket, to, complained: AtomicBool::new(false) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notifier(socket: &str, period: Option<&str>, pid: Option<&str>) -> Notifier {
        let variable = |name: &str| {
            let value = match name {
                "NOTIFY_SOCKET" => Some(socket),
                "WATCHDOG_USEC" => period,
                "WATCHDOG_PID" => pid,
                _ => None,
            };
            value.map(OsString::from)
        };
        Notifier::new(variable, 42)
    }

    fn heard(at: &UnixDatagram) -> String {
        let mut bytes = [0; 128];
        let length = at.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    #[test]
    fn both_kinds_of_sockets_are_told() {
        let dir = crate::base::testing::scratch("notify");
        let path = dir.join("socket");
        let name = format!("podkeeper-test-{}", std::process::id());
        let here = UnixDatagram::bind(&path).unwrap();
        notifier(path.to_str().unwrap(), None, None).send("READY=1");
        assert_eq!(heard(&here), "READY=1");
        let here = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        notifier(&format!("@{name}"), None, None).send("STOPPING=1");
        assert_eq!(heard(&here), "STOPPING=1");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn nobody_is_told_where_nobody_can_be() {
        for socket in ["", "vsock:2:1234", "relative"] {
            let notifier = notifier(socket, Some("1000000"), None);
            assert!(!notifier.listens() && notifier.watchdog.is_none(), "{socket}");
            notifier.send("READY=1");
        }
        notifier("/nonexistent/socket", None, None).send("READY=1");
    }

    #[test]
    fn a_manager_that_does_not_read_holds_nobody_up() {
        let name = format!("podkeeper-test-full-{}", std::process::id());
        let _deaf = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let notifier = notifier(&format!("@{name}"), None, None);
        let line = notifier.line.as_ref().unwrap();
        line.socket.set_write_timeout(Some(Duration::from_millis(1))).unwrap();
        while !line.complained.load(Ordering::Relaxed) {
            notifier.send("WATCHDOG=1");
        }
    }

    #[test]
    fn the_watchdog_is_this_process_own() {
        let watchdog = |period, pid| notifier("/x", period, pid).watchdog;
        let second = Some(Duration::from_secs(1));
        assert_eq!(watchdog(Some("1000000"), None), second);
        assert_eq!(watchdog(Some("1000000"), Some("42")), second);
        assert_eq!(watchdog(Some("1000000"), Some("43")), None, "it is of another process");
        for period in [None, Some("0"), Some("x"), Some("-1")] {
            assert_eq!(watchdog(period, None), None, "{period:?}");
        }
    }
}
