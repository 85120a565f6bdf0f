//! `run --runonce`.

use crate::harness::{Bounded as _, Node, Options};

#[test]
fn the_pods_of_a_directory_are_run_and_the_daemon_ends() {
    let node = Node::prepare(Options::flags(&["--runonce"]));
    let pod = |name: &str, more: &str, command: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  restartPolicy: Never\n{more}  containers:\n  \
             - {{name: app, image: busybox:static, command: [/bin/busybox, {command}]}}\n"
        )
    };
    node.write("a.yaml", pod("runs", "", "sleep, '1000000'"));
    node.write("b.yaml", pod("ends", "", "'true'"));
    let once = || node.run_command().ends();
    let output = once();
    let (told, error) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let lines: Vec<String> =
        ["ends", "runs"].map(|name| format!("started pod default/{name}-{}", node.name)).to_vec();
    assert_eq!(
        (output.status.code(), told.lines().collect::<Vec<_>>()),
        (Some(0), lines.iter().map(String::as_str).collect()),
        "{error}"
    );
    let running = || node.containers().into_iter().filter(|it| it.runs() && !it.is_sandbox());
    node.wait_until("Docker knows that the short one has ended", || running().count() == 1);
    let before: Vec<String> = running().map(|it| it.id).collect();
    assert_eq!(before.len(), 1, "{error}");
    // Once more: running pods keep running, and a pod that cannot run is reported.
    node.write("c.yaml", pod("elsewhere", "  nodeName: other\n", "'true'"));
    let output = once();
    let told = String::from_utf8(output.stdout).unwrap();
    let refused = format!("unable to start pod default/elsewhere-{}: NodeName: ", node.name);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(
        told.lines().any(|line| line.starts_with(&refused))
            || String::from_utf8_lossy(&output.stderr).contains(&refused),
        "{told}"
    );
    assert_eq!(running().map(|it| it.id).collect::<Vec<_>>(), before);
}
