//! The meaning of Docker's refusals. Docker distinguishes its kinds of conflict only in English text, so this
//! room reads its texts: those of Docker 18.09 to 29 and Podman's. Pure.
//!
//! The texts are matched without regard to case. An unknown text has the meaning of the status: no text may
//! make a failed call look like a success.

use serde_json::Value;

use super::types::{DockerError, Refusal, RefusalKind};
use crate::base::limits;

/// The error for an answer of status 300 or more.
#[must_use]
pub fn refusal(status: u16, body: &[u8]) -> DockerError {
    let message = message(status, body);
    if status == 400 && is_version_text(&message) {
        return DockerError::Version(format!(
            "Docker and podkeeper have no API version in common (podkeeper speaks 1.{} to 1.{}): {message}",
            limits::API_OLDEST.1,
            limits::API_NEWEST.1
        ));
    }
    refused(status, message)
}

/// The error for a message inside the stream of a 200 answer.
#[must_use]
pub fn refused(status: u16, message: String) -> DockerError {
    let message = if message.chars().count() > limits::ERROR_MESSAGE {
        message.chars().take(limits::ERROR_MESSAGE).collect()
    } else {
        message
    };
    DockerError::Refused(Refusal { kind: kind(status, &message), status, message })
}

/// Docker's `message`, else the body as text, else the status.
fn message(status: u16, body: &[u8]) -> String {
    let named = serde_json::from_slice::<Value>(body)
        .ok()
        .and_then(|v| v.get("message").and_then(Value::as_str).map(|m| m.trim().to_owned()));
    // A character has at most four bytes.
    let start = body.get(..limits::ERROR_MESSAGE.saturating_mul(4)).unwrap_or(body);
    let text = named.unwrap_or_else(|| String::from_utf8_lossy(start).trim().to_owned());
    if text.is_empty() { format!("Docker answered with HTTP status {status} and no message") } else { text }
}

fn is_version_text(message: &str) -> bool {
    message.contains("client version") && (message.contains("too new") || message.contains("too old"))
}

fn kind(status: u16, message: &str) -> RefusalKind {
    let text = message.to_ascii_lowercase();
    let has = |part: &str| text.contains(part);
    // Start failures come as 400, 404 or 500, depending on the version.
    if cannot_run(&text) {
        return RefusalKind::CannotRun;
    }
    if has("port is already allocated") || has("address already in use") {
        return RefusalKind::PortInUse;
    }
    // 501, but with Docker before 18.09 in the stream of the log.
    if has("logging driver does not support reading") {
        return RefusalKind::LogNotKept;
    }
    match status {
        404 if has("no such container") || has("no container with name or id") => {
            RefusalKind::NoSuchContainer
        }
        404 if has("no such image") || has("image not known") => RefusalKind::NoSuchImage,
        404 => RefusalKind::NotFound,
        409 | 500 => {
            conflict(&text).unwrap_or(if status == 409 { RefusalKind::Conflict } else { RefusalKind::Server })
        }
        400 if has("invalid reference format") => RefusalKind::BadImageName,
        400 => RefusalKind::BadRequest,
        _ => RefusalKind::Server,
    }
}

/// The kinds of 409, some of which come as 500 from Podman and from older engines. The order matters: special
/// texts come before general ones.
fn conflict(text: &str) -> Option<RefusalKind> {
    let has = |part: &str| text.contains(part);
    if let Some(holder) = text.split_once("already in use by") {
        return Some(RefusalKind::NameInUse(container_id(holder.1)));
    }
    if has("cannot join") && has("non running container") {
        return Some(RefusalKind::SandboxNotRunning);
    }
    if has("has dependent containers") {
        return Some(RefusalKind::HasDependents);
    }
    if has("has dependent child images") {
        return Some(RefusalKind::HasChildren);
    }
    if has("removal of container") && has("already in progress") || has("marked for removal") {
        return Some(RefusalKind::RemovalInProgress);
    }
    if has("you cannot remove a")
        || has("cannot remove container") && has("container is running")
        || has("cannot be removed without force")
    {
        return Some(RefusalKind::StillRunning);
    }
    if has("referenced in multiple repositories") || has("by id with more than one tag") {
        return Some(RefusalKind::SeveralNames);
    }
    if has("is not running")
        || has("can only kill running containers")
        || has("can only create exec sessions on running containers")
    {
        return Some(RefusalKind::NotRunning);
    }
    None
}

/// The id after `… is already in use by`, quoted or not, with or without the word container.
fn container_id(text: &str) -> Option<String> {
    let word = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .find(|word| !word.is_empty() && *word != "container")?;
    // Podman may say "an external entity" instead, which is not a hexadecimal id.
    (word.len() >= 12 && word.bytes().all(|b| b.is_ascii_hexdigit())).then(|| word.to_owned())
}

/// runc and crun name the program they could not execute. The text for a missing namespace file or mount is
/// similar but not the command's fault, hence the second condition.
fn cannot_run(text: &str) -> bool {
    let has = |part: &str| text.contains(part);
    has("executable file not found")
        || has("exec: \"")
            && (has("no such file or directory")
                || has("permission denied")
                || has("is a directory")
                || has("exec format error"))
        || has("crun: ") && has("executable") && (has("not found in $path") || has("open executable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "d47b4e2ec17bca7b42729a645430eda068e3b4d9c4e90770a787708a4fd37c7b";

    fn check(status: u16, message: &str, expected: RefusalKind) {
        let message = message.replace("<ID>", ID);
        let body = serde_json::json!({ "message": message }).to_string();
        match refusal(status, body.as_bytes()) {
            DockerError::Refused(r) => {
                assert_eq!(r, Refusal { kind: expected, status, message }, "{status} {body}");
            }
            other => panic!("{status} {body}: {other:?}"),
        }
    }

    #[test]
    fn not_found() {
        check(404, "No such container: nosuch", RefusalKind::NoSuchContainer);
        check(404, "no such image: nosuch: No such image: nosuch:latest", RefusalKind::NoSuchImage);
        check(404, "No such image: busybox:none", RefusalKind::NoSuchImage);
        check(404, "No such exec instance: nosuch", RefusalKind::NotFound);
        check(404, "page not found", RefusalKind::NotFound);
        check(404, "network nosuch not found", RefusalKind::NotFound);
        // Podman
        check(
            404,
            "no container with name or ID \"x\" found: no such container",
            RefusalKind::NoSuchContainer,
        );
        check(404, "localhost/x: image not known", RefusalKind::NoSuchImage);
    }

    /// kubernetes/kubernetes#40443: a container that must be found first holds the name.
    #[test]
    fn k40443_name_conflict_names_its_holder() {
        let held = || RefusalKind::NameInUse(Some(ID.to_owned()));
        check(
            409,
            "Conflict. The container name \"/x\" is already in use by container \"<ID>\". You have to remove \
             (or rename) that container to be able to reuse that name.",
            held(),
        );
        check(409, "Conflict. The name \"/x\" is already in use by container <ID>. You have to …", held());
        for status in [409, 500] {
            check(
                status,
                "creating container storage: the container name \"x\" is already in use by <ID>. You have to \
                 remove that container to be able to reuse that name: that name is already in use",
                held(),
            );
        }
        check(
            500,
            "the container name \"x\" is already in use by an external entity: that name is already in use",
            RefusalKind::NameInUse(None),
        );
        check(409, "name is already in use by", RefusalKind::NameInUse(None));
    }

    #[test]
    fn a_log_that_is_not_kept() {
        for status in [500, 501] {
            check(status, "configured logging driver does not support reading", RefusalKind::LogNotKept);
        }
    }

    #[test]
    fn conflicts() {
        check(409, "Cannot kill container: x: Container <ID> is not running", RefusalKind::NotRunning);
        check(409, "Container <ID> is not running", RefusalKind::NotRunning);
        check(500, "Cannot kill container <ID>: Container <ID> is not running", RefusalKind::NotRunning);
        check(
            409,
            "can only kill running containers. <ID> is in state exited: container state improper",
            RefusalKind::NotRunning,
        );
        check(
            409,
            "can only create exec sessions on running containers: container state improper",
            RefusalKind::NotRunning,
        );
        check(409, "cannot join network of a non running container: <ID>", RefusalKind::SandboxNotRunning);
        check(409, "cannot join IPC of a non running container: <ID>", RefusalKind::SandboxNotRunning);
        check(
            409,
            "cannot join network namespace of a non running container: container /x is exited",
            RefusalKind::SandboxNotRunning,
        );
        let dependents = "container <ID> has dependent containers which must be removed before it: <ID>: container \
                          already exists";
        check(500, dependents, RefusalKind::HasDependents);
        check(409, "removal of container x is already in progress", RefusalKind::RemovalInProgress);
        check(409, "container is marked for removal and cannot be started", RefusalKind::RemovalInProgress);
        check(
            409,
            "You cannot remove a running container <ID>. Stop the container before attempting removal or \
             force remove",
            RefusalKind::StillRunning,
        );
        check(
            409,
            "cannot remove container \"/x\": container is running: stop the container before removing or \
             force remove",
            RefusalKind::StillRunning,
        );
        check(
            409,
            "cannot remove container x as it is running - running or paused containers cannot be removed \
             without force: container state improper",
            RefusalKind::StillRunning,
        );
        check(
            409,
            "conflict: unable to remove repository reference \"x\" (must force) - container 1 is using its \
             referenced image 2",
            RefusalKind::Conflict,
        );
    }

    #[test]
    fn images_with_several_names() {
        check(
            409,
            "conflict: unable to delete 4273cf3ad7a1 (must be forced) - image is referenced in multiple repositories",
            RefusalKind::SeveralNames,
        );
        check(
            409,
            "unable to delete image \"4273\" by ID with more than one tag ([a:1 b:1]): please force removal",
            RefusalKind::SeveralNames,
        );
        for used in [
            "(cannot be forced) - image is being used by running container 1",
            "(must be forced) - image is \
                     being used by stopped container 1",
        ] {
            check(409, &format!("conflict: unable to delete 4273cf3ad7a1 {used}"), RefusalKind::Conflict);
        }
        check(
            409,
            "conflict: unable to delete 4273cf3ad7a1 (cannot be forced) - image has dependent child images",
            RefusalKind::HasChildren,
        );
    }

    #[test]
    fn start_failures() {
        const OCI: &str = "failed to create shim task: OCI runtime create failed: runc create failed: unable \
                           to start container process: ";
        for status in [400, 404, 500] {
            check(
                status,
                &format!("{OCI}exec: \"nosuch\": executable file not found in $PATH: unknown"),
                RefusalKind::CannotRun,
            );
            check(
                status,
                &format!("{OCI}exec: \"/nosuch\": stat /nosuch: no such file or directory: unknown"),
                RefusalKind::CannotRun,
            );
            check(
                status,
                &format!("{OCI}exec: \"/etc/passwd\": permission denied: unknown"),
                RefusalKind::CannotRun,
            );
        }
        check(
            500,
            "crun: executable file `nosuch` not found in $PATH: No such file or directory: OCI runtime \
             attempted to invoke a command that was not found",
            RefusalKind::CannotRun,
        );
        check(
            500,
            &format!("{OCI}error during container init: open /proc/12/ns/net: no such file or directory"),
            RefusalKind::Server,
        );
        check(
            500,
            "driver failed programming external connectivity on endpoint x: Bind for 0.0.0.0:80 failed: port \
             is already allocated",
            RefusalKind::PortInUse,
        );
        check(
            500,
            "driver failed programming external connectivity on endpoint x: Error starting userland proxy: \
             listen tcp4 0.0.0.0:80: bind: address already in use",
            RefusalKind::PortInUse,
        );
        check(500, &format!("{OCI}can't get final child's PID from pipe: EOF"), RefusalKind::Server);
    }

    #[test]
    fn the_rest() {
        check(400, "invalid reference format: repository name must be lowercase", RefusalKind::BadImageName);
        check(400, "conflicting options: hostname and the network mode", RefusalKind::BadRequest);
        check(500, "no space left on device", RefusalKind::Server);
        check(503, "service unavailable", RefusalKind::Server);
        check(301, "moved", RefusalKind::Server);
    }

    #[test]
    fn version_texts() {
        let body = br#"{"message":"client version 1.99 is too new. Maximum supported API version is 1.41"}"#;
        let DockerError::Version(text) = refusal(400, body) else { panic!("not a version error") };
        assert!(text.contains("Maximum supported API version is 1.41"), "{text}");
        let body = br#"{"message":"client version 1.51 is too old. Minimum supported API version is 1.60"}"#;
        assert!(matches!(refusal(400, body), DockerError::Version(_)));
    }

    #[test]
    fn bodies_that_are_no_message() {
        let check = |body: &[u8], expected: &str| {
            let DockerError::Refused(r) = refusal(500, body) else { panic!("not refused") };
            assert_eq!(r.message, expected);
        };
        check(b"404 page not found\n", "404 page not found");
        check(b"", "Docker answered with HTTP status 500 and no message");
        check(b"{\"message\":\"\"}", "Docker answered with HTTP status 500 and no message");
        check(b"{\"message\":7}", "{\"message\":7}");
        check(b"{\"cause\":\"c\",\"message\":\"podman's\",\"response\":500}", "podman's");
        check(b"\xff", "\u{fffd}");
        let long = "é".repeat(limits::ERROR_MESSAGE + 5);
        check(long.as_bytes(), &"é".repeat(limits::ERROR_MESSAGE));
    }
}
