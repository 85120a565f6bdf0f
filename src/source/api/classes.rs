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

/// What the server said of a class.
#[derive(Debug)]
enum Class {
    /// Its handler.
    Handler(String),
    /// There is no such class. It is asked for again, after a wait that doubles.
    Missing { again: Mono, wait: Duration },
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
    under_way: UnderWay<String, Result<Option<String>, ApiError>>,
    failed: Table<String, Failed>,
}

impl Classes {
    /// Forgets the classes that no pod names any more.
    pub fn retain(&mut self, wanted: &Set<&str>) {
        self.known.retain(|class, _| wanted.contains(class.as_str()));
        self.under_way.retain(|class| wanted.contains(class.as_str()));
        self.failed.retain(|class, _| wanted.contains(class.as_str()));
    }

    /// Whether the server was asked for the class of this pod, or the pod has none.
    #[must_use]
    pub fn is_known(&self, pod: &DesiredPod) -> bool {
        runtimes::class(pod).is_none_or(|class| {
            let is_open = self.under_way.has(class) || self.failed.contains_key(class);
            self.known.contains_key(class) && !is_open
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
            .filter_map(|(_, class)| match class {
                Class::Missing { again, .. } => Some(*again),
                Class::Handler(_) => None,
            })
            .min()
    }

    /// Whether to ask for the class of this pod. A class that was missing may exist by now.
    #[must_use]
    pub fn is_due(&self, pod: &DesiredPod, is_new: bool, now: Mono) -> bool {
        runtimes::class(pod).is_some_and(|class| {
            let may_ask = !self.under_way.has(class)
                && !self.under_way.is_full()
                && self.failed.get(class).is_none_or(|failed| failed.again <= now);
            let is_wanted = match self.known.get(class) {
                None => true,
                Some(Class::Missing { again, .. }) => is_new || *again <= now,
                Some(Class::Handler(_)) => false,
            };
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
                Ok(Some(handler)) => _ = self.known.insert(class, Class::Handler(handler)),
                Ok(None) => {
                    let wait = match self.known.get(&class) {
                        Some(Class::Missing { wait, .. }) => {
                            wait.saturating_mul(2).min(limits::API_BACKOFF_MAX)
                        }
                        Some(Class::Handler(_)) | None => again,
                    };
                    self.known.insert(class, Class::Missing { again: now.after(wait), wait });
                }
                Err(error) => {
                    let again = now.after(again);
                    self.failed.insert(class, Failed { why: error.to_string(), again });
                }
            }
        }
    }

    fn handler(&self, class: &str) -> Option<&str> {
        match self.known.get(class)? {
            Class::Handler(handler) => Some(handler),
            Class::Missing { .. } => None,
        }
    }

    /// The pod with the handler of its class.
    #[must_use]
    pub fn write(&self, pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
        let Some(handler) = runtimes::class(pod).and_then(|class| self.handler(class)) else {
            return Arc::clone(pod);
        };
        let mut pod = DesiredPod::clone(pod);
        pod.metadata.annotations.get_or_insert_default().insert(HANDLER.to_owned(), handler.to_owned());
        Arc::new(pod)
    }

    /// The classes in stored form.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let found = self.known.keys().filter_map(|class| Some((class, self.handler(class)?)));
        found.map(|(class, handler)| {
            json!({"kind": KIND, "metadata": {"name": class}, "handler": handler}).to_string()
        })
    }

    /// Takes a stored class.
    pub fn remember(&mut self, own: &Value) {
        let text = |path: &str| own.pointer(path).and_then(Value::as_str).map(str::to_owned);
        if let (Some(class), Some(handler)) = (text("/metadata/name"), text("/handler")) {
            self.known.insert(class, Class::Handler(handler));
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

    #[test]
    fn what_is_remembered_of_a_class_is_written_on_its_pods() {
        let (safe, plain) = (
            Arc::new(pod("{runtimeClassName: safe, containers: [{name: a}]}")),
            Arc::new(pod("{containers: [{name: a}]}")),
        );
        let missing = Class::Missing { again: Mono::default(), wait: Duration::ZERO };
        let known = Table::from([
            ("safe".to_owned(), Class::Handler("runsc".to_owned())),
            ("gone".to_owned(), missing),
        ]);
        let mut classes = Classes { known, ..Classes::default() };
        let mut again = Classes::default();
        assert!(
            again.is_due(&safe, false, Mono::default()) && !again.is_known(&safe) && again.is_known(&plain)
        );
        classes.texts().for_each(|text| again.remember(&serde_json::from_str(&text).unwrap()));
        let written = again.write(&safe);
        assert_eq!(written.metadata.annotations.as_ref().unwrap()[HANDLER], "runsc");
        assert!(Arc::ptr_eq(&again.write(&plain), &plain));
        assert!(!again.is_due(&safe, true, Mono::default()) && again.known.len() == 1);
        classes.retain(&Set::from(["safe"]));
        assert_eq!(classes.known.len(), 1);
    }

    #[test]
    fn a_missing_class_is_asked_for_more_and_more_rarely() {
        let (pod, again) = (pod("{runtimeClassName: late, containers: [{name: a}]}"), Duration::from_secs(2));
        let (mut classes, mut now, mut waits) = (Classes::default(), Mono::default(), Vec::new());
        for _ in 0..6 {
            assert!(classes.is_due(&pod, false, now));
            classes.under_way.begin("late".to_owned(), || Ok(None)).unwrap();
            assert!(!classes.is_due(&pod, true, now) && !classes.is_known(&pod) && classes.due().is_none());
            classes.take_answers(Duration::from_secs(10), now, again);
            assert!(classes.is_known(&pod) && !classes.is_due(&pod, false, now));
            let next = classes.due().unwrap();
            waits.push(next.since(now).as_secs());
            now = next;
        }
        assert_eq!(waits, [2, 4, 8, 16, 30, 30]);
        classes.under_way.begin("late".to_owned(), || Ok(Some("runsc".to_owned()))).unwrap();
        classes.take_answers(Duration::from_secs(10), now, again);
        assert_eq!((classes.handler("late"), classes.due()), (Some("runsc"), None));
        assert!(!classes.is_due(&pod, true, now.after(Duration::from_secs(3600))));
    }
}
