//! Settings of single sources override those for all; objects and claims of each source are separate.

use serde_json::json;

use super::super::source_policy::{SETTINGS, SharedObjects};
use super::super::{Exceptions, Most, Policies, SourcePolicy};
use super::{at, pod};
use crate::pod::Source;
use crate::pod::object::{ObjectKey, ObjectKind};

fn policies(all: &[(&str, &str)], exceptions: &[&str]) -> Policies {
    let mut policy = SourcePolicy::default();
    all.iter().for_each(|(name, text)| policy.set(name, text).unwrap());
    let mut said = Exceptions::default();
    exceptions.iter().for_each(|text| said.add(text).unwrap());
    Policies::all(policy).except(&said).unwrap()
}

#[test]
fn what_is_said_of_a_source_goes_before_what_is_said_of_all() {
    let all = [("allow-privileged", "true"), ("allowed-images", "a/"), ("allowed-images", "b/")];
    let of = policies(&all, &["http=allow-privileged=false; allowed-images=c/", "http=allowedImages=d/"]);
    let refused = |source: Source, image: &str| {
        let (metadata, spec) = pod(&json!({}), &json!({"containers": [{"name": "a", "image": image}]}));
        !of.of(source).refusals(&metadata, &spec).is_empty()
    };
    for source in [Source::File, Source::Api] {
        assert!(of.of(source).allow_privileged);
        assert!(!refused(source, "a/x") && !refused(source, "b/x") && refused(source, "c/x"));
    }
    assert!(!of.of(Source::Http).allow_privileged);
    assert!(refused(Source::Http, "a/x") && !refused(Source::Http, "c/x") && !refused(Source::Http, "d/x"));
    // A list of all, and an empty one.
    let of = policies(&all, &["file=allowed-images=*", "api=allowed-images="]);
    assert_eq!(of.of(Source::File).allowed_images, None);
    assert_eq!(of.of(Source::Api).allowed_images, Some(vec![]));
}

#[test]
fn every_setting_is_read_under_both_its_names() {
    for setting in SETTINGS {
        let value = match setting.name {
            "pod-security" => "restricted:v1.30",
            "allow-privileged" | "host-network" | "require-image-digest" | "evict-first" => "true",
            "max-priority" => "-7",
            "max-claim-storage" => "10Gi",
            "max-requests" => "25%",
            "max-grace" => "1m30s",
            "allowed-devices" => "/dev/ttyS",
            "allowed-host-paths" => "/srv:ro",
            "allowed-images" => "busybox",
            "allowed-namespaces" => "edge",
            "shared-objects" => "file/Secret",
            other => panic!("a value for {other}"),
        };
        let mut expected = SourcePolicy::default();
        expected.set(setting.name, value).unwrap();
        for name in [setting.name, setting.field] {
            let got = policies(&[], &[&format!("http={name}={value}")]);
            assert_eq!(*got.of(Source::Http), expected);
            assert_eq!(*got.of(Source::File), SourcePolicy::default());
        }
    }
    for (text, part) in [
        ("", "must be SOURCE=NAME=VALUE"),
        ("dir=allow-privileged=true", "source \"dir\" must be one of file, http, api"),
        ("http=allow-privileged", "\"allow-privileged\" must be NAME=VALUE"),
        ("http=privileged=true", "\"privileged\" must be one of pod-security, allow-privileged, "),
        ("http=allowedNamespace=x", "\"allowedNamespace\" must be one of podSecurity, allowPrivileged, "),
        ("http=pod-security=strict", "pod-security: level \"strict\" must be one of"),
        ("http=max-priority=high", "max-priority: \"high\" must be a whole number of at most 2147483647"),
        ("http=max-priority=2147483648", "must be a whole number"),
        ("http=allowed-devices=/etc/x", "does not begin with /dev/"),
        (
            "http=shared-objects=file,http/Secret",
            "shared-objects: http/Secret: pods of source http see its own",
        ),
        ("http=shared-objects=*", "must name the sources"),
        ("http=shared-objects=file/PersistentVolumeClaim", "must be ConfigMap or Secret"),
        ("http=shared-objects=file/Secret//x", "must be SOURCE[/KIND[/NAMESPACE[/NAME]]]"),
        ("http=shared-objects=file/Secret/a/b/c", "must be SOURCE[/KIND[/NAMESPACE[/NAME]]]"),
    ] {
        let why = Exceptions::default().add(text).unwrap_err();
        assert!(why.contains(part), "{text}: {why}");
    }
}

#[test]
fn devices_are_refused_where_a_level_forbids_host_paths() {
    let check = |level: Option<&str>, privileged: bool, expected: bool| {
        let mut policy = SourcePolicy {
            pod_security: level.map(at),
            allow_privileged: privileged,
            ..SourcePolicy::default()
        };
        assert_eq!(policy.refuses_device("/dev/sda").is_none(), expected, "{level:?} {privileged}");
        policy.set("allowed-devices", "/dev/ttyS*,/dev/gpiochip0").unwrap();
        assert_eq!(policy.refuses_device("/dev/sda").is_none(), expected, "{level:?} {privileged}");
        assert_eq!(policy.refuses_device("/dev/ttyS1"), None);
    };
    check(None, false, false);
    check(None, true, true);
    check(Some("privileged"), true, true);
    check(Some("baseline"), true, false);
    check(Some("restricted"), true, false);
    let mut all = SourcePolicy { pod_security: Some(at("restricted")), ..SourcePolicy::default() };
    all.set("allowed-devices", "*").unwrap();
    assert_eq!(all.refuses_device("/dev/sda"), None);
}

#[test]
fn devices_are_allowed_by_whole_names() {
    let check = |allowed: &str, path: &str, expected: bool| {
        let mut policy = SourcePolicy::default();
        policy.set("allowed-devices", allowed).unwrap();
        assert_eq!(policy.refuses_device(path).is_none(), expected, "{allowed} {path}");
    };
    check("/dev/s", "/dev/sda", false);
    check("/dev/sda", "/dev/sda", true);
    check("/dev/sda", "/dev/sda1", false);
    check("/dev/tty", "/dev/tty", true);
    check("/dev/tty", "/dev/tty0", false);
    check("/dev/tty*", "/dev/tty63", true);
    check("/dev/sda", "/dev/sdaa", false);
    check("/dev/ttyUSB", "/dev/ttyUSB0", false);
    check("/dev/ttyUSB*", "/dev/ttyUSB0", true);
    check("/dev/video1", "/dev/video10", false);
    check("/dev/snd", "/dev/snd/pcmC0D0p", true);
    check("/dev/snd/", "/dev/snd/seq", true);
    check("/dev/snd", "/dev/sndx", false);
    check("/dev/snd", "/dev/snd/../sda", false);
    check("/dev/my-*", "/dev/my-thing", true);
    check("/dev/my-*", "/dev/my-/thing", false);
    check("/dev/", "/dev/sda", true);
    check("*", "/dev/mapper/x", true);
}

#[test]
fn a_source_is_kept_to_its_namespaces() {
    let of = policies(&[], &["http=allowed-namespaces=edge,shop"]);
    let reasons = |source: Source, metadata: serde_json::Value| -> Vec<String> {
        let (_, spec) = pod(&json!({}), &json!({"containers": []}));
        let metadata = serde_json::from_value(metadata).unwrap();
        of.of(source)
            .refusals(&metadata, &spec)
            .into_iter()
            .map(|r| format!("{}: {}", r.reason, r.message))
            .collect()
    };
    assert_eq!(reasons(Source::Http, json!({"namespace": "shop"})), [""; 0]);
    let says = "NamespaceNotAllowed: namespace \"kube-system\" is not allowed for pods of this source";
    assert_eq!(reasons(Source::Http, json!({"namespace": "kube-system"})), [says]);
    assert_eq!(reasons(Source::Http, json!({})).len(), 1, "default is one too");
    assert_eq!(reasons(Source::File, json!({"namespace": "kube-system"})), [""; 0]);
}

#[test]
fn objects_are_shared_by_source_kind_and_name() {
    let check = |shared: &str, kind: ObjectKind, name: &str, expected: bool| {
        let of = policies(&[], &[&format!("http=shared-objects={shared}")]);
        let key = ObjectKey { kind, namespace: "default".into(), name: name.into() };
        let found: Vec<Source> = of.of(Source::Http).sharing(&key).collect();
        assert_eq!(found, if expected { vec![Source::File] } else { vec![] }, "{shared} {key}");
        assert_eq!(of.of(Source::File).sharing(&key).count(), 0);
        assert_eq!(SharedObjects::parse(shared).unwrap().to_string(), shared);
    };
    use ObjectKind::{ConfigMap, PersistentVolumeClaim, Secret};
    check("file", Secret, "x", true);
    check("file", ConfigMap, "x", true);
    check("file", PersistentVolumeClaim, "x", false);
    check("file/ConfigMap", ConfigMap, "x", true);
    check("file/ConfigMap", Secret, "x", false);
    check("file/Secret/default", Secret, "x", true);
    check("file/Secret/other", Secret, "x", false);
    check("file/Secret/default/x", Secret, "x", true);
    check("file/Secret/default/x", Secret, "y", false);
}

/// Regression: a node with only one source was warned that its priorities do not count.
#[test]
fn a_source_stands_behind_those_that_are_there() {
    let of = policies(&[], &["http=pod-security=restricted", "api=max-priority=3"]);
    let alone = of.clone().settled(&[Source::Http]);
    assert_eq!(alone.max_priority(Source::Http), 1_000_000_000);
    let both = of.clone().settled(&[Source::File, Source::Http]);
    assert_eq!((both.max_priority(Source::Http), both.max_priority(Source::File)), (0, i32::MAX));
    let unknown = of.settled(&[]);
    assert_eq!((unknown.max_priority(Source::Http), unknown.max_priority(Source::Api)), (0, 3));
}

/// Regression: a claim could have any size, and a request for the whole node counted in full.
#[test]
fn who_may_do_less_than_others_has_less_of_the_node() {
    let of = policies(
        &[],
        &[
            "http=pod-security=restricted",
            "api=pod-security=restricted;max-claim-storage=1Gi;max-requests=*;evict-first=false;max-grace=7s",
        ],
    );
    let all = |of: &Policies, source| {
        (of.max_claim_storage(source), of.max_requests(source), of.evict_first(source), of.max_grace(source))
    };
    let both = of.clone().settled(&[Source::File, Source::Http]);
    assert_eq!(all(&both, Source::File), (Most::All, 100, false, u32::MAX));
    assert_eq!(all(&both, Source::Http), (Most::Percent(10), 10, true, 600));
    assert_eq!(all(&both, Source::Api), (Most::Bytes(1 << 30), 100, false, 7));
    let alone = of.settled(&[Source::Http]);
    assert_eq!(all(&alone, Source::Http), (Most::Percent(50), 100, false, u32::MAX));
    assert_eq!(alone.max_claim_storage(Source::Http).of(1001), 500);
    for wrong in ["", "-1", "101%", "x", "1%%", "1 Gi"] {
        assert!(Most::parse(wrong).is_err(), "{wrong}");
    }
    for text in ["10Gi", "0", "7%", "*"] {
        assert_eq!(Most::parse(text).unwrap().to_string(), text);
    }
}
