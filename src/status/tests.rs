//! Every rule of a pod's status, by name (upstream `pkg/kubelet/kubelet_pods.go`, `generateAPIPodStatus`).

mod conditions;
mod containers;
mod golden;
mod kubelet;
mod phase;
mod properties;
mod rules;

use crate::plan::testing::{at, observed, pod, probes};
use crate::plan::tests::properties::{arbitrary_seen, arbitrary_spec, see};
use crate::plan::{Observed, Probes};
use crate::pod::waiting::Reason;
use crate::pod::{DesiredPod, Source};
use crate::status::{Input, NO_RESIZE, Waiting, WaitingReason, compute, rejected};
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One computation, with defaults for most inputs.
struct Case<'a> {
    pod: &'a DesiredPod,
    seen: Observed,
    probes: Probes,
    waiting: Waiting,
    digests: BTreeMap<String, String>,
    messages: BTreeMap<String, String>,
    old: Option<PodStatus>,
    terminal: bool,
    past_deadline: bool,
    recursive: bool,
    now: i64,
}

fn case<'a>(pod: &'a DesiredPod, seen: &str) -> Case<'a> {
    Case {
        pod,
        seen: observed(pod, seen),
        probes: Probes::default(),
        waiting: Waiting::new(),
        digests: BTreeMap::new(),
        messages: BTreeMap::new(),
        old: None,
        terminal: false,
        past_deadline: false,
        recursive: false,
        now: 0,
    }
}

impl Case<'_> {
    fn after(self, old: PodStatus) -> Self {
        Case { old: Some(old), now: self.now + 100, ..self }
    }
    fn probed(self, words: &str) -> Self {
        Case { probes: probes(words), ..self }
    }
    fn waits(mut self, name: &str, reason: &str, message: &str) -> Self {
        self.waiting
            .insert(name.into(), WaitingReason { reason: Reason::named(reason), message: message.into() });
        self
    }
    fn status(&self) -> PodStatus {
        compute(&Input {
            pod: self.pod,
            observed: &self.seen,
            probes: &self.probes,
            waiting: &self.waiting,
            digests: &self.digests,
            messages: &self.messages,
            old: self.old.as_ref(),
            terminal: self.terminal,
            past_deadline: self.past_deadline,
            resize: &NO_RESIZE,
            recursive_mounts: self.recursive,
            now: at(self.now),
        })
    }
    fn phase(&self) -> String {
        self.status().phase.unwrap()
    }
    /// The named container's status as JSON.
    fn container(&self, name: &str) -> Value {
        let status = self.status();
        let all = status.init_container_statuses.into_iter().chain(status.container_statuses).flatten();
        serde_json::to_value(all.into_iter().find(|s| s.name == name).unwrap()).unwrap()
    }
}

fn app(policy: &str) -> DesiredPod {
    pod(&format!("{{restartPolicy: {policy}, containers: [{{name: app}}]}}"))
}

const UP: &str = "sandbox running; ";

#[test]
fn other_fields() {
    let always = app("Always");
    let status = case(&always, "sandbox#3 running; sandbox#1 exited 0; app@3 running").status();
    assert_eq!(status.pod_ip.as_deref(), Some("10.0.0.3"));
    assert_eq!(status.start_time.as_ref().unwrap().0, at(60), "creation of the oldest sandbox");
    assert_eq!((status.qos_class.as_deref(), status.host_ip.as_deref()), (Some("BestEffort"), None));
    let later = case(&always, "sandbox#3 exited 0").after(status).status();
    assert_eq!(later.pod_ip.as_deref(), Some("10.0.0.3"), "kept after the sandbox is gone");
    assert_eq!(later.pod_ips.as_ref().unwrap().len(), 1);
    assert_eq!(later.start_time.as_ref().unwrap().0, at(60), "never changes");
    let mut late = case(&always, "sandbox#1 running; sandbox#2 created");
    late.seen.all[1].start_sent = true;
    assert_eq!(late.status().start_time.unwrap().0, at(60), "not of one that Docker made late");
    let next = case(&always, "sandbox#4 running").after(later).status();
    assert_eq!(next.pod_ip.as_deref(), Some("10.0.0.4"));
    assert_eq!(case(&always, "").status().start_time.unwrap().0, at(0), "now, when nothing else is known");

    let host = pod("{hostNetwork: true, containers: [{name: app}]}");
    assert_eq!(case(&host, "sandbox running hostnet").status().pod_ip, None);
    let mut dual = case(&always, "sandbox running");
    if let crate::plan::Role::Sandbox { ips, .. } = &mut dual.seen.all[0].role {
        *ips = ["fd00::1", "10.0.0.1", "10.0.0.2", "fd00::2"].map(String::from).to_vec();
    }
    let ips: Vec<String> = dual.status().pod_ips.unwrap().into_iter().map(|ip| ip.ip).collect();
    assert_eq!(ips, ["10.0.0.1", "fd00::1"], "first of each family, IPv4 first");

    let mut given = always.clone();
    given.status.qos_class = Some("Guaranteed".into());
    given.status.start_time = Some(crate::status::seconds(at(-9)));
    let status = case(&given, "sandbox running").status();
    assert_eq!(
        (status.qos_class.as_deref(), status.start_time.unwrap().0),
        (Some("Guaranteed"), at(-9)),
        "the API's win"
    );
}

#[test]
fn rejected_pod() {
    let status = rejected(&app("Always"), "NodeAffinity", "Predicate NodeAffinity failed", at(5));
    let expected = json!({"phase": "Failed", "reason": "NodeAffinity", "qosClass": "BestEffort",
        "message": "Pod was rejected: Predicate NodeAffinity failed", "startTime": "1970-01-12T13:46:45Z"});
    assert_eq!(serde_json::to_value(status).unwrap(), expected, "no container statuses, no conditions");
}
