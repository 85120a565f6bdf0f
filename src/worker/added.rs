//! A container that is added to a running pod: for `podkeeper debug`, and for the API's `ephemeralcontainers`. It is
//! created with labels by which the daemon takes it over: shown in the status, never started again, stopped and removed
//! with its pod.
//!
//! Never here: a container that its source's policy does not allow.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, PodStatus};

use super::needs;
use crate::base::table::Table;
use crate::image::configuration;
use crate::layout;
use crate::mapping::ephemeral::{self, Ephemeral, Place};
use crate::mapping::logs::LogDriver;
use crate::mapping::security::{self, User};
use crate::mapping::{image_volumes, record};
use crate::network::files;
use crate::node::sys;
use crate::pod::{DesiredPod, Origin, PodKey, Source};
use crate::policy::{PolicyView, Refusal};
use crate::runtime::docker::Docker;
use crate::runtime::{
    Call, ContainerSummary, DockerError, DockerState, HostDetail, ImageDetail, Mount, RefusalKind, Reply,
    labels, names,
};

/// The container to add, and its place.
#[derive(Debug)]
pub struct Wanted<'a> {
    pub pod: &'a Pod,
    pub container: &'a EphemeralContainer,
    /// Docker id of the container whose processes it sees.
    pub target: Option<&'a str>,
    /// Root directory of the daemon; empty when it is not known.
    pub root_dir: &'a str,
    /// The policy of each source's pods.
    pub policies: &'a Table<String, PolicyView>,
    /// The source of the requester; `None` if that is the node's root. It may differ from the pod's source: both must
    /// allow the container.
    pub asked_by: Option<Source>,
}

/// How the caller gets images.
pub trait Images {
    /// Called before the image is used, with whether Docker has it.
    ///
    /// # Errors
    /// Why it is not available, as a text for the user.
    fn bring(&mut self, image: &str, is_here: bool) -> Result<(), String>;

    /// Docker's answer about the image.
    ///
    /// # Errors
    /// Docker's.
    fn inspect(&mut self, docker: &Docker, image: &str) -> Result<Reply, DockerError> {
        docker.call(&Call::ImageInspect { image: image.to_owned() })
    }

    /// A container is about to be made for this source, which is behind others. Docker records so many bytes of it.
    ///
    /// # Errors
    /// The reason why it is not made now.
    fn admit(&mut self, _: Source, _: usize) -> Result<(), DockerError> {
        Ok(())
    }
}

/// Creates the container, and returns its id; it is not started.
///
/// # Errors
/// The pod does not run, may not have the container, or Docker refused; as a text for the user.
pub fn make(
    docker: &Docker,
    wanted: &Wanted<'_>,
    images: &mut dyn Images,
    warn: &mut dyn FnMut(&str),
) -> Result<String, NotAdded> {
    let (key, uid) = identity(wanted.pod);
    let sandbox = sandbox(docker, &key, &uid, wanted.root_dir)?;
    let mut whole = with_it(wanted.pod, &sandbox.labels, wanted.container);
    let policy = wanted.policies.get(whole.source.as_str());
    judge(&whole, wanted.policies, wanted.asked_by)?;
    whole.ceiling = policy.and_then(|policy| policy.max_priority).unwrap_or(i32::MAX);
    let container = ephemeral::as_container(wanted.container);
    let behind = |source: Source| wanted.policies.get(source.as_str()).is_some_and(|policy| policy.behind);
    let asks_behind = wanted.asked_by.filter(|source| behind(*source));
    let is_judged = behind(whole.source) || asks_behind.is_some();
    let ephemeral = Ephemeral {
        pod: &whole,
        container: &container,
        target: wanted.target,
        hosts: hosts(&sandbox, &uid),
        place: place(docker, &sandbox).map_err(|error| explain(docker, wanted, &error))?,
        node_memory: sys::total_memory(),
        oom_floor: sys::oom_floor(),
    };
    let (mut body, container_needs) = ephemeral::body(&ephemeral, &sandbox.id, &sandbox.labels);
    let (user, detail) = whom(docker, &whole, &container, is_judged, images)?;
    body.user = user;
    if is_judged {
        // Docker's own: no worker would remove a directory of a pod that ends meanwhile.
        image_volumes::begin_empty(&mut body, &detail.volumes, Mount::empty_volume)?;
        record::note(&mut body, configuration::recorded(&detail))?;
    }
    if let Some((source, recorded)) = asks_behind.zip(record::noted(&body.labels)) {
        images.admit(source, recorded).map_err(|error| error.to_string())?;
    }
    if is_judged || matches!(security::user(&whole, &container, None), User::AsksImage) {
        body.image = detail.id;
    }
    let root_dir = sandbox.labels.get(labels::ROOT_DIR).map_or("", String::as_str);
    needs::complete(&mut body, &container_needs, Path::new(root_dir)).map_err(|error| error.to_string())?;
    let name = names::container(&key, &uid, &container.name, 0);
    let made = docker.call(&Call::Create { name, body: Box::new(body) }).and_then(Reply::created);
    let (id, warnings) = made.map_err(|error| explain(docker, wanted, &error))?;
    warnings.iter().take(crate::base::limits::WARNINGS_PER_CREATE).for_each(|warning| warn(warning));
    Ok(id)
}

/// Why Docker does not make or start the container, for the user: the container that it would join may have ended.
#[must_use]
pub fn explain(docker: &Docker, wanted: &Wanted<'_>, error: &DockerError) -> String {
    let gone = |id: &str| match docker.inspect(id) {
        Ok(found) => found.state != DockerState::Running,
        Err(error) => error.refusal() == Some(&RefusalKind::NoSuchContainer),
    };
    let pod = wanted.pod.metadata.name.as_deref().unwrap_or_default();
    let what = match (error.refusal(), wanted.target) {
        (Some(_), Some(id)) if gone(id) => {
            let name = wanted.container.target_container_name.as_deref().unwrap_or_default();
            format!("container {name:?} in pod {pod:?}")
        }
        (Some(RefusalKind::NoSuchContainer | RefusalKind::SandboxNotRunning), _) => format!("pod {pod:?}"),
        _ => return error.to_string(),
    };
    format!("{what} does not run any more: it has ended or is being restarted; try again when it runs")
}

/// Why a container is not added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAdded {
    /// The policy of a source forbids it.
    Forbidden(String),
    /// Anything else.
    Failed(String),
}

impl fmt::Display for NotAdded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotAdded::Forbidden(why) | NotAdded::Failed(why) => f.write_str(why),
        }
    }
}

impl From<String> for NotAdded {
    fn from(why: String) -> NotAdded {
        NotAdded::Failed(why)
    }
}

/// The name and UID of a pod.
#[must_use]
pub fn identity(pod: &Pod) -> (PodKey, String) {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let namespace = pod.metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    (PodKey { namespace, name: text(&pod.metadata.name) }, text(&pod.metadata.uid))
}

/// The pod's newest running sandbox. It must belong to the daemon with this root directory: another daemon on the same
/// Docker may have a pod of the same name and UID.
///
/// # Errors
/// The pod does not run, or Docker does not answer.
pub fn sandbox(docker: &Docker, key: &PodKey, uid: &str, root_dir: &str) -> Result<ContainerSummary, String> {
    let root_dir = (!root_dir.is_empty()).then_some((labels::ROOT_DIR, root_dir));
    let labels = [
        (labels::TYPE, labels::TYPE_SANDBOX),
        (labels::POD_NAME, key.name.as_str()),
        (labels::POD_NAMESPACE, key.namespace.as_str()),
        (labels::POD_UID, uid),
    ];
    let labels =
        labels.into_iter().chain(root_dir).map(|(label, value)| format!("{label}={value}")).collect();
    let list = docker.list(labels).map_err(|error| error.to_string())?;
    let running = list.into_iter().filter(|c| c.state == DockerState::Running);
    running.max_by_key(attempt).ok_or_else(|| format!("pod {} does not run", key.name))
}

/// The number of a sandbox among those of its pod, if its labels have it.
#[must_use]
pub fn attempt(sandbox: &ContainerSummary) -> Option<u32> {
    sandbox.labels.get(labels::SANDBOX_ATTEMPT)?.parse().ok()
}

/// The path of the pod's hosts file, if it has one.
fn hosts(sandbox: &ContainerSummary, uid: &str) -> Option<String> {
    let root = sandbox.labels.get(labels::ROOT_DIR)?;
    let path = files::path(Path::new(root), uid, layout::HOSTS);
    path.is_file().then(|| path.to_string_lossy().into_owned())
}

/// The pod's cgroup, and other settings from its sandbox.
fn place(docker: &Docker, sandbox: &ContainerSummary) -> Result<Place, DockerError> {
    let detail = docker.inspect(&sandbox.id)?;
    let HostDetail { cgroup_parent, pids_limit, log_driver, .. } = detail.host_config;
    let log_driver = LogDriver::parse(&log_driver).unwrap_or_default();
    Ok(Place { cgroup_parent, pids_limit, log_driver })
}

/// The pod with the container in it, without earlier added ones: they were judged before. `labels` are those of its
/// sandbox.
#[must_use]
pub fn with_it(pod: &Pod, labels: &BTreeMap<String, String>, container: &EphemeralContainer) -> DesiredPod {
    let (key, uid) = identity(pod);
    let mut spec = pod.spec.clone().unwrap_or_default();
    spec.ephemeral_containers = Some(vec![container.clone()]);
    let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
    DesiredPod {
        key,
        uid,
        withheld: Default::default(),
        weight: 0,
        ceiling: i32::MAX,
        written: None,
        shape: None,
        source: Source::parse(&label(labels::SOURCE)).unwrap_or(Source::File),
        origin: Origin { path: label(labels::ORIGIN), document: 0 },
        metadata: pod.metadata.clone(),
        spec: Arc::new(spec),
        status: PodStatus::default(),
    }
}

/// Whether a pod may have such a container, by the policy of its own source, and by that of the requesting source, for
/// which only violations that the container adds count.
///
/// # Errors
/// The pod may not have it, and why.
pub fn judge(
    pod: &DesiredPod,
    policies: &Table<String, PolicyView>,
    asked_by: Option<Source>,
) -> Result<(), NotAdded> {
    refused(pod.source, refusals(pod, &pod.spec, policies, pod.source)?)?;
    let Some(asking) = asked_by.filter(|asking| *asking != pod.source) else { return Ok(()) };
    let mut without = PodSpec::clone(&pod.spec);
    without.ephemeral_containers = None;
    let before = refusals(pod, &without, policies, asking)?;
    let mut brought = refusals(pod, &pod.spec, policies, asking)?;
    brought
        .retain(|one| !before.iter().any(|old| (&old.reason, &old.message) == (&one.reason, &one.message)));
    refused(asking, brought)
}

/// The violations of a source's policy.
fn refusals(
    pod: &DesiredPod,
    spec: &PodSpec,
    policies: &Table<String, PolicyView>,
    source: Source,
) -> Result<Vec<Refusal>, String> {
    let Some(policy) = policies.get(source.as_str()) else {
        return Err(format!(
            "the daemon does not tell what pods of source {source} may do: nothing is added"
        ));
    };
    policy.refusals(&pod.metadata, spec).map_err(|why| {
        format!("what pods of source {source} may do is not understood (another version?): {why}")
    })
}

fn refused(source: Source, refusals: Vec<Refusal>) -> Result<(), NotAdded> {
    if refusals.is_empty() {
        return Ok(());
    }
    let all = listed(&refusals);
    let why = format!("nothing is added, for pods of source {source} may not have it: {all}");
    Err(NotAdded::Forbidden(why))
}

fn listed(refusals: &[Refusal]) -> String {
    let all: Vec<String> = refusals.iter().map(|r| format!("{}: {}", r.reason, r.message)).collect();
    all.join("; ")
}

/// Why a pod of a source may not have this container any more, which an earlier daemon with another policy added. A policy
/// that is not known, or not understood, forbids nothing that runs.
#[must_use]
pub fn forbidden(
    pod: &Pod,
    source: Source,
    container: &EphemeralContainer,
    policies: &Table<String, PolicyView>,
) -> Option<String> {
    let labels = BTreeMap::from([(labels::SOURCE.to_owned(), source.as_str().to_owned())]);
    let whole = with_it(pod, &labels, container);
    let refusals = refusals(&whole, &whole.spec, policies, source).ok()?;
    (!refusals.is_empty()).then(|| listed(&refusals))
}

/// The user that the container runs as, by the pod, its own context and its image, which is brought first. If the image
/// decides, or is to be judged, the inspected image has to be used, by its id, because the tag may be moved meanwhile.
fn whom(
    docker: &Docker,
    pod: &DesiredPod,
    container: &Container,
    is_judged: bool,
    images: &mut dyn Images,
) -> Result<(Option<String>, ImageDetail), String> {
    let image = container.image.clone().unwrap_or_default();
    let is_here = match images.inspect(docker, &image) {
        Ok(_) => true,
        Err(error) if error.refusal() == Some(&RefusalKind::NoSuchImage) => false,
        Err(error) => return Err(error.to_string()),
    };
    images.bring(&image, is_here)?;
    let answer = images.inspect(docker, &image).and_then(Reply::image);
    if let Some(why) = configuration::refusal(&image, &answer).filter(|_| is_judged) {
        return Err(why);
    }
    let detail = answer.map_err(|error| error.to_string())?;
    match security::user(pod, container, Some(&detail.user)) {
        User::Is(user) => Ok((user, detail)),
        User::Refused(why) => Err(why),
        User::AsksImage => Err(format!("image {image:?} does not tell its user")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::SecurityContext;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;
    use crate::base::clock::{Clock as _, System};
    use crate::runtime::fake::Fake;

    #[test]
    fn who_asks_from_another_source_brings_nothing_that_pods_of_that_source_may_not_have() {
        let pod = |host_network: bool| Pod {
            spec: Some(PodSpec { host_network: Some(host_network), ..PodSpec::default() }),
            ..Pod::default()
        };
        let labels: BTreeMap<String, String> = [(labels::SOURCE.to_owned(), "file".to_owned())].into();
        let told = |level: &str, allow_privileged| PolicyView {
            pod_security: Some(level.to_owned()),
            allow_privileged,
            ..PolicyView::default()
        };
        let policies = Table::from([
            ("file".to_owned(), told("privileged", true)),
            ("api".to_owned(), told("baseline", false)),
        ]);
        let added = |host_network, privileged, asked_by| {
            let container = EphemeralContainer {
                name: "look".into(),
                security_context: Some(SecurityContext {
                    privileged: Some(privileged),
                    ..Default::default()
                }),
                ..EphemeralContainer::default()
            };
            judge(&with_it(&pod(host_network), &labels, &container), &policies, asked_by)
        };
        assert_eq!(added(false, true, None), Ok(()), "root of the node");
        assert_eq!(added(false, true, Some(Source::File)), Ok(()));
        let why = added(false, true, Some(Source::Api)).unwrap_err();
        let why = why.to_string();
        assert!(why.contains("for pods of source api") && why.contains("\"look\""), "{why}");
        assert_eq!(added(true, false, Some(Source::Api)), Ok(()), "what the pod has is not what it brings");
        assert!(added(true, true, Some(Source::Api)).is_err());
    }

    /// `debug` showed Docker's "cannot join PID of a non running container" with an id.
    #[test]
    fn a_container_that_is_joined_and_has_ended_is_named() {
        use crate::runtime::Refusal;
        let fake = Fake::new(Arc::new(System::start()), 1);
        let plant = |name: &str, runs| fake.with(|state| state.plant(name, &[], runs, System::start().now()));
        let (runs, ended) = (plant("a", true), plant("b", false));
        let docker = Docker::Fake(fake.clone());
        let pod = Pod {
            metadata: ObjectMeta { name: Some("web-n1".into()), ..ObjectMeta::default() },
            ..Pod::default()
        };
        let container =
            EphemeralContainer { target_container_name: Some("app".into()), ..EphemeralContainer::default() };
        let said = |target: Option<&str>, kind: RefusalKind| {
            let policies = Table::new();
            let wanted = Wanted {
                pod: &pod,
                container: &container,
                target,
                root_dir: "",
                policies: &policies,
                asked_by: None,
            };
            let message = format!("cannot join PID of a non running container: {}", "ab".repeat(32));
            explain(&docker, &wanted, &DockerError::Refused(Refusal { kind, status: 409, message }))
        };
        let rest = "does not run any more: it has ended or is being restarted; try again when it runs";
        let of_target = format!("container \"app\" in pod \"web-n1\" {rest}");
        for gone in [ended.as_str(), "removed"] {
            assert_eq!(said(Some(gone), RefusalKind::SandboxNotRunning), of_target);
            assert_eq!(said(Some(gone), RefusalKind::Server), of_target);
        }
        let of_pod = format!("pod \"web-n1\" {rest}");
        assert_eq!(said(Some(&runs), RefusalKind::SandboxNotRunning), of_pod);
        assert_eq!(said(None, RefusalKind::NoSuchContainer), of_pod);
        assert!(
            said(Some(&runs), RefusalKind::Server).starts_with("cannot join PID"),
            "nothing else is known"
        );
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
}
