//! The stop of pods: TERM, the grace period, KILL; and no other pod waits for it.

use crate::harness::history::History;
use crate::harness::pods::{IGNORES_TERM, OBEYS, Pod, container, free_port};
use crate::harness::{Container, Node};

const SECOND: i64 = 1_000_000_000;

#[test]
fn k97722_a_container_that_ignores_term_is_killed_after_its_grace_and_then_succeeded() {
    let node = Node::start();
    let history = History::of(&node);
    let port = free_port();
    let pod = Pod::new("web").script(IGNORES_TERM).grace(3).host_port(port);
    node.write("web.yaml", pod.text());
    let old = node.wait_running("web", "app");
    node.wait_until("it ignores TERM already", || node.says(&["logs", "web"]) == "started\n");
    node.write("web.yaml", pod.set("/metadata/labels/edition", "2").text());
    node.wait_until("it is asked to end", || !history.times(&node.full("web"), "app", "kill").is_empty());
    // Another pod does not wait for it.
    node.write("other.yaml", Pod::new("other").text());
    node.wait_running("other", "app");
    node.wait_until("the new set runs", || node.running("web", "app").iter().any(|c| c.uid != old.uid));

    history.check_one_set_at_a_time();
    let full = node.full("web");
    // TERM and KILL as Docker reports them: the time that the process then takes to end depends on the
    // machine.
    let signals = history.times(&full, "app", "kill");
    let died = history.times(&full, "app", "die")[0];
    let next = history.times(&full, "POD", "start")[1];
    let other = history.times(&node.full("other"), "app", "start")[0];
    let between = signals[1] - signals[0];
    assert!((2 * SECOND..=4 * SECOND).contains(&between), "{between} ns of grace");
    assert!(died <= next, "its successor started before it was dead");
    assert!(other < died, "another pod was delayed");
}

#[test]
fn k97722_a_removed_pod_that_ignores_term_is_gone_after_its_grace() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").script(IGNORES_TERM).grace(2).text());
    node.wait_until("it ignores TERM already", || {
        node.phase("web") == "Running" && node.says(&["logs", "web"]) == "started\n"
    });
    node.remove("web.yaml");
    node.wait_until("it is shown as being stopped", || {
        node.pod("web").is_some_and(|p| p.metadata.deletion_timestamp.is_some())
    });
    assert!(node.says(&["get", "pods"]).contains("Terminating"));
    node.wait_until("nothing is left", || node.containers().is_empty());
    let full = node.full("web");
    let signals = history.times(&full, "app", "kill");
    let between = signals[1] - signals[0];
    assert!((SECOND..=4 * SECOND).contains(&between), "{between} ns of grace");
}

#[test]
fn a_grace_of_nought_kills_at_once() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").script(IGNORES_TERM).grace(0).text());
    node.wait_until("it ignores TERM already", || {
        node.phase("web") == "Running" && node.says(&["logs", "web"]) == "started\n"
    });
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    node.remove("web.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
    let died = history.times(&node.full("web"), "app", "die")[0];
    // Far from the 30 seconds of the default.
    assert!(died - i64::try_from(now.as_nanos()).unwrap() <= 10 * SECOND);
}

#[test]
fn a_stop_outlives_the_daemon_that_began_it() {
    let node = Node::start();
    node.write("web.yaml", Pod::new("web").script(IGNORES_TERM).grace(3).text());
    node.wait_until("it ignores TERM already", || {
        node.phase("web") == "Running" && node.says(&["logs", "web"]) == "started\n"
    });
    let history = History::of(&node);
    node.remove("web.yaml");
    node.wait_until("it is asked to end", || !history.times(&node.full("web"), "app", "kill").is_empty());
    node.kill9();
    node.launch();
    node.wait_until("nothing is left", || node.containers().is_empty());
}

/// podkeeper was killed as its signal reached Docker, before the status file said so: the job counted as completed.
#[test]
fn a_job_that_was_signalled_a_moment_before_the_daemon_is_killed_runs_again() {
    let node = Node::start();
    let script = "trap 'exit 0' TERM; echo started; while :; do sleep 1 & wait $!; done";
    // Signalled as for a failed probe, which no test could time so well.
    node.write("job.yaml", Pod::new("job").restart_policy("OnFailure").script(script).text());
    let job = node.wait_running("job", "app");
    node.wait_until("its trap is set", || node.says(&["logs", "job"]) == "started\n");
    node.kill9();
    let signalled = node.run_dir().join("signalled");
    std::fs::create_dir_all(&signalled).unwrap();
    std::fs::write(signalled.join(&job.id), "").unwrap();
    node.kill_container(&job.id, "TERM");
    node.wait_until("it has ended", || node.running("job", "app").is_empty());
    node.launch();
    node.wait_until("it runs again", || node.running("job", "app").iter().any(|c| c.attempt == 1));
    // What is removed is forgotten.
    node.remove("job.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
    assert_eq!(std::fs::read_dir(&signalled).unwrap().count(), 0);
}

#[test]
fn containers_of_one_pod_are_stopped_together() {
    let node = Node::start();
    let history = History::of(&node);
    let pod = Pod::new("web").script(IGNORES_TERM).grace(2).and(container("other", IGNORES_TERM));
    node.write("web.yaml", pod.and(container("third", OBEYS)).text());
    node.wait_until("both ignore TERM already", || {
        node.phase("web") == "Running"
            && ["app", "other", "third"].iter().all(|c| node.says(&["logs", "web", "-c", c]) == "started\n")
    });
    node.remove("web.yaml");
    node.wait_until("nothing is left", || node.containers().is_empty());
    let full = node.full("web");
    let nth = |c: &str, n: usize| history.times(&full, c, "kill")[n];
    let (terms, kills) = (["app", "other", "third"].map(|c| nth(c, 0)), ["app", "other"].map(|c| nth(c, 1)));
    let spread = |times: &[i64]| times.iter().max().unwrap() - times.iter().min().unwrap();
    // One after the other, each would use its own grace period.
    assert!(spread(&terms) < 2 * SECOND && spread(&kills) < 2 * SECOND, "{terms:?} {kills:?}");
}

#[test]
fn the_sandbox_ends_after_its_containers() {
    let node = Node::start();
    let history = History::of(&node);
    node.write("web.yaml", Pod::new("web").text());
    node.wait_phase("web", "Running");
    node.remove("web.yaml");
    node.wait_until("nothing is left", || !node.of("web").iter().any(Container::runs));
    let full = node.full("web");
    let ends = || ["app", "POD"].map(|name| history.times(&full, name, "die").first().copied());
    node.wait_until("both ends are heard of", || ends().iter().all(Option::is_some));
    let [app, sandbox] = ends();
    assert!(app <= sandbox, "{app:?} {sandbox:?}");
}
