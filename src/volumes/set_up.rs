//! Sets up a pod's volumes on the host. Every step determines the present state, so that a daemon killed at
//! any point, or a machine that lost its tmpfs, reaches the same end state.
//!
//! Never here: the time of an action; access by path below a directory that a container may write to
//! (only by descriptor).

mod bound;
mod claims;
mod pass;

use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, NFSVolumeSource, Volume};
use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, openat, stat};
use rustix::io::Errno;

use self::pass::Pass;
use super::in_memory::{Granted, Refused};
use super::manager::Node;
use super::walk::{self, DIRECTORY, Ownership};
use super::{Failure, Note, SetUp, atomic, helper, mounts, owner, payload};
use crate::base::clock::Clock as _;
use crate::base::order;
use crate::base::quantity;
use crate::layout::{self, Kind};
use crate::pod::qos;

/// Mode of a directory for root alone.
pub(super) const PRIVATE: u32 = 0o750;
/// Policy under which a volume whose root has the right group is not changed.
const ON_MISMATCH: &str = "OnRootMismatch";

/// Sets up every volume of a pod; a volume that fails does not stop the others, unless there is no memory for it: then
/// none is made. `note` gets notes, with the volume's name.
pub(super) fn all(node: &Node, order: &SetUp, note: &mut dyn FnMut(&str, Note)) -> Vec<Failure> {
    let pass = Pass::new(node, &order.pod, &order.objects);
    // Others have nothing in its directory, which need not be there: on a full disk it could not be made.
    let has_directory = |volume: &Volume| {
        Kind::of(volume).plugin().is_some() || layout::is_guarded(&order.pod, &volume.name, &node.policies)
    };
    let is_kept = layout::volumes(&order.pod).any(has_directory) && !order.wanted.is_over();
    let taken = if is_kept { owner::take(node, &order.pod) } else { Ok(None) };
    let failure = |volume: &str, Trouble { why, usable }| Failure { volume: volume.to_owned(), why, usable };
    let unwritten = match taken {
        Ok(unwritten) => unwritten.map(|why| Trouble { why, usable: true }),
        Err(why) => {
            let all = layout::volumes(&order.pod);
            return all.map(|volume| failure(&volume.name, why.clone().into())).collect();
        }
    };
    let granted = if order.wanted.is_over() { Ok(Granted::default()) } else { pass.take_memory() };
    let granted = match granted {
        Ok(granted) => granted,
        Err(Refused { volume, why }) => return vec![failure(&volume, why.into())],
    };
    let first = layout::volumes(&order.pod).find(|volume| has_directory(volume));
    let mut failed: Vec<Failure> =
        first.zip(unwritten).map(|(volume, why)| failure(&volume.name, why)).into_iter().collect();
    for volume in layout::volumes(&order.pod) {
        let name = volume.name.as_str();
        let done = if order.wanted.is_over() {
            Err("the pod is not wanted any more".to_owned().into())
        } else {
            let kept = granted.kept.get(name).map(String::as_str);
            One { pass: &pass, volume, kept }.set_up(&mut |what: Note| note(name, what))
        };
        if let Err(trouble) = done {
            if let Some(bytes) = granted.before.get(name) {
                node.in_memory.put_back(&order.pod.uid, name, *bytes);
            }
            failed.push(failure(name, trouble));
        }
    }
    failed
}

/// Why a volume could not be set up.
struct Trouble {
    why: String,
    /// Whether it has its old content, with which containers may run on.
    usable: bool,
}

impl From<String> for Trouble {
    fn from(why: String) -> Trouble {
        Trouble { why, usable: false }
    }
}

fn cannot(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Trouble {
    move |error| Trouble::from(format!("{what} {}: {error}", path.display()))
}

struct One<'a> {
    pass: &'a Pass<'a>,
    volume: &'a Volume,
    /// Why it has to keep the files that it has.
    kept: Option<&'a str>,
}

impl<'a> Deref for One<'a> {
    type Target = Pass<'a>;

    fn deref(&self) -> &Pass<'a> {
        self.pass
    }
}

impl One<'_> {
    fn set_up(&self, note: &mut dyn FnMut(Note)) -> Result<(), Trouble> {
        let kind = Kind::of(self.volume);
        match kind {
            Kind::EmptyDir(spec) => self.empty_dir(spec, note),
            Kind::HostPath(spec) if layout::is_guarded(self.pod, &self.volume.name, &self.node.policies) => {
                Ok(self.guarded(spec)?)
            }
            Kind::HostPath(spec) => Ok(unguarded(&spec.path, spec.type_.as_deref().unwrap_or_default())?),
            Kind::Claim(spec) => self.claim(&spec.claim_name, spec.read_only.unwrap_or(false), note),
            Kind::Nfs(spec) => self.nfs(spec),
            Kind::Other => Err("no volume plugin matched".to_owned().into()),
            _ => self.written(kind),
        }
    }

    /// The volume's own directory, created if missing, and whether something is mounted there.
    fn directory(&self, mode: u32) -> Result<(OwnedFd, PathBuf, bool), Trouble> {
        let plugin = Kind::of(self.volume).plugin().unwrap_or_default();
        let parts = [layout::VOLUMES, plugin];
        let (parent, path) = self.pod_directory(&parts)?;
        let path = path.join(&self.volume.name);
        let made = walk::make_below(parent.as_fd(), &[&self.volume.name], mode);
        let made = made.map_err(cannot("cannot make", &path))?;
        let is_mounted =
            mounts::is_other(&parent, &made).map_err(cannot("cannot read the mount of", &path))?;
        Ok((made, path, is_mounted))
    }

    /// A directory below the pod's.
    fn pod_directory(&self, parts: &[&str]) -> Result<(OwnedFd, PathBuf), Trouble> {
        let mut all = vec!["pods", self.pod.uid.as_str()];
        all.extend(parts);
        let root = self.node.root()?;
        let path = layout::below(&root, &all).ok_or_else(|| format!("{:?} is no name", self.pod.uid))?;
        let at = rustix::fs::open(&root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let at = at.map_err(io::Error::from).map_err(cannot("cannot open", &root))?;
        let made = walk::make_below(at.as_fd(), &all, PRIVATE).map_err(cannot("cannot make", &path))?;
        Ok((made, path))
    }

    /// The marker of a volume that was set up completely: it is not set up again for this pod.
    fn ready(&self, plugin: &str, name: &str) -> Result<Ready, Trouble> {
        let (at, path) = self.pod_directory(&[layout::PLUGINS, plugin, name])?;
        Ok(Ready { at, path })
    }

    fn group(&self) -> Option<u32> {
        let group = self.pod.spec.security_context.as_ref().and_then(|context| context.fs_group);
        group.and_then(|group| u32::try_from(group).ok())
    }

    fn own(
        &self,
        path: &Path,
        policy: bool,
        read_only: bool,
        note: &mut dyn FnMut(Note),
    ) -> Result<(), Trouble> {
        let Some(group) = self.group() else { return Ok(()) };
        let context = self.pod.spec.security_context.as_ref();
        let only_on_mismatch =
            policy && context.is_some_and(|c| c.fs_group_change_policy.as_deref() == Some(ON_MISMATCH));
        let open = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(io::Error::from);
        let mut slow = |files: u64| note(Note::Slow(files));
        let done = open.and_then(|top| {
            walk::own(top, Ownership { group, read_only, only_on_mismatch, slow: &mut slow })
        });
        done.map_err(cannot("applyFSGroup failed for", path))
    }

    fn empty_dir(
        &self,
        spec: Option<&EmptyDirVolumeSource>,
        note: &mut dyn FnMut(Note),
    ) -> Result<(), Trouble> {
        let medium = spec.and_then(|spec| spec.medium.as_deref()).unwrap_or_default();
        let given = spec.and_then(|spec| spec.mode).map(|mode| mode.cast_unsigned() & 0o7777);
        let limit = spec.and_then(|spec| spec.size_limit.as_ref());
        let limit = limit.and_then(|limit| quantity::value(&limit.0).ok());
        let (dir, path, is_mounted) = self.directory(given.unwrap_or(0o777))?;
        let ready = self.ready(layout::EMPTY_DIR, &self.volume.name)?;
        if ready.is_set() && (medium.is_empty() || is_mounted) {
            return Ok(());
        }
        drop(dir);
        let open = || {
            let opened = rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(io::Error::from);
            opened.map_err(cannot("cannot open", &path))
        };
        match medium {
            "" => {
                // A daemon may have been killed between creating it and this.
                let mode = Mode::from_raw_mode(given.unwrap_or(0o777));
                fchmod(&open()?, mode).map_err(io::Error::from).map_err(cannot("cannot open up", &path))?;
            }
            "Memory" => {
                if !is_mounted {
                    let size = self.memory_size(limit);
                    mounts::tmpfs(&open()?, size).map_err(cannot("cannot mount a tmpfs on", &path))?;
                }
                if let Some(mode) = given {
                    let changed = fchmod(&open()?, Mode::from_raw_mode(mode)).map_err(io::Error::from);
                    changed.map_err(cannot("cannot open up", &path))?;
                }
            }
            _ => {
                let page = self.page_size(medium)?;
                if !is_mounted {
                    let size = limit.and_then(|limit| u64::try_from(limit).ok()).filter(|size| *size > 0);
                    let mounted = mounts::huge_pages(&open()?, page, size);
                    mounted.map_err(cannot("cannot mount huge pages on", &path))?;
                }
            }
        }
        if !medium.is_empty() {
            self.node.docker_sees(&path)?;
        }
        self.own(&path, false, false, note)?;
        ready.set()
    }

    /// The smallest of the node's memory, the pod's limit, and the volume's limit.
    fn memory_size(&self, limit: Option<i64>) -> Option<u64> {
        let limits: Vec<i64> = self
            .pod
            .containers()
            .map(|(_, container)| qos::limit(container.resources.as_ref(), "memory"))
            .collect();
        let of_pod = limits.iter().fold(0_i64, |sum, limit| sum.saturating_add(*limit));
        let of_pod = Some(of_pod).filter(|_| limits.iter().all(|limit| *limit > 0));
        let all = [Some(self.node.allocatable.memory), of_pod, limit];
        let least = all.into_iter().flatten().filter(|size| *size > 0).min()?;
        u64::try_from(least).ok()
    }

    fn page_size(&self, medium: &str) -> Result<u64, Trouble> {
        let bytes = |text: &str| quantity::value(text).ok().and_then(|size| u64::try_from(size).ok());
        if let Some(size) = medium.strip_prefix("HugePages-") {
            return bytes(size)
                .filter(|size| *size > 0)
                .ok_or_else(|| format!("unknown storage medium {medium:?}").into());
        }
        if medium != "HugePages" {
            return Err(format!("unknown storage medium {medium:?}").into());
        }
        let mut sizes: Vec<u64> = Vec::new();
        for (_, container) in self.pod.containers() {
            let resources = container.resources.as_ref();
            let names = resources.and_then(|r| r.requests.as_ref()).into_iter().flatten();
            let names = names.chain(resources.and_then(|r| r.limits.as_ref()).into_iter().flatten());
            sizes.extend(names.filter_map(|(name, _)| bytes(name.strip_prefix("hugepages-")?)));
        }
        order::sort(&mut sizes);
        sizes.dedup();
        match sizes.as_slice() {
            [size] => Ok(*size),
            [] => Err(format!(
                "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
            )
            .into()),
            _ => Err(format!("medium {medium}: more than one size of huge pages is requested").into()),
        }
    }

    /// A volume whose files podkeeper writes.
    fn written(&self, kind: Kind<'_>) -> Result<(), Trouble> {
        let (mut dir, path, is_mounted) = self.directory(0o777)?;
        let in_memory = !matches!(kind, Kind::ConfigMap(_));
        let there = atomic::is_written(&dir).map_err(cannot("cannot read", &path))?;
        if let Some(why) = self.kept {
            return Err(Trouble { why: why.to_owned(), usable: there });
        }
        let facts = self.facts();
        let files = payload::render(kind, &facts, self.objects);
        let files = files.map_err(|why| Trouble { why, usable: there })?.unwrap_or_default();
        if in_memory {
            if !is_mounted {
                let memory = u64::try_from(self.node.allocatable.memory).ok().filter(|size| *size > 0);
                mounts::tmpfs(&dir, memory).map_err(cannot("cannot mount a tmpfs on", &path))?;
                let opened = rustix::fs::open(&path, DIRECTORY, Mode::empty()).map_err(io::Error::from);
                dir = opened.map_err(cannot("cannot open", &path))?;
            }
            self.node.docker_sees(&path)?;
        } else {
            open_up(&dir).map_err(io::Error::from).map_err(cannot("cannot open up", &path))?;
        }
        self.mount_points(&dir).map_err(cannot("cannot make mount points in", &path))?;
        let group = self.group();
        let written = atomic::write(&dir, &files, group, self.node.clock.now().wall);
        written.map_err(|error| Trouble {
            why: format!("error writing payload to {}: {error}", path.display()),
            usable: there,
        })?;
        if let Some(group) = group {
            let given = walk::own_one(&dir, group, true);
            given.map_err(cannot("applyFSGroup failed for", &path))?;
        }
        Ok(())
    }

    /// Creates the mount points of other volumes inside this one: they cannot be created later.
    fn mount_points(&self, dir: &OwnedFd) -> io::Result<()> {
        for point in super::nested(self.pod, &self.volume.name) {
            let parts: Vec<&str> = point.split('/').collect();
            match walk::make_below(dir.as_fd(), &parts, 0o755) {
                Ok(_) => {}
                // A file of that name is the mount point then.
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
                Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether the pod's source is behind others.
    fn is_behind(&self) -> bool {
        self.node.policies.evict_first(self.pod.source)
    }

    /// Counts mounts at these places below the pod's directory, before they are made.
    fn count_mounts(&self, places: impl FnOnce() -> io::Result<Vec<String>>) -> Result<(), String> {
        if !self.is_behind() {
            return Ok(());
        }
        let places = places().map_err(|error| format!("cannot read the mounts: {error}"))?;
        self.node.count_mounts(&self.pod.uid, places)
    }

    fn nfs(&self, spec: &NFSVolumeSource) -> Result<(), Trouble> {
        let (parent, path) = self.pod_directory(&[layout::VOLUMES, layout::NFS])?;
        let path = path.join(&self.volume.name);
        if self.is_mounted(&path)? {
            return Ok(());
        }
        let made = walk::make_below(parent.as_fd(), &[&self.volume.name], PRIVATE);
        drop(made.map_err(cannot("cannot make", &path))?);
        self.count_mounts(|| Ok(vec![[layout::VOLUMES, layout::NFS, &self.volume.name].join("/")]))?;
        helper::mount_nfs(&spec.server, &spec.path, spec.read_only.unwrap_or(false), &[], &path)?;
        self.node.docker_sees(&path)?;
        Ok(())
    }
}

/// An earlier volume may have left another mode. On a read-only disk the right one is not set again.
fn open_up(dir: &OwnedFd) -> rustix::io::Result<()> {
    match fstat(dir)?.st_mode & 0o7777 {
        0o777 => Ok(()),
        _ => fchmod(dir, Mode::from_raw_mode(0o777)),
    }
}

/// A marker file of a complete volume.
struct Ready {
    at: OwnedFd,
    path: PathBuf,
}

impl Ready {
    fn is_set(&self) -> bool {
        rustix::fs::statat(&self.at, "ready", rustix::fs::AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn set(&self) -> Result<(), Trouble> {
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let made = openat(&self.at, "ready", flags, Mode::from_raw_mode(0o640)).map(drop);
        made.map_err(io::Error::from).map_err(cannot("cannot write to", &self.path))
    }
}

/// Checks the type of the path; creates it if the type requires it, and if the kubelet leaves that to Docker.
fn unguarded(path: &str, wanted: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("invalid HostPath {path:?}: must be an absolute path"));
    }
    if path.split('/').any(|part| part == "..") {
        return Err(format!("invalid HostPath `{path}`: must not contain '..'"));
    }
    let found = match stat(path) {
        Ok(stat) => Some(FileType::from_raw_mode(stat.st_mode)),
        Err(Errno::NOENT) => None,
        Err(error) => return Err(format!("hostPath {path}: {}", io::Error::from(error))),
    };
    let failed = |what: &str| Err(format!("hostPath type check failed: {path} is not {what}"));
    let is = |kind: FileType, what: &str| if found == Some(kind) { Ok(()) } else { failed(what) };
    match wanted {
        "" if found.is_some() => Ok(()),
        "DirectoryOrCreate" if found.is_some() => is(FileType::Directory, "a directory"),
        "" | "DirectoryOrCreate" => {
            std::fs::create_dir_all(path).map_err(|error| format!("hostPath {path}: {error}"))?;
            let directory = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let made = rustix::fs::open(path, directory, Mode::empty())
                .and_then(|opened| fchmod(&opened, Mode::from_raw_mode(0o755)));
            made.map_err(|error| format!("hostPath {path}: {}", io::Error::from(error)))
        }
        "Directory" => is(FileType::Directory, "a directory"),
        "FileOrCreate" if found.is_none() => {
            // Its parent directory is not created.
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            let made = rustix::fs::open(path, flags, mode).and_then(|made| fchmod(&made, mode));
            made.map_err(|error| format!("hostPath {path}: {}", io::Error::from(error)))
        }
        // As upstream, anything but a directory counts as a file.
        "FileOrCreate" | "File" => match found {
            Some(FileType::Directory) | None => failed("a file"),
            Some(_) => Ok(()),
        },
        "Socket" => is(FileType::Socket, "a socket file"),
        "CharDevice" => is(FileType::CharacterDevice, "a character device"),
        "BlockDevice" => is(FileType::BlockDevice, "a block device"),
        other => Err(format!("{other} is an invalid volume type")),
    }
}

#[cfg(test)]
mod tests;
