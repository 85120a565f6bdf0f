//! `check`: what the daemon would say about these manifests. Nothing is run, nothing is written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit::Exit;
use super::parse::Options;
use super::{print, say};
use crate::after::{self, After};
use crate::limits;
use crate::logging::one_line;
use crate::manifest::{self, Context};
use crate::object::refs::{Reference, references};
use crate::object::{LocalObject, ObjectKey};
use crate::order;
use crate::pod::{PodKey, Source};
use crate::policy::Policy;
use crate::regular;
use crate::source::hints::is_manifest_name;
use crate::source::signature::{self, Verifier};
use crate::source::{Problem, Severity};

/// Checks files and directories; exit code 1 when a problem is an error.
pub fn run(options: &Options, paths: &[PathBuf]) -> Exit {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let node = options.hostname_override.as_deref().unwrap_or(&host).trim().to_lowercase();
    let verifier = match super::run::verifier(&options.verify_keys) {
        Ok(verifier) => verifier,
        Err(why) => {
            say(&format!("error: invalid argument for \"--verify-key\" flag: {why}"));
            return Exit::Usage;
        }
    };
    let mut report = Report { policy: options.policy.clone(), verifier, ..Report::default() };
    for path in paths {
        report.visit(path, &node);
    }
    report.look_up();
    report.cycles(&node);
    for problem in &report.problems {
        say(&line(problem));
    }
    match print(&report.summary()) {
        Exit::Ok if report.count(Severity::Error) > 0 => Exit::Failure,
        exit => exit,
    }
}

/// `web.yaml:3:5: error: pod default/web: spec…`, on one line whatever the manifest holds.
fn line(problem: &Problem) -> String {
    let mut place = problem.path.clone();
    if let Some((line, column)) = problem.at {
        place.push_str(&format!(":{line}:{column}"));
    }
    let word = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let rest = Problem { path: word.to_owned(), at: None, ..problem.clone() };
    one_line(&format!("{place}: {rest}"))
}

#[derive(Debug, Default)]
struct Report {
    /// What pods may do. With a standard in it, the pods are judged by it although they may not run here.
    policy: Policy,
    files: usize,
    /// Where each pod was first seen.
    pods: BTreeMap<PodKey, String>,
    /// Each object where it was first seen.
    objects: BTreeMap<ObjectKey, Arc<LocalObject>>,
    /// What pods refer to and must be there, with the pod and its file.
    wanted: Vec<(String, String, Reference)>,
    /// What pods wait for, in the order of the files: identity, name and file of each.
    after: Vec<(PodKey, After, String, String)>,
    problems: Vec<Problem>,
    verifier: Option<Arc<Verifier>>,
    /// Of the file that is read now.
    signature: Option<Vec<u8>>,
}

impl Report {
    fn visit(&mut self, path: &Path, node: &str) {
        if path == Path::new("-") {
            return self.read(io::stdin().lock(), "standard input", node);
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.directory(path, node),
            Ok(_) => self.file(path, node),
            Err(error) => self.error(path, format!("cannot be read: {error}")),
        }
    }

    fn directory(&mut self, dir: &Path, node: &str) {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.error(dir, format!("cannot be read: {error}")),
        };
        let mut paths: Vec<PathBuf> =
            entries.into_iter().map(|e| e.path()).filter(|p| is_manifest(p)).collect();
        order::sort(&mut paths);
        if paths.len() > limits::MANIFEST_FILES {
            return self.error(dir, format!("more than {} manifests", limits::MANIFEST_FILES));
        }
        for path in paths {
            match fs::metadata(&path) {
                Ok(meta) if meta.is_file() => self.file(&path, node),
                Ok(_) => {}
                Err(error) => self.error(&path, format!("cannot be read: {error}")),
            }
        }
    }

    fn file(&mut self, path: &Path, node: &str) {
        // What cannot be read is no signature.
        let beside = self.verifier.as_ref().map(|_| signature::beside(path));
        self.signature = beside
            .and_then(|path| regular::read_start(&path, limits::SIGNATURE_BYTES.saturating_add(1)).ok());
        match regular::open(path) {
            Ok(file) => self.read(file, &path.to_string_lossy(), node),
            Err(error) => self.error(path, format!("cannot be read: {error}")),
        }
    }

    fn read(&mut self, input: impl Read, path: &str, node: &str) {
        self.files += 1;
        match regular::read_rest(input, limits::MANIFEST_BYTES) {
            Ok(bytes) => self.decode(&bytes, path, node),
            Err(error) => self.error(Path::new(path), format!("cannot be read: {error}")),
        }
    }

    fn decode(&mut self, bytes: &[u8], path: &str, node: &str) {
        let context = Context { node_name: node, source: Source::File, path };
        let lenient = !self.policy.pod_security.is_empty();
        let decode = if lenient { manifest::decode_leniently } else { manifest::decode };
        let signature = self.signature.take();
        if let Some(Err(why)) = self.verifier.as_ref().map(|v| v.verify(bytes, signature.as_deref())) {
            return self.error(Path::new(path), why.to_string());
        }
        let duplicate = if lenient { Severity::Warning } else { Severity::Error };
        let decoded = decode(bytes, &context);
        self.problems.extend(decoded.problems);
        for pod in decoded.pods {
            // Problems name pods as written: without the node's suffix.
            let name = pod.key.name.strip_suffix(node).and_then(|n| n.strip_suffix('-'));
            let name = format!("{}/{}", pod.key.namespace, name.unwrap_or(&pod.key.name));
            let needed = references(&pod).into_iter().filter(|r| !r.optional);
            self.wanted.extend(needed.map(|r| (path.to_owned(), name.clone(), r)));
            for refusal in self.policy.refusals(Source::File, &pod.metadata, &pod.spec) {
                self.problem(Severity::Error, Path::new(path), Some(name.clone()), refusal.message);
            }
            if let Some(first) = self.pods.get(&pod.key) {
                let message = format!("is in {first} too: the one that runs first keeps the name");
                self.problem(duplicate, Path::new(path), Some(name), message);
            } else {
                self.pods.insert(pod.key.clone(), path.to_owned());
                let after = after::of(&pod);
                self.after.extend(after.map(|after| (pod.key.clone(), after, name, path.to_owned())));
            }
        }
        for object in decoded.objects {
            if let Some(first) = self.objects.get(&object.key) {
                let message =
                    format!("is in {} too: the one that is read first keeps the name", first.origin.path);
                self.problem(duplicate, Path::new(path), Some(object.key.to_string()), message);
            } else {
                self.objects.insert(object.key.clone(), object);
            }
        }
    }

    /// What pods refer to and no file that was checked holds. The node may have it from elsewhere.
    fn look_up(&mut self) {
        for (path, pod, Reference { key, entry, field, .. }) in std::mem::take(&mut self.wanted) {
            let message = match (self.objects.get(&key), entry) {
                (None, _) => format!("{key} is in none of the files that were checked"),
                (Some(object), Some(entry)) if !object.has_key(&entry) => {
                    format!("{key} has no key {entry:?}")
                }
                _ => continue,
            };
            let (severity, pod, field) = (Severity::Warning, Some(pod), Some(field));
            self.problems.push(Problem { severity, path, at: None, pod, field, message });
        }
    }

    /// Pods that wait for one another in a circle: told of the first one that closes it.
    fn cycles(&mut self, node: &str) {
        let mut next: BTreeMap<PodKey, Vec<PodKey>> = BTreeMap::new();
        for (key, after, name, path) in std::mem::take(&mut self.after) {
            let on = after.on.iter().flat_map(|dependency| dependency.keys(node));
            next.insert(key.clone(), on.collect());
            if let Some(way) = after::cycle(&key, |key| next.get(key).cloned().unwrap_or_default()) {
                next.remove(&key);
                let message = format!("{} closes a cycle: {}", after::AFTER, after::way(&way));
                self.problem(Severity::Error, Path::new(&path), Some(name), message);
            }
        }
    }

    fn error(&mut self, path: &Path, message: String) {
        self.problem(Severity::Error, path, None, message);
    }

    fn problem(&mut self, severity: Severity, path: &Path, pod: Option<String>, message: String) {
        let path = path.to_string_lossy().into_owned();
        self.problems.push(Problem { severity, path, at: None, pod, field: None, message });
    }

    fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|p| p.severity == severity).count()
    }

    /// `3 files, 4 pods, 1 local object: 1 error, 0 warnings`.
    fn summary(&self) -> String {
        let many = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        let objects = match self.objects.len() {
            0 => String::new(),
            n => format!(", {}", many(n, "local object")),
        };
        format!(
            "{}, {}{objects}: {}, {}\n",
            many(self.files, "file"),
            many(self.pods.len(), "pod"),
            many(self.count(Severity::Error), "error"),
            many(self.count(Severity::Warning), "warning")
        )
    }
}

/// The daemon reads files of such names in a directory.
fn is_manifest(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(is_manifest_name)
}

#[cfg(test)]
mod tests;
