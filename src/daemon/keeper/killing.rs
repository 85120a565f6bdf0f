//! The direct end of a pod that was evicted and that Docker, which answers others, does not stop.
//!
//! Never here: a process outside of the cgroups that Docker has created for containers in the cgroup of this pod.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::Rounds;
use super::victims::Victim;
use crate::base::{limits, regular};
use crate::cgroup::Naming;
use crate::cgroup::names::container_id;
use crate::node::pressure::Pressure;
use crate::pod::qos::Qos;

impl Rounds {
    /// Kills what runs in the containers of the pod that was evicted for this; returns whether there is anything.
    pub(super) fn kill(&mut self, of: Pressure) -> bool {
        let (Some(victim), Some(naming)) = (self.victims.get_mut(&of), self.parts.parents.get()) else {
            return false;
        };
        victim.was_killed = true;
        let mut any = false;
        for cgroup in own(victim, &naming, &self.places.cgroups.tree()) {
            any = true;
            let pod = victim.key.as_ref().map_or_else(|| victim.uid.clone(), ToString::to_string);
            log::warn!(
                "pod {pod}: it was evicted, and Docker does not stop it: what runs in {} is killed",
                cgroup.display()
            );
            if let Err(error) = end(cgroup) {
                log::warn!("pod {pod}: what runs in {} cannot be killed: {error}", cgroup.display());
            }
        }
        any
    }
}

impl Victim {
    /// Containers whose processes were killed and are gone, by Docker's id: Docker may say for ever that they run.
    pub(super) fn killed(&self) -> impl Iterator<Item = &str> {
        let dead = self.cgroups.iter().filter(|at| self.was_killed && is_empty(at));
        dead.filter_map(|at| container_id(at.file_name()?.to_str()?))
    }
}

/// Whether a cgroup, and all below it, have no process; a cgroup that is gone has none.
fn is_empty(top: &Path) -> bool {
    let mut open = vec![top.to_owned()];
    for _ in 0..limits::CGROUPS {
        let Some(at) = open.pop() else { return true };
        match processes(&at) {
            Ok(found) if found.is_empty() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            _ => return false,
        }
        open.extend(below(&at));
    }
    false
}

fn below(at: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(at).into_iter().flatten().flatten();
    entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())).map(|it| it.path())
}

/// The cgroups of a victim's containers that are in the pod's own.
fn own<'v>(victim: &'v Victim, naming: &Naming, tree: &Path) -> impl Iterator<Item = &'v PathBuf> {
    let all = [Qos::Guaranteed, Qos::Burstable, Qos::BestEffort];
    let pods = all.map(|qos| tree.join(naming.pod(qos, &victim.uid)));
    let is_own = move |at: &&PathBuf| pods.iter().any(|pod| at.starts_with(pod) && *at != pod && at.is_dir());
    victim.cgroups.iter().filter(is_own)
}

fn end(cgroup: &Path) -> io::Result<()> {
    // Version 2 since Linux 5.14; it ends frozen processes, too, and no new process escapes.
    match OpenOptions::new().write(true).open(cgroup.join("cgroup.kill")) {
        Ok(mut file) => return file.write_all(b"1"),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) => {}
    }
    for _ in 0..limits::EVICTION_KILLS {
        if !end_each(cgroup)? {
            break;
        }
    }
    Ok(())
}

/// Kills the processes of a cgroup and those below it; returns whether there were any.
fn end_each(top: &Path) -> io::Result<bool> {
    let (mut open, mut any) = (vec![top.to_owned()], false);
    for _ in 0..limits::CGROUPS {
        let Some(at) = open.pop() else { break };
        for some in processes(&at)?.chunks(limits::EVICTION_KILLS_AT_ONCE) {
            // A descriptor stays with its process, so a process that is here after the opening is the right one.
            let held: Vec<_> = some
                .iter()
                .filter_map(|pid| Some((*pid, pidfd_open(*pid, PidfdFlags::empty()).ok()?)))
                .collect();
            let here = processes(&at)?;
            for (_, process) in held.iter().filter(|(pid, _)| here.contains(pid)) {
                any |= pidfd_send_signal(process, Signal::KILL).is_ok();
            }
        }
        open.extend(below(&at));
    }
    Ok(any)
}

fn processes(cgroup: &Path) -> io::Result<Vec<Pid>> {
    let list = regular::read_start(&cgroup.join("cgroup.procs"), limits::CGROUP_PROCS)?;
    let list = String::from_utf8_lossy(&list);
    Ok(list.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;
    use crate::base::testing::scratch;
    use crate::cgroup::Driver;
    use crate::pod::PodKey;

    fn sleeper() -> Child {
        Command::new("sleep").arg("60").spawn().unwrap()
    }

    /// Regression: a pod about which Docker answered nothing went on running, and others were evicted in its place.
    #[test]
    fn only_what_runs_in_the_containers_of_the_pod_is_killed() {
        let tree = scratch("keeper-killing");
        let naming = Naming::new(Driver::Cgroupfs, "/");
        let id = "a".repeat(64);
        let at = |path: &str| tree.join(path).join(&id);
        let (own_one, other, loose) = (at("kubepods/podu1"), at("kubepods/podu2"), at("docker"));
        let mut victim = Victim {
            key: Some(PodKey { namespace: "default".into(), name: "hog".into() }),
            uid: "u1".into(),
            cgroups: vec![own_one.clone(), other, loose, tree.join("kubepods/podu1")],
            volumes: Vec::new(),
            of_disk: true,
            has_layers: false,
            was_killed: false,
            beside: Vec::new(),
        };
        for path in &victim.cgroups {
            fs::create_dir_all(path).unwrap();
        }
        assert_eq!(own(&victim, &naming, &tree).collect::<Vec<_>>(), [&own_one]);
        fs::write(own_one.join("cgroup.kill"), "").unwrap();
        end(&own_one).unwrap();
        assert_eq!(fs::read_to_string(own_one.join("cgroup.kill")).unwrap(), "1");
        // An older kernel: each process, those of cgroups below included.
        fs::remove_file(own_one.join("cgroup.kill")).unwrap();
        let (mut here, mut below, mut others) = (sleeper(), sleeper(), sleeper());
        fs::create_dir(own_one.join("inner")).unwrap();
        fs::write(own_one.join("cgroup.procs"), format!("0\n{}\n", here.id())).unwrap();
        fs::write(own_one.join("inner/cgroup.procs"), format!("{}\n", below.id())).unwrap();
        end(&own_one).unwrap();
        assert!(!here.wait().unwrap().success() && !below.wait().unwrap().success());
        assert!(others.try_wait().unwrap().is_none());
        others.kill().unwrap();
        others.wait().unwrap();
        // Docker may say for ever that it runs.
        victim.cgroups.truncate(1);
        assert_eq!(victim.killed().count(), 0, "it was not killed");
        victim.was_killed = true;
        assert_eq!(victim.killed().count(), 0, "something runs still");
        fs::write(own_one.join("cgroup.procs"), "").unwrap();
        assert_eq!(victim.killed().count(), 0, "something runs below");
        fs::write(own_one.join("inner/cgroup.procs"), "").unwrap();
        assert_eq!(victim.killed().collect::<Vec<_>>(), [&id]);
        fs::remove_dir_all(&own_one).unwrap();
        assert_eq!(victim.killed().collect::<Vec<_>>(), [&id]);
        fs::remove_dir_all(&tree).unwrap();
    }
}
