//! Requests of a test to Docker past the daemon: the containers of its node, and facts that only the engine knows.

use podkeeper::testing::cgroup::Cgroups;
use podkeeper::testing::cgroup::node::{MOUNT, Settings};
use podkeeper::testing::runtime::{Call, DockerError, Reply, labels};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use super::*;

impl Node {
    /// All containers of this node, dead ones too, by name.
    pub fn containers(&self) -> Vec<Container> {
        let list = Call::List { labels: vec![format!("{}={}", labels::ROOT_DIR, self.root().display())] };
        let begun = Instant::now();
        let list = loop {
            match self.docker.call(&list) {
                Ok(Reply::Containers(list)) => break list,
                // Podman reads the cgroup of each process for a list, and fails when a process ends meanwhile.
                Err(DockerError::Refused(refusal)) if refusal.status == 500 && begun.elapsed() < PATIENCE => {
                    thread::sleep(LOOK);
                }
                other => panic!("list: {other:?}"),
            }
        };
        let mut containers: Vec<Container> = list.iter().filter_map(|c| self.container(&c.id)).collect();
        containers.sort_by(|a, b| a.name.cmp(&b.name));
        containers
    }

    /// One container by id or name; `None` when there is none.
    pub fn container(&self, id: &str) -> Option<Container> {
        let Ok(Reply::Container(detail)) = self.docker.call(&Call::Inspect { id: id.to_owned() }) else {
            return None;
        };
        let label = |key: &str| detail.labels.get(key).cloned().unwrap_or_default();
        let sandbox = label(labels::CONTAINER_NAME) == labels::SANDBOX_NAME;
        let attempt = if sandbox { labels::SANDBOX_ATTEMPT } else { labels::RESTART_COUNT };
        Some(Container {
            pod: label(labels::POD_NAME),
            uid: label(labels::POD_UID),
            container: label(labels::CONTAINER_NAME),
            attempt: label(attempt).parse().unwrap_or(u32::MAX),
            id: detail.id,
            name: detail.name,
            state: detail.state,
            started_at: detail.started_at,
            finished_at: detail.finished_at,
            exit_code: detail.exit_code,
        })
    }

    /// The containers of a pod (name in the manifest), sandboxes too.
    pub fn of(&self, pod: &str) -> Vec<Container> {
        let name = self.full(pod);
        self.containers().into_iter().filter(|c| c.pod == name).collect()
    }

    /// The running containers of a pod with this container name (`POD` for the sandbox).
    pub fn running(&self, pod: &str, container: &str) -> Vec<Container> {
        self.of(pod).into_iter().filter(|c| c.runs() && c.container == container).collect()
    }

    /// Makes a short call to Docker, past the daemon.
    pub fn docker(&self, call: &Call) -> Reply {
        self.docker.call(call).unwrap_or_else(|error| panic!("{call:?}: {error}"))
    }

    /// Sends a signal to a container, past the daemon.
    pub fn kill_container(&self, id: &str, signal: &str) {
        self.docker(&Call::Kill { id: id.to_owned(), signal: signal.to_owned() });
    }

    /// `docker rm -f`.
    pub fn remove_container(&self, id: &str) {
        self.docker(&Call::Remove { id: id.to_owned(), force: true });
    }

    /// Docker's complete description of a container.
    pub fn inspect(&self, id: &str) -> Value {
        docker_get(&self.socket, &format!("/containers/{id}/json"))
    }

    /// Docker's complete description of an image.
    pub fn inspect_image(&self, image: &str) -> Value {
        docker_get(&self.socket, &format!("/images/{image}/json"))
    }
}

/// Removes a Docker network that a node created and that nothing uses any more.
pub fn remove_network(name: &str) {
    use std::io::{Read as _, Write as _};
    let Ok(mut socket) = std::os::unix::net::UnixStream::connect("/var/run/docker.sock") else { return };
    let _ = write!(socket, "DELETE /networks/{name} HTTP/1.0\r\nHost: docker\r\n\r\n");
    let _ = socket.read_to_end(&mut Vec::new());
}

/// A program in the namespaces of a process.
pub fn enter(pid: u32, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--target", &pid.to_string(), "--mount", "--pid", "--cgroup", "--net", "--", program]);
    command
}

/// The cgroups of the pods of this root directory.
pub fn cgroups(root: &Path) -> Cgroups {
    let settings =
        Settings { per_qos: true, root: String::new(), milli_cpu: 2000, memory: None, is_enforced: true };
    let cgroups = Cgroups::new(settings, MOUNT.into(), root.display().to_string());
    cgroups.decide("cgroupfs");
    cgroups
}

/// `GET` on a Docker socket, in the simplest way: shows the parts of an answer that podkeeper's own
/// client leaves out.
pub fn docker_get(socket: &Path, path: &str) -> Value {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {answer}"))
}

/// Sends a request to Docker that podkeeper never sends: returns the answer, with its head.
pub fn ask_docker(method: &str, target: &str) -> Vec<u8> {
    let mut stream = UnixStream::connect(SOCKET).unwrap();
    // HTTP/1.0, so that the body ends with the connection.
    write!(stream, "{method} {target} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Gives an image another name.
pub fn tag_image(image: &str, repository: &str, tag: &str) {
    let answer = ask_docker("POST", &format!("/images/{image}/tag?repo={repository}&tag={tag}"));
    assert!(answer.starts_with(b"HTTP/1.0 201"), "{}", String::from_utf8_lossy(&answer));
}

/// Removes a name of an image, and the image with its last name; returns whether it existed.
pub fn untag_image(image: &str) -> bool {
    ask_docker("DELETE", &format!("/images/{image}")).starts_with(b"HTTP/1.0 200")
}
