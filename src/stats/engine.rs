//! Data that only Docker has about pods' files: its root directory, the files of containers, sandboxes.

use std::path::{Path, PathBuf};

use super::asking::{self, Question};
use super::summary::asked::Asked;
use crate::runtime::docker::Docker;
use crate::runtime::{Call, ContainerFiles, ContainerSummary, DockerError, DockerState, Reply, labels};

/// Adds data that only Docker has: where its files are, and which containers are sandboxes. A container that is gone
/// meanwhile counts as zero.
///
/// # Errors
/// Errors of Docker.
pub fn ask(docker: &Docker, asked: &mut Asked) -> Result<(), DockerError> {
    asked.socket = docker.socket().map(Path::to_owned);
    if let Reply::Info(info) = docker.call(&Call::Info)? {
        asked.docker_root = Some(PathBuf::from(info.root_dir)).filter(|root| root.is_absolute());
    }
    let sandboxes = sandboxes(docker, &asked.root_dir)?;
    for pod in &mut asked.pods {
        let is_of = |it: &&ContainerSummary| it.labels.get(labels::POD_UID) == Some(&pod.reference.uid);
        pod.sandbox = sandboxes.iter().find(is_of).map(|it| it.id.clone());
    }
    files(docker, asked)
}

/// Asks about all containers at once: a slow Docker takes long for each.
fn files(docker: &Docker, asked: &mut Asked) -> Result<(), DockerError> {
    for question in [Question::Places, Question::Sizes] {
        // Only some storage drivers have a directory that podkeeper can count.
        let is_open = |files: &Option<ContainerFiles>| match question {
            Question::Places => files.is_none(),
            Question::Sizes => files.as_ref().is_some_and(|files| files.upper_dir.is_none()),
        };
        let all = || asked.pods.iter().flat_map(|pod| &pod.containers);
        let ids: Vec<String> = all().filter(|it| is_open(&it.files)).map(|it| it.id.clone()).collect();
        let mut found = asking::files(docker, &ids, question, &|| ()).found;
        if let Some(id) = ids.iter().find(|id| !found.contains_key(*id)) {
            return Err(DockerError::Timeout(format!("GET /containers/{id}/json")));
        }
        for container in asked.pods.iter_mut().flat_map(|pod| &mut pod.containers) {
            if let Some(files) = found.remove(&container.id) {
                container.files = files;
            }
        }
    }
    Ok(())
}

/// Sandboxes that run.
fn sandboxes(docker: &Docker, root_dir: &Path) -> Result<Vec<ContainerSummary>, DockerError> {
    let wanted = [
        format!("{}={}", labels::TYPE, labels::TYPE_SANDBOX),
        format!("{}={}", labels::ROOT_DIR, root_dir.display()),
    ];
    let mut all = docker.list(wanted.into())?;
    all.retain(|it| it.state == DockerState::Running);
    Ok(all)
}
