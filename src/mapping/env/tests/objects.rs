//! Variables from ConfigMaps and Secrets.

use super::*;
use crate::plan::testing;
use crate::pod::object::testing::{config_map, decoded, secret, snapshot};

fn objects() -> Arc<Objects> {
    snapshot(
        &[
            config_map("c", "{color: blue, size: '7', a.b-c: dotted, 1st: one, empty: ''}"),
            secret("s", "{password: 'p=a\"s$(color)', color: red}"),
            "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: odd}, binaryData: {bin: YWI=},\n\
             data: {nul: \"a\\0b\"}}\n"
                .to_owned(),
            "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: bin}, binaryData: {k: YWI=}}\n"
                .to_owned(),
            "---\n{apiVersion: v1, kind: Secret, metadata: {name: odd}, data: {latin: 6Q==}}\n".to_owned(),
            "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: far, namespace: other}, data: {k: v}}\n"
                .to_owned(),
        ]
        .concat(),
    )
}

/// The environment of a container with these fields, or the reason why it waits.
fn env(fields: &str) -> Result<Vec<String>, String> {
    let pod = testing::pod(&format!("{{containers: [{{name: app, {fields}}}]}}"));
    expand(&pod.spec.containers[0], "default", &objects(), None).map(|expanded| {
        let words = expanded.command.into_iter().chain(expanded.args).flatten().map(|w| format!("> {w}"));
        expanded.env.into_iter().chain(words).collect()
    })
}

fn check(fields: &str, expected: &[&str]) {
    assert_eq!(env(fields), Ok(expected.iter().map(|e| (*e).to_owned()).collect()), "{fields}");
}

fn waits(fields: &str, why: &str) {
    assert_eq!(env(fields), Err(why.to_owned()), "{fields}");
}

const COLOR: &str = "{name: COLOR, valueFrom: {configMapKeyRef: {name: c, key: color}}}";

#[test]
fn single_keys() {
    check(&format!("env: [{COLOR}]"), &["COLOR=blue"]);
    check("env: [{name: P, valueFrom: {secretKeyRef: {name: s, key: password}}}]", &["P=p=a\"s$(color)"]);
    check("env: [{name: E, valueFrom: {configMapKeyRef: {name: c, key: empty}}}]", &["E="]);
}

#[test]
fn whole_objects_come_first_and_later_ones_win() {
    check(
        &format!(
            "envFrom: [{{configMapRef: {{name: c}}}}, {{secretRef: {{name: s}}}}],
             env: [{COLOR}, {{name: size, value: '8'}}, {{name: size, value: $(size)$(COLOR)}}]"
        ),
        &[
            "1st=one",
            "a.b-c=dotted",
            "color=red",
            "empty=",
            "size=8blue",
            "password=p=a\"s$(color)",
            "COLOR=blue",
        ],
    );
    check(
        "envFrom: [{prefix: X_, configMapRef: {name: c}}]",
        &["X_1st=one", "X_a.b-c=dotted", "X_color=blue", "X_empty=", "X_size=7"],
    );
    // Only `data` of a ConfigMap becomes variables.
    check("envFrom: [{configMapRef: {name: bin}}]", &[]);
}

#[test]
fn references_see_what_was_looked_up_and_values_are_not_expanded_again() {
    check(
        &format!(
            "envFrom: [{{prefix: S_, secretRef: {{name: s}}}}],
             env: [{{name: EARLY, value: $(COLOR)}}, {COLOR}, {{name: URL, value: x://$(S_password)@$(COLOR)}}],
             command: [sh, $(S_color)], args: [$(a.b-c), $(URL)]"
        ),
        &[
            "S_color=red",
            "S_password=p=a\"s$(color)",
            "EARLY=$(COLOR)",
            "COLOR=blue",
            "URL=x://p=a\"s$(color)@blue",
            "> sh",
            "> red",
            "> $(a.b-c)",
            "> x://p=a\"s$(color)@blue",
        ],
    );
}

/// Podman ignored `optional` in some places, and used an empty value for a missing key.
#[test]
fn k9842_optional_and_missing() {
    let key = |kind: &str, name: &str, key: &str, optional: bool| {
        format!(
            "env: [{{name: V, value: old}}, {{name: V, valueFrom: {{{kind}KeyRef: {{name: {name}, key: {key}, optional: {optional}}}}}}}]"
        )
    };
    let all = |kind: &str, optional: bool| {
        format!(
            "envFrom: [{{{kind}Ref: {{name: none, optional: {optional}}}}}], env: [{{name: V, value: x}}]"
        )
    };
    waits(&key("configMap", "none", "k", false), "configmap \"none\" not found");
    waits(&key("secret", "none", "k", false), "secret \"none\" not found");
    waits(&key("configMap", "c", "none", false), "couldn't find key none in ConfigMap default/c");
    waits(&key("secret", "s", "none", false), "couldn't find key none in Secret default/s");
    waits(&all("configMap", false), "configmap \"none\" not found");
    waits(&all("secret", false), "secret \"none\" not found");
    for kind in ["configMap", "secret"] {
        // A skipped variable leaves an earlier one of its name as it is.
        check(&key(kind, "none", "k", true), &["V=old"]);
        check(&key(kind, if kind == "secret" { "s" } else { "c" }, "none", true), &["V=old"]);
        check(&all(kind, true), &["V=x"]);
    }
    waits(&key("configMap", "far", "k", false), "configmap \"far\" not found");
    waits(&key("configMap", "odd", "bin", false), "couldn't find key bin in ConfigMap default/odd");
    waits(
        "env: [{name: V, valueFrom: {configMapKeyRef: {name: s, key: color}}}]",
        "configmap \"s\" not found",
    );
}

#[test]
fn what_cannot_be_a_variable_is_not_printed() {
    let unfit = |kind: &str, key: &str, optional: bool| {
        format!(
            "env: [{{name: V, valueFrom: {{{kind}KeyRef: {{name: odd, key: {key}, optional: {optional}}}}}}}]"
        )
    };
    for optional in [false, true] {
        waits(
            &unfit("secret", "latin", optional),
            "key latin in Secret default/odd cannot be an environment variable: it is not UTF-8",
        );
        waits(
            &unfit("configMap", "nul", optional),
            "key nul in ConfigMap default/odd cannot be an environment variable: it holds a NUL byte",
        );
    }
    waits(
        "envFrom: [{secretRef: {name: odd}}]",
        "key latin in Secret default/odd cannot be an environment variable: it is not UTF-8",
    );
}

#[test]
fn a_big_object_cannot_be_multiplied_without_bound() {
    let big = config_map("big", &format!("{{k: {}}}", "x".repeat(limits::ENVIRONMENT_BYTES / 16)));
    let objects: Objects = decoded("/m/a.yaml", &big).into_iter().map(|o| (o.key.clone(), o)).collect();
    let refs = |n: usize| -> String {
        (0..n).map(|i| format!("{{prefix: P{i}, configMapRef: {{name: big}}}},")).collect()
    };
    for (n, fits) in [(15, true), (16, false), (1000, false)] {
        let pod = testing::pod(&format!("{{containers: [{{name: app, envFrom: [{}]}}]}}", refs(n)));
        let expanded = expand(&pod.spec.containers[0], "default", &objects, None);
        assert_eq!(expanded.is_ok(), fits, "{n}");
    }
}
