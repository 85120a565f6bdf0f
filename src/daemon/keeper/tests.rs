mod left_over;

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crossbeam_channel::{Receiver, unbounded};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::*;
use crate::base::testing::scratch;
use crate::eviction::Eviction;
use crate::eviction::signal::Signal;
use crate::eviction::threshold::{Amount, Threshold};
use crate::garbage::images::Policy;
use crate::runtime::client::Client;
use crate::status::file::tests::snapshot;
use crate::status::snapshot::{EvictionView, SourceView};

/// A node with one pod, plain files in place of the kernel's, and a Docker that accepts connections and never answers.
struct Rig {
    root: PathBuf,
    rounds: Rounds,
    heard: Receiver<Event>,
    _docker: UnixListener,
}

/// How long the keeper waits for Docker.
const SILENCE: Duration = Duration::from_millis(300);

const MEMINFO: &str = "MemTotal: 4000000 kB\nMemFree: 3000000 kB\nMemAvailable: 3500000 kB\n";

fn write(at: &Path, text: &str) {
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

fn at_least(signal: Signal, value: Amount) -> Threshold {
    Threshold { signal, value, grace: Duration::ZERO, reclaim: None }
}

impl Rig {
    fn new(name: &str, thresholds: Vec<Threshold>) -> Rig {
        let root = scratch(name);
        let socket = root.join("docker.sock");
        let silent = UnixListener::bind(&socket).unwrap();
        let clock = System::start();
        let (out, heard) = unbounded();
        let pods = Latest::default();
        let mut node = snapshot();
        node.pods.truncate(1);
        let id = "a".repeat(64);
        let container = ContainerStatus {
            name: "app".into(),
            container_id: Some(format!("docker://{id}")),
            ..ContainerStatus::default()
        };
        let status = PodStatus {
            phase: Some("Running".into()),
            container_statuses: Some(vec![container]),
            ..PodStatus::default()
        };
        node.pods[0].status = Arc::new(status);
        pods.tell(Arc::new(node));
        let docker_root = EngineRoot::default();
        docker_root.tell(root.to_str().unwrap());
        let mut rounds = Rounds::new(Parts {
            eviction: Settings { thresholds, ..Settings::none() },
            garbage: None,
            pods,
            ends: Ends::default(),
            root_dir: root.clone(),
            run_dir: None,
            docker: Docker::Engine(Client::with_deadline(&socket, SILENCE)),
            docker_root,
            clock,
            parents: Parents::default(),
            out,
        });
        let (cgroups, proc) = (root.join("cgroup"), root.join("proc"));
        write(&cgroups.join("cgroup.controllers"), "memory pids\n");
        write(&cgroups.join("kubepods/podu1").join(id).join("pids.current"), "90\n");
        write(&proc.join("meminfo"), MEMINFO);
        write(&proc.join("sys/kernel/pid_max"), "1000\n");
        write(&proc.join("sys/kernel/threads-max"), "1000\n");
        write(&proc.join("loadavg"), "0 0 0 1/100 1\n");
        // There is no collector: the tests do its work. The threshold ignores how full this machine's disk is.
        let policy = Policy { high: 100, ..Policy::default() };
        rounds.mind = Mind::new(rounds.parts.eviction.clone(), Some(policy));
        rounds.places.cgroups = Hierarchies::open(cgroups);
        rounds.places.proc = proc;
        Rig { root, rounds, heard, _docker: silent }
    }

    fn look(&mut self) {
        assert!(self.rounds.look().is_ok());
    }

    /// Looks until the usage of pods on the disk is counted. This is the machine's disk: while other processes free
    /// space on it, no pod has to be evicted, and nothing is counted.
    fn measures(&mut self) -> bool {
        for _ in 0..400 {
            self.look();
            if self.rounds.counting.is_busy() {
                return true;
            }
            let now = self.rounds.parts.clock.now().mono;
            self.rounds.mind.collected(&Report::default(), now);
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    fn evicted(&self) -> Option<Eviction> {
        self.heard.try_iter().find_map(|event| match event {
            Event::Node(News::Evict(eviction)) => Some(eviction),
            _ => None,
        })
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.root);
    }
}

#[test]
fn a_docker_that_hangs_while_disks_are_measured_keeps_no_process_numbers_from_being_watched() {
    let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
    let mut rig = Rig::new("keeper-hangs", vec![full, at_least(Signal::Pid, Amount::Units(100))]);
    rig.look();
    let now = rig.rounds.parts.clock.now().mono;
    rig.rounds.mind.collected(&Report::default(), now);
    assert!(rig.measures(), "the disk is being measured");
    assert_eq!(rig.evicted(), None);
    write(&rig.root.join("proc/loadavg"), "0 0 0 1/950 1\n");
    rig.look();
    let evicted = rig.evicted().expect("it does not wait for the disk");
    assert!(evicted.message.contains("low on resource: pids"), "{evicted:?}");
    assert!(rig.rounds.counting.is_busy(), "Docker has not answered yet");
}

/// Regression: while Docker did not answer, one pod after the other was ordered to stop in vain, and all ended when it
/// came back.
#[test]
fn while_docker_does_not_answer_nobody_is_told_to_go() {
    let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
    let mut rig = Rig::new("keeper-silent", vec![full, at_least(Signal::Pid, Amount::Units(100))]);
    let told = rig.rounds.parts.pods.get();
    let mut node = (*told).clone();
    node.docker.reachable = false;
    rig.rounds.parts.pods.tell(Arc::new(node));
    write(&rig.root.join("proc/loadavg"), "0 0 0 1/950 1\n");
    rig.look();
    let now = rig.rounds.parts.clock.now().mono;
    rig.rounds.mind.collected(&Report::default(), now);
    rig.look();
    // Neither soon after the start nor later.
    for _ in 0..=limits::EVICTION_FIRST_LOOKS {
        rig.look();
        assert!(!rig.rounds.counting.is_busy() && rig.evicted().is_none());
    }
    rig.rounds.parts.pods.tell(told);
    rig.look();
    assert!(rig.evicted().is_some(), "it answers");
    // This Docker accepts connections and never answers.
    rig.rounds.ask(now);
    let set = rig.rounds.asking.iter().map(Aside::done).collect();
    let ready = wait::until(set, Some(Instant::now() + Duration::from_secs(60))).unwrap();
    assert!(ready.iter().all(|flags| !flags.is_empty()), "the question has an end");
    assert_eq!(rig.rounds.asking.take().and_then(Aside::result), Some(None));
}

/// Right after the daemon's start another pod would be evicted in place of a pod with unknown usage.
#[test]
fn pods_that_nobody_has_told_of_yet_are_waited_for_but_not_for_ever() {
    let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
    let mut rig = Rig::new("keeper-early", vec![full, at_least(Signal::Pid, Amount::Units(100))]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    node.pods[0].is_told = false;
    rig.rounds.parts.pods.tell(Arc::new(node.clone()));
    write(&rig.root.join("proc/loadavg"), "0 0 0 1/950 1\n");
    rig.look();
    let now = rig.rounds.parts.clock.now().mono;
    rig.rounds.mind.collected(&Report::default(), now);
    rig.look();
    assert!(!rig.rounds.counting.is_busy() && rig.evicted().is_none());
    // The count may be over before the last look.
    let (mut later, mut counts) = (None, false);
    for _ in 0..limits::EVICTION_FIRST_LOOKS {
        rig.look();
        counts |= rig.rounds.counting.is_busy();
        later = later.or(rig.evicted());
    }
    assert!(counts && later.is_some(), "a worker that hangs holds up nothing");
}

/// Regression: an innocent pod was evicted right after the daemon's start, because Docker's list or a source was late
/// on a busy machine. And a question that came before Docker had answered the main loop was repeated only a minute
/// later.
#[test]
fn nobody_goes_before_docker_and_all_sources_have_spoken() {
    type Change = Box<dyn Fn(&mut Snapshot)>;
    let changes: [(&str, Change); 2] = [
        ("docker", Box::new(|node| node.docker.reachable = false)),
        ("source", Box::new(|node| node.sources.push(SourceView::silent("http")))),
    ];
    for (name, change) in changes {
        let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
        let mut rig = Rig::new(&format!("keeper-spoken-{name}"), vec![full]);
        let told = rig.rounds.parts.pods.get();
        let mut node = (*told).clone();
        change(&mut node);
        rig.rounds.parts.pods.tell(Arc::new(node));
        rig.look();
        let now = rig.rounds.parts.clock.now().mono;
        rig.rounds.mind.collected(&Report::default(), now);
        rig.look();
        assert!(!rig.rounds.counting.is_busy(), "{name}");
        rig.rounds.parts.pods.tell(told);
        assert!(rig.measures(), "{name}: now it has spoken");
    }
}

#[test]
fn the_pods_are_measured_as_soon_as_they_are_told_of() {
    let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
    let mut rig = Rig::new("keeper-told", vec![full]);
    let told = rig.rounds.parts.pods.get();
    let mut node = (*told).clone();
    node.pods[0].is_told = false;
    rig.rounds.parts.pods.tell(Arc::new(node));
    rig.look();
    let now = rig.rounds.parts.clock.now().mono;
    rig.rounds.mind.collected(&Report::default(), now);
    rig.look();
    assert!(!rig.rounds.counting.is_busy());
    rig.rounds.parts.pods.tell(told);
    assert!(rig.measures());
}

#[test]
fn what_an_earlier_daemon_told_to_go_is_awaited_before_pods_are_measured() {
    let full = at_least(Signal::NodeFs, Amount::Units(u64::MAX));
    let mut rig = Rig::new("keeper-earlier", vec![full]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    let (message, until) = (String::new(), rig.rounds.parts.clock.now().wall);
    let earlier =
        EvictionView { uid: "u".into(), count: 0, until, message, of_the_node: true, preempted: false };
    node.evictions.insert("default/earlier".into(), earlier);
    rig.rounds.parts.pods.tell(Arc::new(node));
    rig.look();
    let now = rig.rounds.parts.clock.now().mono;
    rig.rounds.mind.collected(&Report::default(), now);
    rig.look();
    assert!(!rig.rounds.counting.is_busy());
    let later = now.after(2 * limits::EVICTION_NEAR);
    let seen = rig.rounds.places.look(rig.rounds.mind.watched(), None).seen;
    let measures = rig.rounds.mind.look(&seen, |_, _| End::Gone, later);
    assert!(measures.contains(&Deed::Measure(Signal::NodeFs)), "{measures:?}");
    assert!(!rig.rounds.mind.awaits_earlier(later), "once");
}

/// Regression: a pod was evicted for its own limit, and at the same moment an innocent pod for the resource that the
/// first one was about to free.
#[test]
fn a_pod_that_goes_for_its_own_limits_is_awaited_before_another_one_is_chosen() {
    let mut rig = Rig::new("keeper-own-limits", vec![at_least(Signal::Pid, Amount::Units(1000))]);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    let mut guilty = node.pods[0].clone();
    let mut pod = crate::pod::DesiredPod::clone(&guilty.pod);
    (pod.uid, pod.key.name) = ("u2".into(), "guilty".into());
    (guilty.pod, guilty.is_kept) = (Arc::new(pod), false);
    let (message, until) = (String::new(), rig.rounds.parts.clock.now().wall);
    let eviction =
        EvictionView { uid: "u2".into(), count: 0, until, message, of_the_node: false, preempted: false };
    node.evictions.insert(guilty.pod.key.to_string(), eviction);
    node.pods[0].is_kept = true;
    node.pods.push(guilty);
    rig.rounds.parts.pods.tell(Arc::new(node));
    let files = crate::layout::volumes_dir(&rig.root, "u2").unwrap();
    fs::create_dir_all(files).unwrap();
    let cgroup = rig.root.join("cgroup/kubepods/podu2");
    fs::create_dir(&cgroup).unwrap();
    rig.look();
    rig.look();
    assert_eq!(rig.evicted(), None, "its processes are there still");
    fs::remove_dir(&cgroup).unwrap();
    rig.look();
    assert_eq!(rig.evicted().map(|eviction| eviction.uid).as_deref(), Some("u1"));
}

/// The page cache of a cgroup can be so large that no usage corresponds to a working set at the threshold.
#[test]
fn the_kernel_is_asked_for_no_usage_that_a_cgroup_never_has() {
    let mut rig = Rig::new("keeper-cache", vec![at_least(Signal::Memory, Amount::Units(100 << 20))]);
    let memory = rig.root.join("v1/memory");
    rig.rounds.places.cgroups = Hierarchies::open(rig.root.join("v1"));
    let capacity: u64 = 4_000_000 << 10;
    let usages = |cache: u64| {
        write(&memory.join("memory.usage_in_bytes"), &(cache + (50 << 20)).to_string());
        write(&memory.join("memory.stat"), &format!("total_inactive_file {cache}\n"));
        let look = rig.rounds.places.look(rig.rounds.mind.watched(), None);
        assert_eq!(look.seen.found.get(&Signal::Memory).map(|seen| seen.capacity), Some(capacity));
        look.usages
    };
    assert_eq!(usages(10 << 20), [(memory.join(""), capacity - (90 << 20))]);
    assert_eq!(usages(100 << 20), []);
}

/// Regression: a pod that had read large files was evicted for lack of memory.
#[test]
fn page_cache_of_the_pods_is_not_taken_for_memory_that_is_gone() {
    let short = at_least(Signal::AllocatableMemory, Amount::Units(100 << 20));
    let rig = Rig::new("keeper-pods-cache", vec![short]);
    let pods = rig.root.join("cgroup/kubepods");
    write(&pods.join("memory.max"), &(400_u64 << 20).to_string());
    write(&pods.join("memory.current"), &(390_u64 << 20).to_string());
    let available = |active: u64, inactive: u64| {
        let stat = format!("active_file {}\ninactive_file {}\n", active << 20, inactive << 20);
        write(&pods.join("memory.stat"), &stat);
        let look = rig.rounds.places.look(rig.rounds.mind.watched(), Some(Path::new("kubepods")));
        look.seen.found.get(&Signal::AllocatableMemory).map(|seen| seen.available >> 20)
    };
    assert_eq!(available(0, 0), Some(10));
    assert_eq!(available(0, 300), Some(310));
    assert_eq!(available(300, 0), Some(160), "half of what is used");
    assert_eq!(available(u64::MAX >> 20, 0), Some(400), "never more than there is");
}

/// Regression: a pod had gigabytes in the queues of its sockets, and the keeper did not see that they were missing.
#[test]
fn memory_that_is_in_no_cgroup_is_missing() {
    let mut rig = Rig::new("keeper-uncharged", vec![at_least(Signal::Memory, Amount::Units(100 << 20))]);
    let memory = rig.root.join("v1/memory");
    rig.rounds.places.cgroups = Hierarchies::open(rig.root.join("v1"));
    write(&memory.join("memory.usage_in_bytes"), &(500_u64 << 20).to_string());
    write(&memory.join("memory.stat"), "total_inactive_file 0\n");
    let available = |meminfo: &str| {
        write(&rig.root.join("proc/meminfo"), meminfo);
        let look = rig.rounds.places.look(rig.rounds.mind.watched(), None);
        look.seen.found.get(&Signal::Memory).map(|seen| seen.available >> 20)
    };
    assert_eq!(available("MemTotal: 4096000 kB\nMemAvailable: 1024000 kB\n"), Some(1000));
    assert_eq!(
        available("MemTotal: 4096000 kB\nMemAvailable: 3993600 kB\n"),
        Some(3900),
        "the rest is cache"
    );
    assert_eq!(available("MemTotal: 4096000 kB\n"), Some(3500), "a kernel that tells nothing");
    write(&memory.join("memory.limit_in_bytes"), &(1000_u64 << 20).to_string());
    assert_eq!(available("MemTotal: 4096000 kB\nMemAvailable: 102400 kB\n"), Some(500), "of a part");
}

/// A small tmpfs that fills quickly.
struct Small(PathBuf);

impl Drop for Small {
    fn drop(&mut self) {
        _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// One pod has files that cannot be read, the other one fills the disk.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_pod_that_cannot_be_counted_keeps_no_other_from_being_evicted() {
    let mut rig = Rig::new("keeper-dead", vec![at_least(Signal::NodeFs, Amount::Part(50_000))]);
    let disk = rig.root.join("disk");
    fs::create_dir(&disk).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("tmpfs", &disk, "tmpfs", flags, Some(c"size=10m")).unwrap();
    let _small = Small(disk.clone());
    // Docker has its own disk.
    rig.rounds.parts.root_dir.clone_from(&disk);
    rig.rounds.places.root_dir.clone_from(&disk);
    let mut node = (*rig.rounds.parts.pods.get()).clone();
    let dead = node.pods[0].pod.uid.clone();
    let mut other = node.pods[0].clone();
    let mut pod = (*other.pod).clone();
    (pod.uid, pod.key.name) = ("u2".to_owned(), "other".to_owned());
    other.pod = Arc::new(pod);
    other.status = Arc::new(PodStatus { phase: Some("Running".into()), ..PodStatus::default() });
    node.pods.push(other);
    rig.rounds.parts.pods.tell(Arc::new(node));
    write(&disk.join("pods/u2/volumes/file"), &"x".repeat(6 << 20));
    // Opening this file blocks until another process writes.
    let procs = rig.root.join("cgroup/kubepods/podu1").join("a".repeat(64)).join("cgroup.procs");
    rustix::fs::mknodat(rustix::fs::CWD, &procs, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();

    rig.look();
    assert_eq!(rig.rounds.counting.current(), Some(dead.as_str()));
    let mut now = rig.rounds.parts.clock.now().mono;
    while rig.rounds.counting.current() == Some(dead.as_str()) {
        now = now.after(limits::COUNT_PATIENCE);
        rig.rounds.watch_count(now);
    }
    let wait = |rig: &mut Rig| {
        let set = rig.rounds.counting.done().collect();
        let ready = wait::until(set, Some(Instant::now() + Duration::from_secs(60))).unwrap();
        let at = ready.iter().position(|flags| !flags.is_empty()).expect("a thread is done");
        rig.rounds.counted(at, rig.rounds.parts.clock.now().mono);
    };
    assert_eq!(rig.rounds.counting.current(), Some("u2"));
    wait(&mut rig);
    assert!(!rig.rounds.counting.is_busy(), "all others were counted");
    rig.look();
    assert_eq!(rig.evicted().map(|eviction| eviction.key.name), Some("other".to_owned()));
    // The count that hangs may end later.
    drop(fs::File::options().write(true).open(&procs).unwrap());
    wait(&mut rig);
    assert_eq!(rig.rounds.counting.done().count(), 0);
}

#[test]
fn removed_files_count_while_a_disk_is_short_and_otherwise_while_a_container_runs() {
    let root = scratch("keeper-victim");
    let [cgroup, volumes] = ["cgroup", "volumes"].map(|name| root.join(name));
    let key = snapshot().pods[0].pod.key.clone();
    let ends = Ends::default();
    ends.watch(vec![("gone".to_owned(), Some(key.clone()))]);
    ends.step_of(&key);
    let victim = |of_disk| Victim {
        key: Some(key.clone()),
        uid: "gone".into(),
        cgroups: vec![cgroup.clone()],
        volumes: vec![volumes.clone()],
        of_disk,
        has_layers: of_disk,
        was_killed: false,
        beside: Vec::new(),
    };
    let end = || [true, false].map(|of_disk| victim(of_disk).end(&snapshot(), &ends));
    fs::create_dir(&cgroup).unwrap();
    fs::create_dir(&volumes).unwrap();
    assert_eq!(end(), [End::Goes(1), End::Goes(1)]);
    fs::remove_dir(&cgroup).unwrap();
    assert_eq!(end(), [End::Goes(1), End::Goes(0)]);
    fs::remove_dir(&volumes).unwrap();
    assert_eq!(end(), [End::Gone, End::Gone]);
    fs::remove_dir_all(root).unwrap();
}
