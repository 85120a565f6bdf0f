//! A container that is added to a running pod, from its request to its start. That waits for images and for Docker, so it
//! belongs on a thread of its own.
//!
//! Never here: what is told of it.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EphemeralContainer, Pod, PodStatus};
use serde_json::Value;

use super::added::{self, Images, Wanted};
use super::judged::Judging;
use super::pulls::{PullPolicy, Pulls};
use crate::base::json::json;
use crate::base::table::Table;
use crate::manifest::{self, Context};
use crate::pod::Source;
use crate::pod::problem::Severity;
use crate::policy::PolicyView;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, DockerError, DockerState, RefusalKind, Reply, names};

/// Adds containers to pods. Clones share everything.
#[derive(Debug, Clone)]
pub struct Adder {
    pub docker: Docker,
    /// `--root-dir`.
    pub root_dir: PathBuf,
    pub pulls: Pulls,
    pub judging: Judging,
}

/// A pod with its new container, which a user of an API server, or of this node's, has asked for.
#[derive(Debug, Clone)]
pub struct Job {
    pub pod: Arc<Pod>,
    pub policies: Arc<Table<String, PolicyView>>,
    pub container: EphemeralContainer,
    /// Docker id of the container whose processes it sees.
    pub target: Option<String>,
}

impl Adder {
    /// Makes and starts the container. `is_wanted`: whether its pod is still there.
    ///
    /// # Errors
    /// Why it does not run, as a text for the user.
    pub fn add(&self, job: &Job, is_wanted: &dyn Fn() -> bool) -> Result<(), String> {
        let wanted = Wanted {
            pod: &job.pod,
            container: &job.container,
            target: job.target.as_deref(),
            root_dir: self.root_dir.to_str().unwrap_or_default(),
            policies: &job.policies,
            asked_by: Some(Source::Api),
        };
        let policy =
            PullPolicy::of(job.container.image_pull_policy.as_deref(), job.container.image.as_deref());
        let mut images = OfJob { adder: self, policy, is_wanted };
        let mut warn = |warning: &str| log::warn!("container {}: {warning}", job.container.name);
        self.remove_unstarted(job)?;
        let id = added::make(&self.docker, &wanted, &mut images, &mut warn).map_err(|why| why.to_string())?;
        let started = self.docker.call(&Call::Start { id });
        let started = started.map(|_| ()).map_err(|error| added::explain(&self.docker, &wanted, &error));
        if let Err(why) = &started {
            let name = job.pod.metadata.name.as_deref().unwrap_or_default();
            log::warn!("container {} is not added to pod {name}: {why}", job.container.name);
        }
        started
    }
}

impl Adder {
    /// Kills an added container. One that has ended meanwhile is as good.
    ///
    /// # Errors
    /// Docker's, as a text for the user.
    pub fn kill(&self, id: String) -> Result<(), String> {
        match self.docker.call(&Call::Kill { id, signal: "SIGKILL".to_owned() }) {
            Ok(_) => Ok(()),
            Err(error)
                if matches!(
                    error.refusal(),
                    Some(RefusalKind::NotRunning | RefusalKind::NoSuchContainer)
                ) =>
            {
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Removes a container that was created for this one and never started: a daemon was killed, or Docker did not answer.
    /// It may have been created under other rules.
    fn remove_unstarted(&self, job: &Job) -> Result<(), String> {
        let (key, uid) = added::identity(&job.pod);
        match self.docker.inspect(&names::container(&key, &uid, &job.container.name, 0)) {
            Ok(found) if found.state == DockerState::Created => {
                let removal = Call::Remove { id: found.id, force: false };
                self.docker.call(&removal).map(|_| ()).map_err(|error| error.to_string())
            }
            // The names of others are Docker's to refuse.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// The images of a pod's new container.
struct OfJob<'a> {
    adder: &'a Adder,
    policy: PullPolicy,
    is_wanted: &'a dyn Fn() -> bool,
}

impl Images for OfJob<'_> {
    fn bring(&mut self, image: &str, is_here: bool) -> Result<(), String> {
        self.adder.pulls.bring(image, self.policy, is_here, self.is_wanted)
    }

    fn inspect(&mut self, docker: &Docker, image: &str) -> Result<Reply, DockerError> {
        self.adder.judging.inspect(docker, image)
    }

    fn admit(&mut self, source: Source, recorded: usize) -> Result<(), DockerError> {
        self.adder.judging.admit(source, recorded)
    }
}

/// Docker's id of a running container of the pod with this status.
#[must_use]
pub fn running<'a>(status: &'a PodStatus, name: &str) -> Option<&'a str> {
    let mut found = status.container_statuses.iter().flatten().filter(|status| status.name == name);
    let running = found.find(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    names::docker_id(running?.container_id.as_deref()?)
}

/// Checks a container that is to be added like one of a manifest, and for fields that it cannot have on this node.
///
/// # Errors
/// The field, below the container, and what is wrong with it.
pub fn check(one: &Value) -> Result<(), (String, String)> {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(all) => all.is_empty(),
        _ => false,
    };
    let fields = one.as_object().into_iter().flatten();
    let mut fields =
        fields.filter(|(field, value)| !CARRIED_OUT.contains(&field.as_str()) && !is_empty(value));
    if let Some((field, _)) = fields.next() {
        let why = "Forbidden: a container that is added cannot have it on this node";
        return Err((field.clone(), why.to_owned()));
    }
    let env = one.get("env").and_then(Value::as_array).into_iter().flatten();
    if env.into_iter().any(|variable| variable.get("valueFrom").is_some_and(|from| !from.is_null())) {
        let why = "Forbidden: the variables of a container that is added are plain values";
        return Err(("env".to_owned(), why.to_owned()));
    }
    let mut container = one.clone();
    if let Value::Object(fields) = &mut container {
        fields.remove("targetContainerName");
    }
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "added", "uid": "added"},
                     "spec": {"containers": [container]}});
    let context = Context { node_name: "node", source: Source::Api, path: "added" };
    let decoded = manifest::decode(pod.to_string().as_bytes(), &context);
    let mut errors = decoded.problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.next().map_or(Ok(()), |first| {
        let field = first.field.clone().unwrap_or_default();
        Err((field.trim_start_matches("spec.containers[0].").to_owned(), first.message.clone()))
    })
}

/// Supported fields of an added container.
const CARRIED_OUT: &[&str] = &[
    "name",
    "image",
    "imagePullPolicy",
    "command",
    "args",
    "env",
    "workingDir",
    "stdin",
    "stdinOnce",
    "tty",
    "securityContext",
    "targetContainerName",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "resources",
];
