//! Merges local objects of each source into one object for each name and source. The rule: the object in
//! force stays while its source has it (an edit follows its file); otherwise the first by origin. Sources are
//! independent: an object of one source neither hides nor replaces one of another. Pure.
//!
//! An object with `immutable: true` keeps its data until a set of its source lacks it: as in the API, it is
//! deleted and created again, never changed.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::base::human::many;
use crate::base::limits;
use crate::base::order;
use crate::base::table::Table;
use crate::pod::object::{LocalObject, ObjectKey, Scopes};
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::pod::{Origin, Source};

/// One object that one source has.
#[derive(Clone, Copy)]
pub struct ObjectClaim<'a> {
    pub source: Source,
    /// As the source sent it.
    pub object: &'a Arc<LocalObject>,
}

/// Lower ranks come first. Every component depends only on the claim or on the object in force.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    other_origin: bool,
    other_path: bool,
    origin: &'a Origin,
}

impl<'a> ObjectClaim<'a> {
    fn name(&self) -> (Source, ObjectKey) {
        (self.source, self.object.key.clone())
    }
}

fn rank<'a>(claim: ObjectClaim<'a>, in_force: &Scopes) -> Rank<'a> {
    let object = claim.object;
    let held = in_force.get(&claim.name());
    Rank {
        other_origin: held.is_none_or(|held| held.origin != object.origin),
        other_path: held.is_none_or(|held| held.origin.path != object.origin.path),
        origin: &object.origin,
    }
}

fn winners<'a>(
    claims: impl Iterator<Item = ObjectClaim<'a>>,
    in_force: &Scopes,
) -> Table<(Source, ObjectKey), ObjectClaim<'a>> {
    let mut best: Table<(Source, ObjectKey), ObjectClaim<'a>> = Table::new();
    for claim in claims {
        let now = best.get_or_insert(claim.name(), claim);
        if rank(claim, in_force) < rank(*now, in_force) {
            *now = claim;
        }
    }
    best
}

/// The objects in force; `None` when none changed.
pub fn resolve<'a>(claims: impl Iterator<Item = ObjectClaim<'a>>, in_force: &Scopes) -> Option<Arc<Scopes>> {
    let mut next = Scopes::new();
    for (name, claim) in winners(claims, in_force) {
        let object = match in_force.get(&name) {
            Some(held) if **held == **claim.object || is_refused(held, claim) => held,
            _ => claim.object,
        };
        let object = Arc::clone(object);
        next.insert(name, object);
    }
    let same = next.len() == in_force.len()
        && next.values().zip(in_force.values()).all(|(new, old)| Arc::ptr_eq(new, old));
    (!same).then(|| Arc::new(next))
}

/// Whether the object in force is immutable and differs from this one.
fn is_refused(held: &LocalObject, claim: ObjectClaim<'_>) -> bool {
    let new = claim.object;
    held.immutable && (!new.immutable || held.content != new.content)
}

/// Problems for both sides of every contested name, and for refused changes. In order of source and origin.
pub fn problems<'a>(
    claims: impl Iterator<Item = ObjectClaim<'a>> + Clone,
    in_force: &Scopes,
) -> Vec<Problem> {
    let winners = winners(claims.clone(), in_force);
    let mut found = Vec::new();
    for claim in claims {
        let object = claim.object;
        let Some(held) = in_force.get(&claim.name()) else { continue };
        let wins = winners.get(&claim.name()).is_some_and(|best| Arc::ptr_eq(best.object, object));
        if wins && is_refused(held, claim) {
            let message = "it is immutable and in force with other data, which stays; to change it, delete it \
                           first, or give it another name";
            found.push(problem(Severity::Error, object, message.to_owned()));
        } else if !wins {
            let held_by = format!(
                "the name is held by the one from {}, which keeps it; this one is ignored until that one is \
                 gone or renamed",
                held.origin
            );
            found.push(problem(Severity::Error, object, held_by));
            let ignored = format!("the one from {} has the same name and is ignored", object.origin);
            found.push(problem(Severity::Warning, held, ignored));
        }
    }
    found
}

/// A source's objects in order, within bounds: over them, the objects in force stay, then the first in order.
/// Also returns the problem when objects were left out.
pub fn bounded(
    source: Source,
    objects: &[Arc<LocalObject>],
    in_force: &Scopes,
) -> (Vec<Arc<LocalObject>>, Option<Problem>) {
    let mut claims = objects.to_vec();
    let place = |o: &Arc<LocalObject>| (o.origin.clone(), o.key.clone());
    order::sort_by_key(&mut claims, place);
    let size: usize = claims.iter().map(|o| o.size()).fold(0, usize::saturating_add);
    if claims.len() <= limits::OBJECTS_PER_SOURCE && size <= limits::OBJECT_BYTES_PER_SOURCE {
        return (claims, None);
    }
    order::sort_by_key(&mut claims, |object| {
        let held = in_force.get(&(source, object.key.clone()));
        Reverse((held.is_some_and(|held| held.origin == object.origin), held.is_some()))
    });
    let mut bytes = 0_usize;
    let fits = claims.iter().take(limits::OBJECTS_PER_SOURCE).take_while(|object| {
        bytes = bytes.saturating_add(object.size());
        bytes <= limits::OBJECT_BYTES_PER_SOURCE
    });
    let fits = fits.count();
    let left_out = claims.split_off(fits);
    order::sort_by_key(&mut claims, place);
    let first = left_out.iter().min_by_key(|object| &object.origin);
    let crowded = first.map(|first| {
        let message = format!(
            "source {source} has {} more than fit into the {} objects and {} bytes it may have: \
             this one and the others past the limit are not taken",
            many(left_out.len(), "local object"),
            limits::OBJECTS_PER_SOURCE,
            limits::OBJECT_BYTES_PER_SOURCE
        );
        problem(Severity::Error, first, message)
    });
    (claims, crowded)
}

fn problem(severity: Severity, object: &LocalObject, message: String) -> Problem {
    Problem {
        severity,
        path: object.origin.path.clone(),
        at: None,
        pod: Some(object.key.to_string()),
        field: None,
        message,
    }
}

#[cfg(test)]
mod tests;
