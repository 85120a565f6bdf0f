//! Flags: rules for pods.

use super::Repeats::Adds;
use super::Takes::{List, Switch, Text};
use super::{Flag, InFile, RUN_CHECK, Section, put, value};
use crate::base::table::Table;
use crate::node::sysctl;
use crate::pod::Source;
use crate::policy::{self, Exceptions, LevelVersion, Policies, SourcePolicy};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub host_network_sources: Vec<Source>,
    pub pod_security: Table<Source, LevelVersion>,
    /// Policy of all sources, without the level and the host's network.
    pub all: SourcePolicy,
    pub exceptions: Exceptions,
}

pub static SECTION: Section = Section {
    title: "What pods may do",
    flags: &[
        Flag {
            name: "host-network-sources",
            takes: List("LIST", |o, text| put(&mut o.policy.host_network_sources, value::sources(text))),
            default: "*",
            ..RUN_CHECK
        },
        Flag {
            name: "allow-privileged",
            takes: Switch(|o, on| o.policy.all.allow_privileged = on),
            ..RUN_CHECK
        },
        Flag {
            name: "allowed-unsafe-sysctls",
            takes: List("LIST", |o, text| {
                put(&mut o.node.gives.allowed_unsafe_sysctls, sysctl::parse_patterns(text))
            }),
            ..RUN_CHECK
        },
        Flag {
            name: "allowed-devices",
            takes: List("PATH,...", |o, text| {
                // A second value replaces the first.
                o.policy.all.allowed_devices.clear();
                o.policy.all.set("allowed-devices", text)
            }),
            ..RUN_CHECK
        },
        Flag {
            name: "pod-security",
            takes: Text("[SOURCE=]LEVEL[:VERSION],...", |o, text| {
                put(&mut o.policy.pod_security, policy::parse_sources(text))
            }),
            ..RUN_CHECK
        },
        Flag {
            name: "allowed-host-paths",
            takes: List("LIST", |o, text| o.policy.all.set("allowed-host-paths", text)),
            repeats: Adds,
            ..RUN_CHECK
        },
        Flag {
            name: "allowed-images",
            takes: List("LIST", |o, text| o.policy.all.set("allowed-images", text)),
            repeats: Adds,
            ..RUN_CHECK
        },
        Flag {
            name: "require-image-digest",
            takes: Switch(|o, on| o.policy.all.require_image_digest = on),
            ..RUN_CHECK
        },
        Flag {
            name: "source-policy",
            takes: Text("SOURCE=NAME=VALUE[;...]", |o, text| o.policy.exceptions.add(text)),
            in_file: InFile::BySource,
            repeats: Adds,
            ..RUN_CHECK
        },
    ],
};

impl Values {
    /// The policies of all sources: flags for all, then those for single sources.
    ///
    /// # Errors
    /// None that reading the flags has not reported.
    pub fn policies(&self) -> Result<Policies, String> {
        let mut policies = Policies::all(self.all.clone());
        for source in Source::ALL {
            let pod_security = self.pod_security.get(&source).copied();
            let host_network = self.host_network_sources.contains(&source);
            let policy = SourcePolicy { pod_security, host_network, ..self.all.clone() };
            policies = policies.with(source, policy);
        }
        policies.except(&self.exceptions)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        fn file(o: &super::super::Options) -> SourcePolicy {
            o.policy.policies().unwrap().of(Source::File).clone()
        }
        sets(
            &SECTION,
            &[
                ("host-network-sources", "http", |o| !file(o).host_network),
                ("allow-privileged", "true", |o| file(o).allow_privileged),
                ("allowed-unsafe-sysctls", "net.*", |o| o.node.gives.allowed_unsafe_sysctls == ["net.*"]),
                ("allowed-devices", "/dev/null", |o| file(o).allowed_devices == ["/dev/null"]),
                ("pod-security", "file=baseline", |o| {
                    file(o).pod_security.is_some_and(|at| at.to_string() == "baseline:latest")
                }),
                ("allowed-host-paths", "/srv", |o| file(o).allowed_host_paths.is_some()),
                ("allowed-images", "a/", |o| file(o).allowed_images.is_some()),
                ("require-image-digest", "true", |o| file(o).require_image_digest),
                ("source-policy", "file=allow-privileged=true", |o| file(o).allow_privileged),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("host-network-sources", ["http", "file"], &["x"]),
                ("allowed-unsafe-sysctls", ["net.*", "kernel.msg*"], &["*", "vm.swappiness"]),
                ("allowed-devices", ["/dev/null", "/dev/zero"], &["null"]),
                ("pod-security", ["baseline", "restricted"], &["strict", "restricted:1.25"]),
                ("allowed-host-paths", ["/a", "/b"], &["a"]),
                ("allowed-images", ["a/", "b/"], &["a/*"]),
                (
                    "source-policy",
                    ["file=allow-privileged=true", "http=allow-privileged=true"],
                    &["file", "x=allow-privileged=true"],
                ),
            ],
        );
    }
}
