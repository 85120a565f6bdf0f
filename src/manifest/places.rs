//! The places of fields in a manifest that was decoded before, for problems that are found later.

use super::tree::Place;
use super::{Context, Rules, read};

/// The places of fields of pods in a manifest: each pod's number in it, and the field's path.
#[must_use]
pub fn places(bytes: &[u8], context: &Context<'_>, fields: &[(u32, String)]) -> Vec<Option<Place>> {
    let mut places = Vec::new();
    read(bytes, context, Rules::OfDaemon, &mut |file| {
        let place = |(document, field): &(u32, String)| {
            let pod = file.pods.iter().find(|(pod, _)| pod.origin.document == *document);
            pod.map(|(_, text)| text.nearest(field))
        };
        places = fields.iter().map(place).collect();
    });
    places
}
