//! Rate limit of events about one object (`client-go/tools/record/events_cache.go`, `EventSourceObjectSpamFilter`).
//! Pure.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Table;
use crate::recorder::{Involved, ObjectEvent};

/// A bucket for each object and kind of event.
#[derive(Debug, Default)]
pub(super) struct Tokens(Table<String, Bucket>);

#[derive(Debug)]
struct Bucket {
    left: u32,
    /// When the last token was added.
    filled: Mono,
}

impl Tokens {
    /// Takes a token.
    ///
    /// # Errors
    /// When the next token is available.
    pub(super) fn take(&mut self, event: &ObjectEvent, now: Mono) -> Result<(), Mono> {
        let of = match &event.of {
            Involved::Pod(key) => format!("{key} {} {}", event.uid, event.weight.as_str()),
            Involved::Node(name) => format!("{name} {}", event.weight.as_str()),
        };
        if !self.0.contains_key(&of) && self.0.len() >= limits::API_EVENT_OBJECTS {
            // The bucket that was unused for longest is the fullest.
            let oldest = self.0.iter().min_by_key(|(_, bucket)| bucket.filled).map(|(of, _)| of.clone());
            oldest.and_then(|of| self.0.remove(&of));
        }
        let full = || Bucket { left: limits::API_EVENT_BURST, filled: now };
        let bucket = self.0.get_or_insert_with(of, full);
        let every = limits::API_EVENT_REFILL;
        let more = now.since(bucket.filled).as_secs().checked_div(every.as_secs()).unwrap_or_default();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        if more > 0 {
            bucket.left = bucket.left.saturating_add(more).min(limits::API_EVENT_BURST);
            bucket.filled = bucket.filled.after(every.saturating_mul(more));
        }
        match bucket.left.checked_sub(1) {
            Some(left) => {
                if bucket.left == limits::API_EVENT_BURST {
                    bucket.filled = now;
                }
                bucket.left = left;
                Ok(())
            }
            None => Err(bucket.filled.after(every.max(Duration::from_secs(1)))),
        }
    }
}
