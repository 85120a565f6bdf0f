//! The files of configMap, secret, downwardAPI and projected volumes (upstream
//! `pkg/volume/{configmap,secret,downwardapi,projected}/`). Pure: content only, no paths on the host.
//!
//! Contents may be secret: this file prints none of them.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath};

use crate::base::order;
use crate::base::table::Table;
use crate::layout::{self, Kind};
use crate::pod::downward::{self, Facts};
use crate::pod::object::{Content, LocalObject, ObjectKey, ObjectKind, Objects, not_found};

/// Mode of files if the volume sets none.
const DEFAULT_MODE: i32 = 0o644;

#[derive(Clone, PartialEq, Eq)]
pub struct PayloadFile<'a> {
    /// Its content: of an object, without a copy of its own.
    pub data: Cow<'a, [u8]>,
    /// Permission bits.
    pub mode: u32,
    /// Owner, when not root.
    pub user: Option<u32>,
}

impl fmt::Debug for PayloadFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes, {:o}>", self.data.len(), self.mode)
    }
}

/// Files by path: relative, clean, no `..`; no file's path goes through another file.
pub type Payload<'a> = Table<String, PayloadFile<'a>>;

/// The files of a volume. Returns `None` for a kind without files from podkeeper.
///
/// # Errors
/// A required object, key, field or resource is missing, or a path is invalid; in the kubelet's words.
pub fn render<'a>(
    kind: Kind<'_>,
    facts: &Facts<'_>,
    objects: &'a Objects,
) -> Result<Option<Payload<'a>>, String> {
    let mut files = Vec::new();
    let has_files = each(kind, facts, objects, &mut |path, file| {
        files.push((layout::inside(path)?.join("/"), file));
        Ok(())
    })?;
    // Each is put behind those before it: there may be many.
    order::sort_by(&mut files, |a, b| a.0.cmp(&b.0));
    let files: Payload<'_> = files.into_iter().collect();
    no_file_is_a_directory(&files)?;
    Ok(has_files.then_some(files))
}

/// Gives every file of a volume, with its path as the manifest has it. A path that is given twice is that of the last
/// file. Returns whether it is a kind with files from podkeeper.
///
/// # Errors
/// As for [`render`], except for paths, which are not looked at; and those of `to`.
pub fn each<'a>(
    kind: Kind<'_>,
    facts: &Facts<'_>,
    objects: &'a Objects,
    to: &mut dyn FnMut(&str, PayloadFile<'a>) -> Result<(), String>,
) -> Result<bool, String> {
    let mut to = Rendering { facts, objects, to };
    match kind {
        Kind::ConfigMap(it) => {
            let owner = Owner { mode: it.default_mode, user: it.default_user };
            to.object(ObjectKind::ConfigMap, &it.name, it.items.as_deref(), it.optional, owner)?;
        }
        Kind::Secret(it) => {
            let name = it.secret_name.as_deref().unwrap_or_default();
            let owner = Owner { mode: it.default_mode, user: it.default_user };
            to.object(ObjectKind::Secret, name, it.items.as_deref(), it.optional, owner)?;
        }
        Kind::DownwardApi(it) => {
            let owner = Owner { mode: it.default_mode, user: it.default_user };
            to.fields(it.items.as_deref(), owner)?;
        }
        Kind::Projected(it) => {
            let owner = Owner { mode: it.default_mode, user: it.default_user };
            for source in it.sources.iter().flatten() {
                if let Some(it) = &source.config_map {
                    to.object(ObjectKind::ConfigMap, &it.name, it.items.as_deref(), it.optional, owner)?;
                }
                if let Some(it) = &source.secret {
                    to.object(ObjectKind::Secret, &it.name, it.items.as_deref(), it.optional, owner)?;
                }
                if let Some(it) = &source.downward_api {
                    to.fields(it.items.as_deref(), owner)?;
                }
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Mode and owner for files without their own.
#[derive(Debug, Clone, Copy)]
struct Owner {
    mode: Option<i32>,
    user: Option<i64>,
}

struct Rendering<'a, 'r> {
    facts: &'r Facts<'r>,
    objects: &'a Objects,
    to: &'r mut dyn FnMut(&str, PayloadFile<'a>) -> Result<(), String>,
}

impl<'a> Rendering<'a, '_> {
    fn object(
        &mut self,
        kind: ObjectKind,
        name: &str,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        owner: Owner,
    ) -> Result<(), String> {
        let optional = optional.unwrap_or(false);
        let namespace = self.facts.pod.key.namespace.clone();
        let key = ObjectKey { kind, namespace, name: name.to_owned() };
        let objects = self.objects;
        let Some(object) = objects.get(&key).map(Arc::as_ref) else {
            return if optional { Ok(()) } else { Err(not_found(kind, name)) };
        };
        match items.filter(|items| !items.is_empty()) {
            None => self.entries(object, owner)?,
            Some(items) => {
                for item in items {
                    match entry(object, &item.key) {
                        Some(value) => {
                            self.put(&item.path, Cow::Borrowed(value), item.mode, item.user, owner)?;
                        }
                        None if optional => {}
                        None if kind == ObjectKind::Secret => {
                            return Err(format!("references non-existent secret key: {}", item.key));
                        }
                        None => {
                            return Err(format!(
                                "configmap references non-existent config key: {}",
                                item.key
                            ));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// All keys, including `binaryData` of a ConfigMap.
    fn entries(&mut self, object: &'a LocalObject, owner: Owner) -> Result<(), String> {
        let mut put = |key: &str, value| self.put(key, Cow::Borrowed(value), None, None, owner);
        match &object.content {
            Content::ConfigMap { data, binary } => {
                data.iter().try_for_each(|(key, value)| put(key, value.as_bytes()))?;
                binary.iter().try_for_each(|(key, value)| put(key, value.as_slice()))
            }
            Content::Secret { data, .. } => data.iter().try_for_each(|(key, value)| put(key, value.expose())),
            Content::Claim { .. } | Content::ClusterClaim(_) => Ok(()),
        }
    }

    fn fields(&mut self, items: Option<&[DownwardAPIVolumeFile]>, owner: Owner) -> Result<(), String> {
        for item in items.unwrap_or_default() {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => downward::field(&field.field_path, self.facts)?,
                (None, Some(resource)) => downward::resource(resource, self.facts, "")?,
                (None, None) => continue,
            };
            self.put(&item.path, Cow::Owned(value.into_bytes()), item.mode, item.user, owner)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        path: &str,
        data: Cow<'a, [u8]>,
        mode: Option<i32>,
        user: Option<i64>,
        owner: Owner,
    ) -> Result<(), String> {
        let mode = mode.or(owner.mode).unwrap_or(DEFAULT_MODE).cast_unsigned() & 0o777;
        let user = user.or(owner.user).and_then(|user| u32::try_from(user).ok());
        (self.to)(path, PayloadFile { data, mode, user })
    }
}

fn no_file_is_a_directory(files: &Payload<'_>) -> Result<(), String> {
    for path in files.keys() {
        let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        if let Some(parent) = parents.into_iter().find(|parent| files.contains_key(*parent)) {
            return Err(format!("invalid path: {path} is below the file {parent}"));
        }
    }
    Ok(())
}

fn entry<'a>(object: &'a LocalObject, key: &str) -> Option<&'a [u8]> {
    match &object.content {
        Content::ConfigMap { data, binary } => {
            data.get(key).map(String::as_bytes).or_else(|| binary.get(key).map(Vec::as_slice))
        }
        Content::Secret { data, .. } => data.get(key).map(|value| value.expose()),
        Content::Claim { .. } | Content::ClusterClaim(_) => None,
    }
}

#[cfg(test)]
mod tests;
