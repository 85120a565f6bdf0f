//! The source of a container's termination message, from its spec. `termination/` reads the message itself.

use k8s_openapi::api::core::v1::Container;

use crate::plan::Exit;

/// Policy that uses the end of the log when a failed container left no message.
const FALLBACK: &str = "FallbackToLogsOnError";

/// The sources of one container's termination message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// Its termination file.
    pub file: bool,
    /// Its log, when it failed and the file is empty.
    pub log: bool,
}

impl Way {
    /// From `terminationMessagePath` and `terminationMessagePolicy`.
    #[must_use]
    pub fn of(path: Option<&str>, policy: Option<&str>) -> Way {
        Way { file: path.is_some_and(|path| !path.is_empty()), log: policy == Some(FALLBACK) }
    }

    /// From a container's spec.
    #[must_use]
    pub fn of_spec(spec: &Container) -> Way {
        Way::of(spec.termination_message_path.as_deref(), spec.termination_message_policy.as_deref())
    }

    /// Whether to read the log after an empty file: a container that could not start has no log, and a
    /// successful one needs no message.
    #[must_use]
    pub fn asks_log(self, exit: &Exit) -> bool {
        self.log && exit.code != 0 && !exit.cannot_run
    }
}
