//! `get events`: the events of this node, as kubectl lists them; and the table at the end of `describe pod`.

use std::fmt::Write;

use serde_json::Value;

use super::json;
use super::table::List;
use super::watch::Watcher;
use super::yaml;
use crate::base::clock::{Clock, System, Timestamp};
use crate::base::human;
use crate::base::logging::one_line;
use crate::cli::exit::Exit;
use crate::cli::flags::{Options, Output};
use crate::cli::{Outcome, pods, print, say, write};
use crate::recorder::object::{self, EventObject, Events, Involved};

/// Lists events; with `--watch` goes on.
pub fn run(options: &Options) -> Outcome {
    // Watching begins before the first read, so that no change is missed.
    let run_dir = &options.directories.run;
    let watcher = options.command.watch.then(|| Watcher::new(run_dir, object::NAME)).transpose()?;
    let node = pods::load(run_dir)?.file.node;
    let events = object::read(run_dir)?;
    let found = select(&events, options, &node);
    let mut list = List::default();
    let heading = !options.command.no_headers;
    let exit = print(&match &options.command.template {
        Some(template) => template.print(&object(&events, &found), options.command.no_headers)?,
        None => render(options, &events, &found, heading, &mut list, System::start().now().wall),
    });
    let Some(watcher) = watcher.filter(|_| exit == Exit::Ok) else {
        if found.is_empty() && !matches!(options.command.output, Output::Json | Output::Yaml) {
            say(&pods::none_found(options));
        }
        return Ok(exit);
    };
    let heading = heading && found.is_empty();
    follow(watcher, options, &node, events, (list, heading))
}

/// Prints new and repeated events until the daemon's directory or the reader is gone.
fn follow(
    mut watcher: Watcher,
    options: &Options,
    node: &str,
    first: Events,
    (mut list, mut heading): (List, bool),
) -> Outcome {
    let mut known = first;
    loop {
        watcher.wait()?;
        let events = object::read(&options.directories.run)?;
        let mut found = select(&events, options, node);
        found.retain(|at| events.items.get(*at).is_some_and(|event| !known.items.contains(event)));
        let text = render(options, &events, &found, heading, &mut list, System::start().now().wall);
        heading &= found.is_empty();
        known = events;
        if !write(&text)? {
            return Ok(Exit::Ok);
        }
    }
}

/// Indices of the events that the user means, in the order of the file: the latest last.
fn select(events: &Events, options: &Options, node: &str) -> Vec<usize> {
    let wanted = |event: &EventObject| {
        let of = &event.involved_object;
        let named = options
            .command
            .for_pod
            .as_deref()
            .is_none_or(|name| of.kind == object::POD && pods::is_called(name, &of.name, node));
        named && (options.command.all_namespaces || event.metadata.namespace == options.command.namespace)
    };
    (0..).zip(&events.items).filter(|(_, event)| wanted(event)).map(|(at, _)| at).collect()
}

fn render(
    options: &Options,
    events: &Events,
    found: &[usize],
    heading: bool,
    list: &mut List,
    now: Timestamp,
) -> String {
    let items = found.iter().filter_map(|at| events.items.get(*at));
    match options.command.output {
        Output::Table | Output::Wide => {
            let wide = options.command.output == Output::Wide;
            let namespaces = options.command.all_namespaces;
            let rows = items.map(|event| cells(event, wide, namespaces, now)).collect();
            list.render(heading.then(|| headings(wide, namespaces)), rows)
        }
        Output::Name => items.map(|e| format!("event/{}\n", one_line(&e.metadata.name))).collect(),
        Output::Json => format!("{}\n", json::emit(&object(events, found))),
        Output::Yaml => yaml::emit(&object(events, found)),
    }
}

fn object(events: &Events, found: &[usize]) -> Value {
    let items: Vec<Value> = found.iter().filter_map(|at| events.values.get(*at)).cloned().collect();
    json::objects(&[], items)
}

fn headings(wide: bool, namespaces: bool) -> Vec<String> {
    let first: &[&str] = if namespaces { &["NAMESPACE"] } else { &[] };
    let narrow = ["LAST SEEN", "TYPE", "REASON", "OBJECT"];
    let (before, after): (&[&str], &[&str]) =
        if wide { (&["SUBOBJECT", "SOURCE"], &["FIRST SEEN", "COUNT", "NAME"]) } else { (&[], &[]) };
    let all = first.iter().chain(&narrow).chain(before).chain(&["MESSAGE"]).chain(after);
    all.map(|w| (*w).to_owned()).collect()
}

/// `printEvent` of `pkg/printers/internalversion/printers.go`.
fn cells(event: &EventObject, wide: bool, namespaces: bool, now: Timestamp) -> Vec<String> {
    let of = &event.involved_object;
    let mut cells = Vec::with_capacity(11);
    if namespaces {
        cells.push(one_line(&event.metadata.namespace));
    }
    let kind = of.kind.to_lowercase();
    cells.push(human::age(Some(&event.last_timestamp), now));
    cells.extend([&event.weight, &event.reason].map(|text| one_line(text)));
    cells.push(one_line(&format!("{kind}/{}", of.name)));
    if wide {
        let source = match event.source.host.as_str() {
            "" => event.source.component.clone(),
            host => format!("{}, {host}", event.source.component),
        };
        cells.extend([one_line(&of.field_path), one_line(&source)]);
    }
    cells.push(one_line(event.message.trim()));
    if wide {
        cells.push(human::age(Some(&event.first_timestamp), now));
        cells.extend([event.count.to_string(), one_line(&event.metadata.name)]);
    }
    cells
}

/// The table at the end of `describe`, with tabs between its cells (`DescribeEvents` of
/// `kubectl/pkg/describe/describe.go`): all events of its object.
pub fn describe(events: &Events, is_its: &dyn Fn(&Involved) -> bool, now: Timestamp) -> String {
    let mut own = events.items.iter().filter(|event| is_its(&event.involved_object)).peekable();
    if own.peek().is_none() {
        return "Events:\t<none>\n".to_owned();
    }
    let mut text =
        "Events:\n  Type\tReason\tAge\tFrom\tMessage\n  ----\t------\t----\t----\t-------\n".to_owned();
    for event in own {
        let mut age = human::age(Some(&event.last_timestamp), now);
        if event.count > 1 {
            let _ = write!(age, " (x{} over {})", event.count, human::age(Some(&event.first_timestamp), now));
        }
        let (weight, reason) = (one_line(&event.weight), one_line(&event.reason));
        let (from, message) = (one_line(&event.source.component), one_line(event.message.trim()));
        let _ = writeln!(text, "  {weight}\t{reason}\t{age}\t{from}\t{message}");
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cli::parse::{Command, parse};

    /// Events on the node of `tests/golden/cli/node.json`.
    pub(crate) fn events() -> Events {
        object::parse(include_bytes!("../../../tests/golden/cli/events.json")).unwrap()
    }

    fn options(line: &str) -> Box<Options> {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::GetEvents(options)) => options,
            other => panic!("{line}: {other:?}"),
        }
    }

    fn show(line: &str, events: &Events) -> String {
        let options = options(line);
        let found = select(events, &options, "node1");
        let now = "2026-01-02T04:00:00Z".parse().unwrap();
        render(&options, events, &found, !options.command.no_headers, &mut List::default(), now)
    }

    #[test]
    fn lists_are_kubectls() {
        let check = |line: &str, name: &str| {
            crate::base::testing::golden(&format!("cli/{name}.txt"), &show(line, &events()));
        };
        check("get events", "events");
        check("get events -o wide", "events-wide");
        check("get ev -A", "events-all");
        check("get events -A --no-headers --for pod/proxy", "events-for");
        check("get event -o name --for pods/web-node1", "events-name");
        check("get events -n kube-system -o json", "events-json");
        check("get events -n kube-system -o yaml", "events-yaml");
    }

    #[test]
    fn nothing_is_an_answer_too() {
        let check = |line: &str, shown: &str, told: &str| {
            assert_eq!(
                (show(line, &Events::default()).as_str(), pods::none_found(&options(line)).as_str()),
                (shown, told)
            );
        };
        check("get events", "", "No resources found in default namespace.");
        check("get events -A", "", "No resources found");
        check("get events -n x --for pod/y", "", "No resources found in x namespace.");
    }

    #[test]
    fn the_end_of_describe() {
        let now = "2026-01-02T04:00:00Z".parse().unwrap();
        let text = |uid: &str| crate::cli::show::table::align(&describe(&events(), &|of| of.uid == uid, now));
        crate::base::testing::golden(
            "cli/events-describe.txt",
            &text("4ba6c1d2-0000-4000-8000-000000000000"),
        );
        assert_eq!(text("nobody"), "Events:  <none>\n");
    }
}
