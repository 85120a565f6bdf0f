//! Pods that the server cannot take, and those whose name a static pod has.

use super::*;
use crate::cluster::pods::added::{self, Why};

fn named(name: &str) -> PodKey {
    let namespace = if name.starts_with("bad") { "bad" } else { "default" };
    PodKey { namespace: namespace.into(), name: name.into() }
}

/// Pods that have begun to run, of which the server has not heard.
struct Several {
    desk: Desk,
    snapshot: Snapshot,
    server: PodsOfNode,
    millis: u64,
}

impl Several {
    fn of(names: &[&str]) -> Several {
        let mut all = Several {
            desk: Desk::default(),
            snapshot: Snapshot::default(),
            server: PodsOfNode { is_complete: true, pods: Table::new() },
            millis: 0,
        };
        names.iter().for_each(|name| all.add(name));
        all
    }

    fn add(&mut self, name: &str) {
        let mut view = view(Source::Api, name, running());
        view.pod = Arc::new(DesiredPod { key: named(name), ..(*view.pod).clone() });
        self.snapshot.pods.push(view);
        let mut pod = (*api_copy(name, "5", json!({"phase": "Pending"}), false)).clone();
        pod.metadata.name = Some(name.to_owned());
        self.server.pods.insert(named(name), Arc::new(pod));
    }

    fn now(&self) -> Now {
        Now { mono: Mono(Duration::from_millis(self.millis)), wall: NOW }
    }

    /// Asks for a while; `answer` answers about each pod. The pods that were asked about, and when.
    fn pass(&mut self, millis: u64, mut answer: impl FnMut(&str) -> Answer) -> Vec<(u64, String)> {
        let (mut asked, end) = (Vec::new(), self.millis + millis);
        while self.millis < end {
            let world = World {
                snapshot: &self.snapshot,
                server: &self.server,
                failures: &Failures::default(),
                addresses: &[],
                node: "n1",
                uid: Some("node-uid"),
            };
            match self.desk.next(&world, &self.now()) {
                Next::Ask(key, ask) => {
                    asked.push((self.millis, key.name.clone()));
                    let mut answer = answer(&key.name);
                    if let Answer::Done(_) = answer {
                        let view = self.snapshot.pods.iter().find(|view| view.pod.key == key).unwrap();
                        let told = serde_json::to_value(&*view.status).unwrap();
                        let mut pod = (*api_copy(&key.name, &self.millis.to_string(), told, false)).clone();
                        pod.metadata.name = Some(key.name.clone());
                        answer = Answer::Done(serde_json::to_value(&pod).unwrap());
                        self.server.pods.insert(key.clone(), Arc::new(pod));
                    }
                    // A server that hangs for one namespace.
                    let hangs = !matches!(answer, Answer::Done(_)) && key.namespace == "bad";
                    self.millis += if hangs { 10_000 } else { 0 };
                    self.desk.told(&key, ask, answer, &self.server, self.now().mono);
                    self.millis += 1;
                }
                Next::Wait(_) => self.millis += 100,
            }
        }
        asked
    }
}

/// The server takes the status.
fn taken(_: &str) -> Answer {
    Answer::Done(Value::Null)
}

/// Regression: a webhook of one namespace that was down kept the statuses of all pods behind it from the server.
#[test]
fn one_pod_that_the_server_cannot_take_keeps_no_other_waiting() {
    let answers = [Answer::Unable("failed calling webhook".into()), Answer::Failed("timed out".into())];
    for answer in answers {
        let mut two = Several::of(&["a", "b"]);
        let asked = two.pass(120_000, |name| if name == "a" { answer.clone() } else { taken(name) });
        let first = asked.iter().find(|(_, name)| name == "b").map(|(at, _)| *at);
        assert!(first.is_some_and(|at| at < 1000), "{answer:?}: {asked:?}");
        let tries = asked.iter().filter(|(_, name)| name == "a").count();
        assert!((10..40).contains(&tries), "{answer:?}: {asked:?}");
        let healed = two.pass(11_000, taken);
        assert_eq!(healed.first().map(|(_, name)| name.as_str()), Some("a"), "{answer:?}: {healed:?}");
    }
    // Nobody answers: every few seconds it is another pod's turn.
    let mut two = Several::of(&["a", "b"]);
    let asked = two.pass(60_000, |_| Answer::Failed("no route".into()));
    assert!((10..20).contains(&asked.len()), "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[0].1 != pair[1].1), "{asked:?}");
    let back: Vec<_> = two.pass(11_000, taken).into_iter().map(|(_, name)| name).collect();
    assert_eq!(back.len(), 2, "{back:?}");
}

/// Regression: the control plane gave the ports and resources of a job away while they were still in use here.
#[test]
fn an_end_is_told_when_the_sandbox_is_dead_too() {
    let mut ended = running();
    ended["phase"] = json!("Succeeded");
    ended["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    let mut job = view(Source::Api, "x", ended);
    job.runs = true;
    let mut rig = Rig::new(vec![job], vec![api_copy("x", "1", running(), false)]);
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    assert!(body["status"].get("phase").is_none(), "{body}");
    assert!(body["status"]["containerStatuses"][0]["state"]["terminated"].is_object(), "{body}");
    rig.views[0].runs = false;
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    assert_eq!(body["status"]["phase"], "Succeeded");
}

/// Regression: after a restart of podkeeper each of them had its first try, of ten seconds, before any other pod.
#[test]
fn a_namespace_that_hangs_keeps_no_other_waiting() {
    let late = || "no answer within 10 s".to_owned();
    a_namespace_hangs(&|| Answer::Failed(late()));
    // The API server gives its webhook up.
    a_namespace_hangs(&|| Answer::Unable(late()));
}

fn a_namespace_hangs(answer: &dyn Fn() -> Answer) {
    let bad: Vec<String> = (10..30).map(|count| format!("bad-{count}")).collect();
    let names: Vec<&str> = bad.iter().map(String::as_str).chain(["x", "y"]).collect();
    let mut all = Several::of(&names);
    let hangs = |name: &str| match name.starts_with("bad") {
        true => answer(),
        false => taken(name),
    };
    let asked = all.pass(100_000, hangs);
    let of = |name: &str| asked.iter().find(|(_, asked)| asked == name).map(|(at, _)| *at);
    assert!(of("x").max(of("y")).is_some_and(|at| at < 11_000), "{asked:?}");
    assert!(asked.len() < 9, "half of the time is for the others: {asked:?}");
    // What is new of the others comes after one try.
    for name in ["x", "y"] {
        let mut changed = running();
        changed["podIP"] = json!("192.0.2.7");
        let view = all.snapshot.pods.iter_mut().find(|view| view.pod.key.name == name).unwrap();
        view.status = Arc::new(status(changed));
        let since = all.millis;
        let asked = all.pass(30_000, hangs);
        let told = asked.iter().find(|(_, asked)| asked == name).map(|(at, _)| at - since);
        assert!(told.is_some_and(|after| after <= 10_100), "{asked:?}");
    }
    // One answer, and all of the namespace are told.
    let since = all.millis;
    let asked = all.pass(40_000, taken);
    let told = asked.iter().filter(|(at, name)| name.starts_with("bad") && at - since < 22_000).count();
    assert_eq!(told, 20, "{asked:?}");
}

/// Regression: new pods that hang, one after the other, came before all others of their namespace whose names come later.
#[test]
fn new_pods_that_hang_keep_no_other_of_their_namespace_waiting_for_good() {
    let mut all = Several::of(&["bad-z-good"]);
    all.pass(1000, taken);
    let mut tries = 0;
    let mut hangs = |name: &str| match name {
        // It had no answer once, as in an outage.
        "bad-z-good" if tries == 0 => {
            tries = 1;
            Answer::Failed("502 Bad Gateway".into())
        }
        name if name.starts_with("bad-a") => Answer::Failed("no answer within 10 s".into()),
        name => taken(name),
    };
    let mut asked = Vec::new();
    for count in 0..12 {
        all.add(&format!("bad-a-{count:02}"));
        if count == 3 {
            all.add("bad-z-new");
            let mut changed = running();
            changed["podIP"] = json!("192.0.2.7");
            all.snapshot.pods[0].status = Arc::new(status(changed));
        }
        asked.extend(all.pass(10_000, &mut hangs));
    }
    let first =
        |name: &str, after: u64| asked.iter().find(|(at, of)| of == name && *at > after).map(|(at, _)| *at);
    let tries: Vec<u64> = asked.iter().filter(|(_, of)| of == "bad-z-good").map(|(at, _)| *at).collect();
    assert!(tries.len() == 2 && tries[1] < 120_000, "{asked:?}");
    assert!(first("bad-z-new", 0).is_some_and(|at| at < 120_000), "{asked:?}");
}

/// Regression: it was shown as running for good, and its deletion never ended.
#[test]
fn a_pod_whose_name_a_static_pod_has_is_over() {
    let mut rig =
        Rig::new(vec![view(Source::File, "h1", running())], vec![api_copy("x", "1", running(), false)]);
    let told = |rig: &mut Rig| match rig.ask() {
        Ask::Status(body) => body,
        other => panic!("{other:?}"),
    };
    let body = told(&mut rig);
    assert_eq!((&body["metadata"]["uid"], &body["status"]["reason"]), (&json!("x"), &json!("DuplicateName")));
    // Regression: a container whose own policy is Never was told as ended, and could not run again at the server.
    let state = &body["status"]["containerStatuses"][0]["state"];
    assert_eq!(state["waiting"]["reason"], "PodStopped", "{body}");
    assert_eq!(body["status"]["conditions"][0]["status"], "False");
    // It may run again when the static pod has gone.
    assert!(body["status"].get("phase").is_none(), "{body}");
    rig.watch(vec![api_copy("x", "2", running(), true)]);
    assert_eq!(told(&mut rig)["status"]["phase"], "Failed");
    rig.watch(vec![api_copy("x", "3", json!({"phase": "Failed"}), true)]);
    assert_eq!(rig.ask(), Ask::Finish { uid: "x".into(), version: Some("3".into()) });
    // Regression: a job ran a second time when the static pod had gone, and the server took no status of that.
    let job = |status: Value| {
        let mut pod = (*api_copy("x", "1", status, false)).clone();
        pod.spec = Some(serde_json::from_value(spec()).unwrap());
        vec![Arc::new(pod)]
    };
    let mut rig = Rig::new(vec![view(Source::File, "h1", running())], job(running()));
    assert_eq!(told(&mut rig)["status"]["phase"], "Failed");
    let mut rig = Rig::new(vec![view(Source::File, "h1", running())], job(json!({"phase": "Pending"})));
    assert!(told(&mut rig)["status"].get("phase").is_none(), "it has not begun");
    // Regression: its deletion hung while the static pod could not start.
    let mut waits = view(Source::File, "h1", json!({ "phase": "Pending" }));
    waits.others = vec!["x".into()];
    let mut rig = Rig::new(vec![waits], vec![api_copy("x", "1", running(), true)]);
    assert_eq!(rig.next(), Next::Wait(None), "its containers may run");
    rig.views[0].others.clear();
    assert_eq!(told(&mut rig)["status"]["phase"], "Failed");
}

/// Regression: the server was told that a job that is stopped for a while had ended, and took no status of its next run.
#[test]
fn a_job_that_is_stopped_for_a_while_waits() {
    let mut ended = running();
    ended["containerStatuses"][0]["state"] = json!({"terminated": {"exitCode": 0}});
    let mut job = view(Source::Api, "x", ended.clone());
    (job.leaving, job.returns) = (Some(NOW), true);
    let mut rig = Rig::new(vec![job], vec![api_copy("x", "1", running(), false)]);
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    let container = &body["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["waiting"]["reason"], "PodStopped", "{body}");
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 0, "{body}");
    assert!(body["status"].get("phase").is_none(), "{body}");
    // A static pod has its name.
    let mut waiting = (*api_copy("x", "2", body["status"].clone(), false)).clone();
    waiting.status.as_mut().unwrap().phase = Some("Running".to_owned());
    waiting.spec = Some(serde_json::from_value(spec()).unwrap());
    let mut other = Rig::new(vec![view(Source::File, "h1", running())], vec![Arc::new(waiting.clone())]);
    let Ask::Status(told) = other.ask() else { panic!("no status") };
    assert_eq!(told["status"]["phase"], "Failed", "{told}");
    assert_eq!(told["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0, "{told}");
    // It is refused at its return.
    let refused = view(Source::Api, "x", json!({"phase": "Failed", "reason": "Forbidden"}));
    let mut other = Rig::new(vec![refused], vec![Arc::new(waiting)]);
    let Ask::Status(told) = other.ask() else { panic!("no status") };
    assert_eq!(told["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 0, "{told}");
    // The server was away while it was stopped.
    let held = view(Source::Api, "x", json!({"phase": "Pending", "reason": "NodeShutdown"}));
    let mut late = Rig::new(vec![held], vec![api_copy("x", "1", running(), false)]);
    let Ask::Status(told) = late.ask() else { panic!("no status") };
    assert_eq!(told["status"]["containerStatuses"][0]["state"]["waiting"]["reason"], "PodStopped", "{told}");
    assert_eq!(told["status"]["conditions"][0]["reason"], "ContainersNotReady", "{told}");
    // It has ended by itself.
    rig.views[0].returns = false;
    rig.views[0].leaving = None;
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    assert!(body["status"]["containerStatuses"][0]["state"]["terminated"].is_object(), "{body}");
}

/// Regression: a pod that ran and was then refused, by the next daemon's settings, was Running at the server for good.
#[test]
fn a_pod_that_ran_and_is_refused_has_failed() {
    let mut rejected = view(Source::Api, "x", json!({"phase": "Failed", "reason": "Forbidden"}));
    rejected.runs = true;
    let mut rig = Rig::new(vec![rejected], vec![api_copy("x", "1", running(), false)]);
    assert_eq!(rig.next(), Next::Wait(None), "it is being stopped");
    rig.views[0].runs = false;
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    let status = &body["status"];
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Forbidden")));
    assert_eq!(status["containerStatuses"][0]["state"]["terminated"]["reason"], "ContainerStatusUnknown");
    // One that never ran.
    let rejected = view(Source::Api, "x", json!({"phase": "Failed", "reason": "OutOfcpu"}));
    let mut rig = Rig::new(vec![rejected], vec![api_copy("x", "1", json!({"phase": "Pending"}), false)]);
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    assert_eq!(body["status"], json!({"phase": "Failed", "reason": "OutOfcpu"}));
}

#[test]
fn a_mirror_pod_that_is_refused_is_told_once_and_tried_again_after_longer_and_longer() {
    let mut rig = Rig::new(vec![view(Source::File, "h1", running())], Vec::new());
    let key = PodKey { namespace: "default".into(), name: "web".into() };
    let told = |rig: &mut Rig, why: &str| {
        let ask = rig.ask();
        rig.desk.told(&key, ask, Answer::Forbidden(why.into()), &rig.server, at(rig.seconds).mono)
    };
    assert_eq!(told(&mut rig, "no"), Some(News::NoMirror(key.clone(), "no".into())));
    for wait in [10, 20, 40, 80, 160, 300, 300] {
        let due = at(rig.seconds + wait).mono;
        assert_eq!(rig.next(), Next::Wait(Some(due)));
        rig.seconds += wait;
        assert_eq!(told(&mut rig, "no"), None);
    }
}

/// A status that was refused four times kept a deleted pod, and the end of a job, from what waits for them for minutes.
#[test]
fn what_somebody_waits_for_is_tried_each_ten_seconds() {
    let mut stopping = view(Source::Api, "u1", running());
    stopping.leaving = Some(NOW);
    let stopping = Rig::new(vec![stopping], vec![api_copy("u1", "5", json!({"phase": "Pending"}), true)]);
    let ended = view(Source::Api, "u1", json!({"phase": "Succeeded"}));
    let ended = Rig::new(vec![ended], vec![api_copy("u1", "5", running(), false)]);
    for mut rig in [stopping, ended] {
        for _ in 0..6 {
            let ask = rig.ask();
            rig.answer(ask, Answer::Forbidden("not now".into()));
            assert_eq!(rig.next(), Next::Wait(Some(at(rig.seconds + 10).mono)));
            rig.seconds += 10;
        }
    }
}

/// Regression: ephemeral containers of the server's pods were left out without a word, and `kubectl debug` waited for good.
#[test]
fn ephemeral_containers_that_do_not_run_are_told() {
    let mut copy = Pod::clone(&api_copy("u1", "5", running(), false));
    let names = ["new", "bad", "was", "runs", "gone", "made"].map(|name| json!({"name": name, "image": "b"}));
    copy.spec.get_or_insert_default().ephemeral_containers =
        Some(serde_json::from_value(json!(names)).unwrap());
    let one = |name: &str, state: Value| {
        json!({"name": name, "image": "b", "imageID": "", "ready": false,
        "restartCount": 0, "containerID": "docker://1", "state": state})
    };
    let told =
        json!([one("was", json!({"terminated": {"exitCode": 3}})), one("gone", json!({"running": {}}))]);
    copy.status.get_or_insert_default().ephemeral_container_statuses = serde_json::from_value(told).unwrap();
    let mut own = running();
    own["ephemeralContainerStatuses"] = json!([{"name": "runs", "image": "b", "imageID": "", "ready": false,
                                                "restartCount": 0, "state": {"running": {}}},
        {"name": "made", "image": "b", "imageID": "", "ready": false, "restartCount": 0, "containerID": "docker://m",
         "state": {"waiting": {}}}]);
    let own = status(own);
    let missing: Vec<&str> = added::missing(&own, &copy).map(|c| c.name.as_str()).collect();
    assert_eq!(missing, ["new", "bad", "made"], "none runs twice, and one that never ran is made again");
    let mut failures = Failures::default();
    let id = || ("u1".to_owned(), "bad".to_owned());
    failures.note(id(), Some(Why::Failed("no such image".into())));
    failures.note(id(), Some(Why::Failed("no such image".into())));
    assert_eq!(failures.round, 1);
    failures.note(("u1".to_owned(), "made".to_owned()), Some(Why::Waits("others come first".into())));
    let mut shown = own.clone();
    added::show(&mut shown, &copy, "u1", &failures);
    let state = |name: &str| {
        let all = shown.ephemeral_container_statuses.as_ref().unwrap();
        let one = all.iter().find(|status| status.name == name).unwrap();
        serde_json::to_value(one.state.as_ref().unwrap()).unwrap()
    };
    assert_eq!(state("new")["waiting"], json!({"reason": "ContainerCreating"}));
    assert_eq!(
        state("bad")["waiting"],
        json!({"reason": "CreateContainerError", "message": "no such image"})
    );
    assert_eq!(state("was")["terminated"]["exitCode"], 3);
    assert_eq!(state("runs"), json!({"running": {}}));
    let waits = json!({"reason": "ContainerCreating", "message": "others come first"});
    assert_eq!(state("made")["waiting"], waits);
    assert_eq!(state("gone")["terminated"]["reason"], "ContainerStatusUnknown", "somebody has removed it");
    failures.note(id(), None);
    failures.retain(|_| false);
    assert_eq!((failures.round, failures.all.len()), (3, 0));
    // The desk tells them, and ends them with the pod.
    copy.metadata.deletion_timestamp =
        api_copy("u1", "5", running(), true).metadata.deletion_timestamp.clone();
    let mut over = view(Source::Api, "u1", running());
    (over.leaving, over.is_over) = (Some(NOW), true);
    let mut rig = Rig::new(vec![over], vec![Arc::new(copy.clone())]);
    let Ask::Status(body) = rig.ask() else { panic!("no status") };
    let all = body["status"]["ephemeralContainerStatuses"].as_array().unwrap().clone();
    assert!(all.iter().all(|one| one["state"].get("terminated").is_some()), "{all:?}");
    let mut told = serde_json::to_value(copy.status.take()).unwrap();
    for (key, value) in body["status"].as_object().unwrap() {
        told[key] = value.clone();
    }
    copy.status = Some(status(told));
    rig.watch(vec![Arc::new(copy)]);
    assert!(matches!(rig.ask(), Ask::Finish { .. }));
}
