//! When the watch looks, which threads hang, and what the service manager is told: pure.
//!
//! Never here: the clock; a socket.

use std::collections::BTreeMap;
use std::time::Duration;

use super::MAIN;
use crate::base::limits;
use crate::base::pace::Pace;
use crate::base::pulse::Busy;

/// How the service says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) ready: bool,
    pub(super) status: String,
}

/// What is to be done after one look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Datagrams for the service manager.
    pub(super) tell: Vec<String>,
    /// Threads that hang, if they are others than before.
    pub(super) stuck: Option<Vec<String>>,
    /// Lines for the log.
    pub(super) log: Vec<String>,
}

/// The state between looks. Times are since the watch began.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Half of the watchdog's period.
    half: Option<Duration>,
    listens: bool,
    /// The next look at the threads.
    look: Duration,
    /// Without a watchdog: nobody hangs where nobody works, so a look that finds all at rest is followed by a later one.
    pace: Pace,
    /// What was busy at the last look: name and since when.
    before: BTreeMap<String, Duration>,
    /// Threads that hang, and since when, as they were logged.
    hung: BTreeMap<String, Duration>,
    /// That they do, as the main loop was told.
    told: Vec<String>,
    ready: bool,
    status: Option<(Duration, String)>,
}

impl Rounds {
    /// `watchdog`: how often the manager wants to hear of the service; `listens`: there is a manager.
    pub(super) fn new(watchdog: Option<Duration>, listens: bool) -> Rounds {
        let half = watchdog.map(|period| (period / 2).max(limits::PERIOD_MIN));
        Rounds {
            half,
            listens,
            look: Duration::ZERO,
            pace: Pace::new(limits::WATCH_LOOK),
            before: BTreeMap::new(),
            hung: BTreeMap::new(),
            told: Vec::new(),
            ready: false,
            status: None,
        }
    }

    /// What is to be done at this time. `busy` is asked when the threads are to be looked at.
    pub(super) fn step(&mut self, now: Duration, seen: &Seen, busy: impl FnOnce() -> Vec<Busy>) -> Step {
        let mut step = Step::default();
        if now >= self.look {
            let busy = busy();
            let next = self.pace.next(busy.is_empty());
            self.look = now.saturating_add(self.half.unwrap_or(next));
            let well = self.threads(busy, &mut step);
            if well && self.half.is_some() {
                step.tell.push("WATCHDOG=1".to_owned());
            }
        }
        if !self.listens {
            return step;
        }
        // A node must boot, whatever its disks and its Docker do.
        if !self.ready && (seen.ready || now >= limits::READY_PATIENCE) {
            self.ready = true;
            step.tell.push("READY=1".to_owned());
        }
        let due = self.status.as_ref().is_none_or(|(at, _)| now >= at.saturating_add(limits::NOTIFY_STATUS));
        let news = self.status.as_ref().is_none_or(|(_, told)| *told != seen.status);
        if due && news && !seen.status.is_empty() {
            self.status = Some((now, seen.status.clone()));
            step.tell.push(format!("STATUS={}", seen.status));
        }
        step
    }

    /// Compares with the last look. Returns whether the main loop is well.
    fn threads(&mut self, busy: Vec<Busy>, step: &mut Step) -> bool {
        // With the same piece of work at two looks: a stop of the whole process makes no thread look hung.
        let (mut hung, mut now, mut main) = (BTreeMap::new(), BTreeMap::new(), true);
        for Busy { name, since, age } in busy {
            if self.before.get(&name) == Some(&since) {
                main &= name != MAIN;
                if age >= limits::STUCK || self.half.is_some() && name == MAIN {
                    if self.hung.get(&name) != Some(&since) {
                        step.log.push(words(&name, age, self.half.is_some()));
                    }
                    hung.insert(name.clone(), since);
                }
            }
            now.insert(name, since);
        }
        for name in self.hung.keys().filter(|name| !hung.contains_key(*name)) {
            step.log.push(format!("{name} works again"));
        }
        (self.before, self.hung) = (now, hung);
        let names: Vec<String> = self.hung.keys().cloned().collect();
        if names != self.told {
            self.told.clone_from(&names);
            step.stuck = Some(names);
        }
        main
    }

    /// The main loop could not be told which threads hang.
    pub(super) fn untold(&mut self) {
        self.told = vec![String::new()];
    }

    /// When to go on, while the state stays as it is.
    pub(super) fn due(&self) -> Duration {
        if self.listens && !self.ready { self.look.min(limits::READY_PATIENCE) } else { self.look }
    }

    /// When to go on, when there is another state to be told.
    pub(super) fn status_due(&self) -> Duration {
        let due =
            self.status.as_ref().map_or(Duration::ZERO, |(at, _)| at.saturating_add(limits::NOTIFY_STATUS));
        if self.listens { self.due().min(due) } else { self.due() }
    }
}

fn words(name: &str, age: Duration, watched: bool) -> String {
    let then = match name {
        MAIN if watched => "systemd's watchdog ends podkeeper, and it is started again; the pods run on",
        MAIN => "the pods run on, and nothing is started or stopped until it goes on",
        _ => "what depends on it waits, everything else goes on; a disk may not answer",
    };
    format!("{name} has not moved for {} s: {then}", age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn busy(name: &str, since: u32, age: u32) -> Busy {
        Busy { name: name.to_owned(), since: SECOND * since, age: SECOND * age }
    }

    fn seen(ready: bool, status: &str) -> Seen {
        Seen { ready, status: status.to_owned() }
    }

    #[test]
    fn a_thread_hangs_when_two_looks_find_it_at_the_same_work_for_too_long() {
        let mut rounds = Rounds::new(None, false);
        let mut look = |n: u32, busy: Vec<Busy>| {
            let step = rounds.step(limits::WATCH_LOOK * n, &Seen::default(), || busy);
            assert!(step.tell.is_empty(), "nobody listens");
            (step.stuck, step.log.len())
        };
        let long = u32::try_from(limits::STUCK.as_secs()).unwrap();
        let none = (None, 0);
        assert_eq!(look(0, vec![busy("pod a/b", 5, 1)]), none);
        assert_eq!(look(1, vec![busy("pod a/b", 5, long - 1)]), none, "not for long enough");
        assert_eq!(look(2, vec![busy("pod a/b", 7, long)]), none, "another piece of work");
        assert_eq!(look(3, vec![busy("pod a/b", 7, long)]), (Some(vec!["pod a/b".to_owned()]), 1));
        assert_eq!(look(4, vec![busy("pod a/b", 7, 2 * long)]), none, "it is told once");
        assert_eq!(look(5, vec![]), (Some(vec![]), 1), "it works again");
        // Where nobody works, the next look comes later.
        assert_eq!(look(7, vec![busy("pod a/b", 9, 2 * long)]), none);
        assert_eq!(rounds.due(), limits::WATCH_LOOK * 8);
    }

    #[test]
    fn the_process_was_stopped_and_no_thread_hangs() {
        let mut rounds = Rounds::new(Some(SECOND * 90), true);
        let mut look = |at: u32, since: u32| {
            let step = rounds.step(SECOND * at, &seen(true, ""), || vec![busy(MAIN, since, at - since)]);
            (step.stuck, step.tell)
        };
        let fed = vec!["WATCHDOG=1".to_owned()];
        assert_eq!(look(0, 0), (None, vec!["WATCHDOG=1".to_owned(), "READY=1".to_owned()]));
        // Stopped in the middle of its work, for 80 seconds.
        assert_eq!(look(85, 5), (None, fed.clone()));
        assert_eq!(look(130, 129), (None, fed));
    }

    #[test]
    fn the_watchdog_is_fed_while_the_main_loop_moves_and_for_no_pod() {
        let mut rounds = Rounds::new(Some(SECOND * 4), true);
        let mut look = |at: u32, busy: Vec<Busy>| {
            let step = rounds.step(SECOND * at, &seen(false, ""), || busy);
            (step.tell, step.stuck)
        };
        let fed = vec!["WATCHDOG=1".to_owned()];
        let pod = || busy("pod a/b", 0, 500);
        assert_eq!(look(0, vec![pod()]), (fed.clone(), None));
        assert_eq!(look(1, vec![]), (vec![], None), "too early");
        assert_eq!(look(2, vec![pod(), busy(MAIN, 1, 1)]), (fed, Some(vec!["pod a/b".to_owned()])));
        let both = vec!["pod a/b".to_owned(), MAIN.to_owned()];
        assert_eq!(look(4, vec![pod(), busy(MAIN, 1, 3)]), (vec![], Some(both)), "it hangs");
        assert_eq!(rounds.due(), SECOND * 6);
    }

    #[test]
    fn the_state_is_told_when_it_changes_and_rarely() {
        let mut rounds = Rounds::new(None, true);
        let mut told = |millis: u32, ready: bool, status: &str| {
            rounds.step(Duration::from_millis(millis.into()), &seen(ready, status), Vec::new).tell.join(" ")
        };
        let rare = u32::try_from(limits::NOTIFY_STATUS.as_millis()).unwrap();
        assert_eq!(told(0, false, ""), "");
        assert_eq!(told(1, false, "1 pod"), "STATUS=1 pod");
        assert_eq!(told(2, true, "2 pods"), "READY=1");
        assert_eq!(told(rare, true, "2 pods"), "");
        assert_eq!(told(rare + 1, true, "2 pods"), "STATUS=2 pods");
        assert_eq!(told(9 * rare, true, "2 pods"), "");
        assert_eq!(
            rounds.status_due(),
            (Duration::from_millis(u64::from(rare + 1)) + limits::NOTIFY_STATUS).min(rounds.due())
        );
    }

    #[test]
    fn a_node_boots_whatever_its_docker_does() {
        let mut rounds = Rounds::new(None, true);
        assert_eq!(rounds.step(Duration::ZERO, &seen(false, ""), Vec::new).tell, Vec::<String>::new());
        assert_eq!(rounds.due(), limits::READY_PATIENCE);
        assert_eq!(rounds.step(limits::READY_PATIENCE, &seen(false, ""), Vec::new).tell, ["READY=1"]);
    }
}
