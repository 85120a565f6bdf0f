//! The pages of metrics. Names, types and labels are the kubelet's and cAdvisor's, so that existing dashboards and
//! alerts work. Values that the kernel does not report are left out, never 0.

pub mod cadvisor;
mod node;
mod probes;
mod resource;
mod slis;
mod text;

use super::Node;
use crate::server::http::answer::Answer;

/// The page at this path below `/metrics`; `None` when there is none.
pub fn answer(at: &Node, rest: &str) -> Option<Answer> {
    match rest {
        "" => Some(node::page(at)),
        "cadvisor" => Some(cadvisor::page(at)),
        "probes" => Some(probes::page(&at.prober.tallies(), &at.pods.get())),
        "slis" => Some(slis::page(&at.checks.all())),
        "resource" => Some(resource::page(at)),
        _ => None,
    }
}
