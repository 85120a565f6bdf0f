//! The runtime classes that the cluster's pods name (`pkg/kubelet/runtimeclass/runtimeclass_manager.go`). The handler
//! of a class is written on its pods, and stored with them. A handler never changes (`pkg/apis/node/validation`).
//!
//! Never here: the effect of a handler.

use std::sync::Arc;
use std::time::Duration;

use crate::base::json::json;
use serde_json::Value;

use super::objects::Asker;
use super::under_way::UnderWay;
use crate::api_client::ApiError;
use crate::api_client::request::encoded;
use crate::base::clock::Mono;
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::node::runtimes::{self, HANDLER};
use crate::pod::DesiredPod;

/// Kind of the object.
pub const KIND: &str = "RuntimeClass";

/// What the server said of a class, and when.
#[derive(Debug)]
struct Class {
    read: Mono,
    handler: Handler,
}

#[derive(Debug)]
enum Handler {
    Found(String),
    /// There is no such class. It is asked for again, after a wait that doubles.
    Missing {
        again: Mono,
        wait: Duration,
    },
}

/// The handler that a pod got. It stays, whatever becomes of the class, whose name an earlier version would read from the
/// store.
#[derive(Debug)]
struct Given {
    class: String,
    handler: String,
}

/// The reason why the request for a class failed, and when it is repeated.
#[derive(Debug)]
struct Failed {
    why: String,
    again: Mono,
}

/// What is known of runtime classes.
#[derive(Debug, Default)]
pub struct Classes {
    known: Table<String, Class>,
    /// By the pod's UID.
    given: Table<String, Given>,
    under_way: UnderWay<String, Result<Option<String>, ApiError>>,
    failed: Table<String, Failed>,
}

impl Classes {
    /// Forgets the classes that no pod names any more, and the pods with other UIDs.
    pub fn retain(&mut self, wanted: &Set<&str>, uids: &Set<String>) {
        self.given.retain(|uid, _| uids.contains(uid));
        self.known.retain(|class, _| wanted.contains(class.as_str()));
        self.under_way.retain(|class| wanted.contains(class.as_str()));
        self.failed.retain(|class, _| wanted.contains(class.as_str()));
    }

    /// Whether the server was asked for the class of this pod, or the pod has none, or has its handler.
    #[must_use]
    pub fn is_known(&self, pod: &DesiredPod) -> bool {
        runtimes::class(pod).is_none_or(|class| {
            let is_open = self.under_way.has(class) || self.failed.contains_key(class);
            self.given.contains_key(&pod.uid) || self.known.contains_key(class) && !is_open
        })
    }

    /// Whether an answer has not come yet.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Why the class of this pod is not known.
    #[must_use]
    pub fn why(&self, pod: &DesiredPod) -> Option<&str> {
        self.failed.get(runtimes::class(pod)?).map(|failed| failed.why.as_str())
    }

    /// When a class is due that does not exist yet.
    #[must_use]
    pub fn due(&self) -> Option<Mono> {
        let missing = self.known.iter().filter(|(class, _)| !self.under_way.has(class.as_str()));
        missing
            .filter_map(|(_, class)| match class.handler {
                Handler::Missing { again, .. } => Some(again),
                Handler::Found(_) => None,
            })
            .min()
    }

    /// Whether to ask for the class of this pod, which is new since then. A class that was missing may exist by now, and one
    /// that was there may be another.
    #[must_use]
    pub fn is_due(&self, pod: &DesiredPod, since: Option<Mono>, now: Mono) -> bool {
        let class = runtimes::class(pod).filter(|_| !self.given.contains_key(&pod.uid));
        class.is_some_and(|class| {
            let may_ask = !self.under_way.has(class)
                && !self.under_way.is_full()
                && self.failed.get(class).is_none_or(|failed| failed.again <= now);
            let is_wanted = self.known.get(class).is_none_or(|known| {
                let is_over = match known.handler {
                    Handler::Missing { again, .. } => again <= now,
                    Handler::Found(_) => false,
                };
                is_over || since.is_some_and(|since| known.read < since)
            });
            is_wanted && may_ask
        })
    }

    /// Asks for the class of a pod, and waits a moment for the answer, unless `is_slow`. Returns whether an answer has come.
    pub fn look_up(
        &mut self,
        asker: Asker,
        pod: &DesiredPod,
        now: Mono,
        again: Duration,
        is_slow: bool,
    ) -> bool {
        let Some(class) = runtimes::class(pod).map(str::to_owned) else { return true };
        let of = class.clone();
        self.failed.remove(&class);
        if let Err(error) = self.under_way.begin(class.clone(), move || handler(&asker, &of)) {
            self.failed.insert(class, Failed { why: error.to_string(), again: now.after(again) });
            return false;
        }
        let wait = if is_slow { Duration::ZERO } else { limits::API_LOOK_UP_QUICK };
        self.take_answers(wait, now, again);
        !self.under_way.has(&class)
    }

    /// Takes the answers that have come, and those that come within this time as long as none is there. What has failed is
    /// asked for again after `again`, and what is missing more and more rarely.
    pub fn take_answers(&mut self, wait: Duration, now: Mono, again: Duration) {
        let mut wait = wait;
        while let Some((class, result)) = self.under_way.next(std::mem::take(&mut wait)) {
            match result {
                Ok(handler) => {
                    let wait = match self.known.get(&class).map(|known| &known.handler) {
                        Some(Handler::Missing { wait, .. }) => {
                            wait.saturating_mul(2).min(limits::API_BACKOFF_MAX)
                        }
                        Some(Handler::Found(_)) | None => again,
                    };
                    let missing = Handler::Missing { again: now.after(wait), wait };
                    let handler = handler.map_or(missing, Handler::Found);
                    self.known.insert(class, Class { read: now, handler });
                }
                Err(error) => {
                    let again = now.after(again);
                    self.failed.insert(class, Failed { why: error.to_string(), again });
                }
            }
        }
    }

    /// Gives the pod the handler of its class, if that is known and it has none.
    pub fn give(&mut self, pod: &DesiredPod) {
        let Some(class) = runtimes::class(pod).filter(|_| !self.given.contains_key(&pod.uid)) else { return };
        if let Some(Class { handler: Handler::Found(handler), .. }) = self.known.get(class) {
            let given = Given { class: class.to_owned(), handler: handler.clone() };
            self.given.insert(pod.uid.clone(), given);
        }
    }

    /// The pod with its handler.
    #[must_use]
    pub fn write(&self, pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
        let Some(given) = runtimes::class(pod).and_then(|_| self.given.get(&pod.uid)) else {
            return Arc::clone(pod);
        };
        let mut pod = DesiredPod::clone(pod);
        pod.metadata.annotations.get_or_insert_default().insert(HANDLER.to_owned(), given.handler.clone());
        Arc::new(pod)
    }

    /// What pods got, in stored form.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        self.given.iter().map(|(uid, Given { class, handler })| {
            json!({"kind": KIND, "metadata": {"name": class}, "handler": handler, "pod": uid}).to_string()
        })
    }

    /// Takes what a stored pod got. Those that an earlier version stored are of no certain pod: of all that were stored.
    pub fn remember(&mut self, own: &Value) {
        let text = |path: &str| own.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let (Some(class), Some(handler)) = (text("/metadata/name"), text("/handler")) else { return };
        match text("/pod") {
            Some(uid) => _ = self.given.insert(uid, Given { class, handler }),
            None => {
                let handler = Handler::Found(handler);
                self.known.insert(class, Class { read: Mono::default(), handler });
            }
        }
    }
}

/// The handler of a class.
///
/// # Errors
/// No answer, or one without a handler.
fn handler(asker: &Asker, class: &str) -> Result<Option<String>, ApiError> {
    let path = format!("/apis/node.k8s.io/v1/runtimeclasses/{}", encoded(class));
    match asker.get(path) {
        Ok(found) => {
            let handler = found.get("handler").and_then(Value::as_str).filter(|it| !it.is_empty());
            let none = || ApiError::BadAnswer(format!("RuntimeClass {class} has no handler"));
            handler.map(str::to_owned).map(Some).ok_or_else(none)
        }
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::pod;

    fn of(uid: &str, class: &str) -> Arc<DesiredPod> {
        let mut pod = pod(&format!("{{runtimeClassName: {class}, containers: [{{name: a}}]}}"));
        pod.uid = uid.to_owned();
        Arc::new(pod)
    }

    fn at(seconds: u64) -> Mono {
        Mono::default().after(Duration::from_secs(seconds))
    }

    /// The server answers.
    fn answer(classes: &mut Classes, class: &str, handler: Option<&str>, now: Mono) {
        let handler = handler.map(str::to_owned);
        classes.under_way.begin(class.to_owned(), || Ok(handler)).unwrap();
        classes.take_answers(Duration::from_secs(10), now, Duration::from_secs(2));
    }

    fn handler(classes: &Classes, pod: &Arc<DesiredPod>) -> Option<String> {
        classes.write(pod).metadata.annotations.as_ref()?.get(HANDLER).cloned()
    }

    #[test]
    fn what_is_remembered_of_a_pod_is_written_on_it() {
        let (safe, plain) = (of("u1", "safe"), Arc::new(pod("{containers: [{name: a}]}")));
        let mut classes = Classes::default();
        assert!(classes.is_due(&safe, None, at(0)) && !classes.is_known(&safe) && classes.is_known(&plain));
        answer(&mut classes, "safe", Some("runsc"), at(1));
        answer(&mut classes, "gone", None, at(1));
        [&safe, &plain, &of("u2", "gone")].into_iter().for_each(|pod| classes.give(pod));
        let mut again = Classes::default();
        classes.texts().for_each(|text| again.remember(&serde_json::from_str(&text).unwrap()));
        assert_eq!(handler(&again, &safe).as_deref(), Some("runsc"));
        assert!(Arc::ptr_eq(&again.write(&plain), &plain));
        assert!(again.is_known(&safe) && !again.is_due(&safe, Some(at(5)), at(5)) && again.given.len() == 1);
        // An earlier version stored classes.
        let mut earlier = Classes::default();
        earlier.remember(&json!({"kind": KIND, "metadata": {"name": "safe"}, "handler": "runsc"}));
        earlier.give(&safe);
        assert_eq!(handler(&earlier, &safe).as_deref(), Some("runsc"));
        let (names, uids) = (Set::from(["safe"]), Set::from(["u2".to_owned()]));
        classes.retain(&names, &uids);
        assert_eq!((classes.known.len(), classes.given.len()), (1, 0));
    }

    /// Regression: it had the handler of the class that had been there before, as long as another pod named that.
    #[test]
    fn a_new_pod_has_the_handler_of_the_class_that_is_there_now() {
        let (old, new) = (of("u1", "safe"), of("u2", "safe"));
        let mut classes = Classes::default();
        answer(&mut classes, "safe", Some("runsc"), at(1));
        classes.give(&old);
        assert!(classes.is_due(&new, Some(at(2)), at(2)));
        answer(&mut classes, "safe", Some("kata"), at(3));
        assert!(!classes.is_due(&new, Some(at(2)), at(3)));
        [&old, &new].into_iter().for_each(|pod| classes.give(pod));
        let of = |pod: &Arc<DesiredPod>| handler(&classes, pod);
        assert_eq!((of(&old).as_deref(), of(&new).as_deref()), (Some("runsc"), Some("kata")));
        // It was removed: the next one waits.
        let third = self::of("u3", "safe");
        assert!(classes.is_due(&third, Some(at(4)), at(4)));
        answer(&mut classes, "safe", None, at(4));
        classes.give(&third);
        assert_eq!((handler(&classes, &third), handler(&classes, &old).as_deref()), (None, Some("runsc")));
    }

    #[test]
    fn a_missing_class_is_asked_for_more_and_more_rarely() {
        let pod = of("u1", "late");
        let (mut classes, mut now, mut waits) = (Classes::default(), at(0), Vec::new());
        for _ in 0..6 {
            assert!(classes.is_due(&pod, None, now));
            answer(&mut classes, "late", None, now);
            assert!(classes.is_known(&pod) && !classes.is_due(&pod, None, now));
            let next = classes.due().unwrap();
            waits.push(next.since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
        classes.under_way.begin("late".to_owned(), || Ok(None)).unwrap();
        assert!(!classes.is_due(&pod, Some(now), now) && !classes.is_known(&pod) && classes.due().is_none());
        classes.take_answers(Duration::from_secs(10), now, Duration::from_secs(2));
        answer(&mut classes, "late", Some("runsc"), now);
        classes.give(&pod);
        assert_eq!((handler(&classes, &pod).as_deref(), classes.due()), (Some("runsc"), None));
        assert!(!classes.is_due(&pod, Some(at(7200)), at(7200)));
    }
}
