//! How often the state is published. A state takes the longer the more pods there are, and each event makes a new one: with
//! a thousand pods the main thread did little else in a burst.
//!
//! Never here: whether something has changed.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;

/// When the next state may be published.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    after: Mono,
    /// A state waits for that time.
    waits: bool,
}

impl Publishing {
    /// Whether the state may be published now. One with all events of the moment (`is_enough`) waits for its time otherwise.
    pub(super) fn may(&mut self, is_enough: bool, now: Mono) -> bool {
        let wants = is_enough || self.waits;
        self.waits = wants && now < self.after;
        wants && !self.waits
    }

    /// Notes that one was published between these times.
    pub(super) fn done(&mut self, begun: Mono, ended: Mono) {
        let rest = ended.since(begun).saturating_mul(limits::PUBLISHING_REST).min(limits::PUBLISHING_LATE);
        self.after = ended.after(rest);
    }

    /// The time until the state that waits is published; `None`: none waits.
    pub(super) fn due(&self, now: Mono) -> Option<Duration> {
        self.waits.then(|| self.after.since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_take_a_tenth_of_the_time_and_none_is_late() {
        let at = |millis| Mono(Duration::from_millis(millis));
        let mut publishing = Publishing::default();
        assert!(!publishing.may(false, at(0)) && publishing.may(true, at(0)));
        publishing.done(at(0), at(5));
        assert_eq!(publishing.due(at(5)), None, "nothing waits");
        assert!(!publishing.may(false, at(60)), "more events come");
        assert!(!publishing.may(true, at(49)) && !publishing.may(false, at(49)));
        assert_eq!(publishing.due(at(49)), Some(Duration::from_millis(1)));
        // Its time comes once, whatever else comes, and although nothing may have changed.
        assert!(publishing.may(false, at(50)) && !publishing.may(false, at(50)));
        assert_eq!(publishing.due(at(50)), None);
        publishing.done(at(1000), at(9000));
        assert!(!publishing.may(true, at(9000)));
        assert_eq!(publishing.due(at(9000)), Some(limits::PUBLISHING_LATE));
    }
}
