//! Which registries do not answer. Pure.
//!
//! Where a copy of an image is here and will do, a registry that has just been silent is not waited for
//! again: the pods of a node that boots without its registry would wait for it one after the other.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;

/// What is remembered of registries, by name with port.
#[derive(Debug, Default)]
pub(super) struct Registries(BTreeMap<String, Silence>);

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Mono,
    next: Duration,
}

impl Registries {
    /// It has been silent lately.
    pub(super) fn is_silent(&self, registry: &str, now: Mono) -> bool {
        self.0.get(registry).is_some_and(|silence| now < silence.until)
    }

    /// It was asked, and `took` so long to say nothing.
    pub(super) fn silent(&mut self, registry: &str, took: Duration, now: Mono) {
        if took < limits::REGISTRY_SLOW {
            return;
        }
        let before = self.0.get(registry).copied();
        // Several that were asked at once are one silence.
        if before.is_some_and(|silence| now < silence.until) {
            return;
        }
        if self.0.len() >= limits::REGISTRIES {
            self.0.retain(|_, silence| now < silence.until);
        }
        if self.0.len() < limits::REGISTRIES {
            let wait = before.map_or(limits::REGISTRY_SILENT_MIN, |silence| silence.next);
            let next = wait.saturating_mul(2).min(limits::REGISTRY_SILENT_MAX);
            self.0.insert(registry.to_owned(), Silence { until: now.after(wait), next });
        }
    }

    /// It has answered.
    pub(super) fn answered(&mut self, registry: &str) {
        self.0.remove(registry);
    }

    /// All are asked again.
    pub(super) fn forget(&mut self) {
        self.0.clear();
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
        assert!(all.0.len() <= limits::REGISTRIES);
        all.forget();
        assert!(all.0.is_empty());
    }
}
