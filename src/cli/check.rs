//! `check`: reports what the daemon would say about manifests. It runs nothing and writes nothing: it reads the files
//! and asks the daemon's own main loop (`judge`).

mod judge;
mod places;

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::json::json;
use serde_json::Value;

use super::exit::Exit;
use super::flags::{Options, Output, Verb};
use super::given::Parsed;
use super::{print, rules, say, show};
use crate::base::human::many;
use crate::base::limits;
use crate::base::logging::one_line;
use crate::base::order;
use crate::base::regular;
use crate::base::table::{Set, Table};
use crate::daemon::config::Config;
use crate::manifest::{self, Context, Inspected, Rules};
use crate::node::sys;
use crate::pod::after;
use crate::pod::object::refs::{Reference, references};
use crate::pod::object::{LocalObject, ObjectKey};
use crate::pod::problem::{Problem, Severity};
use crate::pod::{PodKey, Source};
use crate::source::PodSet;
use crate::source::hints::is_manifest_name;
use crate::source::signature;
use places::Places;

/// Checks files and directories; exit code 1 when a problem is an error.
pub fn run(parsed: &Parsed, paths: &[PathBuf]) -> Exit {
    let options = &parsed.options;
    rules::notes(parsed).for_each(|note| say(&note));
    let host = sys::hostname();
    let mut report = match Report::new(parsed, &host) {
        Ok(report) => report,
        Err(why) => {
            say(&why);
            return Exit::Usage;
        }
    };
    if report.standard_alone {
        say("only --pod-security judges these pods; --config FILE judges them as the node does");
    }
    report.read_all(options, paths);
    report.judge();
    if options.sources.strict {
        report.problems.iter_mut().for_each(|problem| problem.severity = Severity::Error);
    }
    let printed = if options.command.output == Output::Json {
        print(&format!("{}\n", show::json::emit(&report.json())))
    } else {
        report.problems.iter().for_each(|problem| say(&line(problem)));
        if report.rejected > 0 {
            let pods = many(report.rejected, "pod");
            say(&format!(
                "{pods} would be rejected by the node: an edited manifest stops its version that runs then; other errors stop \
                 nothing"
            ));
        }
        print(&report.summary())
    };
    match printed {
        Exit::Ok if report.count(Severity::Error) > 0 => Exit::Failure,
        exit => exit,
    }
}

/// The canonical path of a file. A link is not followed: the daemon, too, treats it as a file of its own.
fn place(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (fs::canonicalize(parent), path.file_name()) {
        (Ok(parent), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

/// `web.yaml:3:5: error: pod default/web: spec…`, on one line whatever the manifest holds.
fn line(problem: &Problem) -> String {
    let mut place = problem.path.clone();
    if let Some((line, column)) = problem.at {
        place.push_str(&format!(":{line}:{column}"));
    }
    let rest = Problem { path: word(problem.severity).to_owned(), at: None, ..problem.clone() };
    one_line(&format!("{place}: {rest}"))
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    }
}

#[derive(Debug)]
struct Report {
    /// Configuration of the node that the pods are for.
    config: Config,
    /// The source that the file under way belongs to.
    source: Source,
    /// A standard is named on the command line, without a configuration: it alone judges the pods, which may be meant
    /// for another node.
    standard_alone: bool,
    files: usize,
    /// Pods without an error.
    names: Set<PodKey>,
    /// Pods that nothing forbids, and all local objects, by source.
    sets: Table<Source, PodSet>,
    /// The first object of each name, by source.
    objects: Table<(Source, ObjectKey), Arc<LocalObject>>,
    /// References of pods to objects that must exist.
    wanted: Vec<Wanted>,
    places: Places,
    problems: Vec<Problem>,
    /// How many pods the node would reject.
    rejected: usize,
    /// Files that were read, by source. A file that is given twice, or given beside its directory, counts once.
    read: Set<(Source, PathBuf)>,
}

/// A reference of a pod to an object.
#[derive(Debug)]
struct Wanted {
    /// Source of the pod.
    source: Source,
    /// File of the pod.
    path: String,
    /// Name of the pod as its manifest has it.
    pod: String,
    reference: Reference,
}

impl Report {
    /// An empty report, with the configuration that `run` would make of these flags on this machine.
    fn new(parsed: &Parsed, host: &str) -> Result<Report, String> {
        let config =
            super::run::configuration(Verb::Check, parsed, host).map_err(|error| error.to_string())?;
        let options = &parsed.options;
        Ok(Report {
            config,
            source: options.sources.source.unwrap_or(Source::File),
            standard_alone: !options.policy.pod_security.is_empty() && !options.directories.has_files(),
            files: 0,
            names: Set::new(),
            sets: Table::new(),
            objects: Table::new(),
            wanted: Vec::new(),
            places: Places::default(),
            problems: Vec::new(),
            rejected: 0,
            read: Set::new(),
        })
    }

    /// Reads the paths of the arguments as one source, and each `--source SOURCE=PATH` as its own.
    fn read_all(&mut self, options: &Options, paths: &[PathBuf]) {
        paths.iter().for_each(|path| self.visit(path));
        for (source, path) in &options.sources.paths {
            self.source = *source;
            self.visit(path);
        }
    }

    fn visit(&mut self, path: &Path) {
        if path == Path::new("-") {
            return self.read(io::stdin().lock(), "standard input", None);
        }
        match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => self.directory(path),
            Ok(_) => self.file(path),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn directory(&mut self, dir: &Path) {
        let entries = match fs::read_dir(dir).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.unreadable(dir, &error),
        };
        let mut paths: Vec<PathBuf> =
            entries.into_iter().map(|e| e.path()).filter(|p| is_manifest(p)).collect();
        order::sort(&mut paths);
        if paths.len() > limits::MANIFEST_FILES {
            let why = format!("more than {} manifests", limits::MANIFEST_FILES);
            return self.of_file(Severity::Error, dir, why);
        }
        for path in paths {
            match fs::metadata(&path) {
                Ok(meta) if meta.is_dir() => {
                    self.of_file(Severity::Warning, &path, "is a directory: ignored".to_owned());
                }
                Ok(_) => self.file(&path),
                Err(error) => self.unreadable(&path, &error),
            }
        }
    }

    fn file(&mut self, path: &Path) {
        if !self.read.insert((self.source, place(path))) {
            return;
        }
        // A file that cannot be read is no signature.
        let beside = self.config.sources.verifier.as_ref().map(|_| signature::beside(path));
        let most = limits::SIGNATURE_BYTES.saturating_add(1);
        let signature = match beside.map(|path| regular::read_start(&path, most)) {
            // As in the daemon: what is there and cannot be read is not missing.
            Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                let why = format!("its signature (*.{}) cannot be read: {error}", signature::SUFFIX);
                return self.of_file(Severity::Error, path, why);
            }
            read => read.and_then(Result::ok),
        };
        match regular::open(path) {
            Ok(file) => self.read(file, &path.to_string_lossy(), signature.as_deref()),
            Err(error) => self.unreadable(path, &error),
        }
    }

    fn read(&mut self, input: impl Read, path: &str, signature: Option<&[u8]>) {
        self.files += 1;
        match regular::read_rest(input, limits::MANIFEST_BYTES) {
            Ok(bytes) => self.decode(&bytes, path, signature),
            Err(error) => self.unreadable(Path::new(path), &error),
        }
    }

    fn decode(&mut self, bytes: &[u8], path: &str, signature: Option<&[u8]>) {
        if let Some(Err(why)) = self.config.sources.verifier.as_ref().map(|v| v.verify(bytes, signature)) {
            return self.of_file(Severity::Error, Path::new(path), why.to_string());
        }
        let node_name = self.config.node_name.clone();
        let context = Context { node_name: &node_name, source: self.source, path };
        let rules = if self.standard_alone { Rules::OfSyntax } else { Rules::OfDaemon };
        let found = manifest::inspect(bytes, &context, rules);
        self.problems.extend(found.problems);
        for Inspected { pod, text } in found.pods {
            let name = self.as_written(&pod.key);
            let needed = references(&pod).into_iter().filter(|r| !r.optional);
            let wanted = |reference| {
                let (path, pod) = (path.to_owned(), name.clone());
                Wanted { source: self.source, path, pod, reference }
            };
            self.wanted.extend(needed.map(wanted));
            self.names.insert(pod.key.clone());
            self.places.add(path, &name, text);
            for (field, message) in judge::no_images(&pod) {
                let at = self.places.of_field(path, &name, &field);
                let (severity, path) = (Severity::Warning, path.to_owned());
                let (pod, field) = (Some(name.clone()), Some(field));
                self.problems.push(Problem { severity, path, at, pod, field, message });
            }
            let policy = self.config.policy.of(self.source);
            let mut refusals = policy.refusals(&pod.metadata, &pod.spec);
            if !self.standard_alone {
                refusals.extend(policy.permits(&pod).err());
            }
            if refusals.is_empty() {
                self.sets.get_or_default(self.source).pods.push(pod);
            }
            for refusal in refusals {
                let at = self.places.of_field(path, &name, &refusal.field);
                self.problems.push(Problem {
                    severity: Severity::Error,
                    path: path.to_owned(),
                    at,
                    pod: Some(name.clone()),
                    // The message names all fields.
                    field: None,
                    message: refusal.message,
                });
            }
        }
        for object in found.objects {
            let key = (self.source, object.key.clone());
            self.objects.get_or_insert_with(key, || Arc::clone(&object));
            self.sets.get_or_default(self.source).objects.push(object);
        }
    }

    /// The name as the manifest has it, without the node's suffix: problems use it.
    fn as_written(&self, key: &PodKey) -> String {
        let name = key.name.strip_suffix(&self.config.node_name).and_then(|n| n.strip_suffix('-'));
        format!("{}/{}", key.namespace, name.unwrap_or(&key.name))
    }

    /// Checks that need all files together.
    fn judge(&mut self) {
        self.look_up();
        self.problems.extend(self.missing_pods());
        let (problems, rejected) = judge::problems(&self.config, &self.sets);
        self.rejected = if self.standard_alone { 0 } else { rejected };
        for mut problem in problems {
            if let Some(name) = &mut problem.pod {
                // The loop names a held pod as the node does.
                if let Some(key) = self.names.iter().find(|key| key.to_string() == *name) {
                    *name = self.as_written(key);
                }
            }
            problem.at = problem.at.or_else(|| self.places.of(&problem));
            if self.standard_alone {
                problem.severity = Severity::Warning;
            }
            self.problems.push(problem);
        }
    }

    /// Warns about objects that pods refer to and no checked file holds; the node may have them from elsewhere. The
    /// loop itself reports an object of another source that does not share it.
    fn look_up(&mut self) {
        for Wanted { source, path, pod, reference } in std::mem::take(&mut self.wanted) {
            let Reference { key, entry, field, .. } = reference;
            let sharing = self.config.policy.of(source).sharing(&key);
            let seen = [source].into_iter().chain(sharing);
            let object = seen.filter_map(|s| self.objects.get(&(s, key.clone()))).next();
            let message = match (object, entry) {
                (None, _) if self.objects.keys().any(|(_, other)| *other == key) => continue,
                (None, _) if self.has_error(&key.to_string()) => {
                    format!("{key} is refused for its own errors")
                }
                (None, _) => format!("{key} is in none of the files that were checked"),
                (Some(object), Some(entry)) if !object.has_key(&entry) => {
                    format!("{key} has no key {entry:?}")
                }
                _ => continue,
            };
            let at = self.places.of_field(&path, &pod, &field);
            let (severity, pod, field) = (Severity::Warning, Some(pod), Some(field));
            self.problems.push(Problem { severity, path, at, pod, field, message });
        }
    }

    /// Whether a pod or object of this name, as problems have it, has an error.
    fn has_error(&self, name: &str) -> bool {
        self.problems.iter().any(|it| it.severity == Severity::Error && it.pod.as_deref() == Some(name))
    }

    /// Dependencies on pods that will never start.
    fn missing_pods(&self) -> Vec<Problem> {
        let node = &self.config.node_name;
        let severity = if self.standard_alone { Severity::Warning } else { Severity::Error };
        let field = format!("metadata.annotations[{}]", after::AFTER);
        let mut problems = Vec::new();
        for pod in self.sets.values().flat_map(|set| &set.pods) {
            let Some(after) = after::of(pod) else { continue };
            for dependency in &after.on {
                // A pod with an error of its own exists, too.
                let named = format!("{}/{}", dependency.namespace, dependency.name);
                let is_there = dependency.keys(node).iter().any(|key| self.names.contains(key));
                if is_there || self.problems.iter().any(|p| p.pod.as_deref() == Some(&named)) {
                    continue;
                }
                let (path, name) = (pod.origin.path.clone(), self.as_written(&pod.key));
                let at = self.places.of_field(&path, &name, &field);
                let seconds = after.timeout.as_secs();
                let message = format!(
                    "waits for {dependency}, which is in none of the files that were checked; it starts without \
                     it after {seconds} s"
                );
                let (pod, field) = (Some(name), Some(field.clone()));
                problems.push(Problem { severity, path, at, pod, field, message });
            }
        }
        problems
    }

    fn unreadable(&mut self, path: &Path, error: &io::Error) {
        self.of_file(Severity::Error, path, format!("cannot be read: {error}"));
    }

    /// Adds a problem with a file or directory as a whole.
    fn of_file(&mut self, severity: Severity, path: &Path, message: String) {
        let path = path.to_string_lossy().into_owned();
        self.problems.push(Problem { severity, path, at: None, pod: None, field: None, message });
    }

    fn count(&self, severity: Severity) -> usize {
        self.problems.iter().filter(|p| p.severity == severity).count()
    }

    /// `3 files, 4 pods, 1 local object: 1 error, 0 warnings`.
    fn summary(&self) -> String {
        let objects = match self.objects.len() {
            0 => String::new(),
            n => format!(", {}", many(n, "local object")),
        };
        format!(
            "{}, {}{objects}: {}, {}\n",
            many(self.files, "file"),
            many(self.names.len(), "pod"),
            many(self.count(Severity::Error), "error"),
            many(self.count(Severity::Warning), "warning")
        )
    }

    /// The report as JSON.
    fn json(&self) -> Value {
        let problem = |p: &Problem| {
            let (line, column) = p.at.unzip();
            let mut all = json!({"severity": word(p.severity), "path": p.path, "message": p.message});
            if let Some(map) = all.as_object_mut() {
                let numbers = [("line", line), ("column", column)];
                map.extend(numbers.into_iter().filter_map(|(k, n)| Some((k.to_owned(), n?.into()))));
                let texts = [("pod", &p.pod), ("field", &p.field)];
                map.extend(texts.into_iter().filter_map(|(k, t)| Some((k.to_owned(), t.clone()?.into()))));
            }
            all
        };
        json!({
            "apiVersion": "podkeeper.dev/v1",
            "kind": "CheckReport",
            "files": self.files,
            "pods": self.names.len(),
            "objects": self.objects.len(),
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
        })
    }
}

/// Whether the daemon reads a file of this name in a directory.
fn is_manifest(path: &Path) -> bool {
    path.file_name().and_then(|n| n.to_str()).is_some_and(is_manifest_name)
}

#[cfg(test)]
mod tests;
