//! A node for one test: the daemon as a process on the real Docker, in directories that are removed with it.
//! Nodes run side by side on one engine, distinguished by the label of their root directory; a test that looks
//! at anything but its own node's containers is wrong.

mod bounded;
mod docker;
pub mod history;
pub mod hostile;
pub mod pods;
pub mod private_engine;
pub mod proxy;
pub mod registry;
mod status;
mod wait;

use std::cell::RefCell;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod as ApiPod};
use podkeeper::testing::base::clock::Timestamp;
use podkeeper::testing::base::table::Set;
use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::{Call, DockerState, Reply, labels};
use podkeeper::testing::status::snapshot::StatusFile;
use rustix::process::{Pid, Signal};

pub use self::bounded::Bounded;
pub use self::docker::{ask_docker, cgroups, docker_get, enter, remove_network, tag_image, untag_image};
use self::wait::LOOK;
pub use self::wait::PATIENCE;

/// The engine of this machine.
pub const SOCKET: &str = "/var/run/docker.sock";
/// Number of lines of the daemon's log that a failure shows.
const LOG_TAIL: usize = 60;

/// One container of a node: its labels and its inspection.
#[derive(Debug, Clone, PartialEq)]
pub struct Container {
    /// 64 hex digits.
    pub id: String,
    /// Name in Docker.
    pub name: String,
    /// Its state.
    pub state: DockerState,
    /// Pod name with the node's suffix.
    pub pod: String,
    /// Pod UID.
    pub uid: String,
    /// Container name; `POD` for a sandbox.
    pub container: String,
    /// Attempt of the container or of the sandbox.
    pub attempt: u32,
    /// Docker's own times: one clock for all containers.
    pub started_at: Option<Timestamp>,
    /// See `started_at`.
    pub finished_at: Option<Timestamp>,
    /// Exit code of a container that has ended.
    pub exit_code: i64,
}

impl Container {
    /// Whether it runs.
    pub fn runs(&self) -> bool {
        self.state == DockerState::Running
    }
    /// Whether it is a sandbox.
    pub fn is_sandbox(&self) -> bool {
        self.container == labels::SANDBOX_NAME
    }
}

/// Differences of a node from the usual one.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Further arguments of `podkeeper run`.
    pub flags: Vec<String>,
    /// Socket of another engine (a proxy in front of the real one, say); the harness still looks at the
    /// containers through [`SOCKET`] unless `look_at` is set.
    pub endpoint: Option<PathBuf>,
    /// Socket through which this harness looks at the containers, when it is not [`SOCKET`].
    pub look_at: Option<PathBuf>,
    /// Environment of the daemon.
    pub env: Vec<(String, String)>,
    /// The node has no manifest directory: other sources only.
    pub no_files: bool,
    /// The daemon has no network but a loopback that is down.
    pub cut: bool,
    /// The daemon's mounts are visible only to itself.
    pub own_mounts: bool,
    /// The daemon runs in the namespaces of this process, and [`Node::pid`] is the id of the program that
    /// brought it there.
    pub within: Option<u32>,
    /// Place of its directories, unless among the temporary files.
    pub place: Option<PathBuf>,
}

impl Options {
    /// Options with these further arguments.
    pub fn flags(flags: &[&str]) -> Options {
        Options { flags: flags.iter().map(|&flag| flag.to_owned()).collect(), ..Options::default() }
    }
}

/// A node: its directories, its daemon (when it runs) and its containers.
pub struct Node {
    /// Everything of this node is below it.
    pub base: PathBuf,
    /// Node name.
    pub name: String,
    /// Options that the daemon was started with; change them before [`Node::restart`].
    pub options: RefCell<Options>,
    daemon: RefCell<Option<Child>>,
    docker: Docker,
    socket: PathBuf,
}

impl Node {
    /// A node with an empty manifest directory and a running daemon.
    pub fn start() -> Node {
        Node::with(Options::default())
    }

    /// Like [`Node::start`], with options.
    pub fn with(options: Options) -> Node {
        let node = Node::prepare(options);
        node.launch();
        node
    }

    /// A node whose daemon is not started yet: for manifests that exist before it.
    pub fn prepare(options: Options) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("n{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let place = options.place.clone().unwrap_or_else(std::env::temp_dir);
        let base = place.join(format!("podkeeper-it-{name}"));
        let _ = fs::remove_dir_all(&base);
        for directory in ["manifests", "root", "run"] {
            fs::create_dir_all(base.join(directory)).unwrap();
        }
        let socket = options.look_at.clone().unwrap_or_else(|| PathBuf::from(SOCKET));
        let docker = Docker::Engine(Client::new(&socket));
        Node { base, name, options: RefCell::new(options), daemon: RefCell::new(None), docker, socket }
    }

    /// The command that becomes the daemon, with all its flags.
    pub fn run_command(&self) -> Command {
        let options = self.options.borrow();
        let program = env!("CARGO_BIN_EXE_podkeeper");
        // Each program replaces its own process with the next.
        let own: &[&str] = match (options.cut, options.own_mounts) {
            (true, _) => &["--net"],
            (_, true) => &["--mount", "--propagation", "private"],
            (false, false) => &[],
        };
        let mut command = match options.within {
            Some(pid) => enter(pid, program),
            None if own.is_empty() => Command::new(program),
            None => {
                let mut command = Command::new("unshare");
                command.args(own).args(["--", program]);
                command
            }
        };
        command.args(["run", "-v=2", "--hostname-override", &self.name]);
        if !options.no_files {
            command.arg("--pod-manifest-path").arg(self.manifests());
        }
        command.arg("--root-dir").arg(self.root()).arg("--run-dir").arg(self.run_dir());
        command.arg("--pod-logs-dir").arg(self.pod_logs());
        // The machine's own disk may be full, and its memory in use; a test of eviction sets its own
        // thresholds.
        if !options.flags.iter().any(|flag| flag.starts_with("--eviction-hard")) {
            command.arg("--eviction-hard=");
        }
        // Nor are the machine's images removed when its disk is full.
        if !options.flags.iter().any(|flag| flag.starts_with("--image-gc-high-threshold")) {
            command.arg("--image-gc-high-threshold=100");
        }
        if let Some(socket) = &options.endpoint {
            command.arg("--docker-endpoint").arg(format!("unix://{}", socket.display()));
        }
        command.args(&options.flags).envs(options.env.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Starts the daemon and waits until it has written its first status.
    pub fn launch(&self) {
        self.launch_unawaited();
        self.wait_until("the daemon writes its status", || {
            self.status().is_some_and(|status| Some(status.pid) == self.pid())
        });
    }

    /// Starts the daemon and waits for nothing.
    pub fn launch_unawaited(&self) {
        assert!(self.daemon.borrow().is_none(), "the daemon runs already");
        let log = File::options().create(true).append(true).open(self.log_path()).unwrap();
        let child = self.run_command().stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
        *self.daemon.borrow_mut() = Some(child);
    }

    /// The manifest directory.
    pub fn manifests(&self) -> PathBuf {
        self.base.join("manifests")
    }
    /// The root directory, which is also in the containers' labels.
    pub fn root(&self) -> PathBuf {
        self.base.join("root")
    }
    /// The run directory.
    pub fn run_dir(&self) -> PathBuf {
        self.base.join("run")
    }
    /// Links to the logs of containers, by pod.
    pub fn pod_logs(&self) -> PathBuf {
        self.base.join("var-log/pods")
    }
    fn log_path(&self) -> PathBuf {
        self.base.join("log")
    }

    /// The socket through which this harness looks at the containers.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Process id of the daemon.
    pub fn pid(&self) -> Option<u32> {
        self.daemon.borrow().as_ref().map(Child::id)
    }

    /// Writes a manifest in the recommended way: a file beside the directory, then a rename.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let beside = self.base.join("being-written");
        fs::write(&beside, text).unwrap();
        fs::rename(beside, self.manifests().join(name)).unwrap();
    }

    /// Writes a manifest in place: truncated first, then filled.
    pub fn write_in_place(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.manifests().join(name), text).unwrap();
    }

    /// Removes a manifest.
    pub fn remove(&self, name: &str) {
        fs::remove_file(self.manifests().join(name)).unwrap();
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        let pid = self.pid().and_then(|pid| Pid::from_raw(pid.cast_signed()));
        rustix::process::kill_process(pid.expect("the daemon runs"), signal).unwrap();
    }

    /// Kills the daemon and reaps it.
    pub fn kill9(&self) {
        let mut daemon = self.daemon.borrow_mut().take().expect("the daemon runs");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Asks the daemon to end (SIGTERM) and waits for its end.
    pub fn stop(&self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_for("the daemon ends on SIGTERM", || self.exited())
    }

    /// Exit status of the daemon, if it has ended; then it is reaped, and [`Node::launch`] may start another
    /// one.
    pub fn exited(&self) -> Option<ExitStatus> {
        let mut daemon = self.daemon.borrow_mut();
        let status = daemon.as_mut().and_then(|child| child.try_wait().unwrap());
        if status.is_some() {
            *daemon = None;
        }
        status
    }

    /// Sends SIGTERM, then starts a new daemon.
    pub fn restart(&self) {
        assert!(self.stop().success());
        self.launch();
    }

    /// Everything that the daemons of this node have logged.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.log_path()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The command line against this node (`--run-dir` is added), without its flags for a subcommand.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_podkeeper"));
        let mut flags = vec!["--run-dir".to_owned(), self.run_dir().display().to_string()];
        if arguments.first() == Some(&"version") {
            flags.clear();
        }
        // Before a `--`, so that it is a flag and not part of a command to execute.
        let split = arguments.iter().position(|&word| word == "--").unwrap_or(arguments.len());
        let (own, rest) = arguments.split_at(split);
        command.args(own).args(flags).args(rest).stdin(Stdio::null());
        command
    }

    /// Runs [`Node::command`] to its end.
    pub fn podkeeper(&self, arguments: &[&str]) -> Output {
        self.command(arguments).ends()
    }

    /// Runs [`Node::command`], which must succeed, and returns its output.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.podkeeper(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "podkeeper {arguments:?}: {:?}: {error}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    /// Output of a shell command in a container, or its errors where it failed. Docker reports that a container
    /// runs before the daemon has learned of it, and `exec` relies on the daemon's knowledge.
    pub fn inside(&self, pod: &str, container: &str, command: &str) -> String {
        self.wait_until(&format!("it is known that {pod}/{container} runs"), || {
            let known = self.container_status(pod, container);
            let running =
                known.as_ref().is_some_and(|c| c.state.as_ref().is_some_and(|s| s.running.is_some()));
            let id = known.and_then(|c| c.container_id).unwrap_or_default();
            running && self.running(pod, container).iter().any(|c| id.ends_with(&c.id))
        });
        let output = self.podkeeper(&["exec", pod, "-c", container, "--", "sh", "-c", command]);
        let text = if output.status.success() { output.stdout } else { output.stderr };
        String::from_utf8_lossy(&text).trim().to_owned()
    }

    /// Mount points in this node's directories, in the order of mounting.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let base = fs::canonicalize(&self.base).unwrap_or_else(|_| self.base.clone());
        let table = podkeeper::testing::volumes::mounts::table().unwrap();
        table.into_iter().map(|mounted| mounted.at).filter(|at| at.starts_with(&base)).collect()
    }

    /// Everything about this node that is useful when a test fails.
    pub fn picture(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(LOG_TAIL)..).unwrap_or_default().join("\n");
        let containers: Vec<String> = self.containers().iter().map(|c| format!("{c:?}")).collect();
        let status = fs::read_to_string(self.run_dir().join("status.json")).unwrap_or_default();
        format!("--- log\n{tail}\n--- containers\n{}\n--- status\n{status}", containers.join("\n"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.borrow_mut().take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // Empty twice: a create that was on its way when the daemon was killed may still arrive.
        let label = format!("{}={}", labels::ROOT_DIR, self.root().display());
        let mut empty = 0;
        for _ in 0..100 {
            let Ok(Reply::Containers(list)) = self.docker.call(&Call::List { labels: vec![label.clone()] })
            else {
                break;
            };
            empty = if list.is_empty() { empty + 1 } else { 0 };
            if empty == 2 {
                break;
            }
            for container in list {
                let _ = self.docker.call(&Call::Remove { id: container.id, force: true });
            }
            thread::sleep(LOOK);
        }
        cgroups(&self.root()).sweep(&Set::new());
        // A recursive delete would descend into the mounts of volumes.
        for mounted in self.mounts().iter().rev() {
            let _ = rustix::mount::unmount(mounted, rustix::mount::UnmountFlags::DETACH);
        }
        if self.mounts().is_empty() {
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}
