//! Images of containers that are added to pods.
//!
//! Never here: a pull that continues when its pod is gone, or with almost no progress: others wait for its place.

use super::stop::{News, Stop};
use super::{PullPolicy, Pulls};
use crate::machine::PullRequest;
use crate::pod::Source;

impl Pulls {
    /// Brings an image for a container that is added to a pod, and returns when it is on the node. Uses the node's rate
    /// and credentials, and the record of which secrets brought which image; `is_here` is Docker's answer. Does not use
    /// the queue: the caller bounds how many run at a time, so a pull with almost no progress is given up. `is_wanted`
    /// is called regularly, and ends the pull when it returns false.
    ///
    /// # Errors
    /// Why the image is not available; as a text for the user.
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
        let (begun, result) = shared.fetch(&request, (here, is_here), stop.as_ref(), &mut watch);
        _ = shared.learn(&request, &result, begun);
        result.map(drop).map_err(|error| format!("ErrImagePull: image {image:?}: {error}"))
    }
}
