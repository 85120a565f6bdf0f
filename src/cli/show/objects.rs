//! `get configmaps` and `get secrets`: the local objects in force, as kubectl lists them. Each source has its own: `-o
//! wide` shows the source.
//!
//! The values of a Secret are not here: the daemon does not publish them.

use serde_json::{Map, Value};

use super::json;
use super::table::List;
use super::yaml;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::logging::one_line;
use crate::base::order;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, fail, pods, print, say};
use crate::manifest::static_pod::CONFIG_SOURCE;
use crate::pod::object::ObjectKind;
use crate::status::local_objects;

/// Lists them.
pub fn run(options: &Options, kind: ObjectKind, names: &[String]) -> Outcome {
    let run_dir = &options.directories.run;
    pods::load(run_dir)?;
    let all = local_objects::read(run_dir)?;
    let (found, missing) = select(&all, options, kind, names);
    let mut exit = print(&match &options.command.template {
        Some(template) => template.print(&object(&found, names), options.command.no_headers)?,
        None => render(options, kind, &found, names, System::start().now().wall),
    });
    let is_list = !matches!(options.command.output, Output::Json | Output::Yaml);
    if found.is_empty() && missing.is_empty() && is_list {
        say(&pods::none_found(options));
    }
    for message in missing {
        exit = fail(&message);
    }
    Ok(exit)
}

fn at<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The objects that the user means, sorted by namespace, name and source, or in the order of the names; and messages
/// about names that do not exist.
fn select<'v>(
    all: &'v [Value],
    options: &Options,
    kind: ObjectKind,
    names: &[String],
) -> (Vec<&'v Value>, Vec<String>) {
    let command = &options.command;
    let is_meant = |object: &&Value| {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let label =
            |(key, value): (&String, &Value)| (key.clone(), value.as_str().unwrap_or_default().to_owned());
        let labels = labels.map(|labels| order::map(labels.iter().map(label)));
        at(object, "/kind") == kind.as_str()
            && (command.all_namespaces || at(object, "/metadata/namespace") == command.namespace)
            && command.selector.matches(labels.as_ref())
    };
    let mut found: Vec<&Value> = all.iter().filter(is_meant).collect();
    let name = |object: &Value| at(object, "/metadata/name").to_owned();
    order::sort_by_key(&mut found, |object| {
        (at(object, "/metadata/namespace").to_owned(), name(object), source(object).to_owned())
    });
    if names.is_empty() {
        return (found, Vec::new());
    }
    let of =
        |wanted: &String| found.iter().copied().filter(|object| name(object) == *wanted).collect::<Vec<_>>();
    let missing = names.iter().filter(|wanted| of(wanted).is_empty());
    let missing = missing.map(|name| format!("{}s {name:?} not found", kind.lower())).collect();
    (names.iter().flat_map(of).collect(), missing)
}

fn source(object: &Value) -> &str {
    let annotations = object.pointer("/metadata/annotations").and_then(|all| all.get(CONFIG_SOURCE));
    annotations.and_then(Value::as_str).unwrap_or_default()
}

/// The text for standard output.
fn render(options: &Options, kind: ObjectKind, found: &[&Value], names: &[String], now: Timestamp) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let namespaces = options.command.all_namespaces;
            let rows = found.iter().map(|object| cells(object, kind, wide, namespaces, now)).collect();
            let headings = (!options.command.no_headers).then(|| headings(kind, wide, namespaces));
            List::default().render(headings, rows)
        }
        Output::Name => {
            let line =
                |object: &&Value| format!("{}/{}\n", kind.lower(), one_line(at(object, "/metadata/name")));
            found.iter().map(line).collect()
        }
        Output::Json => format!("{}\n", json::emit(&object(found, names))),
        Output::Yaml => yaml::emit(&object(found, names)),
    }
}

fn headings(kind: ObjectKind, wide: bool, namespaces: bool) -> Vec<String> {
    let first: &[&str] = if namespaces { &["NAMESPACE"] } else { &[] };
    let columns: &[&str] =
        if kind == ObjectKind::Secret { &["NAME", "TYPE", "DATA", "AGE"] } else { &["NAME", "DATA", "AGE"] };
    let more: &[&str] = if wide { &["SOURCE"] } else { &[] };
    first.iter().chain(columns).chain(more).map(|word| (*word).to_owned()).collect()
}

fn cells(object: &Value, kind: ObjectKind, wide: bool, namespaces: bool, now: Timestamp) -> Vec<String> {
    let entries = |field: &str| object.get(field).and_then(Value::as_object).map_or(0, Map::len);
    let created = at(object, "/metadata/creationTimestamp").parse::<Timestamp>();
    let age = created.map(|then| human::duration(now.as_second().saturating_sub(then.as_second())));
    let mut cells = Vec::new();
    if namespaces {
        cells.push(at(object, "/metadata/namespace").to_owned());
    }
    cells.push(at(object, "/metadata/name").to_owned());
    if kind == ObjectKind::Secret {
        cells.push(at(object, "/type").to_owned());
    }
    cells.push(entries("data").saturating_add(entries("binaryData")).to_string());
    cells.push(age.unwrap_or_else(|_| "<unknown>".to_owned()));
    if wide {
        cells.push(source(object).to_owned());
    }
    cells
}

/// One object when one name was given, else a list.
fn object(found: &[&Value], names: &[String]) -> Value {
    json::objects(names, found.iter().copied().cloned().collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cli::parse::{Command, parse};
    use crate::pod::Source;
    use crate::pod::object::LocalObject;
    use crate::pod::object::testing::decoded;

    const OBJECTS: &str = r#"
{apiVersion: v1, kind: ConfigMap, metadata: {name: web, labels: {app: web}, creationTimestamp: "2026-01-01T04:00:00Z"},
 data: {a: "1", b: "two lines\n"}, binaryData: {c: AAEC}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: other, namespace: kube-system}, immutable: true}
---
{apiVersion: v1, kind: Secret, metadata: {name: pass}, stringData: {key: canary}}
---
{apiVersion: v1, kind: Secret, metadata: {name: tls}, type: kubernetes.io/basic-auth, stringData: {username: canary}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data},
 spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
"#;

    fn all() -> Vec<Value> {
        let mut scopes: crate::pod::object::Scopes = decoded("/m/objects.yaml", OBJECTS)
            .into_iter()
            .map(|object| ((Source::File, object.key.clone()), object))
            .collect();
        let of_http = scopes.values().find(|object| object.key.name == "web").cloned().unwrap();
        let key = (Source::Http, of_http.key.clone());
        scopes.insert(key, Arc::new(LocalObject { source: Source::Http, ..(*of_http).clone() }));
        // What podkeeper makes itself is not shown.
        for name in ["podkeeper-services-", "podkeeper:token:default:u-1-0"] {
            let key = crate::pod::object::ObjectKey { name: name.to_owned(), ..of_http.key.clone() };
            let made = LocalObject { key: key.clone(), ..(*of_http).clone() };
            scopes.insert((Source::Http, key), Arc::new(made));
        }
        let bytes = local_objects::render(&scopes, "2026-01-02T03:00:00Z");
        match serde_json::from_slice::<Value>(&bytes).unwrap()["items"].take() {
            Value::Array(items) => items,
            other => panic!("{other}"),
        }
    }

    fn show(line: &str) -> (String, Vec<String>) {
        let command = parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned()));
        let Ok(Command::GetObjects(options, kind, names)) = command else { panic!("{line}: {command:?}") };
        let all = all();
        let (found, missing) = select(&all, &options, kind, &names);
        (render(&options, kind, &found, &names, "2026-01-02T04:00:00Z".parse().unwrap()), missing)
    }

    #[test]
    fn lists_are_kubectls() {
        let check = |line: &str, name: &str| {
            let (text, missing) = show(line);
            assert_eq!(missing, [""; 0]);
            assert!(!text.contains("canary") && !text.contains("Y2FuYXJ5"), "{text}");
            crate::base::testing::golden(&format!("cli/{name}.txt"), &text);
        };
        check("get configmaps", "configmaps");
        check("get cm -A -o wide", "configmaps-all-wide");
        check("get configmap/other -n kube-system -o yaml", "configmap-yaml");
        check("get configmaps -o name -l app=web", "configmaps-name");
        check("get secrets", "secrets");
        check("get secrets -A --no-headers -o wide", "secrets-all-wide-no-headers");
        check("get secret pass -o json", "secret-json");
        check("get secrets -o yaml", "secrets-yaml");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let (text, missing) = show("get secrets pass nope");
        assert!(text.lines().count() == 2 && missing == ["secrets \"nope\" not found"], "{text}{missing:?}");
        let (text, missing) = show("get cm -l app=db");
        assert_eq!((text.as_str(), missing.len()), ("", 0));
    }
}
