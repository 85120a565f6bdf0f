//! `--profile`: the security context of an added container, as kubectl's debugging profiles set it for ephemeral
//! containers (`kubectl/pkg/cmd/debug/profiles.go`). Pure.

use k8s_openapi::api::core::v1::{Capabilities, SeccompProfile, SecurityContext};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// No security context; kubectl has it for compatibility.
    Legacy,
    /// May trace processes.
    #[default]
    General,
    /// All that the baseline standard allows.
    Baseline,
    /// The minimum that the restricted standard requires.
    Restricted,
    /// May administer the network.
    Netadmin,
    /// Privileged.
    Sysadmin,
}

impl Profile {
    /// The container's own security context; fields that it leaves out are the pod's.
    #[must_use]
    pub fn security_context(self) -> Option<SecurityContext> {
        let adding = |capabilities: &[&str]| {
            let add = capabilities.iter().map(|name| (*name).to_owned()).collect();
            let capabilities = Capabilities { add: Some(add), drop: None };
            Some(SecurityContext { capabilities: Some(capabilities), ..SecurityContext::default() })
        };
        match self {
            Profile::Legacy | Profile::Baseline => None,
            Profile::General => adding(&["SYS_PTRACE"]),
            Profile::Netadmin => adding(&["NET_ADMIN", "NET_RAW"]),
            Profile::Sysadmin => {
                Some(SecurityContext { privileged: Some(true), ..SecurityContext::default() })
            }
            Profile::Restricted => Some(SecurityContext {
                run_as_non_root: Some(true),
                allow_privilege_escalation: Some(false),
                capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
                seccomp_profile: Some(SeccompProfile {
                    type_: "RuntimeDefault".to_owned(),
                    localhost_profile: None,
                }),
                ..SecurityContext::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_kubectls() {
        for (profile, expected) in [
            (Profile::Legacy, "null"),
            (Profile::General, r#"{"capabilities":{"add":["SYS_PTRACE"]}}"#),
            (Profile::Baseline, "null"),
            (
                Profile::Restricted,
                r#"{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}"#,
            ),
            (Profile::Netadmin, r#"{"capabilities":{"add":["NET_ADMIN","NET_RAW"]}}"#),
            (Profile::Sysadmin, r#"{"privileged":true}"#),
        ] {
            let context = profile.security_context();
            assert_eq!(serde_json::to_string(&context).unwrap(), expected, "{profile:?}");
        }
    }
}
