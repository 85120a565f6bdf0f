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

/// Handlers by class; `None` when the server has no such class.
type Handlers = Table<String, Option<String>>;

/// The reason why the request for a class failed, and when it is repeated.
#[derive(Debug)]
struct Failed {
    why: String,
    again: Mono,
}

/// What is known of runtime classes.
#[derive(Debug, Default)]
pub struct Classes {
    handlers: Handlers,
    under_way: UnderWay<String, Result<Option<String>, ApiError>>,
    failed: Table<String, Failed>,
}

impl Classes {
    /// Forgets the classes that no pod names any more.
    pub fn retain(&mut self, wanted: &Set<&str>) {
        self.handlers.retain(|class, _| wanted.contains(class.as_str()));
        self.under_way.retain(|class| wanted.contains(class.as_str()));
        self.failed.retain(|class, _| wanted.contains(class.as_str()));
    }

    /// Whether the server was asked for the class of this pod, or the pod has none.
    #[must_use]
    pub fn is_known(&self, pod: &DesiredPod) -> bool {
        runtimes::class(pod).is_none_or(|class| {
            let is_open = self.under_way.has(class) || self.failed.contains_key(class);
            self.handlers.contains_key(class) && !is_open
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

    /// Whether to ask for the class of this pod. A class that was missing may exist by now.
    #[must_use]
    pub fn is_due(&self, pod: &DesiredPod, is_new: bool, now: Mono) -> bool {
        runtimes::class(pod).is_some_and(|class| {
            let may_ask = !self.under_way.has(class)
                && !self.under_way.is_full()
                && self.failed.get(class).is_none_or(|failed| failed.again <= now);
            let is_wanted = match self.handlers.get(class) {
                None => true,
                Some(None) => is_new,
                Some(Some(_)) => false,
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
        self.take_answers(wait, now.after(again));
        !self.under_way.has(&class)
    }

    /// Takes the answers that have come, and those that come within this time as long as none is there. What has failed is
    /// asked for again at `again`.
    pub fn take_answers(&mut self, wait: Duration, again: Mono) {
        let mut wait = wait;
        while let Some((class, result)) = self.under_way.next(std::mem::take(&mut wait)) {
            match result {
                Ok(handler) => _ = self.handlers.insert(class, handler),
                Err(error) => _ = self.failed.insert(class, Failed { why: error.to_string(), again }),
            }
        }
    }

    /// The pod with the handler of its class.
    #[must_use]
    pub fn write(&self, pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
        let handler = runtimes::class(pod).and_then(|class| self.handlers.get(class)?.as_ref());
        let Some(handler) = handler else { return Arc::clone(pod) };
        let mut pod = DesiredPod::clone(pod);
        pod.metadata.annotations.get_or_insert_default().insert(HANDLER.to_owned(), handler.clone());
        Arc::new(pod)
    }

    /// The classes in stored form.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let found = self.handlers.iter().filter_map(|(class, handler)| Some((class, handler.as_ref()?)));
        found.map(|(class, handler)| {
            json!({"kind": KIND, "metadata": {"name": class}, "handler": handler}).to_string()
        })
    }

    /// Takes a stored class.
    pub fn remember(&mut self, own: &Value) {
        let text = |path: &str| own.pointer(path).and_then(Value::as_str).map(str::to_owned);
        if let (Some(class), Some(handler)) = (text("/metadata/name"), text("/handler")) {
            self.handlers.insert(class, Some(handler));
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
        let handlers =
            Table::from([("safe".to_owned(), Some("runsc".to_owned())), ("gone".to_owned(), None)]);
        let mut classes = Classes { handlers, ..Classes::default() };
        let mut again = Classes::default();
        assert!(
            again.is_due(&safe, false, Mono::default()) && !again.is_known(&safe) && again.is_known(&plain)
        );
        classes.texts().for_each(|text| again.remember(&serde_json::from_str(&text).unwrap()));
        let written = again.write(&safe);
        assert_eq!(written.metadata.annotations.as_ref().unwrap()[HANDLER], "runsc");
        assert!(Arc::ptr_eq(&again.write(&plain), &plain));
        assert!(!again.is_due(&safe, true, Mono::default()) && again.handlers.len() == 1);
        classes.retain(&Set::from(["safe"]));
        assert_eq!(classes.handlers.len(), 1);
    }
}
