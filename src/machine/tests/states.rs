//! Tests of the state table, for every state and trigger. A golden file pins it, and the man page has it.

use std::sync::Arc;

use super::rig::{app, pod_with};
use crate::base::table::Set;
use crate::machine::{State, StopOrder, Trigger};

const OLD: &str = "old";

fn states() -> Vec<State> {
    let old = pod_with(OLD, "{containers: [{name: app}]}");
    let order = StopOrder::new(Some(30), "its manifest is gone");
    let terminating = |then| State::Terminating { last: Some(Arc::clone(&old)), order: order.clone(), then };
    vec![
        State::New,
        State::Syncing(Arc::clone(&old)),
        terminating(None),
        terminating(Some(app())),
        State::Terminated,
    ]
}

fn triggers() -> Vec<(&'static str, Trigger)> {
    let pod = |uid| pod_with(uid, "{containers: [{name: app}]}");
    vec![
        ("run, same UID", Trigger::Run(pod(OLD))),
        ("run, other UID", Trigger::Run(pod("new"))),
        ("stop", Trigger::Stop(StopOrder::new(None, "its manifest is gone"))),
        ("stop within 5 s", Trigger::Stop(StopOrder::new(Some(5), "its manifest is gone"))),
        ("stop within 90 s", Trigger::Stop(StopOrder::new(Some(90), "its manifest is gone"))),
        ("other UID found", Trigger::OtherUid),
        ("all dead", Trigger::AllDead),
        ("had ended", Trigger::HadEnded),
    ]
}

fn words(state: &State) -> String {
    let uid =
        |pod: &Option<Arc<crate::pod::DesiredPod>>| pod.as_ref().map_or("-".to_owned(), |p| p.uid.clone());
    match state {
        State::Syncing(pod) => format!("Syncing({})", pod.uid),
        State::Terminating { last, order, then } => {
            let grace = order.grace.map_or("own".to_owned(), |g| format!("{g} s"));
            format!("Terminating(last {}, grace {grace}, then {})", uid(last), uid(then))
        }
        State::New => "New".to_owned(),
        State::Terminated => "Terminated".to_owned(),
    }
}

/// The state's name in the man page.
fn name(state: &State) -> &'static str {
    match state {
        State::Syncing(_) => "Syncing",
        State::Terminating { then: None, .. } => "Terminating",
        State::Terminating { .. } => "Terminating, wanted",
        State::New => "New",
        State::Terminated => "Terminated",
    }
}

#[test]
fn the_table_is_total_and_pinned() {
    let mut table = String::new();
    for state in states() {
        table += &format!("{}\n", words(&state));
        for (what, trigger) in triggers() {
            table += &format!("    {what:<18} {}\n", words(&state.clone().next(trigger)));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/machine/states.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(std::path::Path::new(path).parent().unwrap()).unwrap();
        std::fs::write(path, &table).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), table, "UPDATE=1 rewrites {path}");
}

/// The man page's words for a trigger in this state.
fn page_words(state: &State, what: &str) -> &'static str {
    let running = matches!(state, State::Syncing(_));
    let wanted = matches!(state, State::Terminating { then: Some(_), .. });
    match what {
        "run, same UID" if running => "wanted, or changed",
        "run, other UID" if running => "wanted with other UID",
        "run, same UID" | "run, other UID" if wanted => "wanted, or changed",
        "run, same UID" | "run, other UID" => "wanted",
        "other UID found" => "containers of other UID",
        "all dead" => "all dead",
        "had ended" => "had ended before",
        _ if *state == State::New => "not wanted",
        _ => "no longer wanted",
    }
}

/// The man page's table matches the code: each row of it, and each change of state.
#[test]
fn the_man_page_has_the_same_table() {
    let page = include_str!("../../../man/podkeeper.8");
    let start = page.find(".Ss What becomes of a pod").unwrap();
    let part = page.get(start..).unwrap();
    let part = part.get(..part.find("\n.El").unwrap()).unwrap();
    let mut rows = Set::new();
    let mut current = "";
    for row in part.lines().filter_map(|line| line.strip_prefix(".It ")).filter(|r| !r.starts_with("Sy ")) {
        let cells: Vec<&str> = match row.strip_prefix("Ta ") {
            Some(rest) => std::iter::once(current).chain(rest.split(" Ta ")).collect(),
            None => row.split(" Ta ").collect(),
        };
        let [state, what, next] = cells[..] else { panic!("{row}") };
        current = state;
        assert!(rows.insert((state, what, next)), "twice: {row}");
    }
    let mut expected = Set::new();
    for state in states() {
        for (what, trigger) in triggers() {
            let next = state.clone().next(trigger);
            let still = name(&next) == name(&state);
            // The page leaves out rows in which nothing happens, except for a wish.
            if still && matches!(what, "other UID found" | "all dead" | "had ended") {
                continue;
            }
            expected.insert((name(&state), page_words(&state, what), name(&next)));
        }
    }
    assert_eq!(rows, expected);
}

#[test]
fn a_grace_is_never_lengthened() {
    let graces = [None, Some(1), Some(30), Some(90)];
    for first in graces {
        for second in graces {
            let order = |grace| StopOrder::new(grace, "x");
            let state = State::Syncing(app()).next(Trigger::Stop(order(first)));
            let State::Terminating { order, .. } = state.next(Trigger::Stop(order(second))) else { panic!() };
            let shortest = [first, second].into_iter().flatten().min();
            assert_eq!(order.grace, shortest, "{first:?} {second:?}");
        }
    }
}
