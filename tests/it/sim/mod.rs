//! The seeded simulation of the whole loop: sources' sets, the turn, the pod machines and an in-memory
//! Docker, with faults and a clock of its own. A seed that fails fails again: `SIM_SEED=17 cargo test sim`.

mod scenes;
mod world;

use std::time::Duration;

use podkeeper::clock::Mono;
use podkeeper::runtime::fake::{FaultPlan, Restart};

use world::World;

/// Runs `scene` for many seeds (`SIM_SEEDS`), or for the one that `SIM_SEED` names.
fn seeds(default: u64, scene: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    if let Some(seed) = number("SIM_SEED") {
        return scene(seed);
    }
    for seed in 0..number("SIM_SEEDS").unwrap_or(default) {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scene(seed)));
        if let Err(panic) = caught {
            eprintln!("seed {seed} fails; again with SIM_SEED={seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Everything at once: faults in calls and events, crashes, edits, deaths of the daemon and of Docker,
/// jumps of the clock. Then peace; then exactly what the files name must run.
#[test]
fn churn_ends_with_exactly_the_wanted_pods() {
    seeds(300, |seed| {
        let mut w = World::new(seed);
        let chaos = Mono(seconds(60));
        let chance = [0, 50, 200, 600][usize::try_from(seed % 4).unwrap()];
        w.engine.faults = FaultPlan::all(seed, chance, chaos);
        let foreign = w.plant_foreign();
        w.some_files(1 + seed % 6);
        w.start_daemon();
        while w.now < chaos {
            let pause = Duration::from_millis(w.below(4000));
            let until = w.now.after(pause);
            w.run_until(until);
            w.mischief();
        }
        w.end_of_mischief();
        let rest = w.now.after(seconds(1500));
        w.run_until(rest);
        w.check_at_rest(&format!("seed {seed}"));
        w.check_foreign(&foreign);
        w.tell_if_asked();
        let before = w.running();
        let kills = w.kills.len();
        let later = w.now.after(seconds(900));
        w.run_until(later);
        assert_eq!(before, w.running(), "seed {seed}: something moves in peace:\n{}", w.tail(60));
        assert_eq!(kills, w.kills.len(), "seed {seed}: something is killed in peace");
    });
}

/// Invariant 5: however often the daemon dies, whatever the clock says, nothing that runs is touched.
#[test]
fn k134153_restarts_of_the_daemon_and_jumps_of_the_clock_restart_nothing() {
    seeds(60, |seed| {
        let mut w = World::new(seed);
        // 1970, the year 2075, or one hour back, in the middle of a start.
        w.wall_offset = [0, -1_795_000_000, 50 * 365 * 86_400, -3600][usize::try_from(seed % 4).unwrap()];
        w.some_files(4);
        w.start_daemon();
        for _ in 0..40 {
            let pause = Duration::from_millis(w.below(300));
            let until = w.now.after(pause);
            w.run_until(until);
            w.wall_offset += [0, 3600, -3600, -40][usize::try_from(w.below(4)).unwrap()];
            w.kill_daemon();
            w.start_daemon();
        }
        let rest = w.now.after(seconds(60));
        w.run_until(rest);
        w.check_at_rest(&format!("seed {seed}"));
        assert_eq!(w.kills, [], "seed {seed}: {}", w.tail(60));
        let starts: Vec<(String, u32)> =
            w.engine.containers().filter(|c| c.starts > 1).map(|c| (c.name.clone(), c.starts)).collect();
        assert_eq!(starts, [], "seed {seed}");
        let before = w.running();
        for _ in 0..10 {
            w.kill_daemon();
            w.start_daemon();
            let until = w.now.after(seconds(5));
            w.run_until(until);
        }
        assert_eq!(before, w.running(), "seed {seed}: {}", w.tail(60));
    });
}

/// "I could not read the source" is not "the source is empty", also across restarts of the daemon.
#[test]
fn k3355_an_unreadable_source_keeps_what_runs() {
    seeds(20, |seed| {
        let mut w = World::new(seed);
        w.some_files(3);
        w.start_daemon();
        w.run_until(Mono(seconds(30)));
        let before = w.running();
        w.unreadable = true;
        for round in 1..6 {
            if round % 2 == 0 {
                w.kill_daemon();
                w.start_daemon();
            }
            let until = w.now.after(seconds(120));
            w.run_until(until);
        }
        assert_eq!(before, w.running(), "seed {seed}: {}", w.tail(60));
        assert_eq!(w.kills, []);
    });
}

/// A crash loop leaves one dead container of each name, however long it goes on.
#[test]
fn k23881_a_crash_loop_leaves_one_dead_container() {
    seeds(3, |seed| {
        let mut w = World::new(seed);
        w.some_files(1);
        w.crash_loop();
        w.start_daemon();
        w.run_until(Mono(seconds(4 * 3600)));
        let dead =
            w.engine.containers().filter(|c| c.state == podkeeper::runtime::DockerState::Exited).count();
        assert!(dead <= 2, "seed {seed}: {dead} dead:\n{}", w.tail(40));
        let starts = w.trace.iter().filter(|l| l.contains(" create k8s_app_")).count();
        assert!((40..60).contains(&starts), "seed {seed}: {starts} starts in four hours of back-off");
    });
}

/// Docker goes, with all that runs in it, and comes back: everything runs again, once.
#[test]
fn k39450_after_a_power_cut_everything_comes_back() {
    seeds(40, |seed| {
        let mut w = World::new(seed);
        w.some_files(5);
        w.start_daemon();
        let cut = Mono(Duration::from_millis(w.below(3000)));
        w.run_until(cut);
        let now = w.now();
        let daemon_too = seed % 2 == 0;
        if daemon_too {
            w.kill_daemon();
        }
        w.engine.restart_engine(if seed % 3 == 0 { Restart::Orderly } else { Restart::PowerCut }, now);
        w.engine.set_down(true);
        if daemon_too {
            w.start_daemon();
        }
        let up = w.now.after(seconds(60));
        w.run_until(up);
        w.engine.set_down(false);
        let rest = w.now.after(seconds(120));
        w.run_until(rest);
        w.check_at_rest(&format!("seed {seed}"));
    });
}
