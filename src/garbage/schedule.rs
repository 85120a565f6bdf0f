//! When images are collected, and the events about it (upstream `image_gc_manager.go`, `kubelet.go`
//! `StartGarbageCollection`). Pure.

use super::images::Policy;
use super::{Order, Report};
use crate::base::clock::Mono;
use crate::base::limits;
use crate::recorder::{Weight, Words};
use crate::runtime::progress::bytes;

/// The file system of images, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    /// Total size.
    pub capacity: u64,
    /// Free space for processes that are not root.
    pub available: u64,
}

impl Disk {
    /// Used space in percent, as the kubelet counts; `None` when the disk has no size.
    #[must_use]
    pub fn percent(self) -> Option<u8> {
        let free = u128::from(self.available.min(self.capacity)).saturating_mul(100);
        let free = free.checked_div(u128::from(self.capacity))?;
        u8::try_from(100u128.saturating_sub(free)).ok()
    }

    /// Bytes to free so that at most `low` percent of the disk are used.
    #[must_use]
    pub fn to_free(self, low: u8) -> u64 {
        let free = u128::from(self.capacity).saturating_mul(u128::from(100u8.saturating_sub(low))) / 100;
        let free = u64::try_from(free).unwrap_or(u64::MAX);
        free.saturating_sub(self.available.min(self.capacity))
    }
}

/// Remembers the last look, the last run that freed space, and whether that failed.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    looked: Option<Mono>,
    freed: Option<Mono>,
    failed: bool,
    /// Nothing is due before this time: the last run could not find out which images may be removed.
    rests_until: Mono,
    /// An event has reported that the disk has no size.
    no_size: bool,
}

impl Schedule {
    /// The order that is due now. The first look records which images exist: their age counts from then on. Later looks
    /// happen only with a maximum age, or when the disk is so full that images may have to be removed soon.
    ///
    /// # Errors
    /// An event of the node: the disk has no size.
    pub fn due(&mut self, policy: &Policy, disk: Disk, now: Mono) -> Result<Option<Order>, Words> {
        let Some(percent) = disk.percent() else {
            if std::mem::replace(&mut self.no_size, true) {
                return Ok(None);
            }
            return Err(warning("InvalidDiskCapacity", "invalid capacity 0 on image filesystem".to_owned()));
        };
        self.no_size = false;
        if now < self.rests_until {
            return Ok(None);
        }
        let first = self.looked.is_none();
        let rested = |last: Option<Mono>| last.is_none_or(|at| now.since(at) >= limits::IMAGE_GC_PERIOD);
        if policy.high < 100 && percent >= policy.high && rested(self.freed) {
            (self.looked, self.freed) = (Some(now), Some(now));
            return Ok(Some(Order::Free(disk.to_free(policy.low))));
        }
        let due = first || percent >= policy.low || !policy.max_age.is_zero();
        if due && rested(self.looked) {
            self.looked = Some(now);
            return Ok(Some(Order::Old));
        }
        Ok(None)
    }

    /// When an order is due even if the disk does not fill up.
    #[must_use]
    pub fn next(&self, policy: &Policy) -> Option<Mono> {
        let looked = self.looked.filter(|_| !policy.max_age.is_zero())?;
        Some(looked.after(limits::IMAGE_GC_PERIOD))
    }

    /// Returns events of the node about a finished run. `disk`: the disk before the run. A run that could not find out
    /// which images may be removed is repeated after a while; the next look may come at once.
    pub fn told(&mut self, order: Order, disk: Disk, report: &Report, now: Mono) -> Vec<Words> {
        let mut told = Vec::new();
        if report.blind || report.unheard {
            (self.looked, self.freed) = (None, None);
            self.rests_until = now.after(limits::COLLECT_AGAIN);
        }
        if report.unheard {
            return told;
        }
        let wanted = match order {
            Order::Free(wanted) => wanted,
            Order::Old | Order::All => 0,
        };
        let freed = report.freed;
        let why = match report.errors.as_slice() {
            [why] if report.blind => Some(why.clone()),
            [] if freed < wanted => Some(format!(
                "failed to garbage collect required amount of images. Wanted to free {wanted} bytes, but freed {freed} \
                 bytes"
            )),
            [] => None,
            all => Some(format!(
                "wanted to free {wanted} bytes, but freed {freed} bytes space with errors in image deletion: {}",
                all.join("; ")
            )),
        };
        if freed < wanted && !report.blind {
            let percent = disk.percent().unwrap_or_default();
            told.push(warning(
                "FreeDiskSpaceFailed",
                format!(
                    "Insufficient free disk space on the node's image filesystem ({percent}% of {} used). Failed to free \
                     sufficient space by deleting unused images (freed {freed} bytes). Investigate disk usage, as it \
                     could be used by active images, logs, volumes, or other data.",
                    bytes(disk.capacity)
                ),
            ));
        }
        // As upstream, a first failure is not reported: the next run may succeed.
        let before = std::mem::replace(&mut self.failed, why.is_some());
        told.extend(why.filter(|_| before).map(|why| warning("ImageGCFailed", why)));
        told
    }
}

fn warning(reason: &'static str, message: String) -> Words {
    Words { weight: Weight::Warning, reason: reason.into(), message }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const DISK: Disk = Disk { capacity: 1000, available: 600 };

    fn at(minutes: u64) -> Mono {
        Mono(Duration::from_secs(minutes * 60))
    }

    fn full(available: u64) -> Disk {
        Disk { available, ..DISK }
    }

    fn policy() -> Policy {
        Policy { high: 90, low: 80, ..Policy::default() }
    }

    /// `TestGarbageCollectBelowLowThreshold`, `TestGarbageCollectBelowSuccess`.
    #[test]
    fn images_go_from_the_high_threshold_down_to_the_low_one() {
        let check = |disk: Disk, expected: Option<Order>| {
            let mut schedule =
                Schedule { looked: Some(at(0)), freed: Some(at(0)), failed: false, ..Schedule::default() };
            assert_eq!(schedule.due(&policy(), disk, at(5)), Ok(expected), "{disk:?}");
        };
        check(DISK, None);
        check(full(50), Some(Order::Free(150)));
        check(full(100), Some(Order::Free(100)));
        check(full(101), Some(Order::Free(99)));
        check(full(110), Some(Order::Old));
        check(full(200), Some(Order::Old));
        check(full(210), None);
        check(full(2000), None);
        check(Disk { capacity: u64::MAX, available: 0 }, Some(Order::Free(u64::MAX / 5)));
    }

    #[test]
    fn a_run_that_could_not_know_what_may_go_is_made_up_for() {
        for report in [
            Report { unheard: true, ..Report::default() },
            Report { blind: true, errors: vec!["x".into()], ..Report::default() },
        ] {
            let mut schedule = Schedule::default();
            assert_eq!(schedule.due(&policy(), full(50), at(0)), Ok(Some(Order::Free(150))));
            assert_eq!(schedule.told(Order::Free(150), full(50), &report, at(0)), []);
            assert_eq!(schedule.due(&policy(), full(50), at(0)), Ok(None), "the next look may come at once");
            assert_eq!(schedule.due(&policy(), full(50), at(1)), Ok(Some(Order::Free(150))));
            assert_eq!(schedule.due(&policy(), full(50), at(2)), Ok(None));
        }
    }

    #[test]
    fn a_disk_that_fills_up_waits_for_no_look() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(&policy(), DISK, at(0)), Ok(Some(Order::Old)));
        assert_eq!(schedule.due(&policy(), full(50), at(1)), Ok(Some(Order::Free(150))));
        assert_eq!(schedule.due(&policy(), full(50), at(2)), Ok(None), "not again so soon");
        assert_eq!(schedule.due(&policy(), full(50), at(6)), Ok(Some(Order::Free(150))));
    }

    #[test]
    fn nothing_is_looked_for_while_there_is_room() {
        let mut schedule = Schedule::default();
        assert_eq!(schedule.due(&policy(), DISK, at(0)), Ok(Some(Order::Old)), "ages begin");
        assert_eq!(schedule.due(&policy(), full(150), at(4)), Ok(None), "just looked");
        assert_eq!(schedule.due(&policy(), DISK, at(60)), Ok(None));
        assert_eq!(schedule.next(&policy()), None);
        let old = Policy { max_age: Duration::from_secs(3600), ..policy() };
        assert_eq!(schedule.next(&old), Some(at(5)));
        assert_eq!(schedule.due(&old, DISK, at(60)), Ok(Some(Order::Old)));
        let off = Policy { high: 100, low: 100, ..policy() };
        assert_eq!(Schedule::default().due(&off, full(0), at(0)), Ok(Some(Order::Old)), "nothing is freed");
    }

    /// `TestGarbageCollectCadvisorFailure` and a disk without a size.
    #[test]
    fn a_disk_without_a_size_is_told() {
        let told = Schedule::default().due(&policy(), Disk::default(), at(0)).unwrap_err();
        assert_eq!(
            (&*told.reason, &*told.message),
            ("InvalidDiskCapacity", "invalid capacity 0 on image filesystem")
        );
    }

    /// `TestGarbageCollectNotEnoughFreed`; the kubelet reports a failure only when it is not the first.
    #[test]
    fn what_could_not_be_freed_is_told() {
        let mut schedule = Schedule::default();
        let report = Report { freed: 50, ..Report::default() };
        let disk = Disk { capacity: 1 << 30, available: 50 << 20 };
        let words = |told: Vec<Words>| {
            told.into_iter().map(|w| (w.reason.into_owned(), w.message)).collect::<Vec<_>>()
        };
        let short = "Insufficient free disk space on the node's image filesystem (96% of 1.0 GiB used). Failed to free \
                     sufficient space by deleting unused images (freed 50 bytes). Investigate disk usage, as it could be \
                     used by active images, logs, volumes, or other data.";
        let short = ("FreeDiskSpaceFailed".to_owned(), short.to_owned());
        assert_eq!(
            words(schedule.told(Order::Free(150), disk, &report, at(0))),
            std::slice::from_ref(&short)
        );
        let failed = "failed to garbage collect required amount of images. Wanted to free 150 bytes, but freed 50 bytes";
        let failed = ("ImageGCFailed".to_owned(), failed.to_owned());
        assert_eq!(words(schedule.told(Order::Free(150), disk, &report, at(0))), [short.clone(), failed]);
        let refused = Report { errors: vec!["a: x".into(), "b: y".into()], ..report };
        let failed =
            "wanted to free 150 bytes, but freed 50 bytes space with errors in image deletion: a: x; b: y";
        let failed = ("ImageGCFailed".to_owned(), failed.to_owned());
        assert_eq!(words(schedule.told(Order::Free(150), disk, &refused, at(0))), [short, failed]);
        assert_eq!(
            schedule.told(Order::Free(150), disk, &Report { freed: 150, ..Report::default() }, at(0)),
            []
        );
        let blind =
            Report { blind: true, errors: vec!["Docker is not reachable: x".into()], ..Report::default() };
        assert_eq!(schedule.told(Order::Free(150), disk, &blind, at(0)), []);
        let failed = ("ImageGCFailed".to_owned(), "Docker is not reachable: x".to_owned());
        assert_eq!(words(schedule.told(Order::Free(150), disk, &blind, at(0))), [failed]);
    }
}
