//! `debug`: a container that is added to a running pod, to look into it with tools that its own images lack.
//! It is made here, with labels by which the daemon takes it over: shown in the status, never started again,
//! stopped and removed with its pod.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use super::engine::{self, Broken};
use super::exit::Exit;
use super::parse::Options;
use super::{fail, images, options, pods, say, target, terminal, value};
use crate::config::Endpoint;
use crate::limits;
use crate::network::files;
use crate::pod::PodKey;
use crate::runtime::client::Client;
use crate::runtime::docker::Docker;
use crate::runtime::map::LogLimits;
use crate::runtime::map::ephemeral::{self, Ephemeral, Shares};
use crate::runtime::request::AttachOptions;
use crate::runtime::stream::Duplex;
use crate::runtime::{
    Call, ContainerSummary, CreateBody, DockerError, DockerState, RefusalKind, Reply, labels, names,
};

/// Letters of a name that is made up: none that could spell a word.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// What is kept of its output.
const LOGS: LogLimits = LogLimits { max_bytes: Some(1024 * 1024), max_files: 5 };

/// Adds a container to a pod and, with `-i`, attaches to it.
pub fn run(options: &Options, pod: &str, command: &[String]) -> Exit {
    match add(options, pod, command) {
        Ok(()) => Exit::Ok,
        Err(message) => fail(&message),
    }
}

fn add(options: &Options, name: &str, command: &[String]) -> Result<(), String> {
    let Ok(status) = pods::load(&options.run_dir) else { return Err("there is no daemon to ask".to_owned()) };
    let pod = target::pod(&status.file, options, name)?;
    let docker_options =
        Options { docker: options::endpoint(&status.file.docker.endpoint)?, ..options.clone() };
    let Endpoint::Unix(socket) = &docker_options.docker else {
        return Err("the daemon runs on fake://: its containers live in its memory only".to_owned());
    };
    let docker = Docker::Engine(Client::new(socket));
    let (key, uid) = identity(pod);
    let sandbox = sandbox(&docker, &key, &uid)?;
    let tty = options.tty && terminal::is_there();
    if options.tty && !tty {
        say("Unable to use a TTY - input is not a terminal or the right kind of file");
    }
    let image = options.image.as_deref().unwrap_or_default();
    let added = container_name(options, pod)?;
    let target = options.target.as_deref().map(|name| target::running(pod, name)).transpose()?;
    if let Some(name) = &options.target {
        say(&format!("Targeting container {name:?}: its processes are seen, whatever they may do."));
    }
    let wanted = Ephemeral {
        name: &added,
        image,
        command,
        stdin: options.stdin,
        tty,
        target: target.as_deref(),
        shares: shares(pod.spec.as_ref()),
        hosts: hosts(&sandbox, &uid),
    };
    let body = ephemeral::body(&wanted, &sandbox.id, &sandbox.labels, LOGS.config());
    let name = names::container(&key, &uid, &added, 0);
    let id = match create(&docker, &name, &body) {
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => {
            if images::pull(&docker_options, &[image.to_owned()]) != Exit::Ok {
                return Err(format!("image {image:?} cannot be had"));
            }
            create(&docker, &name, &body)
        }
        other => other,
    }
    .map_err(|error| error.to_string())?;
    begin(&docker, &id, options.stdin, tty).map_err(|broken| match broken {
        Broken::Docker(error) => error.to_string(),
        Broken::Output(error) => format!("cannot write: {error}"),
    })
}

/// Starts it. With standard input, its streams are ours until its end.
fn begin(docker: &Docker, id: &str, stdin: bool, tty: bool) -> Result<(), Broken> {
    let start = Call::Start { id: id.to_owned() };
    if !stdin {
        docker.call(&start)?;
        return Ok(());
    }
    // Before the start, or its first words would be missed.
    let Duplex { mut output, input } = docker.attach(id, AttachOptions { stdin, logs: false }, tty)?;
    let _raw = match tty {
        true => Some(terminal_for(docker, id).map_err(Broken::Output)?),
        false => None,
    };
    docker.call(&start)?;
    if let Some((rows, columns)) = terminal::size().filter(|_| tty) {
        // A size that does not arrive spoils a picture, no more.
        _ = docker.call(&Call::Resize { id: id.to_owned(), rows, columns });
    }
    let pump = move || engine::pump(&mut io::stdin().lock(), input);
    std::thread::Builder::new().name("pk-stdin".into()).spawn(pump).map_err(Broken::Output)?;
    engine::copy(&mut output, &mut io::stdout().lock(), &mut io::stderr().lock())
}

fn terminal_for(docker: &Docker, id: &str) -> io::Result<terminal::Raw> {
    let (docker, id) = (docker.clone(), id.to_owned());
    terminal::Raw::enter(move |rows, columns| {
        _ = docker.call(&Call::Resize { id: id.clone(), rows, columns });
    })
}

fn create(docker: &Docker, name: &str, body: &CreateBody) -> Result<String, DockerError> {
    let call = Call::Create { name: name.to_owned(), body: Box::new(body.clone()) };
    match docker.call(&call)? {
        Reply::Created { id, warnings } => {
            warnings.iter().take(limits::WARNINGS_PER_CREATE).for_each(|w| say(&format!("warning: {w}")));
            Ok(id)
        }
        _ => Err(DockerError::BadAnswer("create: an answer of another kind".to_owned())),
    }
}

fn identity(pod: &Pod) -> (PodKey, String) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (PodKey { namespace, name: text(&pod.metadata.name) }, text(&pod.metadata.uid))
}

/// The pod's newest sandbox that runs.
fn sandbox(docker: &Docker, key: &PodKey, uid: &str) -> Result<ContainerSummary, String> {
    let labels = [
        (labels::TYPE, labels::TYPE_SANDBOX),
        (labels::POD_NAME, key.name.as_str()),
        (labels::POD_NAMESPACE, key.namespace.as_str()),
        (labels::POD_UID, uid),
    ];
    let labels = labels.map(|(label, value)| format!("{label}={value}")).to_vec();
    let list = match docker.call(&Call::List { labels }).map_err(|error| error.to_string())? {
        Reply::Containers(list) => list,
        _ => Vec::new(),
    };
    let attempt = |c: &ContainerSummary| -> u32 {
        c.labels.get(labels::SANDBOX_ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let running = list.into_iter().filter(|c| c.state == DockerState::Running);
    running
        .max_by_key(attempt)
        .ok_or_else(|| format!("pod {} does not run: a container is added to running pods only", key.name))
}

/// Where the pod's hosts file is, if there is one.
fn hosts(sandbox: &ContainerSummary, uid: &str) -> Option<String> {
    let root = sandbox.labels.get(labels::ROOT_DIR)?;
    let path = files::path(Path::new(root), uid, files::HOSTS);
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

fn shares(spec: Option<&PodSpec>) -> Shares {
    let is = |field: fn(&PodSpec) -> Option<bool>| spec.and_then(field).unwrap_or(false);
    Shares {
        host_network: is(|spec| spec.host_network),
        host_pid: is(|spec| spec.host_pid),
        processes: is(|spec| spec.share_process_namespace),
    }
}

/// The name that is given, if the pod has none like it, or one that is made up.
fn container_name(options: &Options, pod: &Pod) -> Result<String, String> {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    match &options.container {
        Some(name) if !value::is_dns_subdomain(name) || name.contains('.') || name.len() > 63 => {
            Err(format!("{name:?} is no name for a container: lower-case letters, digits and '-' only"))
        }
        Some(name) if target::is_taken(pod, name) => {
            Err(format!("container {name} is in pod {full} already; ephemeral containers are not changed"))
        }
        Some(name) => Ok(name.clone()),
        None => {
            let name = made_up(RandomState::new().build_hasher().finish());
            say(&format!("Defaulting debug container name to {name}."));
            Ok(name)
        }
    }
}

/// `debugger-` and five letters.
fn made_up(mut random: u64) -> String {
    let count = u64::try_from(LETTERS.len()).unwrap_or(1);
    let mut name = "debugger-".to_owned();
    for _ in 0..5 {
        let at = usize::try_from(random % count).unwrap_or(0);
        name.extend(LETTERS.get(at).map(|letter| char::from(*letter)));
        random /= count;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(made_up(0), "debugger-bbbbb");
        assert_eq!(made_up(u64::MAX).len(), "debugger-".len() + 5);
        let node = pods::tests::node();
        let (mut options, _) = pods::tests::options("get pods");
        let pod = target::pod(&node.file, &options, "web").unwrap();
        let mut name = |given: Option<&str>| {
            options.container = given.map(str::to_owned);
            container_name(&options, pod)
        };
        assert_eq!(name(Some("look")), Ok("look".to_owned()));
        assert!(name(None).unwrap().starts_with("debugger-"));
        let taken = "container app is in pod web-node1 already; ephemeral containers are not changed";
        assert_eq!(name(Some("app")), Err(taken.to_owned()));
        assert!(name(Some("a.b")).is_err() && name(Some("A")).is_err());
    }

    #[test]
    fn a_pod_shares_what_its_spec_says() {
        let spec: PodSpec = serde_json::from_str(r#"{"containers": [], "hostPID": true}"#).unwrap();
        assert_eq!(shares(Some(&spec)), Shares { host_pid: true, ..Shares::default() });
        assert_eq!(shares(None), Shares::default());
    }
}
