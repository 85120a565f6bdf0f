//! The first half of a connection to a server: looking up its addresses, TCP, and reads and writes with a deadline.
//!
//! Never here: a wait without an end; a wait that makes its thread look busy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::base::handover::handover;
use crate::base::{limits, pulse, thread};

/// Looks names up. The system's resolver cannot be interrupted and may hang for minutes: it has its own
/// thread, and while that thread hangs no second one is started.
#[derive(Debug, Clone, Default)]
pub struct Names {
    hangs: Arc<AtomicBool>,
}

impl Names {
    /// Addresses of the server, in the order to try. `localhost` is never looked up, so that it is always
    /// loopback.
    ///
    /// # Errors
    /// The name has no addresses, or they cannot be found in time.
    pub fn find(&self, host: &str, port: u16, patience: Duration) -> Result<Vec<SocketAddr>, String> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        if host == "localhost" {
            return Ok(vec![(Ipv4Addr::LOCALHOST, port).into(), (Ipv6Addr::LOCALHOST, port).into()]);
        }
        let name = host.to_owned();
        let late = || format!("the name {} could not be resolved in time", host);
        if self.hangs.swap(true, Ordering::AcqRel) {
            return Err(late());
        }
        let (found, wait) = handover();
        let hangs = Arc::clone(&self.hangs);
        let look_up = move || {
            let addresses = (name.as_str(), port).to_socket_addrs();
            // The answer is dropped if the caller no longer waits.
            found.give(addresses.map(|all| all.take(limits::URL_ADDRESSES).collect::<Vec<_>>()));
            hangs.store(false, Ordering::Release);
        };
        if let Err(error) = thread::spawn("pk-resolve", limits::URL_STACK, look_up) {
            self.hangs.store(false, Ordering::Release);
            return Err(format!("no thread could be started to resolve {}: {error}", host));
        }
        match pulse::waits(|| wait.take(patience)) {
            Ok(Ok(addresses)) if !addresses.is_empty() => Ok(addresses),
            Ok(Ok(_)) => Err(format!("the name {} has no address", host)),
            Ok(Err(error)) => Err(format!("the name {} cannot be resolved: {error}", host)),
            Err(_) => Err(late()),
        }
    }
}

/// Connects to the first address that answers, within `patience` and until `whole`.
///
/// # Errors
/// The reason, as text.
pub fn connect(addresses: &[SocketAddr], patience: Duration, whole: Instant) -> Result<TcpStream, String> {
    let until = whole.min(Instant::now() + patience);
    let mut last = "the server has no address".to_owned();
    for (tried, address) in addresses.iter().enumerate() {
        let left = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        // One address that never answers must not use up the time of the others.
        let turn = until.saturating_duration_since(Instant::now()) / left;
        if turn.is_zero() {
            return Err(format!("no connection within {:?}", patience));
        }
        match pulse::waits(|| TcpStream::connect_timeout(address, turn)) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                last = format!("no connection within {:?}", patience);
            }
            Err(error) => last = format!("no connection: {error}"),
        }
    }
    Err(last)
}

/// A socket whose reads and writes have a deadline.
#[derive(Debug)]
pub struct Socket {
    /// Shutting it down from another thread ends them at once.
    pub stream: Arc<TcpStream>,
    pub until: Instant,
}

impl Socket {
    fn left(&self) -> io::Result<Option<Duration>> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(ErrorKind::TimedOut.into()),
            left => Ok(Some(left)),
        }
    }
}

/// Converts the error of a socket's time-out: the system reports "would block".
fn late(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        pulse::waits(|| (&*self.stream).read(buffer)).map_err(late)
    }
}

impl Write for Socket {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        pulse::waits(|| (&*self.stream).write(buffer)).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::base::pulse::Pulses;

    #[test]
    fn a_thread_that_reads_from_a_quiet_server_waits_and_is_not_busy() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = Arc::new(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
        let (mut server, _) = listener.accept().unwrap();
        let pulses = Pulses::default();
        let (of_thread, shared) = (pulses.clone(), Arc::clone(&stream));
        let (told, tells) = std::sync::mpsc::sync_channel(0);
        let thread = std::thread::spawn(move || {
            of_thread.join(());
            told.send(()).unwrap();
            let mut socket = Socket { stream: shared, until: Instant::now() + Duration::from_secs(600) };
            let read = socket.read(&mut [0]).unwrap();
            told.send(()).unwrap();
            read
        });
        tells.recv().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        while !pulses.busy().is_empty() {
            assert!(Instant::now() < limit, "it waits for the server, and counts as busy");
            std::thread::yield_now();
        }
        server.write_all(b"x").unwrap();
        tells.recv().unwrap();
        assert_eq!(thread.join().unwrap(), 1);
    }
}
