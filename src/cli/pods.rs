//! Which pods the user means: the status file, filtered by namespace and name.

mod missing;

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;
use rustix::process::{Pid, Signal, kill_process};

use super::docker::engine;
use super::flags::Options;
use super::say;
use crate::base::clock::Timestamp;
use crate::base::count::many;
use crate::base::limits;
use crate::base::locks;
use crate::base::logging::one_line;
use crate::base::order;
use crate::daemon::drain;
use crate::pod::fields;
use crate::pod::problem::Severity;
use crate::status::file::{self, Status};
use crate::status::node_object::STATUS_UNKNOWN;
use crate::status::snapshot::{DockerView, SourceView, StatusFile};
pub use missing::not_found;

/// Reads the status file; tells when nobody keeps it up to date.
///
/// # Errors
/// A message for the user.
pub fn load(run_dir: &Path) -> Result<Status, String> {
    let mut status = file::read(run_dir).map_err(|error| error.to_string())?;
    let alive = locks::is_alive(run_dir);
    if !alive {
        nobody_posts(&mut status.file);
        say(&format!(
            "warning: podkeeper is not running (it was process {}): this is the last state it knew",
            status.file.pid
        ));
    } else if let Some(written) = silent_since(run_dir, &status.file) {
        nobody_posts(&mut status.file);
        say(&format!(
            "warning: podkeeper (process {}) does not answer, or cannot write its answer: this is the state it wrote at {written}",
            status.file.pid
        ));
    } else if let Some(away) = without_docker(&status.file.docker) {
        say(&format!("warning: {away}; what runs stays, and podkeeper waits for Docker"));
    } else if engine::is_silent(&status.file.docker.endpoint, limits::DOCKER_SLOW) {
        // The daemon finds out with its next call; nobody waits for that here.
        say(&format!(
            "warning: Docker has not answered for {} s: this is the last state that was seen",
            limits::DOCKER_SLOW.as_secs()
        ));
    }
    if let Some(note) = drained(&status.file, alive) {
        say(&format!("note: {note}"));
    }
    Ok(status)
}

/// Fails where nobody would do what is asked for.
///
/// # Errors
/// No daemon runs, or it does not answer; for a user.
pub fn must_answer(run_dir: &Path, file: &StatusFile) -> Result<(), String> {
    if locks::is_alive(run_dir) && silent_since(run_dir, file).is_none() {
        return Ok(());
    }
    Err("podkeeper does not run, or does not answer: nobody would start again what is stopped".to_owned())
}

/// That the node is drained. Without a daemon its last word may be old: `drain` and `resume` work on the marker, and
/// that is what the next one reads.
fn drained(file: &StatusFile, alive: bool) -> Option<String> {
    let root_dir = Path::new(&file.root_dir);
    let is_known = !file.root_dir.is_empty()
        && match std::fs::symlink_metadata(drain::path(root_dir)) {
            Ok(_) => true,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
    if !alive && is_known {
        let since = drain::read(root_dir)?.since;
        return Some(format!(
            "this node is drained since {since}: the next podkeeper starts nothing until podkeeper resume"
        ));
    }
    let drain = file.drain.as_ref()?;
    let left = match drain.left.len() {
        0 => String::new(),
        n => format!(" ({n} still to be stopped)"),
    };
    Some(format!("this node is drained since {}{left}: podkeeper resume starts its pods", drain.since))
}

/// That Docker is not reachable, and why, said once: most errors begin with these words themselves.
pub(super) fn docker_is_away(problem: Option<&str>) -> String {
    const WORDS: &str = "Docker is not reachable";
    let why = one_line(problem.unwrap_or("no answer yet"));
    let cause = why.strip_prefix(WORDS).map_or(&*why, |rest| rest.trim_start_matches([':', ' ']));
    format!("{WORDS} ({cause})")
}

/// That Docker is not reachable, and what is known of containers then; `None` while it is.
pub(super) fn without_docker(docker: &DockerView) -> Option<String> {
    if docker.reachable {
        return None;
    }
    // The version comes with the first answer.
    let known = match docker.version {
        Some(_) => "what is shown of containers is what was seen last",
        None => "it has not answered since podkeeper began, so that nothing is known of containers",
    };
    Some(format!("{}: {known}", docker_is_away(docker.problem.as_deref())))
}

/// What the control plane says of a node whose kubelet is gone (`pkg/controller/nodelifecycle`).
fn nobody_posts(file: &mut StatusFile) {
    for condition in &mut file.conditions {
        condition.is_true = false;
        condition.reason = STATUS_UNKNOWN.into();
        condition.message = "Kubelet stopped posting node status.".into();
    }
}

/// Asks the daemon whether it still works: on a signal that nobody else sends it, its main thread gives the
/// status file a new time. Answers with the old one when it does not. One that cannot be asked counts as
/// working: of another version, in another namespace of processes, or not ours to signal.
pub(super) fn silent_since(run_dir: &Path, file: &StatusFile) -> Option<Timestamp> {
    let path = run_dir.join(file::NAME);
    let time = || {
        let meta = std::fs::metadata(&path).ok()?;
        Timestamp::new(meta.mtime(), i32::try_from(meta.mtime_nsec()).ok()?).ok()
    };
    let pid = locks::holder(run_dir).filter(|pid| *pid == file.pid && file.version == super::VERSION)?;
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let before = time()?;
    kill_process(pid, Signal::URG).ok()?;
    let asked = Instant::now();
    while asked.elapsed() < limits::DAEMON_ANSWER {
        if time() != Some(before) {
            return None;
        }
        thread::sleep(limits::DAEMON_LOOK);
    }
    Some(before)
}

/// Whether `given` names the pod: its name, or without the node's suffix.
fn names(given: &str, pod: &Pod, node: &str) -> bool {
    is_called(given, pod.metadata.name.as_deref().unwrap_or_default(), node)
}

/// The same, of a pod's name.
#[must_use]
pub fn is_called(given: &str, name: &str, node: &str) -> bool {
    name == given || name.strip_prefix(given).and_then(|rest| rest.strip_prefix('-')) == Some(node)
}

fn namespace(pod: &Pod) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or("default")
}

/// The pod of that name in a namespace; the full name wins over one without the suffix.
#[must_use]
pub fn find(file: &StatusFile, wanted: &str, name: &str) -> Option<usize> {
    let of = |full: bool| {
        file.pods.iter().position(|p| {
            let same = p.metadata.name.as_deref() == Some(name);
            namespace(p) == wanted && if full { same } else { names(name, p, &file.node) }
        })
    };
    of(true).or_else(|| of(false))
}

/// Indices of the pods that `get` and `describe` show, sorted by namespace and name (by the order given,
/// when names are given), and messages about names that are not there.
#[must_use]
pub fn select(file: &StatusFile, options: &Options, given: &[String]) -> (Vec<usize>, Vec<String>) {
    let wanted = options.command.namespace.as_str();
    if given.is_empty() {
        let mut all: Vec<(usize, &Pod)> = file.pods.iter().enumerate().collect();
        all.retain(|(_, p)| options.command.all_namespaces || namespace(p) == wanted);
        let command = &options.command;
        all.retain(|(_, p)| command.selector.matches(p.metadata.labels.as_ref()));
        all.retain(|(_, p)| command.field_selector.matches(|name| fields::value(p, name)));
        order::sort_by_key(&mut all, |(_, p)| (namespace(p), p.metadata.name.as_deref().unwrap_or_default()));
        return (all.into_iter().map(|(index, _)| index).collect(), Vec::new());
    }
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for name in given {
        match find(file, wanted, name) {
            Some(index) if found.contains(&index) => {}
            Some(index) => found.push(index),
            None => missing.push(not_found(file, wanted, name)),
        }
    }
    (found, missing)
}

/// What to say when there is nothing to list.
#[must_use]
pub fn nothing(file: &StatusFile, options: &Options) -> String {
    if options.command.all_namespaces {
        return "No resources found".into();
    }
    let mut text = format!("No resources found in {} namespace.", options.command.namespace);
    let mut others: Vec<&str> = file.pods.iter().map(namespace).collect();
    let chosen = !options.command.selector.is_empty() || !options.command.field_selector.is_empty();
    if !others.is_empty() && !chosen {
        let (many, count) = (if others.len() == 1 { "pod is" } else { "pods are" }, others.len());
        order::sort(&mut others);
        others.dedup();
        others.truncate(5);
        let places = others.join(", ");
        text.push_str(&format!("\n{count} {many} in other namespaces ({places}): use -A, or -n NAMESPACE."));
    }
    text
}

/// What is wrong with manifests, for a reader who would otherwise miss a pod in the list, or take an old
/// version of it for the one in the file.
#[must_use]
pub fn errors(file: &StatusFile) -> Vec<String> {
    let all: Vec<_> = file.problems.iter().filter(|p| p.severity == Severity::Error).collect();
    let shown = all.iter().take(limits::ERRORS_SHOWN);
    let mut lines: Vec<String> = shown.map(|p| format!("warning: {}", one_line(&p.to_string()))).collect();
    let more = all.len().saturating_sub(limits::ERRORS_SHOWN);
    if more > 0 {
        lines.push(format!("warning: {more} more errors in manifests"));
    }
    lines
}

/// A line for each source that could not be read, or whose content is not accepted, with what counts
/// meanwhile, and one about threads that hang: without them the list looks as if it were what the sources say now.
#[must_use]
pub fn failing(file: &StatusFile) -> Vec<String> {
    let line = |source: &SourceView| {
        let why = one_line(source.problem.as_deref()?);
        let kept = match (source.ready || source.restored, source.pods) {
            (false, _) => "nothing is known of it yet: none of its pods is started or stopped".to_owned(),
            (true, 0) => "it had no pods when it was read last, and that counts".to_owned(),
            (true, n) => format!("what it said last counts: {}", many(n, "pod")),
        };
        Some(format!("warning: source {}: {why}; {kept}", source.name))
    };
    let hangs = (!file.stuck.is_empty()).then(|| {
        let all = one_line(&file.stuck.join(", "));
        format!("warning: podkeeper hangs at its work, for a disk may not answer, and nothing is done there: {all}")
    });
    file.sources.iter().filter_map(line).chain(hangs).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::parse::{Command, parse};
    use crate::status::snapshot::DrainView;

    /// A node in many states: see `tests/golden/cli/node.json`.
    pub(crate) fn node() -> Status {
        file::parse(include_bytes!("../../tests/golden/cli/node.json")).unwrap()
    }

    pub(crate) fn options(line: &str) -> (Box<Options>, Vec<String>) {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::Get(options, names) | Command::Describe(options, names)) => (options, names),
            Ok(Command::Logs(options, pod)) => (options, pod.into_iter().collect()),
            Ok(Command::Exec(options, pod, _)) => (options, vec![pod]),
            other => panic!("{line}: {other:?}"),
        }
    }

    fn check(line: &str, expected: &[&str], missing: &[&str]) {
        let file = node().file;
        let (options, names) = options(line);
        let (found, not) = select(&file, &options, &names);
        let found: Vec<_> = found.iter().map(|i| file.pods[*i].metadata.name.as_deref().unwrap()).collect();
        assert_eq!(
            (found.as_slice(), not.iter().map(String::as_str).collect::<Vec<_>>().as_slice()),
            (expected, missing)
        );
    }

    #[test]
    fn without_a_daemon_the_marker_says_whether_the_node_is_drained() {
        let root = crate::base::testing::scratch("drained-note");
        let since: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let marker = drain::Drain { since, grace: None, boot: None };
        let view = DrainView { since, grace_seconds: None, stopped: false, left: vec!["a/b".into()] };
        let file = |drain| StatusFile { root_dir: root.to_string_lossy().into_owned(), drain, ..node().file };
        let (is, was) = (file(Some(view)), file(None));
        let says = "this node is drained since 2026-01-02T03:04:05Z";
        let lives = format!("{says} (1 still to be stopped): podkeeper resume starts its pods");
        assert_eq!(drained(&is, true).as_ref(), Some(&lives));
        assert_eq!((drained(&was, true), drained(&was, false)), (None, None));
        assert_eq!(drained(&is, false), None, "resumed since");
        drain::write(&root, &marker).unwrap();
        let next = format!("{says}: the next podkeeper starts nothing until podkeeper resume");
        assert_eq!(drained(&is, false).as_ref(), Some(&next));
        assert_eq!(drained(&was, false).as_ref(), Some(&next), "drained since");
        // An earlier version does not say where.
        let mute = StatusFile { root_dir: String::new(), ..is };
        assert_eq!(drained(&mute, false), Some(lives));
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn that_docker_is_not_reachable_is_said_once() {
        let check =
            |why, cause: &str| assert_eq!(docker_is_away(why), format!("Docker is not reachable ({cause})"));
        check(Some("Docker is not reachable: nobody listens"), "nobody listens");
        check(
            Some("Docker did not answer in time: GET /events"),
            "Docker did not answer in time: GET /events",
        );
        check(Some("not asked yet"), "not asked yet");
        check(None, "no answer yet");
    }

    #[test]
    fn a_list_says_which_sources_fail_and_what_counts_meanwhile() {
        let mut file = node().file;
        file.sources.clear();
        assert_eq!(failing(&file), [""; 0]);
        let mut source = |ready, restored, pods, problem: Option<&str>| {
            file.sources = vec![SourceView {
                name: "http".into(),
                location: "https://example.com/pods".into(),
                ready,
                restored,
                last_success: None,
                accepted: None,
                pods,
                objects: 0,
                problem: problem.map(str::to_owned),
                degraded: None,
            }];
            failing(&file).join("\n")
        };
        let down = Some("https://example.com/pods: no answer\nwithin 10 s");
        let says = "warning: source http: https://example.com/pods: no answer\\nwithin 10 s; ";
        assert_eq!(source(true, false, 3, None), "");
        assert_eq!(source(true, false, 3, down), format!("{says}what it said last counts: 3 pods"));
        assert_eq!(source(false, true, 1, down), format!("{says}what it said last counts: 1 pod"));
        assert_eq!(
            source(true, false, 0, down),
            format!("{says}it had no pods when it was read last, and that counts")
        );
        assert_eq!(
            source(false, false, 0, down),
            format!("{says}nothing is known of it yet: none of its pods is started or stopped")
        );
    }

    #[test]
    fn a_list_says_what_hangs() {
        let mut file = node().file;
        file.sources.clear();
        assert_eq!(failing(&file), [""; 0]);
        file.stuck = vec!["pod default/a".to_owned(), "the file source".to_owned()];
        let says = "warning: podkeeper hangs at its work, for a disk may not answer, and nothing is done there: \
                    pod default/a, the file source";
        assert_eq!(failing(&file), [says]);
    }

    #[test]
    fn where_docker_never_answered_nothing_is_known_of_containers() {
        let mut docker = node().file.docker;
        assert_eq!(without_docker(&docker), None);
        (docker.reachable, docker.problem) = (false, Some("no such file".to_owned()));
        let away = "Docker is not reachable (no such file): ";
        assert_eq!(
            without_docker(&docker).unwrap(),
            format!("{away}what is shown of containers is what was seen last")
        );
        docker.version = None;
        assert_eq!(
            without_docker(&docker).unwrap(),
            format!(
                "{away}it has not answered since podkeeper began, so that nothing is known of containers"
            )
        );
    }

    #[test]
    fn names_with_and_without_the_nodes_suffix() {
        check("get pods web", &["web-node1"], &[]);
        check("get pods web-node1 web", &["web-node1"], &[]);
        check(
            "get pods nope web",
            &["web-node1"],
            &["pods \"nope\" not found; manifests have 2 errors: podkeeper get pods lists them"],
        );
        check(
            "get pods we",
            &[],
            &["pods \"we\" not found; manifests have 2 errors: podkeeper get pods lists them"],
        );
        check(
            "get pods proxy",
            &[],
            &["pods \"proxy\" not found in namespace default; there is one with -n kube-system"],
        );
        check("get pods -n kube-system proxy", &["proxy-node1"], &[]);
        check("get pods -n empty", &[], &[]);
    }

    #[test]
    fn an_empty_namespace_is_not_an_empty_node() {
        let (o, _) = options("get pods -n empty");
        let text = nothing(&node().file, &o);
        assert!(text.starts_with("No resources found in empty namespace.\n"), "{text}");
        assert!(text.contains("pods are in other namespaces (default, kube-system): use -A"), "{text}");
        let none = StatusFile { pods: vec![], ..node().file };
        assert_eq!(nothing(&none, &o), "No resources found in empty namespace.");
        let (o, _) = options("get pods -A");
        assert_eq!(nothing(&none, &o), "No resources found");
    }

    #[test]
    fn errors_in_manifests_are_told_up_to_a_bound() {
        let mut file = node().file;
        let errors = |file: &StatusFile| errors(file).join("\n");
        assert_eq!(
            errors(&file),
            "warning: /etc/podkeeper/manifests/web-old.yaml: pod default/web: is in web.yaml too: the one that \
             runs keeps the name\nwarning: /etc/podkeeper/manifests/x.yaml:1:1: not YAML"
        );
        let error = file.problems.iter().find(|p| p.severity == Severity::Error).unwrap().clone();
        file.problems = vec![error; limits::ERRORS_SHOWN + 2];
        assert!(errors(&file).ends_with("\nwarning: 2 more errors in manifests"), "{}", errors(&file));
        file.problems.clear();
        assert_eq!(errors(&file), "");
    }
}
