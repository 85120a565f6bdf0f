//! The container that `logs` and `exec` mean, from the status file. Messages are kubectl's and the kubelet's. Pure.

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus};

use crate::cli::flags::Options;
use crate::cli::pods;
use crate::pod::is_final;
use crate::runtime::names;
use crate::status::container_log;
use crate::status::snapshot::StatusFile;

/// Annotation that names the default container.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// A container that Docker knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Docker's id.
    pub id: String,
    /// True when the container has a terminal and its log is not framed; `None` when only Docker knows.
    pub tty: Option<bool>,
    /// For `logs`: what to tell if Docker has created the container and not started it.
    pub unstarted: Option<String>,
    /// `container "app" in pod "web-n1"`.
    pub what: String,
    /// `pod/web-n1/app`.
    pub path: String,
    /// For `attach`: the container's input ends with that of its first client.
    pub stdin_once: bool,
    /// A note for the user before the output: `Defaulted container …`.
    pub note: Option<String>,
}

/// The containers of this pod whose output `logs` prints: one, or with `--all-containers` all of them.
///
/// # Errors
/// A message for the user; with all containers, a message for each that has no log.
pub fn for_logs(file: &StatusFile, options: &Options, name: &str) -> Result<Logs, String> {
    if options.logs.all_containers {
        return Ok(all_logs(pod(file, options, name)?, options));
    }
    let (pod, container, note) = choose(file, options, name)?;
    let target = log_of(pod, &container, options)?;
    Ok(Logs { targets: vec![Target { note, ..target }], without: Vec::new() })
}

/// Containers whose output is printed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logs {
    /// In the order of the spec.
    pub targets: Vec<Target>,
    /// Messages about containers without a log.
    pub without: Vec<String>,
}

/// The containers of pods that the selector chooses: all of each pod, or its default container.
///
/// # Errors
/// A message for the user: the selector chooses no pod.
pub fn selected_logs(file: &StatusFile, options: &Options) -> Result<Logs, String> {
    let (found, _) = pods::select(file, options, &[]);
    if found.is_empty() {
        return Err(pods::nothing(file, options));
    }
    let mut all = Logs::default();
    for pod in found.iter().filter_map(|index| file.pods.get(*index)) {
        if options.logs.all_containers {
            let more = all_logs(pod, options);
            all.targets.extend(more.targets);
            all.without.extend(more.without);
            continue;
        }
        match chosen(pod, options)
            .and_then(|(container, note)| Ok(Target { note, ..log_of(pod, &container, options)? }))
        {
            Ok(target) => all.targets.push(target),
            Err(why) => all.without.push(why),
        }
    }
    Ok(all)
}

/// Init containers first, then regular ones, then ephemeral ones.
fn all_logs(pod: &Pod, options: &Options) -> Logs {
    let of_spec = init(pod).chain(regular(pod)).map(Chosen::of);
    let added = ephemeral(pod).map(|status| Chosen { name: &status.name, tty: None });
    let mut logs = Logs::default();
    for container in of_spec.chain(added) {
        match log_of(pod, &container, options) {
            Ok(target) => logs.targets.push(target),
            Err(why) => logs.without.push(why),
        }
    }
    logs
}

fn log_of(pod: &Pod, container: &Chosen<'_>, options: &Options) -> Result<Target, String> {
    let (full, container_name) = (pod.metadata.name.as_deref().unwrap_or_default(), container.name);
    let none = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&none);
    let id = container_log::of(status, full, container_name, options.logs.previous)?;
    let unstarted = container_log::unstarted(status, full, container_name);
    Ok(Target { unstarted: unstarted.filter(|_| !options.logs.previous), ..target(id, pod, container) })
}

fn target(id: String, pod: &Pod, container: &Chosen<'_>) -> Target {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    Target {
        id,
        tty: container.tty,
        unstarted: None,
        what: described(container.name, full),
        path: format!("pod/{full}/{}", container.name),
        stdin_once: false,
        note: None,
    }
}

/// The container in which `exec` runs a command.
///
/// # Errors
/// A message for the user.
pub fn for_exec(file: &StatusFile, options: &Options, name: &str) -> Result<Target, String> {
    let (pod, container, note) = choose(file, options, name)?;
    Ok(Target { note, ..of_running(pod, &container, "exec into")? })
}

/// The container that `cp` copies from or to.
///
/// # Errors
/// A message for the user.
pub fn for_copy(file: &StatusFile, options: &Options, name: &str) -> Result<Target, String> {
    let (pod, container, note) = choose(file, options, name)?;
    Ok(Target { note, ..of_running(pod, &container, "copy files of")? })
}

/// The container in whose network `port-forward` connects.
///
/// # Errors
/// A message for the user.
pub fn for_forward(file: &StatusFile, options: &Options, name: &str) -> Result<Target, String> {
    let (pod, container, note) = choose(file, options, name)?;
    Ok(Target { note, ..of_running(pod, &container, "forward ports to")? })
}

/// The container whose streams `attach` joins.
///
/// # Errors
/// A message for the user; also when standard input is wanted and the manifest gives the container none.
pub fn for_attach(file: &StatusFile, options: &Options, name: &str) -> Result<Target, String> {
    let (pod, container, note) = choose(file, options, name)?;
    let target = of_running(pod, &container, "attach to")?;
    let spec = every(pod).find(|c| c.name == container.name);
    let has_none = spec.is_some_and(|c| c.stdin != Some(true));
    if options.command.stdin && has_none {
        return Err(format!(
            "{} takes no standard input: its manifest does not say stdin: true",
            target.what
        ));
    }
    // Ephemeral containers are made so, and are in no list of the status file.
    let stdin_once = spec.is_none_or(|c| c.stdin_once == Some(true));
    Ok(Target { note, stdin_once, ..target })
}

/// A container that must run; `what` names the operation in the message for the user.
fn of_running(pod: &Pod, container: &Chosen<'_>, what: &str) -> Result<Target, String> {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    if is_final(Some(phase)) {
        return Err(format!("cannot {what} a container in a completed pod; current phase is {phase}"));
    }
    let status = status_of(pod, container.name);
    let running = status.is_some_and(|s| s.state.as_ref().is_some_and(|s| s.running.is_some()));
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    match status.and_then(|s| s.container_id.as_deref()) {
        Some(id) if running => Ok(target(docker_id(id)?, pod, container)),
        _ => Err(format!("{} is not running", described(container.name, full))),
    }
}

fn described(container: &str, pod: &str) -> String {
    format!("container \"{container}\" in pod \"{pod}\"")
}

/// The chosen container.
struct Chosen<'a> {
    name: &'a str,
    /// As [`Target::tty`].
    tty: Option<bool>,
}

impl<'a> Chosen<'a> {
    fn of(container: &'a Container) -> Chosen<'a> {
        Chosen { name: &container.name, tty: Some(container.tty.unwrap_or(false)) }
    }
}

/// The pod of that name.
///
/// # Errors
/// A message for the user.
pub fn pod<'a>(file: &'a StatusFile, options: &Options, name: &str) -> Result<&'a Pod, String> {
    let index = pods::find(file, &options.command.namespace, name);
    let pod = index.and_then(|i| file.pods.get(i));
    pod.ok_or_else(|| pods::not_found(file, &options.command.namespace, name))
}

/// Docker's id of the running container that `debug` looks into.
///
/// # Errors
/// A message for the user.
pub fn running(pod: &Pod, wanted: &str) -> Result<String, String> {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    if !every(pod).any(|c| c.name == wanted) {
        return Err(format!("container {wanted} is not valid for pod {full}"));
    }
    let status = status_of(pod, wanted).filter(|s| s.state.as_ref().is_some_and(|s| s.running.is_some()));
    match status.and_then(|s| s.container_id.as_deref()) {
        Some(id) => docker_id(id),
        None => Err(format!("container \"{wanted}\" in pod \"{full}\" is not running")),
    }
}

/// Whether the pod has a container of this name.
#[must_use]
pub fn is_taken(pod: &Pod, name: &str) -> bool {
    every(pod).any(|c| c.name == name) || ephemeral(pod).any(|s| s.name == name)
}

/// The pod of this name, with the chosen container.
fn choose<'a>(
    file: &'a StatusFile,
    options: &Options,
    name: &str,
) -> Result<(&'a Pod, Chosen<'a>, Option<String>), String> {
    let pod = pod(file, options, name)?;
    let (container, note) = chosen(pod, options)?;
    Ok((pod, container, note))
}

/// The named container, or the default one, with a note when the pod has several.
fn chosen<'a>(pod: &'a Pod, options: &Options) -> Result<(Chosen<'a>, Option<String>), String> {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    if let Some(wanted) = &options.command.container {
        let of_spec = every(pod).find(|c| c.name == *wanted).map(Chosen::of);
        let added =
            || ephemeral(pod).find(|s| s.name == *wanted).map(|s| Chosen { name: &s.name, tty: None });
        let chosen = of_spec.or_else(added);
        let chosen = chosen.ok_or_else(|| format!("container {wanted} is not valid for pod {full}"))?;
        return Ok((chosen, None));
    }
    let annotated = pod.metadata.annotations.as_ref().and_then(|a| a.get(DEFAULT_CONTAINER));
    if let Some(container) = annotated.and_then(|wanted| every(pod).find(|c| c.name == *wanted)) {
        return Ok((Chosen::of(container), None));
    }
    let first = regular(pod).next().ok_or_else(|| format!("pod {full} has no containers"))?;
    let mut names: Vec<String> = regular(pod).map(|c| c.name.clone()).collect();
    names.extend(init(pod).map(|c| format!("{} (init)", c.name)));
    names.extend(ephemeral(pod).map(|s| format!("{} (ephem)", s.name)));
    let note = (names.len() > 1)
        .then(|| format!("Defaulted container \"{}\" out of: {}", first.name, names.join(", ")));
    Ok((Chosen::of(first), note))
}

fn regular(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|s| &s.containers)
}

fn init(pod: &Pod) -> impl Iterator<Item = &Container> {
    pod.spec.iter().flat_map(|s| s.init_containers.iter().flatten())
}

fn every(pod: &Pod) -> impl Iterator<Item = &Container> {
    regular(pod).chain(init(pod))
}

fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a ContainerStatus> {
    let status = pod.status.as_ref()?;
    let regular = status.container_statuses.iter().flatten();
    let all = regular.chain(status.init_container_statuses.iter().flatten());
    all.chain(ephemeral(pod)).find(|s| s.name == name)
}

/// Statuses of the ephemeral containers.
fn ephemeral(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    pod.status.iter().flat_map(|s| s.ephemeral_container_statuses.iter().flatten())
}

/// Strips the prefix: `docker://ID` -> `ID`.
fn docker_id(id: &str) -> Result<String, String> {
    let ours = names::docker_id(id).ok_or_else(|| format!("container id {id:?} is not Docker's"))?;
    Ok(ours.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(line: &str) -> Result<(String, Option<String>), String> {
        let (options, names) = pods::tests::options(line);
        let logs = for_logs(&pods::tests::node().file, &options, &names[0])?;
        let target = logs.targets.into_iter().next().unwrap();
        Ok((target.id, target.note))
    }

    fn exec(line: &str) -> Result<(String, Option<String>), String> {
        let (options, names) = pods::tests::options(&format!("{line} -- sh"));
        for_exec(&pods::tests::node().file, &options, &names[0]).map(|t| (t.id, t.note))
    }

    #[test]
    fn the_container_is_the_named_one_or_the_first() {
        assert_eq!(logs("logs web"), Ok(("c-web".into(), None)));
        assert_eq!(logs("logs web-node1 -c app"), Ok(("c-web".into(), None)));
        let note = "Defaulted container \"app\" out of: app, log, proxy (init)";
        assert_eq!(logs("logs stack"), Ok(("c-stack-app".into(), Some(note.into()))));
        assert_eq!(logs("logs stack -c proxy"), Ok(("c-stack-proxy".into(), None)));
        assert_eq!(logs("logs web -c x"), Err("container x is not valid for pod web-node1".into()));
        assert_eq!(
            logs("logs nope"),
            Err("pods \"nope\" not found; manifests have 2 errors: podkeeper check lists them all".into())
        );
        assert_eq!(exec("exec stack -c log"), Ok(("c-stack-log".into(), None)));
    }

    #[test]
    fn previous_is_the_last_terminated_one() {
        assert_eq!(logs("logs broken -p"), Ok(("c-broken-3".into(), None)));
        assert_eq!(logs("logs broken"), Ok(("c-broken-3".into(), None)), "in back-off the last one's log");
        let error = logs("logs web -p").unwrap_err();
        assert_eq!(error, "previous terminated container \"app\" in pod \"web-node1\" not found");
    }

    #[test]
    fn a_container_that_does_not_run_is_told() {
        let error = logs("logs job -c main").unwrap_err();
        assert_eq!(error, "container \"main\" in pod \"job-node1\" is waiting to start: PodInitializing");
        assert_eq!(
            exec("exec broken").unwrap_err(),
            "container \"app\" in pod \"broken-node1\" is not running"
        );
        let error = exec("exec refused").unwrap_err();
        assert_eq!(error, "cannot exec into a container in a completed pod; current phase is Failed");
        let (options, names) = pods::tests::options("exec refused -- sh");
        let error = for_forward(&pods::tests::node().file, &options, &names[0]).unwrap_err();
        assert_eq!(error, "cannot forward ports to a container in a completed pod; current phase is Failed");
        let error = for_attach(&pods::tests::node().file, &options, &names[0]).unwrap_err();
        assert_eq!(error, "cannot attach to a container in a completed pod; current phase is Failed");
    }
}
