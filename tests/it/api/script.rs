//! Some sixty commands, with every kubectl that is found; their output is in `tests/golden/api/kubectl.txt`, without
//! the parts that differ from run to run. `UPDATE=1` writes the file with the first program.

use std::path::{Path, PathBuf};

use super::kubectl::{Served, minor, programs};
use crate::harness::pods::Pod;

/// Input of `apply` and the commands like it.
const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors}\ndata: {wall: green}\n---\n\
    apiVersion: v1\nkind: Pod\nmetadata: {name: made, labels: {app: made}}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
    containers:\n  - name: app\n    image: busybox:static\n    imagePullPolicy: IfNotPresent\n    \
    command: [sh, -c, 'echo hello; trap exit TERM; while :; do sleep 1; done']\n    \
    resources: {requests: {cpu: 10m, memory: 10Mi}}\n    \
    envFrom: [{configMapRef: {name: colors}}]\n";

/// User, words of the command, input.
const SCRIPT: &[(&str, &str, &str)] = &[
    ("admin", "version -o json", ""),
    ("admin", "api-resources --sort-by=name", ""),
    ("admin", "api-versions", ""),
    ("admin", "cluster-info", ""),
    ("admin", "auth can-i delete pods", ""),
    ("view", "auth can-i delete pods", ""),
    ("view", "auth can-i list secrets", ""),
    ("view", "auth can-i get pods", ""),
    ("admin", "get ns", ""),
    ("admin", "get pods", ""),
    ("admin", "get pods -A -o name", ""),
    ("admin", "get pods -l app=web", ""),
    ("admin", "get pods -l app!=web", ""),
    ("admin", "get pods --field-selector=status.phase=Running -o name", ""),
    ("admin", "get pods --field-selector=spec.nothing=x", ""),
    ("admin", "get pods -o jsonpath={.items[*].spec.containers[*].image}", ""),
    ("admin", "get pods -o custom-columns=N:.metadata.name,P:.status.phase", ""),
    ("admin", "get pods --sort-by=.metadata.name --no-headers", ""),
    ("admin", "get all", ""),
    ("admin", "get nodes -o name", ""),
    ("admin", "get node n1 -o jsonpath={.status.nodeInfo.operatingSystem}", ""),
    // Other than the name, which its events have as UID: `describe node` would print each event twice.
    ("admin", "get node n1 -o jsonpath={.metadata.uid}", ""),
    ("admin", "get lease -n kube-node-lease", ""),
    ("admin", "auth can-i delete nodes", ""),
    ("admin", "get pods --as nobody", ""),
    ("admin", "auth can-i get pods --as nobody --as-group podkeeper:view", ""),
    ("admin", "expose pod web-n1 --port=80", ""),
    ("admin", "create -f -", CLAIM),
    ("admin", "delete pvc disk", ""),
    ("admin", "get pod nothing", ""),
    ("admin", "get deployments", ""),
    ("view", "get secrets", ""),
    ("view", "exec web-n1 -- id", ""),
    ("admin", "explain pod.spec.restartPolicy", ""),
    ("admin", "explain pod.status.containerStatuses.state.waiting", ""),
    ("admin", "explain node.status.nodeInfo.osImage", ""),
    ("admin", "explain persistentvolumeclaim.spec.resources", ""),
    ("admin", "explain configmap.data", ""),
    ("admin", "explain lease.spec.holderIdentity", ""),
    ("admin", "cordon n1", ""),
    ("admin", "label node n1 a=b", ""),
    ("admin", "delete node n1", ""),
    ("admin", "logs web-n1", ""),
    ("admin", "logs web-n1 -c nothing", ""),
    ("admin", "exec web-n1 -- echo hi", ""),
    ("admin", "exec -i web-n1 -- cat", "through and back"),
    ("admin", "exec web-n1 -- sh -c 'exit 7'", ""),
    ("admin", "delete pod web-n1", ""),
    ("admin", "label pod web-n1 a=b", ""),
    ("admin", "wait --for=condition=Ready pod/web-n1 --timeout=30s", ""),
    ("admin", "create configmap settings --from-literal=color=blue", ""),
    ("admin", "create configmap settings --from-literal=color=blue", ""),
    ("admin", "get cm settings", ""),
    ("admin", "create secret generic token --from-literal=key=value", ""),
    ("admin", "get secret token -o jsonpath={.data.key}", ""),
    ("admin", "create namespace more", ""),
    ("admin", "create configmap inner -n nowhere --from-literal=a=b", ""),
    ("admin", "create configmap inner -n more --from-literal=a=b", ""),
    ("admin", "diff -f -", MANIFEST_OF_NAMES),
    ("admin", "apply -f -", MANIFEST),
    ("admin", "apply -f -", MANIFEST),
    ("admin", "diff -f -", MANIFEST),
    ("admin", "wait --for=condition=Ready pod/made --timeout=60s", ""),
    ("admin", "logs made", ""),
    ("admin", "exec made -- sh -c 'echo $wall'", ""),
    ("admin", "label pod made tier=front", ""),
    ("admin", "label pod made tier=front", ""),
    ("admin", "annotate pod made note=here", ""),
    ("admin", "get pods -l tier=front -o name", ""),
    ("admin", "patch cm colors -p {\"data\":{\"roof\":\"red\"}}", ""),
    ("admin", "patch cm colors --type=merge -p {\"data\":{\"roof\":null}}", ""),
    (
        "admin",
        "patch cm colors --type=json -p [{\"op\":\"add\",\"path\":\"/data/door\",\"value\":\"oak\"}]",
        "",
    ),
    ("admin", "patch cm colors --type=json -p [{\"op\":\"remove\",\"path\":\"/data/none\"}]", ""),
    ("admin", "get cm colors -o jsonpath={.data}", ""),
    ("admin", "edit cm colors", ""),
    ("admin", "get cm colors -o jsonpath={.data.wall}", ""),
    ("admin", "replace -f -", REPLACEMENT),
    ("admin", "replace -f -", REPLACEMENT),
    ("admin", "get cm colors -o jsonpath={.data.wall}{.data.door}", ""),
    ("admin", "patch pod made -p {\"spec\":{\"hostNetwork\":true}}", ""),
    ("admin", "cp note.txt made:/note.txt", ""),
    ("admin", "exec made -- cat /note.txt", ""),
    ("admin", "exec made -- sh -c 'echo more >>/note.txt'", ""),
    ("admin", "cp made:/note.txt back.txt", ""),
    (
        "admin",
        "debug made -i -c look --target=app --profile=general --image=busybox:static \
         --image-pull-policy=IfNotPresent -- sh -c 'cat; echo; exit 3'",
        "seen through",
    ),
    ("admin", "get pod made -o jsonpath={.spec.ephemeralContainers[*].name}", ""),
    ("admin", "logs made -c look", ""),
    ("admin", "debug made -c app --profile=general --image=busybox:static", ""),
    ("view", "debug made -c look --profile=general --image=busybox:static", ""),
    (
        "admin",
        "debug made --copy-to=twin -c app --profile=general --image=busybox:static \
         -- sh -c 'trap exit TERM; while :; do sleep 1; done'",
        "",
    ),
    ("admin", "get pod twin -o jsonpath={.spec.containers[*].resources.requests.memory}", ""),
    ("admin", "wait --for=condition=Ready pod/twin --timeout=60s", ""),
    ("admin", "delete pod twin --now --wait=false", ""),
    ("admin", "set image pod/made app=docker.io/library/busybox:static", ""),
    ("admin", "set image pod/made app=docker.io/library/busybox:static", ""),
    ("admin", "wait --for=jsonpath={.status.containerStatuses[0].restartCount}=1 pod/made --timeout=60s", ""),
    ("admin", "get pod made -o jsonpath={.spec.containers[0].image}", ""),
    ("admin", "create -f -", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndate: {a: b}\n"),
    (
        "admin",
        "create -f -",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec: {containers: [{name: A, image: x}]}\n",
    ),
    (
        "admin",
        "run quick --image=busybox:static --image-pull-policy=IfNotPresent --restart=Never --command -- echo done",
        "",
    ),
    ("admin", "wait --for=jsonpath={.status.phase}=Succeeded pod/quick --timeout=60s", ""),
    ("admin", "logs quick", ""),
    ("admin", "delete pod quick", ""),
    ("admin", "wait --for=delete pod/quick --timeout=60s", ""),
    ("admin", "delete pod made --wait", ""),
    ("admin", "delete cm --all", ""),
    ("admin", "delete secret token", ""),
    ("admin", "delete ns more", ""),
    ("admin", "delete ns default", ""),
    ("admin", "get pods", ""),
];

/// Commands that older versions do not have, run after all others except the last ones: with the minor version that
/// introduced them.
const NEWER: &[(u32, &str, &str, &str)] = &[
    (
        32,
        "admin",
        "patch pod made --subresource resize -p \
         {\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{\"requests\":{\"cpu\":\"20m\"}}}]}}",
        "",
    ),
    (
        32,
        "admin",
        "patch pod made --subresource resize -p \
         {\"spec\":{\"containers\":[{\"name\":\"app\",\"resources\":{\"limits\":{\"cpu\":\"1\"}}}]}}",
        "",
    ),
    (32, "admin", "get pod made -o jsonpath={.spec.containers[0].resources.requests.cpu}=", ""),
    (27, "admin", "auth whoami", ""),
];

/// A claim without the fields that the API puts in.
const CLAIM: &str = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: disk}\nspec:\n  \
    accessModes: [ReadWriteOnce]\n  resources: {requests: {storage: 1Mi}}\n";

/// Replaces the existing colours; the edit has made the wall yellow.
const REPLACEMENT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors, namespace: default}\ndata: {wall: blue}\n";

/// An object that does not exist yet.
const MANIFEST_OF_NAMES: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata: {}\n";

/// Words of a command line; a quoted part is one word.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => all.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    all.push(word);
    all
}

/// Removes the parts that differ from run to run: ages, ports, versions, and the widths of columns.
fn settled(text: &str, served: &Served) -> String {
    let is_age = |word: &str| {
        word.len() > 1
            && word.ends_with(['s', 'm', 'h'])
            && word.trim_end_matches(['s', 'm', 'h']).chars().all(|c| c.is_ascii_digit() || c == 'm')
    };
    let mut out = String::new();
    // Newer versions print the address in colour.
    let text = text.split('\u{1b}').enumerate();
    let text: String = text
        .map(|(at, part)| if at == 0 { part } else { part.split_once('m').map_or("", |(_, rest)| rest) })
        .collect();
    for line in text.lines() {
        // An object that does not exist yet has another time and UID in each run.
        if line.contains("creationTimestamp:") || line.contains(" uid:") || line.trim().is_empty() {
            continue;
        }
        // 1.27 words it differently.
        let line = line.strip_suffix("annotated").map_or(line.to_owned(), |rest| format!("{rest}annotate"));
        // kubectl cp sometimes ends before it has copied tar's messages; the copied files are compared.
        let skipped = [
            "tar: removing leading",
            "ersion",
            "If you don't see a command",
            "\"",
            "WARNING",
            "{",
            "}",
            "diff ",
            "+++",
            "---",
            "Warning: version",
        ];
        if line.starts_with("Unable") || skipped.iter().any(|word| line.trim_start().starts_with(word)) {
            continue;
        }
        // Other versions print more than 1.27, and some refuse a stream in other words.
        let line = line.replace(" from default namespace", "").replace(" out of: app", "");
        let line =
            line.replace("error: unable to upgrade connection: pods", "Error from server (Forbidden): pods");
        // First output of `debug -i` and `attach`.
        let line = line.split("All commands and output from").next().unwrap_or_default().to_owned();
        if line.trim().is_empty() {
            continue;
        }
        let words: Vec<&str> =
            line.split_whitespace().map(|word| if is_age(word) { "AGE" } else { word }).collect();
        let line = words.join(" ").replace(&served.port.to_string(), "PORT");
        out.push_str(&line.replace(&served.node.base.display().to_string(), "NODE"));
        out.push('\n');
    }
    out
}

/// The commands that a program has. Those of [`NEWER`] stand before the first delete of their objects.
fn commands(minor: u32) -> Vec<(&'static str, &'static str, &'static str)> {
    let at = SCRIPT.iter().position(|(_, line, _)| line.starts_with("delete pod quick")).unwrap();
    let newer = NEWER.iter().filter(|(since, ..)| *since <= minor);
    let newer = newer.map(|(_, user, line, input)| (*user, *line, *input)).collect();
    [SCRIPT[..at].to_vec(), newer, SCRIPT[at..].to_vec()].concat()
}

fn told(served: &Served, program: &PathBuf) -> String {
    let mut all = String::new();
    std::fs::write(served.node.base.join("note.txt"), "a note\n").unwrap();
    for (user, line, input) in commands(minor(program)) {
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut output = served.kubectl(program, user, &words, input);
        // Some versions read before they know their own streams, and throw away the first output (client-go,
        // tools/remotecommand/websocket.go: readDemuxLoop).
        for _ in 0..5 {
            if !String::from_utf8_lossy(&output.stderr).contains("discarding message") {
                break;
            }
            output = served.kubectl(program, user, &words, input);
        }
        let text =
            [String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)].concat();
        let code = output.status.code().unwrap_or(-1);
        all.push_str(&format!("$ {user}: {line}\n{}[{code}]\n", settled(&text, served)));
    }
    let back = std::fs::read_to_string(served.node.base.join("back.txt"));
    assert_eq!(back.unwrap_or_default(), "a note\nmore\n", "what {} cp brought", program.display());
    std::fs::remove_file(served.node.base.join("back.txt")).unwrap();
    all
}

#[test]
fn every_kubectl_is_told_the_same() {
    let programs = programs();
    if programs.is_empty() {
        println!("there is no kubectl in PATH: the API was not tried with it");
        return;
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/api/kubectl.txt");
    let served = Served::start(&[]);
    let web = Pod::new("web").grace(1).script("echo hello; trap exit TERM; while :; do sleep 1; done");
    served.node.write("web.yaml", web.set("/metadata/labels/app", "web").text());
    served.node.wait_running("web", "app");
    let mut wrong = Vec::new();
    for (at, program) in programs.iter().enumerate() {
        let told = told(&served, program);
        if at == 0 && std::env::var_os("UPDATE").is_some() {
            std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
            std::fs::write(&golden, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&golden).unwrap();
        // No output is expected of commands that a program does not have.
        let heads: Vec<&str> = told.split("\n$ ").filter_map(|part| part.lines().next()).collect();
        let is_asked = |part: &&str| part.lines().next().is_some_and(|head| heads.contains(&head));
        let expected = expected.split("\n$ ").filter(is_asked);
        for (is, shall) in told.split("\n$ ").zip(expected).filter(|(is, shall)| is.trim() != shall.trim()) {
            wrong.push(format!("{}:\n{is}\ninstead of:\n{shall}\n", program.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
