//! Why a container waits, in the kubelet's words (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`,
//! `pkg/kubelet/images/types.go`, `pkg/kubelet/container/sync_result.go`).

use std::fmt;

/// Makes the enum, its list and its words of one table: each word is its variant's name.
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

            /// As the API has it.
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
    /// It cannot be made of what is known now.
    CreateContainerConfigError,
    /// Docker did not make it.
    CreateContainerError,
    /// Docker did not start it.
    RunContainerError,
    /// Its postStart hook failed.
    PostStartHookError,
    /// It keeps ending.
    CrashLoopBackOff,
    /// The pull of its image failed.
    ErrImagePull,
    /// The next pull of its image waits.
    ImagePullBackOff,
    /// Its image is not there, and may not be pulled.
    ErrImageNeverPull,
    /// The name of its image is not a reference.
    InvalidImageName,
    /// The registry cannot serve now.
    RegistryUnavailable,
    /// Docker cannot tell of its image.
    ImageInspectError,
}

impl Reason {
    #[cfg(test)]
    pub(crate) fn named(word: &str) -> Reason {
        *Reason::ALL.iter().find(|reason| reason.as_str() == word).expect("a reason of the kubelet's")
    }

    /// Of a container that nothing holds up. `initializes`: its pod has init containers.
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
