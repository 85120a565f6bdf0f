//! `restart`: a pod from the beginning, without a change of its manifest. Its sandbox is ended, and the daemon does the
//! rest as always: it stops the containers with their hooks and grace, and starts the pod anew.

use super::{engine, target};
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, print};
use crate::runtime::Call;
use crate::worker::added;

/// Ends the sandbox of a pod whose containers are started again.
pub fn run(options: &Options, name: &str) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let pod = target::pod(&status.file, options, name)?;
    let full = pod.metadata.name.as_deref().unwrap_or(name);
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    if policy != "Always" {
        return Err(format!(
            "pod {full} has restartPolicy {policy}: what is stopped of it is not started again, and so nothing is stopped"
        ));
    }
    if let Some(drain) = &status.file.drain {
        return Err(format!("the node is drained since {}: no pod of it is started", drain.since));
    }
    pods::must_answer(&options.directories.run, &status.file)?;
    let docker = engine::docker(&crate::cli::flags::endpoint(&status.file.docker.endpoint)?)?;
    let (key, uid) = added::identity(pod);
    let sandbox = added::sandbox(&docker, &key, &uid, &status.file.root_dir)?;
    let kill = Call::Kill { id: sandbox.id, signal: "SIGKILL".to_owned() };
    docker.call(&kill).map_err(|error| error.to_string())?;
    print(&format!("pod/{full} restarting\n"));
    Ok(Exit::Ok)
}
