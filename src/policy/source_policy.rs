//! The rights of each source's pods: every setting that can differ per source, defined once. Flags and the
//! configuration file both read them here.
//!
//! The author of one source's manifests may be trusted less than that of another's, so sources share nothing
//! by default: pods of each source see only its own local objects, and have their own claims.

use std::fmt;
use std::path::{Component, Path};

use super::allow::AllowedPath;
use super::image::AllowedImage;
use super::level::{Level, LevelVersion};
use super::standing::{Most, longest, share};
use crate::base::duration::boolean;
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::Source;
use crate::pod::object::{ObjectKey, ObjectKind};

/// One setting of a source: its names, and how to parse it.
pub struct Setting {
    /// Name on the command line.
    pub name: &'static str,
    /// Name of the field in the configuration file.
    pub field: &'static str,
    /// Empties a list that was set for all sources; the next value replaces the other kinds.
    clear: fn(&mut SourcePolicy),
    /// Sets it from the text of its flag; lists are extended.
    set: fn(&mut SourcePolicy, &str) -> Result<(), String>,
}

/// Every setting that can differ for a source.
pub const SETTINGS: &[Setting] = &[
    Setting {
        name: "pod-security",
        field: "podSecurity",
        clear: |_| {},
        set: |of, text| put(&mut of.pod_security, LevelVersion::parse(text).map(Some)),
    },
    Setting {
        name: "allow-privileged",
        field: "allowPrivileged",
        clear: |_| {},
        set: |of, text| put(&mut of.allow_privileged, boolean(text)),
    },
    Setting {
        name: "host-network",
        field: "hostNetwork",
        clear: |_| {},
        set: |of, text| put(&mut of.host_network, boolean(text)),
    },
    Setting {
        name: "max-priority",
        field: "maxPriority",
        clear: |_| {},
        set: |of, text| {
            let wrong = |_| format!("{text:?} must be a whole number of at most {}", i32::MAX);
            put(&mut of.max_priority, text.trim().parse().map(Some).map_err(wrong))
        },
    },
    Setting {
        name: "max-claim-storage",
        field: "maxClaimStorage",
        clear: |_| {},
        set: |of, text| put(&mut of.max_claim_storage, Most::parse(text).map(Some)),
    },
    Setting {
        name: "max-requests",
        field: "maxRequests",
        clear: |_| {},
        set: |of, text| put(&mut of.max_requests, share(text).map(Some)),
    },
    Setting {
        name: "max-grace",
        field: "maxGrace",
        clear: |_| {},
        set: |of, text| put(&mut of.max_grace, longest(text).map(Some)),
    },
    Setting {
        name: "evict-first",
        field: "evictFirst",
        clear: |_| {},
        set: |of, text| put(&mut of.evict_first, boolean(text).map(Some)),
    },
    Setting {
        name: "allowed-devices",
        field: "allowedDevices",
        clear: |of| of.allowed_devices.clear(),
        set: |of, text| {
            let all = || vec!["/dev/".to_owned()];
            of.allowed_devices.extend(items(text, device)?.unwrap_or_else(all));
            Ok(())
        },
    },
    Setting {
        name: "allowed-host-paths",
        field: "allowedHostPaths",
        clear: |of| of.allowed_host_paths = None,
        set: |of, text| extend_list(&mut of.allowed_host_paths, text, AllowedPath::parse),
    },
    Setting {
        name: "allowed-images",
        field: "allowedImages",
        clear: |of| of.allowed_images = None,
        set: |of, text| extend_list(&mut of.allowed_images, text, AllowedImage::parse),
    },
    Setting {
        name: "require-image-digest",
        field: "requireImageDigest",
        clear: |_| {},
        set: |of, text| put(&mut of.require_image_digest, boolean(text)),
    },
    Setting {
        name: "allowed-namespaces",
        field: "allowedNamespaces",
        clear: |of| of.allowed_namespaces = None,
        set: |of, text| extend_list(&mut of.allowed_namespaces, text, |name| Ok(name.to_owned())),
    },
    Setting {
        name: "shared-objects",
        field: "sharedObjects",
        clear: |of| of.shared_objects.clear(),
        set: |of, text| {
            let all = || Err("must name the sources that share: file, http, api".to_owned());
            of.shared_objects.extend(items(text, SharedObjects::parse)?.map_or_else(all, Ok)?);
            Ok(())
        },
    },
];

fn put<T>(place: &mut T, value: Result<T, String>) -> Result<(), String> {
    *place = value?;
    Ok(())
}

/// Local objects of another source that pods of this one can see, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedObjects {
    /// The source whose objects are shared.
    pub source: Source,
    /// Objects of this kind; `None` for `ConfigMaps` and Secrets.
    kind: Option<ObjectKind>,
    namespace: Option<String>,
    name: Option<String>,
}

impl SharedObjects {
    /// Parses `SOURCE[/KIND[/NAMESPACE[/NAME]]]`: `file`, `file/ConfigMap/default/ca`.
    ///
    /// # Errors
    /// The problem with the text. Claims are never shared: their data belongs to one source.
    pub fn parse(text: &str) -> Result<SharedObjects, String> {
        let mut parts = text.split('/');
        let source = Source::from_word(parts.next().unwrap_or_default())?;
        let kind = match parts.next() {
            None => None,
            Some("ConfigMap") => Some(ObjectKind::ConfigMap),
            Some("Secret") => Some(ObjectKind::Secret),
            Some(other) => return Err(format!("{text:?}: kind {other:?} must be ConfigMap or Secret")),
        };
        let mut word = || match parts.next() {
            Some("") => Err(format!("{text:?} must be SOURCE[/KIND[/NAMESPACE[/NAME]]]")),
            other => Ok(other.map(str::to_owned)),
        };
        let (namespace, name) = (word()?, word()?);
        match parts.next() {
            None => Ok(SharedObjects { source, kind, namespace, name }),
            Some(_) => Err(format!("{text:?} must be SOURCE[/KIND[/NAMESPACE[/NAME]]]")),
        }
    }

    fn holds(&self, key: &ObjectKey) -> bool {
        key.kind != ObjectKind::PersistentVolumeClaim
            && self.kind.is_none_or(|kind| kind == key.kind)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == key.namespace)
            && self.name.as_ref().is_none_or(|name| *name == key.name)
    }
}

impl fmt::Display for SharedObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source.as_str())?;
        let kind = self.kind.map(ObjectKind::as_str);
        for part in [kind, self.namespace.as_deref(), self.name.as_deref()].into_iter().flatten() {
            write!(f, "/{part}")?;
        }
        Ok(())
    }
}

/// The rights of one source's pods. The default allows everything except privileged containers, devices of
/// the host, and objects of other sources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourcePolicy {
    /// `--pod-security`; `None` forbids nothing.
    pub pod_security: Option<LevelVersion>,
    /// `--allow-privileged`.
    pub allow_privileged: bool,
    /// `--host-network-sources` names the source.
    pub host_network: bool,
    /// The highest priority that counts for its pods; `None` if not set: see [`Policies::max_priority`].
    pub max_priority: Option<i32>,
    /// Upper bound for its claims on this node's disk together; `None` if not set: see [`Policies::max_claim_storage`].
    pub max_claim_storage: Option<Most>,
    /// Percent of the node up to which the sum of its pods' requests counts in full when a pod has to be evicted;
    /// `None` if not set: see [`Policies::max_requests`].
    pub max_requests: Option<u8>,
    /// Whether another source of the node has a less strict level; `None` before this was determined: see
    /// [`Policies::settled`].
    pub is_behind: Option<bool>,
    /// The longest grace period of its pods, seconds; `None` if not set: see [`Policies::max_grace`].
    pub max_grace: Option<u32>,
    /// Whether its pods are evicted before those of others when the node is short; `None` if not set: see
    /// [`Policies::evict_first`].
    pub evict_first: Option<bool>,
    /// `--allowed-devices`: devices, by their full names, and directories below `/dev/`; an entry that ends
    /// in `*` matches every name in its directory with that prefix.
    pub allowed_devices: Vec<String>,
    /// `--allowed-host-paths`; `None` allows all, an empty list none.
    pub allowed_host_paths: Option<Vec<AllowedPath>>,
    /// `--allowed-images`; `None` allows all, an empty list none.
    pub allowed_images: Option<Vec<AllowedImage>>,
    /// `--require-image-digest`.
    pub require_image_digest: bool,
    /// Namespaces that pods may be in; `None` allows all.
    pub allowed_namespaces: Option<Vec<String>>,
    /// Objects of other sources, which pods see when their own source has none of that name.
    pub shared_objects: Vec<SharedObjects>,
}

impl Default for SourcePolicy {
    fn default() -> SourcePolicy {
        SourcePolicy {
            pod_security: None,
            allow_privileged: false,
            host_network: true,
            max_priority: None,
            max_claim_storage: None,
            max_requests: None,
            is_behind: None,
            max_grace: None,
            evict_first: None,
            allowed_devices: Vec::new(),
            allowed_host_paths: None,
            allowed_images: None,
            require_image_digest: false,
            allowed_namespaces: None,
            shared_objects: Vec::new(),
        }
    }
}

/// Parses items separated by commas. `*` alone means all and is `None`.
fn items<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<Vec<T>>, String> {
    if text.trim() == "*" {
        return Ok(None);
    }
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(read).collect::<Result<_, _>>().map(Some)
}

/// Adds items to a list that may have some already.
fn extend_list<T>(
    list: &mut Option<Vec<T>>,
    text: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    match items(text, read)? {
        None => *list = None,
        Some(new) => list.get_or_insert_default().extend(new),
    }
    Ok(())
}

fn device(text: &str) -> Result<String, String> {
    let is_device = text.starts_with("/dev/");
    is_device.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} does not begin with /dev/"))
}

/// Matches full names: `/dev/sda` does not match `/dev/sda1`, and `/dev/tty`, a process's own terminal, does
/// not match the machine's consoles from `/dev/tty0` on. A directory matches all files in it, `*` any end of
/// a name.
fn names_device(allowed: &str, path: &str) -> bool {
    if Path::new(path).components().any(|part| part == Component::ParentDir) {
        return false;
    }
    let rest = |begin: &str| path.strip_prefix(begin).map(str::as_bytes);
    match allowed.strip_suffix('*') {
        Some(begin) => rest(begin).is_some_and(|rest| !rest.contains(&b'/')),
        None => Path::new(path).starts_with(allowed),
    }
}

impl SourcePolicy {
    /// Sets one setting, by its name on the command line or in the configuration file, from the text of its
    /// flag; lists are extended.
    ///
    /// # Errors
    /// No setting has this name, or the value is invalid.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        (setting(name)?.set)(self, text)
    }

    /// Why a pod may not name this device of the host in its annotation; `None` when it may. Pod Security
    /// does not cover devices, and access to a disk's device is more powerful than any hostPath: if a level
    /// forbids hostPath, only listed devices are allowed.
    #[must_use]
    pub fn refuses_device(&self, path: &str) -> Option<String> {
        let forbids = self.pod_security.filter(|at| at.level != Level::Privileged);
        if self.allowed_devices.iter().any(|allowed| names_device(allowed, path)) {
            return None;
        }
        match forbids {
            Some(at) => Some(format!("pod security level {at} leaves it those of --allowed-devices")),
            None if self.allow_privileged => None,
            None => Some("--allowed-devices".to_owned()),
        }
    }

    /// Whether its pods are restricted to a level that forbids anything: then the source's authors are not trusted with
    /// the whole node.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.pod_security.is_some_and(|at| at.level != Level::Privileged)
    }

    /// Sources whose object of this name a pod may see, after its own source.
    pub fn sharing(&self, key: &ObjectKey) -> impl Iterator<Item = Source> {
        self.shared_objects.iter().filter(|shared| shared.holds(key)).map(|shared| shared.source)
    }
}

/// The setting of this name: of a flag or of the configuration file.
fn setting(name: &str) -> Result<&'static Setting, String> {
    let found = SETTINGS.iter().find(|setting| setting.name == name || setting.field == name);
    found.ok_or_else(|| {
        // Names in the spelling that was used.
        let of_file = name.contains(|c: char| c.is_ascii_uppercase());
        let names = SETTINGS.iter().map(|setting| if of_file { setting.field } else { setting.name });
        format!("{name:?} must be one of {}", names.collect::<Vec<_>>().join(", "))
    })
}

/// The values of `--source-policy`: each source's settings, by name, in the given order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exceptions(Table<Source, Vec<(&'static str, String)>>);

impl Exceptions {
    /// Parses `SOURCE=NAME=VALUE[;NAME=VALUE]...`.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (source, settings) = text.split_once('=').ok_or("must be SOURCE=NAME=VALUE[;NAME=VALUE]...")?;
        let source = Source::from_word(source.trim())?;
        let list = self.0.get_or_default(source);
        for pair in settings.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("{pair:?} must be NAME=VALUE"))?;
            let setting = setting(name)?;
            let mut alone = SourcePolicy::default();
            (setting.set)(&mut alone, value).map_err(|why| format!("{name}: {why}"))?;
            if let Some(own) = alone.shared_objects.iter().find(|shared| shared.source == source) {
                return Err(format!("{name}: {own}: pods of source {source} see its own objects anyway"));
            }
            if list.len() >= limits::SOURCE_POLICY_SETTINGS {
                return Err(format!(
                    "source {source} has more than {} settings",
                    limits::SOURCE_POLICY_SETTINGS
                ));
            }
            list.push((setting.name, value.to_owned()));
        }
        Ok(())
    }

    /// The source's policy: that of all sources, changed by the settings of this one. A list of this source
    /// replaces the list of all.
    ///
    /// # Errors
    /// Only errors that [`Exceptions::add`] would have returned.
    fn apply(&self, source: Source, mut policy: SourcePolicy) -> Result<SourcePolicy, String> {
        let said = self.0.get(&source).map(Vec::as_slice).unwrap_or_default();
        for (name, _) in said {
            (setting(name)?.clear)(&mut policy);
        }
        said.iter().try_for_each(|(name, value)| policy.set(name, value))?;
        Ok(policy)
    }
}

/// The policies of all sources. A source without settings has the common one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies {
    named: Table<Source, SourcePolicy>,
    others: SourcePolicy,
}

impl Policies {
    /// One policy for all sources.
    #[must_use]
    pub fn all(policy: SourcePolicy) -> Policies {
        Policies { named: Table::new(), others: policy }
    }

    /// Sets the policy of this source.
    #[must_use]
    pub fn with(mut self, source: Source, policy: SourcePolicy) -> Policies {
        self.named.insert(source, policy);
        self
    }

    /// Applies the settings of single sources.
    ///
    /// # Errors
    /// Only errors that [`Exceptions::add`] would have returned.
    pub fn except(mut self, exceptions: &Exceptions) -> Result<Policies, String> {
        for source in exceptions.0.keys() {
            let policy = exceptions.apply(*source, self.of(*source).clone())?;
            self.named.insert(*source, policy);
        }
        Ok(self)
    }

    #[must_use]
    pub fn of(&self, source: Source) -> &SourcePolicy {
        self.named.get(&source).unwrap_or(&self.others)
    }
}
