//! Pods that the server cannot take, and those whose name a static pod has.

use super::*;

fn named(name: &str) -> PodKey {
    PodKey { namespace: "default".into(), name: name.into() }
}

/// Two pods that have begun to run, of which the server has not heard.
struct Two {
    desk: Desk,
    snapshot: Snapshot,
    server: PodsOfNode,
    millis: u64,
}

impl Two {
    fn new() -> Two {
        let of = |name: &str| {
            let mut view = view(Source::Api, name, running());
            view.pod = Arc::new(DesiredPod { key: named(name), ..(*view.pod).clone() });
            view
        };
        let pending = |name: &str| {
            let mut pod = (*api_copy(name, "5", json!({"phase": "Pending"}), false)).clone();
            pod.metadata.name = Some(name.to_owned());
            (named(name), Arc::new(pod))
        };
        let pods = ["a", "b"].map(pending).into_iter().collect();
        Two {
            desk: Desk::default(),
            snapshot: Snapshot { pods: ["a", "b"].map(of).into(), ..Snapshot::default() },
            server: PodsOfNode { is_complete: true, pods },
            millis: 0,
        }
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
                addresses: &[],
                node: "n1",
                uid: Some("node-uid"),
            };
            match self.desk.next(&world, &self.now()) {
                Next::Ask(key, ask) => {
                    asked.push((self.millis, key.name.clone()));
                    let answer = answer(&key.name);
                    self.desk.told(&key, ask, answer, &self.server, self.now().mono);
                    self.millis += 1;
                }
                Next::Wait(_) => self.millis += 100,
            }
        }
        asked
    }
}

/// What the server shows after it has taken the status.
fn taken(name: &str) -> Answer {
    let mut pod = (*api_copy(name, "6", running(), false)).clone();
    pod.metadata.name = Some(name.to_owned());
    Answer::Done(serde_json::to_value(&pod).unwrap())
}

/// Regression: a webhook of one namespace that was down kept the statuses of all pods behind it from the server.
#[test]
fn one_pod_that_the_server_cannot_take_keeps_no_other_waiting() {
    let answers = [Answer::Unable("failed calling webhook".into()), Answer::Failed("timed out".into())];
    for answer in answers {
        let mut two = Two::new();
        let asked = two.pass(120_000, |name| if name == "a" { answer.clone() } else { taken("b") });
        let first = asked.iter().find(|(_, name)| name == "b").map(|(at, _)| *at);
        assert!(first.is_some_and(|at| at < 1000), "{answer:?}: {asked:?}");
        let tries = asked.iter().filter(|(_, name)| name == "a").count();
        assert!((10..40).contains(&tries), "{answer:?}: {asked:?}");
        let healed = two.pass(11_000, taken);
        assert_eq!(healed.first().map(|(_, name)| name.as_str()), Some("a"), "{answer:?}: {healed:?}");
    }
    // Nobody answers: every few seconds it is another pod's turn.
    let mut two = Two::new();
    let asked = two.pass(60_000, |_| Answer::Failed("no route".into()));
    assert!((10..20).contains(&asked.len()), "{asked:?}");
    assert!(asked.windows(2).all(|pair| pair[0].1 != pair[1].1), "{asked:?}");
    let back: Vec<_> = two.pass(11_000, taken).into_iter().map(|(_, name)| name).collect();
    assert_eq!(back.len(), 2, "{back:?}");
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
    assert!(body["status"]["containerStatuses"][0]["state"]["terminated"].is_object(), "{body}");
    assert_eq!(body["status"]["conditions"][0]["status"], "False");
    // It may run again when the static pod has gone.
    assert!(body["status"].get("phase").is_none(), "{body}");
    rig.watch(vec![api_copy("x", "2", running(), true)]);
    assert_eq!(told(&mut rig)["status"]["phase"], "Failed");
    rig.watch(vec![api_copy("x", "3", json!({"phase": "Failed"}), true)]);
    assert_eq!(rig.ask(), Ask::Finish { uid: "x".into(), version: Some("3".into()) });
}
