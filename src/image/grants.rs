//! Which credentials brought each image: an image that was pulled with the secrets of one pod is not given
//! to a pod without such a secret, until the registry has accepted that pod's credentials. This is the
//! kubelet's `imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages` (kubernetes/enhancements,
//! KEP 2535; `pkg/kubelet/images/pullmanager`): any pod may use an image that podkeeper did not pull itself,
//! or that was pulled with the node's credentials or with none.
//!
//! The record outlives the daemon. It holds no credential, only digests of accepted ones.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::json::json;
use serde_json::Value;

use super::credentials::Credential;
use super::reference::{self, Reference};
use crate::base::checked::{self, Entries};
use crate::base::table::{Set, Table};
use crate::base::{hex, limits, order};

/// Name of the file in the root directory.
pub const FILE: &str = "pulled-images";

/// First word of the file; another version has another word.
const FORMAT: &str = "podkeeper-pulled-1";

/// The kind of credential of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum With {
    /// The node's credentials, or none.
    NodeOrNone,
    /// A secret of the pod.
    Secret(Credential),
}

/// Record of one image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Grant {
    /// `sha256:…`; empty when it is not known.
    id: String,
    shared: bool,
    /// Digests of credentials that the registry accepted.
    keys: Set<String>,
}

/// A pull with a pod's secrets in progress: it ends with [`Grants::failed`] or [`Grants::pulled`].
#[derive(Debug)]
#[must_use]
pub struct Begun(());

/// Used in place of a name: the record was lost, and any image without an entry may need credentials.
const ANY: &str = "*";

/// The record of all images, by full reference. Pods may hold records of different times: unchanged entries are shared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known(Table<Arc<str>, Arc<Grant>>);

impl Known {
    /// The state after the record was lost: it is unknown which images came with secrets.
    fn lost() -> Known {
        Known(Table::from([(ANY.into(), Arc::default())]))
    }

    /// Whether a pod may use the local image of this name. `shown`: its own matching credentials.
    #[must_use]
    pub fn allows(&self, image: &str, shown: &[&Credential]) -> bool {
        let mut all = self.meant(image).peekable();
        (all.peek().is_none() && !self.0.contains_key(ANY))
            || all.any(|grant| grant.shared || shown.iter().any(|c| grant.keys.contains(&key(c))))
    }

    /// Whether a pod without credentials may not use it, so that the pod's secrets must be looked up.
    #[must_use]
    pub fn needs_credentials(&self, image: &str) -> bool {
        !self.allows(image, &[])
    }

    /// Whether this image is unknown because the record was lost.
    #[must_use]
    pub fn is_unknown(&self, image: &str) -> bool {
        self.0.contains_key(ANY) && self.meant(image).next().is_none()
    }

    /// Entries of the images that Docker may find under this name: the image itself, one of the repository by its
    /// digest, or one by its id or a prefix of it.
    fn meant(&self, image: &str) -> impl Iterator<Item = &Grant> {
        let normal = reference::normal(image);
        let digest = image.contains('@');
        let repository = Reference::parse(image).map(|reference| reference.repository()).unwrap_or_default();
        let hex = image.strip_prefix("sha256:").unwrap_or(image);
        let hex =
            Some(hex.to_owned()).filter(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        let meant = move |(name, grant): &(&Arc<str>, &Arc<Grant>)| {
            let same = Reference::parse(name).is_ok_and(|reference| reference.repository() == repository);
            let id = grant.id.strip_prefix("sha256:").unwrap_or_default();
            ***name == *normal
                || (digest && same)
                || hex.as_ref().is_some_and(|hex| id.starts_with(hex.as_str()))
        };
        self.0.iter().filter(meant).map(|(_, grant)| &**grant)
    }
}

/// The node's record. See the module. Queries never wait for the disk, because pods ask before each start.
#[derive(Default)]
pub struct Grants {
    /// `None`: the record is not stored.
    path: Option<PathBuf>,
    /// Held only to read or replace the pointer.
    known: Mutex<Arc<Known>>,
    /// Held by the thread that changes the record, until the file is updated, too.
    changes: Mutex<OnDisk>,
    /// Images that are being pulled with a pod's secrets, one entry for each pull.
    begun: Mutex<Vec<String>>,
}

/// State of the file on disk.
#[derive(Debug, Default)]
struct OnDisk {
    /// It could not be read, and may be intact: it is not written before it was read.
    is_unread: bool,
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grants({} images)", self.known().0.len())
    }
}

impl Grants {
    /// Opens the record below this root directory. If the file is damaged, it is unknown which images came
    /// with secrets: the registry is asked again for all images on the node, until the file is removed.
    #[must_use]
    pub fn open(root: &Path) -> Grants {
        let path = root.join(FILE);
        let mut on_disk = OnDisk::default();
        let known = look(&path).unwrap_or_else(|(why, is_unread)| {
            on_disk.is_unread = is_unread;
            log::error!(
                "{}: {why}; it said which images came with the secrets of a pod, so the registry is asked about \
                 each image that is here before a container is made of it; without the file all are everybody's",
                path.display()
            );
            Known::lost()
        });
        Grants {
            path: Some(path),
            known: Mutex::new(Arc::new(known)),
            changes: Mutex::new(on_disk),
            ..Grants::default()
        }
    }

    /// See [`Known::allows`].
    #[must_use]
    pub fn allows(&self, image: &str, shown: &[&Credential]) -> bool {
        self.known().allows(image, shown)
    }

    /// See [`Known::needs_credentials`].
    #[must_use]
    pub fn needs_credentials(&self, image: &str) -> bool {
        self.known().needs_credentials(image)
    }

    /// See [`Known::is_unknown`].
    #[must_use]
    pub fn is_unknown(&self, image: &str) -> bool {
        self.known().is_unknown(image)
    }

    /// A local image came from no registry, and so without a secret: every pod may use it, unless an entry was recorded
    /// meanwhile. Returns whether this is so; a pull with a secret may have begun since the image was inspected.
    pub fn loaded(&self, image: &str, id: &str) -> bool {
        self.change(|known| {
            let is_unknown = known.is_unknown(image);
            if is_unknown {
                let grant = Grant { id: id.to_owned(), shared: true, keys: Set::new() };
                known.0.insert(reference::normal(image).into(), Arc::new(grant));
            }
            is_unknown
        })
    }

    /// Loses the record, as in [`Grants::open`].
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        self.replace(Known::lost());
    }

    /// A pull with a pod's secrets starts: if the daemon dies before its end, a pod may use the image
    /// only after asking the registry.
    pub fn begin(&self, image: &str) -> Begun {
        self.begun().push(reference::normal(image));
        self.change(|known| _ = known.0.get_or_default(reference::normal(image).into()));
        Begun(())
    }

    /// A pull that has begun failed: an image that existed before keeps its record, and so does one that another pull
    /// may be bringing.
    pub fn failed(&self, image: &str, begun: Begun) {
        self.change(|known| {
            let name = reference::normal(image);
            if !self.ends(&name, &begun)
                && known.0.get(&*name).is_some_and(|grant| **grant == Grant::default())
            {
                known.0.remove(&*name);
            }
        });
    }

    /// Removes one pull of this image from those in progress; returns whether there are others.
    fn ends(&self, name: &str, _: &Begun) -> bool {
        let mut all = self.begun();
        if let Some(at) = all.iter().position(|one| one == name) {
            all.swap_remove(at);
        }
        all.iter().any(|one| one == name)
    }

    fn begun(&self) -> MutexGuard<'_, Vec<String>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pull brought the image with this id. `begun`: set if it was pulled with a pod's secrets.
    pub fn pulled(&self, image: &str, id: &str, with: &With, begun: Option<Begun>) {
        if let Some(begun) = begun {
            self.ends(&reference::normal(image), &begun);
        }
        self.change(|known| {
            let image: Arc<str> = reference::normal(image).into();
            match with {
                // An image that any pod may use needs no entry.
                With::NodeOrNone => {
                    if known.0.contains_key(ANY) || known.0.contains_key(&image) {
                        let grant = Grant { id: id.to_owned(), shared: true, keys: Set::new() };
                        known.0.insert(image, Arc::new(grant));
                    }
                }
                With::Secret(credential) => {
                    let grant = Arc::make_mut(known.0.get_or_default(image));
                    // Another image under this name has its own credentials.
                    if grant.id != id {
                        *grant = Grant { id: id.to_owned(), ..Grant::default() };
                    }
                    if grant.keys.len() < limits::GRANT_KEYS && !grant.shared {
                        grant.keys.insert(key(credential));
                    }
                }
            }
        });
    }

    /// Whether a pull of this image with a pod's secrets can be recorded. Sources `behind` others have half of the
    /// room: otherwise they could fill all of it with many names of one small image.
    #[must_use]
    pub fn has_room(&self, image: &str, behind: bool) -> bool {
        let known = self.known();
        let most = if behind { limits::GRANTS / 2 } else { limits::GRANTS };
        known.0.len() < most || known.0.contains_key(&*reference::normal(image))
    }

    /// Forgets images that are neither on the node nor being pulled: pods have to pull them again with their own
    /// credentials. `is_here` is called with a full name and an id.
    pub fn forget_gone(&self, is_here: impl Fn(&str, &str) -> bool) {
        let under_way = self.begun().clone();
        self.change(|known| {
            known.0.retain(|image, grant| {
                // Without an id, an earlier daemon began a pull and did not see its end.
                let may_come = grant.id.is_empty() || under_way.iter().any(|one| **one == **image);
                &**image == ANY || may_come || is_here(image, &grant.id)
            });
        });
    }

    /// Applies `change`, and returns its result once the file is updated, too. A disk that hangs delays other changes,
    /// but no query.
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut on_disk = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        self.read_again(&mut on_disk);
        let before = self.known();
        let mut known = Known::clone(&before);
        let said = change(&mut known);
        if known == *before {
            return said;
        }
        if known.0.len() > limits::GRANTS.saturating_add(limits::GRANTS_UNDER_WAY) {
            // An image that cannot be recorded must not be given to any pod: from now on an image without an entry
            // needs credentials.
            log::error!(
                "more than {} images are recorded as pulled with secrets of pods: the registry is asked about each \
                 image that is not recorded; remove images, stop podkeeper, and remove {FILE} of its root directory",
                limits::GRANTS
            );
            known.0.get_or_default(ANY.into());
            known.0.retain(|image, _| &**image == ANY || before.0.contains_key(image));
        }
        let entries = self.path.as_ref().map(|path| (path, entries(&known)));
        self.replace(known);
        if let Some((path, entries)) = entries.filter(|_| !on_disk.is_unread)
            && let Err(error) = checked::write(path, FORMAT, entries)
        {
            log::warn!(
                "{}: {error}; after a restart images that were pulled with the secrets of a pod may be \
                 everybody's",
                path.display()
            );
        }
        said
    }

    /// Reads the file that could not be read at the start.
    fn read_again(&self, on_disk: &mut OnDisk) {
        let Some(path) = self.path.as_ref().filter(|_| on_disk.is_unread) else { return };
        match look(path) {
            Ok(stored) => {
                log::info!("{} is read again", path.display());
                self.replace(merged(stored, &self.known()));
                on_disk.is_unread = false;
            }
            Err((why, is_unread)) => {
                log::warn!("{}: {why}", path.display());
                on_disk.is_unread = is_unread;
            }
        }
    }

    /// The current record, which does not change any more.
    #[must_use]
    pub fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn replace(&self, known: Known) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(known);
    }
}

/// Digest of a credential, which cannot be used to log in.
fn key(credential: &Credential) -> String {
    hex::sha256(credential.header().as_bytes())
}

fn entries(known: &Known) -> Entries {
    let mut images = Entries::new();
    for (name, grant) in &known.0 {
        let keys: Vec<&String> = grant.keys.iter().collect();
        let value = json!({ "id": grant.id, "everybodys": grant.shared, "keys": keys });
        images.insert(name.to_string(), value);
    }
    images
}

/// The content of a file; otherwise the reason, and whether the file may still be intact.
fn look(path: &Path) -> Result<Known, (String, bool)> {
    let images = checked::look(path, limits::GRANTS_BYTES, FORMAT)?;
    parse(&images).map_err(|why| (why, false))
}

/// Combines the record of a file that could not be read at first with the entries made without it. If they differ about
/// an image, the stricter one is used.
fn merged(mut stored: Known, noted: &Known) -> Known {
    for (image, note) in noted.0.iter().filter(|(image, _)| &***image != ANY) {
        match stored.0.get_mut(image) {
            None => _ = stored.0.insert(image.clone(), note.clone()),
            Some(_) if note.shared || **note == Grant::default() => {}
            Some(grant) if grant.id == note.id => {
                Arc::make_mut(grant).keys.extend(note.keys.iter().cloned());
            }
            Some(grant) => *grant = note.clone(),
        }
    }
    stored
}

fn parse(images: &Entries) -> Result<Known, String> {
    let grant = |value: &Value| {
        let keys = value.get("keys")?.as_array()?.iter().filter_map(|key| key.as_str().map(str::to_owned));
        let id = value.get("id")?.as_str()?.to_owned();
        Some(Grant { id, shared: value.get("everybodys")?.as_bool()?, keys: order::set(keys) })
    };
    let mut known = Known::default();
    for (name, value) in images {
        let grant = grant(value).ok_or("an image in it has another form")?;
        known.0.insert(name.as_str().into(), Arc::new(grant));
    }
    Ok(known)
}

#[cfg(test)]
mod tests;
