//! `cp` on pods that run: in both directions, in volumes and over files that Docker mounts, and while the container is
//! watched.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::Node;
use crate::harness::pods::{Pod, container, much};

fn hash(text: &str) -> String {
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn files_go_into_a_container_and_come_back() {
    let node = Node::start();
    let volumes =
        json!([{"name": "kept", "emptyDir": {}}, {"name": "fast", "emptyDir": {"medium": "Memory"}}]);
    let mounts = json!([{"name": "kept", "mountPath": "/kept"}, {"name": "fast", "mountPath": "/fast"}]);
    // The probe asks Docker twice a second, also while files are copied.
    let probe = json!({"exec": {"command": ["true"]}, "periodSeconds": 1, "timeoutSeconds": 2, "failureThreshold": 3});
    let other = container("other", crate::harness::pods::OBEYS);
    let pod = Pod::new("web")
        .set("/spec/volumes", volumes)
        .set("/spec/containers/0/volumeMounts", mounts)
        .set("/spec/containers/0/livenessProbe", probe)
        .set("/spec/containers/0/securityContext", json!({"runAsUser": 1234, "runAsGroup": 55}))
        .and(other);
    node.write("web.yaml", pod.text());
    node.wait_phase("web", "Running");
    let dir = node.root().join("copies");
    fs::create_dir_all(dir.join("tree/sub")).unwrap();
    let big = much(40 << 20);
    fs::write(dir.join("tree/big"), &big).unwrap();
    fs::write(dir.join("tree/sub/run"), "#!/bin/sh\necho ran\n").unwrap();
    fs::set_permissions(dir.join("tree/sub/run"), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("sub/run", dir.join("tree/link")).unwrap();
    let at = |path: &str| dir.join(path).to_str().unwrap().to_owned();

    for volume in ["/kept", "/fast"] {
        assert_eq!(node.says(&["cp", &at("tree"), &format!("default/web:{volume}"), "-c", "app"]), "");
        let said = node.inside("web", "app", &format!("{volume}/tree/link; stat -c %u:%g {volume}/tree/big"));
        assert_eq!(said, "ran\n1234:55");
        let (here, there) = (at("tree/big"), format!("{volume}/tree/big"));
        let local = Command::new("sha256sum").arg(&here).output().unwrap();
        let sum = hash(&node.inside("web", "app", &format!("sha256sum {there}")));
        assert_eq!(sum, hash(&String::from_utf8_lossy(&local.stdout)));
        let back = format!("back{}", volume.replace('/', "-"));
        node.says(&["cp", "-c", "app", &format!("web:{volume}/tree"), &at(&back)]);
        assert!(fs::read(dir.join(&back).join("big")).unwrap() == big, "other bytes came back");
        assert_eq!(
            fs::metadata(dir.join(&back).join("sub/run")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert_eq!(fs::read_link(dir.join(&back).join("link")).unwrap(), Path::new("sub/run"));
        assert_eq!(
            fs::metadata(dir.join(&back).join("big")).unwrap().uid(),
            rustix::process::geteuid().as_raw()
        );
    }
    assert_eq!(node.container_status("web", "app").unwrap().restart_count, 0, "its probe has failed");

    // A file that is mounted into the container stays the mounted one, and the first container is the default.
    fs::write(dir.join("log"), "to the end\n").unwrap();
    let before = node.inside("web", "app", "stat -c %i /dev/termination-log");
    let said = node.podkeeper(&["cp", &at("log"), "web:/dev/termination-log"]);
    let told = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.status.success() && told.contains("Defaulted container \"app\""), "{said:?}");
    assert_eq!(node.inside("web", "app", "stat -c %i /dev/termination-log"), before);
    assert_eq!(node.inside("web", "app", "cat /dev/termination-log"), "to the end");

    // Links of the container are resolved inside it, and only regular files are read.
    fs::write(dir.join("secret"), "of the node").unwrap();
    let script = format!("ln -s {} /kept/trap; mkfifo /kept/pipe; echo x >/kept/plain", at("secret"));
    node.inside("web", "app", &script);
    let refused = node.podkeeper(&["cp", "-c", "app", "web:/kept/trap", &at("got")]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(!dir.join("got").exists());
    let some = node.podkeeper(&["cp", "-c", "app", "web:/kept", &at("got")]);
    let told = String::from_utf8_lossy(&some.stderr).into_owned();
    assert_eq!(some.status.code(), Some(1));
    assert!(told.contains("/kept/pipe: it is a device, a pipe or a socket"), "{told}");
    assert_eq!(fs::read_to_string(dir.join("got/plain")).unwrap(), "x\n");
    let none = node.podkeeper(&["cp", "nope:/x", &at("y")]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("pods \"nope\" not found"), "{none:?}");
}
