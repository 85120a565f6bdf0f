//! Docker's runtimes for pods with a `runtimeClassName`: flags map a class's handler to a runtime. Pure: a missing
//! runtime is noticed when a container is created.
//!
//! The handler of a cluster's class, and the chosen runtime, are annotations that podkeeper writes; the same
//! annotations in a manifest are ignored.

use std::collections::BTreeMap;
use std::fmt;

use crate::pod::DesiredPod;

/// Annotation that the source writes: the handler of the pod's class in a cluster.
pub const HANDLER: &str = "podkeeper.dev/runtime-handler";
/// Annotation that the main loop writes: Docker's runtime for the pod's containers.
pub const RUNTIME: &str = "podkeeper.dev/runtime";

/// Docker's runtimes by handler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Runtimes(BTreeMap<String, String>);

impl Runtimes {
    /// Adds one mapping in the syntax of `--runtime-class`: `NAME=RUNTIME`.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, runtime) = text.split_once('=').ok_or("must be NAME=RUNTIME")?;
        let of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_end = |byte: Option<u8>| byte.is_some_and(|byte| byte != b'-' && of_name(byte));
        let bytes = || name.bytes();
        if name.len() > 63 || !bytes().all(of_name) || !is_end(bytes().next()) || !is_end(bytes().next_back())
        {
            return Err(format!("{name:?} cannot be the name of a handler"));
        }
        let of_runtime = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
        if runtime.is_empty() || !runtime.bytes().all(of_runtime) {
            return Err(format!("{runtime:?} cannot be the name of a runtime of Docker"));
        }
        match self.0.insert(name.to_owned(), runtime.to_owned()) {
            Some(other) if other != runtime => Err(format!("{name} is {other} already")),
            _ => Ok(()),
        }
    }

    /// The runtime of Docker for a pod; `None` for Docker's default. `in_cluster`: the class is an object of an API
    /// server; otherwise it is the handler itself.
    ///
    /// # Errors
    /// There is no runtime.
    pub fn of(&self, pod: &DesiredPod, in_cluster: bool) -> Result<Option<&str>, NoRuntime> {
        let Some(class) = class(pod) else { return Ok(None) };
        let handler = match in_cluster {
            true => annotation(pod, HANDLER).ok_or_else(|| NoRuntime::Class(class.to_owned()))?,
            false => class,
        };
        let found = self.0.get(handler).map(String::as_str);
        found.map(Some).ok_or_else(|| NoRuntime::Handler(handler.to_owned()))
    }
}

/// Why there is no runtime for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoRuntime {
    /// The API server has no such class yet. The kubelet tries again, too.
    Class(String),
    /// This node has no runtime for the handler.
    Handler(String),
}

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The kubelet's words (`pkg/kubelet/runtimeclass/runtimeclass_manager.go`).
            NoRuntime::Class(class) => write!(
                f,
                "failed to get runtime handler for RuntimeClass {class:?}: runtimeclass.node.k8s.io {class:?} not found"
            ),
            NoRuntime::Handler(handler) => write!(
                f,
                "RuntimeHandler {handler:?} not supported: this node has no --runtime-class {handler}=RUNTIME"
            ),
        }
    }
}

/// The pod's runtime class.
#[must_use]
pub fn class(pod: &DesiredPod) -> Option<&str> {
    pod.spec.runtime_class_name.as_deref().filter(|name| !name.is_empty())
}

/// The runtime that the main loop has written on the pod.
#[must_use]
pub fn written(pod: &DesiredPod) -> Option<&str> {
    class(pod).and_then(|_| annotation(pod, RUNTIME))
}

fn annotation<'p>(pod: &'p DesiredPod, key: &str) -> Option<&'p str> {
    pod.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::pod;

    fn runtimes(all: &[&str]) -> Result<Runtimes, String> {
        let mut runtimes = Runtimes::default();
        all.iter().try_for_each(|text| runtimes.add(text)).map(|()| runtimes)
    }

    #[test]
    fn what_flags_say() {
        assert!(runtimes(&["kata=io.containerd.kata.v2", "gvisor=runsc", "gvisor=runsc"]).is_ok());
        for bad in ["kata", "=runsc", "Kata=runsc", "-a=runsc", "a=", "a=b c", "a=--x y"] {
            assert!(runtimes(&[bad]).is_err(), "{bad}");
        }
        assert_eq!(runtimes(&["a=b", "a=c"]), Err("a is b already".to_owned()));
    }

    #[test]
    fn the_runtime_of_a_pod() {
        let all = runtimes(&["gvisor=runsc"]).unwrap();
        let spec = |class: &str| pod(&format!("{{runtimeClassName: {class}, containers: [{{name: a}}]}}"));
        assert_eq!(all.of(&pod("{containers: [{name: a}]}"), true), Ok(None));
        assert_eq!(all.of(&spec("gvisor"), false), Ok(Some("runsc")));
        assert!(
            all.of(&spec("kata"), false)
                .unwrap_err()
                .to_string()
                .starts_with("RuntimeHandler \"kata\" not supported")
        );
        // In a cluster, a class may have a handler of another name.
        let mut safe = spec("safe");
        let missing = all.of(&safe, true).unwrap_err();
        assert_eq!(missing, NoRuntime::Class("safe".to_owned()));
        assert!(missing.to_string().contains("runtimeclass.node.k8s.io \"safe\" not found"));
        safe.metadata.annotations.get_or_insert_default().insert(HANDLER.to_owned(), "gvisor".to_owned());
        assert_eq!(all.of(&safe, true), Ok(Some("runsc")));
    }
}
