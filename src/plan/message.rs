//! Where a container's last words come from, by its spec. What they are is `termination/`'s work.

use k8s_openapi::api::core::v1::Container;

use crate::plan::Exit;

/// Policy that looks into the log when a failed container left no message.
const FALLBACK: &str = "FallbackToLogsOnError";

/// Where the message of one container comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// From its file.
    pub file: bool,
    /// From its log, when it failed and the file has nothing.
    pub log: bool,
}

impl Way {
    /// As `terminationMessagePath` and `terminationMessagePolicy` say it.
    #[must_use]
    pub fn of(path: Option<&str>, policy: Option<&str>) -> Way {
        Way { file: path.is_some_and(|path| !path.is_empty()), log: policy == Some(FALLBACK) }
    }

    /// The same of a container's spec.
    #[must_use]
    pub fn of_spec(spec: &Container) -> Way {
        Way::of(spec.termination_message_path.as_deref(), spec.termination_message_policy.as_deref())
    }

    /// Whether the log is asked after the file brought nothing: a container that could not even start has
    /// none, and one that succeeded owes no explanation.
    #[must_use]
    pub fn asks_log(self, exit: &Exit) -> bool {
        self.log && exit.code != 0 && !exit.cannot_run
    }
}
