//! Reasons and messages of failed pulls, in the kubelet's words (`pkg/kubelet/images/types.go`), and whether
//! the registry itself has answered. Pure.

use crate::base::table::Set;
use crate::pod::waiting::Reason;
use crate::runtime::{DockerError, RefusalKind};

/// Message when more pulls start than `--registry-qps` allows.
pub const OVER_RATE: &str = "pull QPS exceeded";

/// Reason and message of a failed pull for the container's status.
#[must_use]
pub fn explain(image: &str, why: &str) -> (Reason, String) {
    if why.contains("invalid reference format") {
        return (Reason::InvalidImageName, invalid_name(image, why));
    }
    // Docker's text for answers of a proxy whose registry is down.
    let down = ["502 Bad Gateway", "503 Service Unavailable", "504 Gateway Time"];
    if down.iter().any(|text| why.contains(text)) {
        let message = format!("image pull failed for {image} because the registry is unavailable: {why}");
        return (Reason::RegistryUnavailable, message);
    }
    (Reason::ErrImagePull, why.to_owned())
}

/// Message of [`Reason::InvalidImageName`]; `why` is Docker's.
#[must_use]
pub fn invalid_name(image: &str, why: &str) -> String {
    format!("Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: {why}")
}

/// Whether the registry itself refused: then an older copy must not be used instead, and another credential
/// may work. All other errors mean that it could not be asked (k3s-io/k3s#8781, kubeedge/kubeedge#4441).
#[must_use]
pub fn is_answer(error: &DockerError) -> bool {
    const ANSWERS: [&str; 7] = [
        "manifest unknown",
        "not found",
        "unauthorized",
        "denied",
        "no basic auth credentials",
        "no matching manifest",
        "invalid reference",
    ];
    match error {
        DockerError::Refused(refusal) => {
            let message = refusal.message.to_ascii_lowercase();
            // "server misbehaving ... not found" and similar texts come from a resolver, not a registry.
            let network = ["dial tcp", "lookup ", "no route", "timeout", "connection refused"];
            let asked = !network.iter().any(|n| message.contains(n));
            refusal.kind == RefusalKind::BadRequest || (asked && ANSWERS.iter().any(|a| message.contains(a)))
        }
        _ => false,
    }
}

/// Joins the messages of several tries: each once, in brackets if there are several.
#[must_use]
pub fn join(mut messages: Vec<String>) -> String {
    let mut seen = Set::new();
    messages.retain(|message| seen.insert(message.clone()));
    match messages.as_slice() {
        [one] => one.clone(),
        all => format!("[{}]", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let check = |why: &str, reason: Reason, message: &str| {
            assert_eq!(explain("x/y:1", why), (reason, message.to_owned()), "{why}");
        };
        check("manifest for x/y:1 not found", Reason::ErrImagePull, "manifest for x/y:1 not found");
        check(OVER_RATE, Reason::ErrImagePull, "pull QPS exceeded");
        check(
            "invalid reference format",
            Reason::InvalidImageName,
            "Failed to apply default image tag \"x/y:1\": couldn't parse image name \"x/y:1\": \
             invalid reference format",
        );
        check(
            "received unexpected HTTP status: 503 Service Unavailable",
            Reason::RegistryUnavailable,
            "image pull failed for x/y:1 because the registry is unavailable: \
             received unexpected HTTP status: 503 Service Unavailable",
        );
    }

    #[test]
    fn several_tries_are_one_message() {
        let words = |list: &[&str]| join(list.iter().map(|w| (*w).to_owned()).collect());
        assert_eq!(words(&["denied"]), "denied");
        assert_eq!(words(&["denied", "denied"]), "denied");
        assert_eq!(words(&["denied", "unauthorized"]), "[denied, unauthorized]");
    }
}
