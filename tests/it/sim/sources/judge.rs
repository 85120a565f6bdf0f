//! The containers that may be stopped, and those that must run in the end, whatever the sources contain.

use super::*;

impl World {
    /// Each of podkeeper's containers that could still run: id, pod's name, text of its manifest, and
    /// whether it runs.
    pub(super) fn lives(&self) -> Vec<(String, String, String, bool)> {
        let ours = self.engine.containers().filter_map(|c| {
            let label = |key: &str| c.body.labels.get(key).cloned();
            (label(labels::ROOT_DIR)? == ROOT).then_some(())?;
            let running = c.state == DockerState::Running;
            Some((c.id.clone(), label(labels::POD_NAME)?, label(labels::WRITTEN)?, running))
        });
        ours.collect()
    }

    /// Containers from a source that has not answered since this daemon began: a daemon that died in the
    /// middle of stopping them took the reason with it, and remembered content may be older than the running
    /// pods.
    pub(super) fn left_alone(&self) -> BTreeSet<String> {
        let Some(daemon) = &self.daemon else { return BTreeSet::new() };
        let sources = daemon.turn.snapshot(&self.now()).sources;
        let is_silent = |source: &String| sources.iter().any(|s| s.name == *source && !s.ready);
        let theirs =
            self.engine.containers().filter(|c| c.body.labels.get(labels::SOURCE).is_some_and(is_silent));
        theirs.map(|c| c.id.clone()).collect()
    }

    /// From now on these containers may be stopped: their name is wanted with other content, or not at all.
    pub(super) fn doom(&mut self) {
        let wanted = self.hub().wanted();
        for (id, name, written, _) in self.lives() {
            if wanted.get(&name).is_none_or(|all| all.iter().any(|w| *w != written)) {
                self.hub().doomed.insert(id);
            }
        }
    }

    /// Asserts that nothing is stopped because its source only failed.
    pub fn judge_stop(&mut self, call: &Call) {
        let (Call::Kill { id, .. } | Call::Remove { id, .. }) = call else { return };
        if self.hub.is_none() {
            return;
        }
        // Covers containers that were created while a removal waited for the other source.
        self.doom();
        let running = self.engine.get(id).is_some_and(|c| c.state == DockerState::Running);
        let asked = self.hub().doomed.contains(id);
        assert!(!running || asked, "{id} is stopped, and its source has not asked for it");
    }

    /// Asserts that the last accepted content of each source is its last good one.
    pub(super) fn check_accepted(&mut self) {
        let hub = self.hub();
        let is_good = |source, path: &str, text: &str| {
            let decoded = acceptor(source).accept(path, text.as_bytes(), None, &Known::default());
            decoded.is_good() && !text.trim_start().starts_with('<')
        };
        let disk = hub.disk.0.lock().unwrap();
        if !disk.unreadable {
            for (path, (text, _)) in &disk.files {
                let path = path.to_str().unwrap();
                let accepted = hub.accepted(Source::File, path);
                if is_good(Source::File, path, text) {
                    assert_eq!(accepted.as_ref(), Some(text), "{path}");
                } else {
                    assert!(accepted.is_none_or(|a| is_good(Source::File, path, &a)), "{path}");
                }
            }
            for (source, path, _) in hub.store.keys() {
                assert!(
                    *source == Source::Http || disk.files.contains_key(Path::new(path)),
                    "{path} is gone"
                );
            }
        }
        let accepted = hub.accepted(Source::Http, URL);
        match &hub.server {
            Says::Body(body) if is_good(Source::Http, URL, body) => assert_eq!(accepted.as_ref(), Some(body)),
            _ => assert!(accepted.is_none_or(|a| is_good(Source::Http, URL, &a))),
        }
    }

    /// Asserts that exactly the pods in the last accepted contents run, each once.
    pub(super) fn check_wanted_runs(&mut self) {
        let wanted = self.hub().wanted();
        let left_alone = self.left_alone();
        let mut running: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // A running pod keeps its name while its source is silent, whatever another source wants under it.
        let mut keeps = BTreeSet::new();
        for (id, name, written, _) in self.lives().into_iter().filter(|(_, _, _, running)| *running) {
            if left_alone.contains(&id) {
                keeps.insert(name.clone());
            }
            if wanted.contains_key(&name) || !left_alone.contains(&id) {
                running.entry(name).or_default().insert(written);
            }
        }
        // A broken manifest that this daemon never saw in a good version: its running containers are left
        // alone.
        let hub = self.hub();
        let disk = hub.disk.0.lock().unwrap();
        running.retain(|name, _| {
            let path = format!("{DIRECTORY}/{}.yaml", name.trim_end_matches("-node1"));
            let is_there = disk.unreadable || disk.files.contains_key(Path::new(&path));
            wanted.contains_key(name) || !is_there || hub.accepted(Source::File, &path).is_some()
        });
        let names = |of: Vec<&String>| of.into_iter().cloned().collect::<BTreeSet<String>>();
        assert_eq!(names(running.keys().collect()), names(wanted.keys().collect()), "which pods run");
        for (name, written) in &running {
            assert_eq!(written.len(), 1, "{name} runs twice");
            let is_wanted = wanted[name].iter().any(|w| written.contains(w));
            assert!(is_wanted || keeps.contains(name), "{name} runs as nobody wants it");
        }
    }
}
