//! Writes of parts of a pod: its resources, and the containers that are added to it.

use std::fmt;

use serde_json::Value;

use super::added;
use super::patch;
use super::resize;
use super::writes::{Done, How, Origin, Writes};
use super::written::preconditions;
use crate::api::failure::Failure;
use crate::api::path::Target;
use crate::api::value::part;
use crate::api::world::Object;
use crate::server::http::query::Query;

/// The request for a part of an object.
#[derive(Clone, Copy)]
pub enum Sent<'a> {
    Whole(&'a Value),
    Patch(patch::Kind, &'a Value),
}

/// Without the value, which is what a client wrote.
impl fmt::Debug for Sent<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sent::Whole(_) => "<an object>",
            Sent::Patch(..) => "<a patch>",
        })
    }
}

impl Writes {
    /// Changes a part of a pod: its resources, or the containers that are added to it.
    ///
    /// # Errors
    /// The reason of the failure.
    pub fn change_part(
        &self,
        target: Target<'_>,
        name: &str,
        query: &Query,
        manager: &str,
        sent: Sent<'_>,
    ) -> Result<Done, Failure> {
        let wanted = |live: &Object| match sent {
            Sent::Whole(body) => self.meant(target, body.clone()),
            Sent::Patch(by, patch) => by.apply(target.kind.kind, &live.value, patch),
        };
        if target.part.is_some_and(|part| part.name == "ephemeralcontainers") {
            let live = self.found(target, name)?;
            let wanted = wanted(&live)?;
            let meant = crate::base::json::json!({"preconditions": part(&wanted, "/metadata")});
            preconditions(target.kind, name, &meant, &live.value)?;
            let new = added::news(&live.value, &wanted)?;
            if !new.is_empty() && !How::read(query)?.dry {
                self.maker.add(&live.value, &new, &self.world.told().get().snapshot)?;
            }
            let live = self.found(target, name)?;
            return Ok(Done { code: 200, value: live.value.clone(), warnings: Vec::new() });
        }
        let mut change = self.holdings.begin()?;
        let live = self.live(&change, target, name)?;
        let new = resize::resized(&live.value, &wanted(&live)?)
            .map_err(|why| Failure::invalid_field(target.kind, name, &why))?;
        self.update(&mut change, target.kind, name, &live, new, query, Origin::Resize(manager))
    }
}
