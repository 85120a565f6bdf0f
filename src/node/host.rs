//! Settings for the machine itself, beside its pods: how pods end at a shutdown, which kernel settings are expected,
//! and which cgroups hold processes outside of pods. Plain data, with the kubelet's rules.

use std::time::Duration;

use crate::base::table::Set;
use crate::pod::allocatable::Allocatable;

/// The flags, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// `--shutdown-grace-period`; 0: pods end in the order of their priorities, each with its own grace period.
    pub shutdown: Duration,
    /// `--shutdown-grace-period-critical-pods`: the last part of that time.
    pub shutdown_critical: Duration,
    /// `--protect-kernel-defaults`.
    pub protect_kernel_defaults: bool,
    /// `--enforce-node-allocatable`; `None` when not given.
    pub enforce: Option<Set<Enforce>>,
    /// `--kube-reserved-cgroup`.
    pub kube_reserved_cgroup: String,
    /// `--system-reserved-cgroup`.
    pub system_reserved_cgroup: String,
    /// `--kubelet-cgroups`.
    pub kubelet_cgroups: String,
    /// `--runtime-cgroups`.
    pub runtime_cgroups: String,
    /// `--system-cgroups`.
    pub system_cgroups: String,
}

/// Groups that are limited to their share of the node (`--enforce-node-allocatable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Enforce {
    /// All pods together.
    Pods,
    /// Processes below `--system-reserved-cgroup`, limited to `--system-reserved`.
    SystemReserved,
    /// The same, only for resources that can be taken back from a process: CPU.
    SystemReservedCompressible,
    /// Processes below `--kube-reserved-cgroup`, limited to `--kube-reserved`.
    KubeReserved,
    /// The same, only for CPU.
    KubeReservedCompressible,
}

/// The time for a shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shutdown {
    /// For regular pods, from the beginning.
    pub regular: Duration,
    /// For critical pods, after the regular ones.
    pub critical: Duration,
}

const ALL: [(&str, Enforce); 5] = [
    ("pods", Enforce::Pods),
    ("system-reserved", Enforce::SystemReserved),
    ("system-reserved-compressible", Enforce::SystemReservedCompressible),
    ("kube-reserved", Enforce::KubeReserved),
    ("kube-reserved-compressible", Enforce::KubeReservedCompressible),
];

/// Parses `pods,kube-reserved`, the value of `--enforce-node-allocatable`; empty and `none` mean no group.
///
/// # Errors
/// An unknown word, in the kubelet's words.
pub fn parse_enforce(text: &str) -> Result<Set<Enforce>, String> {
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    if words.contains(&"none") {
        return match words.len() {
            1 => Ok(Set::new()),
            _ => Err("may not contain additional enforcements when \"none\" is specified".to_owned()),
        };
    }
    let mut all = Set::new();
    for word in words {
        let Some((_, enforce)) = ALL.iter().find(|(name, _)| *name == word) else {
            let names: Vec<String> = ALL.iter().map(|(name, _)| format!("{name:?}")).collect();
            return Err(format!("option {word:?} is none of \"none\", {}", names.join(", ")));
        };
        all.insert(*enforce);
    }
    Ok(all)
}

impl Host {
    /// The time for a shutdown, if it is bounded.
    #[must_use]
    pub fn shutdown(&self) -> Option<Shutdown> {
        let critical = self.shutdown_critical;
        (!self.shutdown.is_zero())
            .then(|| Shutdown { regular: self.shutdown.saturating_sub(critical), critical })
    }

    /// Whether this group is limited to its share.
    #[must_use]
    pub fn enforces(&self, what: Enforce) -> bool {
        self.enforce.as_ref().map_or(what == Enforce::Pods, |all| all.contains(&what))
    }

    /// Checks the rules between these flags (`pkg/kubelet/apis/config/validation/validation.go`), in the kubelet's
    /// words.
    ///
    /// # Errors
    /// The first broken rule.
    pub fn check(&self, cgroups_per_qos: bool, cgroup_root: &str) -> Result<(), String> {
        if self.shutdown_critical > self.shutdown {
            return Err(format!(
                "shutdownGracePeriodCriticalPods {:?} must be <= shutdownGracePeriod {:?}",
                self.shutdown_critical, self.shutdown
            ));
        }
        for (name, period) in [
            ("shutdownGracePeriod", self.shutdown),
            ("shutdownGracePeriodCriticalPods", self.shutdown_critical),
        ] {
            if !period.is_zero() && period < Duration::from_secs(1) {
                return Err(format!("{name} {period:?} must be either zero or otherwise >= 1 sec"));
            }
        }
        if !self.system_cgroups.is_empty() && cgroup_root.is_empty() {
            return Err(
                "systemCgroups (--system-cgroups) was specified and cgroupRoot (--cgroup-root) was not \
                        specified"
                    .to_owned(),
            );
        }
        let Some(enforce) = &self.enforce else { return Ok(()) };
        if !enforce.is_empty() && !cgroups_per_qos {
            return Err(
                "enforceNodeAllocatable (--enforce-node-allocatable) is not supported unless cgroupsPerQOS \
                        (--cgroups-per-qos) is set to true"
                    .to_owned(),
            );
        }
        for (of, field, cgroup, what) in [
            (
                [Enforce::SystemReserved, Enforce::SystemReservedCompressible],
                "systemReservedCgroup",
                &self.system_reserved_cgroup,
                "system-reserved",
            ),
            (
                [Enforce::KubeReserved, Enforce::KubeReservedCompressible],
                "kubeReservedCgroup",
                &self.kube_reserved_cgroup,
                "kube-reserved",
            ),
        ] {
            let given = of.iter().filter(|each| enforce.contains(*each)).count();
            if given > 1 {
                return Err(format!(
                    "both {what:?} and \"{what}-compressible\" cannot be specified in enforceNodeAllocatable \
                     (--enforce-node-allocatable)"
                ));
            }
            if given > 0 && cgroup.is_empty() {
                return Err(format!(
                    "{field} (--{what}-cgroup) must be specified when {what:?} contained in enforceNodeAllocatable \
                     (--enforce-node-allocatable)"
                ));
            }
        }
        Ok(())
    }
}

/// The amounts that the node reports as allocatable: what pods may request, minus the eviction thresholds, which the
/// pods' common limit does not subtract (upstream `GetNodeAllocatableReservation`). Never below zero.
#[must_use]
pub fn reported(allocatable: Allocatable, evicted_below: Allocatable) -> Allocatable {
    let left = |whole: i64, part: i64| whole.saturating_sub(part.max(0)).max(0);
    Allocatable {
        milli_cpu: allocatable.milli_cpu,
        memory: left(allocatable.memory, evicted_below.memory),
        ephemeral_storage: left(allocatable.ephemeral_storage, evicted_below.ephemeral_storage),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn what_is_enforced() {
        let pods: Set<Enforce> = [Enforce::Pods].into();
        assert_eq!(parse_enforce("pods"), Ok(pods));
        assert_eq!(parse_enforce("none"), Ok(Set::new()));
        assert_eq!(parse_enforce(""), Ok(Set::new()));
        assert_eq!(parse_enforce("kube-reserved-compressible, pods").unwrap().len(), 2);
        assert!(parse_enforce("pods,none").unwrap_err().contains("additional enforcements"));
        assert!(
            parse_enforce("all").unwrap_err().starts_with("option \"all\" is none of \"none\", \"pods\"")
        );
        let host = Host::default();
        assert!(host.enforces(Enforce::Pods) && !host.enforces(Enforce::KubeReserved));
        let host = Host { enforce: Some(Set::new()), ..host };
        assert!(!host.enforces(Enforce::Pods));
    }

    #[test]
    fn the_rules_between_flags() {
        let check = |host: &Host, per_qos, part: &str| match host.check(per_qos, "") {
            Ok(()) => assert_eq!(part, ""),
            Err(why) => assert!(!part.is_empty() && why.contains(part), "{why}"),
        };
        let of = |text: &str| Host { enforce: Some(parse_enforce(text).unwrap()), ..Host::default() };
        check(&Host::default(), true, "");
        check(&Host::default(), false, "");
        check(&of("pods"), false, "is not supported unless cgroupsPerQOS (--cgroups-per-qos) is set to true");
        check(&of("none"), false, "");
        let needs =
            "systemReservedCgroup (--system-reserved-cgroup) must be specified when \"system-reserved\"";
        check(&of("system-reserved"), true, needs);
        check(&of("kube-reserved-compressible"), true, "kubeReservedCgroup (--kube-reserved-cgroup) must be");
        check(&of("kube-reserved,kube-reserved-compressible"), true, "both \"kube-reserved\" and");
        let named = Host { kube_reserved_cgroup: "/kube".to_owned(), ..of("pods,kube-reserved") };
        check(&named, true, "");
        let host = |all: Duration, critical: Duration| Host {
            shutdown: all,
            shutdown_critical: critical,
            ..Host::default()
        };
        check(&host(SECOND * 30, SECOND * 10), true, "");
        check(&host(SECOND * 10, SECOND * 30), true, "must be <= shutdownGracePeriod 10s");
        check(&host(SECOND / 2, Duration::ZERO), true, "shutdownGracePeriod 500ms must be either zero");
        check(
            &Host { system_cgroups: "/system".to_owned(), ..Host::default() },
            true,
            "(--cgroup-root) was not",
        );
    }

    #[test]
    fn critical_pods_have_the_end_of_the_time() {
        let host = Host { shutdown: SECOND * 30, shutdown_critical: SECOND * 10, ..Host::default() };
        assert_eq!(host.shutdown(), Some(Shutdown { regular: SECOND * 20, critical: SECOND * 10 }));
        assert_eq!(Host::default().shutdown(), None);
    }

    #[test]
    fn allocatable_is_told_without_what_evicts() {
        let of = |memory, ephemeral_storage| Allocatable { milli_cpu: 4000, memory, ephemeral_storage };
        assert_eq!(reported(of(1000, 500), of(100, 50)), of(900, 450));
        assert_eq!(reported(of(10, 5), of(100, 50)), of(0, 0));
    }
}
