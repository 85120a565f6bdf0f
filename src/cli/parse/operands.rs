//! The meaning of the words after a verb: pods, nodes, files, commands. Flags are parsed before, and checked elsewhere.

use std::ffi::OsString;
use std::path::PathBuf;

use super::{Command, Copied, LogsOf, UsageError, Way, usage};
use crate::cli::completion::Shell;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, Output, Verb};
use crate::cli::rules::check_values;
use crate::cli::value;
use crate::cli::verbs::Operands;
use crate::pod::object::ObjectKind;

/// Words for the sources of pods, in the style of kubectl.
const SOURCES: &[&str] = &["sources", "source"];
/// kubectl's words for events.
const EVENTS: &[&str] = &["events", "event", "ev"];
/// kubectl's words for nodes.
const NODES: &[&str] = &["node", "nodes", "no"];
/// kubectl's words for ConfigMaps and Secrets.
const OBJECTS: &[(ObjectKind, &[&str])] = &[
    (ObjectKind::ConfigMap, &["configmaps", "configmap", "cm"]),
    (ObjectKind::Secret, &["secrets", "secret"]),
];
/// Words for Docker's images, which kubectl does not have.
const IMAGES: &[&str] = &["images", "image"];
/// The message when `top` has no operand.
const TOP_KINDS: &str = "say of what: top node, or top pods";

pub(super) fn none_left(verb: Verb, words: &[OsString]) -> Result<(), UsageError> {
    match words.first() {
        None => Ok(()),
        Some(word) => usage(verb, format!("unexpected argument {:?}", word.to_string_lossy())),
    }
}

pub(super) fn shell(words: Vec<OsString>) -> Result<Shell, UsageError> {
    let verb = Verb::Completion;
    let known = || value::any_of(&Shell::words());
    match texts(verb, words)?.as_slice() {
        [word] => match Shell::parse(word) {
            Some(shell) => Ok(shell),
            None => usage(verb, format!("no shell {word:?} is known: {}", known())),
        },
        _ => usage(verb, format!("name one shell: {}", known())),
    }
}

pub(super) fn check(options: &Options, words: Vec<OsString>) -> Result<Vec<PathBuf>, UsageError> {
    if words.is_empty() && options.sources.paths.is_empty() {
        return usage(Verb::Check, "no manifest given: name files, directories, or - for standard input");
    }
    check_values(Verb::Check, options)?;
    Ok(words.into_iter().map(PathBuf::from).collect())
}

pub(super) fn forget(options: Box<Options>) -> Result<Command, UsageError> {
    match options.sources.source {
        Some(source) => Ok(Command::Forget(options, source)),
        None => usage(Verb::Forget, "no source given: --source file, or --source http"),
    }
}

/// `get events`, `get sources`, `get pods [NAME...]`, `get pod/NAME...`.
pub(super) fn get(options: Box<Options>, words: Vec<OsString>) -> Result<Command, UsageError> {
    let is_one_of = |kinds: &[&str]| words.first().is_some_and(|word| kinds.iter().any(|kind| word == kind));
    let more = words.get(1..).unwrap_or_default();
    if is_one_of(EVENTS) {
        none_left(Verb::Get, more)?;
        watch_prints_rows(&options)?;
        return Ok(Command::GetEvents(options));
    }
    for_is_for_events(&options)?;
    if is_one_of(SOURCES) {
        none_left(Verb::Get, more)?;
        if options.command.watch {
            return usage(Verb::Get, "--watch is of pods and events: get sources shows one moment");
        }
        return Ok(Command::GetSources(options));
    }
    if is_one_of(IMAGES) {
        none_left(Verb::Get, more)?;
        let command = &options.command;
        if command.watch || command.all_namespaces || !command.selector.is_empty() {
            return usage(
                Verb::Get,
                "-A, -l and --watch are of objects: images have neither namespaces nor labels",
            );
        }
        return Ok(Command::Images(options));
    }
    if let Some((kind, names)) = objects(&words)? {
        return get_objects(options, kind, names);
    }
    if let Some(names) = node_names(&words) {
        if options.command.watch || options.command.all_namespaces {
            return usage(
                Verb::Get,
                "-A and --watch are of pods and events: get node shows one node at one moment",
            );
        }
        return Ok(Command::GetNode(options, names));
    }
    watch_prints_rows(&options)?;
    pod_names(Verb::Get, &options, words).map(|names| Command::Get(options, names))
}

/// `configmaps a b`, `cm/a`: the kind and the names, none for all. Returns `None` when the words name another kind.
fn objects(words: &[OsString]) -> Result<Option<(ObjectKind, Vec<String>)>, UsageError> {
    let words = texts(Verb::Get, words.to_vec())?;
    let kind_of = |word: &str| OBJECTS.iter().find(|(_, all)| all.contains(&word)).map(|(kind, _)| *kind);
    let Some((first, more)) = words.split_first() else { return Ok(None) };
    if let Some(kind) = kind_of(first) {
        return Ok(Some((kind, more.to_vec())));
    }
    let Some(kind) = first.split_once('/').and_then(|(kind, _)| kind_of(kind)) else { return Ok(None) };
    let name = |word: &String| match word.split_once('/') {
        Some((of, name)) if kind_of(of) == Some(kind) && !name.is_empty() => Ok(name.to_owned()),
        _ => usage(Verb::Get, "objects of one kind at a time"),
    };
    Ok(Some((kind, words.iter().map(name).collect::<Result<_, _>>()?)))
}

fn get_objects(options: Box<Options>, kind: ObjectKind, names: Vec<String>) -> Result<Command, UsageError> {
    let command = &options.command;
    if command.watch {
        return usage(Verb::Get, "--watch is of pods and events");
    }
    if !command.field_selector.is_empty() {
        return usage(Verb::Get, "--field-selector is of pods");
    }
    names_alone(Verb::Get, &options, &names)?;
    Ok(Command::GetObjects(options, kind, names))
}

/// `describe node [NAME]`, `describe pod [NAME...]`.
pub(super) fn describe(options: Box<Options>, words: Vec<OsString>) -> Result<Command, UsageError> {
    if let Some(names) = node_names(&words) {
        if options.command.all_namespaces {
            return usage(Verb::Describe, "-A is of pods: a node has no namespace");
        }
        return Ok(Command::DescribeNode(options, names));
    }
    pod_names(Verb::Describe, &options, words).map(|names| Command::Describe(options, names))
}

/// `node a`, `node/a`: the names, none for this node. Returns `None` when the words name another kind.
fn node_names(words: &[OsString]) -> Option<Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (first, more) = words.split_first()?;
    if NODES.contains(&first.as_str()) {
        return Some(more.to_vec());
    }
    let of_node = |word: &String| {
        let (kind, name) = word.split_once('/')?;
        NODES.contains(&kind).then(|| name.to_owned())
    };
    words.iter().map(of_node).collect()
}

/// `top node [NAME]`, `top pods [NAME...]`.
pub(super) fn top(options: Box<Options>, words: Vec<OsString>) -> Result<Command, UsageError> {
    let (kind, more) = match words.split_first() {
        Some((kind, more)) => (kind.to_string_lossy().into_owned(), more.to_vec()),
        None => return usage(Verb::Top, TOP_KINDS),
    };
    if NODES.contains(&kind.as_str()) {
        let command = &options.command;
        if command.top.containers || command.all_namespaces || command.top.sort_by.is_some() {
            return usage(Verb::Top, "-A, --containers and --sort-by are of pods: podkeeper top pods");
        }
        return Ok(Command::TopNode(options, texts(Verb::Top, more)?));
    }
    match kind.contains('/') || value::PODS.contains(&kind.as_str()) {
        true => pod_names(Verb::Top, &options, words).map(|names| Command::TopPods(options, names)),
        false => usage(Verb::Top, format!("{kind:?} has no figures: {TOP_KINDS}")),
    }
}

/// `port-forward POD PORTS...`.
pub(super) fn port_forward(options: Box<Options>, words: Vec<OsString>) -> Result<Command, UsageError> {
    let mut words = texts(Verb::PortForward, words)?;
    if words.len() < 2 {
        return usage(Verb::PortForward, "a pod and at least one port must be given: web 8080:80");
    }
    let ports = words.split_off(1);
    let pod = words.pop().unwrap_or_default();
    let pod = value::strip_kind(&pod).unwrap_or(&pod).to_owned();
    Ok(Command::PortForward(options, pod, ports))
}

/// `logs POD [CONTAINER]`, `logs -l LABELS`.
pub(super) fn logs(mut options: Box<Options>, words: Vec<OsString>) -> Result<Command, UsageError> {
    let logs = &options.logs;
    if logs.since_time.is_some() && !logs.since.is_zero() {
        return usage(Verb::Logs, "at most one of --since and --since-time may be given");
    }
    let mut words = words;
    if words.len() == 2 && options.command.container.is_none() {
        options.command.container = words.pop().map(|word| word.to_string_lossy().into_owned());
    }
    if options.logs.all_containers && options.command.container.is_some() {
        return usage(Verb::Logs, "--all-containers does not go with the name of a container");
    }
    if options.command.selector.is_empty() {
        if options.command.all_namespaces {
            return usage(Verb::Logs, "-A goes with -l: a pod that is named is in one namespace");
        }
        return Ok(Command::Logs(options, LogsOf::Pod(one_pod(Verb::Logs, words)?)));
    }
    match words.as_slice() {
        [] => Ok(Command::Logs(options, LogsOf::Selected)),
        _ => usage(Verb::Logs, "only a selector (-l) or the name of a pod is allowed"),
    }
}

/// `cp FROM TO`: one of the two is in a container.
pub(super) fn cp(mut options: Box<Options>, words: &[OsString]) -> Result<Command, UsageError> {
    let [from, to] = words else {
        return usage(Verb::Cp, "say what to copy, and where to: web:/etc/hosts ./hosts");
    };
    if from.is_empty() || to.is_empty() {
        return usage(Verb::Cp, "filepath can not be empty");
    }
    let (way, (pod, inside), outside) = match (in_container(from)?, in_container(to)?) {
        (Some(there), None) => (Way::Out, there, to),
        (None, Some(there)) => (Way::In, there, from),
        (Some(_), Some(_)) => {
            return usage(Verb::Cp, "one of src or dest must be a local file specification");
        }
        (None, None) => return usage(Verb::Cp, "one of src or dest must be a remote file specification"),
    };
    let pod = match pod.split_once('/') {
        Some((namespace, name)) => {
            options.command.namespace = namespace.to_owned();
            name.to_owned()
        }
        None => pod,
    };
    Ok(Command::Copy(options, Copied { way, pod, inside, outside: outside.into() }))
}

/// `POD:PATH` or `NAMESPACE/POD:PATH`, as kubectl reads them; `None` for a path of this machine.
fn in_container(word: &OsString) -> Result<Option<(String, String)>, UsageError> {
    // A pod's name begins with neither `/` nor `.`; such a path may have a colon.
    let bytes = word.as_encoded_bytes();
    if !bytes.contains(&b':') || bytes.starts_with(b"/") || bytes.starts_with(b".") {
        return Ok(None);
    }
    let text = texts(Verb::Cp, vec![word.clone()])?.pop().unwrap_or_default();
    let (pod, path) = text.split_once(':').unwrap_or_default();
    if pod.split('/').any(str::is_empty) || pod.split('/').count() > 2 {
        return usage(Verb::Cp, "filespec must match the canonical format: [[namespace/]pod:]file/path");
    }
    if path.is_empty() {
        return usage(Verb::Cp, "filepath can not be empty");
    }
    Ok(Some((pod.to_owned(), path.to_owned())))
}

pub(super) fn exec(
    options: Box<Options>,
    words: Vec<OsString>,
    command: Vec<OsString>,
) -> Result<Command, UsageError> {
    let pod = one_pod(Verb::Exec, words)?;
    if command.is_empty() {
        return usage(Verb::Exec, "you must specify at least one command for the container, after --");
    }
    Ok(Command::Exec(options, pod, texts(Verb::Exec, command)?))
}

pub(super) fn debug(
    options: Box<Options>,
    words: Vec<OsString>,
    command: Vec<OsString>,
) -> Result<Command, UsageError> {
    let pod = one_pod(Verb::Debug, words)?;
    if options.command.debug.image.is_none() {
        return usage(Verb::Debug, "you must specify --image");
    }
    if options.command.tty && !options.command.stdin {
        return usage(Verb::Debug, "-i/--stdin is required for containers with -t/--tty=true");
    }
    Ok(Command::Debug(options, pod, texts(Verb::Debug, command)?))
}

fn watch_prints_rows(options: &Options) -> Result<(), UsageError> {
    match options.command.output {
        Output::Json | Output::Yaml if options.command.watch => {
            usage(Verb::Get, "--watch prints rows: it goes with a table, -o wide or -o name")
        }
        _ => Ok(()),
    }
}

fn for_is_for_events(options: &Options) -> Result<(), UsageError> {
    match options.command.for_pod {
        Some(_) => usage(Verb::Get, "--for chooses among events: get events --for pod/NAME"),
        None => Ok(()),
    }
}

pub(super) fn texts(verb: Verb, words: Vec<OsString>) -> Result<Vec<String>, UsageError> {
    let text = |word: OsString| {
        let bad = |w: OsString| UsageError {
            message: format!("argument {:?} is not UTF-8", w.to_string_lossy()),
            verb: Some(verb),
            exit: Exit::Usage,
        };
        word.into_string().map_err(bad)
    };
    words.into_iter().map(text).collect()
}

/// `pods a b`, `pod/a pod/b`: the names; none for all pods.
pub(super) fn pod_names(
    verb: Verb,
    options: &Options,
    words: Vec<OsString>,
) -> Result<Vec<String>, UsageError> {
    let words = texts(verb, words)?;
    let kinds = match verb.about().operands {
        Operands::Kinds(kinds) => kinds,
        _ => &[],
    };
    let kind_wanted = format!("you must specify the type of resource: {}", value::any_of(kinds));
    let names: Vec<String> = match words.as_slice() {
        [] => return usage(verb, kind_wanted),
        [first, ..] if first.contains('/') => {
            let name = |word: &String| match value::strip_kind(word) {
                Some(name) if !name.is_empty() => Ok(name.to_owned()),
                _ => usage(verb, &kind_wanted),
            };
            words.iter().map(name).collect::<Result<_, _>>()?
        }
        [kind, names @ ..] if value::PODS.contains(&kind.as_str()) => names.to_vec(),
        [kind, ..] => return usage(verb, format!("a node has no resource type {kind:?}; {kind_wanted}")),
    };
    names_alone(verb, options, &names)?;
    Ok(names)
}

/// Checks that names stand neither with all namespaces nor with a selector.
fn names_alone(verb: Verb, options: &Options, names: &[String]) -> Result<(), UsageError> {
    let command = &options.command;
    if command.all_namespaces && !names.is_empty() {
        return usage(verb, "a resource cannot be retrieved by name across all namespaces");
    }
    let selects = !command.selector.is_empty() || !command.field_selector.is_empty();
    if selects && !names.is_empty() {
        return usage(verb, "name cannot be provided when a selector is specified");
    }
    Ok(())
}

pub(super) fn one_pod(verb: Verb, words: Vec<OsString>) -> Result<String, UsageError> {
    match texts(verb, words)?.as_slice() {
        [] => usage(verb, "no pod given"),
        [pod] => Ok(value::strip_kind(pod).unwrap_or(pod).to_owned()),
        [_, more, ..] => {
            let hint = if verb == Verb::Exec { " (the command comes after --)" } else { "" };
            usage(verb, format!("unexpected argument {more:?}{hint}"))
        }
    }
}
