//! Finds the processes of the Docker that podkeeper uses. A machine may have several engines: containers may run their
//! own, and any process may have that name.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use super::names::container_id;

/// Docker's programs.
const SERVER: &str = "dockerd";
const BELOW: &str = "containerd";

/// Docker's processes, with their programs. `proc` is `/proc`, and `socket` is the engine's: the `dockerd` that listens
/// there counts, in any cgroup, together with the `containerd` that is its child, or the system's one.
///
/// In another mount namespace than podkeeper's, the same path is another file. If no process is found this way, only
/// the name is left, which any process may choose: a process in its own PID namespace, or in a container's cgroup, does
/// not count (upstream `pkg/kubelet/cm/container_manager_linux.go`, `EnsureDockerInContainer` and
/// `isProcessRunningInHost`).
#[must_use]
pub fn processes(proc: &Path, socket: Option<&Path>) -> Vec<(u32, &'static str)> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let all: Vec<(u32, &'static str)> = pids.filter_map(|pid| Some((pid, program(proc, pid)?))).collect();
    let is_plain = |pid: u32| is_same(proc, pid, "pid") && !is_in_container(proc, pid);
    let serves = |pid: u32| {
        is_same(proc, pid, "mnt")
            && socket.is_some_and(|socket| holds(proc, pid, &listening(proc, pid, socket)))
    };
    let server = all.iter().copied().find(|(pid, name)| *name == SERVER && serves(*pid));
    let Some(server) = server else {
        return all.into_iter().filter(|(pid, _)| is_plain(*pid)).collect();
    };
    let parent = |pid: u32| parent_of(proc, pid);
    let is_servers = |pid: u32| all.contains(&(pid, SERVER));
    let below = all.iter().copied().filter(|(_, name)| *name == BELOW);
    let mut found: Vec<_> = below.clone().filter(|(pid, _)| parent(*pid) == Some(server.0)).collect();
    if found.is_empty() {
        found = below.filter(|(pid, _)| is_plain(*pid) && !parent(*pid).is_some_and(is_servers)).collect();
    }
    found.insert(0, server);
    found
}

/// The sockets that listen at this path in the process's network namespace, in the form of descriptors' links
/// (proc_pid_net(5), `unix`).
fn listening(proc: &Path, pid: u32, socket: &Path) -> Vec<String> {
    const ACCEPTS: &str = "00010000";
    let Ok(wanted) = fs::canonicalize(socket) else { return Vec::new() };
    let Ok(table) = File::open(proc.join(pid.to_string()).join("net/unix")) else { return Vec::new() };
    let lines = BufReader::new(table).lines().map_while(Result::ok);
    let found = lines.filter_map(|line| {
        // `Num RefCount Protocol Flags Type St Inode Path`, and a path may have spaces.
        let mut fields = line.split_whitespace();
        let (flags, inode) = (fields.nth(3)?, fields.nth(2)?);
        let path = line.get(line.find('/')?..)?;
        (flags == ACCEPTS && fs::canonicalize(path).is_ok_and(|path| path == wanted))
            .then(|| format!("socket:[{inode}]"))
    });
    found.collect()
}

fn holds(proc: &Path, pid: u32, sockets: &[String]) -> bool {
    let entries = fs::read_dir(proc.join(pid.to_string()).join("fd")).into_iter().flatten().flatten();
    let mut links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    !sockets.is_empty() && links.any(|link| sockets.iter().any(|socket| link.as_os_str() == socket.as_str()))
}

fn program(proc: &Path, pid: u32) -> Option<&'static str> {
    let name = fs::read_to_string(proc.join(pid.to_string()).join("comm")).ok()?;
    [SERVER, BELOW].into_iter().find(|program| *program == name.trim_end())
}

/// Fields 2 and 4 of proc_pid_stat(5): the program's name may have any character.
fn parent_of(proc: &Path, pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether its namespace of this kind is podkeeper's.
fn is_same(proc: &Path, pid: u32, kind: &str) -> bool {
    let of = |process: &str| fs::read_link(proc.join(process).join("ns").join(kind)).ok();
    of(&pid.to_string()) == of("self")
}

/// Whether one of its cgroups has a container's name in its path.
fn is_in_container(proc: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).unwrap_or_default();
    text.lines().any(|line| line.split('/').any(|part| container_id(part).is_some()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    struct Machine(PathBuf);

    impl Machine {
        fn process(&self, pid: u32, name: &str, parent: u32, cgroup: &str) {
            let of = self.0.join(pid.to_string());
            fs::create_dir_all(&of).unwrap();
            fs::write(of.join("comm"), format!("{name}\n")).unwrap();
            fs::write(of.join("stat"), format!("{pid} ({name}) S {parent} 1 1 0\n")).unwrap();
            fs::write(of.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        }

        /// A process that listens at this path.
        fn listens(&self, pid: u32, inode: u32, path: &Path) {
            let fds = self.0.join(pid.to_string()).join("fd");
            fs::create_dir_all(&fds).unwrap();
            symlink(format!("socket:[{inode}]"), fds.join("3")).unwrap();
            let table = self.0.join(pid.to_string()).join("net/unix");
            fs::create_dir_all(table.parent().unwrap()).unwrap();
            let line = |flags: &str, inode: u32| {
                format!("0000000000000000: 00000002 00000000 {flags} 0001 01 {inode} {}\n", path.display())
            };
            let head = "Num       RefCount Protocol Flags    Type St Inode Path\n";
            fs::write(table, format!("{head}{}{}", line("00000000", inode + 1), line("00010000", inode)))
                .unwrap();
            fs::write(path, "").unwrap();
        }

        fn of(&self, socket: &Path) -> Vec<u32> {
            let found = processes(&self.0, Some(socket)).into_iter().map(|(pid, _)| pid);
            crate::base::order::set(found).into_iter().collect()
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn only_the_docker_behind_the_socket_counts() {
        let machine = Machine(crate::base::testing::scratch("cgroup-engine"));
        let container = format!("/docker/{}", "a".repeat(64));
        machine.process(1, "systemd", 0, "/init.scope");
        machine.process(10, "containerd", 1, "/system.slice/containerd.service");
        machine.process(11, "dockerd", 1, "/system.slice/docker.service");
        // A second engine beside it, and one in a container, each with its own containerd.
        machine.process(20, "dockerd", 1, "/second");
        machine.process(21, "containerd", 20, "/second");
        machine.process(30, "dockerd", 5, &container);
        machine.process(31, "containerd", 30, &container);
        machine.process(40, "bash", 1, "/");
        let at = |name: &str| machine.0.join(name);
        for (pid, inode, name) in
            [(11, 111, "docker.sock"), (20, 120, "second.sock"), (30, 130, "third.sock")]
        {
            machine.listens(pid, inode, &at(name));
        }
        symlink("docker.sock", at("link.sock")).unwrap();
        // systemd has created it, and has it open, too.
        fs::create_dir_all(at("1/fd")).unwrap();
        symlink("socket:[111]", at("1/fd/40")).unwrap();
        for socket in ["docker.sock", "link.sock"] {
            assert_eq!(machine.of(&at(socket)), [10, 11], "it uses the system's");
        }
        assert_eq!(machine.of(&at("second.sock")), [20, 21]);
        assert_eq!(machine.of(&at("third.sock")), [30, 31], "podkeeper is in that container, too");
        // In another mount namespace the same path is another socket, on which any process may listen.
        fs::create_dir_all(at("30/ns")).unwrap();
        symlink("mnt:[4026532001]", at("30/ns/mnt")).unwrap();
        for unknown in ["third.sock", "none.sock"] {
            assert_eq!(machine.of(&at(unknown)), [10, 11, 20, 21], "{unknown}");
        }
    }

    /// The tables of this machine's kernel.
    #[test]
    fn who_listens_is_found() {
        let base = crate::base::testing::scratch("cgroup-engine-listens");
        let path = base.join("a socket");
        let socket = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let proc = Path::new("/proc");
        let this = std::process::id();
        let found = listening(proc, this, &path);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(holds(proc, this, &found) && !holds(proc, 1, &found));
        drop(socket);
        assert!(listening(proc, this, &path).is_empty());
        fs::remove_dir_all(base).unwrap();
    }
}
