//! All checks at all versions: a pod that a standard just allows, with one change at a time, to which exactly
//! the check for that field may object.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::LevelVersion;
use super::super::level::{Level, Version};
use super::super::standards::{BASELINE, RESTRICTED};
use super::super::standards::{evaluate, message};
use super::pod;
use crate::base::table::Set;
use crate::manifest::{Context, Inspected, Rules, inspect};
use crate::pod::Source;

/// Newer than the newest revision of any check.
const NEWEST: u64 = 40;

/// One change to a pod: values set at paths, with dots between the parts.
struct Tweak {
    /// The check that must object; `None` when no check may.
    id: Option<&'static str>,
    sets: Vec<(&'static str, Value)>,
}

fn bad(id: &'static str, path: &'static str, value: Value) -> Tweak {
    Tweak { id: Some(id), sets: vec![(path, value)] }
}

fn good(sets: Vec<(&'static str, Value)>) -> Tweak {
    Tweak { id: None, sets }
}

fn set(root: &mut Value, path: &str, value: &Value) {
    let mut at = root;
    for part in path.split('.') {
        // Keys of annotations have dots, too.
        let part = part.replace('|', ".");
        at = match part.parse::<usize>() {
            Ok(i) => {
                if !at.is_array() {
                    *at = json!([]);
                }
                let list = at.as_array_mut().unwrap();
                while list.len() <= i {
                    list.push(json!({}));
                }
                &mut list[i]
            }
            Err(_) => {
                if !at.is_object() {
                    *at = json!({});
                }
                &mut at[part.as_str()]
            }
        };
    }
    *at = value.clone();
}

/// A pod with an init container that the standard just allows, as the standard was at v1.`minor`.
fn least(level: Level, minor: u64) -> Value {
    let mut root = json!({"annotations": {}, "spec": {
        "initContainers": [{"name": "init", "image": "x"}], "containers": [{"name": "app", "image": "x"}],
    }});
    if level == Level::Restricted {
        set(&mut root, "spec.securityContext.runAsNonRoot", &json!(true));
        for at in ["spec.initContainers.0.securityContext", "spec.containers.0.securityContext"] {
            if minor >= 8 {
                set(&mut root, &format!("{at}.allowPrivilegeEscalation"), &json!(false));
            }
            if minor >= 22 {
                set(&mut root, &format!("{at}.capabilities.drop"), &json!(["ALL"]));
            }
        }
        if minor >= 19 {
            set(&mut root, "spec.securityContext.seccompProfile.type", &json!("RuntimeDefault"));
        }
    }
    root
}

/// The verdict of the standards on each field, at this version.
#[rustfmt::skip]
fn tweaks(level: Level, minor: u64) -> Vec<Tweak> {
    let restricted = level == Level::Restricted;
    let either = |since: u64, own: &'static str, base: &'static str| if restricted && minor >= since { own } else { base };
    let mut all = vec![
        good(vec![]),
        bad("hostNamespaces", "spec.hostNetwork", json!(true)),
        bad("hostNamespaces", "spec.hostPID", json!(true)),
        bad("hostNamespaces", "spec.hostIPC", json!(true)),
        good(vec![("spec.hostNetwork", json!(false)), ("spec.hostPID", json!(false)), ("spec.hostIPC", json!(false))]),
        bad("privileged", "spec.containers.0.securityContext.privileged", json!(true)),
        bad("privileged", "spec.initContainers.0.securityContext.privileged", json!(true)),
        good(vec![("spec.containers.0.securityContext.privileged", json!(false))]),
        bad("hostPorts", "spec.containers.0.ports", json!([{"containerPort": 80, "hostPort": 8080}])),
        bad("hostPorts", "spec.initContainers.0.ports", json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81}])),
        good(vec![("spec.containers.0.ports", json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}]))]),
        bad(either(0, "restrictedVolumes", "hostPathVolumes"), "spec.volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
        good(vec![("spec.volumes", json!([{"name": "v", "emptyDir": {}}, {"name": "w", "configMap": {"name": "c"}},
            {"name": "i", "image": {"reference": "x"}}]))]),
        bad("windowsHostProcess", "spec.securityContext.windowsOptions.hostProcess", json!(true)),
        bad("windowsHostProcess", "spec.containers.0.securityContext.windowsOptions.hostProcess", json!(true)),
        bad("windowsHostProcess", "spec.initContainers.0.securityContext.windowsOptions.hostProcess", json!(true)),
        good(vec![("spec.securityContext.windowsOptions", json!({})), ("spec.containers.0.securityContext.windowsOptions.hostProcess", json!(false))]),
        bad("appArmorProfile", "spec.securityContext.appArmorProfile.type", json!("Unconfined")),
        bad("appArmorProfile", "spec.containers.0.securityContext.appArmorProfile.type", json!("Unconfined")),
        bad("appArmorProfile", "spec.initContainers.0.securityContext.appArmorProfile.type", json!("Unconfined")),
        bad("appArmorProfile", "annotations.container|apparmor|security|beta|kubernetes|io/app", json!("unconfined")),
        good(vec![("annotations.container|apparmor|security|beta|kubernetes|io/app", json!("localhost/p")),
            ("spec.containers.0.securityContext.appArmorProfile.type", json!("RuntimeDefault"))]),
        bad("seLinuxOptions", "spec.securityContext.seLinuxOptions.type", json!("spc_t")),
        bad("seLinuxOptions", "spec.containers.0.securityContext.seLinuxOptions.user", json!("u")),
        bad("seLinuxOptions", "spec.initContainers.0.securityContext.seLinuxOptions.role", json!("r")),
        good(vec![("spec.securityContext.seLinuxOptions", json!({"type": "container_kvm_t", "level": "s0:c1"}))]),
        Tweak { id: (minor < 31).then_some("seLinuxOptions"), sets: vec![("spec.securityContext.seLinuxOptions.type", json!("container_engine_t"))] },
        bad("sysctls", "spec.securityContext.sysctls", json!([{"name": "kernel.msgmax", "value": "1"}])),
        good(vec![("spec.securityContext.sysctls", json!([{"name": "net.ipv4.tcp_syncookies", "value": "1"}]))]),
        Tweak { id: (minor < 27).then_some("sysctls"), sets: vec![("spec.securityContext.sysctls", json!([{"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]))] },
        Tweak { id: (minor < 29).then_some("sysctls"), sets: vec![("spec.securityContext.sysctls", json!([{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]))] },
        Tweak { id: (minor < 32).then_some("sysctls"), sets: vec![("spec.securityContext.sysctls", json!([{"name": "net.ipv4.tcp_wmem", "value": "1"}]))] },
        Tweak { id: (minor < 37).then_some("sysctls"), sets: vec![("spec.securityContext.sysctls", json!([{"name": "net.ipv4.tcp_notsent_lowat", "value": "1"}]))] },
        bad(either(35, "procMount_restricted", "procMount"), "spec.containers.0.securityContext.procMount", json!("Unmasked")),
        bad(either(35, "procMount_restricted", "procMount"), "spec.initContainers.0.securityContext.procMount", json!("unknown")),
        good(vec![("spec.containers.0.securityContext.procMount", json!("Default"))]),
        Tweak {
            id: if minor < 35 { Some("procMount") } else { restricted.then_some("procMount_restricted") },
            sets: vec![("spec.hostUsers", json!(false)), ("spec.containers.0.securityContext.procMount", json!("Unmasked"))],
        },
        bad(either(22, "capabilities_restricted", "capabilities_baseline"), "spec.containers.0.securityContext.capabilities.add", json!(["NET_RAW"])),
        bad(either(22, "capabilities_restricted", "capabilities_baseline"), "spec.initContainers.0.securityContext.capabilities.add", json!(["ALL"])),
        good(vec![("spec.containers.0.securityContext.capabilities.add", json!(["NET_BIND_SERVICE"]))]),
        Tweak { id: (restricted && minor >= 22).then_some("capabilities_restricted"), sets: vec![("spec.containers.0.securityContext.capabilities.add", json!(["CHOWN"]))] },
        Tweak { id: (minor >= 34).then_some("hostProbesAndHostLifecycle"), sets: vec![("spec.containers.0.livenessProbe.httpGet", json!({"host": "h", "port": 1}))] },
        Tweak { id: (minor >= 34).then_some("hostProbesAndHostLifecycle"), sets: vec![("spec.initContainers.0.startupProbe.tcpSocket", json!({"host": "h", "port": 1}))] },
        Tweak { id: (minor >= 34).then_some("hostProbesAndHostLifecycle"), sets: vec![("spec.containers.0.lifecycle.preStop.httpGet", json!({"host": "h", "port": 1}))] },
        good(vec![("spec.containers.0.readinessProbe.httpGet", json!({"port": 1})), ("spec.containers.0.lifecycle.postStart.tcpSocket", json!({"host": "", "port": 1}))]),
        good(vec![("spec.securityContext.seccompProfile.type", json!("Localhost"))]),
        good(vec![("spec.containers.0.securityContext.runAsUser", json!(1)), ("spec.securityContext.runAsUser", json!(1))]),
        good(vec![("spec.os.name", json!("linux"))]),
        good(vec![("spec.hostUsers", json!(false))]),
    ];
    let seccomp = |path| Tweak {
        id: (minor >= 19).then_some(either(19, "seccompProfile_restricted", "seccompProfile_baseline")),
        sets: vec![(path, json!("Unconfined"))],
    };
    all.push(seccomp("spec.securityContext.seccompProfile.type"));
    all.push(seccomp("spec.containers.0.securityContext.seccompProfile.type"));
    all.push(seccomp("spec.initContainers.0.securityContext.seccompProfile.type"));
    for path in ["annotations.seccomp|security|alpha|kubernetes|io/pod", "annotations.container|seccomp|security|alpha|kubernetes|io/init"] {
        all.push(Tweak { id: (minor < 19).then_some("seccompProfile_baseline"), sets: vec![(path, json!("unconfined"))] });
        all.push(good(vec![(path, json!("docker/default"))]));
    }
    // Requirements of the restricted level only.
    let only = |since: u64, id: &'static str, sets: Vec<(&'static str, Value)>| Tweak { id: (restricted && minor >= since).then_some(id), sets };
    for kind in ["nfs", "iscsi", "cephfs", "gitRepo", "flexVolume", "photonPersistentDisk"] {
        all.push(only(0, "restrictedVolumes", vec![("spec.volumes", json!([{"name": "v", kind: {}}]))]));
    }
    all.push(only(0, "runAsNonRoot", vec![("spec.securityContext.runAsNonRoot", json!(false))]));
    all.push(only(0, "runAsNonRoot", vec![("spec.securityContext.runAsNonRoot", json!(null))]));
    all.push(only(0, "runAsNonRoot", vec![("spec.initContainers.0.securityContext.runAsNonRoot", json!(false))]));
    all.push(good(vec![("spec.securityContext.runAsNonRoot", json!(null)), ("spec.initContainers.0.securityContext.runAsNonRoot", json!(true)),
        ("spec.containers.0.securityContext.runAsNonRoot", json!(true))]));
    all.push(Tweak { id: (restricted && minor < 35).then_some("runAsNonRoot"), sets: vec![("spec.hostUsers", json!(false)), ("spec.securityContext.runAsNonRoot", json!(false))] });
    all.push(only(23, "runAsUser", vec![("spec.securityContext.runAsUser", json!(0))]));
    all.push(only(23, "runAsUser", vec![("spec.initContainers.0.securityContext.runAsUser", json!(0))]));
    all.push(Tweak { id: (restricted && (23..35).contains(&minor)).then_some("runAsUser"), sets: vec![("spec.hostUsers", json!(false)), ("spec.containers.0.securityContext.runAsUser", json!(0))] });
    all.push(only(8, "allowPrivilegeEscalation", vec![("spec.containers.0.securityContext.allowPrivilegeEscalation", json!(true))]));
    all.push(only(8, "allowPrivilegeEscalation", vec![("spec.initContainers.0.securityContext.allowPrivilegeEscalation", json!(null))]));
    all.push(only(22, "capabilities_restricted", vec![("spec.containers.0.securityContext.capabilities", json!(null))]));
    all.push(only(22, "capabilities_restricted", vec![("spec.initContainers.0.securityContext.capabilities.drop", json!(["NET_RAW"]))]));
    all.push(only(19, "seccompProfile_restricted", vec![("spec.securityContext.seccompProfile", json!(null))]));
    // Windows: fields that cannot be set there are not required.
    let windows = |since: u64, id, path, value| Tweak { id: (restricted && minor >= since && minor < 25).then_some(id), sets: vec![("spec.os.name", json!("windows")), (path, value)] };
    all.push(windows(8, "allowPrivilegeEscalation", "spec.containers.0.securityContext.allowPrivilegeEscalation", json!(null)));
    all.push(windows(22, "capabilities_restricted", "spec.containers.0.securityContext.capabilities", json!(null)));
    all.push(windows(19, "seccompProfile_restricted", "spec.securityContext.seccompProfile", json!(null)));
    all
}

fn ids(level: Level, version: Version, root: &Value) -> Vec<&'static str> {
    let (metadata, spec) = pod(&root["annotations"], &root["spec"]);
    evaluate(&LevelVersion { level, version }, &metadata, &spec).into_iter().map(|v| v.id).collect()
}

/// The same for the pod as a manifest: defaults and this node's additions make no difference.
fn decoded(level: Level, minor: u64, root: &Value) -> Vec<&'static str> {
    let metadata = json!({"name": "web", "annotations": root["annotations"]});
    let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": root["spec"]});
    let context = Context { node_name: "node1", source: Source::File, path: "web.yaml" };
    let found = inspect(manifest.to_string().as_bytes(), &context, Rules::OfSyntax);
    let [Inspected { pod, .. }] = found.pods.as_slice() else { panic!("{manifest}: {:?}", found.problems) };
    let at = LevelVersion { level, version: Version::Minor(minor) };
    evaluate(&at, &pod.metadata, &pod.spec).into_iter().map(|v| v.id).collect()
}

#[test]
fn exactly_the_check_of_a_field_objects() {
    let mut seen = Set::new();
    // Versions at which some rule changes, and the ones just before.
    let revisions = BASELINE.iter().chain(RESTRICTED).flat_map(|c| c.revisions);
    let turns: Set<u64> = revisions.flat_map(|r| [r.saturating_sub(1), *r]).collect();
    for level in [Level::Baseline, Level::Restricted] {
        for minor in 0..=NEWEST {
            for tweak in tweaks(level, minor) {
                let mut root = least(level, minor);
                tweak.sets.iter().for_each(|(path, value)| set(&mut root, path, value));
                if turns.contains(&minor) {
                    assert_eq!(
                        decoded(level, minor, &root),
                        Vec::from_iter(tweak.id),
                        "decoded: {level:?} {minor} {root}"
                    );
                }
                let versions = [Some(Version::Minor(minor)), (minor == NEWEST).then_some(Version::Latest)];
                for version in versions.into_iter().flatten() {
                    let found = ids(level, version, &root);
                    assert_eq!(found, Vec::from_iter(tweak.id), "{level:?} {version} {root}");
                    let checks = BASELINE.iter().chain(RESTRICTED).filter(|c| found.contains(&c.id));
                    seen.extend(checks.map(|c| (c.id, c.revision(minor))));
                }
                assert_eq!(ids(Level::Privileged, Version::Minor(minor), &root), Vec::<&str>::new());
            }
        }
    }
    // Every revision of a check is tested.
    let all = BASELINE.iter().chain(RESTRICTED);
    let all = all.flat_map(|c| c.revisions.iter().map(|revision| (c.id, Some(*revision))));
    assert_eq!(seen, all.collect());
}

#[test]
fn the_registry_is_in_order() {
    for checks in [BASELINE, RESTRICTED] {
        assert!(checks.is_sorted_by(|a, b| a.id < b.id), "messages are in the order of identifiers");
        for check in checks {
            assert!(
                check.revisions.is_sorted_by(|a, b| a < b) && !check.revisions.is_empty(),
                "{}",
                check.id
            );
            let overridden = |id: &str| BASELINE.iter().any(|c| c.id == id);
            assert!(check.overrides.is_none_or(overridden), "{}", check.id);
        }
    }
    let newest = BASELINE.iter().chain(RESTRICTED).filter_map(|c| c.revisions.last()).max();
    assert!(newest < Some(&NEWEST));
    assert_eq!(BASELINE.len() + RESTRICTED.len(), 19);
}

fn any_level() -> impl Strategy<Value = LevelVersion> {
    let level = prop_oneof![Just(Level::Privileged), Just(Level::Baseline), Just(Level::Restricted)];
    let version = prop_oneof![9 => (0..NEWEST).prop_map(Version::Minor), 1 => Just(Version::Latest)];
    (level, version).prop_map(|(level, version)| LevelVersion { level, version })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Any combination of changes.
    #[test]
    fn levels_are_steps(
        at in any_level(),
        picks in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..12),
    ) {
        let mut root = least(at.level, at.version.minor().min(NEWEST));
        for (index, early) in picks {
            let all = tweaks(Level::Restricted, if early { 0 } else { NEWEST });
            index.get(&all).sets.iter().for_each(|(path, value)| set(&mut root, path, value));
        }
        let baseline = ids(Level::Baseline, at.version, &root);
        let restricted = ids(Level::Restricted, at.version, &root);
        prop_assert!(ids(Level::Privileged, at.version, &root).is_empty());
        let windows = root["spec"]["os"]["name"] == json!("windows");
        for id in &baseline {
            let instead = RESTRICTED.iter().find(|c| {
                c.overrides == Some(id) && c.revision(at.version.minor()).is_some()
            });
            match instead {
                // Upstream's restricted checks require nothing of Windows pods, even where the baseline's
                // did.
                Some(check) => prop_assert!(windows || restricted.contains(&check.id), "{} {}", at, root),
                None => prop_assert!(restricted.contains(id), "{} {}", at, root),
            }
        }
        prop_assert!(restricted.iter().filter(|id| BASELINE.iter().any(|c| c.id == **id)).all(|id| baseline.contains(id)));
        // After the newest revision, rules no longer change.
        prop_assert_eq!(ids(at.level, Version::Latest, &root), ids(at.level, Version::Minor(u64::MAX), &root));
        let (metadata, spec) = pod(&root["annotations"], &root["spec"]);
        let violations = evaluate(&at, &metadata, &spec);
        prop_assert!(violations.iter().all(|v| !v.detail.is_empty()));
        prop_assert!(message(&at, &violations).starts_with("violates PodSecurity \""));
    }

    /// Names and values of any characters.
    #[test]
    fn no_text_is_too_strange(text in any::<String>(), at in any_level()) {
        let spec = json!({
            "containers": [{"name": text, "securityContext": {"procMount": text, "seccompProfile": {"type": text},
                "appArmorProfile": {"type": text}, "seLinuxOptions": {"type": text, "user": text},
                "capabilities": {"add": [text], "drop": [text]}}}],
            "volumes": [{"name": text, "hostPath": {"path": text}}],
            "securityContext": {"sysctls": [{"name": text, "value": text}]},
            "os": {"name": text},
        });
        let annotations = json!({format!("container.apparmor.security.beta.kubernetes.io/{text}"): text,
            "seccomp.security.alpha.kubernetes.io/pod": text});
        let (metadata, spec) = pod(&annotations, &spec);
        let found = evaluate(&at, &metadata, &spec);
        prop_assert_eq!(found.is_empty(), at.level == Level::Privileged);
    }
}
