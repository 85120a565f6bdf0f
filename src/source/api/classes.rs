//! The runtime classes that the cluster's pods name (`pkg/kubelet/runtimeclass/runtimeclass_manager.go`). The handler
//! of a class is written on its pods, and stored with them. A handler never changes (`pkg/apis/node/validation`).
//!
//! Never here: the effect of a handler.

use std::sync::Arc;

use crate::base::json::json;
use serde_json::Value;

use super::objects::Asker;
use crate::api_client::ApiError;
use crate::api_client::request::encoded;
use crate::base::table::{Set, Table};
use crate::node::runtimes::{self, HANDLER};
use crate::pod::DesiredPod;

/// Kind of the object.
pub const KIND: &str = "RuntimeClass";

/// Handlers by class; `None` when the server has no such class.
#[derive(Debug, Default)]
pub struct Classes(Table<String, Option<String>>);

impl Classes {
    /// Forgets the classes that no pod names any more.
    pub fn retain(&mut self, wanted: &Set<&str>) {
        self.0.retain(|class, _| wanted.contains(class.as_str()));
    }

    /// Whether the server was asked for the class of this pod, or the pod has none.
    #[must_use]
    pub fn is_known(&self, pod: &DesiredPod) -> bool {
        runtimes::class(pod).is_none_or(|class| self.0.contains_key(class))
    }

    /// Whether to ask for the class of this pod. A class that was missing may exist by now.
    #[must_use]
    pub fn is_due(&self, pod: &DesiredPod, is_new: bool) -> bool {
        runtimes::class(pod).is_some_and(|class| match self.0.get(class) {
            None => true,
            Some(None) => is_new,
            Some(Some(_)) => false,
        })
    }

    /// Asks for the class of a pod.
    ///
    /// # Errors
    /// No answer, or one without the class.
    pub fn look_up(&mut self, asker: &Asker, pod: &DesiredPod) -> Result<(), ApiError> {
        let Some(class) = runtimes::class(pod) else { return Ok(()) };
        let path = format!("/apis/node.k8s.io/v1/runtimeclasses/{}", encoded(class));
        let handler = match asker.get(path) {
            Ok(found) => {
                let handler = found.get("handler").and_then(Value::as_str).filter(|it| !it.is_empty());
                let none = || ApiError::BadAnswer(format!("RuntimeClass {class} has no handler"));
                Some(handler.ok_or_else(none)?.to_owned())
            }
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error),
        };
        self.0.insert(class.to_owned(), handler);
        Ok(())
    }

    /// The pod with the handler of its class.
    #[must_use]
    pub fn write(&self, pod: &Arc<DesiredPod>) -> Arc<DesiredPod> {
        let handler = runtimes::class(pod).and_then(|class| self.0.get(class)?.as_ref());
        let Some(handler) = handler else { return Arc::clone(pod) };
        let mut pod = DesiredPod::clone(pod);
        pod.metadata.annotations.get_or_insert_default().insert(HANDLER.to_owned(), handler.clone());
        Arc::new(pod)
    }

    /// The classes in stored form.
    pub fn texts(&self) -> impl Iterator<Item = String> {
        let found = self.0.iter().filter_map(|(class, handler)| Some((class, handler.as_ref()?)));
        found.map(|(class, handler)| {
            json!({"kind": KIND, "metadata": {"name": class}, "handler": handler}).to_string()
        })
    }

    /// Takes a stored class.
    pub fn remember(&mut self, own: &Value) {
        let text = |path: &str| own.pointer(path).and_then(Value::as_str).map(str::to_owned);
        if let (Some(class), Some(handler)) = (text("/metadata/name"), text("/handler")) {
            self.0.insert(class, Some(handler));
        }
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
        let mut classes =
            Classes(Table::from([("safe".to_owned(), Some("runsc".to_owned())), ("gone".to_owned(), None)]));
        let mut again = Classes::default();
        assert!(again.is_due(&safe, false) && !again.is_known(&safe) && again.is_known(&plain));
        classes.texts().for_each(|text| again.remember(&serde_json::from_str(&text).unwrap()));
        let written = again.write(&safe);
        assert_eq!(written.metadata.annotations.as_ref().unwrap()[HANDLER], "runsc");
        assert!(Arc::ptr_eq(&again.write(&plain), &plain));
        assert!(!again.is_due(&safe, true) && again.0.len() == 1);
        classes.retain(&Set::from(["safe"]));
        assert_eq!(classes.0.len(), 1);
    }
}
