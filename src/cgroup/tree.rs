//! Creates, writes and removes cgroups below one mount point. I/O only: it knows paths, not pods.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::values::{Entry, Version, memory_file};
use crate::base::limits;
use crate::base::locks;
use crate::base::order;

/// Extended attribute of a pod's cgroup: the root directory of the podkeeper that created it.
const OWNER: &str = "trusted.podkeeper.root-dir";
/// Set and removed again to find out whether marks are possible.
const PROBE: &str = "trusted.podkeeper.probe";
/// Controllers whose files are written.
const CONTROLLERS: [&str; 4] = ["cpu", "memory", "pids", "hugetlb"];

/// The cgroup file systems of this machine.
#[derive(Debug, Clone)]
pub struct Tree {
    /// Usually `/sys/fs/cgroup`.
    root: PathBuf,
    /// Version of the mounted hierarchy.
    pub version: Version,
    /// This podkeeper's root directory, for marks.
    owner: String,
}

impl Tree {
    /// Opens the hierarchy mounted at `root`.
    #[must_use]
    pub fn open(root: PathBuf, owner: String) -> Tree {
        let whole = root.join("cgroup.controllers").exists();
        Tree { version: if whole { Version::V2 } else { Version::V1 }, root, owner }
    }

    /// Creates a cgroup with its parents.
    ///
    /// # Errors
    /// The file system is read-only or missing.
    pub fn make(&self, cgroup: &Path) -> io::Result<()> {
        let hierarchies = self.written();
        if hierarchies.is_empty() {
            let why = format!("no cgroup controller is mounted below {}", self.root.display());
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
        for hierarchy in hierarchies {
            // Another podkeeper may just be removing an empty parent.
            let again = |error: &io::Error| error.kind() == ErrorKind::NotFound;
            match self.make_in(&hierarchy, cgroup) {
                Err(error) if again(&error) => self.make_in(&hierarchy, cgroup)?,
                made => made?,
            }
        }
        Ok(())
    }

    fn make_in(&self, hierarchy: &Path, cgroup: &Path) -> io::Result<()> {
        let mut at = hierarchy.to_owned();
        for part in cgroup {
            if self.version == Version::V2 {
                self.delegate(&at);
            }
            at.push(part);
            match fs::create_dir(&at) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", at.display())));
                }
            }
        }
        if self.version == Version::V2 {
            self.delegate(&at);
        }
        Ok(())
    }

    /// Enables every available controller for the cgroups below this one. A controller that cannot be
    /// delegated fails later, when its files are written.
    fn delegate(&self, cgroup: &Path) {
        let there = fs::read_to_string(cgroup.join("cgroup.controllers")).unwrap_or_default();
        let given = fs::read_to_string(cgroup.join("cgroup.subtree_control")).unwrap_or_default();
        let given = order::set(given.split_whitespace());
        for controller in there.split_whitespace().filter(|c| !given.contains(c)) {
            if CONTROLLERS.contains(&controller) || controller == "cpuset" || controller == "io" {
                _ = fs::write(cgroup.join("cgroup.subtree_control"), format!("+{controller}"));
            }
        }
    }

    /// Whether the cgroup exists.
    #[must_use]
    pub fn exists(&self, cgroup: &Path) -> bool {
        self.written().first().is_some_and(|hierarchy| hierarchy.join(cgroup).is_dir())
    }

    /// Marks a cgroup as this podkeeper's. Returns whether that was possible; a cgroup without a mark is never swept.
    pub fn mark(&self, cgroup: &Path) -> bool {
        self.written().first().is_some_and(|hierarchy| {
            let path = hierarchy.join(cgroup);
            rustix::fs::setxattr(&path, OWNER, self.owner.as_bytes(), XattrFlags::empty()).is_ok()
        })
    }

    /// Removes a podkeeper's mark from a cgroup.
    pub fn unmark(&self, cgroup: &Path) {
        if let Some(hierarchy) = self.written().first() {
            _ = rustix::fs::removexattr(hierarchy.join(cgroup), OWNER);
        }
    }

    /// Whether any podkeeper has marked it.
    #[must_use]
    pub fn is_marked(&self, cgroup: &Path) -> bool {
        let first = self.written().into_iter().next();
        first.is_some_and(|first| owner_of(&first.join(cgroup)).is_some())
    }

    /// Whether it has this podkeeper's mark.
    #[must_use]
    pub fn is_ours(&self, cgroup: &Path) -> bool {
        let first = self.written().into_iter().next();
        first.and_then(|first| owner_of(&first.join(cgroup))).as_deref() == Some(self.owner.as_bytes())
    }

    /// Marks a cgroup as this podkeeper's, unless another podkeeper has marked it and uses it: it runs, or has left
    /// processes in it. Returns whether marking was possible.
    ///
    /// # Errors
    /// The root directory of the other podkeeper.
    pub fn claim(&self, cgroup: &Path) -> Result<bool, String> {
        let Some(path) = self.written().into_iter().next().map(|first| first.join(cgroup)) else {
            return Ok(false);
        };
        // If two start at the same time, one of them finds a mark already.
        match rustix::fs::setxattr(&path, OWNER, self.owner.as_bytes(), XattrFlags::CREATE) {
            Err(Errno::EXIST) => self.other_user(cgroup).map_or_else(|| Ok(self.mark(cgroup)), Err),
            set => Ok(set.is_ok()),
        }
    }

    /// The root directory of another podkeeper that marked the cgroup and uses it.
    #[must_use]
    pub fn other_user(&self, cgroup: &Path) -> Option<String> {
        let path = self.written().into_iter().next()?.join(cgroup);
        let owner = owner_of(&path).filter(|owner| owner.as_slice() != self.owner.as_bytes())?;
        let owner = String::from_utf8_lossy(&owner).into_owned();
        // Between a mark and the first container there are no processes.
        (has_processes(&path) || locks::is_alive(Path::new(&owner))).then_some(owner)
    }

    /// Whether any process is in the cgroup, or below it.
    #[must_use]
    pub fn has_processes(&self, cgroup: &Path) -> bool {
        self.written().first().is_some_and(|hierarchy| has_processes(&hierarchy.join(cgroup)))
    }

    /// The inode number of a cgroup: a later one of the same name has another number.
    #[must_use]
    pub fn number(&self, cgroup: &Path) -> Option<u64> {
        let path = self.written().into_iter().next()?.join(cgroup);
        fs::symlink_metadata(path).ok().map(|meta| meta.ino())
    }

    /// Whether marks can be set here.
    #[must_use]
    pub fn can_mark(&self, cgroup: &Path) -> bool {
        self.written().first().is_some_and(|hierarchy| {
            let path = hierarchy.join(cgroup);
            let set = rustix::fs::setxattr(&path, PROBE, b"1", XattrFlags::empty()).is_ok();
            set && rustix::fs::removexattr(&path, PROBE).is_ok()
        })
    }

    /// Names of the cgroups directly below this one.
    #[must_use]
    pub fn below(&self, cgroup: &Path) -> Vec<String> {
        let Some(first) = self.written().into_iter().next() else { return Vec::new() };
        let name = |path: PathBuf| path.file_name().and_then(|name| name.to_str().map(str::to_owned));
        below(&first.join(cgroup)).filter_map(name).collect()
    }

    /// Every cgroup named `kubepods`, by either driver, among the first `most` cgroups of the machine, those
    /// near the root first.
    #[must_use]
    pub fn tops(&self, most: usize) -> Vec<PathBuf> {
        let Some(root) = self.written().into_iter().next() else { return Vec::new() };
        let (mut open, mut tops) = (VecDeque::from([PathBuf::new()]), Vec::new());
        for _ in 0..most {
            let Some(at) = open.pop_front() else { break };
            for each in below(&root.join(&at)) {
                let Some(name) = each.file_name().and_then(|name| name.to_str()) else { continue };
                let path = at.join(name);
                if name == "kubepods" || name == "kubepods.slice" || name.ends_with("-kubepods.slice") {
                    tops.push(path);
                } else {
                    open.push_back(path);
                }
            }
        }
        tops
    }

    /// Writes files of a cgroup. Files of missing controllers are skipped.
    ///
    /// # Errors
    /// The first error of the kernel; the other files are written anyway.
    pub fn write(&self, cgroup: &Path, files: &[Entry]) -> io::Result<()> {
        let mut first = Ok(());
        for (controller, file, text) in files {
            let path = match self.version {
                Version::V1 => self.root.join(controller),
                Version::V2 => self.root.clone(),
            };
            let path = path.join(cgroup).join(file);
            match fs::write(&path, text) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    let why = format!("{text} cannot be written to {}: {error}", path.display());
                    first = first.and(Err(io::Error::new(error.kind(), why)));
                }
            }
        }
        first
    }

    /// Moves a process into a cgroup, which is created if missing. In version 2 a cgroup with processes cannot
    /// delegate controllers, so it gets none to delegate.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn enter(&self, cgroup: &Path, pid: u32) -> io::Result<()> {
        if let Some(parent) = cgroup.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make(parent)?;
        }
        for hierarchy in self.written() {
            let path = hierarchy.join(cgroup);
            match fs::create_dir(&path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display())));
                }
                Ok(()) | Err(_) => fs::write(path.join("cgroup.procs"), pid.to_string())?,
            }
        }
        Ok(())
    }

    /// The processes directly in a cgroup, of any hierarchy.
    #[must_use]
    pub fn processes(&self, cgroup: &Path) -> Vec<u32> {
        let of = |hierarchy: PathBuf| {
            fs::read_to_string(hierarchy.join(cgroup).join("cgroup.procs")).unwrap_or_default()
        };
        let all: String = self.written().into_iter().map(of).collect();
        order::set(all.lines().filter_map(|line| line.parse().ok())).into_iter().collect()
    }

    /// A cgroup's memory limit, bytes; [`i64::MAX`] without a limit, `None` if the cgroup does not exist.
    #[must_use]
    pub fn memory(&self, cgroup: &Path) -> Option<i64> {
        let (controller, file, _) = memory_file(self.version, None);
        let at = match self.version {
            Version::V1 => self.root.join(controller),
            Version::V2 => self.root.clone(),
        };
        let text = fs::read_to_string(at.join(cgroup).join(file)).ok()?;
        Some(text.trim().parse().unwrap_or(i64::MAX))
    }

    /// Sizes of huge pages that can be limited here.
    #[must_use]
    pub fn huge_pages(&self, cgroup: &Path) -> Vec<String> {
        let (directory, end) = match self.version {
            Version::V1 => (self.root.join("hugetlb"), ".limit_in_bytes"),
            Version::V2 => (self.root.clone(), ".max"),
        };
        let sizes = names(&directory.join(cgroup)).into_iter().filter_map(|name| {
            let size = name.strip_prefix("hugetlb.")?.strip_suffix(end)?;
            (!size.contains('.')).then(|| size.to_owned())
        });
        sizes.collect()
    }

    /// Removes a cgroup with everything below it, in every hierarchy. Processes in it are killed.
    ///
    /// # Errors
    /// A process in it outlives every kill.
    pub fn remove(&self, cgroup: &Path) -> io::Result<()> {
        let mut last = Ok(());
        for path in
            self.all().into_iter().map(|hierarchy| hierarchy.join(cgroup)).filter(|path| path.exists())
        {
            for round in 0..limits::CGROUP_KILL_ROUNDS {
                last = match remove_below(&path) {
                    Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                };
                if last.is_ok() {
                    break;
                }
                if round > 0 {
                    kill_below(&path);
                }
                // The kernel needs a moment to release a process that has ended.
                std::thread::sleep(Duration::from_millis(5 << round));
            }
            last.as_ref().map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        }
        last
    }

    /// Whether a cgroup has no other cgroups below it than these classes, and they have none.
    #[must_use]
    pub fn is_idle(&self, cgroup: &Path, classes: &[PathBuf]) -> bool {
        let Some(first) = self.written().into_iter().next() else { return true };
        let is_class = |each: &PathBuf| classes.iter().any(|class| first.join(class) == *each);
        below(&first.join(cgroup)).all(|each| is_class(&each) && below(&each).next().is_none())
    }

    /// Removes an idle cgroup with its classes, in every hierarchy, if a podkeeper has marked it. Returns
    /// whether it did. Never kills: the kernel refuses while a process is in it.
    pub fn remove_if_idle(&self, cgroup: &Path, classes: &[PathBuf]) -> bool {
        let Some(first) = self.written().into_iter().next() else { return false };
        owner_of(&first.join(cgroup)).is_some()
            && self.is_idle(cgroup, classes)
            && self.remove_empty(cgroup, classes)
    }

    /// Removes a cgroup with its classes, in every hierarchy, as far as they are empty. Returns whether all
    /// are gone.
    pub fn remove_empty(&self, cgroup: &Path, classes: &[PathBuf]) -> bool {
        let trim_in = |hierarchy: &PathBuf| {
            let all = classes.iter().map(PathBuf::as_path).chain([cgroup]).map(|each| hierarchy.join(each));
            // Without a mount, a missing directory is reported as "read-only".
            all.filter(|path| path.exists()).try_for_each(fs::remove_dir)
        };
        // The hierarchy with the pods comes first: if it is refused there, the cgroup is in use, and is
        // kept everywhere.
        let first = self.written().first().map_or(Ok(()), trim_in);
        first.is_ok() && self.all().iter().filter(|hierarchy| trim_in(hierarchy).is_err()).count() == 0
    }

    /// Names of cgroups directly below this one with this podkeeper's mark.
    #[must_use]
    pub fn ours(&self, cgroup: &Path) -> Vec<String> {
        let Some(hierarchy) = self.written().into_iter().next() else { return Vec::new() };
        let directory = hierarchy.join(cgroup);
        let mut names = self.below(cgroup);
        names.retain(|name| owner_of(&directory.join(name)).as_deref() == Some(self.owner.as_bytes()));
        names
    }

    /// Mount points for writes; in version 2 there is one.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        match self.version {
            Version::V2 => vec![self.root.clone()],
            Version::V1 => {
                let all = CONTROLLERS.iter().map(|c| self.root.join(c));
                all.filter(|path| path.is_dir()).collect()
            }
        }
    }

    /// Every mount point: Docker creates its cgroups in all of them.
    fn all(&self) -> Vec<PathBuf> {
        match self.version {
            Version::V2 => vec![self.root.clone()],
            Version::V1 => {
                let all = names(&self.root).into_iter().map(|name| self.root.join(name));
                let real = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
                all.filter(real).collect()
            }
        }
    }
}

/// The root directory of the podkeeper that marked it.
fn owner_of(path: &Path) -> Option<Vec<u8>> {
    let mut value = [0_u8; 4096];
    let length = rustix::fs::getxattr(path, OWNER, &mut value[..]).ok()?;
    value.get(..length).map(<[u8]>::to_vec)
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Directories below a cgroup are cgroups; its files are removed with it.
fn below(cgroup: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|t| t.is_dir())).map(|entry| entry.path())
}

fn remove_below(cgroup: &Path) -> io::Result<()> {
    for each in below(cgroup) {
        remove_below(&each)?;
    }
    fs::remove_dir(cgroup)
}

fn has_processes(cgroup: &Path) -> bool {
    let own = fs::read_to_string(cgroup.join("cgroup.procs")).is_ok_and(|pids| !pids.is_empty());
    own || below(cgroup).any(|each| has_processes(&each))
}

fn kill_below(cgroup: &Path) {
    below(cgroup).for_each(|each| kill_below(&each));
    let pids = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        _ = kill_process(pid, Signal::KILL);
    }
}
