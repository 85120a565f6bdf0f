//! `get sources`: where pods come from, and how that goes.

use serde_json::{Value, json};

use super::get::four_spaces;
use super::table::List;
use super::{human, yaml};
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::logging::one_line;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, print, say};
use crate::status::snapshot::{SourceView, StatusFile};

/// Lists the sources.
pub fn run(options: &Options) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    if status.file.sources.is_empty() && matches!(options.command.output, Output::Table | Output::Wide) {
        say("No sources: the daemon was started without one");
    }
    Ok(print(&render(options, &status.file, System::start().now().wall)))
}

/// What goes to standard output.
fn render(options: &Options, file: &StatusFile, now: Timestamp) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let rows = file.sources.iter().map(|source| cells(source, wide, now)).collect();
            let headings = (!options.command.no_headers).then(|| headings(wide));
            List::default().render(headings, rows)
        }
        Output::Name => file.sources.iter().map(|source| format!("source/{}\n", source.name)).collect(),
        Output::Json => format!("{}\n", four_spaces(&object(file))),
        Output::Yaml => yaml::emit(&object(file)),
    }
}

fn object(file: &StatusFile) -> Value {
    let item = |source: &SourceView| {
        // Plain data: nothing in it that JSON could not hold.
        let mut item = serde_json::to_value(source).unwrap_or_default();
        if let Some(fields) = item.as_object_mut() {
            fields.insert("state".to_owned(), state(source).into());
        }
        item
    };
    let items: Vec<Value> = file.sources.iter().map(item).collect();
    json!({"apiVersion": file.api_version, "kind": "SourceList", "items": items})
}

fn headings(wide: bool) -> Vec<String> {
    let narrow = ["NAME", "STATE", "LAST SUCCESS", "AGE", "PODS", "OBJECTS", "PROBLEM"];
    let more: &[&str] = if wide { &["LOCATION"] } else { &[] };
    narrow.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// How a source is doing, in one word.
fn state(source: &SourceView) -> &'static str {
    match (&source.problem, source.ready, source.restored) {
        (Some(_), ..) => "Failing",
        (None, true, _) if source.degraded.is_some() => "Degraded",
        (None, true, _) => "Ready",
        (None, false, true) => "Restored",
        (None, false, false) => "Waiting",
    }
}

fn cells(source: &SourceView, wide: bool, now: Timestamp) -> Vec<String> {
    let since = |then: Option<Timestamp>| match then {
        Some(then) => human::duration(now.as_second().saturating_sub(then.as_second())),
        None => "<unknown>".to_owned(),
    };
    let last = match (state(source), source.last_success) {
        ("Ready" | "Degraded", _) => "now".to_owned(),
        (_, None) => "never".to_owned(),
        (_, then) => format!("{} ago", since(then)),
    };
    let none = || "<none>".to_owned();
    let mut cells = vec![
        source.name.clone(),
        state(source).to_owned(),
        last,
        since(source.accepted),
        source.pods.to_string(),
        source.objects.to_string(),
        source.problem.as_deref().or(source.degraded.as_deref()).map_or_else(none, one_line),
    ];
    if wide {
        cells.push(one_line(&source.location));
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::parse::{Command, parse};

    const NOW: i64 = 1_795_000_000;

    fn at(ago: i64) -> Option<Timestamp> {
        Timestamp::from_second(NOW - ago).ok()
    }

    fn check(line: &str, name: &str) {
        let options = match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::GetSources(options)) => options,
            other => panic!("{line}: {other:?}"),
        };
        let file = SourceView {
            name: "file".into(),
            location: "/etc/podkeeper/manifests".into(),
            ready: true,
            restored: false,
            last_success: at(86_400),
            accepted: at(86_400),
            pods: 3,
            objects: 5,
            problem: None,
            degraded: None,
        };
        let http = SourceView {
            name: "http".into(),
            location: "https://example.com/pods".into(),
            ready: false,
            restored: true,
            last_success: None,
            accepted: None,
            pods: 2,
            objects: 0,
            problem: Some("https://example.com/pods: no answer\nwithin 10 s".into()),
            degraded: None,
        };
        let failing = SourceView { ready: true, last_success: at(300), accepted: at(9000), ..http.clone() };
        let quiet = SourceView { problem: None, ..http.clone() };
        let new = SourceView { restored: false, pods: 0, ..quiet.clone() };
        let degraded = Some("/etc/podkeeper/manifests/x.yaml: is empty (and 2 more)".to_owned());
        let degraded = SourceView { degraded, ..file.clone() };
        let mut status = pods::tests::node().file;
        status.sources = vec![file, http, failing, quiet, new, degraded];
        let text = render(&options, &status, Timestamp::from_second(NOW).unwrap());
        crate::base::testing::golden(&format!("cli/{name}.txt"), &text);
    }

    #[test]
    fn sources_in_every_state() {
        check("get sources", "sources");
        check("get source -o wide", "sources-wide");
        check("get sources -o name", "sources-name");
        check("get sources -o json", "sources-json");
        check("get sources -o yaml", "sources-yaml");
        check("get sources --no-headers", "sources-no-headers");
    }
}
