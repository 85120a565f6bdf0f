//! When the source asks the server next.
//!
//! Never here: requests.

use std::time::Duration;

use crate::base::clock::Mono;

/// Times of the next requests.
#[derive(Debug)]
pub(super) struct Due {
    /// For all pods, because room has become free.
    pub(super) relist: Option<Mono>,
    /// For all objects.
    pub(super) objects: Mono,
    /// For objects that could not be looked up.
    pub(super) retry: Option<Mono>,
    /// When that was tried last.
    pub(super) looked: Mono,
}

impl Due {
    /// When to look for something that is due then. If it was due before the last pass, it was not asked for: its pod ends,
    /// or waits for another object.
    pub(super) fn of_missing(&self, due: Mono, again: Duration) -> Mono {
        if due <= self.looked { self.looked.after(again) } else { due }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a pod that ended for long, and whose optional ConfigMap did not exist, had a pass over all pods every 5 ms.
    #[test]
    fn what_a_pass_did_not_ask_for_makes_none_at_once() {
        let at = |seconds: u64| Mono::default().after(Duration::from_secs(seconds));
        let due = Due { relist: None, objects: at(60), retry: None, looked: at(10) };
        let of = |seconds: u64| due.of_missing(at(seconds), Duration::from_secs(2));
        assert_eq!([of(0), of(10), of(11), of(30)], [at(12), at(12), at(11), at(30)]);
    }
}
