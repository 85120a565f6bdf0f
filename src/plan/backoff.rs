//! Back-off of crash loops and of image pulls (upstream `client-go/util/flowcontrol/backoff.go`,
//! `pkg/kubelet/images/image_manager.go`), in memory only.
//!
//! Monotonic time only (invariant 3): a crash is measured from the time its exit was seen. As with the kubelet, a new
//! daemon begins again: Docker remembers how often a container was restarted and when it ended, but not how fast that
//! happened, and the clock may have been set since. After a power cut, pods that were once restarted often must not be
//! delayed.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;

use crate::base::clock::Mono;
use crate::base::json;
use crate::base::limits;
use crate::base::table::Table;
use crate::pod::DesiredPod;

/// Whether a restart or pull may be tried now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Yes. The caller then calls [`Backoff::advance`].
    Go,
    /// Not before `until`.
    Wait {
        /// The time to check again.
        until: Mono,
        /// The whole delay, for the message: 10 s to 300 s.
        delay: Duration,
    },
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    delay: Duration,
    advanced: Mono,
    /// The exit, or the failure, that advanced it.
    event: Option<Mono>,
}

/// Delays by key: 0, 10, 20, 40, 80, 160, 300, 300 … seconds, no jitter.
#[derive(Debug)]
pub struct Backoff {
    reset: Duration,
    /// The longest delay.
    most: Duration,
    entries: Table<String, Entry>,
    /// Exits that were seen until then are no crashes, see [`Backoff::forgive`].
    forgiven: Option<Mono>,
}

impl Backoff {
    /// For crash loops: an entry is forgotten when the next exit comes more than
    /// [`limits::CRASH_RESET`] after it was last advanced. No delay is longer than `most`.
    #[must_use]
    pub fn crashes(most: Duration) -> Backoff {
        Backoff { reset: limits::CRASH_RESET, most, entries: Table::new(), forgiven: None }
    }

    /// For image pulls: an entry is forgotten [`limits::PULL_RESET`] after the last failure.
    #[must_use]
    pub fn pulls() -> Backoff {
        let most = limits::BACKOFF_MAX;
        Backoff { reset: limits::PULL_RESET, most, entries: Table::new(), forgiven: None }
    }

    /// Crash loops: whether a container whose exit was seen at `exit_seen` may start. `None` means that it
    /// ended before the daemon looked (or never ran): it may. It may also start when the restart after this
    /// exit has been counted already: the container created for it never ran.
    #[must_use]
    pub fn check(&self, key: &str, exit_seen: Option<Mono>, now: Mono) -> Verdict {
        match (self.entries.get(key), exit_seen) {
            _ if self.is_forgiven(exit_seen) => Verdict::Go,
            (Some(entry), Some(_)) if entry.event == exit_seen => Verdict::Go,
            (Some(entry), Some(event)) => self.verdict(*entry, event, now),
            _ => Verdict::Go,
        }
    }

    /// Image pulls: whether the next try may be made, measured from the last failure.
    #[must_use]
    pub fn check_retry(&self, key: &str, now: Mono) -> Verdict {
        match self.entries.get(key) {
            Some(entry) if now.since(entry.advanced) <= self.reset => {
                self.verdict(*entry, entry.advanced, now)
            }
            _ => Verdict::Go,
        }
    }

    /// Records a restart (or a failed pull): the next one waits longer. `event` is the time that
    /// [`Backoff::check`] was given, and is counted once; for a failed pull, `Some(now)`. `None` starts over.
    pub fn advance(&mut self, key: &str, event: Option<Mono>, now: Mono) {
        if self.is_forgiven(event) {
            return;
        }
        let known = self.entries.get(key).zip(event);
        if known.is_some_and(|(entry, event)| entry.event == Some(event)) {
            return;
        }
        let delay = match known.filter(|(entry, event)| !self.is_over(**entry, *event)) {
            Some((entry, _)) => entry.delay.saturating_mul(2).min(self.most),
            None => limits::BACKOFF_MIN.min(self.most),
        };
        if !self.entries.contains_key(key) && self.entries.len() >= limits::BACKOFF_ENTRIES {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.advanced);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        self.entries.insert(key.to_owned(), Entry { delay, advanced: now, event });
    }

    /// One for another life: nothing has crashed.
    #[must_use]
    pub fn anew(&self) -> Backoff {
        Backoff { entries: Table::new(), forgiven: None, ..*self }
    }

    /// Starts over for all keys: what ended until now was stopped on request, so that its exit is no crash.
    pub fn forgive(&mut self, now: Mono) {
        self.entries = Table::new();
        self.forgiven = Some(now);
    }

    /// Also an exit that was not seen, which is older than the daemon.
    fn is_forgiven(&self, event: Option<Mono>) -> bool {
        self.forgiven.is_some() && event <= self.forgiven
    }

    /// Drops the entries for whose key `counts` returns false.
    pub fn retain(&mut self, mut counts: impl FnMut(&str) -> bool) {
        self.entries.retain(|key, _| counts(key));
    }

    /// Number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn is_over(&self, entry: Entry, event: Mono) -> bool {
        event.since(entry.advanced) > self.reset
    }

    fn verdict(&self, entry: Entry, event: Mono, now: Mono) -> Verdict {
        let until = event.after(entry.delay);
        if self.is_over(entry, event) || now >= until {
            Verdict::Go
        } else {
            Verdict::Wait { until, delay: entry.delay }
        }
    }
}

/// Key of a container's crash loop within its pod: a changed image or changed resources start over.
#[must_use]
pub fn crash_key(container: &Container) -> String {
    let image = container.image.as_deref().unwrap_or_default();
    let resources = container.resources.as_ref().map(json::text).unwrap_or_default();
    format!("{}\n{image}\n{resources}", container.name)
}

/// `web-node_default(uid)`: a pod in the kubelet's messages.
#[must_use]
pub fn pod_words(pod: &DesiredPod) -> String {
    format!("{}_{}({})", pod.key.name, pod.key.namespace, pod.uid)
}

/// Waiting message of reason `CrashLoopBackOff`.
#[must_use]
pub fn crash_message(delay: Duration, container: &str, pod: &DesiredPod) -> String {
    format!("back-off {} restarting failed container={container} pod={}", words(delay), pod_words(pod))
}

/// Text of the Warning event `BackOff`.
#[must_use]
pub fn crash_event(container: &str, pod: &DesiredPod) -> String {
    format!("Back-off restarting failed container {container} in pod {}", pod_words(pod))
}

/// Waiting message of reason `ImagePullBackOff`; `previous` is the reason and message of the failure.
#[must_use]
pub fn pull_message(image: &str, previous: Option<(&str, &str)>) -> String {
    match previous {
        Some((reason, message)) => format!("Back-off pulling image \"{image}\": {reason}: {message}"),
        None => format!("Back-off pulling image \"{image}\""),
    }
}

/// A duration as the kubelet prints it, whole seconds: `10s`, `1m20s`, `5m0s`, `1h0m0s`.
#[must_use]
pub fn words(duration: Duration) -> String {
    let all = duration.as_secs();
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::pod;

    fn s(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    /// Delays of a container that ends shortly after it is started, `crashes` times, and the time of its last
    /// start.
    fn crash_loop(backoff: &mut Backoff, crashes: usize) -> (Vec<u64>, Mono) {
        let (mut now, mut delays) = (s(1000), Vec::new());
        for _ in 0..crashes {
            let exit = now.after(Duration::from_millis(1));
            now = exit;
            match backoff.check("app", Some(exit), now) {
                Verdict::Go => delays.push(0),
                Verdict::Wait { until, delay } => {
                    assert_eq!(until, exit.after(delay));
                    assert!(matches!(
                        backoff.check("app", Some(exit), Mono(until.0 - Duration::from_millis(1))),
                        Verdict::Wait { .. }
                    ));
                    delays.push(delay.as_secs());
                    now = until;
                }
            }
            assert_eq!(backoff.check("app", Some(exit), now), Verdict::Go);
            backoff.advance("app", Some(exit), now);
        }
        (delays, now)
    }

    #[test]
    fn sequence_first_restart_at_once_then_10_doubling_to_300() {
        let (delays, _) = crash_loop(&mut Backoff::crashes(limits::BACKOFF_MAX), 9);
        assert_eq!(delays, [0, 10, 20, 40, 80, 160, 300, 300, 300]);
    }

    #[test]
    fn no_delay_is_longer_than_the_longest_not_even_the_first() {
        let delays = |most| crash_loop(&mut Backoff::crashes(Duration::from_secs(most)), 6).0;
        assert_eq!(delays(60), [0, 10, 20, 40, 60, 60]);
        assert_eq!(delays(10), [0, 10, 10, 10, 10, 10]);
        assert_eq!(delays(1), [0, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn reset_when_the_exit_is_600_s_after_the_entry_advanced() {
        let delay = Duration::from_secs(300);
        let at_exit = |after: Duration| {
            let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
            let (_, last) = crash_loop(&mut backoff, 8);
            let exit = last.after(after);
            let verdict = backoff.check("app", Some(exit), exit);
            backoff.advance("app", Some(exit), exit);
            let waits = verdict == Verdict::Wait { until: exit.after(delay), delay };
            assert_eq!(waits, verdict != Verdict::Go);
            (waits, backoff.entries["app"].delay.as_secs())
        };
        assert_eq!(at_exit(Duration::from_secs(590)), (true, 300));
        assert_eq!(at_exit(Duration::from_secs(600)), (true, 300), "not more than 600 s");
        assert_eq!(at_exit(Duration::from_millis(600_001)), (false, 10));
        // The time of the exit counts, not the time waited since.
        let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
        backoff.advance("app", Some(s(0)), s(0));
        assert_eq!(backoff.check("app", Some(s(1)), s(700)), Verdict::Go, "long past its delay");
        backoff.advance("app", Some(s(1)), s(700));
        assert_eq!(backoff.entries["app"].delay.as_secs(), 20, "and still the next one");
    }

    #[test]
    fn one_exit_counts_once_however_often_its_successor_is_made() {
        let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
        let _ = crash_loop(&mut backoff, 3);
        let exit = s(1500);
        backoff.advance("app", Some(exit), s(1501));
        for at in [1502, 1560, 9000] {
            assert_eq!(backoff.check("app", Some(exit), s(at)), Verdict::Go);
            backoff.advance("app", Some(exit), s(at));
        }
        let delay = Duration::from_secs(80);
        let next = backoff.check("app", Some(s(1510)), s(1511));
        assert_eq!(next, Verdict::Wait { until: s(1590), delay }, "once more");
    }

    #[test]
    fn exit_that_nobody_saw_restarts_at_once() {
        let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
        let _ = crash_loop(&mut backoff, 8);
        assert_eq!(backoff.check("app", None, s(0)), Verdict::Go);
        backoff.advance("app", None, s(5));
        let ten = Duration::from_secs(10);
        assert_eq!(backoff.check("app", Some(s(6)), s(6)), Verdict::Wait { until: s(16), delay: ten });
    }

    #[test]
    fn pulls_are_measured_from_the_last_failure_and_expire() {
        let mut pulls = Backoff::pulls();
        let mut now = s(0);
        let mut delays = Vec::new();
        assert_eq!(pulls.check_retry("image", now), Verdict::Go);
        for _ in 0..7 {
            pulls.advance("image", Some(now), now);
            let Verdict::Wait { until, delay } = pulls.check_retry("image", now) else { panic!("no wait") };
            delays.push(delay.as_secs());
            assert_eq!(pulls.check_retry("image", until), Verdict::Go);
            now = until;
        }
        assert_eq!(delays, [10, 20, 40, 80, 160, 300, 300]);
        let failed = Mono(now.0 - Duration::from_secs(300));
        assert_eq!(pulls.check_retry("image", failed.after(Duration::from_secs(601))), Verdict::Go);
        pulls.advance(
            "image",
            Some(failed.after(Duration::from_secs(601))),
            failed.after(Duration::from_secs(601)),
        );
        assert_eq!(pulls.entries["image"].delay.as_secs(), 10, "forgotten after 600 s without failure");
        assert_eq!(pulls.check_retry("other", now), Verdict::Go);
    }

    #[test]
    fn entries_are_bounded_and_retained() {
        let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
        for n in 0..3 * limits::BACKOFF_ENTRIES as u64 {
            backoff.advance(&format!("c{n}"), None, s(n));
        }
        assert_eq!(backoff.entries.len(), limits::BACKOFF_ENTRIES);
        assert!(
            backoff.entries.contains_key(&format!("c{}", 3 * limits::BACKOFF_ENTRIES - 1)),
            "newest stay"
        );
        backoff.retain(|key| key == "c3071");
        assert_eq!(backoff.entries.len(), 1);
    }

    #[test]
    fn k134153_ends_of_time_do_not_overflow() {
        let mut backoff = Backoff::crashes(limits::BACKOFF_MAX);
        let end = Mono(Duration::MAX);
        backoff.advance("app", Some(end), end);
        let close = Mono(end.0 - Duration::from_nanos(1));
        assert!(matches!(backoff.check("app", Some(close), s(0)), Verdict::Wait { .. }));
        backoff.advance("app", Some(s(0)), s(0));
        assert_eq!(backoff.check("app", Some(s(1)), end), Verdict::Go);
    }

    #[test]
    fn key_changes_with_name_image_and_resources_only() {
        let key =
            |container: &str| crash_key(&pod(&format!("{{containers: [{container}]}}")).spec.containers[0]);
        let plain = key("{name: a}");
        assert_eq!(plain, key("{name: a, env: [{name: X, value: z}], command: [sh]}"));
        assert_ne!(plain, key("{name: b}"));
        assert_ne!(plain, key("{name: a, image: other}"));
        assert_ne!(plain, key("{name: a, resources: {limits: {memory: 1Gi}}}"));
    }

    #[test]
    fn texts() {
        let check = |seconds, expected: &str| assert_eq!(words(Duration::from_secs(seconds)), expected);
        for (seconds, expected) in [
            (0, "0s"),
            (10, "10s"),
            (20, "20s"),
            (40, "40s"),
            (80, "1m20s"),
            (160, "2m40s"),
            (300, "5m0s"),
            (3600, "1h0m0s"),
            (3725, "1h2m5s"),
        ] {
            check(seconds, expected);
        }
        let pod = pod("{containers: [{name: app}]}");
        assert_eq!(
            crash_message(Duration::from_secs(10), "app", &pod),
            "back-off 10s restarting failed container=app pod=web-node_default(uid-1)"
        );
        assert_eq!(
            crash_event("app", &pod),
            "Back-off restarting failed container app in pod web-node_default(uid-1)"
        );
        assert_eq!(pull_message("a:1", None), "Back-off pulling image \"a:1\"");
        assert_eq!(
            pull_message("a:1", Some(("ErrImagePull", "no route"))),
            "Back-off pulling image \"a:1\": ErrImagePull: no route"
        );
    }
}
