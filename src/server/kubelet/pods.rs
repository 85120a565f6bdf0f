//! `/pods`: the pods that the node shall run, with how they are.

use super::Node;
use crate::network::address;
use crate::server::http::answer::{Answer, JSON};
use crate::status::file;

/// The desired pods, as a `PodList`.
pub fn desired(node: &Node) -> Answer {
    let addresses = address::of_node(&node.node_ips);
    Answer::new(200, JSON, file::pod_list(&node.pods.get(), &addresses))
}
