//! Room for one more image in the record of which secrets brought which image.
//!
//! Never here: forgetting an image that is on the node.

use super::Shared;
use crate::base::order;
use crate::garbage::images::full_names;
use crate::machine::PullRequest;
use crate::runtime::{Call, Reply};

impl Shared {
    /// Whether a pull of this image with secrets can be recorded; images that are gone make room.
    pub(super) fn has_room(&self, request: &PullRequest) -> bool {
        let (image, behind) = (&request.image, self.queue().is_behind(request.source));
        if !self.grants.has_room(image, behind)
            && let Ok(Reply::Images(images)) = self.docker.call(&Call::ImageList { all: false })
        {
            let names = order::set(images.iter().flat_map(full_names));
            self.grants.forget_gone(|image, id| names.contains(image) || names.contains(id));
        }
        self.grants.has_room(image, behind)
    }
}
