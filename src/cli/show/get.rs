//! `get pods`: the pods of this node, as kubectl lists them. A pod that runs from an older version than its source
//! holds is marked `STALE`.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::json;
use super::table::List;
use super::watch::Watcher;
use super::yaml;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::logging::one_line;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, fail, pods, print, say};
use crate::status::columns::{Row, headings};
use crate::status::file::{self, Status};

/// Lists pods; with `--watch` goes on.
pub fn run(options: &Options, names: &[String]) -> Outcome {
    // Watching begins before the first read, so that no change is missed.
    let run_dir = &options.directories.run;
    let watcher = options.command.watch.then(|| Watcher::new(run_dir, file::NAME)).transpose()?;
    let status = pods::load(run_dir)?;
    let (found, missing) = pods::select(&status.file, options, names);
    let mut list = List::default();
    let text = match &options.command.template {
        Some(template) => template.print(&object(names, &status, &found), options.command.no_headers)?,
        None => render(options, names, &status, &found, &mut list, System::start().now().wall),
    };
    let mut exit = print(&text);
    if found.is_empty()
        && missing.is_empty()
        && !matches!(options.command.output, Output::Json | Output::Yaml)
    {
        say(&pods::nothing(&status.file, options));
    }
    for message in missing {
        exit = fail(&message);
    }
    if matches!(options.command.output, Output::Table | Output::Wide) {
        pods::failing(&status.file).iter().chain(&pods::errors(&status.file)).for_each(|line| say(line));
    }
    match watcher {
        Some(watcher) if exit == Exit::Ok => watcher.run(options, names, &status, list),
        _ => Ok(exit),
    }
}

/// The text for standard output.
fn render(
    options: &Options,
    names: &[String],
    status: &Status,
    found: &[usize],
    list: &mut List,
    now: Timestamp,
) -> String {
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let pods = found.iter().filter_map(|i| status.file.pods.get(*i));
            let namespaces = options.command.all_namespaces;
            let rows = pods.map(|pod| Row::of(pod).cells(wide, namespaces, now)).collect();
            list.render((!options.command.no_headers).then(|| headings(wide, namespaces)), rows)
        }
        Output::Name => {
            let pods = found.iter().filter_map(|i| status.file.pods.get(*i));
            let name = |pod: &Pod| one_line(pod.metadata.name.as_deref().unwrap_or_default());
            pods.map(|pod| format!("pod/{}\n", name(pod))).collect()
        }
        Output::Json => format!("{}\n", json::emit(&object(names, status, found))),
        Output::Yaml => yaml::emit(&object(names, status, found)),
    }
}

/// One pod when one name was given, else a list.
fn object(names: &[String], status: &Status, found: &[usize]) -> Value {
    let pods = found.iter().filter_map(|i| status.pods.get(*i));
    json::objects(names, pods.cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_gives_the_terminal_orders() {
        let (options, names) = pods::tests::options("get pods -A -o name");
        let mut status = pods::tests::node();
        status.file.pods[0].metadata.name = Some("esc\u{1b}[31m\nx".to_owned());
        let now = "2026-01-02T04:00:00Z".parse().unwrap();
        let text = render(&options, &names, &status, &[0], &mut List::default(), now);
        assert_eq!(text, "pod/esc\\u{1b}[31m\\nx\n");
    }

    #[test]
    fn k1425_lists_are_kubectls() {
        let check = |line: &str, name: &str| {
            let (options, names) = pods::tests::options(line);
            let status = pods::tests::node();
            let (found, _) = pods::select(&status.file, &options, &names);
            let now = "2026-01-02T04:00:00Z".parse().unwrap();
            let text = render(&options, &names, &status, &found, &mut List::default(), now);
            crate::base::testing::golden(&format!("cli/{name}.txt"), &text);
        };
        check("get pods", "get");
        check("get pods -o wide", "get-wide");
        check("get pods -A", "get-all");
        check("get pods -A --no-headers -o wide", "get-all-wide-no-headers");
        check("get pods -A -o name", "get-name");
        check("get pods web -o json", "get-web-json");
        check("get pods -n kube-system -o json", "get-list-json");
        check("get pods stack -o yaml", "get-stack-yaml");
        check("get pods -n kube-system -o yaml", "get-list-yaml");
        check("get pods -n empty", "get-empty");
        check("get pods -n empty -o yaml", "get-empty-yaml");
    }
}
