//! Dead containers of pods that no source wants any more. A worker removes the containers of its own pod, and keeps
//! the last dead instance of each for its logs, restart count and exit code; the containers here are those that no
//! worker has removed yet. Pure.

use super::wants::Wants;
use crate::runtime::{ContainerSummary, DockerState, labels};

/// The dead containers of this root directory whose pods no source wants. None, before every source has reported.
pub fn unneeded<'a>(
    containers: &'a [ContainerSummary],
    root_dir: &str,
    wants: &Wants,
) -> impl Iterator<Item = &'a ContainerSummary> {
    containers.iter().filter(move |container| is_unneeded(container, root_dir, wants))
}

/// Whether the container is one of these.
#[must_use]
pub fn is_unneeded(container: &ContainerSummary, root_dir: &str, wants: &Wants) -> bool {
    let label = |name| container.labels.get(name).map(String::as_str);
    let ours = label(labels::ROOT_DIR) == Some(root_dir);
    let (Some(namespace), Some(name)) = (label(labels::POD_NAMESPACE), label(labels::POD_NAME)) else {
        return false;
    };
    let dead = matches!(container.state, DockerState::Exited | DockerState::Removing);
    wants.heard && ours && dead && !wants.pods.contains(&format!("{namespace}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garbage::images::tests::container;

    #[test]
    fn only_what_is_ours_and_dead_and_of_a_pod_that_nobody_wants() {
        let make = |root: &str, pod: &str, state| {
            let mut made = container(pod, "sha256:1");
            made.state = state;
            let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            made.labels = [
                label(labels::ROOT_DIR, root),
                label(labels::POD_NAMESPACE, "default"),
                label(labels::POD_NAME, pod),
            ]
            .into();
            made
        };
        let all = [
            make("/r", "gone", DockerState::Exited),
            make("/r", "stuck", DockerState::Removing),
            make("/r", "here", DockerState::Exited),
            make("/r", "runs", DockerState::Running),
            make("/r", "new", DockerState::Created),
            make("/other", "gone", DockerState::Exited),
            ContainerSummary { state: DockerState::Exited, ..container("stranger", "sha256:1") },
        ];
        let mut wants = Wants { pods: ["default/here".to_owned()].into(), ..Wants::default() };
        assert_eq!(unneeded(&all, "/r", &wants).count(), 0, "nobody knows yet what is wanted");
        wants.heard = true;
        let names: Vec<&str> = unneeded(&all, "/r", &wants).map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["gone", "stuck"]);
    }
}
