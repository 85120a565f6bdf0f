use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::layout::{self, Kind};
use crate::plan::testing;

fn pod(spec: &str) -> DesiredPod {
    testing::pod(spec)
}

#[test]
fn a_volume_that_no_container_mounts_is_not_set_up() {
    let mount = |name: &str| format!("volumeMounts: [{{name: {name}, mountPath: /v}}]");
    let mut pod = pod(&format!(
        "{{initContainers: [{{name: i, {}}}], containers: [{{name: a, {}}}],
          volumes: [{{name: unused, secret: {{secretName: missing}}}}, {{name: i, emptyDir: {{}}}}, {{name: r, configMap: {{name: c}}}},
                    {{name: e, secret: {{secretName: s}}}}]}}",
        mount("i"),
        mount("r"),
    ));
    // The tests' notation mounts all volumes.
    Arc::make_mut(&mut pod.spec).containers[0].volume_mounts.as_mut().unwrap().truncate(1);
    let names = |pod: &crate::pod::DesiredPod| -> Vec<String> {
        layout::volumes(pod).map(|volume| volume.name.clone()).collect()
    };
    let objects = |pod: &crate::pod::DesiredPod| -> Vec<String> {
        let all = crate::pod::object::refs::references(pod).into_iter();
        all.map(|reference| reference.key.name).collect()
    };
    assert_eq!((names(&pod), objects(&pod)), (vec!["i".into(), "r".into()], vec!["c".to_owned()]));
    // A container that is added to the pod mounts another one.
    let added = serde_json::json!([{"name": "look", "volumeMounts": [{"name": "e", "mountPath": "/e"}]}]);
    Arc::make_mut(&mut pod.spec).ephemeral_containers = Some(serde_json::from_value(added).unwrap());
    assert_eq!(names(&pod), ["i", "r", "e"]);
    assert_eq!(objects(&pod), ["c", "s"]);
}

#[test]
fn the_kubelet_s_layout() {
    let check = |volume: &str, expected: &str| {
        let pod = pod(&format!("{{containers: [{{name: a}}], volumes: [{{name: v, {volume}}}]}}"));
        let path = layout::host_path(
            Path::new("/r"),
            &pod,
            layout::volumes(&pod).next().unwrap(),
            &Default::default(),
            &Default::default(),
        );
        assert_eq!(path.map(|path| path.display().to_string()).unwrap_or_default(), expected, "{volume}");
    };
    check("emptyDir: {}", "/r/pods/uid-1/volumes/kubernetes.io~empty-dir/v");
    check("emptyDir:", "/r/pods/uid-1/volumes/kubernetes.io~empty-dir/v");
    check("configMap: {name: c}", "/r/pods/uid-1/volumes/kubernetes.io~configmap/v");
    check("secret: {secretName: s}", "/r/pods/uid-1/volumes/kubernetes.io~secret/v");
    check("downwardAPI: {}", "/r/pods/uid-1/volumes/kubernetes.io~downward-api/v");
    check("projected: {sources: []}", "/r/pods/uid-1/volumes/kubernetes.io~projected/v");
    check("nfs: {server: s, path: /p}", "/r/pods/uid-1/volumes/kubernetes.io~nfs/v");
    check("hostPath: {path: /srv}", "/srv");
    check("hostPath: {path: srv}", "");
    check("hostPath: {path: ' /srv'}", "");
    check("persistentVolumeClaim: {claimName: data}", "/r/local-storage/default/data");
    check("persistentVolumeClaim: {claimName: ..}", "");
    check("persistentVolumeClaim: {claimName: a/b}", "");
    check("persistentVolumeClaim: {claimName: ../../x}", "");
    check("csi: {driver: d}", "");
}

#[test]
fn mount_points_inside_a_volume() {
    let pod = pod("{initContainers: [{name: i, volumeMounts: [{name: c, mountPath: /other}, {name: e, mountPath: /other/deep/er}]}],
        containers: [{name: a, volumeMounts: [
          {name: c, mountPath: /etc/app/}, {name: e, mountPath: /etc//app/./run}, {name: e, mountPath: /etc/application},
          {name: e, mountPath: /etc/app/../up}, {name: e, mountPath: /etc/app/..data}, {name: e, mountPath: /etc/app}]},
        {name: b, volumeMounts: [{name: c, mountPath: /x, subPath: k}, {name: e, mountPath: /x/y}]}]}");
    let found: Vec<String> = nested(&pod, "c").into_iter().collect();
    assert_eq!(found, ["deep/er", "run"]);
}

/// Path parts that an attacker would try.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just(String::new()),
        Just("..data".to_owned()),
        Just("...".to_owned()),
        Just("\0".to_owned()),
        "[a-z.]{1,4}",
        ".{0,3}",
    ]
}

fn paths() -> impl Strategy<Value = String> {
    proptest::collection::vec(piece(), 0..6).prop_map(|parts| parts.join("/"))
}

proptest! {
    /// Any path in a manifest leads to a place inside.
    #[test]
    fn no_path_of_a_manifest_leads_out(path in paths(), uid in paths(), name in paths(), index in 0_usize..9) {
        if let Ok(parts) = layout::inside(&path) {
            prop_assert!(!parts.is_empty());
            prop_assert!(parts.iter().all(|part| layout::is_one_name(part)));
            prop_assert!(!parts[0].starts_with(".."));
        }
        let root = Path::new("/r");
        for place in [
            layout::pod_dir(root, &uid),
            layout::sub_path(root, &uid, &name, &path, index),
            layout::below(root, &["pods", &uid, &name]),
        ].into_iter().flatten() {
            prop_assert!(place.starts_with(root));
            let below = place.strip_prefix(root).unwrap();
            let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
            prop_assert!(below.components().all(plain), "{place:?}");
        }
    }

    /// Volumes and mounts of any kind lead to places inside, too.
    #[test]
    fn no_volume_lies_outside(name in paths(), claim in paths(), sub in paths(), expression in any::<bool>()) {
        let mut pod = pod("{containers: [{name: a}]}");
        let volume = |json: serde_json::Value| serde_json::from_value(json).unwrap();
        Arc::make_mut(&mut pod.spec).volumes = Some(vec![
            volume(serde_json::json!({"name": name, "emptyDir": {}})),
            volume(serde_json::json!({"name": "claim", "persistentVolumeClaim": {"claimName": claim}})),
        ]);
        let key = if expression { "subPathExpr" } else { "subPath" };
        let mut container = pod.spec.containers[0].clone();
        container.volume_mounts = Some(vec![
            serde_json::from_value(serde_json::json!({"name": name, "mountPath": "/v", key: sub})).unwrap(),
            serde_json::from_value(serde_json::json!({"name": "claim", "mountPath": "/c"})).unwrap(),
        ]);
        Arc::make_mut(&mut pod.spec).containers = vec![container.clone()];
        let root = Path::new("/r");
        if let Ok(all) = crate::mapping::mounts::of(&pod, &container, &[], root, &Default::default(), &Default::default()) {
            for mount in all.mounts {
                let source = Path::new(&mount.source);
                let plain = |part: std::path::Component<'_>| matches!(part, std::path::Component::Normal(_));
                prop_assert!(source.strip_prefix(root).unwrap().components().all(plain), "{source:?}");
            }
            for part in all.sub_paths {
                prop_assert!(!part.path.starts_with('/') && part.path.split('/').all(|part| part != ".."));
            }
        }
        prop_assert_eq!(Kind::of(layout::volumes(&pod).next().unwrap()).plugin(), Some(layout::EMPTY_DIR));
    }
}
