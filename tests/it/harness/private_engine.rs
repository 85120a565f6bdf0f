//! A Docker Engine of the test's own, which the test can kill, stop and start at will. It has no bridge and
//! no packet filter rules, so its pods use the host's network.
//!
//! It always lives in a network namespace of its own: a dockerd without a bridge deletes `docker0`, and in
//! the machine's namespace that would be the bridge of the engine that all others use.
//!
//! Whatever happens, nothing of it may be left: dropping the guard removes processes, cgroups and mounts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::connection::Wait;
use podkeeper::testing::runtime::docker::Docker;
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::pods::IMAGE;
use crate::harness::{PATIENCE, SOCKET};

/// The engine and its directories.
pub struct Engine {
    name: String,
    base: PathBuf,
    flags: Vec<String>,
    process: Option<Child>,
}

impl Engine {
    /// An engine that is not started yet.
    pub fn new(flags: &[&str]) -> Engine {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("podkeeper-e{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(&name);
        fs::create_dir_all(&base).unwrap();
        Engine { name, base, flags: flags.iter().map(|&f| f.to_owned()).collect(), process: None }
    }

    pub fn socket(&self) -> PathBuf {
        self.base.join("sock")
    }

    /// Directory that contains everything of this engine.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Docker's root directory.
    pub fn data(&self) -> PathBuf {
        self.base.join("data")
    }

    /// Gives the engine its own file system of this many MiB for all its data. Call it before the first
    /// start.
    pub fn put_on_a_disk_of(&self, mib: u64) {
        let (disk, data) = (self.base.join("disk"), self.data());
        fs::File::create(&disk).unwrap().set_len(mib << 20).unwrap();
        fs::create_dir_all(&data).unwrap();
        let made = Command::new("mkfs.ext4").arg("-q").arg(&disk).status().unwrap();
        let mounted = Command::new("mount").args(["-o", "loop"]).arg(&disk).arg(&data).status().unwrap();
        assert!(made.success() && mounted.success(), "no file system could be made");
    }

    fn docker(&self) -> Docker {
        Docker::Engine(Client::new(&self.socket()))
    }

    /// Starts dockerd and waits until it answers.
    pub fn start(&mut self) {
        self.launch();
        let begun = Instant::now();
        while Client::new(&self.socket()).ping().is_err() {
            if begun.elapsed() > PATIENCE {
                panic!("dockerd does not answer:\n{}", fs::read_to_string(self.base.join("log")).unwrap());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Like [`Engine::start`], for the first time: also loads the image that the pods use.
    pub fn start_with_image(&mut self) {
        self.start();
        let loaded = self.docker().load(&mut image_archive().as_slice(), &Wait::at_most(PATIENCE)).unwrap();
        assert_eq!(loaded, [IMAGE]);
    }

    fn launch(&mut self) {
        assert!(self.process.is_none());
        // Left by an engine that was killed; the process ids in them may belong to other processes by now.
        for file in ["pid", "exec/containerd/containerd.pid"] {
            _ = fs::remove_file(self.base.join(file));
        }
        let log = fs::File::options().create(true).append(true).open(self.base.join("log")).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--net", "--", "dockerd"]);
        for (flag, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
            command.arg(flag).arg(self.base.join(name));
        }
        command.arg("--host").arg(format!("unix://{}", self.socket().display()));
        command.args(["--bridge=none", "--iptables=false", "--ip6tables=false"]);
        // A containerd of the machine, if dockerd finds one, must not mix these containers with others.
        command.args(["--containerd-namespace", &self.name]);
        command.args(["--containerd-plugins-namespace", &format!("{}-plugins", self.name)]);
        command.args(["--exec-opt", "native.cgroupdriver=cgroupfs", "--cgroup-parent"]);
        command.arg(format!("/{}", self.name)).args(&self.flags);
        // The machine's own settings do not apply to this engine.
        fs::write(self.base.join("daemon.json"), "{}").unwrap();
        command.arg("--config-file").arg(self.base.join("daemon.json"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(command.spawn().expect("unshare"));
    }

    /// Process id of dockerd, which must run.
    pub fn pid(&self) -> Pid {
        Pid::from_child(self.process.as_ref().expect("dockerd runs"))
    }

    pub fn kill9(&mut self) {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
        // Its containerd dies with it, a moment later.
        let begun = Instant::now();
        while self.processes().iter().any(|(line, _)| line.starts_with("containerd\0")) {
            assert!(begun.elapsed() < PATIENCE, "containerd outlives its dockerd");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(&mut self) {
        let mut process = self.process.take().unwrap();
        kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
        process.wait().unwrap();
    }

    /// Its cgroups: one with version 2, one of each controller with version 1.
    fn cgroups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let all = std::iter::once(root.to_owned()).chain(hierarchies);
        all.map(|path| path.join(&self.name)).filter(|path| path.is_dir()).collect()
    }

    /// Processes whose command line names this engine's directory: containerd and the shims.
    fn processes(&self) -> Vec<(String, Pid)> {
        let base = self.base.to_str().unwrap();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
        pids.filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let program = line.split('\0').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
            let ours = program.starts_with("containerd") && line.contains(base);
            ours.then_some(())?;
            Some((line, Pid::from_raw(pid)?))
        })
        .collect()
    }

    fn kill_all(&self) -> bool {
        let mut pids: Vec<Pid> = self.processes().into_iter().map(|(_, pid)| pid).collect();
        for cgroup in self.cgroups() {
            for inner in subdirectories(&cgroup) {
                let procs = fs::read_to_string(inner.join("cgroup.procs")).unwrap_or_default();
                pids.extend(procs.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)));
            }
        }
        for pid in &pids {
            _ = kill_process(*pid, Signal::KILL);
        }
        pids.is_empty()
    }
}

/// The pods' image as exported by the machine's own engine: a tar that any engine can load.
pub fn image_archive() -> Vec<u8> {
    let mut stream = UnixStream::connect(SOCKET).unwrap();
    write!(stream, "GET /images/{IMAGE}/get HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    answer.split_off(head)
}

/// The directory and all below it, the deepest first.
pub fn subdirectories(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<PathBuf> =
        entries.filter(|p| p.is_dir() && !p.is_symlink()).flat_map(|p| subdirectories(&p)).collect();
    all.push(path.to_owned());
    all
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.process.is_some() {
            // A failed test may have left it stopped.
            _ = kill_process(self.pid(), Signal::CONT);
            self.stop();
        }
        let begun = Instant::now();
        while !self.kill_all() && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        for cgroup in self.cgroups().iter().flat_map(|cgroup| subdirectories(cgroup)) {
            _ = fs::remove_dir(cgroup);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let ours: Vec<&str> = ours.filter(|at| Path::new(at).starts_with(&self.base)).collect();
        for at in ours.iter().rev() {
            _ = Command::new("umount").arg("-l").arg(at).status();
        }
        _ = fs::remove_dir_all(&self.base);
    }
}
