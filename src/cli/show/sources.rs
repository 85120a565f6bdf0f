//! `get sources`: the sources of pods and their state; and the stored state of sources that the daemon was started
//! without. The latter is read below the root directory, because `forget` may remove it at any time.

use std::path::Path;

use crate::base::json::json;
use serde_json::Value;

use super::json;
use super::table::List;
use super::yaml;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::human::many;
use crate::base::logging::one_line;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, print, say};
use crate::pod::Source;
use crate::source::last_good::{directory, forget};
use crate::source::store;
use crate::status::snapshot::{SourceView, StatusFile};

/// Lists the sources.
pub fn run(options: &Options) -> Outcome {
    let status = pods::load(&options.directories.run)?;
    let is_table = matches!(options.command.output, Output::Table | Output::Wide);
    if status.file.sources.is_empty() && is_table {
        say("No sources: the daemon was started without one");
    }
    let left = unconfigured(&status.file);
    if let Some(template) = &options.command.template {
        let configured = status.file.sources.iter().map(|source| (source, state(source)));
        let all = configured.chain(left.iter().map(|source| (source, NOT_CONFIGURED)));
        return Ok(print(&template.print(&object(&status.file, all), options.command.no_headers)?));
    }
    Ok(print(&render(options, &status.file, &left, System::start().now().wall)))
}

/// The state of a source with stored content that the daemon was started without.
const NOT_CONFIGURED: &str = "NotConfigured";

/// The sources with stored content that the daemon was started without. A directory that cannot be read is reported and
/// left out.
fn unconfigured(file: &StatusFile) -> Vec<SourceView> {
    let root_dir = Path::new(&file.root_dir);
    // The file of an earlier version does not say where the root directory is.
    let known = !file.root_dir.is_empty();
    let stored = |source: Source| match source {
        Source::Api => store::directory(root_dir),
        _ => directory(root_dir, source),
    };
    let absent = |source: &Source| known && !file.sources.iter().any(|view| view.name == source.as_str());
    let view = |source: Source| {
        let place = stored(source);
        let left = forget::left(&place).unwrap_or_else(|error| {
            say(&format!("warning: {}: {error}: what is remembered there is not shown", place.display()));
            None
        })?;
        let what = match left.contents {
            0 => "versions that were seen".to_owned(),
            n => many(n, "content"),
        };
        let words = match source {
            Source::Api => format!(
                "podkeeper was started without --api-address and still has {what} of this source, without effect: with that \
                 flag the pods come back"
            ),
            _ => format!(
                "podkeeper was started without this source and still has {what} of it, without effect; podkeeper forget \
                 --source {source} takes that away"
            ),
        };
        Some(SourceView {
            name: source.to_string(),
            location: place.to_string_lossy().into_owned(),
            ready: false,
            restored: false,
            last_success: None,
            accepted: left.stored,
            pods: 0,
            objects: 0,
            problem: None,
            degraded: Some(words),
        })
    };
    Source::ALL.into_iter().filter(absent).filter_map(view).collect()
}

/// The text for standard output.
fn render(options: &Options, file: &StatusFile, left: &[SourceView], now: Timestamp) -> String {
    let configured = file.sources.iter().map(|source| (source, state(source)));
    let all = configured.chain(left.iter().map(|source| (source, NOT_CONFIGURED)));
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let rows = all.map(|(source, state)| cells(source, state, wide, now)).collect();
            let headings = (!options.command.no_headers).then(|| headings(wide));
            List::default().render(headings, rows)
        }
        Output::Name => all.map(|(source, _)| format!("source/{}\n", source.name)).collect(),
        Output::Json => format!("{}\n", json::emit(&object(file, all))),
        Output::Yaml => yaml::emit(&object(file, all)),
    }
}

fn object<'a>(file: &StatusFile, all: impl Iterator<Item = (&'a SourceView, &'static str)>) -> Value {
    let item = |(source, state): (&SourceView, &'static str)| {
        // Plain data that JSON can always hold.
        let mut item = serde_json::to_value(source).unwrap_or_default();
        if let Some(fields) = item.as_object_mut() {
            fields.insert("state".to_owned(), state.into());
        }
        item
    };
    let items: Vec<Value> = all.map(item).collect();
    json!({"apiVersion": file.api_version, "kind": "SourceList", "items": items})
}

fn headings(wide: bool) -> Vec<String> {
    let narrow = ["NAME", "STATE", "LAST SUCCESS", "AGE", "PODS", "OBJECTS", "PROBLEM"];
    let more: &[&str] = if wide { &["LOCATION"] } else { &[] };
    narrow.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

/// The state of a source, in one word.
fn state(source: &SourceView) -> &'static str {
    match (&source.problem, source.ready, source.restored) {
        (Some(_), ..) => "Failing",
        (None, true, _) if source.degraded.is_some() => "Degraded",
        (None, true, _) => "Ready",
        (None, false, true) => "Restored",
        (None, false, false) => "Waiting",
    }
}

fn cells(source: &SourceView, state: &str, wide: bool, now: Timestamp) -> Vec<String> {
    let since = |then: Option<Timestamp>| match then {
        Some(then) => human::duration(now.as_second().saturating_sub(then.as_second())),
        None => "<unknown>".to_owned(),
    };
    let last = match (state, source.last_success) {
        // The time of this command: what its daemon says is current.
        ("Ready" | "Degraded", Some(then)) if now.duration_since(then).as_secs() < 2 => "now".to_owned(),
        (_, None) => "never".to_owned(),
        (_, then) => format!("{} ago", since(then)),
    };
    let none = || "<none>".to_owned();
    let mut cells = vec![
        source.name.clone(),
        state.to_owned(),
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
            last_success: at(0),
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
        // Its daemon has ended.
        let old = SourceView { last_success: at(86_400), ..file.clone() };
        status.sources = vec![file, http, failing, quiet, new, degraded, old];
        let text = render(&options, &status, &[], Timestamp::from_second(NOW).unwrap());
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

    #[test]
    fn what_is_remembered_of_a_source_that_is_not_configured_is_shown() {
        let root = crate::base::testing::scratch("unconfigured");
        let (file_dir, http_dir) = (directory(&root, Source::File), directory(&root, Source::Http));
        let mut status = pods::tests::node().file;
        status.root_dir = root.to_string_lossy().into_owned();
        status.sources.retain(|source| source.name == "file");
        assert_eq!(status.sources.len(), 1);
        assert_eq!(unconfigured(&status), []);
        for dir in [&file_dir, &http_dir] {
            std::fs::create_dir_all(dir).unwrap();
            std::fs::write(dir.join("junk"), "").unwrap();
        }
        assert_eq!(unconfigured(&status), [], "nothing is in it");
        std::fs::write(http_dir.join("seen"), "").unwrap();
        let seen = unconfigured(&status);
        assert!(seen[0].degraded.as_ref().unwrap().contains("has versions that were seen of it"));
        let name = format!("{}-{}.good", "a".repeat(32), "b".repeat(16));
        assert!(crate::source::last_good::sealed::is_name(&name));
        for dir in [&file_dir, &http_dir] {
            std::fs::write(dir.join(&name), "").unwrap();
        }
        let left = unconfigured(&status);
        assert_eq!(left.len(), 1);
        let options =
            match parse(["get", "sources"].map(Into::into).into_iter(), &|_| Err("no file".to_owned())) {
                Ok(Command::GetSources(options)) => options,
                other => panic!("{other:?}"),
            };
        let text = render(&options, &status, &left, left[0].accepted.unwrap());
        let line = text.lines().find(|line| line.starts_with("http")).unwrap();
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(
            line,
            "http NotConfigured never 0s 0 0 podkeeper was started without this source and still has 1 content of \
             it, without effect; podkeeper forget --source http takes that away"
        );
        // The objects of the API are no remembered content, and are not forgotten.
        let api = store::directory(&root);
        std::fs::create_dir_all(&api).unwrap();
        std::fs::write(api.join(&name), "").unwrap();
        let left = unconfigured(&status);
        assert_eq!(
            (left.len(), left[1].name.as_str(), left[1].location.as_str()),
            (2, "api", api.to_str().unwrap())
        );
        assert_eq!(
            left[1].degraded.as_deref().unwrap(),
            "podkeeper was started without --api-address and still has 1 content of this source, without effect: with \
             that flag the pods come back"
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}
