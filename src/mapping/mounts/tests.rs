use super::*;
use crate::plan::testing;

fn mounts(spec: &str, env: &[&str]) -> Result<Mounts, String> {
    let pod = testing::pod(spec);
    let env: Vec<String> = env.iter().map(|entry| (*entry).to_owned()).collect();
    of(&pod, &pod.spec.containers[0], &env, Path::new("/root"), &Default::default(), &Default::default())
}

fn one(mount: &str, env: &[&str]) -> Result<Mounts, String> {
    let spec = format!(
        "{{volumes: [{{name: v, emptyDir: {{}}}}], containers: [{{name: a, volumeMounts: [{{name: v, mountPath: /v, {mount}}}]}}]}}"
    );
    mounts(&spec, env)
}

#[test]
fn parts_of_volumes() {
    let check = |mount: &str, expected: Result<Option<&str>, &str>| {
        let found = one(mount, &["A=1", "B=x/y", "UP=..", "ABS=/etc"]);
        let found = found.map(|m| m.sub_paths.first().map(|part| part.path.clone()));
        let found = found.as_ref().map(Option::as_deref).map_err(String::as_str);
        assert_eq!(found, expected, "{mount}");
    };
    check("readOnly: true", Ok(None));
    check("subPath: ''", Ok(None));
    check("subPath: a/b", Ok(Some("a/b")));
    check("subPathExpr: 'p-$(A)/$(B)'", Ok(Some("p-1/x/y")));
    check("subPathExpr: '$$(A)$'", Ok(Some("$(A)$")));
    check("subPathExpr: '$(A)$(open'", Ok(Some("1$(open")));
    check("subPathExpr: '$(NO)/$(A)/$(OTHER)'", Err("missing value for NO, OTHER"));
    check("subPathExpr: $(UP)", Err("unable to provision SubPath `..`: must not contain '..'"));
    check("subPathExpr: a/$(UP)/b", Err("unable to provision SubPath `a/../b`: must not contain '..'"));
    check("subPathExpr: $(ABS)", Err("error SubPath `/etc` must not be an absolute path"));
    check("subPath: /etc", Err("error SubPath `/etc` must not be an absolute path"));
}

/// The table of upstream's `helpers_test.go`.
#[test]
fn a_part_s_expression_has_every_name_or_is_refused() {
    let check = |expression: &str, env: &[&str], expected: Option<&str>| {
        let found = one(&format!("subPathExpr: '{expression}'"), env).ok();
        let found = found.map(|m| m.sub_paths.first().map_or(String::new(), |part| part.path.clone()));
        assert_eq!(found.as_deref(), expected, "{expression} {env:?}");
    };
    check("foo", &[], Some("foo"));
    check("foo/$(POD_NAME)", &["POD_NAME=bar"], Some("foo/bar"));
    check("", &["POD_NAME=bar"], Some(""));
    check("/foo/$(POD_NAME)", &[], None);
    check("$(POD_NAME)/bar", &["POD_NAME=foo"], Some("foo/bar"));
    check("foo/$(POD_NAME)/$(ANNOTATION)", &["ANNOTATION="], None);
    check("foo/$(ODD_NAME)/$(POD_NAME)", &["ODD_NAME=bar"], None);
    check("$()", &[], None);
    check("$(POD_NAME$(ANNOTATION))", &["POD_NAME=foo", "ANNOTATION=bar"], None);
    check("$(POD_NAME)", &["ODD_NAME=bar"], None);
}

#[test]
fn the_place_of_a_part_is_its_mount_s() {
    let all = mounts(
        "{volumes: [{name: v, emptyDir: {}}, {name: h, hostPath: {path: /srv}}], containers: [{name: a, volumeMounts: [
          {name: v, mountPath: /0}, {name: h, mountPath: /1, subPath: x}]}]}",
        &[],
    );
    let all = all.unwrap();
    let [part] = all.sub_paths.as_slice() else { panic!("{all:?}") };
    assert_eq!((part.base.as_path(), part.index), (Path::new("/srv"), 1));
    assert_eq!(all.mounts[1].source, "/root/pods/uid-1/volume-subpaths/h/a/1");
    assert_eq!(all.mounts[0].source, "/root/pods/uid-1/volumes/kubernetes.io~empty-dir/v");
}

#[test]
fn a_volume_that_is_not_there() {
    let found = mounts("{containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}]}", &[]);
    assert_eq!(found, Err("cannot find volume \"v\" to mount into container \"a\"".into()));
}
