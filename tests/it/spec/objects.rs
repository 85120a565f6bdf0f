//! ConfigMaps and Secrets on the real Docker: beside their pod, late, missing, changed, removed.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::pods::{OBEYS, Pod, container};
use crate::harness::{Container, Node, Options};

/// 32 characters that occur nowhere else.
const CANARY: &str = "cAnArY-7f3a9c51e8d2460b-cAnArY-x";

fn config_map(name: &str, data: Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}).to_string()
}

fn secret(name: &str, data: Value) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}).to_string()
}

fn documents(parts: &[String]) -> String {
    parts.iter().map(|part| format!("---\n{part}\n")).collect()
}

fn key_ref(variable: &str, kind: &str, name: &str, key: &str, optional: bool) -> Value {
    let reference = json!({"name": name, "key": key, "optional": optional});
    json!({"name": variable, "valueFrom": {format!("{kind}KeyRef"): reference}})
}

/// A pod whose container uses this environment.
fn pod(name: &str, env: Value) -> Pod {
    Pod::new(name).set("/spec/containers/0/env", env)
}

/// The variables with which Docker started a container, without `PATH`.
fn env(node: &Node, container: &Container) -> Vec<String> {
    let inspected = node.inspect(&container.id);
    let all = inspected["Config"]["Env"].as_array().unwrap();
    let all = all.iter().map(|v| v.as_str().unwrap().to_owned());
    all.filter(|v| !v.starts_with("PATH=")).collect()
}

fn message(node: &Node, pod: &str) -> String {
    let state = node.container_status(pod, "app").and_then(|c| c.state);
    state.and_then(|s| s.waiting).and_then(|w| w.message).unwrap_or_default()
}

/// Waits until the container waits for a missing object, with this message.
fn wait_config_error(node: &Node, pod: &str, why: &str) {
    node.wait_until(&format!("{pod} waits: {why}"), || {
        node.waits_for(pod, "app") == "CreateContainerConfigError" && message(node, pod) == why
    });
}

#[test]
fn k27312_a_config_map_beside_its_pod() {
    let node = Node::start();
    let web = pod(
        "web",
        json!([key_ref("COLOR", "configMap", "c", "color", false), {"name": "SAY", "value": "$(COLOR)!"}]),
    )
    .set(
        "/spec/containers/0/envFrom",
        json!([{"prefix": "C_", "configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}}]),
    );
    // The pod stands first: the order in the file does not matter.
    let objects = [
        config_map("c", json!({"color": "blue", "two": "a\nb"})),
        secret("s", json!({"p": "x=y \"z\" $(COLOR)"})),
    ];
    node.write("web.yaml", documents(&[&[web.text()][..], &objects].concat()));
    let app = node.wait_running("web", "app");
    let expected = ["C_color=blue", "C_two=a\nb", "p=x=y \"z\" $(COLOR)", "COLOR=blue", "SAY=blue!"];
    assert_eq!(env(&node, &app), expected);
    assert!(!node.log().contains("CreateContainerConfigError"), "{}", node.log());
}

#[test]
fn a_config_map_that_comes_late_starts_its_pod() {
    let node = Node::start();
    let init = json!({"envFrom": [{"configMapRef": {"name": "i"}}]});
    let mut first = container("first", "exit 0");
    first.as_object_mut().unwrap().extend(init.as_object().unwrap().clone());
    node.write("web.yaml", pod("web", json!([key_ref("K", "configMap", "c", "k", false)])).text());
    node.write("init.yaml", Pod::new("init").init(first).text());
    wait_config_error(&node, "web", "configmap \"c\" not found");
    node.wait_until("init waits", || node.waits_for("init", "first") == "CreateContainerConfigError");
    assert!(
        node.says(&["get", "pods"]).contains("CreateContainerConfigError"),
        "{}",
        node.says(&["get", "pods"])
    );
    node.wait_running("web", "POD");
    assert!(node.of("web").iter().all(Container::is_sandbox), "nothing is created");
    node.write("c.yaml", config_map("c", json!({"other": "x"})));
    wait_config_error(&node, "web", "couldn't find key k in ConfigMap default/c");
    node.write("c.yaml", config_map("c", json!({"k": "v"})));
    node.write("i.yaml", config_map("i", json!({})));
    let app = node.wait_running("web", "app");
    assert_eq!((app.attempt, env(&node, &app)), (0, vec!["K=v".to_owned()]));
    node.wait_phase("init", "Running");
}

#[test]
fn k9842_optional_or_missing_object_and_key() {
    let node = Node::start();
    node.write(
        "objects.yaml",
        documents(&[config_map("c", json!({"k": "v"})), secret("s", json!({"k": "v"}))]),
    );
    let cases = [
        ("a", "configMap", "none", "configmap \"none\" not found"),
        ("b", "configMap", "c", "couldn't find key gone in ConfigMap default/c"),
        ("c", "secret", "none", "secret \"none\" not found"),
        ("d", "secret", "s", "couldn't find key gone in Secret default/s"),
    ];
    for (pod_name, kind, name, _) in cases {
        let env = |optional| json!([{"name": "A", "value": "1"}, key_ref("V", kind, name, "gone", optional)]);
        node.write(&format!("{pod_name}.yaml"), pod(pod_name, env(false)).text());
        node.write(&format!("{pod_name}-o.yaml"), pod(&format!("{pod_name}-o"), env(true)).text());
    }
    for (pod_name, _, _, why) in cases {
        wait_config_error(&node, pod_name, why);
        let app = node.wait_running(&format!("{pod_name}-o"), "app");
        assert_eq!(env(&node, &app), ["A=1"], "{pod_name}");
    }
}

#[test]
fn a_secret_that_rotates_restarts_nothing_and_counts_at_the_next_start() {
    let node = Node::start();
    let web = pod("web", json!([key_ref("P", "secret", "s", "p", false)])).text();
    // In one file: the pod is the same, whatever else the file contains.
    node.write("web.yaml", documents(&[web.clone(), secret("s", json!({"p": "old"}))]));
    let first = node.wait_running("web", "app");
    assert_eq!(env(&node, &first), ["P=old"]);
    node.write("web.yaml", documents(&[web.clone(), secret("s", json!({"p": "new"}))]));
    // A second pod shows that the change has arrived.
    node.write("tell.yaml", pod("tell", json!([key_ref("P", "secret", "s", "p", false)])).text());
    let tell = node.wait_running("tell", "app");
    assert_eq!(env(&node, &tell), ["P=new"]);
    assert_eq!(node.wait_running("web", "app"), first);
    node.kill_container(&first.id, "KILL");
    let second =
        node.wait_for("it runs again", || node.running("web", "app").into_iter().find(|c| c.id != first.id));
    assert_eq!((second.attempt, env(&node, &second)), (1, vec!["P=new".to_owned()]));
    // The object is removed: running containers stay, and new ones wait.
    node.write("web.yaml", web);
    node.remove("tell.yaml");
    node.wait_gone("tell");
    assert_eq!(node.wait_running("web", "app"), second);
    assert_eq!(node.phase("web"), "Running");
}

/// Every file below `dir` that holds the canary.
fn holding(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            holding(&path, found);
        } else if meta.is_file() && betrays(&String::from_utf8_lossy(&fs::read(&path).unwrap())) {
            found.push(path.display().to_string());
        }
    }
}

/// Whether a text contains the canary, or the part of it that survives base64 (whatever stands before
/// it).
fn betrays(text: &str) -> bool {
    const BASE64: [&str; 3] = [
        "Y0FuQXJZLTdmM2E5YzUxZThkMjQ2MGItY0Fu",
        "NBbkFyWS03ZjNhOWM1MWU4ZDI0NjBiLWNBbk",
        "jQW5BclktN2YzYTljNTFlOGQyNDYwYi1jQW5",
    ];
    text.contains(CANARY) || BASE64.iter().any(|b| text.contains(b))
}

/// Docker's own container configuration holds the environment (as the man page explains), and so does
/// the manifest directory, which belongs on a tmpfs if it contains secrets: no other place may.
#[test]
fn k12396_a_secret_is_nowhere_but_in_its_container() {
    let node = Node::with(Options::flags(&["-v=4"]));
    let objects = [
        secret("s", json!({"p": CANARY, "equals": format!("a={CANARY}="), "lines": format!("1\n{CANARY}\n3\n")})),
        // A value that cannot be a variable, and values that are wrong.
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "nul"}, "stringData": {"p": format!("{CANARY}\0")}})
            .to_string(),
    ];
    let refs = json!([
        key_ref("P", "secret", "s", "p", false),
        {"name": "URL", "value": "db://$(P)@db"},
        {"name": "AGAIN", "value": "$(lines)"},
    ]);
    let web = pod("web", refs.clone())
        .set("/spec/containers/0/envFrom", json!([{"secretRef": {"name": "s"}}]))
        .and(container("args", OBEYS))
        .set("/spec/containers/1/args", json!(["$(P)"]))
        .set("/spec/containers/1/env", refs);
    node.write("web.yaml", documents(&[&[web.text()][..], &objects].concat()));
    let nul = pod("nul", json!([key_ref("P", "secret", "nul", "p", false)]));
    node.write("nul.yaml", nul.text());
    // Starts and fails, with the secret on its command line.
    let fails = pod("fails", json!([key_ref("P", "secret", "s", "p", false)]))
        .set("/spec/containers/0/command", json!(["/no-such-program", "$(P)"]));
    node.write("fails.yaml", fails.text());
    // Manifests with errors on the lines of the secret.
    let number =
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: x}}\nstringData: {{p: !{CANARY} x}}\n");
    node.write("tag.yaml", &number);
    node.write("text.yaml", format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: y}}\ndata: {CANARY}\n"));
    node.write("syntax.yaml", format!("kind: Secret\nstringData:\n  p: \"{CANARY}\n x: {CANARY}: y\n"));
    node.write(
        "base64.yaml",
        secret("z", json!({})).replace("stringData\":{", &format!("data\":{{\"p\":\"{CANARY}\"")),
    );
    let app = node.wait_running("web", "app");
    assert!(env(&node, &app).contains(&format!("lines=1\n{CANARY}\n3\n")));
    assert!(env(&node, &app).contains(&format!("URL=db://{CANARY}@db")));
    wait_config_error(
        &node,
        "nul",
        "key p in Secret default/nul cannot be an environment variable: it holds a NUL byte",
    );
    node.wait_until("it cannot be started", || node.waits_for("fails", "app") == "CrashLoopBackOff");
    node.wait_until("all four problems are told", || {
        let problems = node.status().map(|s| s.problems).unwrap_or_default();
        ["tag.yaml", "text.yaml", "syntax.yaml", "base64.yaml"]
            .iter()
            .all(|file| problems.iter().any(|p| p.path.ends_with(file)))
    });
    // A restart of the daemon does not change this: it reads everything again.
    node.restart();
    node.wait_phase("web", "Running");

    let mut files = Vec::new();
    for dir in [node.root(), node.run_dir()] {
        holding(&dir, &mut files);
    }
    assert_eq!(files, [""; 0], "on disk");
    assert!(!betrays(&node.log()), "in the log: {}", node.log());
    let web = node.full("web");
    for command in [
        vec!["get", "pods"],
        vec!["get", "pods", "-o", "wide"],
        vec!["get", "pods", "-o", "yaml"],
        vec!["get", "pods", "-o", "json"],
        vec!["describe", "pod", &web],
        vec!["describe"],
    ] {
        let output = node.podkeeper(&command);
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(!betrays(&said.concat()), "{command:?}: {}", said.concat());
    }
    let checked =
        Command::new(env!("CARGO_BIN_EXE_podkeeper")).arg("check").arg(node.manifests()).output().unwrap();
    let said =
        [checked.stdout, checked.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(said.contains("tag.yaml") && !betrays(&said), "{said}");
    for container in node.containers() {
        let labels = node.inspect(&container.id)["Config"]["Labels"].to_string();
        assert!(!betrays(&labels), "{labels}");
        assert!(!betrays(&container.name));
    }
}
