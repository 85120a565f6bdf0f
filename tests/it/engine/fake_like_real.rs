//! One script of calls on the in-memory Docker and on the real one: after each step both must have
//! answered the same, in the same words, and all containers must be in the same state.
//!
//! Ids are replaced by the script's names, times by their presence, and the order of events is compared
//! only for each container; no other difference is allowed.

mod engine;
mod script;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use podkeeper::testing::base::clock::{Clock, Mono, Now, Timestamp};
use podkeeper::testing::runtime::fake::{Cursor, EventNext, Fake};
use podkeeper::testing::runtime::{
    Call, ContainerDetail, ContainerSummary, CreateBody, DockerError, DockerState, Empty, ExecBody,
    ExecDetail, HostDetail, ImageDetail, ImageSummary, PortBinding, Refusal, RefusalKind, Reply, Resources,
};
use serde_json::{Value, json};

use self::engine::{CleanUp, ask, encode, http, real, unix_now};
use self::script::{Step, script};

const IMAGE: &str = "busybox:static";
/// The script's last container: its creation is the last event.
const LAST: &str = "last";

/// One of the two engines that the script runs on.
pub struct Side<'a> {
    /// Makes a call.
    pub perform: &'a mut dyn FnMut(&Call) -> Result<Reply, DockerError>,
    /// Returns when this container no longer runs.
    pub settle: &'a mut dyn FnMut(&str),
    /// Events of the containers with the script's label: name, action, exit code or signal.
    pub events: &'a mut dyn FnMut() -> Vec<String>,
}

/// Runs the script; one entry per step: the answer, and the state of all containers.
fn run(side: &mut Side<'_>, prefix: &str) -> Vec<(String, Vec<String>)> {
    let mut ids = BTreeMap::from([("none".to_string(), "none".to_string())]);
    let label = format!("podkeeper.test={prefix}");
    let mut told = Vec::new();
    let image_id = match (side.perform)(&Call::ImageInspect { image: IMAGE.into() }) {
        Ok(Reply::Image(image)) => image.id,
        other => panic!("{IMAGE}: {other:?}"),
    };
    for (n, step) in script().into_iter().enumerate() {
        let id = |name: &str| ids.get(name).cloned().unwrap_or_else(|| format!("{prefix}{name}"));
        let image = |name: &str| match name {
            "other" => format!("{prefix}image:1"),
            "$image" => image_id.clone(),
            name => name.to_owned(),
        };
        let (mut made, mut ends) = (None, None);
        let (what, call) = match step {
            Step::Create(name, mut body) => {
                for mode in [
                    &mut body.host_config.namespaces.network_mode,
                    &mut body.host_config.namespaces.ipc_mode,
                    &mut body.host_config.namespaces.pid_mode,
                ] {
                    if let Some(of) = mode.strip_prefix("container:$") {
                        *mode = format!("container:{}", id(of));
                    }
                }
                body.labels.insert("podkeeper.test".into(), prefix.into());
                made = Some(name);
                let full = if name == "!x" { "!x".into() } else { format!("{prefix}{name}") };
                (format!("create {name}"), Call::Create { name: full, body })
            }
            Step::Start(name) => (format!("start {name}"), Call::Start { id: id(name) }),
            Step::Run(name) => {
                ends = Some(id(name));
                (format!("run {name}"), Call::Start { id: id(name) })
            }
            Step::Kill(name, signal) => {
                ends = Some(id(name)).filter(|_| matches!(signal, "9" | "KILL" | "SIGKILL"));
                (format!("kill {name} {signal}"), Call::Kill { id: id(name), signal: signal.into() })
            }
            Step::Remove(name, force) => {
                (format!("remove {name} {force}"), Call::Remove { id: id(name), force })
            }
            Step::Rename(name, new) => {
                let new = if new == "!x" { "!x".into() } else { format!("{prefix}{new}") };
                (format!("rename {name}"), Call::Rename { id: id(name), name: new })
            }
            Step::Update(name, memory) => {
                let resources =
                    Resources { cpu_shares: Some(512), memory, memory_swap: memory, ..Resources::default() };
                (format!("update {name}"), Call::Update { id: id(name), resources })
            }
            Step::Log(name, lines) => (format!("log {name}"), Call::LogTail { id: id(name), lines }),
            Step::Inspect(name) => (format!("inspect {name}"), Call::Inspect { id: id(name) }),
            Step::Exec(name, cmd) => {
                let cmd = cmd.iter().map(ToString::to_string).collect();
                let body = ExecBody {
                    attach_stdin: false,
                    attach_stdout: true,
                    attach_stderr: true,
                    tty: false,
                    cmd,
                };
                made = Some(name);
                (format!("exec {name}"), Call::ExecCreate { id: id("a"), body })
            }
            Step::ExecInspect(name) => (format!("exec inspect {name}"), Call::ExecInspect { id: id(name) }),
            Step::Image(name) => (format!("image {name}"), Call::ImageInspect { image: image(name) }),
            Step::RemoveImage(name) => {
                (format!("remove image {name}"), Call::ImageRemove { image: image(name) })
            }
            Step::Images => ("images".to_owned(), Call::ImageList { all: false }),
            Step::KillPair(name, other) => {
                ends = Some(id(other));
                (format!("kill {name}"), Call::Kill { id: id(name), signal: "SIGKILL".into() })
            }
        };
        let answer = (side.perform)(&call);
        if let (Some(name), Ok(Reply::Created { id, .. } | Reply::ExecCreated { id })) = (made, &answer) {
            ids.insert(name.into(), id.clone());
        }
        if let Some(id) = ends {
            (side.settle)(&id);
        }
        let mut lines = stand(side, &label);
        // Other tests have images of their own, which are left out.
        let answer = answer.map(|reply| match reply {
            Reply::Images(list) => {
                let ours = list.into_iter().filter(|image| image.id == image_id);
                let tags =
                    |tags: Vec<String>| tags.into_iter().filter(|tag| tag.starts_with(prefix)).collect();
                Reply::Images(
                    ours.map(|i| ImageSummary { tags: tags(i.tags), ..ImageSummary::default() }).collect(),
                )
            }
            other => other,
        });
        lines.insert(0, forget_short_ids(&outcome(answer)));
        let plain = |line: String| forget_ids(&line, &ids, prefix);
        told.push((format!("{n}: {what}"), lines.into_iter().map(plain).collect()));
    }
    // Two deaths at the same time may be reported in either order: events are compared for each container.
    let mut events: Vec<_> = (side.events)().iter().map(|line| forget_ids(line, &ids, prefix)).collect();
    events.sort_by(|a, b| a.split(' ').next().cmp(&b.split(' ').next()));
    told.push(("events".into(), events));
    told
}

/// Replaces short ids: Docker names any of the containers that use an image.
fn forget_short_ids(line: &str) -> String {
    let short = |word: &str| word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
    line.split(' ').map(|word| if short(word) { "<short>" } else { word }).collect::<Vec<_>>().join(" ")
}

fn outcome(answer: Result<Reply, DockerError>) -> String {
    match answer {
        Ok(Reply::Created { warnings, .. }) => format!("created {warnings:?}"),
        Ok(Reply::ExecCreated { .. }) => "exec created".into(),
        Ok(Reply::Container(detail)) => format!("{:?}", told(&detail)),
        Ok(Reply::Image(image)) => format!("image, user {:?}, stop {:?}", image.user, image.stop_signal),
        Ok(other) => format!("{other:?}"),
        Err(DockerError::Refused(r)) => format!("{} {:?} {}", r.status, r.kind, r.message),
        Err(other) => format!("{other:?}"),
    }
}

/// List and inspection of every container of the script, newest first.
fn stand(side: &mut Side<'_>, label: &str) -> Vec<String> {
    let list = match (side.perform)(&Call::List { labels: vec![label.into()] }) {
        Ok(Reply::Containers(list)) => list,
        other => panic!("list: {other:?}"),
    };
    list.into_iter()
        .map(|c| {
            let detail = match (side.perform)(&Call::Inspect { id: c.id.clone() }) {
                Ok(Reply::Container(detail)) => detail,
                other => panic!("inspect: {other:?}"),
            };
            format!("{} | {:?}", listed(&c), told(&detail))
        })
        .collect()
}

fn listed(c: &ContainerSummary) -> String {
    // A difference of a second depends on the machine's speed.
    let text = c.status.split_whitespace().filter(|w| w.starts_with(['U', 'E', '(', 'C', 'R', 'D']));
    format!("{} {} {:?} {:?} {}", c.name, c.image, c.labels, c.state, text.collect::<Vec<_>>().join(" "))
}

fn told(d: &ContainerDetail) -> impl std::fmt::Debug {
    let times = (d.created.is_some(), d.started_at.is_some(), d.finished_at.is_some());
    let more = (
        d.image.clone(),
        d.tty,
        d.host_config.network_mode.clone(),
        d.stop_signal.clone(),
        d.ips.len(),
        d.networks,
    );
    (d.name.clone(), d.state, d.exit_code, d.oom_killed, d.error.clone(), times, more)
}

fn forget_ids(line: &str, ids: &BTreeMap<String, String>, prefix: &str) -> String {
    let mut line = line.replace(prefix, "~");
    for (name, id) in ids {
        line = line.replace(id.as_str(), &format!("<{name}>"));
    }
    // Replaces ids of containers that were made again, and of endpoints.
    let hex = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let words = line.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words
        .map(|word| match word.get(..64).filter(|w| hex(w)) {
            Some(id) => word.replace(id, "<hex>"),
            None => word.to_string(),
        })
        .collect()
}

/// Compares the engines step by step; with their error kinds if `kinds`, when both sides know them.
pub fn compare(fake: &mut Side<'_>, real: &mut Side<'_>, kinds: bool) {
    let prefix = format!("pk-fake-{}-", std::process::id());
    let fake = run(fake, &prefix);
    let real = run(real, &prefix);
    let mut wrong = String::new();
    for ((what, fake), (_, real)) in fake.iter().zip(&real) {
        for at in 0..fake.len().max(real.len()) {
            let line = |side: &[String]| side.get(at).map(|l| if kinds { l.clone() } else { forget_kind(l) });
            if line(fake) != line(real) {
                let show = |line: Option<String>| line.unwrap_or_else(|| "nothing".into());
                wrong += &format!("{what}\n  fake: {}\n  real: {}\n", show(line(fake)), show(line(real)));
            }
        }
    }
    assert!(wrong.is_empty(), "the fake is not like the real engine:\n{wrong}");
    assert_eq!(fake.len(), real.len());
}

/// Turns `409 NotRunning text` into `409 text`.
fn forget_kind(line: &str) -> String {
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(status), Some(_), Some(text)) if status.len() == 3 && status.parse::<u16>().is_ok() => {
            format!("{status} {text}")
        }
        _ => line.into(),
    }
}

#[test]
fn the_fake_is_like_the_real_engine() {
    let prefix = format!("pk-fake-{}-", std::process::id());
    let _clean = CleanUp(prefix.clone());
    // Listened to from the beginning: others' events may push older ones out of the engine's memory.
    let filters = encode(&json!({"type": ["container"], "label": [format!("podkeeper.test={prefix}")]}));
    let heard = ask("GET", &format!("/events?since={}&filters={filters}", unix_now()), None);
    let last_prefix = prefix.clone();
    let mut real_events = move || {
        let lines = BufReader::new(&heard).lines();
        let said = lines.filter_map(|line| {
            let e: Value = serde_json::from_str(&line.expect("the last event comes")).ok()?;
            said(e["Action"].as_str()?, |key| e["Actor"]["Attributes"][key].as_str())
        });
        let mut seen = Vec::new();
        for event in said {
            let last = event.starts_with(&format!("{last_prefix}{LAST} "));
            seen.push(event);
            if last {
                break;
            }
        }
        seen
    };

    let now = Now { mono: Mono::default(), wall: Timestamp::from_second(1_800_000_000).unwrap() };
    let clock = Arc::new(Stopped(now));
    let fake = Fake::new(clock, 1);
    fake.with(|state| {
        state.add_image(IMAGE, false);
        state.tag_image(IMAGE, &format!("{prefix}image:1"));
    });
    http("POST", &format!("/images/{IMAGE}/tag?repo={prefix}image&tag=1"), None);
    let mut cursor: Cursor = fake.with(|state| state.subscribe(None)).unwrap();

    compare(
        &mut Side {
            perform: &mut |call| fake.perform(call),
            settle: &mut |_| fake.advance(),
            events: &mut || {
                let mut seen = Vec::new();
                while let EventNext::Event(e) = fake.with(|state| state.next_event(&mut cursor)) {
                    seen.extend(said(&e.action, |key| e.labels.get(key).map(String::as_str)));
                }
                seen
            },
        },
        &mut Side {
            perform: &mut real,
            settle: &mut |id| drop(http("POST", &format!("/containers/{id}/wait"), None)),
            events: &mut real_events,
        },
        false,
    );
}

/// One event without the parts that differ from run to run.
fn said<'a>(action: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let (name, image) = (label("name")?, label("image")?);
    let more: Vec<_> = ["exitCode", "signal"].iter().filter_map(|key| label(key)).collect();
    Some(format!("{name} {image} {action} {}", more.join(" ")))
}

struct Stopped(Now);

impl Clock for Stopped {
    fn now(&self) -> Now {
        self.0
    }
}
