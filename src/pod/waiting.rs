//! Why a container waits, in the kubelet's words (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`,
//! `pkg/kubelet/images/types.go`, `pkg/kubelet/container/sync_result.go`).

use std::fmt;

/// Generates the enum, its list and its words from one table: each word is the name of its variant.
macro_rules! reasons {
    ($($(#[$doc:meta])* $reason:ident,)+) => {
        /// The reason in a container's `state.waiting`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$doc])* $reason,)+
        }

        impl Reason {
            #[cfg(test)]
            const ALL: &[Reason] = &[$(Reason::$reason,)+];

            /// The reason in the API's form.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Reason::$reason => stringify!($reason),)+
                }
            }
        }
    };
}

reasons! {
    /// It waits for its sandbox, its volumes or its image.
    ContainerCreating,
    /// The same, in a pod that has init containers.
    PodInitializing,
    /// Docker's configuration for it cannot be made from the current data.
    CreateContainerConfigError,
    /// Docker could not create it.
    CreateContainerError,
    /// Docker could not start it.
    RunContainerError,
    /// Its postStart hook failed.
    PostStartHookError,
    /// It ends again and again.
    CrashLoopBackOff,
    /// The pull of its image failed.
    ErrImagePull,
    /// The next pull of its image is delayed.
    ImagePullBackOff,
    /// Its image is missing, and may not be pulled.
    ErrImageNeverPull,
    /// The name of its image is not a reference.
    InvalidImageName,
    /// The registry is unavailable.
    RegistryUnavailable,
    /// Docker cannot inspect its image.
    ImageInspectError,
}

impl Reason {
    #[cfg(test)]
    pub(crate) fn named(word: &str) -> Reason {
        *Reason::ALL.iter().find(|reason| reason.as_str() == word).expect("a reason of the kubelet's")
    }

    /// The reason of a container that is just starting. `initializes`: its pod has init containers.
    #[must_use]
    pub fn of_start(initializes: bool) -> Reason {
        if initializes { Reason::PodInitializing } else { Reason::ContainerCreating }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The begin of a command's output in the failure of a hook.
pub const HOOK_OUTPUT: &str = ": , message: ";

/// How the command of a hook failed.
#[must_use]
pub fn hook_exited(command: &[String], code: i64, output: &str) -> String {
    format!("command '{}' exited with {code}{HOOK_OUTPUT}{output:?}", command.join(" "))
}
