//! `--profile`: what an added container may do, as kubectl's debugging profiles have it for ephemeral
//! containers (`kubectl/pkg/cmd/debug/profiles.go`). Pure.

use k8s_openapi::api::core::v1::{Capabilities, SeccompProfile, SecurityContext};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Profile {
    /// Nothing is asked for; kubectl has it for compatibility.
    Legacy,
    /// It may look into processes.
    #[default]
    General,
    /// What the baseline standard allows.
    Baseline,
    /// What the restricted standard asks for.
    Restricted,
    /// It may administer the network.
    Netadmin,
    /// Privileged.
    Sysadmin,
}

impl Profile {
    /// Every profile, with its word.
    pub const ALL: [(&'static str, Profile); 6] = [
        ("legacy", Profile::Legacy),
        ("general", Profile::General),
        ("baseline", Profile::Baseline),
        ("restricted", Profile::Restricted),
        ("netadmin", Profile::Netadmin),
        ("sysadmin", Profile::Sysadmin),
    ];

    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let found = Profile::ALL.into_iter().find(|(word, _)| *word == text);
        found.map(|(_, profile)| profile).ok_or_else(|| {
            let words = Profile::ALL.map(|(word, _)| word).join(", ");
            format!("unknown profile: {text}; must be one of {words}")
        })
    }

    /// The container's own security context; what it does not say is the pod's.
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
        for (word, expected) in [
            ("legacy", "null"),
            ("general", r#"{"capabilities":{"add":["SYS_PTRACE"]}}"#),
            ("baseline", "null"),
            (
                "restricted",
                r#"{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}"#,
            ),
            ("netadmin", r#"{"capabilities":{"add":["NET_ADMIN","NET_RAW"]}}"#),
            ("sysadmin", r#"{"privileged":true}"#),
        ] {
            let context = Profile::parse(word).unwrap().security_context();
            assert_eq!(serde_json::to_string(&context).unwrap(), expected, "{word}");
        }
        assert!(Profile::parse("auto").unwrap_err().starts_with("unknown profile: auto"));
    }
}
