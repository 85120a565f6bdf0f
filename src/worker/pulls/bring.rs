//! Images of containers that are added to pods.
//!
//! Never here: a pull that goes on when its pod has gone, or that hardly moves: others wait for its place.

use super::stop::{News, Stop};
use super::{PullPolicy, Pulls};
use crate::machine::PullRequest;
use crate::pod::Source;

impl Pulls {
    /// Brings an image for a container that is added to a pod, and returns when it is here: at the node's rate, with its
    /// credentials, and by the record of whose images are whose; `is_here` as Docker tells. Not in the queue: who calls
    /// bounds how many are brought at once, so that one that hardly moves is given up. `is_wanted` is asked now and then
    /// whether to go on.
    ///
    /// # Errors
    /// Why it cannot be had; for a user.
    pub fn bring(
        &self,
        image: &str,
        policy: PullPolicy,
        is_here: bool,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let shared = &self.shared;
        if is_here && policy != PullPolicy::Always && shared.grants.allows(image, &[]) {
            return Ok(());
        }
        if policy == PullPolicy::Never {
            let why = if is_here { "came with the secret of another pod" } else { "is not on this node" };
            return Err(format!("ErrImageNeverPull: image {image:?} {why}, and may not be pulled"));
        }
        let request = PullRequest::plain(image.to_owned(), false, Source::Api);
        let stop = Stop::new().ok();
        let here = is_here && shared.grants.allows(image, &[]);
        let mut watch = |news: News<'_>| match (news, &stop) {
            (News::Heard, Some(stop)) if !is_wanted() => stop.give_up("the pod has gone".to_owned()),
            (News::Slow(why), Some(stop)) => stop.give_up(why.to_owned()),
            _ => {}
        };
        let (begun, result) = shared.fetch(&request, here, stop.as_ref(), &mut watch);
        _ = shared.learn(&request, &result, begun);
        result.map(drop).map_err(|error| format!("ErrImagePull: image {image:?}: {error}"))
    }
}
