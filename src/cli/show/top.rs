//! `top`: the current use of the node, its pods and their containers, in kubectl's columns. It asks the kernel twice,
//! and neither the daemon nor Docker.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;

use super::table::List;
use crate::base::limits;
use crate::base::order;
use crate::base::quantity;
use crate::base::table::Table;
use crate::cgroup::node::MOUNT;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, SortBy};
use crate::cli::{Outcome, fail, pods, print, say};
use crate::node::sys;
use crate::stats::cgroup::{self, Hierarchies};
use crate::stats::summary::asked::running;
use crate::stats::{node, places, rate};
use crate::status::snapshot::StatusFile;

/// Use between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Used {
    /// Billionths of a core.
    cpu: u64,
    /// Bytes.
    memory: u64,
}

impl Used {
    fn between(
        before: (Option<u64>, Instant),
        after: (Option<u64>, Instant),
        memory: Option<u64>,
    ) -> Option<Used> {
        let window = after.1.saturating_duration_since(before.1);
        Some(Used { cpu: rate::nano_cores(before.0?, after.0?, window)?, memory: memory? })
    }

    fn plus(self, other: Used) -> Used {
        Used { cpu: self.cpu.saturating_add(other.cpu), memory: self.memory.saturating_add(other.memory) }
    }

    fn milli(self) -> u64 {
        self.cpu.div_ceil(1_000_000)
    }

    fn cells(self) -> [String; 2] {
        [format!("{}m", self.milli()), format!("{}Mi", self.memory >> 20)]
    }
}

/// A pod with its containers that have figures.
#[derive(Debug, PartialEq)]
struct PodUse<'a> {
    namespace: &'a str,
    name: &'a str,
    containers: Vec<(&'a str, Used)>,
}

impl PodUse<'_> {
    fn sum(&self) -> Used {
        self.containers.iter().fold(Used::default(), |sum, (_, used)| sum.plus(*used))
    }
}

/// `top node`.
pub fn node(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    super::node::is_this(&status.file, names)?;
    let read = || (node::read(Path::new("/proc")), Instant::now());
    let before = read();
    thread::sleep(limits::TOP_WINDOW);
    let after = read();
    let used = Used::between((before.0.cpu, before.1), (after.0.cpu, after.1), after.0.working_set);
    let used = used.ok_or("/proc/stat and /proc/meminfo do not tell what the node uses")?;
    let (milli_cpu, memory) = allocatable(&status.file);
    let text = node_table(options, &status.file.node, used, milli_cpu, memory);
    Ok(print(&text))
}

/// CPU in thousandths and memory in bytes that the node gives to pods, the base of kubectl's percentages; the machine's
/// total when the file of an earlier daemon does not say.
fn allocatable(file: &StatusFile) -> (i64, i64) {
    let told = |resource: &str| file.info.allocatable.get(resource);
    let cpu = told("cpu").and_then(|text| quantity::milli(text).ok());
    let memory = told("memory").and_then(|text| quantity::value(text).ok());
    let machine = || sys::machine(Path::new(&file.root_dir)).capacity;
    (cpu.unwrap_or_else(|| machine().milli_cpu), memory.unwrap_or_else(|| machine().memory))
}

fn node_table(options: &Options, name: &str, used: Used, milli_cpu: i64, memory: i64) -> String {
    let share = |part: u64, whole: i64| {
        let whole = u128::try_from(whole).unwrap_or(0).max(1);
        format!("{}%", u128::from(part).saturating_mul(100) / whole)
    };
    let [cpu, bytes] = used.cells();
    let row = [name.to_owned(), cpu, share(used.milli(), milli_cpu), bytes, share(used.memory, memory)];
    let headings = ["NAME", "CPU(cores)", "CPU(%)", "MEMORY(bytes)", "MEMORY(%)"];
    table(options, &headings, vec![row.to_vec()])
}

fn table(options: &Options, headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let headings = headings.iter().map(|&heading| heading.to_owned()).collect();
    List::default().render((!options.command.no_headers).then_some(headings), rows)
}

/// `top pods`, all or these.
pub fn pods(options: &Options, names: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let (found, missing) = pods::select(&status.file, options, names);
    let mut exit = Exit::Ok;
    for message in missing {
        exit = fail(&message);
    }
    let chosen: Vec<&Pod> = found.iter().filter_map(|i| status.file.pods.get(*i)).collect();
    let used = measure(&chosen, &Hierarchies::open(PathBuf::from(MOUNT)));
    let mut all: Vec<PodUse<'_>> = chosen.iter().filter_map(|pod| PodUse::of(pod, &used)).collect();
    if !names.is_empty() {
        let has_none = |pod: &&&Pod| PodUse::of(pod, &used).is_none();
        for pod in chosen.iter().filter(has_none) {
            exit = fail(&format!("pod {}: no figures: none of its containers runs", full_name(pod)));
        }
    } else if all.is_empty() {
        say(&nothing(&status.file, options, chosen.len()));
    }
    sort(&mut all, options.command.top.sort_by);
    match print(&pod_table(options, &all)) {
        Exit::Ok => Ok(exit),
        other => Ok(other),
    }
}

fn nothing(file: &StatusFile, options: &Options, chosen: usize) -> String {
    match chosen {
        0 => pods::nothing(file, options),
        _ => {
            "No figures: no container of these pods runs, or this machine has no cgroups of them.".to_owned()
        }
    }
}

fn full_name(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default())
}

/// Use of each running container of these pods, by id. Waits for [`limits::TOP_WINDOW`] if any runs.
fn measure(pods: &[&Pod], hierarchies: &Hierarchies) -> Table<String, Used> {
    let mut cgroups = places::containers(hierarchies);
    let wanted = order::set(pods.iter().flat_map(|pod| running(pod)).map(|(_, id, _)| id));
    cgroups.retain(|id, _| wanted.contains(id.as_str()));
    if cgroups.is_empty() {
        return Table::new();
    }
    let read = |path: &PathBuf| -> (cgroup::Figures, Instant) { (hierarchies.read(path), Instant::now()) };
    let before: Vec<(String, PathBuf, (cgroup::Figures, Instant))> = cgroups
        .into_iter()
        .map(|(id, path)| {
            let first = read(&path);
            (id, path, first)
        })
        .collect();
    thread::sleep(limits::TOP_WINDOW);
    let both = before.into_iter().filter_map(|(id, path, before)| {
        let after = read(&path);
        let used = Used::between((before.0.cpu, before.1), (after.0.cpu, after.1), after.0.working_set)?;
        Some((id, used))
    });
    both.collect()
}

impl<'a> PodUse<'a> {
    /// Returns `None` for a pod without figures.
    fn of(pod: &'a Pod, used: &Table<String, Used>) -> Option<PodUse<'a>> {
        let containers = running(pod).filter_map(|(name, id, _)| Some((name, *used.get(id)?)));
        let containers: Vec<(&str, Used)> = containers.collect();
        (!containers.is_empty()).then(|| PodUse {
            namespace: pod.metadata.namespace.as_deref().unwrap_or("default"),
            name: pod.metadata.name.as_deref().unwrap_or_default(),
            containers,
        })
    }
}

/// Sorts as kubectl does: the largest first, both pods and the containers in each.
fn sort(pods: &mut [PodUse<'_>], by: Option<SortBy>) {
    let Some(by) = by else { return };
    let key = |used: Used| {
        std::cmp::Reverse(match by {
            SortBy::Cpu => used.cpu,
            SortBy::Memory => used.memory,
        })
    };
    order::sort_by_key(pods, |pod| key(pod.sum()));
    for pod in pods {
        order::sort_by_key(&mut pod.containers, |(_, used)| key(*used));
    }
}

fn pod_table(options: &Options, pods: &[PodUse<'_>]) -> String {
    let command = &options.command;
    let names: &[&str] = if command.top.containers { &["POD", "NAME"] } else { &["NAME"] };
    let namespace: &[&str] = if command.all_namespaces { &["NAMESPACE"] } else { &[] };
    let headings = [namespace, names, &["CPU(cores)", "MEMORY(bytes)"]].concat();
    let row = |pod: &PodUse<'_>, container: Option<&str>, used: Used| -> Vec<String> {
        let namespace = command.all_namespaces.then_some(pod.namespace);
        let names = [namespace, Some(pod.name), container].into_iter().flatten().map(str::to_owned);
        names.chain(used.cells()).collect()
    };
    let rows = pods.iter().flat_map(|pod| match command.top.containers {
        true => pod.containers.iter().map(|(name, used)| row(pod, Some(name), *used)).collect(),
        false => vec![row(pod, None, pod.sum())],
    });
    table(options, &headings, rows.collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cli::parse::{Command, parse};

    fn options(line: &str) -> Box<Options> {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::TopPods(options, _) | Command::TopNode(options, _)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn used(milli: u64, mebibytes: u64) -> Used {
        Used { cpu: milli * 1_000_000, memory: mebibytes << 20 }
    }

    #[test]
    fn percentages_are_of_what_the_node_gives() {
        let mut file = pods::tests::node().file;
        let list =
            [("cpu", "1500m"), ("memory", "512Mi")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        file.info.allocatable = list.into();
        assert_eq!(allocatable(&file), (1500, 512 << 20));
        file.info.allocatable.clear();
        let machine = sys::machine(Path::new(&file.root_dir)).capacity;
        assert_eq!(allocatable(&file), (machine.milli_cpu, machine.memory));
    }

    #[test]
    fn pods_are_listed_as_kubectl_does() {
        let pods = || {
            vec![
                PodUse {
                    namespace: "default",
                    name: "web-node1",
                    containers: vec![("main", used(1, 20)), ("log", used(9, 1))],
                },
                PodUse {
                    namespace: "kube-system",
                    name: "dns-node1",
                    containers: vec![("main", Used { cpu: 1, memory: (4 << 20) - 1 })],
                },
            ]
        };
        let check = |line: &str, expected: &str| {
            let (options, mut pods) = (options(line), pods());
            sort(&mut pods, options.command.top.sort_by);
            assert_eq!(pod_table(&options, &pods), expected, "{line}");
        };
        check(
            "top pods",
            "NAME        CPU(cores)   MEMORY(bytes)\n\
             web-node1   10m          21Mi\n\
             dns-node1   1m           3Mi\n",
        );
        check(
            "top pods -A --sort-by memory --containers",
            "NAMESPACE     POD         NAME   CPU(cores)   MEMORY(bytes)\n\
             default       web-node1   main   1m           20Mi\n\
             default       web-node1   log    9m           1Mi\n\
             kube-system   dns-node1   main   1m           3Mi\n",
        );
        check(
            "top pods --containers --sort-by cpu --no-headers",
            "web-node1   log    9m    1Mi\n\
             web-node1   main   1m    20Mi\n\
             dns-node1   main   1m    3Mi\n",
        );
    }

    #[test]
    fn the_node_is_listed_as_kubectl_does() {
        assert_eq!(
            node_table(&options("top node"), "node1", used(501, 512), 2000, 1 << 30),
            "NAME    CPU(cores)   CPU(%)   MEMORY(bytes)   MEMORY(%)\n\
             node1   501m         25%      512Mi           50%\n"
        );
    }

    #[test]
    fn use_is_what_changed_between_two_readings() {
        let begun = Instant::now();
        let later = begun + Duration::from_millis(500);
        let between = |before, after, memory| Used::between((before, begun), (after, later), memory);
        assert_eq!(between(Some(5), Some(250_000_005), Some(1 << 20)), Some(used(500, 1)));
        assert_eq!(between(Some(5), Some(4), Some(1)), None, "another container");
        assert_eq!(between(Some(5), None, Some(1)), None, "it ended meanwhile");
        assert_eq!(between(Some(5), Some(6), None), None);
    }

    #[test]
    fn running_containers_have_figures() {
        let file = pods::tests::node().file;
        let all: Vec<&Pod> = file.pods.iter().collect();
        let ids: Vec<&str> = all.iter().flat_map(|pod| running(pod)).map(|(_, id, _)| id).collect();
        assert!(!ids.is_empty());
        let figures = ids.iter().map(|id| ((*id).to_owned(), used(1, 1))).collect();
        let with: Vec<PodUse<'_>> = all.iter().filter_map(|pod| PodUse::of(pod, &figures)).collect();
        assert_eq!(with.iter().map(|pod| pod.containers.len()).sum::<usize>(), ids.len());
        assert!(with.len() < all.len(), "some pods do not run");
        // Without cgroups the measurement does not wait.
        let begun = Instant::now();
        assert!(measure(&all, &Hierarchies::open(PathBuf::from("/nonexistent"))).is_empty());
        assert!(begun.elapsed() < limits::TOP_WINDOW);
    }
}
