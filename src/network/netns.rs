//! Sockets in the network namespace of a pod.
//!
//! A socket belongs to the namespace of the thread that creates it, even if another thread connects it. So one thread
//! enters the pod's namespace and creates sockets there on request; no other thread of the daemon ever leaves its own
//! namespace.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crossbeam_channel::{Sender, bounded};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::base::handover::{Taker, handover};
use crate::base::{limits, thread};
use crate::runtime::docker::Docker;

/// A thread in a network namespace. It ends when this is dropped.
#[derive(Debug)]
pub struct Netns {
    ask: Sender<AddressFamily>,
    made: Taker<io::Result<OwnedFd>>,
}

impl Netns {
    /// Enters the namespace of a running container.
    ///
    /// # Errors
    /// Why it cannot be entered, as a text for the client.
    pub fn of_container(docker: &Docker, id: &str) -> Result<Netns, String> {
        let process = || match docker.process(id) {
            Ok(Some(pid)) => Ok(pid),
            Ok(None) => Err("the container is not running".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let pid = process()?;
        let namespace = File::open(format!("/proc/{pid}/ns/net"))
            .map_err(|error| format!("its network namespace cannot be opened: {error}"))?;
        // The id of a process that has ended may be reused. If the container still has this process, the entered
        // namespace was the right one.
        if process()? != pid {
            return Err("the container was restarted".to_owned());
        }
        Netns::enter(namespace.into())
            .map_err(|error| format!("its network namespace cannot be entered: {error}"))
    }

    fn enter(namespace: OwnedFd) -> io::Result<Netns> {
        let (ask, asked) = bounded::<AddressFamily>(0);
        let (answer, made) = handover();
        let body = move || {
            let moved = move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network));
            drop(namespace);
            for family in asked {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let socket = moved.and_then(|()| socket_with(family, SocketType::STREAM, flags, None));
                if !answer.give(socket.map_err(io::Error::from)) {
                    return;
                }
            }
        };
        thread::spawn("pk-netns", limits::NETNS_STACK, body)?;
        Ok(Netns { ask, made })
    }

    /// An unconnected, non-blocking stream socket in the namespace.
    ///
    /// # Errors
    /// The namespace could not be entered, or does not support such sockets.
    pub fn socket(&self, family: AddressFamily) -> io::Result<OwnedFd> {
        let ended = |_| io::Error::from(io::ErrorKind::BrokenPipe);
        self.ask.send(family).map_err(ended)?;
        self.made.await_it().ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?
    }
}
