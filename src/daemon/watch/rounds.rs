//! When the watch looks, which threads hang, and the messages for the service manager: pure.
//!
//! Never here: the clock; a socket.

use std::time::Duration;

use crate::base::limits;
use crate::base::pace::Pace;
use crate::base::pulse::Busy;
use crate::base::table::Table;
use crate::status::task::Task;

/// The service's own report of its state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) ready: bool,
    pub(super) status: String,
}

/// The actions after one look.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Datagrams for the service manager.
    pub(super) tell: Vec<String>,
    /// Threads that hang, if the set has changed.
    pub(super) stuck: Option<Vec<Task>>,
    /// Lines for the log.
    pub(super) log: Vec<String>,
}

/// The state between looks. Times are measured from the watch's start.
#[derive(Debug)]
pub(super) struct Rounds {
    /// Half of the watchdog's period.
    half: Option<Duration>,
    listens: bool,
    /// The next look at the threads.
    look: Duration,
    /// Without a watchdog, the interval grows while all threads are at rest: a thread at rest cannot hang.
    pace: Pace,
    /// Threads that were busy at the last look, and since when.
    before: Table<Task, Duration>,
    /// Threads that hang, and since when, as logged.
    hung: Table<Task, Duration>,
    /// The hanging threads that the main loop was told; `None`: it did not get the latest set.
    told: Option<Vec<Task>>,
    ready: bool,
    status: Option<(Duration, String)>,
}

impl Rounds {
    /// `watchdog`: how often the manager wants a sign of life; `listens`: there is a manager.
    pub(super) fn new(watchdog: Option<Duration>, listens: bool) -> Rounds {
        let half = watchdog.map(|period| (period / 2).max(limits::PERIOD_MIN));
        Rounds {
            half,
            listens,
            look: Duration::ZERO,
            pace: Pace::new(limits::WATCH_LOOK),
            before: Table::new(),
            hung: Table::new(),
            told: Some(Vec::new()),
            ready: false,
            status: None,
        }
    }

    /// The actions at this time. `busy` is called when the threads have to be looked at.
    pub(super) fn step(
        &mut self,
        now: Duration,
        seen: &Seen,
        busy: impl FnOnce() -> Vec<Busy<Task>>,
    ) -> Step {
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
        // The node must boot, even if its disks or its Docker do not work.
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
    fn threads(&mut self, busy: Vec<Busy<Task>>, step: &mut Step) -> bool {
        // A thread must have the same work at two looks: so a stop of the whole process makes no thread look hung.
        let (mut hung, mut now, mut main) = (Table::new(), Table::new(), true);
        for Busy { task, since, age } in busy {
            if self.before.get(&task) == Some(&since) {
                let is_main = task == Task::MainLoop;
                main &= !is_main;
                if age >= limits::STUCK || self.half.is_some() && is_main {
                    if self.hung.get(&task) != Some(&since) {
                        step.log.push(words(&task, age, self.half.is_some()));
                    }
                    hung.insert(task.clone(), since);
                }
            }
            now.insert(task, since);
        }
        for task in self.hung.keys().filter(|task| !hung.contains_key(*task)) {
            step.log.push(format!("{task} works again"));
        }
        (self.before, self.hung) = (now, hung);
        let tasks: Vec<Task> = self.hung.keys().cloned().collect();
        if self.told.as_ref() != Some(&tasks) {
            self.told = Some(tasks.clone());
            step.stuck = Some(tasks);
        }
        main
    }

    /// The main loop could not be told the hanging threads.
    pub(super) fn untold(&mut self) {
        self.told = None;
    }

    /// When to look again, if the state does not change.
    pub(super) fn due(&self) -> Duration {
        if self.listens && !self.ready { self.look.min(limits::READY_PATIENCE) } else { self.look }
    }

    /// When to look again, if a new state has to be told.
    pub(super) fn status_due(&self) -> Duration {
        let due =
            self.status.as_ref().map_or(Duration::ZERO, |(at, _)| at.saturating_add(limits::NOTIFY_STATUS));
        if self.listens { self.due().min(due) } else { self.due() }
    }
}

fn words(task: &Task, age: Duration, watched: bool) -> String {
    let then = match task {
        Task::MainLoop if watched => {
            "systemd's watchdog ends podkeeper, and it is started again; the pods run on"
        }
        Task::MainLoop => "the pods run on, and nothing is started or stopped until it goes on",
        _ => "what depends on it waits, everything else goes on; a disk may not answer",
    };
    format!("{task} has not moved for {} s: {then}", age.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pod::PodKey;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod() -> Task {
        Task::Pod(PodKey { namespace: "a".to_owned(), name: "b".to_owned() })
    }

    fn busy(task: Task, since: u32, age: u32) -> Busy<Task> {
        Busy { task, since: SECOND * since, age: SECOND * age }
    }

    fn seen(ready: bool, status: &str) -> Seen {
        Seen { ready, status: status.to_owned() }
    }

    #[test]
    fn a_thread_hangs_when_two_looks_find_it_at_the_same_work_for_too_long() {
        let mut rounds = Rounds::new(None, false);
        let mut look = |n: u32, busy: Vec<Busy<Task>>| {
            let step = rounds.step(limits::WATCH_LOOK * n, &Seen::default(), || busy);
            assert!(step.tell.is_empty(), "nobody listens");
            (step.stuck, step.log.len())
        };
        let long = u32::try_from(limits::STUCK.as_secs()).unwrap();
        let none = (None, 0);
        assert_eq!(look(0, vec![busy(pod(), 5, 1)]), none);
        assert_eq!(look(1, vec![busy(pod(), 5, long - 1)]), none, "not for long enough");
        assert_eq!(look(2, vec![busy(pod(), 7, long)]), none, "another piece of work");
        assert_eq!(look(3, vec![busy(pod(), 7, long)]), (Some(vec![pod()]), 1));
        assert_eq!(look(4, vec![busy(pod(), 7, 2 * long)]), none, "it is told once");
        assert_eq!(look(5, vec![]), (Some(vec![]), 1), "it works again");
        // While no thread works, the next look comes later.
        assert_eq!(look(7, vec![busy(pod(), 9, 2 * long)]), none);
        assert_eq!(rounds.due(), limits::WATCH_LOOK * 8);
    }

    #[test]
    fn the_process_was_stopped_and_no_thread_hangs() {
        let mut rounds = Rounds::new(Some(SECOND * 90), true);
        let mut look = |at: u32, since: u32| {
            let step =
                rounds.step(SECOND * at, &seen(true, ""), || vec![busy(Task::MainLoop, since, at - since)]);
            (step.stuck, step.tell)
        };
        let fed = vec!["WATCHDOG=1".to_owned()];
        assert_eq!(look(0, 0), (None, vec!["WATCHDOG=1".to_owned(), "READY=1".to_owned()]));
        // The process was stopped during its work, for 80 seconds.
        assert_eq!(look(85, 5), (None, fed.clone()));
        assert_eq!(look(130, 129), (None, fed));
    }

    #[test]
    fn the_watchdog_is_fed_while_the_main_loop_moves_and_for_no_pod() {
        let mut rounds = Rounds::new(Some(SECOND * 4), true);
        let mut look = |at: u32, busy: Vec<Busy<Task>>| {
            let step = rounds.step(SECOND * at, &seen(false, ""), || busy);
            (step.tell, step.stuck)
        };
        let fed = vec!["WATCHDOG=1".to_owned()];
        let hung = || busy(pod(), 0, 500);
        assert_eq!(look(0, vec![hung()]), (fed.clone(), None));
        assert_eq!(look(1, vec![]), (vec![], None), "too early");
        assert_eq!(look(2, vec![hung(), busy(Task::MainLoop, 1, 1)]), (fed, Some(vec![pod()])));
        let both = vec![Task::MainLoop, pod()];
        assert_eq!(look(4, vec![hung(), busy(Task::MainLoop, 1, 3)]), (vec![], Some(both)), "it hangs");
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
