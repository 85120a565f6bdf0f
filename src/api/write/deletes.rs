//! Deletes: with a grace period, finalizers and preconditions, and of namespaces with all their objects.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use serde_json::Value;

use super::writes::{Done, How, Writes};
use super::written::{SOURCE, elsewhere, grace_left, is_shadowed, leaving, own, preconditions, without_live};
use crate::api::asked::{Match, Wanted};
use crate::api::failure::Failure;
use crate::api::holdings::{Change, Id};
use crate::api::kinds::{Kind, Resource};
use crate::api::objects::NAMESPACES;
use crate::api::path::Target;
use crate::api::value::place;
use crate::api::world::Object;
use crate::base::json::{self, json};
use crate::base::limits;
use crate::server::http::query::Query;

/// Reads whether `DeleteOptions` ask for a dry run.
///
/// # Errors
/// They are none: an option of another type must not count as left out, for it may be what spares the object.
fn is_dry(options: &Value) -> Result<bool, Failure> {
    if options.is_null() {
        return Ok(false);
    }
    let wrong = |why: String| Failure::new(400, format!("the body is no DeleteOptions: {why}"));
    let read: DeleteOptions = json::read(options).map_err(|error| wrong(error.to_string()))?;
    let all = read.dry_run.unwrap_or_default();
    match all.iter().find(|word| *word != "All") {
        Some(word) => Err(wrong(format!("dryRun: Unsupported value: {word:?}: supported values: \"All\""))),
        None => Ok(!all.is_empty()),
    }
}

impl Writes {
    /// Deletes an object. `options` are `DeleteOptions`, or null.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn delete(
        &self,
        target: Target<'_>,
        name: &str,
        query: &Query,
        options: &Value,
    ) -> Result<Done, Failure> {
        let mut how = How::read(query)?;
        how.dry |= is_dry(options)?;
        let kind = target.kind;
        let mut change = self.holdings.begin()?;
        let live = self.found(target, name)?;
        if kind.resource == Resource::Namespaces {
            preconditions(kind, name, options, &live.value)?;
            return self.delete_namespace(&mut change, kind, name, &live, how);
        }
        let id = (kind.resource, (target.namespace.unwrap_or_default().to_owned(), name.to_owned()));
        let grace = grace(query, options);
        let Some(stored) = change.get(&id) else {
            preconditions(kind, name, options, &live.value)?;
            if self.is_ours_and_leaving(&id, &live.value) {
                return Ok(hurry(&mut change, &id, &live, grace, how));
            }
            return Err(elsewhere(kind, name, &live.value, &self.world));
        };
        let shown = live;
        let live = own(&stored, &shown);
        preconditions(kind, name, options, &live.value)?;
        let mut done = self.take_away(&mut change, kind, &id, &live, grace, how)?;
        if is_shadowed(&stored, &shown.value) {
            let why = elsewhere(kind, name, &shown.value, &self.world).message;
            done.warnings.push(format!(
                "what was written over the API is deleted; another one of its name stays: {why}"
            ));
        }
        Ok(done)
    }

    /// Deletes the requested objects of a collection, all or none, and returns them as they were: if one comes from a
    /// file or the URL, none is deleted.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn delete_all(
        &self,
        target: Target<'_>,
        wanted: &Wanted,
        query: &Query,
        options: &Value,
    ) -> Result<Vec<Arc<Object>>, Failure> {
        let mut how = How::read(query)?;
        how.dry |= is_dry(options)?;
        // What is asked of older objects must not be done to the present ones.
        if wanted.from.is_some() || wanted.matched == Some(Match::Exact) {
            let why = "objects are deleted as they are now: \"continue\" and \"resourceVersionMatch=Exact\" are not supported";
            return Err(Failure::new(400, why));
        }
        let (kind, mut change) = (target.kind, self.holdings.begin()?);
        let found: Vec<(Id, Arc<Object>)> = {
            let state = self.world.now();
            let all = state.list(kind.resource, target.namespace);
            let most = if wanted.limit == 0 { usize::MAX } else { wanted.limit };
            let all = all.filter(|(_, object)| wanted.selects(&object.value)).take(most);
            all.map(|(key, object)| ((kind.resource, key.clone()), Arc::clone(object))).collect()
        };
        for (id, object) in &found {
            preconditions(kind, &id.1.1, options, &object.value)?;
            if change.get(id).is_none() && !self.is_ours_and_leaving(id, &object.value) {
                return Err(elsewhere(kind, &id.1.1, &object.value, &self.world));
            }
        }
        let grace = grace(query, options);
        for (id, object) in &found {
            if change.get(id).is_some() {
                self.take_away(&mut change, kind, id, object, grace, how)?;
            }
        }
        Ok(found.into_iter().map(|(_, object)| object).collect())
    }

    /// Whether it was deleted over the API, under this daemon or an earlier one, and is shown until it has ended.
    fn is_ours_and_leaving(&self, id: &Id, value: &Value) -> bool {
        value.pointer("/metadata/deletionTimestamp").is_some()
            && (value.pointer(SOURCE).is_none() || self.holdings.orphan(id, value).is_some())
    }

    fn take_away(
        &self,
        change: &mut Change<'_>,
        kind: &Kind,
        id: &Id,
        live: &Arc<Object>,
        grace: Option<i64>,
        how: How,
    ) -> Result<Done, Failure> {
        let name = &id.1.1;
        // The stored object counts, even if another one is shown in its place.
        let stored = change.get(id);
        // The node may be ending the pod by itself: the object stays then, and its deletion is still to be noted.
        let left = grace_left(stored.as_ref().map_or(&live.value, |stored| stored));
        let live = &stored.map_or_else(|| Arc::clone(live), |stored| own(&stored, live));
        let own = live.value.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
        let grace = grace.or(left).or(own).unwrap_or(i64::from(limits::GRACE_DEFAULT));
        let grace = if kind.resource == Resource::Pods { grace.min(u32::MAX.into()) } else { 0 };
        let done = |value: Value| Ok(Done { code: 200, value, warnings: Vec::new() });
        if left.is_some_and(|left| left <= grace) {
            // It waits for its finalizers already, with a grace period that is not longer.
            return done(live.value.clone());
        }
        let leaving = leaving(&live.value, grace);
        let waits = live
            .value
            .pointer("/metadata/finalizers")
            .and_then(Value::as_array)
            .is_some_and(|all| !all.is_empty());
        if !how.dry {
            match kind.resource {
                _ if waits => {
                    let value = stored_form(&leaving);
                    let decoded = self.holdings.decode(id, &value);
                    change.put_leaving(id, value, decoded, grace)?;
                }
                Resource::Pods => change.remove_pod(id, stored_form(&leaving), grace)?,
                _ => change.remove(id)?,
            }
        }
        if kind.resource == Resource::Pods || kind.resource == Resource::Claims || waits {
            return done(leaving);
        }
        let uid = live.value.pointer("/metadata/uid").cloned().unwrap_or_default();
        done(json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                    "details": {"name": name, "kind": kind.plural, "uid": uid}}))
    }

    fn delete_namespace(
        &self,
        change: &mut Change<'_>,
        kind: &Kind,
        name: &str,
        live: &Object,
        how: How,
    ) -> Result<Done, Failure> {
        if NAMESPACES.contains(&name) || name == "kube-public" {
            let why = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
            return Err(Failure::of(403, kind, name, why));
        }
        let objects: Vec<(Id, Arc<Object>)> = {
            let state = self.world.now();
            let resources = [Resource::Pods, Resource::ConfigMaps, Resource::Secrets, Resource::Claims];
            let all = resources.into_iter().flat_map(|resource| {
                state
                    .list(resource, Some(name))
                    .map(move |(key, object)| ((resource, key.clone()), Arc::clone(object)))
            });
            all.collect()
        };
        let is_own = |id: &Id, object: &Object| {
            change.get(id).is_some_and(|stored| !is_shadowed(&stored, &object.value))
        };
        let is_ours = |(id, object): &&(Id, Arc<Object>)| {
            is_own(id, object) || object.value.pointer("/metadata/deletionTimestamp").is_some()
        };
        if let Some(((resource, key), object)) = objects.iter().find(|one| !is_ours(one)) {
            let of = crate::api::kinds::of(*resource).unwrap_or(kind);
            return Err(elsewhere(of, &key.1, &object.value, &self.world));
        }
        if !how.dry {
            let ids = change.within(name);
            for (id, object) in objects.iter().filter(|(id, _)| ids.contains(id)) {
                let of = crate::api::kinds::of(id.0).unwrap_or(kind);
                self.take_away(change, of, id, object, None, how)?;
            }
            change.remove(&(Resource::Namespaces, (String::new(), name.to_owned())))?;
        }
        let mut value = leaving(&live.value, 0);
        *place(&mut value, &["status", "phase"]) = "Terminating".into();
        Ok(Done { code: 200, value, warnings: Vec::new() })
    }
}

/// The requested grace period.
fn grace(query: &Query, options: &Value) -> Option<i64> {
    let given = options.get("gracePeriodSeconds").and_then(Value::as_i64);
    given.or_else(|| query.get("gracePeriodSeconds")?.parse().ok()).filter(|grace| *grace >= 0)
}

fn stored_form(value: &Value) -> Value {
    let mut value = value.clone();
    without_live(&mut value);
    value
}

/// Shortens the grace period of a pod that is being deleted.
fn hurry(change: &mut Change<'_>, id: &Id, live: &Object, grace: Option<i64>, how: How) -> Done {
    let done = |value: Value| Done { code: 200, value, warnings: Vec::new() };
    let left = grace_left(&live.value);
    let Some(grace) = grace.filter(|grace| left.is_none_or(|left| *grace < left)) else {
        return done(live.value.clone());
    };
    let leaving = leaving(&live.value, grace);
    if !how.dry {
        change.hurry(id, stored_form(&leaving), grace);
    }
    done(leaving)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: an option of a wrong type counted as left out, and the object was deleted.
    #[test]
    fn options_of_another_type_are_refused() {
        for (options, expected) in [
            (Value::Null, Some(false)),
            (json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}), Some(false)),
            (json!({"dryRun": ["All"], "preconditions": {"uid": "a"}}), Some(true)),
            (json!({"dryRun": "All"}), None),
            (json!({"dryRun": ["Foo"]}), None),
            (json!({"preconditions": "x"}), None),
            (json!({"preconditions": {"uid": 5}}), None),
            (json!([1]), None),
        ] {
            assert_eq!(is_dry(&options).ok(), expected, "{options}");
        }
    }
}
