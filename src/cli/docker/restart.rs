//! `restart`: restarts a pod from the beginning, without a change of its manifest. The command renames the sandbox to
//! ask for a restart. The daemon does the rest: it stops the containers with their hooks and grace while their network
//! is there, then the sandbox, and makes another one.
//!
//! Never here: killing a process. A killed sandbox would take the network away from hooks that still need it.

use k8s_openapi::api::core::v1::Pod;

use super::{engine, target};
use crate::cli::exit::Exit;
use crate::cli::flags::Options;
use crate::cli::{Outcome, pods, print};
use crate::runtime::{Call, names};
use crate::status::snapshot::UNMANAGED;
use crate::worker::added;

/// Asks the daemon for another sandbox; the pod's containers are started again.
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
        return Err(format!("the node is drained since {:.0}: no pod of it is started", drain.since));
    }
    if let Some(why) = unmanaged(pod) {
        return Err(format!("pod {full} is not restarted, for no manifest in force names it: {why}"));
    }
    if let Some(why) = failed(pod) {
        return Err(format!("nothing of pod {full} runs, and so nothing is restarted: {why}"));
    }
    pods::must_answer(&options.directories.run, &status.file)?;
    let docker = engine::docker(&crate::cli::flags::endpoint(&status.file.docker.endpoint)?)?;
    let (key, uid) = added::identity(pod);
    let sandbox = added::sandbox(&docker, &key, &uid, &status.file.root_dir)?;
    let asked = match mark(&sandbox.name, added::attempt(&sandbox)) {
        Mark::There => false,
        Mark::Over => {
            return Err(format!(
                "pod {full} has ended, for its deadline has passed: nothing starts it again"
            ));
        }
        Mark::Missing(attempt) => {
            let name = names::to_restart(&key, &uid, attempt);
            match docker.call(&Call::Rename { id: sandbox.id, name }) {
                Ok(_) => true,
                Err(error) => {
                    // Somebody else may have asked in this moment.
                    let sandbox = added::sandbox(&docker, &key, &uid, &status.file.root_dir);
                    let is_there = sandbox.is_ok_and(|it| mark(&it.name, added::attempt(&it)) == Mark::There);
                    if !is_there {
                        return Err(error.to_string());
                    }
                    false
                }
            }
        }
    };
    print(&format!("pod/{full} {}\n", if asked { "restarting" } else { "is restarting already" }));
    Ok(Exit::Ok)
}

/// Why nothing starts the containers of a pod anew that no manifest in force names, and what changes that. A request would
/// wait until a manifest names the pod, and restart it then, unasked.
fn unmanaged(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|status| status.reason.as_deref() == Some(UNMANAGED))?;
    let message = status.message.as_deref().unwrap_or_default().trim_end_matches('.');
    Some(format!("{message}. It can be restarted once a manifest that is accepted names it"))
}

/// Why a pod has failed that is always restarted, such as an eviction, and what starts it.
fn failed(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|status| status.phase.as_deref() == Some("Failed"))?;
    let reason = status.reason.as_deref()?;
    let message = status.message.as_deref().unwrap_or_default().trim_end_matches('.');
    Some(format!("{reason}: {message}. An edited manifest is a new pod, which is judged at once"))
}

/// The request in the name of a sandbox.
#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// A restart is asked for already.
    There,
    /// The pod's deadline has passed.
    Over,
    /// No request; the attempt of the sandbox.
    Missing(u32),
}

fn mark(name: &str, attempt: Option<u32>) -> Mark {
    let name = names::parse(name);
    match name.and_then(|name| name.suffix) {
        Some(names::RESTART) => Mark::There,
        Some(names::DEADLINE) => Mark::Over,
        _ => Mark::Missing(attempt.or(name.map(|name| name.attempt)).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_says_why_and_what_starts_it() {
        let check = |status: &str, expected: Option<&str>| {
            let pod = serde_json::from_str(&format!(r#"{{"metadata": {{}}, "status": {status}}}"#)).unwrap();
            assert_eq!(failed(&pod).as_deref(), expected, "{status}");
        };
        check(r#"{"phase": "Running"}"#, None);
        check(r#"{"phase": "Failed"}"#, None);
        check(
            r#"{"phase": "Failed", "reason": "Evicted", "message": "It starts again at 12:00:00 at the earliest."}"#,
            Some(
                "Evicted: It starts again at 12:00:00 at the earliest. An edited manifest is a new pod, which is judged at \
                 once",
            ),
        );
    }

    /// Regression: the command told that the pod restarts, and nothing happened until its manifest was accepted again.
    #[test]
    fn what_no_manifest_in_force_names_is_not_restarted() {
        let check = |status: &str, expected: Option<&str>| {
            let pod = serde_json::from_str(&format!(r#"{{"metadata": {{}}, "status": {status}}}"#)).unwrap();
            assert_eq!(unmanaged(&pod).as_deref(), expected, "{status}");
        };
        check(r#"{"phase": "Running"}"#, None);
        check(r#"{"phase": "Failed", "reason": "Evicted"}"#, None);
        check(
            r#"{"phase": "Running", "reason": "Unmanaged", "message": "its manifest /m/a.yaml is not accepted"}"#,
            Some(
                "its manifest /m/a.yaml is not accepted. It can be restarted once a manifest that is accepted names it",
            ),
        );
    }

    #[test]
    fn a_sandbox_keeps_its_number_and_is_marked_once() {
        let check = |name: &str, attempt: Option<u32>, expected: Mark| {
            assert_eq!(mark(name, attempt), expected, "{name}");
        };
        check("k8s_POD_web_default_u_4", Some(4), Mark::Missing(4));
        check("k8s_POD_web_default_u_4", None, Mark::Missing(4));
        check("k8s_POD_web_default_u_4_0000beef", Some(4), Mark::Missing(4));
        check("by-hand", Some(4), Mark::Missing(4));
        check("k8s_POD_web_default_u_4_a6a10001", Some(4), Mark::There);
        check("k8s_POD_web_default_u_4_dead11fe", Some(4), Mark::Over);
    }
}
