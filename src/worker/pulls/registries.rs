//! Registries that do not answer. Pure.
//!
//! If a local copy of an image may be used, a registry that was silent recently is not asked again:
//! otherwise the pods of a node that boots without its registry would wait for it one after the other.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Table;

/// State of registries.
#[derive(Debug)]
pub(super) struct Registries {
    /// By name with port.
    silent: Table<String, Silence>,
    /// A registry without an answer for this long counts as silent.
    pub(super) slow: Duration,
}

impl Default for Registries {
    fn default() -> Registries {
        Registries { silent: Table::new(), slow: limits::REGISTRY_SLOW }
    }
}

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Mono,
    next: Duration,
}

impl Registries {
    /// Whether it has been silent recently.
    pub(super) fn is_silent(&self, registry: &str, now: Mono) -> bool {
        self.silent.get(registry).is_some_and(|silence| now < silence.until)
    }

    /// Notes that it was asked, and gave no answer within `took`.
    pub(super) fn silent(&mut self, registry: &str, took: Duration, now: Mono) {
        if took < self.slow {
            return;
        }
        let before = self.silent.get(registry).copied();
        // Requests that failed at the same time count once.
        if before.is_some_and(|silence| now < silence.until) {
            return;
        }
        if self.silent.len() >= limits::REGISTRIES {
            self.silent.retain(|_, silence| now < silence.until);
        }
        if self.silent.len() < limits::REGISTRIES {
            let wait = before.map_or(limits::REGISTRY_SILENT_MIN, |silence| silence.next);
            let next = wait.saturating_mul(2).min(limits::REGISTRY_SILENT_MAX);
            self.silent.insert(registry.to_owned(), Silence { until: now.after(wait), next });
        }
    }

    /// Notes an answer.
    pub(super) fn answered(&mut self, registry: &str) {
        self.silent.remove(registry);
    }

    /// Forgets all silences.
    pub(super) fn forget(&mut self) {
        self.silent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_registry_is_remembered_for_longer_each_time() {
        let mut all = Registries::default();
        let at = |seconds: u64| Mono::default().after(Duration::from_secs(seconds));
        let slow = limits::REGISTRY_SLOW;
        assert!(!all.is_silent("r", at(0)));
        all.silent("r", Duration::from_secs(1), at(0));
        assert!(!all.is_silent("r", at(0)), "a quick no costs nothing");
        all.silent("r", slow, at(10));
        all.silent("r", slow, at(11));
        assert!(all.is_silent("r", at(69)) && !all.is_silent("r", at(70)) && !all.is_silent("other", at(20)));
        all.silent("r", slow, at(100));
        assert!(all.is_silent("r", at(219)) && !all.is_silent("r", at(220)));
        for n in 0..20 {
            all.silent("r", slow, at(10_000 + n * 1000));
        }
        assert!(!all.is_silent("r", at(29_000 + 601)));
        all.silent("r", slow, at(40_000));
        all.answered("r");
        assert!(!all.is_silent("r", at(40_001)));
        all.silent("r", slow, at(50_000));
        assert!(all.is_silent("r", at(50_059)) && !all.is_silent("r", at(50_060)));
        for n in 0..1000 {
            all.silent(&n.to_string(), slow, at(60_000));
        }
        assert!(all.silent.len() <= limits::REGISTRIES);
        all.forget();
        assert!(all.silent.is_empty());
    }
}
