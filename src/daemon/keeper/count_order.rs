//! The order in which pods are counted, and which counts hang. Pods are counted one after the other, so that a pod
//! whose files cannot be read (a dead disk or server) does not block the others. Pure: threads count, and report their
//! progress.

use std::time::Duration;

use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::Set;
use crate::eviction::signal::Signal;

/// The count for one signal, and the counts that hang.
#[derive(Debug, Default)]
pub struct CountOrder {
    current: Option<Current>,
    /// Pods whose count was given up and has not ended, with the signal that it was for.
    hanging: Set<(Signal, String)>,
}

#[derive(Debug)]
struct Current {
    signal: Signal,
    /// UIDs of pods that are still to be counted; the next one is last.
    waiting: Vec<String>,
    at: String,
    /// Progress of the current count, and the time of its last change.
    progress: u64,
    since: Mono,
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Count the pod with this UID.
    Pod(String),
    /// All pods that can be counted for this signal were counted.
    Over(Signal),
}

/// The cost of a pod's previous count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Took {
    /// The pod had more than was counted.
    pub is_cut: bool,
    /// Duration of the count.
    pub time: Duration,
}

impl Took {
    /// Value for a pod that was never counted: its turn is after the pods that are counted quickly.
    pub const UNKNOWN: Took = Took { is_cut: false, time: limits::DISK_USE_QUICK };
}

/// How long a pod may be counted, when the counts of other pods have taken `spent` and `left` pods remain, this one
/// included. Pods with large trees must not delay an eviction without end; a pod that was counted whole before gets the
/// time for that while time remains.
#[must_use]
pub fn patience(spent: Duration, left: usize, before: Option<Took>) -> Duration {
    let rest = limits::COUNT_ROUND.saturating_sub(spent);
    let left = u32::try_from(left.max(1)).unwrap_or(u32::MAX);
    let share = rest.checked_div(left).unwrap_or_default();
    let whole = before.filter(|before| !before.is_cut && !rest.is_zero());
    let known = whole.map_or(Duration::ZERO, |before| before.time.saturating_mul(2));
    share.max(known).clamp(limits::COUNT_LEAST, limits::DISK_USE_PATIENCE)
}

impl CountOrder {
    /// Begins the count for a signal. Pods that hang are left out.
    pub fn begin(&mut self, signal: Signal, pods: Vec<String>, now: Mono) -> Next {
        let mut waiting: Vec<String> =
            pods.into_iter().filter(|uid| !self.hanging.contains(&(signal, uid.clone()))).collect();
        waiting.reverse();
        self.next(signal, waiting, now)
    }

    fn next(&mut self, signal: Signal, mut waiting: Vec<String>, now: Mono) -> Next {
        self.current = None;
        let hanging = self.hanging.iter().filter(|(of, _)| *of == signal).count();
        // Each count that hangs holds a thread. When so many hang, the disk itself is dead.
        if hanging >= limits::COUNTS_HANGING {
            return Next::Over(signal);
        }
        let Some(at) = waiting.pop() else { return Next::Over(signal) };
        self.current = Some(Current { signal, waiting, at: at.clone(), progress: 0, since: now });
        Next::Pod(at)
    }

    /// A pod was counted for a signal. Returns `None` when this count was no longer waited for.
    pub fn counted(&mut self, signal: Signal, uid: &str, now: Mono) -> Option<Next> {
        self.hanging.remove(&(signal, uid.to_owned()));
        let current = self.current.take_if(|it| it.signal == signal && it.at == uid)?;
        Some(self.next(signal, current.waiting, now))
    }

    /// Takes the progress of the current pod's count, as a number that grows. When the count hangs, returns the pod's
    /// UID and the next step.
    pub fn watch(&mut self, progress: u64, now: Mono) -> Option<(String, Next)> {
        let current = self.current.as_mut()?;
        if current.progress != progress {
            (current.progress, current.since) = (progress, now);
        }
        if now.since(current.since) < limits::COUNT_PATIENCE {
            return None;
        }
        let Current { signal, waiting, at, .. } = self.current.take()?;
        self.hanging.insert((signal, at.clone()));
        Some((at, self.next(signal, waiting, now)))
    }

    /// Gives the count up.
    pub fn end(&mut self) {
        self.current = None;
    }

    /// When the progress of the count has to be checked.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        self.current.as_ref().map(|it| it.since.after(limits::COUNT_PATIENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Signal = Signal::NodeFs;

    fn at(seconds: u64) -> Mono {
        Mono(Duration::from_secs(seconds))
    }

    fn pod(uid: &str) -> Next {
        Next::Pod(uid.to_owned())
    }

    fn pods(uids: &[&str]) -> Vec<String> {
        uids.iter().map(|uid| (*uid).to_owned()).collect()
    }

    #[test]
    fn one_pod_after_the_other() {
        let mut count = CountOrder::default();
        assert_eq!(count.begin(DISK, pods(&["a", "b"]), at(0)), pod("a"));
        assert_eq!(count.due(), Some(at(60)));
        assert_eq!(count.counted(DISK, "b", at(1)), None, "not yet");
        assert_eq!(count.counted(Signal::ImageFs, "a", at(1)), None, "of another disk");
        assert_eq!(count.counted(DISK, "a", at(1)), Some(pod("b")));
        assert_eq!(count.counted(DISK, "b", at(2)), Some(Next::Over(DISK)));
        assert_eq!((count.due(), count.counted(DISK, "b", at(3))), (None, None));
        assert_eq!(count.begin(DISK, Vec::new(), at(4)), Next::Over(DISK));
    }

    #[test]
    fn a_pod_that_hangs_hides_no_other() {
        let mut count = CountOrder::default();
        assert_eq!(count.begin(DISK, pods(&["a", "b", "c"]), at(0)), pod("a"));
        assert_eq!(count.counted(DISK, "a", at(1)), Some(pod("b")));
        assert_eq!(count.watch(7, at(50)), None, "it has come further");
        assert_eq!(count.watch(7, at(109)), None);
        assert_eq!(count.watch(7, at(110)), Some(("b".to_owned(), pod("c"))));
        assert_eq!(count.counted(DISK, "c", at(111)), Some(Next::Over(DISK)));
        // The next count skips the pod that hangs; a count for another signal tries it.
        assert_eq!(count.begin(DISK, pods(&["b", "c"]), at(120)), pod("c"));
        assert_eq!(count.counted(DISK, "b", at(121)), None, "it was counted after all");
        assert_eq!(count.counted(DISK, "c", at(122)), Some(Next::Over(DISK)));
        assert_eq!(count.begin(DISK, pods(&["b"]), at(130)), pod("b"));
        count.end();
        assert_eq!((count.watch(7, at(500)), count.due()), (None, None));
    }

    #[test]
    fn on_a_dead_disk_threads_are_not_multiplied() {
        let mut count = CountOrder::default();
        let uids: Vec<String> = (0..20).map(|n| format!("u{n}")).collect();
        let mut next = count.begin(DISK, uids.clone(), at(0));
        for n in 0..limits::COUNTS_HANGING {
            assert_eq!(next, pod(&format!("u{n}")));
            next = count.watch(0, at(1000 * (n as u64 + 1))).unwrap().1;
        }
        assert_eq!(next, Next::Over(DISK));
        assert_eq!(count.begin(DISK, uids, at(9000)), Next::Over(DISK));
        assert_eq!(count.begin(Signal::ImageFs, pods(&["u0"]), at(9000)), pod("u0"));
    }

    /// Regression: ten pods whose trees took two minutes each made every eviction twenty minutes late.
    #[test]
    fn slow_pods_hold_no_eviction_up() {
        let seconds = Duration::from_secs;
        assert_eq!(patience(seconds(0), 1, None), limits::DISK_USE_PATIENCE);
        assert_eq!(patience(seconds(0), 18, None), seconds(10));
        assert_eq!(patience(seconds(300), 18, None), limits::COUNT_LEAST);
        let whole = Some(Took { is_cut: false, time: seconds(40) });
        assert_eq!(patience(seconds(10), 17, whole), seconds(80));
        assert_eq!(patience(seconds(10), 17, Some(Took { is_cut: true, time: seconds(40) })), seconds(10));
        assert_eq!(patience(seconds(180), 17, whole), limits::COUNT_LEAST);
        // All of a hundred pods use their whole time.
        let all = |before| {
            (0..100).rev().fold(Duration::ZERO, |spent, left| spent + patience(spent, left + 1, before))
        };
        assert!(all(None) <= seconds(180 + 200) && all(whole) <= seconds(180 + 80 + 200));
        let mut order = [
            Took { is_cut: true, time: seconds(1) },
            Took::UNKNOWN,
            Took { is_cut: false, time: seconds(1) },
        ];
        order.sort();
        assert_eq!(order.map(|it| (it.is_cut, it.time.as_secs())), [(false, 1), (false, 3), (true, 1)]);
    }
}
