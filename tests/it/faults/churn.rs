//! Ten pods that are edited, removed, added and damaged while the daemon is killed again and again, at
//! random calls and at rest. Nothing may run twice, be lost, or be restarted without need.
//!
//! `PODKEEPER_KILLS` sets the number of kills (200 is the promise), `PODKEEPER_SEED` repeats a run.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use podkeeper::testing::runtime::fake::Rng;
use podkeeper::testing::runtime::{Call, ContainerSummary, labels};

use crate::faults::Faulty;
use crate::faults::eyes::{Eyes, label};
use crate::harness::pods::Pod;
use crate::harness::proxy::{Moment, Verdict};

const PODS: u64 = 10;
const KILLS: u64 = 40;
const SEED: u64 = 1;

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// The wanted pods, and the containers that must not be touched.
struct Churn {
    faulty: Faulty,
    eyes: Eyes,
    rng: Rng,
    /// UIDs of the wanted pods, by name.
    wanted: BTreeMap<String, String>,
    /// Pods that ran with the wanted UID at the last check, and that only the daemon could have damaged
    /// since.
    safe: BTreeMap<String, String>,
    edits: u64,
}

impl Churn {
    fn below(&mut self, bound: u64) -> u64 {
        self.rng.number() % bound
    }

    fn write(&mut self, pod: &str) {
        self.edits += 1;
        let uid = format!("churn-{}", self.edits);
        self.wanted.insert(pod.to_owned(), uid.clone());
        self.put(pod, &uid);
    }

    fn put(&self, pod: &str, uid: &str) {
        let text = Pod::new(pod).set("/metadata/uid", uid).text();
        self.faulty.node.write(&format!("{pod}.yaml"), text);
    }

    /// Does one thing to one pod.
    fn disturb(&mut self) {
        let pod = format!("p{}", self.below(PODS));
        let full = self.faulty.node.full(&pod);
        match (self.wanted.get(&pod).cloned(), self.below(6)) {
            (None, _) => self.write(&pod),
            (Some(_), 0 | 1) => {
                self.write(&pod);
                self.safe.retain(|_, of| *of != full);
            }
            (Some(_), 2) => {
                self.wanted.remove(&pod);
                self.faulty.node.remove(&format!("{pod}.yaml"));
                self.safe.retain(|_, of| *of != full);
            }
            // The same manifest once more: nothing may happen.
            (Some(uid), 3) => self.put(&pod, &uid),
            (Some(_), hit) => {
                let sandbox = hit == 4 && self.below(3) == 0;
                let of_pod = self.eyes.running().into_iter().filter(|c| label(c, labels::POD_NAME) == full);
                let is_sandbox =
                    |c: &ContainerSummary| label(c, labels::CONTAINER_NAME) == labels::SANDBOX_NAME;
                for victim in of_pod.filter(|c| is_sandbox(c) == sandbox) {
                    self.safe.retain(|id, of| *id != victim.id && !(sandbox && *of == full));
                    // It may have ended already.
                    let id = victim.id.clone();
                    _ = self.eyes.docker.call(&Call::Kill { id: victim.id, signal: "SIGKILL".to_owned() });
                    // Docker's list may show it as running for a while, and it would count as safe.
                    let is_gone = || self.eyes.running().iter().all(|c| c.id != id);
                    self.faulty.node.wait_until("what was killed is seen to be dead", is_gone);
                }
            }
        }
    }

    /// Whether exactly the wanted containers run.
    fn at_rest(&self) -> bool {
        let running: Vec<(String, String, String)> = self
            .eyes
            .running()
            .iter()
            .map(|c| {
                (label(c, labels::POD_NAME), label(c, labels::POD_UID), label(c, labels::CONTAINER_NAME))
            })
            .collect();
        let wanted: BTreeSet<(String, String, String)> = self
            .wanted
            .iter()
            .flat_map(|(pod, uid)| {
                ["POD", "app"].map(|c| (self.faulty.node.full(pod), uid.clone(), c.to_owned()))
            })
            .collect();
        running.len() == wanted.len() && running.into_iter().collect::<BTreeSet<_>>() == wanted
    }

    /// Safe pods must still run; pods that run now as wanted are safe from now on.
    fn check(&mut self, context: &str) {
        let running = self.eyes.running();
        for (id, pod) in &self.safe {
            let runs = running.iter().any(|c| c.id == *id);
            assert!(runs, "{context}: {id} of {pod} was stopped for nothing\n{}", self.faulty.node.picture());
        }
        // Containers whose sandbox was killed have to be replaced with it.
        let sandboxed = |pod: &str, uid: &str| {
            running.iter().any(|c| {
                let (of, by) = (label(c, labels::POD_NAME), label(c, labels::POD_UID));
                of == pod && by == uid && label(c, labels::CONTAINER_NAME) == labels::SANDBOX_NAME
            })
        };
        self.safe.clear();
        for (pod, uid) in &self.wanted {
            let full = self.faulty.node.full(pod);
            let of_pod = running.iter().filter(|c| {
                label(c, labels::POD_NAME) == full
                    && label(c, labels::POD_UID) == *uid
                    && sandboxed(&full, uid)
            });
            self.safe.extend(of_pod.map(|c| (c.id.clone(), full.clone())));
        }
    }

    /// One life of the daemon.
    fn life(&mut self, context: &str) {
        let death = usize::try_from(self.below(60)).unwrap();
        let moment = [Moment::BeforeRequest, Moment::BeforeReply, Moment::AfterReply]
            [usize::try_from(self.below(3)).unwrap()];
        self.faulty.proxy.rule(move |r| (r.number == death).then_some(Verdict::Kill(moment)));
        let (before, after) = (self.below(3), self.below(4));
        for _ in 0..before {
            self.disturb();
        }
        self.faulty.launch();
        for _ in 0..after {
            self.disturb();
        }
        let node = &self.faulty.node;
        node.wait_until(context, || self.faulty.proxy.killed() || self.at_rest());
        // At rest, or on its way to the call at which it dies: after this it is dead in any case.
        if !self.faulty.proxy.killed() {
            node.signal(rustix::process::Signal::KILL);
        }
        node.wait_for("the daemon is dead", || node.exited());
        self.check(context);
    }
}

#[test]
fn churn_with_random_kill_9() {
    let (kills, seed) = (number("PODKEEPER_KILLS", KILLS), number("PODKEEPER_SEED", SEED));
    let faulty = Faulty::prepare(&[]);
    let eyes = Eyes::new(&faulty.node.root());
    let mut churn = Churn {
        eyes: eyes.clone(),
        faulty,
        rng: Rng::new(seed),
        wanted: BTreeMap::new(),
        safe: BTreeMap::new(),
        edits: 0,
    };
    for pod in 0..PODS {
        churn.write(&format!("p{pod}"));
    }
    let over = AtomicBool::new(false);
    let twins = thread::scope(|scope| {
        let watch = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if let Some(twins) = eyes.twins() {
                    return Some(twins);
                }
                thread::sleep(Duration::from_millis(20));
            }
            None
        });
        let churned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for kill in 0..kills {
                churn.life(&format!("seed {seed}, kill {kill}"));
                assert!(!watch.is_finished(), "seed {seed}, kill {kill}: {:?}", eyes.twins());
            }
            churn.faulty.proxy.no_rule();
            churn.faulty.launch();
            let context = format!("seed {seed}, at the end");
            churn.faulty.node.wait_until(&context, || churn.at_rest());
            churn.check(&context);
            // At most one dead container is kept for each place, for its logs, and nothing else.
            let cleared = churn.faulty.node.comes_true(|| eyes.clutter().is_empty());
            let picture = || churn.faulty.node.picture();
            assert!(cleared, "seed {seed}: not cleared up: {:?}\n{}", eyes.clutter(), picture());
        }));
        over.store(true, Ordering::Relaxed);
        let twins = watch.join().unwrap();
        if let Err(panic) = churned {
            eprintln!("seed {seed}: {twins:?}");
            std::panic::resume_unwind(panic);
        }
        twins
    });
    assert_eq!(twins, None, "seed {seed}");
}
