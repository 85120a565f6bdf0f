//! `explain`: the meaning of a pod's field and podkeeper's support of it, offline, in kubectl's form. Meanings are from
//! `manifest::fields`, support from `manifest::support`. Pure but for the printing.

use std::fmt::Write as _;

use crate::cli::flags::Options;
use crate::cli::nearest::nearest;
use crate::cli::{Outcome, print};
use crate::manifest::fields::{Field, of as fields};
use crate::manifest::support::{self, Support};

/// Prints one field.
pub fn run(options: &Options, path: &str) -> Outcome {
    explain(path, options.command.recursive).map(|text| print(&text))
}

/// The page of one field: `pod.spec.containers.env`; list marks are optional.
fn explain(path: &str, recursive: bool) -> Result<String, String> {
    let mut words = path.split('.').map(|word| word.trim_end_matches("[*]").trim_end_matches("[]"));
    match words.next() {
        Some("pod" | "pods" | "po") => {}
        _ => return Err(format!("{path:?} does not begin with a kind that podkeeper explains: pod")),
    }
    let mut at = Field { name: "", kind: "Pod", meaning: "Containers that live together on one node." };
    let mut row = String::new();
    for word in words.filter(|word| !word.is_empty()) {
        if at.kind == "map[string]string" || at.kind == "map[string]Quantity" {
            return Err(format!("field {word:?} does not exist: the keys of {} are free", at.name));
        }
        let next = fields(at.kind).find(|field| field.name == word);
        row = below(&row, at.kind, word);
        at = next.ok_or_else(|| {
            let near = nearest(word, fields(at.kind).map(|field| field.name));
            let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            format!("field {word:?} does not exist{near}")
        })?;
    }
    let mut out = "KIND:       Pod\nVERSION:    v1\n\n".to_owned();
    if !at.name.is_empty() {
        _ = writeln!(out, "FIELD: {} <{}>\n", at.name, at.kind);
        _ = writeln!(out, "SUPPORT:\n    {}\n", support_of(&row));
    }
    out.push_str("DESCRIPTION:\n");
    wrapped(&mut out, 4, at.meaning);
    if at.kind.starts_with("map[") {
        keys(&mut out, &row);
    }
    let mut first = true;
    let mut list = |out: &mut String| {
        if std::mem::take(&mut first) {
            out.push_str("\nFIELDS:\n");
        }
    };
    for field in fields(at.kind) {
        list(&mut out);
        let own = below(&row, at.kind, field.name);
        if recursive {
            tree(&mut out, 2, field, &own, 0);
            continue;
        }
        _ = writeln!(out, "  {}\t<{}>{}", field.name, field.kind, mark(&own));
        wrapped(&mut out, 4, field.meaning);
        out.push('\n');
    }
    Ok(out)
}

/// The known keys of a map. `*` stands for all further keys, or for all that begin so.
fn keys(out: &mut String, row: &str) {
    let mut heading = "\nKEYS:\n";
    for (key, support) in support::keys(row) {
        out.push_str(std::mem::take(&mut heading));
        _ = writeln!(out, "  {key}{}", marked(Some(support)));
        if let Support::Ignored(why) | Support::Refused(why) = support {
            wrapped(out, 4, why);
        }
    }
}

/// A field and those below it; the depth of a pod's fields is bounded.
fn tree(out: &mut String, indent: usize, field: Field, row: &str, depth: usize) {
    _ = writeln!(out, "{:indent$}{}\t<{}>{}", "", field.name, field.kind, mark(row));
    if depth > 12 || !matches!(decided(row), None | Some(Support::Supported)) {
        return;
    }
    for part in fields(field.kind) {
        tree(out, indent.saturating_add(2), part, &below(row, field.kind, part.name), depth + 1);
    }
}

/// The path of a field in `support`. Init containers share the rows of containers.
fn below(row: &str, kind: &str, name: &str) -> String {
    let name = if row == "spec" && name == "initContainers" { "containers" } else { name };
    match (row, kind.starts_with("[]")) {
        ("", _) => name.to_owned(),
        (_, true) => format!("{row}[*].{name}"),
        (_, false) => format!("{row}.{name}"),
    }
}

/// The support of a field: that of the first unsupported part of its path, or its own.
fn decided(row: &str) -> Option<Support> {
    let ends = row.match_indices('.').map(|(at, _)| at).chain([row.len()]);
    let rows = ends.filter_map(|end| support::row(row.get(..end)?.trim_end_matches("[*]")));
    let mut last = None;
    for row in rows {
        last = Some(row.support);
        if row.support != Support::Supported {
            break;
        }
    }
    last
}

fn support_of(row: &str) -> String {
    match decided(row) {
        Some(Support::Ignored(why)) => format!("ignored: {why}"),
        Some(Support::Refused(why)) => format!("refused, the pod is not started: {why}"),
        Some(Support::Supported) | None => "supported".to_owned(),
    }
}

/// The mark behind the name of an unsupported field.
fn mark(row: &str) -> &'static str {
    marked(decided(row))
}

fn marked(support: Option<Support>) -> &'static str {
    match support {
        Some(Support::Ignored(_)) => " -ignored-",
        Some(Support::Refused(_)) => " -refused-",
        Some(Support::Supported) | None => "",
    }
}

/// Adds text in lines of at most 76 characters behind the indent.
fn wrapped(out: &mut String, indent: usize, text: &str) {
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length <= 76 {
            out.push(' ');
            width += 1 + length;
            out.push_str(word);
            continue;
        }
        if width > 0 {
            out.push('\n');
        }
        out.push_str(&" ".repeat(indent));
        out.push_str(word);
        width = length;
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use crate::manifest::fields::TYPES;
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::tests::shape;

    /// Every described type has exactly the API's fields, with their types; and every field that podkeeper supports is
    /// described.
    #[test]
    fn the_meanings_are_those_of_the_api() {
        let shapes = shape::of_pod();
        let mut types: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
        for shape in &shapes {
            types.entry(shape.owner).or_default().insert(shape.name, &shape.kind);
        }
        let told = TYPES.text().lines().filter_map(|line| line.strip_prefix("= "));
        for name in told.filter(|name| *name != "Pod") {
            let told: BTreeMap<&str, &str> = fields(name).map(|f| (f.name, f.kind)).collect();
            assert_eq!(Some(&told), types.get(name), "{name}");
        }
        let mut silent: Vec<String> = Vec::new();
        for shape in &shapes {
            let row = shape::as_row(&shape.path);
            let supported = matches!(decided(&row), Some(Support::Supported));
            let is_silent = supported
                && !shape.path.starts_with("status")
                && !fields(shape.owner).any(|f| f.name == shape.name);
            if is_silent {
                silent.push(format!("{} {} {}", shape.owner, shape.name, shape.kind));
            }
        }
        silent.sort();
        silent.dedup();
        assert!(silent.is_empty(), "not told of:\n{}", silent.join("\n"));
    }

    #[test]
    fn each_meaning_is_a_sentence() {
        for line in TYPES.text().lines().filter(|line| !line.starts_with("= ")) {
            assert!(line.ends_with('.') && line.split(' ').count() >= 3, "{line}");
        }
    }

    #[test]
    fn pages() {
        let mut all = String::new();
        for (path, recursive) in [
            ("pod", false),
            ("pod.spec.containers.livenessProbe", false),
            ("pod.spec.initContainers[*].env.valueFrom", false),
            ("pod.spec.affinity", false),
            ("pod.spec.affinity.nodeAffinity", true),
            ("pods.spec.dnsConfig", true),
            ("pod.spec.containers.resources.limits", false),
            ("pod.metadata.annotations", false),
        ] {
            _ = writeln!(all, "$ explain {path} {recursive}\n{}", explain(path, recursive).unwrap());
        }
        crate::base::testing::golden("cli/explain.txt", &all);
        for (path, why) in [
            (
                "deployment.spec",
                "\"deployment.spec\" does not begin with a kind that podkeeper explains: pod",
            ),
            ("pod.spec.nope", "field \"nope\" does not exist"),
            ("pod.metadata.labels.x", "field \"x\" does not exist: the keys of labels are free"),
        ] {
            assert_eq!(explain(path, false), Err(why.to_owned()));
        }
        assert!(explain("pod", true).unwrap().lines().count() > 300);
    }
}
