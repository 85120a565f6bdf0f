//! `/containerLogs/{namespace}/{pod}/{container}` (upstream `pkg/kubelet/server/server.go` and
//! `pkg/kubelet/kubelet.go`): the output of a container, from Docker. Refusals have the kubelet's messages, because
//! kubectl shows them.
//!
//! Never here: a wait that does not notice when the client is gone.

use std::io;
use std::time::Instant;

use k8s_openapi::api::core::v1::Pod;

use super::Node;
use crate::api_client::pods::ServerPods;
use crate::base::clock::{Clock as _, SignedDuration, System, Timestamp};
use crate::base::limits;
use crate::runtime::connection::Wait;
use crate::runtime::request::LogOptions;
use crate::runtime::stream::{Output, OutputStream};
use crate::runtime::{DockerState, RefusalKind};
use crate::server::connection::Sink;
use crate::server::http::answer::{Answer, TEXT};
use crate::server::http::query::Query;
use crate::server::service::Reply;
use crate::status::container_log;
use crate::status::snapshot::PodView;

/// The requested part of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    follow: bool,
    previous: bool,
    timestamps: bool,
    /// Number of last lines; `None` for all.
    tail: Option<u64>,
    /// Start time.
    since: Option<Timestamp>,
    /// Number of bytes after which the answer ends.
    limit: Option<u64>,
}

/// Answers a request for a log. `rest` is the path behind `/containerLogs/`.
pub fn answer(node: &Node, rest: &str, query: &Query) -> Reply {
    answer_until(node, rest, query, None)
}

/// Like [`answer`]; a followed log ends at this time.
pub fn answer_until(node: &Node, rest: &str, query: &Query, end: Option<Instant>) -> Reply {
    match find(node, rest, query, end) {
        Ok(found) => found,
        Err(answer) => Reply::Whole(answer),
    }
}

fn find(node: &Node, rest: &str, query: &Query, end: Option<Instant>) -> Result<Reply, Answer> {
    let mut parts = rest.split('/');
    let mut part = |missing: &str| match parts.next().filter(|part| !part.is_empty()) {
        Some(part) => Ok(part.to_owned()),
        None => Err(message(400, missing)),
    };
    let namespace = part("Missing podNamespace.")?;
    let pod = part("Missing podID.")?;
    let container = part("Missing container name.")?;
    let wanted = wanted(query, System::start().now().wall)?;
    let snapshot = node.pods.get();
    let is_it = |view: &&PodView| view.pod.key.namespace == namespace && view.pod.key.name == pod;
    let view = snapshot.pods.iter().find(is_it);
    let view = view.ok_or_else(|| refused(404, &format!("pod {pod:?} does not exist")))?;
    if !names(view).any(|name| name == container) {
        let pods = node.server_pods.as_ref().map(ServerPods::latest);
        let theirs = pods.as_ref().and_then(|all| all.pods.get(&view.pod.key));
        return Err(match theirs.and_then(|theirs| not_made(theirs, &container)) {
            Some(why) => refused(400, &why),
            None => refused(404, &format!("container {container:?} not found in pod {pod:?}")),
        });
    }
    let id = container_log::of(&view.status, &pod, &container, wanted.previous)
        .map_err(|why| refused(400, &why))?;
    let unstarted = container_log::unstarted(&view.status, &pod, &container).filter(|_| !wanted.previous);
    let stream = open(node, &id, &wanted, unstarted)?;
    let answer = Answer::new(200, TEXT, "").with("X-Content-Type-Options", "nosniff");
    Ok(Reply::Stream(answer, Box::new(move |sink| pour(sink, stream, &wanted, end))))
}

/// An error in the kubelet's format, without a line feed.
fn refused(status: u16, why: &str) -> Answer {
    Answer::new(status, TEXT, why)
}

/// An error in a log's parameters in the kubelet's format: JSON with the type of text.
fn message(status: u16, text: &str) -> Answer {
    refused(status, &format!("{{\"message\": {text:?}}}"))
}

/// Parses the parameters (upstream `v1.PodLogOptions` and its validation).
fn wanted(query: &Query, now: Timestamp) -> Result<Wanted, Answer> {
    let unreadable = || message(400, "Unable to decode query.");
    let invalid = || message(422, "Invalid request.");
    let number = |name: &str| match query.get(name).filter(|text| !text.is_empty()) {
        None => Ok(None),
        Some(text) => text.parse::<i64>().map(Some).map_err(|_| unreadable()),
    };
    let switch = |name: &str| query.switch(name).ok_or_else(unreadable);
    let at_least = |least: i64, value: Option<i64>| match value {
        None => Ok(None),
        Some(value) if value >= least => Ok(u64::try_from(value).ok()),
        Some(_) => Err(invalid()),
    };
    let tail = match query.get("tail") {
        // An old name of `tailLines`.
        Some("all" | "") | None => number("tailLines")?,
        Some(_) => number("tail")?,
    };
    let since_seconds = at_least(1, number("sinceSeconds")?)?;
    let since_time = match query.get("sinceTime").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse::<Timestamp>().map_err(|_| unreadable())?),
    };
    if since_seconds.is_some() && since_time.is_some() {
        return Err(invalid());
    }
    // Streams cannot be split, like upstream without the feature PodLogsQuerySplitStreams.
    if !matches!(query.get("stream"), None | Some("" | "All")) {
        return Err(message(400, "Unable to decode query."));
    }
    let ago = since_seconds.map(|seconds| {
        let ago = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
        now.checked_sub(ago).unwrap_or(Timestamp::UNIX_EPOCH)
    });
    Ok(Wanted {
        follow: switch("follow")?,
        previous: switch("previous")?,
        timestamps: switch("timestamps")?,
        tail: at_least(0, tail)?,
        since: since_time.or(ago),
        limit: at_least(1, number("limitBytes")?)?,
    })
}

/// Why an ephemeral container of a server's pod has no log: it is not made yet, or could not be made. The node's pods do not
/// have it yet.
fn not_made(pod: &Pod, container: &str) -> Option<String> {
    let added = pod.spec.as_ref()?.ephemeral_containers.as_deref().unwrap_or_default();
    added.iter().find(|added| added.name == container)?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let why = container_log::of(&status, name, container, false).err();
    Some(why.unwrap_or_else(|| format!("container {container:?} in pod {name:?} is not available")))
}

/// Names of all containers of a pod.
fn names(view: &PodView) -> impl Iterator<Item = &str> {
    let ephemeral =
        view.status.ephemeral_container_statuses.iter().flatten().map(|status| status.name.as_str());
    view.pod.containers().map(|(_, container)| container.name.as_str()).chain(ephemeral)
}

/// The log as a stream from Docker. `unstarted`: what to tell if Docker has not started the container.
fn open(node: &Node, id: &str, wanted: &Wanted, unstarted: Option<String>) -> Result<OutputStream, Answer> {
    let failed = |error: &crate::runtime::DockerError| match error.refusal() {
        Some(RefusalKind::LogNotKept) => Answer::text(
            400,
            "the container has no log: it was made with --container-log-driver=none, which keeps nothing of what a \
             container writes",
        ),
        Some(RefusalKind::NoSuchContainer) => Answer::text(404, &format!("{error}: it was removed since")),
        _ => Answer::text(500, &error.to_string()),
    };
    let detail = node.docker.inspect(id).map_err(|error| failed(&error))?;
    if let Some(why) = unstarted.filter(|_| detail.state == DockerState::Created) {
        return Err(refused(400, &why));
    }
    let since = wanted.since.map(|since| {
        let nanos = since.as_nanosecond().max(0);
        format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    });
    let options =
        LogOptions { follow: wanted.follow, tail: wanted.tail, since, timestamps: wanted.timestamps };
    node.docker.logs(id, &options, detail.tty).map_err(|error| failed(&error))
}

/// Sends a log until its end, the limit, or the end of the client. A log that is not followed is given up when Docker
/// sends nothing for long.
fn pour(
    sink: &mut Sink<'_>,
    mut from: OutputStream,
    wanted: &Wanted,
    end: Option<Instant>,
) -> io::Result<()> {
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    let timeout = (!wanted.follow).then_some(limits::SERVER_READ);
    loop {
        let left_to_end = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left_to_end.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let timeout = timeout.into_iter().chain(left_to_end).min();
        let wait = Wait { timeout, wake: Some(sink.fd()) };
        match from.next(&wait).map_err(io::Error::other)? {
            Output::End => return Ok(()),
            Output::Idle if sink.is_gone() => return Err(io::ErrorKind::ConnectionAborted.into()),
            Output::Idle if !wanted.follow => return Err(io::ErrorKind::TimedOut.into()),
            Output::Idle => {}
            Output::Bytes(_, bytes) => {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                sink.write(bytes.get(..most).unwrap_or_default())?;
                left = left.saturating_sub(most as u64);
                if left == 0 {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
