//! Claims: directories of this node, and volumes that a cluster's claims are bound to.
//!
//! Never here: the decision whether a claim is bound.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, stat};
use rustix::io::Errno;

use super::{One, PRIVATE, Trouble, cannot, unguarded};
use crate::layout;
use crate::pod::Source;
use crate::pod::object::claimed::{ClusterClaim, Reached};
use crate::pod::object::{Content, ObjectKey, ObjectKind};
use crate::volumes::claim_use::Use;
use crate::volumes::{Note, claim_move, claim_size, helper, host_path, mounts, walk};

impl One<'_> {
    /// Sets a claim's volume up.
    ///
    /// # Errors
    /// There is no such claim, or it has no volume; in the kubelet's words.
    pub(super) fn claim(
        &self,
        name: &str,
        read_only: bool,
        note: &mut dyn FnMut(Note),
    ) -> Result<(), Trouble> {
        let namespace = self.pod.key.namespace.clone();
        let failed =
            |why: &str| format!("error processing PVC {namespace}/{}: {why}", name.escape_debug()).into();
        let kind = ObjectKind::PersistentVolumeClaim;
        let key = ObjectKey { kind, namespace: namespace.clone(), name: name.to_owned() };
        match self.objects.get(&key).map(|object| &object.content) {
            Some(Content::Claim { access_modes, storage }) => {
                let alone = access_modes.iter().any(|mode| mode == "ReadWriteOncePod");
                let policies = &self.node.policies;
                let size = policies.of(self.pod.source).is_held().then_some(*storage);
                let together = policies.max_claim_storage(self.pod.source);
                let bounds = (!read_only).then_some(claim_size::Bounds { size, together });
                self.local_claim(name, alone, bounds, read_only, note)
            }
            Some(Content::ClusterClaim(claim)) => match &claim.volume {
                Ok(bound) => self.bound(name, claim, &bound.reached, read_only, note),
                Err(why) => Err(failed(why)),
            },
            _ => {
                // The kubelet's words, where there is such a server.
                let by = match self.pod.source {
                    Source::Api => "failed to fetch PVC from API server: ",
                    Source::File | Source::Http => "",
                };
                Err(failed(&format!("{by}persistentvolumeclaim {name:?} not found")))
            }
        }
    }

    /// Mounts the volume of a cluster's claim in the pod's directory; it stays as it was at that time.
    fn bound(
        &self,
        name: &str,
        claim: &ClusterClaim,
        reached: &Reached,
        read_only: bool,
        note: &mut dyn FnMut(Note),
    ) -> Result<(), Trouble> {
        let parts = layout::guarded(&self.pod.uid, &self.volume.name);
        let root = self.node.root()?;
        let place =
            layout::below(&root, &parts).ok_or_else(|| format!("{:?} is no name", self.volume.name))?;
        if self.is_mounted(&place)? {
            // Earlier versions set it apart after they had bound it; one that was killed in between did not.
            self.node.set_apart(&place).map_err(cannot("cannot set apart", &place))?;
            self.node.docker_sees(&place)?;
        } else {
            if claim.is_for_one_pod() {
                self.take_alone(name)?;
            }
            self.mount(reached, read_only, &parts, &place)?;
        }
        // As upstream, the first pod of a volume sets its group, and only for a local volume.
        if !matches!(reached, Reached::Local { .. }) || read_only || self.group().is_none() {
            return Ok(());
        }
        let ready = self.ready(layout::HOST_PATH, &self.volume.name)?;
        if !ready.is_set() {
            if !is_bound_elsewhere(&place, &root).map_err(cannot("cannot look for other pods at", &place))? {
                self.own(&place, true, false, note)?;
            }
            ready.set()?;
        }
        Ok(())
    }

    fn mount(&self, reached: &Reached, read_only: bool, parts: &[&str], place: &Path) -> Result<(), Trouble> {
        let (path, kind) = match reached {
            Reached::Nfs { server, path, read_only, options } => {
                let (parent, _) = self.pod_directory(&[layout::VOLUMES, layout::HOST_PATH])?;
                let made = walk::make_below(parent.as_fd(), &[&self.volume.name], PRIVATE);
                made.map_err(cannot("cannot make", place))?;
                self.count_mounts(|| Ok(vec![parts.get(2..).unwrap_or_default().join("/")]))?;
                helper::mount_nfs(server, path, *read_only, options, place)?;
                mounts::make_slave(place).map_err(cannot("cannot set apart", place))?;
                return Ok(self.node.docker_sees(place)?);
            }
            Reached::Local { path } => (path, "Directory"),
            Reached::HostPath { path, kind } => (path, kind.as_str()),
        };
        let found = match self.node.policies.of(self.pod.source).allowed_host_paths.as_deref() {
            Some(allowed) => host_path::Wanted { path, kind, writes: !read_only, allowed }.open()?,
            None => {
                match reached {
                    Reached::Local { .. } => is_directory(path)?,
                    _ => unguarded(path, kind)?,
                }
                let opened = rustix::fs::open(path.as_str(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
                opened.map_err(io::Error::from).map_err(cannot("cannot open", path.as_ref()))?
            }
        };
        Ok(self.bind(&found, parts)?)
    }

    /// Marks that only this pod uses the claim.
    fn take_alone(&self, name: &str) -> Result<(), Trouble> {
        let root = self.node.root()?;
        let (users, path) = self.pod_directory(&[layout::VOLUMES, layout::LOCAL])?;
        let _guard = self.node.claims.lock();
        let (uid, namespace) = (self.pod.uid.as_str(), self.pod.key.namespace.as_str());
        let taken = Use { root: &root, uid, source: self.pod.source, namespace, name };
        match taken.other_user(false)? {
            Some(_) => {
                Err("volume uses the ReadWriteOncePod access mode and is already in use by another pod"
                    .to_owned()
                    .into())
            }
            None => taken.mark(&users).map_err(cannot("cannot mark the use in", &path)),
        }
    }

    /// A claim is on this node's own disk. A link in the pod's directory, which is never followed, marks its
    /// use. A pod does not start with a claim that exceeds its bounds.
    fn local_claim(
        &self,
        name: &str,
        alone: bool,
        bounds: Option<claim_size::Bounds>,
        read_only: bool,
        note: &mut dyn FnMut(Note),
    ) -> Result<(), Trouble> {
        let (namespace, source) = (&self.pod.key.namespace, self.pod.source);
        let root = self.node.root()?;
        let parts = layout::claim(source, namespace, name);
        let path = layout::below(&root, &parts).ok_or_else(|| format!("{name:?} is no name"))?;
        let (users, _) = self.pod_directory(&[layout::VOLUMES, layout::LOCAL])?;
        let at = rustix::fs::open(&root, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let at = at.map_err(io::Error::from).map_err(cannot("cannot open", &root))?;
        {
            let guard = self.node.claims.lock();
            claim_move::begin(&root).map_err(cannot("cannot make", &path))?;
            let taken = Use { root: &root, uid: &self.pod.uid, source, namespace, name };
            if let Some(why) = guard.left().filter(|_| taken.is_left(&at)) {
                return Err(why.to_owned().into());
            }
            if alone && let Some(other) = taken.other_user(false)? {
                return Err(format!(
                    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode: {other}"
                )
                .into());
            }
            if let Some(why) = taken.adopt(&at, &users)? {
                note(Note::BeginsEmpty(why));
            }
            taken.mark(&users).map_err(cannot("cannot mark the use of", &path))?;
        }
        let made = (|| {
            let (last, above) = parts.split_last().ok_or(Errno::INVAL)?;
            let parent = walk::make_below(at.as_fd(), above, PRIVATE)?;
            // For any user of a container: other users cannot get past the parents.
            walk::make_below(parent.as_fd(), &[last], 0o777)
        })();
        made.map_err(cannot("cannot make", &path))?;
        let ready = self.ready(layout::LOCAL, name)?;
        if !ready.is_set() {
            if let Some(why) = bounds.and_then(|it| claim_size::look(name, it, source, &root, &path)) {
                return Err(why.into());
            }
            self.own(&path, true, read_only, note)?;
            ready.set()?;
        }
        Ok(())
    }
}

/// Checks that a local volume is an existing directory.
fn is_directory(path: &str) -> Result<(), String> {
    match stat(path).map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => Ok(()),
        Ok(FileType::BlockDevice) => Err(format!(
            "path {path:?} is a block device: podkeeper makes no file system, and mounts directories alone"
        )),
        Ok(_) => Err(format!("path {path:?} is not a directory")),
        Err(Errno::NOENT) => Err(format!("path {path:?} does not exist")),
        Err(error) => Err(format!("path {path:?}: {}", io::Error::from(error))),
    }
}

/// Whether a volume of another pod is bound to the same directory.
fn is_bound_elsewhere(place: &Path, root: &Path) -> io::Result<bool> {
    let own = stat(place)?;
    let table = mounts::table()?;
    // Looking at a server that is gone would block.
    let mut others = mounts::below(&table, &root.join("pods")).into_iter().filter(|it| {
        it.at != place
            && !it.kind.starts_with("nfs")
            && it.at.parent().is_some_and(|parent| parent.ends_with(layout::HOST_PATH))
    });
    Ok(others.any(|it| stat(&it.at).is_ok_and(|it| (it.st_dev, it.st_ino) == (own.st_dev, own.st_ino))))
}
