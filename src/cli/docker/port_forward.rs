//! `port-forward`: connects ports of this machine to ports of a pod, in the pod's own network.
//!
//! Each connection looks up the pod anew, so it also reaches a pod that was restarted meanwhile. Never here: a port of
//! the daemon; connections belong to this command and end with it.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use k8s_openapi::api::core::v1::Pod;
use rustix::net::{AddressFamily, connect};
use signal_hook::consts::SIGINT;

use super::{engine, target};
use crate::base::{limits, thread};
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, endpoint};
use crate::cli::{Outcome, pods, print, say};
use crate::network::netns::Netns;
use crate::runtime::docker::Docker;
use crate::status::file;

/// Exit status after SIGINT, as a shell shows it.
const INTERRUPTED: i32 = 128 + SIGINT;

/// A local port, and the pod's port that it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    /// 0 means any free port.
    local: u16,
    remote: u16,
}

impl Pair {
    /// Parses `8080:80`, `80`, `:80`, or `8080:http`.
    fn parse(text: &str, pod: &Pod) -> Result<Pair, String> {
        let number = |text: &str| text.parse::<u16>().ok();
        let remote = |text: &str| number(text).filter(|port| *port > 0).or_else(|| named(pod, text));
        let unknown = |text: &str| {
            let pod = pod.metadata.name.as_deref().unwrap_or_default();
            format!("pod {pod:?} has no port of the name {text:?}, and it is no number from 1 to 65535")
        };
        match text.split_once(':') {
            None => {
                let remote = remote(text).ok_or_else(|| unknown(text))?;
                Ok(Pair { local: remote, remote })
            }
            Some((local, of_pod)) => {
                let bad = || format!("port {local:?} of this machine must be a number from 0 to 65535");
                let local = if local.is_empty() { 0 } else { number(local).ok_or_else(bad)? };
                Ok(Pair { local, remote: remote(of_pod).ok_or_else(|| unknown(of_pod))? })
            }
        }
    }
}

/// The number of a port that the manifest names.
fn named(pod: &Pod, name: &str) -> Option<u16> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = ports.into_iter().find(|port| port.name.as_deref() == Some(name))?;
    u16::try_from(port.container_port).ok()
}

/// Listens until a signal ends the process.
pub fn run(options: &Options, pod: &str, ports: &[String]) -> Outcome {
    // A script's background job has it ignored, and this never ends by itself (as kubectl does). Without a handler it is
    // as it was.
    _ = signal_hook::flag::register_conditional_shutdown(SIGINT, INTERRUPTED, Arc::new(true.into()));
    let status = pods::load(&options.directories.run)?;
    let found = target::pod(&status.file, options, pod)?;
    let pairs = ports.iter().map(|text| Pair::parse(text, found)).collect::<Result<Vec<_>, _>>()?;
    // The user learns at once that the pod does not run.
    target::for_forward(&status.file, options, pod)?;
    let docker = engine::docker(&endpoint(&status.file.docker.endpoint)?)?;
    let way = Arc::new(Way { options: options.clone(), pod: pod.to_owned(), docker });
    let (place, places) = bounded(limits::CARRIED);
    let mut listening = Vec::new();
    for pair in pairs {
        let mut refused = Vec::new();
        let mut local = pair.local;
        let before = listening.len();
        for address in &options.command.carry.listen {
            match TcpListener::bind((*address, local)) {
                Ok(listener) => {
                    // All addresses use the free port that the first one got.
                    local = listener.local_addr().map_or(local, |at| at.port());
                    print(&format!(
                        "Forwarding from {} -> {}\n",
                        SocketAddr::new(*address, local),
                        pair.remote
                    ));
                    listening.push((listener, pair.remote));
                }
                Err(error) => refused.push((*address, error)),
            }
        }
        // A machine without IPv6 still listens on IPv4.
        if listening.len() == before {
            let why: Vec<String> = refused.iter().map(|(at, error)| format!("{at}: {error}")).collect();
            return Err(format!("unable to listen on port {}: {}", pair.local, why.join("; ")));
        }
    }
    let threads = listening.into_iter().map(|(listener, remote)| {
        let (way, place, places) = (Arc::clone(&way), place.clone(), places.clone());
        let accept = move || accept(&way, &listener, remote, &place, &places);
        thread::spawn("pk-accept", limits::WORKER_STACK, accept)
    });
    let threads =
        threads.collect::<io::Result<Vec<_>>>().map_err(|error| format!("cannot listen: {error}"))?;
    for thread in threads {
        _ = thread.join();
    }
    Ok(Exit::Failure)
}

/// Accepts connections without end. `place` holds as many tokens as connections may run at once; others wait.
fn accept(way: &Arc<Way>, listener: &TcpListener, remote: u16, place: &Sender<()>, places: &Receiver<()>) {
    let port = listener.local_addr().map_or(remote, |at| at.port());
    for client in listener.incoming() {
        let client = match client {
            Ok(client) => client,
            Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                say(&format!("error: a connection to port {port} cannot be taken: {error}"));
                std::thread::sleep(limits::ACCEPT_PAUSE);
                continue;
            }
        };
        say(&format!("Handling connection for {port}"));
        if place.send(()).is_err() {
            return;
        }
        let (way, freed) = (Arc::clone(way), places.clone());
        let carry = move || {
            if let Err(why) = way.dial(remote).and_then(|of_pod| carry(&client, &of_pod)) {
                say(&format!("error: port {remote} of the pod: {why}"));
            }
            _ = freed.try_recv();
        };
        if let Err(error) = thread::spawn("pk-forward", limits::WORKER_STACK, carry) {
            say(&format!("error: a connection cannot be carried: {error}"));
            _ = places.try_recv();
        }
    }
}

/// The way to the pod.
struct Way {
    options: Options,
    pod: String,
    docker: Docker,
}

impl Way {
    /// Connects to the pod's 127.0.0.1, else to its ::1, as the kubelet's runtimes do.
    fn dial(&self, port: u16) -> Result<TcpStream, String> {
        let status = file::read(&self.options.directories.run).map_err(|error| error.to_string())?;
        let target = target::for_forward(&status.file, &self.options, &self.pod)?;
        let netns = Netns::of_container(&self.docker, &target.id)?;
        let attempt = |family, address: IpAddr| -> io::Result<TcpStream> {
            let socket = TcpStream::from(netns.socket(family)?);
            // Within one machine a connect succeeds or fails at once.
            socket.set_nonblocking(false)?;
            connect(&socket, &SocketAddr::new(address, port))?;
            Ok(socket)
        };
        attempt(AddressFamily::INET, Ipv4Addr::LOCALHOST.into())
            .or_else(|first| attempt(AddressFamily::INET6, Ipv6Addr::LOCALHOST.into()).map_err(|_| first))
            .map_err(|error| error.to_string())
    }
}

/// Copies in both directions until both sides have ended.
fn carry(client: &TcpStream, of_pod: &TcpStream) -> Result<(), String> {
    // The other side may already have closed its reading half.
    let way = |mut from: &TcpStream, mut to: &TcpStream| {
        _ = io::copy(&mut from, &mut to);
        _ = to.shutdown(Shutdown::Write);
        _ = from.shutdown(Shutdown::Read);
    };
    std::thread::scope(|scope| {
        let back = std::thread::Builder::new().name("pk-forward".into()).stack_size(limits::WORKER_STACK);
        back.spawn_scoped(scope, || way(of_pod, client)).map_err(|error| error.to_string())?;
        way(client, of_pod);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_written_as_for_kubectl() {
        let ports = json!([{"name": "http", "containerPort": 80}]);
        let pod =
            json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "ports": ports}]}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pair = |text| Pair::parse(text, &pod).map(|pair| (pair.local, pair.remote));
        for (text, expected) in [
            ("80", (80, 80)),
            ("8080:80", (8080, 80)),
            (":80", (0, 80)),
            ("0:80", (0, 80)),
            ("http", (80, 80)),
            ("1:http", (1, 80)),
        ] {
            assert_eq!(pair(text), Ok(expected), "{text}");
        }
        for bad in ["", "0", ":", "80:", "80:0", "65536", "x", "x:80", "-1:80", "80:81:82"] {
            assert!(pair(bad).is_err(), "{bad}");
        }
        let why = "pod \"web\" has no port of the name \"grpc\", and it is no number from 1 to 65535";
        assert_eq!(pair("grpc"), Err(why.to_owned()));
    }
}
