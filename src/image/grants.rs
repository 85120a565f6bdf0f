//! Whose credentials brought which image: an image that was pulled with the secrets of one pod is not given
//! to a pod without such a secret, until the registry has accepted that pod's credentials. This is the
//! kubelet's `imagePullCredentialsVerificationPolicy: NeverVerifyPreloadedImages` (kubernetes/enhancements,
//! KEP 2535; `pkg/kubelet/images/pullmanager`): any pod may use an image that podkeeper did not pull itself,
//! or that was pulled with the node's credentials or with none.
//!
//! The record outlives the daemon. It holds no credential, only digests of accepted ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::credentials::Credential;
use super::reference::{self, Reference};
use crate::base::checked::{self, Entries};
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
    keys: BTreeSet<String>,
}

/// In place of a name: the record was lost, and any image without an entry may need credentials.
const ANY: &str = "*";

/// By full reference.
type Known = BTreeMap<String, Grant>;

/// The node's record. See the module.
#[derive(Default)]
pub struct Grants {
    /// `None`: the record is not stored.
    path: Option<PathBuf>,
    known: Mutex<Known>,
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Grants({} images)", self.known().len())
    }
}

impl Grants {
    /// Opens the record below this root directory. When the file is damaged it is unknown which images came
    /// with secrets: the registry is asked again for all images on the node, until the file is removed.
    #[must_use]
    pub fn open(root: &Path) -> Grants {
        let path = root.join(FILE);
        let read = checked::read(&path, limits::GRANTS_BYTES, FORMAT);
        let known = read.and_then(|images| parse(&images));
        let known = known.unwrap_or_else(|why| {
            log::error!(
                "{}: {why}; it said which images came with the secrets of a pod, so the registry is asked about \
                 each image that is here before a container is made of it; without the file all are everybody's",
                path.display()
            );
            Known::from([(ANY.to_owned(), Grant::default())])
        });
        Grants { path: Some(path), known: Mutex::new(known) }
    }

    /// Whether a pod may use the local image of this name. `shown`: its own credentials that fit.
    #[must_use]
    pub fn allows(&self, image: &str, shown: &[&Credential]) -> bool {
        let known = self.known();
        let mut all = meant(&known, image).map(|(_, grant)| grant).peekable();
        (all.peek().is_none() && !known.contains_key(ANY))
            || all.any(|grant| grant.shared || shown.iter().any(|c| grant.keys.contains(&key(c))))
    }

    /// Whether a pod without credentials may not use it, so that a pod's secrets must be looked up.
    #[must_use]
    pub fn needs_credentials(&self, image: &str) -> bool {
        !self.allows(image, &[])
    }

    /// Whether this image is unknown because the record was lost.
    #[must_use]
    pub fn is_unknown(&self, image: &str) -> bool {
        let known = self.known();
        known.contains_key(ANY) && meant(&known, image).next().is_none()
    }

    /// An image is here that came from no registry, so without a secret: it is everybody's, if nothing was noted of it
    /// by now. A pull with a secret may have begun since it was looked at.
    pub fn loaded(&self, image: &str, id: &str) -> bool {
        self.change(|known| {
            let is_unknown = known.contains_key(ANY) && meant(known, image).next().is_none();
            if is_unknown {
                let grant = Grant { id: id.to_owned(), shared: true, keys: BTreeSet::new() };
                known.insert(reference::normal(image), grant);
            }
            is_unknown
        })
    }

    /// The record is lost, as [`Grants::open`] finds it.
    #[cfg(test)]
    pub(crate) fn lose(&self) {
        *self.known() = Known::from([(ANY.to_owned(), Grant::default())]);
    }

    /// A pull with a pod's secrets starts: if the daemon dies before its end, no pod may use the image
    /// unasked.
    pub fn begin(&self, image: &str) {
        self.change(|known| _ = known.entry(reference::normal(image)).or_default());
    }

    /// The pull failed: an image that was there before keeps its record.
    pub fn failed(&self, image: &str) {
        self.change(|known| {
            let image = reference::normal(image);
            if known.get(&image) == Some(&Grant::default()) {
                known.remove(&image);
            }
        });
    }

    /// The pull brought the image with this id.
    pub fn pulled(&self, image: &str, id: &str, with: &With) {
        self.change(|known| {
            let image = reference::normal(image);
            match with {
                // An image that any pod may use needs no entry.
                With::NodeOrNone => {
                    if known.contains_key(ANY) || known.contains_key(&image) {
                        let grant = Grant { id: id.to_owned(), shared: true, keys: BTreeSet::new() };
                        known.insert(image, grant);
                    }
                }
                With::Secret(credential) => {
                    let grant = known.entry(image).or_default();
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

    /// Returns what `change` returns.
    fn change<T>(&self, change: impl FnOnce(&mut Known) -> T) -> T {
        let mut known = self.known();
        let before = known.clone();
        let said = change(&mut known);
        if *known == before {
            return said;
        }
        if known.len() > limits::GRANTS
            && let Some(first) = known.keys().find(|image| !before.contains_key(*image)).cloned()
        {
            log::warn!(
                "{first}: more than {} images were pulled with secrets: it is everybody's",
                limits::GRANTS
            );
            known.remove(&first);
            return said;
        }
        if let Some(path) = &self.path
            && let Err(error) = checked::write(path, FORMAT, entries(&known))
        {
            log::warn!(
                "{}: {error}; after a restart images that were pulled with the secrets of a pod may be \
                 everybody's",
                path.display()
            );
        }
        said
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Entries of the images that Docker may find under this name: the image itself, one of the repository by its
/// digest, or one by its id or a prefix of it.
fn meant<'a>(known: &'a Known, image: &str) -> impl Iterator<Item = (&'a String, &'a Grant)> {
    let normal = reference::normal(image);
    let digest = image.contains('@');
    let repository = Reference::parse(image).map(|reference| reference.repository()).unwrap_or_default();
    let hex = image.strip_prefix("sha256:").unwrap_or(image);
    let hex =
        Some(hex.to_owned()).filter(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    known.iter().filter(move |(name, grant)| {
        let same = Reference::parse(name).is_ok_and(|reference| reference.repository() == repository);
        let id = grant.id.strip_prefix("sha256:").unwrap_or_default();
        **name == normal || (digest && same) || hex.as_ref().is_some_and(|hex| id.starts_with(hex.as_str()))
    })
}

/// Digest of a credential, which cannot be used to log in.
fn key(credential: &Credential) -> String {
    hex::sha256(credential.header().as_bytes())
}

fn entries(known: &Known) -> Entries {
    let mut images = Entries::new();
    for (name, grant) in known {
        let keys: Vec<&String> = grant.keys.iter().collect();
        let value = json!({ "id": grant.id, "everybodys": grant.shared, "keys": keys });
        images.insert(name.clone(), value);
    }
    images
}

fn parse(images: &Entries) -> Result<Known, String> {
    let grant = |value: &Value| {
        let keys = value.get("keys")?.as_array()?.iter().filter_map(|key| key.as_str().map(str::to_owned));
        let id = value.get("id")?.as_str()?.to_owned();
        Some(Grant { id, shared: value.get("everybodys")?.as_bool()?, keys: order::set(keys) })
    };
    let mut known = Known::new();
    for (name, value) in images {
        known.insert(name.clone(), grant(value).ok_or("an image in it has another form")?);
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::super::credentials::{DockerConfig, Format, lookup};
    use super::*;

    fn config(user: &str) -> DockerConfig {
        let text = format!(r#"{{"r.io": {{"username": "{user}", "password": "canary"}}}}"#);
        DockerConfig::parse(text.as_bytes(), Format::DockerCfg).unwrap()
    }

    fn secret(config: &DockerConfig) -> With {
        With::Secret(lookup("r.io/a", [config])[0].clone())
    }

    #[test]
    fn an_image_that_one_secret_brought_is_not_everybodys() {
        let (own, other) = (config("own"), config("other"));
        let grants = Grants::default();
        let id = format!("sha256:{}", "ab".repeat(32));
        let allows =
            |image: &str, config: Option<&DockerConfig>| grants.allows(image, &lookup("r.io/a", config));
        assert!(allows("r.io/a:1", None), "loaded by hand");
        grants.begin("r.io/a:1");
        assert!(!allows("r.io/a:1", Some(&own)), "nobody knows yet");
        grants.pulled("r.io/a:1", &id, &secret(&own));
        assert!(allows("r.io/a:1", Some(&own)));
        // By every name that Docker accepts.
        let names = ["r.io/a:1", &format!("r.io/a@{id}"), &id, &id[7..20], &format!("r.io/a:1@{id}")];
        for name in names {
            assert!(
                !allows(name, None) && !allows(name, Some(&other)) && grants.needs_credentials(name),
                "{name}"
            );
            assert!(allows(name, Some(&own)), "{name}");
        }
        for name in ["r.io/a:2", "r.io/b:1", "busybox", "cafe", &format!("r.io/b@{id}")] {
            assert!(allows(name, None), "{name}");
        }
        // The registry accepts another secret, and then a pull without one.
        grants.pulled("r.io/a:1", &id, &secret(&other));
        assert!(
            allows("r.io/a:1", Some(&own)) && allows("r.io/a:1", Some(&other)) && !allows("r.io/a:1", None)
        );
        grants.pulled("r.io/a:1", &id, &With::NodeOrNone);
        assert!(allows("r.io/a:1", None));
        // Another image under the name.
        grants.pulled("r.io/a:1", "sha256:cd", &secret(&other));
        assert!(!allows("r.io/a:1", Some(&own)) && allows("r.io/a:1", Some(&other)));
    }

    #[test]
    fn what_a_pull_with_a_secret_notes_meanwhile_is_not_taken_for_loaded() {
        let own = config("own");
        let grants = Grants::default();
        grants.lose();
        assert!(grants.is_unknown("r.io/a:1"), "and Docker is asked about it now");
        grants.begin("r.io/a:1");
        assert!(!grants.loaded("r.io/a:1", "sha256:ab") && grants.needs_credentials("r.io/a:1"));
        grants.pulled("r.io/a:1", "sha256:cd", &secret(&own));
        assert!(!grants.loaded("r.io/a:1", "sha256:ab") && grants.needs_credentials("r.io/a:1"));
        assert!(grants.loaded("r.io/b:1", "sha256:ef") && !grants.needs_credentials("r.io/b:1"));
    }

    #[test]
    fn a_pull_that_fails_takes_nothing_away() {
        let own = config("own");
        let grants = Grants::default();
        grants.begin("r.io/a:1");
        grants.failed("r.io/a:1");
        assert!(grants.allows("r.io/a:1", &[]), "what was there before is what it was");
        grants.pulled("r.io/a:1", "sha256:ab", &secret(&own));
        grants.begin("r.io/a:1");
        grants.failed("r.io/a:1");
        assert!(!grants.allows("r.io/a:1", &[]));
        assert_eq!(format!("{grants:?}"), "Grants(1 images)");
    }

    #[test]
    fn what_is_known_outlives_the_daemon() {
        let root = crate::base::testing::scratch("grants");
        std::fs::create_dir_all(&root).unwrap();
        let own = config("own");
        Grants::open(&root).pulled("r.io/a:1", "sha256:ab", &secret(&own));
        let bytes = std::fs::read(root.join(FILE)).unwrap();
        assert!(!String::from_utf8(bytes.clone()).unwrap().contains("canary"));
        let again = Grants::open(&root);
        assert!(!again.allows("r.io/a:1", &[]) && again.allows("r.io/a:1", &lookup("r.io/a", [&own])));
        std::fs::remove_dir_all(root).unwrap();
    }

    /// No pod gets an image that may need credentials, after any number of restarts, until the registry has
    /// accepted it.
    #[test]
    fn a_damaged_memory_gives_nobody_what_may_be_anothers() {
        let root = crate::base::testing::scratch("grants-damaged");
        std::fs::create_dir_all(&root).unwrap();
        let own = config("own");
        Grants::open(&root).pulled("r.io/a:1", "sha256:ab", &secret(&own));
        let bytes = std::fs::read(root.join(FILE)).unwrap();
        for damaged in [&bytes[..bytes.len() - 9], b"", b"podkeeper-pulled-2 x\n{}\n"] {
            std::fs::write(root.join(FILE), damaged).unwrap();
            let grants = Grants::open(&root);
            assert!(!grants.allows("r.io/a:1", &lookup("r.io/a", [&own])) && grants.is_unknown("r.io/a:1"));
            grants.begin("r.io/a:1");
            grants.failed("r.io/a:1");
            assert!(grants.needs_credentials("r.io/a:1"));
            // The file that is written now says that the record is incomplete.
            grants.pulled("r.io/b:1", "sha256:cd", &With::NodeOrNone);
            let again = Grants::open(&root);
            assert!(again.allows("r.io/b:1", &[]) && !again.is_unknown("r.io/b:1"));
            assert!(again.needs_credentials("r.io/a:1"));
            again.pulled("r.io/a:1", "sha256:ab", &secret(&own));
            assert!(
                again.allows("r.io/a:1", &lookup("r.io/a", [&own])) && again.needs_credentials("r.io/a:1")
            );
        }
        std::fs::remove_file(root.join(FILE)).unwrap();
        assert!(!Grants::open(&root).needs_credentials("r.io/a:1"), "the operator's word");
        std::fs::remove_dir_all(root).unwrap();
    }
}
