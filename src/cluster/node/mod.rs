//! This node at an API server: the object, its status, its lease, and when each is sent. Pure.
//!
//! Upstream: `pkg/kubelet/kubelet_node_status.go`, `pkg/kubelet/nodestatus/setters.go`,
//! `component-helpers/apimachinery/lease/controller.go`. Never here: a clock, a socket, or a condition's text, which
//! comes from `daemon/turn`.

pub mod heart;
pub mod labels;
pub mod lease;
pub mod object;
pub mod status;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::base::json::json;
use serde_json::Value;

use crate::base::table::Table;
use crate::runtime::ImageSummary;

/// Settings of the node at the API server, from flags.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the node.
    pub name: String,
    /// `--register-node`: create the node object when it is missing.
    pub register: bool,
    /// `--register-with-taints`: taints of a new node.
    pub taints: Vec<Taint>,
    /// Port of the kubelet's server, when it listens.
    pub port: Option<u16>,
    /// The node can be reached at its addresses. A hollow node cannot: where a node tells no port of a kubelet, the server
    /// takes 10250, and at this machine's address that is the port of another node.
    pub is_reached: bool,
    /// `--node-status-update-frequency`: how often a changed status is sent.
    pub update: Duration,
    /// How often an unchanged status is sent.
    pub report: Duration,
    /// `--node-lease-duration-seconds`.
    pub lease: Duration,
    /// `--node-status-max-images`; `None`: all.
    pub images: Option<usize>,
}

impl Settings {
    /// The kubelet's defaults for this node.
    #[cfg(test)]
    #[must_use]
    pub fn of(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            register: true,
            taints: Vec::new(),
            port: None,
            is_reached: true,
            update: Duration::from_secs(10),
            report: Duration::from_secs(300),
            lease: Duration::from_secs(40),
            images: Some(50),
        }
    }
}

/// A taint of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, may be empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    pub effect: String,
}

/// Parses `key=value:Effect,key:Effect`, the syntax of `--register-with-taints`.
///
/// # Errors
/// The first invalid taint.
pub fn parse_taints(text: &str) -> Result<Vec<Taint>, String> {
    let taint = |text: &str| {
        let wrong = || format!("invalid taint spec: {text:?} is not KEY[=VALUE]:EFFECT");
        let (pair, effect) = text.rsplit_once(':').ok_or_else(wrong)?;
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if !matches!(effect, "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
            return Err(format!("invalid taint effect: {effect:?} in {text:?}"));
        }
        if key.is_empty() || key.contains(char::is_whitespace) || value.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned() })
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(taint).collect()
}

/// Images in the API's form: the largest first, at most `most`; names by digest first, then by tag. Includes the
/// sandbox image.
#[must_use]
pub fn images(list: &[ImageSummary], most: Option<usize>) -> Value {
    // Images of equal size need a stable order.
    let by_size: Table<(std::cmp::Reverse<u64>, &str), &ImageSummary> =
        list.iter().map(|image| ((std::cmp::Reverse(image.size), image.id.as_str()), image)).collect();
    let told = by_size.values().map(|image| {
        let names = image.digests.iter().chain(&image.tags).filter(|name| !name.contains("<none>"));
        let names: Vec<&String> = names.take(crate::base::limits::IMAGE_NAMES).collect();
        json!({ "names": names, "sizeBytes": image.size })
    });
    told.take(most.unwrap_or(usize::MAX)).collect()
}
