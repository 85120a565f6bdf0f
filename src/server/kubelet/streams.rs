//! `/exec`, `/attach`, `/run` and `/portForward` (upstream `pkg/kubelet/server/server.go`): finds the container, and
//! starts what carries its streams. Refusals have the kubelet's messages, because kubectl shows them.
//!
//! Never here: a stream itself.

use std::time::Instant;

use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

use super::Node;
use crate::base::limits;
use crate::base::wait::later;
use crate::runtime::connection::Wait;
use crate::runtime::stream::Output;
use crate::runtime::{Call, DockerError, ExecBody, Reply as DockerReply, names};
use crate::server::http::answer::{Answer, JSON};
use crate::server::http::query::Query;
use crate::server::http::request::Request;
use crate::server::relay::{command, forward};
use crate::server::service::Reply;
use crate::server::stream::command::Wanted;
use crate::server::stream::negotiate::{self, Agreed, Offer, Refusal};
use crate::server::stream::ports;
use crate::status::snapshot::PodView;

/// The pod that a path names, and the container in it.
struct Target {
    /// Name and namespace.
    pod: String,
    uid: String,
    status: std::sync::Arc<PodStatus>,
    container: String,
    /// The container's input ends with the first client's.
    stdin_once: bool,
}

impl Target {
    /// Parses `NAMESPACE/POD[/UID]/CONTAINER`; without the container if `has_container` is false.
    fn find(node: &Node, rest: &str, has_container: bool) -> Result<Target, Answer> {
        let parts: Vec<&str> = rest.trim_end_matches('/').split('/').collect();
        let (namespace, name, uid, container) = match (parts.as_slice(), has_container) {
            ([namespace, name, container], true) => (namespace, name, None, *container),
            ([namespace, name, uid, container], true) => (namespace, name, Some(*uid), *container),
            ([namespace, name], false) => (namespace, name, None, ""),
            ([namespace, name, uid], false) => (namespace, name, Some(*uid), ""),
            _ => return Err(super::not_found()),
        };
        let snapshot = node.pods.get();
        let is_it = |view: &&PodView| {
            let key = &view.pod.key;
            key.namespace == *namespace && key.name == *name && uid.is_none_or(|uid| uid == view.pod.uid)
        };
        let view = snapshot.pods.iter().find(is_it);
        let view = view.ok_or_else(|| Answer::text(404, "pod does not exist"))?;
        let mut containers = view.pod.containers().map(|(_, container)| container);
        let container_spec = containers.find(|known| known.name == container);
        let mut added = view.status.ephemeral_container_statuses.iter().flatten();
        let is_added = added.any(|status| status.name == container);
        Ok(Target {
            // An ephemeral container is made so: see `mapping::ephemeral`.
            stdin_once: container_spec.map_or(is_added, |known| known.stdin_once.unwrap_or(false)),
            pod: format!("{name}_{namespace}"),
            uid: view.pod.uid.clone(),
            status: view.status.clone(),
            container: container.to_owned(),
        })
    }

    /// Docker's id of the container, which must run.
    fn running(&self) -> Result<String, Answer> {
        let found = statuses(&self.status).find(|status| status.name == self.container).and_then(running);
        found.ok_or_else(|| Answer::text(500, &format!("container not found ({:?})", self.container)))
    }

    /// Docker's id of any running container: all containers of a pod share its network.
    fn any_running(&self) -> Result<String, Answer> {
        let found = statuses(&self.status).find_map(running);
        found.ok_or_else(|| {
            Answer::text(500, &format!("not able to find a running container of pod {}", self.pod))
        })
    }
}

fn statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    let all =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    all.into_iter().flatten().flatten()
}

fn running(status: &ContainerStatus) -> Option<String> {
    status.state.as_ref()?.running.as_ref()?;
    names::docker_id(status.container_id.as_deref()?).map(str::to_owned)
}

/// Names of the parameters that request streams, and their values for yes: the API server's differ from the kubelet's.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    stdin: &'static str,
    stdout: &'static str,
    stderr: &'static str,
    yes: &'static [&'static str],
}

/// The kubelet's parameters.
pub const KUBELET: Words = Words { stdin: "input", stdout: "output", stderr: "error", yes: &["1"] };
/// The API's parameters (`v1.PodExecOptions`).
pub const API: Words = Words { stdin: "stdin", stdout: "stdout", stderr: "stderr", yes: &["true", "1"] };

/// Answers `/exec/…` and, without a command, `/attach/…`. `rest` is the path behind it.
pub fn command(node: &Node, rest: &str, request: &Request, is_attach: bool, words: Words) -> Reply {
    begin_command(node, rest, request, is_attach, words).unwrap_or_else(Reply::Whole)
}

fn begin_command(
    node: &Node,
    rest: &str,
    request: &Request,
    is_attach: bool,
    words: Words,
) -> Result<Reply, Answer> {
    let wanted = wanted(&request.query, words)?;
    let target = Target::find(node, rest, true)?;
    let container = target.running()?;
    let work = if is_attach {
        command::Work::Attach { tty: has_terminal(node, &container)?, closes_input: target.stdin_once }
    } else {
        let command: Vec<String> = request.query.all("command").map(str::to_owned).collect();
        if command.is_empty() {
            return Err(Answer::text(400, "you must specify at least one command"));
        }
        command::Work::Exec(command)
    };
    let agreed = negotiate::command(&offer(request)).map_err(refused)?;
    let verb = if is_attach { "attach to" } else { "exec in" };
    let what = format!("{verb} container {} of pod {}", target.container, target.pod);
    let job = command::Job { docker: node.docker.clone(), container, work, wanted, what };
    let protocol = agreed.protocol;
    Ok(Reply::Upgrade(switching(agreed), Box::new(move |upgraded| command::run(&job, protocol, upgraded))))
}

/// The streams that the request asks for.
fn wanted(query: &Query, words: Words) -> Result<Wanted, Answer> {
    let asks = |name: &str| query.get(name).is_some_and(|value| words.yes.contains(&value));
    let tty = asks("tty");
    // A terminal has one stream.
    let wanted = Wanted {
        stdin: asks(words.stdin),
        stdout: asks(words.stdout),
        stderr: asks(words.stderr) && !tty,
        tty,
    };
    if wanted.stdin || wanted.stdout || wanted.stderr {
        Ok(wanted)
    } else {
        Err(Answer::text(400, "you must specify at least 1 of stdin, stdout, stderr"))
    }
}

fn has_terminal(node: &Node, container: &str) -> Result<bool, Answer> {
    match node.docker.inspect(container) {
        Ok(detail) => Ok(detail.tty),
        Err(error) => Err(Answer::text(500, &error.to_string())),
    }
}

/// Answers `/portForward/…`. `rest` is the path behind it.
pub fn forward(node: &Node, rest: &str, request: &Request) -> Reply {
    begin_forward(node, rest, request).unwrap_or_else(Reply::Whole)
}

fn begin_forward(node: &Node, rest: &str, request: &Request) -> Result<Reply, Answer> {
    let offer = offer(request);
    // A tunnel has its ports in the streams, like SPDY itself.
    let names_ports = offer.is_websocket() && !offer.is_tunnel();
    let ports = match names_ports {
        true => ports::requested(request.query.all("port")).map_err(|why| Answer::text(400, &why))?,
        false => Vec::new(),
    };
    let target = Target::find(node, rest, false)?;
    let container = target.any_running()?;
    let agreed = negotiate::forward(&offer).map_err(refused)?;
    let what = format!("port-forward to pod {}", target.pod);
    let job = forward::Job {
        docker: node.docker.clone(),
        container,
        pods: node.pods.clone(),
        ports,
        pod: target.pod,
        uid: target.uid,
        what,
    };
    let protocol = agreed.protocol;
    Ok(Reply::Upgrade(switching(agreed), Box::new(move |upgraded| forward::run(&job, protocol, upgraded))))
}

fn offer(request: &Request) -> Offer<'_> {
    Offer {
        connection: request.headers("connection").collect(),
        upgrade: request.headers("upgrade").collect(),
        stream_protocols: request.headers("x-stream-protocol-version").collect(),
        socket_protocols: request.headers("sec-websocket-protocol").collect(),
        socket_key: request.header("sec-websocket-key"),
        socket_version: request.header("sec-websocket-version"),
        headers: request.header_count(),
    }
}

fn switching<P>(agreed: Agreed<P>) -> Answer {
    let answer = Answer::new(101, "", "");
    agreed.headers.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
}

fn refused(refusal: Refusal) -> Answer {
    let answer = Answer::text(refusal.status, &refusal.text);
    refusal.headers.into_iter().fold(answer, |answer, (name, value)| answer.with(name, value))
}

/// Answers `/run/…`: runs the words of `cmd`, and returns the output. `rest` is the path behind it.
pub fn run(node: &Node, rest: &str, request: &Request) -> Reply {
    let ran = Target::find(node, rest, true).and_then(|target| {
        let container = target.running()?;
        let words = request.query.get("cmd").unwrap_or_default().split(' ');
        let command: Vec<String> = words.map(str::to_owned).collect();
        output_of(node, &container, command).map_err(|why| Answer::text(500, &why))
    });
    match ran {
        Ok(output) => Answer::new(200, JSON, output).into(),
        Err(answer) => answer.into(),
    }
}

/// Both outputs of a command, in the order in which they came.
fn output_of(node: &Node, container: &str, cmd: Vec<String>) -> Result<Vec<u8>, String> {
    let (until, shown) = (later(limits::RUN_PATIENCE), cmd.join(" "));
    let body = ExecBody { attach_stdin: false, attach_stdout: true, attach_stderr: true, tty: false, cmd };
    let text = |error: DockerError| error.to_string();
    let id = node.docker.call(&Call::ExecCreate { id: container.to_owned(), body });
    let id = id.and_then(DockerReply::exec_created).map_err(text)?;
    let mut streams = node.docker.exec_start(&id, false).map_err(text)?;
    let mut all = Vec::new();
    loop {
        let wait = Wait::at_most(until.saturating_duration_since(Instant::now()));
        match streams.output.next(&wait).map_err(text)? {
            Output::Bytes(_, bytes) => all.extend_from_slice(bytes),
            Output::End => break,
            Output::Idle => return Err("the command takes too long, and is left alone".to_owned()),
        }
        if all.len() > limits::RUN_OUTPUT {
            return Err(format!("the command writes more than {} bytes", limits::RUN_OUTPUT));
        }
    }
    match node.docker.exec_exit_code(&id).map_err(text)? {
        0 => Ok(all),
        code => Err(format!("command '{shown}' exited with {code}: {}", String::from_utf8_lossy(&all))),
    }
}
