//! Settings of image pulls on this node.

use std::time::Duration;

use crate::manifest::pull_policy;

/// Settings of image pulls on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// `--image-pull-progress-deadline`: a pull without progress for this long is given up.
    pub deadline: Duration,
    /// Pulls at a time for pods of one source; one with `--serialize-image-pulls`.
    pub at_once: usize,
    /// `--registry-qps`: pulls that may begin per second; 0 for no limit.
    pub rate: u32,
    /// `--registry-burst`.
    pub burst: u32,
}

impl Default for Pace {
    /// The kubelet's defaults.
    fn default() -> Pace {
        Pace { deadline: Duration::from_secs(60), at_once: 1, rate: 5, burst: 10 }
    }
}

/// `imagePullPolicy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullPolicy {
    Always,
    IfNotPresent,
    Never,
}

impl PullPolicy {
    /// The policy as written, or the default for this image.
    #[must_use]
    pub fn of(written: Option<&str>, image: Option<&str>) -> PullPolicy {
        match written.unwrap_or_else(|| pull_policy(image.unwrap_or_default())) {
            "Always" => PullPolicy::Always,
            "Never" => PullPolicy::Never,
            _ => PullPolicy::IfNotPresent,
        }
    }
}
