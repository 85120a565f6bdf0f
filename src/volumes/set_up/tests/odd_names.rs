//! Odd texts of a manifest, which is accepted with a warning: names that no object can have are looked for and not
//! found, and relative paths are not set up. None becomes a path.

use serde_json::json;

use super::*;

#[test]
fn names_that_no_object_has_are_not_found_and_lead_nowhere() {
    let rig = rig("set-up-odd-names");
    fs::create_dir_all(rig.base.join("local-storage/other")).unwrap();
    fs::write(rig.base.join("local-storage/other/data"), "other").unwrap();
    let before = tree(&rig.base);
    let long = "x".repeat(5000);
    let names = ["..", ".", "a/b", "/etc", "../other", "../../..", "A", "a\nb", "\u{1b}[2J", "", &long];
    for name in names {
        let shown = name.escape_debug().to_string();
        let missing = |kind: &str| format!("{kind} \"{shown}\" not found");
        for (source, why) in [
            (json!({"configMap": {"name": name}}), missing("configmap")),
            (json!({"secret": {"secretName": name}}), missing("secret")),
            (json!({"projected": {"sources": [{"secret": {"name": name}}]}}), missing("secret")),
            (
                json!({"persistentVolumeClaim": {"claimName": name}}),
                format!("error processing PVC default/{shown}: {}", missing("persistentvolumeclaim")),
            ),
        ] {
            let mut volume = source.clone();
            volume["name"] = "v".into();
            assert_eq!(rig.set_up("a", &json!([volume]).to_string(), ""), why, "{source}");
        }
    }
    let after = tree(&rig.base);
    let is_own = |path: &str| (path == "pods" || path.starts_with("pods/a")) && !path.contains(layout::LOCAL);
    let made: Vec<&String> = after.iter().filter(|path| !before.contains(path)).collect();
    assert!(made.iter().all(|path| is_own(path)), "{made:?}");
    assert!(before.iter().all(|path| after.contains(path)));
    rig.end();
}

#[test]
fn a_relative_host_path_is_not_set_up() {
    let rig = rig("set-up-relative");
    for path in ["data", " /data", "./data", "~"] {
        let volume = json!([{"name": "v", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]);
        let why = format!("invalid HostPath {path:?}: must be an absolute path");
        assert_eq!(rig.set_up("a", &volume.to_string(), ""), why);
        assert!(!Path::new(path).exists());
    }
    rig.end();
}

/// Every path below a directory, relative to it.
fn tree(base: &Path) -> Vec<String> {
    let mut open = vec![base.to_owned()];
    let mut found = Vec::new();
    while let Some(here) = open.pop() {
        for entry in fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            found.push(path.strip_prefix(base).unwrap().display().to_string());
            if path.is_dir() && !path.is_symlink() {
                open.push(path);
            }
        }
    }
    found
}
