//! Golden manifests (with pinned identities and hashes), the corpus of bad files, and properties.

mod odd;
pub(crate) mod shape;
mod sizes;
mod verdicts;

use std::fmt::Write as _;
use std::path::{Path as FsPath, PathBuf};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn context(path: &str) -> Context<'_> {
    Context { node_name: "node1", source: Source::File, path }
}

fn read(text: &str) -> Decoded {
    decode(text.as_bytes(), &context("/m/t.yaml"))
}

fn errors(decoded: &Decoded) -> Vec<String> {
    let errors = decoded.problems.iter().filter(|p| p.severity == Severity::Error);
    errors.map(ToString::to_string).collect()
}

fn only_pod(text: &str) -> Arc<DesiredPod> {
    let decoded = read(text);
    assert_eq!(errors(&decoded), Vec::<String>::new(), "{text}");
    assert_eq!(decoded.pods.len(), 1, "{text}");
    decoded.pods[0].clone()
}

fn tests_dir() -> PathBuf {
    FsPath::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// Files of a folder by name, without golden ones.
fn files(folder: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(tests_dir().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if !name.ends_with(".golden") {
            files.push((name, std::fs::read(path).unwrap()));
        }
    }
    files.sort();
    files
}

fn golden(path: &FsPath, actual: &str) {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(actual, expected, "{} (UPDATE=1 rewrites it)", path.display());
}

fn print(decoded: &Decoded) -> String {
    let mut out = String::new();
    for problem in &decoded.problems {
        let severity = match problem.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(out, "{severity}: {problem}").unwrap();
    }
    for pod in &decoded.pods {
        writeln!(out, "pod: {} uid {} from {}", pod.key, pod.uid, pod.origin).unwrap();
        for (kind, container) in pod.containers() {
            let hash = hash::container_hash(&container.name, container.image.as_deref().unwrap_or_default());
            writeln!(out, "container: {} {kind:?} hash {hash:x}", container.name).unwrap();
        }
        let object = json!({ "metadata": pod.metadata, "spec": *pod.spec, "status": pod.status });
        writeln!(out, "{object:#}").unwrap();
    }
    for object in &decoded.objects {
        let immutable = if object.immutable { " immutable" } else { "" };
        writeln!(out, "object: {}{immutable} from {}", object.key, object.origin).unwrap();
        writeln!(out, "{:?}", object.content).unwrap();
    }
    out
}

/// Manifests to pods, problems, identities and hashes. A changed UID or hash in these files is an
/// upgrade that restarts every container (kubernetes/kubernetes#63814).
#[test]
fn k63814_pods_identities_and_hashes_are_pinned() {
    let manifests = files("golden/manifest");
    assert!(manifests.len() >= 30, "{}", manifests.len());
    for (name, bytes) in manifests {
        let decoded = decode(&bytes, &context(&format!("/etc/podkeeper/manifests/{name}")));
        assert!(decoded.is_good(), "{name}: {:?}", errors(&decoded));
        golden(&tests_dir().join("golden/manifest").join(format!("{name}.golden")), &print(&decoded));
    }
}

/// Each bad file gives an error that names file and place, and no pod.
#[test]
fn bad_files_give_clear_errors() {
    let corpus = files("corpus/bad");
    assert!(corpus.len() >= 60, "{}", corpus.len());
    let mut all = String::new();
    for (name, bytes) in corpus {
        let decoded = decode(&bytes, &context(&name));
        assert!(!decoded.is_good(), "{name} is taken");
        assert!(decoded.pods.is_empty() && decoded.objects.is_empty(), "{name}");
        for problem in &decoded.problems {
            assert!(problem.at.is_some_and(|(line, column)| line > 0 && column > 0), "{problem}");
            assert!(problem.to_string().starts_with(&format!("{name}:")), "{problem}");
        }
        writeln!(all, "# {name}").unwrap();
        all.push_str(&print(&decoded));
    }
    assert!(!all.contains("hunter2"), "a Secret's value is repeated");
    golden(&tests_dir().join("corpus/bad.golden"), &all);
}

/// No problem of a Secret repeats one of its values, for any kind of problem.
#[test]
fn k12396_no_problem_repeats_a_secret() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  user: root\n  password: ";
    for value in [
        "!hunter2",
        "!hunter2 x",
        "!!int hunter2",
        "!!bool 'hunter2'",
        "!!binary hunter2",
        "*hunter2",
        "&hunter2 *hunter2",
        "@hunter2",
        "%hunter2",
        "`hunter2`",
        "\"hunter2",
        "'hunter2",
        "\"hunter2\\q\"",
        "\"hunter2\\xzz\"",
        "hunter2: x: y",
        "hunter2: 5",
        "{hunter2",
        "[hunter2",
        "[hunter2]",
        "{hunter2: 1}",
        "|hunter2",
        "|\n hunter2\n",
        ">9hunter2",
        "- hunter2",
        "? hunter2",
        "5.hunter2e1\n\tx: 1",
        "\thunter2: x",
        "hunter2\0",
        "hunter2\n---\nhunter2",
        "hunter2\n  password: hunter2",
        "hunter2\nspec: hunter2",
        "hunter2\ntype: [hunter2]",
        "hunter2\ntype: kubernetes.io/tls",
        "hunter2\nimmutable: hunter2",
        "hunter2\ndata: hunter2",
        "hunter2\ndata: {a: hunter2!}",
        "hunter2\ndata: {.dockerconfigjson: aHVudGVyMg==}\ntype: kubernetes.io/dockerconfigjson",
    ] {
        let decoded = read(&format!("{secret}{value}\n"));
        for problem in &decoded.problems {
            assert!(!format!("{problem:?}").contains("hunter2"), "{value:?}: {problem}");
        }
    }
    // Numbers and booleans are not strings, and are not repeated, either.
    for value in ["31337.25", "31337", "0x7a69"] {
        let decoded = read(&format!("{secret}{value}\n"));
        assert_eq!(
            errors(&decoded),
            [
                "/m/t.yaml:7:3: Secret default/s: stringData[password]: must be a string, not a number; write it in quotes"
            ]
        );
    }
}

#[test]
fn a_file_past_the_size_limit_is_refused() {
    let bytes = vec![b'a'; 10 * 1024 * 1024];
    let expected = "t.yaml: the file has 10485760 bytes; at most 1048576 are read";
    assert_eq!(errors(&decode(&bytes, &context("t.yaml"))), [expected]);
}

const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  containers:\n  - name: main\n    image: busybox:1.36\n    command: [sh, -c, 'sleep 1']\n    env:\n    - name: A\n      value: \"1\"\n    ports:\n    - containerPort: 80\n";

/// A partly written file never means that no pods are wanted (kontena/pharos-cluster#252).
#[test]
fn k252_half_written_file_is_no_empty_wish() {
    for end in 0..=POD.len() {
        let decoded = read(&POD[..end]);
        assert!(!decoded.is_good() || decoded.pods.len() == 1, "{:?}", &POD[..end]);
    }
    for text in ["", "\n", "# nothing\n", "---\n", "---\n---\n...\n", "null\n"] {
        assert_eq!(errors(&read(text)), ["/m/t.yaml:1:1: no object in the file"], "{text:?}");
    }
}

#[test]
fn an_empty_list_is_the_wish_for_nothing() {
    for kind in ["PodList", "List"] {
        let decoded = read(&format!("apiVersion: v1\nkind: {kind}\nitems: []\n"));
        assert!(decoded.is_good() && decoded.pods.is_empty(), "{kind}");
    }
}

/// The UID depends on the data, the node and the place; not on the spelling of the data or on defaults
/// (kubernetes/kubernetes#63814).
#[test]
fn k63814_uid_follows_the_data_and_the_place() {
    let uid = only_pod(POD).uid.clone();
    let json = yaml::documents(POD).unwrap()[0].to_value().to_string();
    let same = [
        POD.replace("kind: Pod\n", "# a comment\nkind:   Pod\n"),
        POD.replace("apiVersion: v1\nkind: Pod\n", "kind: Pod\napiVersion: v1\n"),
        POD.replace('\n', "\r\n"),
        format!("\u{feff}{POD}"),
        format!("---\n{POD}---\n"),
        POD.replace("{app: web}", "\n    \"app\": 'web'"),
        json,
    ];
    for text in same {
        assert_eq!(only_pod(&text).uid, uid, "{text}");
    }
    let other = only_pod(&POD.replace("busybox:1.36", "busybox:1.37")).uid.clone();
    assert_ne!(other, uid);
    for context in [
        Context { node_name: "node2", ..context("/m/t.yaml") },
        context("/m/u.yaml"),
        Context { source: Source::Http, ..context("/m/t.yaml") },
    ] {
        assert_ne!(decode(POD.as_bytes(), &context).pods[0].uid, uid, "{context:?}");
    }
}

#[test]
fn http_uid_has_no_node_and_no_toleration() {
    let of = |node| {
        let context = Context { node_name: node, source: Source::Http, path: "http://h/p" };
        decode(POD.as_bytes(), &context).pods[0].clone()
    };
    assert_eq!(of("a").uid, of("b").uid);
    assert_eq!(of("a").spec.tolerations, None);
    assert_eq!(of("a").key.name, "web-a");
}

#[test]
fn static_pod_rules() {
    let pod = only_pod(POD);
    assert_eq!(pod.key.to_string(), "default/web-node1");
    assert_eq!(pod.uid.len(), 32);
    let annotations = pod.metadata.annotations.clone().unwrap();
    assert_eq!(annotations[static_pod::CONFIG_HASH], pod.uid);
    assert_eq!(annotations[static_pod::CONFIG_SOURCE], "file");
    assert_eq!(pod.spec.node_name.as_deref(), Some("node1"));
    assert_eq!(pod.status.phase.as_deref(), Some("Pending"));
    let tolerations = "  tolerations:\n  - {operator: Exists, effect: NoExecute, tolerationSeconds: 5}\n  - {key: a, operator: Exists}\n";
    let tolerations = only_pod(&format!("{POD}{tolerations}")).spec.tolerations.clone().unwrap();
    assert_eq!(
        json!(tolerations),
        json!([{"key": "a", "operator": "Exists"}, {"operator": "Exists", "effect": "NoExecute"}])
    );
    let fixed = only_pod(&POD.replace("  name: web\n", "  name: web\n  uid: my-uid\n  namespace: prod\n"));
    assert_eq!((fixed.uid.as_str(), fixed.key.namespace.as_str()), ("my-uid", "prod"));
}

/// Another node's name stays, so that admission refuses the pod.
#[test]
fn the_name_of_another_node_is_kept() {
    let pod = only_pod(&POD.replace("spec:\n", "spec:\n  nodeName: other\n"));
    assert_eq!(pod.spec.node_name.as_deref(), Some("other"));
}

#[test]
fn a_long_name_fails_with_the_suffix_counted() {
    let name = |length: usize| read(&POD.replace("name: web\n", &format!("name: {}\n", "a".repeat(length))));
    assert!(name(247).is_good());
    let errors = errors(&name(248));
    assert!(errors.len() == 1 && errors[0].ends_with("must be no more than 253 bytes"), "{errors:?}");
}

/// Aliases and merge keys work within the budgets, and JSON may be indented with tabs.
#[test]
fn ways_of_writing() {
    let alias = "apiVersion: v1\nkind: Pod\nmetadata: {name: &n web}\nspec:\n  containers:\n  - &base\n    name: *n\n    image: busybox\n  - <<: *base\n    name: two\n";
    let pod = only_pod(alias);
    assert_eq!(pod.spec.containers[1].image.as_deref(), Some("busybox"));
    assert_eq!(pod.spec.containers[1].name, "two");
    let tabs = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"a\\u002d\\/b\"},\n\t\"spec\": {}\n}\n";
    let found = errors(&read(tabs));
    assert!(found.iter().any(|e| e.contains("a-/b-node1")), "{found:?}");
}

#[test]
fn annotations_of_bandwidth_are_said_to_do_nothing() {
    for of in ["ingress", "egress"] {
        let note = format!("metadata:\n  annotations: {{kubernetes.io/{of}-bandwidth: 10M}}\n");
        let decoded = read(&POD.replacen("metadata:\n", &note, 1));
        assert!(decoded.is_good(), "{:?}", decoded.problems);
        let told: Vec<String> = decoded.problems.iter().map(ToString::to_string).collect();
        let of_it = |line: &&String| line.contains(of) && line.contains("is ignored: traffic is not limited");
        assert_eq!(told.iter().filter(of_it).count(), 1, "{told:?}");
    }
}

/// Many warnings do not hide an error.
#[test]
fn warnings_do_not_hide_errors() {
    let mut text = POD.replace("kind: Pod\n", "kind: Pod\nzzz: 1\n");
    for i in 0..200 {
        text.push_str(&format!("  x{i}: 1\n"));
    }
    text.push_str("  restartPolicy: Sometimes\n");
    let decoded = read(&text);
    assert!(!decoded.is_good() && decoded.pods.is_empty());
    let (last, shown) = decoded.problems.split_last().unwrap();
    assert_eq!(shown.len(), limits::PROBLEMS_PER_FILE);
    assert_eq!(last.message, "no more than 50 problems of one file are shown");
}

/// One million items from one line of text.
#[test]
fn alias_bombs_are_cheap() {
    let mut text = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n".to_owned();
    for i in 1..8 {
        let before = format!("*a{},", i - 1).repeat(10);
        text.push_str(&format!("a{i}: &a{i} [{before}]\n"));
    }
    let found = errors(&read(&text));
    assert!(found.len() == 1 && found[0].contains("too much data in one file"), "{found:?}");
}

proptest! {
    #[test]
    fn decode_survives_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let decoded = decode(&bytes, &context("t"));
        prop_assert_eq!(&decoded, &decode(&bytes, &context("t")));
        prop_assert!(decoded.is_good() || decoded.pods.is_empty());
    }

    #[test]
    fn decode_survives_yaml_like_text(text in "[-\\[\\]{}:,&*!|>'\"%@`#?<a0 \n\t]{0,80}") {
        let decoded = read(&text);
        prop_assert!(!decoded.is_good() || !decoded.pods.is_empty(), "{:?}", text);
    }

    #[test]
    fn decode_survives_mutated_manifests(
        which in any::<prop::sample::Index>(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..3), 1..6),
    ) {
        let all = files("golden/manifest");
        let mut bytes = which.get(&all).1.clone();
        for (place, byte, how) in edits {
            let at = place.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let decoded = decode(&bytes, &context("t"));
        prop_assert_eq!(&decoded, &decode(&bytes, &context("t")));
        prop_assert!(decoded.is_good() || decoded.pods.is_empty());
        for problem in &decoded.problems {
            prop_assert!(problem.at.is_some(), "{}", problem);
        }
    }
}

#[test]
fn sizes_are_no_part_of_a_pods_shape() {
    let shape = |spec: &str| {
        let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {spec}}}");
        let context = Context { node_name: "n", source: Source::File, path: "/m/p.yaml" };
        let decoded = decode(text.as_bytes(), &context);
        let pod = decoded.pods.first().unwrap_or_else(|| panic!("{spec}: {:?}", decoded.problems)).clone();
        (pod.shape.clone().unwrap(), pod.uid.clone())
    };
    let spec = |image: &str, resources: &str| {
        shape(&format!("{{containers: [{{name: a, image: {image}, resources: {resources}}}]}}"))
    };
    let base = spec("i:1", "{requests: {cpu: 1}, limits: {memory: 64Mi}}");
    for same in [
        "{requests: {cpu: 2}, limits: {memory: 64Mi}}",
        "{requests: {cpu: 1}, limits: {memory: 1Gi}}",
        "{requests: {cpu: 1, memory: 1Mi}, limits: {memory: 64Mi}}",
        "{limits: {memory: 64Mi}}",
    ] {
        let other = spec("i:1", same);
        assert_eq!(other.0, base.0, "{same}");
        assert_ne!(other.1, base.1, "the UID of a new pod follows all that is written: {same}");
    }
    for (image, other) in [
        ("i:2", "{requests: {cpu: 1}, limits: {memory: 64Mi}}"),
        // A limit is added, another resource changes, and the class of service changes.
        ("i:1", "{requests: {cpu: 1}, limits: {cpu: 2, memory: 64Mi}}"),
        ("i:1", "{requests: {cpu: 1}, limits: {memory: 64Mi, ephemeral-storage: 1Gi}}"),
        ("i:1", "{requests: {cpu: 1}}"),
        ("i:1", "{}"),
    ] {
        assert_ne!(spec(image, other).0, base.0, "{other}");
    }
    let init = |policy: &str, cpu: u32| {
        shape(&format!(
            "{{initContainers: [{{name: i, image: i{policy}, resources: {{requests: {{cpu: {cpu}}}}}}}], \
             containers: [{{name: a, image: i}}]}}"
        ))
    };
    assert_ne!(init("", 1).0, init("", 2).0);
    assert_eq!(init(", restartPolicy: Always", 1).0, init(", restartPolicy: Always", 2).0);
}
