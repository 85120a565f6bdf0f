//! Chaos on Docker's socket: by a seed, requests come late, twice or never, replies are cut, held back, outdated or
//! false, and events are lost, doubled, swapped or cut, while pods are edited, removed and damaged. Meanwhile nothing
//! may run twice; and when the socket is reliable again, exactly the wanted containers run, under the same daemon.
//!
//! `PODKEEPER_CHAOS=1000` sets the number of seeds, `PODKEEPER_SEED=17` the first one: a seed decides what happens to
//! the n-th request of each kind and what is done to the pods. The engine's own timing does not depend on the seed.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::fake::Rng;
use podkeeper::testing::runtime::{Call, ContainerSummary, labels};

use super::Faulty;
use super::eyes::{Eyes, label};
use crate::harness::pods::{Pod, container};
use crate::harness::proxy::{EventFault, Request, Verdict};

const SEEDS: u64 = 8;
/// Most of the time is spent waiting.
const AT_ONCE: u64 = 4;
const PODS: u64 = 3;
const STEPS: u64 = 10;

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// The kind of a request: its path without ids and names.
fn kind(request: &Request) -> String {
    let parts = request.path.split('/').map(|part| if part.len() >= 32 { "*" } else { part });
    format!("{} {}", request.method, parts.collect::<Vec<_>>().join("/"))
}

/// The harm that is done to the n-th request of a kind.
fn harm(seed: u64, kind: &str, nth: u64) -> Option<Verdict> {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
    for byte in kind.bytes().chain(nth.to_le_bytes()) {
        sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    }
    let mut rng = Rng::new(sum);
    if kind == "GET /events" {
        let many = usize::try_from(rng.number() % 6).unwrap();
        return match rng.number() % 6 {
            0 => Some(EventFault::CutAfter(many)),
            1 => Some(EventFault::LoseEveryThird),
            2 => Some(EventFault::Swap),
            3 => Some(EventFault::Twice),
            4 => Some(EventFault::Silent),
            _ => None,
        }
        .map(Verdict::Events);
    }
    // Three of four requests pass.
    if !rng.number().is_multiple_of(4) {
        return None;
    }
    let while_ = Duration::from_millis(rng.number() % 1500);
    Some(match rng.number() % 10 {
        0 => Verdict::Late(while_),
        1 | 2 => Verdict::HoldReply(while_),
        3 => Verdict::CutReply,
        4 => Verdict::Drop(while_),
        5 => Verdict::Twice,
        6 => Verdict::Old,
        7 => Verdict::Answer(500, "something went wrong".to_owned()),
        8 => Verdict::Lie(500, "something went wrong".to_owned()),
        _ if kind.starts_with("GET") => Verdict::Answer(404, "No such container: it".to_owned()),
        _ => Verdict::Answer(409, "Conflict. Something is in the way".to_owned()),
    })
}

/// One node under one seed.
struct Chaos {
    seed: u64,
    faulty: Faulty,
    eyes: Eyes,
    /// Number of harms done so far.
    harms: Arc<AtomicU64>,
    rng: Rng,
    /// UIDs of the wanted pods, by name.
    wanted: BTreeMap<String, String>,
    edits: u64,
}

impl Chaos {
    fn start(seed: u64) -> Chaos {
        // Whatever a false reply hid is seen at the next comparison.
        let faulty = Faulty::prepare(&["--sync-frequency=2s"]);
        let harms = Arc::new(AtomicU64::new(0));
        let done = Arc::clone(&harms);
        let counts: Mutex<BTreeMap<String, u64>> = Mutex::default();
        faulty.proxy.rule(move |request| {
            let kind = kind(request);
            let mut counts = counts.lock().unwrap();
            let count = counts.entry(kind.clone()).or_default();
            *count += 1;
            let harm = harm(seed, &kind, *count);
            done.fetch_add(harm.is_some().into(), Ordering::Relaxed);
            harm
        });
        let eyes = Eyes::new(&faulty.node.root());
        faulty.launch();
        Chaos { seed, faulty, eyes, harms, rng: Rng::new(seed), wanted: BTreeMap::new(), edits: 0 }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.rng.number() % bound
    }

    fn write(&mut self, name: &str) {
        self.edits += 1;
        let uid = format!("chaos-{}-{}", self.seed, self.edits);
        let mut pod = Pod::new(name).set("/metadata/uid", uid.as_str());
        if name == "p1" {
            pod = pod.init(container("first", "true"));
        }
        self.wanted.insert(name.to_owned(), uid);
        self.faulty.node.write(&format!("{name}.yaml"), pod.text());
    }

    fn disturb(&mut self) {
        let pod = format!("p{}", self.below(PODS));
        match self.below(6) {
            0..=2 => self.write(&pod),
            3 if self.wanted.remove(&pod).is_some() => self.faulty.node.remove(&format!("{pod}.yaml")),
            _ => {
                let running = self.eyes.running();
                let victim = usize::try_from(self.below(running.len().max(1) as u64)).unwrap();
                if let Some(victim) = running.get(victim) {
                    // It may have ended already.
                    let kill = Call::Kill { id: victim.id.clone(), signal: "SIGKILL".to_owned() };
                    _ = self.eyes.docker.call(&kill);
                }
            }
        }
        let pause = self.below(600);
        let until = Instant::now() + Duration::from_millis(pause);
        while Instant::now() < until {
            assert_eq!(self.eyes.twins(), None);
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether exactly the wanted containers run.
    fn at_rest(&self) -> bool {
        let place = |c: &ContainerSummary| {
            (label(c, labels::POD_NAME), label(c, labels::POD_UID), label(c, labels::CONTAINER_NAME))
        };
        let running: Vec<_> = self.eyes.running().iter().map(place).collect();
        let of_pod = |(pod, uid): (&String, &String)| {
            ["POD", "app"].map(|c| (self.faulty.node.full(pod), uid.clone(), c.to_owned()))
        };
        let wanted: BTreeSet<_> = self.wanted.iter().flat_map(of_pod).collect();
        running.len() == wanted.len() && running.into_iter().collect::<BTreeSet<_>>() == wanted
    }

    fn run(&mut self) {
        for pod in 0..PODS {
            self.write(&format!("p{pod}"));
        }
        for _ in 0..STEPS {
            self.disturb();
        }
        let node = &self.faulty.node;
        assert!(node.exited().is_none(), "the daemon ended\n{}", node.picture());
        let harms = self.harms.load(Ordering::Relaxed);
        println!("seed {}: {harms} requests came to harm", self.seed);
        assert!(harms > 0, "no request came to harm");
        self.faulty.proxy.no_rule();
        // Streams and requests that would be silent for ever end with their connections.
        self.faulty.proxy.break_all();
        node.wait_until("exactly what is wanted runs", || {
            assert_eq!(self.eyes.twins(), None, "{}", node.picture());
            self.at_rest()
        });
        assert!(node.exited().is_none(), "the daemon ended\n{}", node.picture());
    }
}

#[test]
fn chaos_by_seed() {
    let first = number("PODKEEPER_SEED", 1);
    let over = first + number("PODKEEPER_CHAOS", SEEDS);
    let (next, failed) = (AtomicU64::new(first), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= over {
                        return;
                    }
                    let ran = catch_unwind(AssertUnwindSafe(|| Chaos::start(seed).run()));
                    if let Err(why) = ran {
                        let text = why.downcast_ref::<String>().cloned().unwrap_or_default();
                        failed.lock().unwrap().insert(seed, text);
                    }
                }
            });
        }
    });
    for (seed, why) in failed.lock().unwrap().iter() {
        println!("seed {seed} (again: PODKEEPER_SEED={seed} PODKEEPER_CHAOS=1):\n{why}");
    }
    let seeds: Vec<u64> = failed.into_inner().unwrap().into_keys().collect();
    assert!(seeds.is_empty(), "these seeds of {first}..{over} failed: {seeds:?}");
}

#[test]
fn a_seed_does_the_same_harm_each_time() {
    let told = |seed| {
        let kinds =
            ["GET /events", "GET /containers/json", "POST /containers/create", "POST /containers/*/start"];
        let all = kinds
            .iter()
            .flat_map(|kind| (0..50).map(move |nth| harm(seed, kind, nth).map(|v| v.to_string())));
        all.collect::<Vec<_>>()
    };
    assert_eq!(told(7), told(7));
    assert_ne!(told(7), told(8));
    let harmed: BTreeSet<String> = (0..40).flat_map(told).flatten().collect();
    // Streams are cut after 0 to 5 events.
    assert_eq!(harmed.len(), 10 + 4 + 6, "{harmed:?}");
}
