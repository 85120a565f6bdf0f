//! `debug`: a container that is added to a running pod, to look into it with tools that its own images lack.
//! It is made here, with labels by which the daemon takes it over: shown in the status, never started again,
//! stopped and removed with its pod.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, PodStatus};

use super::engine::{self, Broken, surprise};
use super::{images, target, terminal};
use crate::base::limits;
use crate::cli::exit::Exit;
use crate::cli::flags::{self, Options};
use crate::cli::{Outcome, pods, say, value};
use crate::layout;
use crate::mapping::ephemeral::{self, Ephemeral, Place};
use crate::mapping::logs::LogDriver;
use crate::mapping::security::{self, User};
use crate::network::files;
use crate::node::sys;
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::policy::Told;
use crate::runtime::docker::Docker;
use crate::runtime::request::AttachOptions;
use crate::runtime::stream::Duplex;
use crate::runtime::{
    Call, ContainerSummary, CreateBody, DockerError, DockerState, RefusalKind, Reply, labels, names,
};
use crate::worker::needs;

/// Letters of a name that is made up: none that could spell a word.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Adds a container to a pod and, with `-i`, attaches to it.
pub fn run(options: &Options, name: &str, command: &[String]) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let pod = target::pod(&status.file, options, name)?;
    let mut docker_options = options.clone();
    docker_options.docker.endpoint = flags::endpoint(&status.file.docker.endpoint)?;
    let docker = engine::docker(&docker_options.docker.endpoint)?;
    let (key, uid) = identity(pod);
    let sandbox = sandbox(&docker, &key, &uid, &status.file.root_dir)?;
    let tty = options.command.tty && terminal::is_usable();
    let container = added(options, container_name(options, pod)?, command, tty);
    let target = options.command.target.as_deref().map(|name| target::running(pod, name)).transpose()?;
    if let Some(name) = &options.command.target {
        say(&format!("Targeting container {name:?}: its processes are seen in the added container."));
    }
    let whole = with_it(pod, &sandbox.labels, &container, options.command.target.as_deref());
    judge(&whole, status.file.policies.get(whole.source.as_str()))?;
    let (user, image) = whom(&docker, &docker_options, &whole, &container)?;
    let wanted = Ephemeral {
        pod: &whole,
        container: &container,
        user,
        target: target.as_deref(),
        hosts: hosts(&sandbox, &uid),
        place: place(&docker, &sandbox)?,
        node_memory: sys::total_memory(),
        oom_floor: sys::oom_floor(),
    };
    let (mut body, container_needs) = ephemeral::body(&wanted, &sandbox.id, &sandbox.labels);
    if let Some(id) = image {
        body.image = id;
    }
    let root_dir = sandbox.labels.get(labels::ROOT_DIR).map_or("", String::as_str);
    needs::complete(&mut body, &container_needs, Path::new(root_dir)).map_err(|error| error.to_string())?;
    let name = names::container(&key, &uid, &container.name, 0);
    let id = create(&docker, &name, &body).map_err(|error| error.to_string())?;
    begin(&docker, &id, options.command.stdin, tty).map_err(|broken| broken.to_string())?;
    Ok(Exit::Ok)
}

/// The container as a manifest would have it.
fn added(options: &Options, name: String, command: &[String], tty: bool) -> Container {
    Container {
        name,
        image: options.command.image.clone(),
        command: Some(command.to_vec()).filter(|words| !words.is_empty()),
        stdin: Some(options.command.stdin),
        tty: Some(tty),
        security_context: options.command.profile.security_context(),
        ..Container::default()
    }
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
    engine::pass_stdin(input)?;
    engine::copy(&mut output, &mut io::stdout().lock(), &mut io::stderr().lock())
}

/// Raw mode; the container's terminal follows the size of ours.
pub(super) fn terminal_for(docker: &Docker, id: &str) -> io::Result<terminal::Raw> {
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
        _ => Err(surprise("create")),
    }
}

fn identity(pod: &Pod) -> (PodKey, String) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (PodKey { namespace, name: text(&pod.metadata.name) }, text(&pod.metadata.uid))
}

/// The pod's newest sandbox that runs. Of the daemon with this root directory: another one on the same Docker may
/// have a pod of that name and UID.
fn sandbox(docker: &Docker, key: &PodKey, uid: &str, root_dir: &str) -> Result<ContainerSummary, String> {
    let root_dir = (!root_dir.is_empty()).then_some((labels::ROOT_DIR, root_dir));
    let labels = [
        (labels::TYPE, labels::TYPE_SANDBOX),
        (labels::POD_NAME, key.name.as_str()),
        (labels::POD_NAMESPACE, key.namespace.as_str()),
        (labels::POD_UID, uid),
    ];
    let labels =
        labels.into_iter().chain(root_dir).map(|(label, value)| format!("{label}={value}")).collect();
    let list = match docker.call(&Call::List { labels }).map_err(|error| error.to_string())? {
        Reply::Containers(list) => list,
        _ => return Err(surprise("container list").to_string()),
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
    let path = files::path(Path::new(root), uid, layout::HOSTS);
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// The cgroup of the pod, and what else its sandbox knows of.
fn place(docker: &Docker, sandbox: &ContainerSummary) -> Result<Place, String> {
    match docker.call(&Call::Inspect { id: sandbox.id.clone() }).map_err(|error| error.to_string())? {
        Reply::Container(detail) => {
            let log_driver = LogDriver::parse(&detail.log_driver).unwrap_or_default();
            Ok(Place { cgroup_parent: detail.cgroup_parent, pids_limit: detail.pids_limit, log_driver })
        }
        _ => Err(surprise("inspect").to_string()),
    }
}

/// The pod with the container in it.
fn with_it(
    pod: &Pod,
    labels: &BTreeMap<String, String>,
    container: &Container,
    target: Option<&str>,
) -> DesiredPod {
    let (key, uid) = identity(pod);
    let mut spec = pod.spec.clone().unwrap_or_default();
    spec.ephemeral_containers.get_or_insert_default().push(ephemeral::as_written(container, target));
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    DesiredPod {
        key,
        uid,
        withheld: Default::default(),
        written: None,
        shape: None,
        source: Source::parse(&label(labels::SOURCE)).unwrap_or(Source::File),
        origin: Origin { path: label(labels::ORIGIN), document: 0 },
        metadata: pod.metadata.clone(),
        spec: Arc::new(spec),
        status: PodStatus::default(),
    }
}

/// Whether a pod of its source may have such a container.
fn judge(pod: &DesiredPod, policy: Option<&Told>) -> Result<(), String> {
    let source = pod.source;
    let Some(policy) = policy else {
        return Err(format!(
            "the daemon does not tell what pods of source {source} may do: nothing is added"
        ));
    };
    let refusals = policy.refusals(&pod.metadata, &pod.spec).map_err(|why| {
        format!("what pods of source {source} may do is not understood (another version?): {why}")
    })?;
    if refusals.is_empty() {
        return Ok(());
    }
    let all: Vec<String> = refusals.iter().map(|r| format!("{}: {}", r.reason, r.message)).collect();
    Err(format!(
        "nothing is added, for pods of source {source} may not have it: {}; see --profile",
        all.join("; ")
    ))
}

/// As whom it runs, by the pod, its own context and its image, which is pulled when it is missing. Where its image has
/// a say, the image that was asked is the one to be used, by its id: the tag may be moved meanwhile.
fn whom(
    docker: &Docker,
    options: &Options,
    pod: &DesiredPod,
    container: &Container,
) -> Result<(Option<String>, Option<String>), String> {
    let image = container.image.clone().unwrap_or_default();
    let inspect = || docker.call(&Call::ImageInspect { image: image.clone() });
    let found = match inspect() {
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => {
            if images::pull(options, std::slice::from_ref(&image))? != Exit::Ok {
                return Err(format!("image {image:?} cannot be had"));
            }
            inspect()
        }
        other => other,
    };
    let detail = match found.map_err(|error| error.to_string())? {
        Reply::Image(detail) => detail,
        _ => return Err(surprise("image inspect").to_string()),
    };
    let asks = matches!(security::user(pod, container, None), User::AsksImage);
    match security::user(pod, container, Some(&detail.user)) {
        User::Is(user) => Ok((user, Some(detail.id).filter(|_| asks))),
        User::Refused(why) => Err(why),
        User::AsksImage => Err(format!("image {image:?} does not tell its user")),
    }
}

/// The name that is given, if the pod has none like it, or one that is made up.
fn container_name(options: &Options, pod: &Pod) -> Result<String, String> {
    let full = pod.metadata.name.as_deref().unwrap_or_default();
    match &options.command.container {
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
    use crate::base::clock::{Clock as _, System};
    use crate::cli::docker::profile::Profile;
    use crate::runtime::fake::Fake;
    use std::sync::Arc;

    #[test]
    fn names() {
        assert_eq!(made_up(0), "debugger-bbbbb");
        assert_eq!(made_up(u64::MAX).len(), "debugger-".len() + 5);
        let node = pods::tests::node();
        let (mut options, _) = pods::tests::options("get pods");
        let pod = target::pod(&node.file, &options, "web").unwrap();
        let mut name = |given: Option<&str>| {
            options.command.container = given.map(str::to_owned);
            container_name(&options, pod)
        };
        assert_eq!(name(Some("look")), Ok("look".to_owned()));
        assert!(name(None).unwrap().starts_with("debugger-"));
        let taken = "container app is in pod web-node1 already; ephemeral containers are not changed";
        assert_eq!(name(Some("app")), Err(taken.to_owned()));
        assert!(name(Some("a.b")).is_err() && name(Some("A")).is_err());
    }

    #[test]
    fn the_sandbox_is_that_of_the_daemon_that_is_asked() {
        let fake = Fake::new(Arc::new(System::start()), 1);
        let key = PodKey { namespace: "default".into(), name: "web".into() };
        let plant = |name: &str, root: &str, attempt: &str| {
            let labels = [
                (labels::TYPE, labels::TYPE_SANDBOX),
                (labels::POD_NAME, "web"),
                (labels::POD_NAMESPACE, "default"),
                (labels::POD_UID, "u"),
                (labels::SANDBOX_ATTEMPT, attempt),
                (labels::ROOT_DIR, root),
            ];
            fake.with(|state| state.plant(name, &labels, true, System::start().now()))
        };
        let (ours, theirs) = (plant("a", "/one", "0"), plant("b", "/other", "7"));
        let docker = Docker::Fake(fake.clone());
        let found = |root: &str| sandbox(&docker, &key, "u", root).map(|sandbox| sandbox.id);
        assert_eq!((found("/one"), found("/other")), (Ok(ours), Ok(theirs)));
        assert!(found("/third").is_err());
    }

    #[test]
    fn the_pods_policy_judges_what_is_added() {
        let pod = r#"{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "x"}]}}"#;
        let pod: &Pod = &serde_json::from_str(pod).unwrap();
        let labels: BTreeMap<String, String> = [(labels::SOURCE.to_owned(), "http".to_owned())].into();
        let added = |profile: &str, level: &str| {
            let container = Container {
                name: "look".into(),
                image: Some("busybox".into()),
                security_context: Profile::parse(profile).unwrap().security_context(),
                ..Container::default()
            };
            let policy = Told { pod_security: Some(level.to_owned()), ..Told::default() };
            let whole = with_it(pod, &labels, &container, Some("app"));
            assert_eq!(whole.source, Source::Http);
            judge(&whole, Some(&policy)).map_err(|why| {
                assert!(why.contains("\"look\""), "{why}");
            })
        };
        for (profile, baseline) in [
            ("legacy", true),
            ("general", false),
            ("baseline", true),
            ("netadmin", false),
            ("sysadmin", false),
        ] {
            assert_eq!(added(profile, "baseline").is_ok(), baseline, "{profile}");
        }
        assert!(judge(&with_it(pod, &labels, &Container::default(), None), None).is_err());
    }
}
