//! One `kubepods` and the cgroups below it: created, written, marked and removed, by podkeeper or by systemd.
//!
//! Never here: a lock, or remembered pods. Every operation may take as long as `systemctl`.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Naming;
use super::cpu;
use super::node::{Limited, Settings};
use super::slices::Slices;
use super::tree::Tree;
use super::values::{Entry, PodCgroup, memory_file, memory_property, weight_file, weight_property};
use crate::base::table::Set;
use crate::base::{limits, order};
use crate::pod::qos::Qos;

/// All classes, the topmost first.
const CLASSES: [Qos; 3] = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort];

/// The program that creates and removes cgroups.
#[derive(Debug, Clone)]
pub(super) enum Manager {
    /// Podkeeper and Docker, as directories.
    Files,
    /// systemd.
    Slices(Slices),
}

/// One `kubepods` hierarchy of pods.
#[derive(Debug)]
pub(super) struct Kubepods {
    pub(super) tree: Tree,
    pub(super) manager: Manager,
    pub(super) naming: Naming,
    /// `kubepods` did not exist at the last look: systemd will create it, with the first container, for this
    /// podkeeper.
    expected: AtomicBool,
}

/// The kernel shows no limit of version 1 as the largest number of whole pages, in bytes.
const UNLIMITED: i64 = i64::MAX / 2;

impl Kubepods {
    pub(super) fn new(tree: Tree, manager: Manager, naming: Naming) -> Kubepods {
        Kubepods { tree, manager, naming, expected: AtomicBool::new(false) }
    }

    /// The same mounts and manager, with another root.
    pub(super) fn at(&self, naming: Naming) -> Kubepods {
        Kubepods::new(self.tree.clone(), self.manager.clone(), naming)
    }

    fn classes(&self) -> [PathBuf; 2] {
        [Qos::BestEffort, Qos::Burstable].map(|class| self.naming.class(class))
    }

    /// Creates `kubepods` and the classes if they are missing. Returns whether the limits of all pods together are set;
    /// without them pods run anyway.
    ///
    /// # Errors
    /// An error of the kernel or of systemd. After a timeout of systemd the remaining steps are skipped.
    pub(super) fn prepare(&self, settings: &Settings) -> io::Result<Limited> {
        let (tree, top) = (&self.tree, self.naming.top());
        let limited = match &self.manager {
            Manager::Files => {
                let fresh = !tree.exists(&top);
                tree.make(&top)?;
                if fresh {
                    tree.mark(&top);
                }
                let limited = self.limit(settings);
                for class in self.classes() {
                    let fresh = !tree.exists(&class);
                    tree.make(&class)?;
                    if fresh {
                        tree.write(&class, &[weight_file(tree.version, cpu::shares(0))])?;
                    }
                }
                limited
            }
            Manager::Slices(slices) => {
                let limited = match self.limit(settings) {
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(error),
                    limited => limited,
                };
                for class in self.classes().map(|class| Naming::unit(&class)) {
                    if !slices.is_told(&class) {
                        slices.set(&class, &[weight_property(tree.version, cpu::shares(0))])?;
                    }
                }
                limited
            }
        };
        Ok(limited.map_err(|error| {
            log::warn!("Failed to update Node Allocatable Limits: {error}");
            error.to_string()
        }))
    }

    /// Writes the weight of all pods together, and the limit of their memory.
    ///
    /// # Errors
    /// An error of the kernel or of systemd.
    pub(super) fn limit(&self, settings: &Settings) -> io::Result<()> {
        let (tree, top, shares) = (&self.tree, self.naming.top(), cpu::shares(settings.milli_cpu));
        match &self.manager {
            Manager::Files => {
                let mut files = vec![weight_file(tree.version, shares)];
                // Also when an earlier daemon had reserved memory, and nothing is reserved any more.
                let has_limit = || tree.memory(&top).is_some_and(|now| now < UNLIMITED);
                if settings.memory.is_some() || has_limit() {
                    files.push(memory_file(tree.version, settings.memory));
                }
                tree.write(&top, &files)
            }
            Manager::Slices(slices) => {
                let memory = memory_property(tree.version, settings.memory);
                slices.set(&Naming::unit(&top), &[weight_property(tree.version, shares), memory])
            }
        }
    }

    /// Whether the classes exist, if podkeeper creates them.
    pub(super) fn is_prepared(&self) -> bool {
        self.tree.exists(&self.naming.class(Qos::BestEffort))
    }

    /// Removes `kubepods` and the classes if they are empty and a podkeeper created them. Returns whether
    /// they are gone.
    pub(super) fn remove_if_unused(&self) -> bool {
        let (tree, top, classes) = (&self.tree, self.naming.top(), self.classes());
        match &self.manager {
            Manager::Files => tree.remove_if_idle(&top, &classes),
            Manager::Slices(slices) => {
                let top_unit = Naming::unit(&top);
                let ours = slices.is_told(&top_unit) && tree.is_idle(&top, &classes);
                let units = classes.iter().map(|class| Naming::unit(class)).chain([top_unit]);
                // Docker creates a slice's cgroup in every hierarchy; systemd removes it only from those
                // that it uses.
                let gone = ours && slices.stop(&units.collect::<Vec<_>>()).is_ok();
                if gone {
                    tree.remove_empty(&top, &classes);
                }
                gone
            }
        }
    }

    /// Writes the values of a pod's cgroup.
    ///
    /// # Errors
    /// An error of the kernel or of systemd.
    pub(super) fn fill(&self, pod: &PodCgroup) -> io::Result<()> {
        let (tree, path) = (&self.tree, self.naming.pod(pod.qos, &pod.uid));
        let files = pod.values.files(tree.version, &tree.huge_pages(&path));
        match &self.manager {
            Manager::Files => tree.write(&path, &files),
            Manager::Slices(slices) => {
                slices.set(&Naming::unit(&path), &pod.values.properties(tree.version))?;
                let rest: Vec<Entry> =
                    files.into_iter().filter(|(controller, ..)| *controller == "hugetlb").collect();
                tree.write(&path, &rest)
            }
        }
    }

    /// Whether the pod's cgroup exists with a higher memory limit than this. The kernel then reclaims memory
    /// before it accepts the new limit.
    pub(super) fn lowers_memory(&self, pod: &PodCgroup) -> bool {
        let Some(wanted) = pod.values.memory else { return false };
        let now = self.tree.memory(&self.naming.pod(pod.qos, &pod.uid));
        now.is_some_and(|now| wanted < now)
    }

    /// Sets the weight of all burstable pods together, in shares.
    pub(super) fn weigh(&self, shares: i64) {
        let (version, class) = (self.tree.version, self.naming.class(Qos::Burstable));
        let told = match &self.manager {
            Manager::Files => self.tree.write(&class, &[weight_file(version, shares)]),
            Manager::Slices(slices) => slices.set(&Naming::unit(&class), &[weight_property(version, shares)]),
        };
        if let Err(error) = told {
            log::warn!("the weight of burstable pods stays: {error}");
        }
    }

    /// Removes the cgroup of this UID with everything in it, in any class.
    ///
    /// # Errors
    /// A process in it cannot be killed, or systemd does not answer.
    pub(super) fn remove_pod(&self, uid: &str) -> io::Result<()> {
        self.take_down(&CLASSES.map(|qos| self.naming.pod(qos, uid)))
    }

    fn take_down(&self, paths: &[PathBuf]) -> io::Result<()> {
        let paths: Vec<&PathBuf> = paths.iter().filter(|at| self.tree.other_user(at).is_none()).collect();
        let mut stopped = Ok(());
        if let Manager::Slices(slices) = &self.manager {
            let units = paths.iter().filter_map(|path| {
                let unit = Naming::unit(path);
                (self.tree.exists(path) || slices.is_told(&unit)).then_some(unit)
            });
            stopped = slices.stop(&units.collect::<Vec<_>>());
        }
        // systemd may have left some of them.
        paths.iter().try_for_each(|path| self.tree.remove(path)).and(stopped)
    }

    /// UIDs, in the form of cgroup names, of pods whose cgroup here has this podkeeper's mark.
    pub(super) fn ours(&self) -> Vec<String> {
        let names = CLASSES.into_iter().flat_map(|qos| self.tree.ours(&self.naming.class(qos)));
        names.filter_map(|name| self.naming.uid(&name).map(str::to_owned)).collect()
    }

    /// Whether this `kubepods` belongs to another program: a kubelet kills unknown processes in its own. A
    /// podkeeper's `kubepods` has a mark, or all pods in it have one. If cgroups cannot be marked, it counts
    /// as a podkeeper's.
    pub(super) fn is_foreign(&self) -> bool {
        let (tree, top) = (&self.tree, self.naming.top());
        if !tree.exists(&top) {
            self.expected.store(true, Ordering::Relaxed);
            return false;
        }
        if tree.is_marked(&top) {
            return false;
        }
        if matches!(self.manager, Manager::Slices(_)) && self.expected.load(Ordering::Relaxed) {
            tree.mark(&top);
            return false;
        }
        let (marked, others): (Vec<PathBuf>, Vec<PathBuf>) =
            self.pods().into_iter().partition(|path| tree.is_marked(path));
        if (!marked.is_empty() && others.is_empty()) || !tree.can_mark(&top) {
            return false;
        }
        // Another podkeeper may have created it and not marked it yet.
        thread::sleep(limits::CGROUP_MARK);
        tree.exists(&top) && !tree.is_marked(&top)
    }

    /// Cgroups of pods in this `kubepods` that another program created and uses, although a podkeeper created
    /// `kubepods`: those of a kubelet that came later, and that kills unknown processes. Each with its inode number,
    /// which differs for a later cgroup of the same name. A podkeeper marks a pod's cgroup before a container runs in
    /// it, so one without a mark and without processes does not count yet. If systemd creates the slices, those of
    /// other podkeepers have no mark before their first container runs, so nothing is returned.
    pub(super) fn strangers(&self) -> Set<(PathBuf, u64)> {
        if matches!(self.manager, Manager::Slices(_)) || !self.tree.is_marked(&self.naming.top()) {
            return Set::new();
        }
        let pods = self.pods().into_iter().filter(|path| !self.tree.is_marked(path));
        let used = pods.filter(|path| self.tree.has_processes(path));
        order::set(
            used.filter_map(|path| Some((self.tree.number(&path)?, path)))
                .map(|(number, path)| (path, number)),
        )
    }

    /// Cgroups of all pods here.
    fn pods(&self) -> Vec<PathBuf> {
        let of_class = |qos| {
            let class = self.naming.class(qos);
            let names = self.tree.below(&class).into_iter().filter(|name| self.naming.uid(name).is_some());
            names.map(|name| class.join(name)).collect::<Vec<_>>()
        };
        CLASSES.into_iter().flat_map(of_class).collect()
    }
}
