//! Docker's cgroup driver `systemd`, with a systemd that is the first process of its own namespaces, and a
//! Docker Engine below it. It works with both versions of cgroups: it gets the hierarchies that this machine
//! has.
//!
//! Whatever happens, nothing of it may be left: it is killed with all its processes, and its cgroups are removed. Nor
//! may it touch anything of the machine: its units for temporary files, kernel settings and devices must never start
//! there, and it does not even see the machine's `/tmp`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::connection::Wait;
use podkeeper::testing::runtime::docker::Docker;
use serde_json::{Value, json};

use crate::harness::pods::{IMAGE, Pod};
use crate::harness::private_engine::{image_archive, subdirectories};
use crate::harness::{Node, Options, PATIENCE, enter};

const MOUNT: &str = "/sys/fs/cgroup";
const MIB: i64 = 1 << 20;

/// Moves a process into a cgroup of each hierarchy, which becomes the root of its view.
const OUTSIDE: &str = r#"
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/*; do
    [ -e "$hierarchy/cgroup.procs" ] && [ ! -L "$hierarchy" ] || continue
    mkdir -p "$hierarchy/$NAME"
    for file in cpuset.cpus cpuset.mems; do
        [ -e "$hierarchy/$file" ] && cat "$hierarchy/$file" >"$hierarchy/$NAME/$file"
    done
    echo $$ >"$hierarchy/$NAME/cgroup.procs"
done
exec unshare --mount --pid --cgroup --net --fork --kill-child -- sh -ec "$INSIDE"
"#;

/// The contents of a machine before its systemd begins: only units that a test needs are started. It sees only its own
/// temporary files. Most units want `sysinit.target` and `basic.target`, with everything that these start; so these two
/// never start here.
const INSIDE: &str = r#"
mount --make-rprivate /
mount -t proc proc /proc
old=$(ls /sys/fs/cgroup)
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
else
    mount -t tmpfs tmpfs /sys/fs/cgroup
    for controller in $old; do
        mkdir /sys/fs/cgroup/$controller
        case $controller in
        unified) mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified ;;
        systemd) mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd ;;
        *) mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || rmdir "/sys/fs/cgroup/$controller" ;;
        esac
    done
fi
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/base
mount --bind "$BASE" /run/base
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /var/tmp
mkdir -p "$BASE"
mount --move /run/base "$BASE"
mount --bind "$BASE/systemd-log" /dev/kmsg
: >/run/swaps
mount --bind /run/swaps /proc/swaps
for unit in sysinit.target basic.target systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service \
    systemd-tmpfiles-clean.service systemd-tmpfiles-clean.timer; do
    ln -s /dev/null /run/systemd/system/$unit
done
printf '[Unit]\nDefaultDependencies=no\n' >/run/systemd/system/test.target
export container=other
exec /lib/systemd/systemd --system --unit=test.target --show-status=0 --log-target=kmsg
"#;

/// Docker's own unit, with the engine of the test.
const ENGINE: &str = "\
[Unit]
DefaultDependencies=no
Conflicts=shutdown.target
Before=shutdown.target
[Service]
Type=notify
KillMode=process
Delegate=yes
";

/// A machine within the machine.
pub struct Booted {
    name: String,
    base: PathBuf,
    outer: Child,
    /// Process id of systemd, seen from outside.
    init: u32,
}

impl Booted {
    /// Starts it with a Docker Engine that answers and has the pods' image; the engine is its `docker.service`.
    pub fn start() -> Booted {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("podkeeper-s{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let base = std::env::temp_dir().join(&name);
        fs::create_dir_all(&base).unwrap();
        fs::write(base.join("systemd-log"), "").unwrap();
        let log = fs::File::create(base.join("log")).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", OUTSIDE]).env("NAME", &name).env("INSIDE", INSIDE).env("BASE", &base);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let outer = command.spawn().unwrap();
        let mut booted = Booted { name, base, outer, init: 0 };
        booted.wait("systemd runs", |booted| {
            let pid = booted.outer.id();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
            booted.init = children.trim().parse().unwrap_or(0);
            let line = fs::read_to_string(format!("/proc/{}/cmdline", booted.init)).unwrap_or_default();
            let mut asks = booted.enter("systemctl");
            asks.args(["is-active", "test.target"]).stdout(Stdio::null()).stderr(Stdio::null());
            line.starts_with("/lib/systemd/systemd") && asks.status().unwrap().success()
        });
        booted.engine();
        booted
    }

    fn engine(&mut self) {
        fs::write(self.base.join("daemon.json"), "{}").unwrap();
        let at = |name: &str| self.base.join(name).display().to_string();
        let mut line = "dockerd".to_owned();
        for (flag, name) in [("data-root", "data"), ("exec-root", "exec"), ("pidfile", "pid")] {
            line.push_str(&format!(" --{flag} {}", at(name)));
        }
        line.push_str(&format!(" --config-file {} --host unix://{}", at("daemon.json"), at("sock")));
        line.push_str(
            " --bridge=none --iptables=false --ip6tables=false --exec-opt native.cgroupdriver=systemd",
        );
        line.push_str(&format!(
            " --containerd-namespace {0} --containerd-plugins-namespace {0}-plugins",
            self.name
        ));
        let log = at("dockerd-log");
        let unit =
            format!("{ENGINE}ExecStart={line}\nStandardOutput=append:{log}\nStandardError=append:{log}\n");
        self.install("docker.service", &unit);
        self.systemctl(&["start", "docker.service"]);
        let client = Client::new(&self.socket());
        let docker = Docker::Engine(client.clone());
        self.wait("dockerd answers", |_| client.ping().is_ok());
        let loaded = docker.load(&mut image_archive().as_slice(), &Wait::at_most(PATIENCE)).unwrap();
        assert_eq!(loaded, [IMAGE]);
    }

    /// Directory that is removed with the machine. The machine sees it at the same place.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Installs a unit, or a drop-in, with precedence over the machine's own.
    pub fn install(&self, name: &str, text: &str) {
        let path = PathBuf::from(format!("/proc/{}/root/run/systemd/system/{name}", self.init));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self.reload();
    }

    /// Output of `systemctl`, which must succeed.
    pub fn systemctl(&self, arguments: &[&str]) -> String {
        let output = self.enter("systemctl").args(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "systemctl {arguments:?}: {error}\n{}", self.logs());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// The log of systemd.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.base.join("systemd-log")).unwrap_or_default()).into_owned()
    }

    fn logs(&self) -> String {
        let names = ["log", "systemd-log", "dockerd-log"];
        let all = names.map(|name| fs::read(self.base.join(name)).unwrap_or_default());
        all.map(|log| String::from_utf8_lossy(&log).into_owned()).join("\n")
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Booted) -> bool) {
        let begun = Instant::now();
        while !done(self) {
            assert!(begun.elapsed() < PATIENCE, "not so: {what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Docker's socket.
    pub fn socket(&self) -> PathBuf {
        self.base.join("sock")
    }

    /// A program inside the machine.
    pub fn enter(&self, program: &str) -> Command {
        enter(self.init, program)
    }

    fn reload(&self) {
        self.systemctl(&["daemon-reload"]);
    }

    /// The slices of pods that systemd knows.
    fn slices(&self) -> Vec<String> {
        let text = self.systemctl(&["list-units", "--all", "--plain", "--no-legend", "kubepods*"]);
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    /// Everything that systemd was told about slices of pods.
    fn told(&self) -> String {
        let output = self.enter("ls").arg("/run/systemd/system.control").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().filter(|line| line.contains("kubepods")).collect::<Vec<_>>().join(" ")
    }

    /// Its hierarchies, seen from outside.
    fn hierarchies(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(MOUNT).unwrap().flatten().map(|entry| entry.path());
        let all = std::iter::once(PathBuf::from(MOUNT)).chain(entries.filter(|path| !path.is_symlink()));
        all.map(|path| path.join(&self.name)).filter(|path| path.is_dir()).collect()
    }

    /// Cgroups of pods and their parents, in any hierarchy.
    fn cgroups(&self) -> Vec<PathBuf> {
        let all = self.hierarchies().into_iter().flat_map(|hierarchy| subdirectories(&hierarchy));
        all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("kubepods")).collect()
    }

    /// A number in a file of a slice, with its names in version 1 and in version 2.
    fn number(&self, slice: &str, v1: (&str, &str), v2: &str) -> i64 {
        let whole = Path::new(MOUNT).join("cgroup.controllers").exists();
        let (hierarchy, file) =
            if whole { (PathBuf::from(MOUNT), v2) } else { (Path::new(MOUNT).join(v1.0), v1.1) };
        let all = subdirectories(&hierarchy.join(&self.name));
        let Some(path) = all.iter().find(|path| path.ends_with(slice)) else { return -1 };
        fs::read_to_string(path.join(file)).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(-1)
    }

    fn memory(&self, slice: &str) -> i64 {
        self.number(slice, ("memory", "memory.limit_in_bytes"), "memory.max")
    }

    fn weight(&self, slice: &str) -> i64 {
        self.number(slice, ("cpu", "cpu.shares"), "cpu.weight")
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // The namespace of processes ends with its first one.
        _ = self.outer.kill();
        _ = self.outer.wait();
        let begun = Instant::now();
        let gone = |booted: &Booted| {
            let all = booted.hierarchies();
            all.iter().flat_map(|all| subdirectories(all)).for_each(|each| _ = fs::remove_dir(each));
            booted.hierarchies().is_empty()
        };
        while !gone(self) && begun.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        _ = fs::remove_dir_all(&self.base);
    }
}

fn sized(name: &str, resources: Value) -> Pod {
    Pod::new(name).set("/spec/hostNetwork", true).set("/spec/containers/0/resources", resources)
}

/// Systemd clears `/tmp` when it boots: of its own files there must be none of the machine's.
#[test]
fn nothing_of_the_machine_is_seen_among_temporary_files() {
    let names = ["/tmp", "/var/tmp"].map(|dir| format!("{dir}/podkeeper-marker-{}", std::process::id()));
    names.iter().for_each(|name| fs::write(name, "stays").unwrap());
    let machine = Booted::start();
    for (name, dir) in names.iter().zip(["/tmp", "/var/tmp"]) {
        assert!(!machine.enter("test").args(["-e", name]).status().unwrap().success(), "{name} is seen");
        // The command that clears it.
        let clears = ["--remove", "--clean", "--prefix", dir];
        machine.enter("systemd-tmpfiles").args(clears).status().unwrap();
    }
    for unit in ["sysinit.target", "basic.target", "systemd-tmpfiles-setup.service"] {
        assert!(!machine.enter("systemctl").args(["start", unit]).status().unwrap().success(), "{unit}");
    }
    drop(machine);
    for name in &names {
        assert_eq!(fs::read_to_string(name).unwrap(), "stays");
        fs::remove_file(name).unwrap();
    }
}

/// cri-o/cri-o#5490: a slice stays, as a unit of systemd, when everything in it has ended; and values that are written
/// to its files without systemd are lost at the next daemon-reload.
#[test]
fn k5490_slices_have_their_limits_and_go_with_their_pods() {
    let machine = Booted::start();
    let socket = Some(machine.socket());
    let node = Node::prepare(Options {
        endpoint: socket.clone(),
        look_at: socket,
        within: Some(machine.init),
        place: Some(machine.base.clone()),
        ..Options::flags(&["--pod-max-pids", "50"])
    });
    let whole = Path::new(MOUNT).join("cgroup.controllers").exists();
    // Shares of version 1, and the weights of version 2 that are computed from them.
    let weight = |shares: i64, weight: i64| if whole { weight } else { shares };
    let of_a =
        |memory: &str| json!({"requests": {"cpu": "100m", "memory": "16Mi"}, "limits": {"memory": memory}});
    node.write("a.yaml", sized("a", of_a("32Mi")).text());
    let of_b = json!({"limits": {"cpu": "500m", "memory": "48Mi"}});
    node.write("b.yaml", sized("b", of_b).text());
    node.write("c.yaml", sized("c", json!({})).text());
    node.launch_unawaited();
    let slice =
        |pod: &str, class: &str| format!("kubepods{class}-pod{}.slice", node.wait_running(pod, "app").uid);
    let (a, b, c) = (slice("a", "-burstable"), slice("b", ""), slice("c", "-besteffort"));
    let check = |when: &str| {
        assert_eq!((machine.memory(&a), machine.memory(&b)), (32 * MIB, 48 * MIB), "{when}");
        let weights = [&*a, "kubepods-burstable.slice", &*b, &*c, "kubepods-besteffort.slice"]
            .map(|s| machine.weight(s));
        let (of_a, of_b, of_c) = (weight(102, 4), weight(512, 20), weight(2, 1));
        assert_eq!(weights, [of_a, of_a, of_b, of_c, of_c], "{when}");
        assert_eq!(machine.number(&c, ("pids", "pids.max"), "pids.max"), 50, "{when}");
    };
    check("with the first start");
    machine.reload();
    check("after a reload");
    // Other sizes for a running pod.
    let before = node.wait_running("a", "app").id;
    node.write("a.yaml", sized("a", of_a("64Mi")).text());
    node.wait_until("the slice has its new limit", || machine.memory(&a) == 64 * MIB);
    machine.reload();
    assert_eq!(machine.memory(&a), 64 * MIB);
    assert_eq!(node.wait_running("a", "app").id, before);
    // One pod is removed.
    node.remove("a.yaml");
    node.wait_until("its slice goes", || !machine.slices().contains(&a) && !machine.told().contains(&a));
    assert_eq!(machine.memory(&b), 48 * MIB);
    node.wait_until("its class is lighter", || machine.weight("kubepods-burstable.slice") == weight(2, 1));
    // The others are removed while no daemon runs.
    let root = node.root().display().to_string();
    assert!(Command::new("pkill").args(["-KILL", "-f", &format!("run.*{root}")]).status().unwrap().success());
    node.wait_until("the daemon is dead", || node.exited().is_some());
    for pod in ["b", "c"] {
        node.remove(&format!("{pod}.yaml"));
        node.of(pod).iter().for_each(|container| node.remove_container(&container.id));
    }
    assert!(machine.slices().contains(&b) && machine.slices().contains(&c), "{:?}", machine.slices());
    node.launch_unawaited();
    let left = || (machine.slices(), machine.told(), machine.cgroups());
    let begun = Instant::now();
    while left() != (vec![], String::new(), vec![]) {
        assert!(begun.elapsed() < PATIENCE, "left: {:?}\n{}", left(), node.log());
        thread::sleep(Duration::from_millis(50));
    }
    let log = node.log();
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}
