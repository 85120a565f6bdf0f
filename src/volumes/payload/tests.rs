use super::*;
use crate::plan::testing;
use crate::pod::allocatable::Allocatable;
use crate::pod::object::testing::{config_map, secret, snapshot};

const OBJECTS: &str =
    "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {t: text}, binaryData: {bin: AP8=}}\n";

fn rendered(volume: &str) -> Result<String, String> {
    let mut pod = testing::pod(&format!(
        "{{containers: [{{name: a, resources: {{limits: {{cpu: 1500m}}}}}}], volumes: [{{name: v, {volume}}}]}}"
    ));
    pod.metadata.labels = Some([("l".to_owned(), "x\"y".to_owned())].into());
    let text = [config_map("c", "{k: v, l: w}"), secret("s", "{p: w}"), OBJECTS.to_owned()].concat();
    let allocatable = Allocatable { milli_cpu: 4000, memory: 1 << 30, ephemeral_storage: 0 };
    let facts = Facts { pod: &pod, node_name: "n", host_ips: &[], pod_ips: &[], allocatable: &allocatable };
    let volume = &pod.spec.volumes.as_ref().unwrap()[0];
    let objects = snapshot(&text);
    let files = render(Kind::of(volume), &facts, &objects)?;
    let Some(files) = files else { return Ok("not written".into()) };
    let words = |(path, file): (&String, &PayloadFile<'_>)| {
        let user = file.user.map(|user| format!(" {user}")).unwrap_or_default();
        format!("{path} {:o}{user} {}", file.mode, String::from_utf8_lossy(&file.data))
    };
    Ok(files.iter().map(words).collect::<Vec<_>>().join("; "))
}

#[test]
fn files_of_volumes() {
    let check = |volume: &str, expected: &str| {
        let found = rendered(volume).unwrap_or_else(|why| format!("error: {why}"));
        assert_eq!(found, expected, "{volume}");
    };
    check("emptyDir: {}", "not written");
    check("configMap: {name: c}", "k 644 v; l 644 w");
    check("configMap: {name: c, defaultMode: 256, items: []}", "k 400 v; l 400 w");
    check(
        "configMap: {name: c, defaultMode: 288, defaultUser: 7, items: [{key: l, path: d/../x}]}",
        "error: invalid path: must not contain '..': d/../x",
    );
    check("configMap: {name: c, items: [{key: l, path: ./d//x, mode: 365, user: 9}]}", "d/x 555 9 w");
    check(
        "configMap: {name: c, items: [{key: z, path: z}]}",
        "error: configmap references non-existent config key: z",
    );
    check("configMap: {name: c, optional: true, items: [{key: z, path: z}, {key: k, path: k}]}", "k 644 v");
    check("configMap: {name: missing}", "error: configmap \"missing\" not found");
    check("configMap: {name: missing, optional: true}", "");
    check("configMap: {name: b}", "bin 644 \0\u{fffd}; t 644 text");
    check("configMap: {name: b, items: [{key: bin, path: x}]}", "x 644 \0\u{fffd}");
    check("secret: {secretName: s}", "p 644 w");
    check(
        "secret: {secretName: s, items: [{key: z, path: z}]}",
        "error: references non-existent secret key: z",
    );
    check("secret: {secretName: missing}", "error: secret \"missing\" not found");
    check(
        "secret: {secretName: s, items: [{key: p, path: ..data}]}",
        "error: invalid path: must not start with '..': ..data",
    );
    check(
        "downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}, {path: c, mode: 256, resourceFieldRef: {containerName: a, resource: limits.cpu}}]}",
        "c 400 2; l 644 l=\"x\\\"y\"",
    );
    check(
        "downwardAPI: {items: [{path: l, fieldRef: {fieldPath: spec.x}}]}",
        "error: unsupported fieldPath: spec.x",
    );
    check(
        "projected: {defaultMode: 416, sources: [{configMap: {name: c, items: [{key: k, path: a}]}}, {secret: {name: s, items: [{key: p, path: d/p, mode: 256}]}}, {downwardAPI: {items: [{path: d/n, fieldRef: {fieldPath: metadata.name}}]}}]}",
        "a 640 v; d/n 640 web-node; d/p 400 w",
    );
    check(
        "projected: {sources: [{configMap: {name: c}}, {secret: {name: s, items: [{key: p, path: k}]}}]}",
        "k 644 w; l 644 w",
    );
    check(
        "projected: {sources: [{configMap: {name: c}}, {secret: {name: s, items: [{key: p, path: k/p}]}}]}",
        "error: invalid path: k/p is below the file k",
    );
}

#[test]
fn nothing_prints_a_value() {
    let file = PayloadFile { data: b"hunter2".into(), mode: 0o400, user: None };
    assert_eq!(format!("{file:?}"), "<7 bytes, 400>");
}
