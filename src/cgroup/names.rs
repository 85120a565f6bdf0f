//! Path of a pod's cgroup, and the cgroup parent for Docker, for both drivers. Pure.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::pod::qos::Qos;

/// The cgroup of all pods.
const TOP: &str = "kubepods";

/// The program that creates cgroups for Docker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Docker itself.
    Cgroupfs,
    /// systemd: cgroups are slices, and only systemd creates or changes them.
    Systemd,
}

impl Driver {
    /// `CgroupDriver` of Docker's `/info`; `None` for none (rootless) and for unknown drivers.
    #[must_use]
    pub fn parse(word: &str) -> Option<Driver> {
        match word {
            "cgroupfs" => Some(Driver::Cgroupfs),
            "systemd" => Some(Driver::Systemd),
            _ => None,
        }
    }
}

/// Names of cgroups on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Docker's driver.
    pub driver: Driver,
    /// `--cgroup-root`, split at its slashes.
    root: Vec<String>,
}

impl Naming {
    /// Names below this root: `/`, or a path from there.
    #[must_use]
    pub fn new(driver: Driver, root: &str) -> Naming {
        let root = root.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Naming { driver, root }
    }

    /// The naming of a `kubepods` at this path; `None` for other paths.
    #[must_use]
    pub fn of_top(path: &Path) -> Option<Naming> {
        let name = path.file_name()?.to_str()?;
        if name == TOP {
            let above = path.parent()?.iter().map(|part| part.to_str().map(str::to_owned));
            return Some(Naming { driver: Driver::Cgroupfs, root: above.collect::<Option<_>>()? });
        }
        let mut root: Vec<String> = name.strip_suffix(".slice")?.split('-').map(str::to_owned).collect();
        (root.pop()? == TOP).then_some(Naming { driver: Driver::Systemd, root })
    }

    /// The naming of the `kubepods` above this path.
    #[must_use]
    pub fn of_below(path: &Path) -> Option<Naming> {
        path.ancestors().find_map(Naming::of_top)
    }

    /// The pod's cgroup, if the cgroup of one of its containers is in it.
    #[must_use]
    pub fn pod_of<'a>(container: &'a Path, uid: &str) -> Option<&'a Path> {
        let above = container.parent()?;
        let name = above.file_name()?.to_str()?;
        // systemd's names have `_` for `-`.
        let is_it = name.ends_with(&format!("pod{uid}"))
            || name.ends_with(&format!("pod{}.slice", uid.replace('-', "_")));
        is_it.then_some(above)
    }

    /// Path of `kubepods` in a hierarchy.
    #[must_use]
    pub fn top(&self) -> PathBuf {
        self.path(&self.parts(Qos::Guaranteed))
    }

    /// Path of a class; guaranteed pods are in `kubepods` itself.
    #[must_use]
    pub fn class(&self, qos: Qos) -> PathBuf {
        self.path(&self.parts(qos))
    }

    /// Path of a pod's cgroup in a hierarchy.
    #[must_use]
    pub fn pod(&self, qos: Qos, uid: &str) -> PathBuf {
        self.path(&self.pod_parts(qos, uid))
    }

    /// The last part of a cgroup's path: with systemd, the name of its unit.
    #[must_use]
    pub fn unit(path: &Path) -> String {
        path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Docker's `CgroupParent` for containers of a pod.
    #[must_use]
    pub fn parent(&self, qos: Qos, uid: &str) -> String {
        let parts = self.pod_parts(qos, uid);
        match self.driver {
            Driver::Cgroupfs => format!("/{}", parts.join("/")),
            Driver::Systemd => slice(&parts),
        }
    }

    /// The UID in the name of a pod's cgroup, as far as it can be restored: systemd's names have `_` for
    /// `-`.
    #[must_use]
    pub fn uid<'a>(&self, directory: &'a str) -> Option<&'a str> {
        let name = match self.driver {
            Driver::Cgroupfs => directory,
            Driver::Systemd => directory.strip_suffix(".slice")?.rsplit('-').next()?,
        };
        name.strip_prefix("pod").filter(|uid| !uid.is_empty())
    }

    fn parts(&self, qos: Qos) -> Vec<String> {
        let class = match qos {
            Qos::Guaranteed => None,
            Qos::Burstable => Some("burstable"),
            Qos::BestEffort => Some("besteffort"),
        };
        let below = [TOP].into_iter().chain(class).map(str::to_owned);
        self.root.iter().cloned().chain(below).collect()
    }

    fn pod_parts(&self, qos: Qos, uid: &str) -> Vec<String> {
        let mut parts = self.parts(qos);
        parts.push(format!("pod{uid}"));
        parts
    }

    fn path(&self, parts: &[String]) -> PathBuf {
        match self.driver {
            Driver::Cgroupfs => parts.iter().collect(),
            // A slice is inside the slices whose names are its prefixes.
            Driver::Systemd => (1..=parts.len()).map(|n| slice(parts.get(..n).unwrap_or(parts))).collect(),
        }
    }
}

/// `kubepods-burstable-pod1234_5678.slice`.
fn slice(parts: &[String]) -> String {
    let parts: Vec<String> = parts.iter().map(|part| part.replace('-', "_")).collect();
    format!("{}.slice", parts.join("-"))
}

/// The naming, set once Docker's driver is known. Clones share it. Empty: pods have no cgroups of their own.
#[derive(Debug, Clone, Default)]
pub struct Parents(Arc<Mutex<Option<Arc<Naming>>>>);

impl Parents {
    pub fn set(&self, naming: Naming) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(naming));
    }

    /// The naming, if it is known.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Naming>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The id in a container's cgroup name: `<id>`, with systemd `docker-<id>.scope`.
#[must_use]
pub fn container_id(name: &str) -> Option<&str> {
    let scope = name.strip_suffix(".scope").and_then(|name| name.strip_prefix("docker-"));
    let id = scope.unwrap_or(name);
    (id.len() == 64 && id.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_parents() {
        let check = |driver, root: &str, qos, path: &str, parent: &str| {
            let naming = Naming::new(driver, root);
            assert_eq!(naming.pod(qos, "12-ab").to_str(), Some(path));
            assert_eq!(naming.parent(qos, "12-ab"), parent);
            let last = path.rsplit('/').next().unwrap();
            // The UID in the form of systemd's names.
            let written = if driver == Driver::Systemd { "12_ab" } else { "12-ab" };
            assert_eq!(naming.uid(last), Some(written), "{last}");
        };
        use Driver::{Cgroupfs, Systemd};
        check(Cgroupfs, "", Qos::Guaranteed, "kubepods/pod12-ab", "/kubepods/pod12-ab");
        check(Cgroupfs, "/", Qos::Burstable, "kubepods/burstable/pod12-ab", "/kubepods/burstable/pod12-ab");
        check(
            Cgroupfs,
            "/a-b/c/",
            Qos::BestEffort,
            "a-b/c/kubepods/besteffort/pod12-ab",
            "/a-b/c/kubepods/besteffort/pod12-ab",
        );
        check(
            Systemd,
            "",
            Qos::Guaranteed,
            "kubepods.slice/kubepods-pod12_ab.slice",
            "kubepods-pod12_ab.slice",
        );
        check(
            Systemd,
            "/",
            Qos::Burstable,
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod12_ab.slice",
            "kubepods-burstable-pod12_ab.slice",
        );
        check(
            Systemd,
            "/a-b",
            Qos::BestEffort,
            "a_b.slice/a_b-kubepods.slice/a_b-kubepods-besteffort.slice/a_b-kubepods-besteffort-pod12_ab.slice",
            "a_b-kubepods-besteffort-pod12_ab.slice",
        );
    }

    #[test]
    fn a_top_is_known_by_its_path() {
        for driver in [Driver::Cgroupfs, Driver::Systemd] {
            for root in ["", "/a", "/a/b"] {
                let naming = Naming::new(driver, root);
                assert_eq!(Naming::of_top(&naming.top()), Some(naming));
            }
        }
        for none in ["", "kubepodsx", "a/kubepods.scope", "kubepods.slice/kubepods-burstable.slice"] {
            assert_eq!(Naming::of_top(Path::new(none)), None, "{none}");
        }
    }

    #[test]
    fn pods_and_tops_are_found_from_below() {
        for driver in [Driver::Cgroupfs, Driver::Systemd] {
            let naming = Naming::new(driver, "/a");
            let pod = naming.pod(Qos::Burstable, "12-ab");
            let container = pod.join("c".repeat(64));
            assert_eq!(Naming::pod_of(&container, "12-ab"), Some(pod.as_path()));
            assert_eq!(Naming::pod_of(&container, "12-ac"), None);
            assert_eq!(Naming::of_below(&container), Some(naming));
        }
        assert_eq!(Naming::of_below(Path::new("docker/abc")), None);
        assert_eq!(Naming::pod_of(Path::new("docker"), "u"), None);
    }

    #[test]
    fn what_is_no_pod() {
        let plain = Naming::new(Driver::Cgroupfs, "");
        assert_eq!(plain.uid("burstable"), None);
        assert_eq!(plain.uid("pod"), None);
        assert_eq!(plain.top().to_str(), Some("kubepods"));
        let slices = Naming::new(Driver::Systemd, "");
        assert_eq!(slices.uid("kubepods-burstable.slice"), None);
        assert_eq!(slices.uid("podx"), None);
        assert_eq!(slices.class(Qos::Burstable).to_str(), Some("kubepods.slice/kubepods-burstable.slice"));
    }

    #[test]
    fn drivers() {
        assert_eq!(Driver::parse("cgroupfs"), Some(Driver::Cgroupfs));
        assert_eq!(Driver::parse("systemd"), Some(Driver::Systemd));
        assert_eq!(Driver::parse("none"), None);
    }
}
