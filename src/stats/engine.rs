//! Data that only Docker has about pods' files: its root directory, the files of containers, sandboxes.

use std::path::{Path, PathBuf};

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
        for container in &mut pod.containers {
            container.files = files(docker, &container.id)?;
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
    match docker.call(&Call::List { labels: wanted.into() })? {
        Reply::Containers(mut all) => {
            all.retain(|it| it.state == DockerState::Running);
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

fn files(docker: &Docker, id: &str) -> Result<Option<ContainerFiles>, DockerError> {
    let ask = |size| match docker.call(&Call::Files { id: id.to_owned(), size }) {
        Ok(Reply::Files(files)) => Ok(Some(*files)),
        Ok(_) | Err(DockerError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    };
    let found = ask(false)?;
    match &found {
        // Only some storage drivers have a directory that podkeeper can count.
        Some(files) if files.upper_dir.is_none() => ask(true),
        _ => Ok(found),
    }
}
