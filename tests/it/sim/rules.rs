//! Scenes about one rule each: ports, ends, owners of names, networks, and the state of rest.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use podkeeper::testing::base::clock::Mono;
use podkeeper::testing::runtime::fake::{Behaviour, FaultPlan};
use podkeeper::testing::runtime::{DockerState, labels};

use super::world::{RELIST, World};
use super::{seconds, seeds};

/// A pod with one container `app`. Each argument except the name consists of lines of YAML, indented as needed.
fn pod(name: &str, metadata: &str, spec: &str, container: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}spec:\n  \
         terminationGracePeriodSeconds: 3\n{spec}  containers:\n  - name: app\n    image: busybox:static\n    \
         imagePullPolicy: IfNotPresent\n{container}"
    )
}

impl World {
    pub(super) fn write(&mut self, path: &str, text: String) {
        self.note(|| format!("mischief: write {path}"));
        self.files.insert(path.to_owned(), text);
        self.hint_files();
    }

    pub(super) fn take_away(&mut self, path: &str) {
        self.note(|| format!("mischief: remove {path}"));
        self.files.remove(path);
        self.hint_files();
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let until = self.now.after(time);
        self.run_until(until);
    }

    fn restart_daemon(&mut self) {
        self.kill_daemon();
        self.start_daemon();
    }

    /// UIDs of the pods whose `app` runs, by name.
    pub(super) fn apps(&self) -> BTreeMap<String, String> {
        let apps = self.engine.containers().filter(|c| c.state == DockerState::Running).filter_map(|c| {
            let label = |key: &str| c.body.labels.get(key).cloned();
            (label(labels::CONTAINER_NAME)? == "app").then_some(())?;
            Some((label(labels::POD_NAME)?, label(labels::POD_UID)?))
        });
        apps.collect()
    }
}

/// Of the pods that want one host port exactly one runs, whichever of them come and go; when it is removed,
/// another one takes its place.
#[test]
fn a_host_port_has_one_holder() {
    seeds(60, |w| {
        let path = |n: u64| format!("/m/port{n}.yaml");
        let text = |n: u64, port: u64, version: u64| {
            let ports = format!("    ports: [{{containerPort: 80, hostPort: {port}}}]\n");
            pod(&format!("port{n}"), "", "", &format!("{ports}    command: [sleep, '100000{version}']\n"))
        };
        let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
        w.start_daemon();
        for _ in 0..40 {
            let (n, port, version) = (w.below(4), 8080 + w.below(2), w.below(3));
            match w.below(6) {
                0 => {
                    wanted.remove(&n);
                    w.take_away(&path(n));
                }
                1 => w.restart_daemon(),
                _ => {
                    wanted.insert(n, port);
                    w.write(&path(n), text(n, port, version));
                }
            }
            let pause = Duration::from_millis(w.below(6000));
            w.pass(pause);
        }
        w.pass(seconds(120));
        let apps = w.apps();
        for port in wanted.values().collect::<BTreeSet<_>>() {
            let claim: Vec<String> =
                wanted.iter().filter(|(_, p)| *p == port).map(|(n, _)| format!("port{n}-node1")).collect();
            let holders = claim.iter().filter(|name| apps.contains_key(*name)).count();
            assert_eq!(holders, 1, "port {port} is wanted by {claim:?}; {apps:?} run");
        }
        let ports: BTreeSet<_> = wanted.values().collect();
        assert_eq!(apps.len(), ports.len());
    });
}

/// Pods with policy Never and OnFailure that have ended stay ended, whether Docker or the daemon restarts.
#[test]
fn what_has_ended_stays_ended() {
    seeds(60, |w| {
        let code = i64::from(w.seed % 2 == 1);
        w.engine.behave("app", Behaviour::exits(code, Duration::from_millis(400)));
        // A container that fails is tried again under OnFailure, so it is not among these.
        let policies = if code == 0 { ["Never", "OnFailure"] } else { ["Never", "Never"] };
        for (n, policy) in policies.into_iter().enumerate() {
            let text = pod(&format!("job{n}"), "", &format!("  restartPolicy: {policy}\n"), "");
            w.files.insert(format!("/m/job{n}.yaml"), text);
        }
        w.start_daemon();
        for _ in 0..30 {
            let pause = Duration::from_millis(w.below(300));
            w.pass(pause);
            w.wall_offset += [0, 3600, -3600][usize::try_from(w.below(3)).unwrap()];
            w.restart_daemon();
        }
        w.pass(seconds(60));
        assert_eq!(w.running(), BTreeMap::new(), "they have ended");
        let starts: u32 =
            w.engine.containers().filter(|c| c.name.starts_with("k8s_app_")).map(|c| c.starts).sum();
        // A container that an earlier daemon created and perhaps started is created again, so more may be
        // created than run.
        assert_eq!(starts, 2, "each ran once");
        let made = w.record.counts.apps;
        for _ in 0..5 {
            w.restart_daemon();
            w.pass(seconds(300));
        }
        let now = w.now();
        w.engine.restart_engine(podkeeper::testing::runtime::fake::Restart::PowerCut, now);
        w.pass(seconds(300));
        assert_eq!(w.record.counts.apps, made, "and nothing makes them again");
    });
}

/// Two files claim one name: the running pod stays, in whatever order they are read; when its file is removed,
/// the other file's pod runs.
#[test]
fn of_two_files_that_claim_one_pod_one_runs() {
    seeds(60, |w| {
        let text = |who: u64| pod("twin", "", "", &format!("    command: [sleep, '20000{who}']\n"));
        // Their order changes: the same contents under names that sort earlier and later.
        let path = |who: u64, early: bool| format!("/m/{}{who}.yaml", if early { "a" } else { "z" });
        let mut at: BTreeMap<u64, String> = BTreeMap::new();
        w.start_daemon();
        for _ in 0..30 {
            let (who, early) = (w.below(2), w.below(2) == 0);
            match w.below(5) {
                0 => w.restart_daemon(),
                1 => {
                    if let Some(old) = at.remove(&who) {
                        w.take_away(&old);
                    }
                }
                _ => {
                    if let Some(old) = at.insert(who, path(who, early)) {
                        w.files.remove(&old);
                    }
                    w.write(&path(who, early), text(who));
                }
            }
            let pause = Duration::from_millis(w.below(8000));
            w.pass(pause);
        }
        w.pass(seconds(60));
        assert_eq!(w.apps().len(), usize::from(!at.is_empty()), "{at:?}");
        let before = w.running();
        w.restart_daemon();
        w.pass(seconds(60));
        assert_eq!(before, w.running(), "a restart of the daemon changes the holder: {at:?}");
        let uids: Vec<String> = w.desired().iter().map(|pod| pod.uid.clone()).collect();
        assert!(w.apps().values().all(|uid| uids.contains(uid)), "what runs is nobody's");
        let holder = w.apps().into_values().next();
        let holder = w.desired().iter().position(|pod| Some(&pod.uid) == holder.as_ref());
        if let Some(path) = holder.and_then(|n| w.files.keys().nth(n).cloned()) {
            w.take_away(&path);
            w.pass(seconds(60));
            w.check_at_rest();
        }
    });
}

/// The network mode changes by edits, with the same UID and with another one, while calls fail.
#[test]
fn an_edit_of_the_network_mode_gives_one_sandbox_in_the_new_mode() {
    seeds(60, |w| {
        let chance = [0, 300][usize::try_from(w.seed % 2).unwrap()];
        w.engine.faults = FaultPlan::all(w.seed, chance, Mono(seconds(60)));
        w.start_daemon();
        let mut host = false;
        while w.now < Mono(seconds(60)) {
            if w.below(8) == 0 {
                w.restart_daemon();
            } else {
                host = !host;
                let uid = if w.seed % 3 == 0 { "" } else { "  uid: 5e0a2cb5-0000-4000-8000-000000000001\n" };
                w.write("/m/net.yaml", pod("net", uid, &format!("  hostNetwork: {host}\n"), ""));
            }
            let pause = Duration::from_millis(w.below(5000));
            w.pass(pause);
        }
        w.pass(seconds(1500));
        w.check_at_rest();
        let mode = w.engine.containers().find(|c| {
            c.state == DockerState::Running
                && c.body.labels.get(labels::TYPE).is_some_and(|t| t == labels::TYPE_SANDBOX)
        });
        assert_eq!(mode.map(|c| c.body.host_config.namespaces.network_mode == "host"), Some(host));
    });
}

/// Invariant 6: an hour without any change costs only the lists of the safety net.
#[test]
fn an_hour_of_peace_is_silent() {
    seeds(60, |w| {
        let files = 1 + w.seed % 6;
        w.some_files(files);
        w.start_daemon();
        while w.now < Mono(seconds(60)) {
            let pause = Duration::from_millis(w.below(4000));
            w.pass(pause);
            w.mischief();
        }
        w.end_of_mischief();
        w.pass(seconds(1500));
        w.check_at_rest();
        let before = w.record.counts;
        w.pass(seconds(3600));
        let lists = w.record.counts.lists - before.lists;
        assert_eq!(w.record.counts, super::world::Counts { lists: before.lists + lists, ..before });
        assert!(lists <= 3600 / RELIST.as_secs() + 1, "{lists} lists");
    });
}

/// A daemon's first list is enough for all its workers, whether it or the manifests come first.
#[test]
fn a_daemon_that_begins_lists_once() {
    seeds(30, |w| {
        w.some_files(6);
        w.start_daemon();
        w.pass(seconds(60));
        w.kill_daemon();
        w.pass(seconds(60));
        let (before, kills) = (w.record.counts, w.record.kills.len());
        w.start_daemon();
        w.pass(seconds(30));
        w.check_at_rest();
        let after = w.record.counts;
        assert_eq!((after.lists, after.worker_lists), (before.lists + 1, before.worker_lists));
        assert_eq!(w.record.kills.len(), kills);
    });
}

/// An hour without Docker, and an hour in which every call may fail, add few lines to the log.
#[test]
fn an_hour_of_trouble_is_told_in_few_lines() {
    seeds(10, |w| {
        w.some_files(6);
        w.start_daemon();
        w.pass(seconds(60));
        let before = w.record.counts.logged;
        let faults = w.seed % 2 == 1;
        let end = w.now.after(seconds(3600));
        if faults {
            w.engine.faults = FaultPlan::all(w.seed, 600, end);
        } else {
            w.engine.set_down(true);
        }
        w.run_until(end);
        let lines = w.record.counts.logged - before;
        w.note(|| format!("{lines} lines"));
        assert!(lines <= if faults { 200 } else { 10 }, "{lines} lines");
        w.engine.set_down(false);
        w.pass(seconds(1500));
        w.check_at_rest();
    });
}

/// Each container that Docker starts has its Created and Started events, also when answers are lost;
/// without faults, as many as there were starts. Of a crash loop few events are kept, and few lines
/// are logged.
#[test]
fn each_start_is_an_event() {
    seeds(60, |w| {
        let faults = w.seed % 3 == 0;
        if faults {
            w.engine.faults = FaultPlan::all(w.seed, 200, Mono(seconds(300)));
        }
        w.engine.behave("app", Behaviour::exits(1, Duration::from_millis(w.seed % 100 * 20)));
        for n in 0..4 {
            w.files.insert(format!("/m/web{n}.yaml"), pod(&format!("web{n}"), "", "", ""));
        }
        w.start_daemon();
        w.pass(seconds(1200));
        // A start whose answer is still on its way is not recorded yet.
        let mut starts: u64 = 0;
        while starts != w.record.starts.values().sum::<u64>() {
            starts = w.record.starts.values().sum();
            w.pass(seconds(1));
        }
        assert!(starts > 16, "{starts} starts");
        w.check_events(!faults);
        let told: u64 = w.record.told.values().sum();
        assert!(told > starts * 3, "{told} events");
        let backs_off = w.record.told.iter().filter(|((_, _, reason), n)| reason == "BackOff" && **n > 2);
        assert_eq!(backs_off.count(), 4);
        if !faults {
            let kept = w.check_ring();
            assert!(kept < 4 * 6, "{kept} events are kept");
        }
    });
}
