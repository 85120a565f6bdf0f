//! Which events are sent, and their contents.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{Ask, Next, Post};
use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::cluster::answer::Answer;
use crate::pod::PodKey;
use crate::recorder::ring::Kept;
use crate::recorder::{List, ObjectEvent, Ring, Subject, words};

const WALL: Timestamp = Timestamp::constant(1_795_000_000, 5);

fn at(seconds: u64) -> Now {
    Now { mono: Mono(Duration::from_secs(seconds)), wall: WALL }
}

fn of_pod(name: &str) -> ObjectEvent {
    let key = PodKey { namespace: "default".into(), name: name.into() };
    let subject = Subject { list: List::Regular, name: "app".into() };
    ObjectEvent::new(key, format!("uid-{name}"), Some(subject), words::rejected("Reason", "It happened."))
}

struct Rig {
    post: Post,
    ring: Ring,
    seconds: u64,
    heard: u64,
}

impl Rig {
    fn next(&mut self) -> Next {
        self.post.next(&self.ring.all(), "n1", at(self.seconds).mono)
    }

    fn ask(&mut self) -> Option<Ask> {
        match self.next() {
            Next::Ask(ask) => Some(ask),
            Next::Wait(_) => None,
        }
    }

    fn add(&mut self, event: ObjectEvent) {
        self.ring.add(event, &at(self.seconds));
    }

    fn told(&mut self, ask: &Ask, answer: Answer) {
        self.post.told(ask, &answer, self.heard, at(self.seconds).mono);
    }

    /// Asks for a while; the answers to the events of each pod. What was asked of, and when.
    fn pass(&mut self, seconds: u64, mut answer: impl FnMut(&str) -> Answer) -> Vec<(u64, String)> {
        let (mut asked, end) = (Vec::new(), self.seconds + seconds);
        while self.seconds < end {
            let Some(ask) = self.ask() else {
                self.seconds += 1;
                continue;
            };
            let pod = ask.name.split('.').next().unwrap().to_owned();
            let answer = answer(&pod);
            asked.push((self.seconds, pod));
            // A server that hangs.
            self.seconds += if matches!(answer, Answer::Failed(_)) { 10 } else { 0 };
            self.told(&ask, answer);
        }
        asked
    }
}

fn rig() -> Rig {
    Rig { post: Post::default(), ring: Ring::default(), seconds: 0, heard: 0 }
}

#[test]
fn an_event_is_made_and_then_counted() {
    let mut rig = rig();
    rig.add(of_pod("web"));
    let made = rig.ask().unwrap();
    assert!(made.is_new && rig.ring.all().len() == 1);
    let text = serde_json::to_string_pretty(&made.body).unwrap();
    crate::base::testing::golden("cluster/event.json", &(text + "\n"));
    rig.told(&made, Answer::Done(json!({})));
    assert_eq!(rig.next(), Next::Wait(None));
    rig.add(of_pod("web"));
    let patch = rig.ask().unwrap();
    assert!(!patch.is_new);
    assert_eq!(patch.name, made.name);
    assert_eq!(patch.body["count"], 2);
    // The server drops events after an hour.
    rig.told(&patch, Answer::Missing);
    let again = rig.ask().unwrap();
    assert!(again.is_new);
    assert_eq!(again.body["count"], 2);
    rig.told(&again, Answer::Done(json!({})));
    assert_eq!(rig.next(), Next::Wait(None));
    rig.add(ObjectEvent::of_node("n1", words::starting()));
    let node = rig.ask().unwrap();
    assert_eq!(node.namespace, "default");
    assert_eq!(
        node.body["involvedObject"],
        json!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"})
    );
}

#[test]
fn a_server_that_was_away_hears_of_each_happening_once() {
    let mut rig = rig();
    for _ in 0..100 {
        rig.add(of_pod("web"));
        if let Some(ask) = rig.ask() {
            rig.told(&ask, Answer::Failed("connection refused".into()));
        }
        rig.seconds += 60;
    }
    let ask = rig.ask().unwrap();
    assert_eq!((ask.is_new, &ask.body["count"]), (true, &json!(100)));
    rig.told(&ask, Answer::Done(json!({})));
    assert_eq!(rig.next(), Next::Wait(None));
}

#[test]
fn an_event_that_was_made_by_a_request_without_an_answer_is_counted_all_the_same() {
    let mut rig = rig();
    rig.add(of_pod("web"));
    let made = rig.ask().unwrap();
    rig.told(&made, Answer::Failed("no answer within 10 s".into()));
    rig.seconds += 60;
    rig.add(of_pod("web"));
    let again = rig.ask().unwrap();
    assert_eq!((again.is_new, &again.body["count"]), (true, &json!(2)));
    rig.told(&again, Answer::Exists);
    let patch = rig.ask().unwrap();
    assert_eq!((patch.is_new, &patch.name, &patch.body["count"]), (false, &made.name, &json!(2)));
    rig.told(&patch, Answer::Done(json!({})));
    assert_eq!(rig.next(), Next::Wait(None));
    // An event whose count is unchanged is not sent again.
    rig.add(of_pod("db"));
    let once = rig.ask().unwrap();
    rig.told(&once, Answer::Exists);
    assert_eq!(rig.next(), Next::Wait(None));
}

#[test]
fn events_of_an_earlier_daemon_are_not_told_again_and_refused_ones_neither() {
    let mut rig = rig();
    rig.add(of_pod("web"));
    let earlier: Vec<Arc<Kept>> = rig.ring.all();
    rig.post = Post::after(&earlier);
    assert_eq!(rig.next(), Next::Wait(None));
    rig.add(of_pod("web"));
    let ask = rig.ask().unwrap();
    assert!(!ask.is_new);
    rig.told(&ask, Answer::Forbidden("the namespace is being terminated".into()));
    assert_eq!(rig.next(), Next::Wait(None));
}

#[test]
fn an_object_with_many_events_waits_and_no_other_one() {
    let mut rig = rig();
    for _ in 0..limits::API_EVENT_BURST {
        rig.add(of_pod("noisy"));
        let ask = rig.ask().unwrap();
        rig.told(&ask, Answer::Done(json!({})));
    }
    rig.add(of_pod("noisy"));
    assert!(matches!(rig.next(), Next::Wait(Some(_))));
    rig.add(of_pod("other"));
    let ask = rig.ask().unwrap();
    assert_eq!(ask.body["involvedObject"]["name"], "other");
    rig.told(&ask, Answer::Done(json!({})));
    rig.seconds += limits::API_EVENT_REFILL.as_secs();
    let ask = rig.ask().unwrap();
    assert_eq!(ask.body["count"], limits::API_EVENT_BURST + 1);
}

/// Regression: a webhook of one namespace that was down kept the events of all pods from the server.
#[test]
fn an_event_that_the_server_cannot_take_keeps_no_other_waiting() {
    let mut rig = rig();
    rig.add(of_pod("a"));
    rig.add(of_pod("b"));
    let mut answer = |pod: &str| match pod {
        "a" => Answer::Unable("failed calling webhook".into()),
        _ => Answer::Done(json!({})),
    };
    let asked = rig.pass(19, &mut answer);
    assert_eq!(asked, [(0, "a".into()), (0, "b".into()), (10, "a".into())]);
    // It is given up when others are taken meanwhile, or heartbeats are.
    rig.heard += 1;
    assert_eq!(rig.pass(100, &mut answer), [(20, "a".into())]);
}

/// Regression: one event that hung kept back all others, and of a server that answered nothing but errors for half a minute
/// no event was ever told.
#[test]
fn events_wait_neither_for_one_that_hangs_nor_are_they_given_up_with_their_server() {
    let bad = |image: u32| {
        let key = PodKey { namespace: "bad".into(), name: "bad".into() };
        let what = words::rejected("Reason", &format!("It happened to image {image}."));
        ObjectEvent::new(key, "uid-bad".into(), None, what)
    };
    let mut rig = rig();
    (0..5).for_each(|image| rig.add(bad(image)));
    rig.add(of_pod("a"));
    let mut hangs = |pod: &str| match pod {
        "bad" => Answer::Failed("no answer within 10 s".into()),
        _ => Answer::Done(json!({})),
    };
    let asked = rig.pass(60, &mut hangs);
    assert!(asked.contains(&(10, "a".into())), "{asked:?}");
    assert!(asked.len() < 6, "{asked:?}");
    let since = rig.seconds;
    rig.add(of_pod("b"));
    let asked = rig.pass(60, &mut hangs);
    assert!(asked.iter().any(|(at, pod)| pod == "b" && at - since <= 10), "{asked:?}");
    // The webhook is well.
    let since = rig.seconds;
    let asked = rig.pass(30, |_| Answer::Done(json!({})));
    assert!(asked.len() == 5 && asked.iter().all(|(at, _)| at - since <= 10), "{asked:?}");
    // Nothing is taken for an hour.
    rig.add(of_pod("c"));
    (5..8).for_each(|image| rig.add(bad(image)));
    let asked = rig.pass(3600, |_| Answer::Unable("etcdserver: request timed out".into()));
    assert!((300..800).contains(&asked.len()), "{}", asked.len());
    let since = rig.seconds;
    let asked = rig.pass(60, |_| Answer::Done(json!({})));
    assert!(asked.len() == 4 && asked.iter().all(|(at, _)| at - since <= 10), "{asked:?} {since}");
}

/// Regression: after an outage, in which the events of all namespaces had failed, two that still failed came before the others
/// for good.
#[test]
fn namespaces_that_fail_take_turns() {
    let of = |namespace: &str| {
        let key = PodKey { namespace: namespace.into(), name: namespace.into() };
        ObjectEvent::new(key, format!("uid-{namespace}"), None, words::rejected("Reason", "It happened."))
    };
    let mut rig = rig();
    ["h1", "h2", "h3", "default"].map(of).into_iter().for_each(|event| rig.add(event));
    rig.pass(120, |_| Answer::Failed("no answer within 10 s".into()));
    let since = rig.seconds;
    let asked = rig.pass(120, |pod| match pod {
        "h1" => Answer::Failed("no answer within 10 s".into()),
        "h2" => Answer::Failed("502 Bad Gateway".into()),
        "h3" => Answer::Unable("failed calling webhook".into()),
        _ => Answer::Done(json!({})),
    });
    assert!(asked.iter().any(|(at, pod)| pod == "default" && at - since <= 70), "{asked:?} {since}");
    // What is new comes next.
    let since = rig.seconds;
    rig.add(of("next"));
    let asked = rig.pass(60, |_| Answer::Done(json!({})));
    assert!(asked.iter().any(|(at, pod)| pod == "next" && at - since <= 10), "{asked:?} {since}");
}

/// Regression: each failed try used up a token of its pod, whose other events came minutes after the server's return.
#[test]
fn an_outage_costs_no_tokens() {
    let mut rig = rig();
    for _ in 0..3 {
        rig.add(of_pod("a"));
        rig.seconds += 1;
    }
    let mut tries = 0;
    while rig.seconds < 3600 {
        match rig.ask() {
            Some(ask) => {
                tries += 1;
                rig.told(&ask, Answer::Failed("no route".into()));
            }
            None => rig.seconds += 1,
        }
    }
    assert!(tries > 300, "{tries}");
    rig.seconds += 10;
    for image in 0..20 {
        rig.add(ObjectEvent { message: format!("It happened to image {image}."), ..of_pod("a") });
    }
    let mut sent = 0;
    while let Some(ask) = rig.ask() {
        rig.told(&ask, Answer::Done(json!({})));
        sent += 1;
    }
    assert!(sent >= 11, "{sent}");
}
