//! The actions of the simulated people and machines: manifests, edits, crashes, outages. Chosen by
//! the seed.

use podkeeper::testing::runtime::fake::{Behaviour, Restart};
use podkeeper::testing::runtime::{DockerState, labels};

use super::world::{ROOT, World};

/// One manifest as YAML: `version` changes its content, `shape` its kind of pod.
pub fn manifest(name: &str, version: u64, shape: u64) -> String {
    let container = |name: &str| {
        format!(
            "  - name: {name}\n    image: busybox:static\n    imagePullPolicy: IfNotPresent\n    command: [sleep, '10000000{version}']\n"
        )
    };
    let mut text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  terminationGracePeriodSeconds: 3\n"
    );
    if shape % 5 == 1 {
        text += "  hostNetwork: true\n";
    }
    if shape % 4 == 3 {
        text += "  initContainers:\n";
        text += &container("prepare").replace("sleep, ", "'true', ");
        text += &container("side").replace("    image:", "    restartPolicy: Always\n    image:");
    }
    text += "  containers:\n";
    text += &container("app");
    if shape % 3 == 2 {
        text += &container("second");
    }
    text
}

/// The same, and every third has a volume.
pub fn with_volume(name: &str, version: u64, shape: u64) -> String {
    let text = manifest(name, version, shape);
    if shape % 3 != 1 {
        return text;
    }
    let text = text.replace("spec:\n", "spec:\n  volumes: [{name: v, emptyDir: {}}]\n");
    text.replace("- name: app\n", "- name: app\n    volumeMounts: [{name: v, mountPath: /v}]\n")
}

impl World {
    fn path(n: u64) -> String {
        format!("/m/pod{n}.yaml")
    }

    /// The first `n` manifests.
    pub fn some_files(&mut self, n: u64) {
        for i in 0..n {
            self.files.insert(Self::path(i), with_volume(&format!("pod{i}"), 0, i));
        }
        // Plain init containers end by themselves.
        self.engine.behave("prepare", Behaviour::exits(0, std::time::Duration::from_millis(300)));
    }

    pub fn crash_loop(&mut self) {
        self.engine.behave("app", Behaviour::exits(1, std::time::Duration::from_millis(200)));
    }

    /// Containers that are not podkeeper's: without labels, with odd names, and from another
    /// podkeeper.
    pub fn plant_foreign(&mut self) -> Vec<String> {
        let now = self.now();
        let other = [
            (labels::ROOT_DIR, "/elsewhere"),
            (labels::POD_NAME, "pod0-node1"),
            (labels::POD_NAMESPACE, "default"),
            (labels::POD_UID, "abc"),
            (labels::CONTAINER_NAME, "app"),
            (labels::TYPE, labels::TYPE_CONTAINER),
        ];
        vec![
            self.engine.plant("k8s_weird", &[], true, now),
            self.engine.plant("k8s_app_pod0-node1_default_0000_0", &other, true, now),
            self.engine.plant("k8s_POD_x_y", &[(labels::POD_NAME, "pod0-node1")], false, now),
        ]
    }

    pub fn check_foreign(&self, ids: &[String]) {
        for (i, id) in ids.iter().enumerate() {
            let state = self.engine.get(id).map(|c| c.state);
            let wanted = if i == 2 { DockerState::Created } else { DockerState::Running };
            // A foreign container that ran may only have ended together with the engine.
            let fine = state == Some(wanted)
                || (i < 2 && state == Some(DockerState::Exited) && self.record.engine_restarted);
            assert!(fine, "foreign container {i} is {state:?}");
        }
    }

    /// One fault or one action.
    pub fn mischief(&mut self) {
        let now = self.now();
        let what = self.below(100);
        let ours: Vec<String> = self
            .engine
            .containers()
            .filter(|c| c.body.labels.get(labels::ROOT_DIR).is_some_and(|r| r == ROOT))
            .map(|c| c.id.clone())
            .collect();
        let victim = match ours.len() {
            0 => None,
            n => ours.get(usize::try_from(self.below(n as u64)).unwrap()).cloned(),
        };
        match what {
            0..15 => self.edit(),
            15..30 => {
                if let Some(id) = victim {
                    self.note(|| "mischief: crash".into());
                    let code = [0, 1, 137, 143][usize::try_from(self.below(4)).unwrap()];
                    self.engine.crash(&id, code, now);
                }
            }
            30..35 => {
                if let Some(id) = victim {
                    self.note(|| "mischief: oom".into());
                    self.engine.oom(&id, now);
                }
            }
            35..42 => {
                if let Some(id) = victim {
                    self.note(|| "mischief: removal behind our back".into());
                    self.engine.remove_behind_our_back(&id, now);
                }
            }
            42..45 => {
                if let Some(id) = victim {
                    let hang = self.below(2) == 0;
                    self.engine.hang_inspect(&id, hang);
                }
            }
            45..60 => {
                self.kill_daemon();
                self.start_daemon();
            }
            60..65 => {
                self.note(|| "mischief: engine restarts".into());
                self.record.engine_restarted = true;
                let how = if self.below(2) == 0 { Restart::Orderly } else { Restart::PowerCut };
                self.engine.restart_engine(how, now);
            }
            65..70 => {
                self.note(|| "mischief: engine is down".into());
                self.engine.set_down(true);
                let until = self.now.after(std::time::Duration::from_millis(200 + self.below(9000)));
                self.run_until(until);
                self.engine.set_down(false);
            }
            70..75 => {
                self.wall_offset +=
                    [3600, -3600, -1_795_000_000, 86_400 * 9000][usize::try_from(self.below(4)).unwrap()]
            }
            75..80 => self.unreadable = !self.unreadable,
            80..85 => self.engine.cut_events(),
            85..92 => {
                // Delete and create again at the same moment, or nearly.
                if let Some((path, text)) = self.files.pop_first() {
                    self.note(|| "mischief: delete and re-create".into());
                    self.hint_files();
                    let pause = [0, 1, 300, 1000, 5000][usize::try_from(self.below(5)).unwrap()];
                    let until = self.now.after(std::time::Duration::from_millis(pause));
                    self.run_until(until);
                    self.files.insert(path, text);
                    self.hint_files();
                }
            }
            _ => {
                for _ in 0..10 {
                    self.edit();
                    let until = self.now.after(std::time::Duration::from_millis(self.below(100)));
                    self.run_until(until);
                }
            }
        }
    }

    fn edit(&mut self) {
        let (n, version, shape) = (self.below(6), self.below(3), self.below(60));
        let path = Self::path(n);
        if self.below(3) == 0 {
            self.note(|| format!("mischief: remove {path}"));
            self.files.remove(&path);
        } else {
            self.note(|| format!("mischief: write {path}"));
            self.files.insert(path, with_volume(&format!("pod{n}"), version, shape));
        }
        if self.below(4) > 0 {
            self.hint_files();
        }
    }

    /// No more faults from now on.
    pub fn end_of_mischief(&mut self) {
        self.engine.set_down(false);
        self.unreadable = false;
        let hung: Vec<String> = self.engine.containers().map(|c| c.id.clone()).collect();
        for id in hung {
            self.engine.hang_inspect(&id, false);
        }
        if self.daemon.is_none() {
            self.start_daemon();
        }
        self.note(|| "mischief: peace".into());
        self.hint_files();
    }
}
