//! Events that are lost, late, swapped or never come (docker-archive/classicswarm#2309): they are hints, and
//! the list is the truth.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::faults::{Faulty, assert_single};
use crate::harness::Node;
use crate::harness::pods::Pod;
use crate::harness::proxy::{EventFault, Verdict};

/// A node whose event stream has this fault from the start; it is listed again every second, where nothing
/// else would reveal that something happened.
fn with_fault(fault: EventFault) -> Faulty {
    let faulty = Faulty::prepare(&["--sync-frequency", "1s"]);
    faulty.proxy.rule(move |r| r.is_events().then_some(Verdict::Events(fault)));
    faulty.launch();
    faulty
}

fn run_and_die_and_go(node: &Node) {
    for name in ["p", "q"] {
        node.write(&format!("{name}.yaml"), Pod::new(name).text());
    }
    for name in ["p", "q"] {
        let first = node.wait_running(name, "app");
        node.wait_phase(name, "Running");
        node.kill_container(&first.id, "KILL");
        node.wait_until("a killed container is replaced", || {
            assert_single(node, name);
            node.running(name, "app").iter().any(|c| c.attempt == 1)
        });
        node.wait_until("the status knows it", || {
            node.container_status(name, "app")
                .is_some_and(|c| c.restart_count == 1 && c.state.is_some_and(|s| s.running.is_some()))
        });
    }
    node.remove("p.yaml");
    node.wait_until("a removed pod is gone", || node.of("p").is_empty() && node.pod("p").is_none());
    assert_eq!(node.of("q").iter().filter(|c| c.runs()).count(), 2);
}

#[test]
fn k2309_every_third_event_is_lost() {
    run_and_die_and_go(&with_fault(EventFault::LoseEveryThird).node);
}

#[test]
fn k2309_events_change_places() {
    run_and_die_and_go(&with_fault(EventFault::Swap).node);
}

#[test]
fn k2309_a_stream_that_is_silent() {
    run_and_die_and_go(&with_fault(EventFault::Silent).node);
}

/// Every stream ends in the middle of its second line, and the daemon keeps reconnecting.
#[test]
fn k2309_streams_cut_in_the_middle_of_a_line() {
    let faulty = with_fault(EventFault::CutAfter(1));
    run_and_die_and_go(&faulty.node);
    faulty.proxy.wait_for("GET", "/events", 2);
}

/// The connection dies with the container: after the next list the daemon has noticed, long before its
/// safety net.
#[test]
fn k2309_a_death_while_nobody_listens() {
    let faulty = Faulty::start(&[]);
    let node = &faulty.node;
    node.write("p.yaml", Pod::new("p").text());
    let app = node.wait_running("p", "app");
    node.wait_phase("p", "Running");
    let refused = AtomicUsize::new(0);
    faulty.proxy.rule(move |r| {
        let held = r.is_events() && refused.fetch_add(1, Ordering::Relaxed) == 0;
        held.then(|| Verdict::Answer(500, "not now".to_owned()))
    });
    faulty.proxy.break_all();
    node.kill_container(&app.id, "KILL");
    let begun = Instant::now();
    node.wait_until("it is replaced", || node.running("p", "app").iter().any(|c| c.attempt == 1));
    assert!(
        begun.elapsed().as_secs() < 50,
        "only the safety net (1 min) found it\n{}\n{:#?}",
        node.picture(),
        faulty.proxy.log()
    );
}
