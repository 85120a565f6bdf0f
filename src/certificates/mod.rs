//! Certificates of this node that an API server signs: the client certificate that identifies the node, which is
//! requested with a bootstrap token or the previous certificate, and the certificate of the kubelet's server. They
//! are requested, stored and renewed without a restart.
//!
//! [`renewal`] decides when, [`request`] makes requests and reads the results; both are pure. [`files`] stores
//! signed certificates, [`node`] has the steps of one certificate, and the thread `pk-certificate` here carries
//! them out.
//!
//! Never here: a wait by a pod. Without a certificate, pods of files and URLs still run.

pub mod discovery;
pub mod files;
pub mod kubeconfig;
mod node;
pub mod renewal;
pub mod request;
mod uses;

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::api_client::Client;
use crate::base::clock::{Clock as _, Mono, System, Timestamp};
use crate::base::{limits, thread, wait};
use crate::status::task::{Pulses, Task};
use node::Signed;
use uses::{Client as OfClient, Serving};

/// Settings from flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The node's name.
    pub node: String,
    /// `--kubeconfig`, absolute.
    pub kubeconfig: PathBuf,
    /// `--bootstrap-kubeconfig`, absolute.
    pub bootstrap: Option<PathBuf>,
    /// `--cert-dir`, absolute.
    pub directory: PathBuf,
    /// `--rotate-certificates`.
    pub renews: bool,
    /// `--rotate-server-certificates`: there is a server that uses one.
    pub serves: bool,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
}

/// The parts of the thread.
pub struct Parts {
    pub settings: Settings,
    /// The client of the server, with the node's own credentials.
    pub client: Client,
    pub clock: System,
    /// Called when the node has got its first client certificate.
    pub came: Box<dyn Fn() + Send>,
}

/// Handle of the thread. Dropping it ends the thread, after a request in progress.
#[derive(Debug)]
pub struct Certificates {
    _end: OwnedFd,
}

impl Certificates {
    /// Starts the thread `pk-certificate`; `None` if no certificate has to be signed or renewed.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(parts: Parts, pulses: &Pulses) -> io::Result<Option<Certificates>> {
        let Parts { settings, client, clock, came } = parts;
        if settings.bootstrap.is_none() && !settings.renews && !settings.serves {
            return Ok(None);
        }
        // Its other end is closed when the handle is dropped.
        let (ended, end) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let pulses = pulses.clone();
        let run = move || {
            pulses.join(Task::Certificates);
            let serving = settings.serves.then(|| Signed::of(Serving::new(&settings)));
            let of_client = Signed::of(OfClient::new(&settings, came));
            run(of_client, serving, &client, clock, &ended);
        };
        thread::spawn("pk-certificate", limits::WORKER_STACK, run)?;
        Ok(Some(Certificates { _end: end }))
    }
}

/// Carries out the steps of both certificates until the handle is gone.
fn run(
    mut client: Signed<OfClient>,
    mut serving: Option<Signed<Serving>>,
    own: &Client,
    clock: System,
    ended: &OwnedFd,
) {
    loop {
        let mut wakes = vec![client.step(own, &clock)];
        wakes.extend(serving.as_mut().map(|serving| serving.step(own, &clock)));
        let mono: Option<Mono> = wakes.iter().filter_map(|wake| wake.mono).min();
        let wall: Option<Timestamp> = wakes.iter().filter_map(|wake| wake.wall).min();
        let set = vec![PollFd::new(ended, PollFlags::IN)];
        let now = clock.now();
        if mono.is_none_or(|mono| mono > now.mono) {
            match wait::wall::until(set, mono.map(|mono| clock.instant(mono)), wall) {
                Ok(flags) if flags.iter().all(|flags| flags.is_empty()) => {}
                // The handle is gone, or the kernel has no memory for a wait.
                _ => return,
            }
        } else if wait::until(set, Some(clock.instant(now.mono)))
            .is_ok_and(|f| f.iter().any(|f| !f.is_empty()))
        {
            return;
        }
    }
}

/// When the next step is due.
#[derive(Debug, Clone, Copy, Default)]
struct Wake {
    mono: Option<Mono>,
    wall: Option<Timestamp>,
}
