//! `pods/ephemeralcontainers`: containers that are added to a running pod, as `kubectl debug` does
//! (`pkg/registry/core/pod/strategy.go`, `podEphemeralContainersStrategy`).
//!
//! Whether a container may be added is decided at once; a thread `pk-added` then makes it, because its image may have
//! to be pulled. Requests are remembered as long as the daemon runs; after that the pod's status shows the containers.

use std::sync::Arc;

use crate::base::json::json;
use k8s_openapi::api::core::v1::{EphemeralContainer, Pod};
use serde_json::Value;

use crate::api::failure::Failure;
use crate::api::kinds::{Resource, of};
use crate::api::told::{Added, ApiBoard};
use crate::api::value::{part, place};
use crate::base::json;
use crate::base::{limits, thread};
use crate::pod::Source;
use crate::pod::waiting::Reason;
use crate::server::pool::Count;
use crate::status::snapshot::Snapshot;
use crate::worker::added;
use crate::worker::adding::{self, Adder, Job};

const FIELD: &str = "spec.ephemeralContainers";

fn list(pod: &Value) -> Vec<Value> {
    part(pod, "/spec/ephemeralContainers").as_array().cloned().unwrap_or_default()
}

fn name(container: &Value) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Adds the added containers to a shown pod: those that were requested, and those of the status.
pub fn show(pod: &mut Value, asked: &[Added]) {
    let statuses = part(pod, "/status/ephemeralContainerStatuses").as_array().cloned().unwrap_or_default();
    let mut spec: Vec<Value> = asked.iter().map(|one| Value::clone(&one.container)).collect();
    let mut all = statuses.clone();
    for status in &statuses {
        if !spec.iter().any(|known| name(known) == name(status)) {
            spec.push(json!({"name": name(status), "image": status.get("image")}));
        }
    }
    for Added { container, failure, was_there } in asked {
        if !statuses.iter().any(|status| name(status) == name(container)) {
            let state = match failure {
                // The kubelet's words for a container that it started and does not find any more
                // (`pkg/kubelet/kubelet_pods.go`).
                _ if *was_there => json!({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown",
                    "message": "The container could not be located when the pod was terminated"}}),
                None => json!({"waiting": {"reason": Reason::ContainerCreating.as_str()}}),
                // It is not tried again. The exit code is Docker's for a command that it cannot start, and the kubelet's.
                Some(why) => json!({"terminated": {"exitCode": 128,
                    "reason": Reason::CreateContainerError.as_str(), "message": why}}),
            };
            all.push(json!({"name": name(container), "image": container.get("image"), "imageID": "",
                            "ready": false, "restartCount": 0, "state": state}));
        }
    }
    if !spec.is_empty() {
        *place(pod, &["spec", "ephemeralContainers"]) = spec.into();
        *place(pod, &["status", "ephemeralContainerStatuses"]) = all.into();
    }
}

/// The new ones among the added containers of a pod.
///
/// # Errors
/// A new container is not allowed, or an existing one is missing or has changed.
pub fn news(live: &Value, wanted: &Value) -> Result<Vec<EphemeralContainer>, Failure> {
    let (before, after) = (list(live), list(wanted));
    let pod = name(part(live, "/metadata"));
    let invalid = |why: String| match of(Resource::Pods) {
        Some(kind) => Failure::invalid_field(kind, pod, &why),
        None => Failure::new(422, why),
    };
    for old in &before {
        let forbidden = |what: &str| {
            invalid(format!(
                "{FIELD}: Forbidden: existing ephemeral containers {:?} may not be {what}",
                name(old)
            ))
        };
        match after.iter().find(|new| name(new) == name(old)) {
            None => return Err(forbidden("removed")),
            Some(new) if new != old => return Err(forbidden("changed")),
            Some(_) => {}
        }
    }
    if after.len() > limits::API_ADDED_OF_POD {
        return Err(invalid(format!(
            "{FIELD}: Too many: must have at most {} items",
            limits::API_ADDED_OF_POD
        )));
    }
    let names_of = |field: &str| {
        let all = part(live, &format!("/spec/{field}")).as_array().into_iter().flatten();
        all.map(|one| name(one).to_owned()).collect::<Vec<String>>()
    };
    let others = [names_of("containers"), names_of("initContainers")].concat();
    let mut all = Vec::new();
    for (at, one) in after.iter().enumerate() {
        if before.contains(one) {
            continue;
        }
        check(&format!("{FIELD}[{at}]"), one, &names_of("containers")).map_err(&invalid)?;
        let twice = || after.iter().filter(|other| name(other) == name(one)).count() > 1;
        if others.iter().any(|other| other == name(one)) || twice() {
            return Err(invalid(format!("{FIELD}[{at}].name: Duplicate value: {:?}", name(one))));
        }
        all.push(
            json::read::<EphemeralContainer>(one).map_err(|why| invalid(format!("{FIELD}[{at}]: {why}")))?,
        );
    }
    Ok(all)
}

fn check(at: &str, one: &Value, containers: &[String]) -> Result<(), String> {
    let Value::Object(_) = one else { return Err(format!("{at}: Invalid value: it is no object")) };
    if one.to_string().len() > limits::API_ADDED_BYTES {
        let most = limits::API_ADDED_BYTES;
        return Err(format!("{at}: Too long: as JSON it may not have more than {most} bytes"));
    }
    if part(one, "/resources").as_object().is_some_and(|resources| !resources.is_empty()) {
        return Err(format!("{at}.resources: Forbidden: cannot be set for an Ephemeral Container"));
    }
    adding::check(one).map_err(|(field, why)| format!("{at}.{field}: {why}"))?;
    let target = one.get("targetContainerName").and_then(Value::as_str).unwrap_or_default();
    if !target.is_empty() && !containers.iter().any(|known| known == target) {
        return Err(format!("{at}.targetContainerName: Not found: {target:?}"));
    }
    Ok(())
}

/// Makes added containers.
#[derive(Debug, Clone)]
pub struct Maker {
    pub adder: Adder,
    pub told: ApiBoard,
    /// Limit of simultaneous requests.
    pub at_once: Count,
}

impl Maker {
    /// Adds containers to a shown pod, and starts a thread that makes them.
    ///
    /// # Errors
    /// The pod does not run or may not have them, or too many are being made.
    pub fn add(&self, live: &Value, new: &[EphemeralContainer], snapshot: &Snapshot) -> Result<(), Failure> {
        let busy =
            || Failure::new(429, "too many containers are being added to pods of this node: try again");
        let place = self.at_once.take().ok_or_else(busy)?;
        let pod: Pod = json::read(live).map_err(|why| Failure::new(500, why.to_string()))?;
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let view = snapshot.pods.iter().find(|view| view.pod.uid == uid);
        let source = view.map(|view| view.pod.source);
        let Some(source) = source.filter(|_| part(live, "/status/phase") == "Running") else {
            let why = format!("pod {} does not run", name(part(live, "/metadata")));
            return Err(Failure::new(409, why));
        };
        if pod.metadata.deletion_timestamp.is_some() {
            let why = format!("pod {} is being deleted", name(part(live, "/metadata")));
            return Err(Failure::new(409, why));
        }
        let (pod, policies) = (Arc::new(pod), Arc::new(snapshot.policies.clone()));
        let mut jobs = Vec::new();
        for container in new {
            let labels = [(crate::runtime::labels::SOURCE.to_owned(), source.as_str().to_owned())];
            let labels = crate::base::order::map(labels);
            let whole = added::with_it(&pod, &labels, container);
            added::judge(&whole, &policies, Some(Source::Api))
                .map_err(|why| Failure::new(403, why.to_string()))?;
            let target = container.target_container_name.as_deref().filter(|target| !target.is_empty());
            let target = target.map(|target| running(&pod, target)).transpose()?;
            let (pod, policies) = (Arc::clone(&pod), Arc::clone(&policies));
            jobs.push(Job { pod, policies, container: container.clone(), target });
        }
        let is_there = |uid: &str| snapshot.pods.iter().any(|view| view.pod.uid == uid);
        let told: Vec<Added> = new
            .iter()
            .map(|container| Added {
                container: Arc::new(serde_json::to_value(container).unwrap_or_default()),
                failure: None,
                was_there: false,
            })
            .collect();
        let bytes = |one: &Added| one.container.to_string().len();
        let mut has_room = true;
        self.told.tell_added(|all| {
            all.retain(|uid, _| is_there(uid));
            let taken: usize = all.values().flatten().chain(&told).map(bytes).sum();
            has_room = taken <= limits::API_ADDED_OF_NODE;
            if has_room {
                all.get_or_default(uid.clone()).extend(told);
            }
        });
        if !has_room {
            let why = "the containers that were added to pods of this node are too large together: delete such pods";
            return Err(Failure::new(403, why));
        }
        let (this, of) = (self.clone(), uid.clone());
        let made = thread::spawn("pk-added", limits::SERVER_STACK, move || {
            let _place = place;
            jobs.iter().for_each(|job| this.make(&of, job));
        });
        made.map(drop).map_err(|why| {
            // The thread did not start, so nothing was requested: the names are free.
            self.told.tell_added(|all| {
                if let Some(of_pod) = all.get_mut(&uid) {
                    of_pod.retain(|one| !new.iter().any(|it| it.name == name(&one.container)));
                }
            });
            Failure::new(500, format!("no thread can be started: {why}"))
        })
    }

    fn make(&self, uid: &str, job: &Job) {
        let is_wanted = || self.told.get().snapshot.pods.iter().any(|view| view.pod.uid == uid);
        let Err(why) = self.adder.add(job, &is_wanted) else { return };
        self.told.tell_added(|all| {
            let of_pod = all.get_mut(uid).into_iter().flatten();
            for one in
                of_pod.filter(|one| one.container.get("name") == Some(&job.container.name.clone().into()))
            {
                one.failure = Some(why.clone());
            }
        });
    }
}

/// Docker's id of a running container.
fn running(pod: &Pod, wanted: &str) -> Result<String, Failure> {
    let id = pod.status.as_ref().and_then(|status| adding::running(status, wanted));
    id.map(str::to_owned)
        .ok_or_else(|| Failure::new(409, format!("container {wanted} does not run: nothing is added to it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(added: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app"}], "ephemeralContainers": added}})
    }

    #[test]
    fn containers_can_be_added_and_neither_changed_nor_removed() {
        let old = json!({"name": "a", "image": "x"});
        let live = pod(json!([old]));
        let check = |list: Value| {
            let found = news(&live, &pod(list)).map_err(|failure| failure.message);
            found.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>())
        };
        assert_eq!(check(json!([old])), Ok(vec![]));
        assert_eq!(
            check(json!([old, {"name": "b", "image": "y", "targetContainerName": "app", "resources": {}}])),
            Ok(vec!["b".to_owned()])
        );
        for (list, words) in [
            (json!([]), "\"a\" may not be removed"),
            (json!([{"name": "a", "image": "z"}]), "\"a\" may not be changed"),
            (json!([old, {"name": "app", "image": "y"}]), "[1].name: Duplicate value: \"app\""),
            (json!([old, {"name": "b"}]), "[1].image: Required value"),
            (json!([old, {"name": "B", "image": "y"}]), "[1].name: Invalid value"),
            (json!([old, {"name": "b", "image": "y", "targetContainerName": "c"}]), "Not found: \"c\""),
            (json!([old, {"name": "b", "image": "y", "ports": [{}]}]), "[1].ports: Forbidden"),
            (
                json!([old, {"name": "b", "image": "y", "command": ["x".repeat(limits::API_ADDED_BYTES)]}]),
                "Too long",
            ),
            (
                json!([old, {"name": "b", "image": "y", "securityContext": {"appArmorProfile":
                    {"type": "Localhost", "localhostProfile": "unconfined"}}}]),
                "[1].securityContext.appArmorProfile",
            ),
            (
                json!([old, {"name": "b", "image": "y", "securityContext": {"runAsUser": -1}}]),
                "[1].securityContext.runAsUser",
            ),
            (json!([old, {"name": "b", "image": "y", "env": [{"name": "a=b"}]}]), "[1].env[0].name"),
            (json!([old, {"name": "b", "image": "y", "resources": {"limits": {"cpu": "1"}}}]), "Ephemeral"),
            (json!([old, {"name": "b", "image": "y", "env": [{"name": "a", "valueFrom": {}}]}]), "plain"),
        ] {
            let refused = check(list).unwrap_err();
            assert!(refused.contains(words), "{refused}");
        }
    }

    #[test]
    fn what_was_asked_for_is_shown_until_the_status_tells_of_it() {
        let one = |name: &str, failure: Option<&str>| Added {
            container: Arc::new(json!({"name": name, "image": "x"})),
            failure: failure.map(str::to_owned),
            was_there: name == "d",
        };
        let mut value = pod(Value::Null);
        let status =
            json!([{"name": "b", "image": "x", "state": {"running": {}}}, {"name": "c", "image": "y"}]);
        *place(&mut value, &["status", "ephemeralContainerStatuses"]) = status;
        show(&mut value, &[one("a", Some("no such image")), one("b", None), one("d", None)]);
        let names = |path: &str| {
            let all = part(&value, path).as_array().unwrap();
            all.iter().map(|one| name(one).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("/spec/ephemeralContainers"), ["a", "b", "d", "c"]);
        assert_eq!(names("/status/ephemeralContainerStatuses"), ["b", "c", "a", "d"]);
        let why = part(&value, "/status/ephemeralContainerStatuses/2/state/terminated/message");
        assert_eq!(why, "no such image");
        let gone = part(&value, "/status/ephemeralContainerStatuses/3/state/terminated");
        assert_eq!(part(gone, "/reason"), "ContainerStatusUnknown", "removed by hand");
    }
}
