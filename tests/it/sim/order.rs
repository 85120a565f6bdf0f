//! The order of pods: a node that is drained and resumed, and pods that wait for others.

use std::time::Duration;

use podkeeper::testing::base::clock::{Mono, Timestamp};
use podkeeper::testing::daemon::drain::Drain;
use podkeeper::testing::runtime::fake::FaultPlan;

use super::world::World;
use super::{seconds, seeds};

/// A pod's manifest with these further lines of metadata and of spec.
fn manifest(name: &str, metadata: &str, spec: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}spec:\n  terminationGracePeriodSeconds: 3\n{spec}  \
         containers:\n  - name: app\n    image: {image}\n    imagePullPolicy: IfNotPresent\n    command: [sleep, '100000000']\n"
    )
}

impl World {
    fn let_pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        self.run_until(until);
    }

    fn drain(&mut self, grace: Option<u32>) {
        let since = Timestamp::from_nanosecond(i128::from(self.below(1 << 60))).unwrap();
        self.marker(Some(Drain { since, grace, within: None, boot: None }));
    }

    fn has_run(&self, name: &str) -> bool {
        let begin = format!("k8s_app_{name}-");
        self.engine.containers().any(|c| c.name.starts_with(&begin) && c.starts > 0)
    }

    fn after(&mut self, name: &str, on: &str, image: &str) {
        let notes =
            format!("  annotations: {{podkeeper.dev/after: '{on}', podkeeper.dev/after-timeout: 2m}}\n");
        let notes = if on.is_empty() { "" } else { &notes };
        // An image that does not exist is never pulled.
        let text = manifest(name, notes, "", image).replace("IfNotPresent", "Never");
        self.files.insert(format!("/m/{name}.yaml"), text);
    }
}

/// Lowest priority first, and a group begins only when no pod of the group before runs.
#[test]
fn a_drain_goes_by_priority() {
    seeds(60, |w| {
        for n in 0..6u64 {
            let spec = format!("  priority: {}\n", n % 3 * 10);
            w.files.insert(format!("/m/{n}.yaml"), manifest(&format!("pod{n}"), "", &spec, "busybox:static"));
        }
        w.start_daemon();
        w.let_pass(seconds(30));
        w.check_at_rest();
        w.drain((w.seed % 2 == 0).then_some(2));
        w.let_pass(seconds(60));
        assert!(w.running().is_empty(), "{:?}", w.running());
        let group = |name: &str| {
            let number = name.split("_pod").nth(1).and_then(|rest| rest.chars().next()).unwrap();
            number.to_digit(10).unwrap() % 3
        };
        let groups: Vec<u32> = w.record.kills.iter().map(|(_, name, _)| group(name)).collect();
        assert!(groups.len() >= 12 && groups.is_sorted(), "{:?}", w.record.kills);
        w.marker(None);
        w.let_pass(seconds(60));
        w.check_at_rest();
    });
}

/// Drained and resumed in the middle of everything; then drained for good: none of podkeeper's pods runs,
/// whatever happens to the daemon; then resumed: exactly the pods in the files run.
#[test]
fn drains_under_churn() {
    seeds(100, |w| {
        let chaos = Mono(seconds(60));
        let chance = [0, 50, 200][usize::try_from(w.seed % 3).unwrap()];
        w.engine.faults = FaultPlan::all(w.seed, chance, chaos);
        let foreign = w.plant_foreign();
        w.some_files(1 + w.seed % 6);
        w.start_daemon();
        while w.now < chaos {
            let pause = Duration::from_millis(w.below(4000));
            w.let_pass(pause);
            match w.below(4) {
                0 => w.drain(None),
                1 => w.marker(None),
                _ => w.mischief(),
            }
        }
        w.end_of_mischief();
        w.drain(None);
        w.let_pass(seconds(1500));
        assert!(w.running().is_empty(), "{:?}", w.running());
        let apps = w.record.counts.apps;
        for _ in 0..3 {
            w.kill_daemon();
            w.start_daemon();
            w.let_pass(seconds(100));
        }
        assert!(w.running().is_empty(), "{:?}", w.running());
        assert_eq!(w.record.counts.apps, apps, "something was made on a drained node");
        w.check_foreign(&foreign);
        w.marker(None);
        w.let_pass(seconds(600));
        w.check_at_rest();
    });
}

/// The order holds at boot; a pod that cannot start delays those behind it once, and the wait survives
/// the daemon's death; nothing is ever stopped for it.
#[test]
fn k10859_pods_start_in_order_and_a_dead_end_ends() {
    seeds(60, |w| {
        w.after("a", "", "busybox:static");
        w.after("b", "a=ready", "busybox:static");
        w.after("c", "b,a", "busybox:static");
        w.after("never", "", "not-there:1");
        w.after("x", "never", "busybox:static");
        // A cycle: the second of the two by name is refused.
        w.after("y", "z", "busybox:static");
        w.after("z", "y", "busybox:static");
        w.start_daemon();
        let restart = Mono(Duration::from_millis(w.below(100_000)));
        while w.now < Mono(seconds(110)) {
            w.let_pass(Duration::from_millis(50));
            for (late, early) in [("b", "a"), ("c", "b")] {
                assert!(!w.has_run(late) || w.has_run(early), "{late} before {early}");
            }
            if w.seed % 2 == 0 && w.generation() == 1 && w.now > restart {
                w.kill_daemon();
                w.start_daemon();
            }
        }
        assert!(w.has_run("c") && !w.has_run("x") && !w.has_run("y") && !w.has_run("z"));
        w.let_pass(seconds(150));
        assert!(w.has_run("x") && w.has_run("y") && !w.has_run("z"));
        assert_eq!(w.record.kills, []);
    });
}
