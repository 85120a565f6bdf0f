//! Golden files of `tests/golden/plan/`: `NAME.yaml` has the wanted pod and the observations, `NAME.json` the
//! plan and the status. `UPDATE=1` rewrites the results.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::plan::actions::PodActions;
use crate::plan::actions::{compute, container_of};
use crate::plan::testing::{at, observed, pod_of, probes};
use crate::plan::{Observed, SandboxAction, stop_now, surplus};
use crate::pod::waiting::Reason;
use crate::pod::{ContainerKind, DesiredPod, Source};
use crate::status::{Input, NO_RESIZE, Waiting, WaitingReason};

/// Computes the result of a scenario. Its keys: `spec`; `observed` and `before` (the observation and the
/// earlier ones, in the words of `plan::testing`); `probes`; `waiting` (name -> [reason, message]);
/// `terminal`; `source` (file unless given); `deleted`.
fn answer(scenario: &Value) -> Value {
    let text = |key: &str| scenario[key].as_str().unwrap_or_default();
    let flag = |key: &str| scenario[key].as_bool().unwrap_or_default();
    let mut pod = pod_of(scenario["spec"].clone());
    pod.source = Source::parse(text("source")).unwrap_or(Source::File);
    if flag("deleted") {
        pod.metadata.deletion_timestamp = Some(crate::status::seconds(at(0)));
    }
    let mut waiting = Waiting::new();
    for (name, why) in scenario["waiting"].as_object().into_iter().flatten() {
        let word = |i: usize| why[i].as_str().unwrap_or_default().to_owned();
        waiting.insert(name.clone(), WaitingReason { reason: Reason::named(&word(0)), message: word(1) });
    }
    let digests = BTreeMap::from([("sha256:feed".to_owned(), "busybox@sha256:beef".to_owned())]);
    let probes = probes(text("probes"));
    let mut old = None;
    let mut looks: Vec<&str> =
        scenario["before"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    looks.push(text("observed"));
    let mut now = 0;
    for look in looks {
        let seen = observed(&pod, look);
        let input = Input {
            pod: &pod,
            observed: &seen,
            probes: &probes,
            waiting: &waiting,
            digests: &digests,
            messages: &BTreeMap::new(),
            old: old.as_ref(),
            terminal: flag("terminal"),
            past_deadline: false,
            resize: &NO_RESIZE,
            recursive_mounts: false,
            now: at(now),
        };
        old = Some(crate::status::compute(&input));
        now += 100;
    }
    let seen = observed(&pod, text("observed"));
    let actions = compute(&pod, &seen, &probes);
    json!({"actions": actions_json(&pod, &seen, &actions), "status": old})
}

fn actions_json(pod: &DesiredPod, seen: &Observed, actions: &PodActions) -> Value {
    let sandbox = match &actions.sandbox {
        SandboxAction::Keep { id, running } => json!({"keep": id, "running": running}),
        SandboxAction::Replace { attempt } => json!({"replaceWithAttempt": attempt}),
        SandboxAction::Finish => json!("finish"),
    };
    let place = |kind: ContainerKind, index: usize, name: &str| match kind {
        ContainerKind::Regular => format!("containers[{index}] {name}"),
        ContainerKind::Ephemeral => unreachable!("the plan starts none"),
        ContainerKind::Init => format!("initContainers[{index}] {name}"),
        ContainerKind::Sidecar => format!("initContainers[{index}] {name} (sidecar)"),
    };
    let start = actions.start.iter().map(|s| place(s.kind, s.index, &container_of(pod, *s).unwrap().name));
    let kill = actions.kill.iter().map(
        |k| json!({"id": k.id, "name": k.name, "message": k.message, "reason": format!("{:?}", k.reason)}),
    );
    let stop = stop_now(seen, |_| true).into_iter().map(|c| c.id.as_str());
    json!({
        "sandbox": sandbox,
        "start": start.collect::<Vec<_>>(),
        "kill": kill.collect::<Vec<_>>(),
        "surplus": surplus(Some(pod), seen, &Default::default(), Default::default()),
        "firstToStopIfAllStops": stop.collect::<Vec<_>>(),
    })
}

#[test]
fn scenarios_match_their_golden_answers() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plan");
    let mut count = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        count += 1;
        let scenario: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let text = serde_json::to_string_pretty(&answer(&scenario)).unwrap() + "\n";
        let golden = path.with_extension("json");
        if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
            std::fs::write(&golden, &text).unwrap();
        }
        if std::fs::read_to_string(&golden).ok().as_deref() != Some(text.as_str()) {
            wrong.push(format!("{}:\n{text}", golden.display()));
        }
    }
    assert!(count >= 25, "{count} scenarios");
    assert!(wrong.is_empty(), "differ (UPDATE=1 rewrites):\n{}", wrong.join("\n"));
}
