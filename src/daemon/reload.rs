//! Settings that are read anew while the daemon runs (SIGHUP). Pure: `cli/` reads them, and the main loop puts them in
//! force.

use std::fmt;
use std::sync::Arc;

use crate::daemon::config::Config;
use crate::node::Node;
use crate::node::host::Host;
use crate::source::signature::GROUP;

/// What reading the settings anew came to, when they are others than those in force.
#[derive(Debug, Clone, PartialEq)]
pub enum Reload {
    /// They can be read.
    Read {
        /// All of them as they are written now.
        config: Arc<Config>,
        /// How much is logged.
        verbosity: u8,
        /// Names of flags whose values are in force from now on.
        now: Vec<&'static str>,
        /// Names of flags that have other values when the daemon is started anew.
        later: Vec<&'static str>,
    },
    /// They cannot, for this reason: nothing changes.
    Refused(String),
}

/// Reads the settings anew; `None` when they are those in force.
pub struct Reader(pub Box<dyn FnMut() -> Option<Reload> + Send>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}

/// What can change under a running daemon: it is read where it is used, each time, and by the main loop alone.
const LIVE: &[&str] = &[
    "v",
    "max-pods",
    "node-labels",
    "maximum-dead-containers",
    "shutdown-grace-period",
    "shutdown-grace-period-critical-pods",
];

/// Whether a flag's new value can be in force at once.
#[must_use]
pub fn is_live(flag: &str, old: &Config, new: &Config) -> bool {
    match flag {
        // Who may sign for this node was read at the start.
        "node-labels" => {
            old.sources.verifier.is_none() || old.node_labels.get(GROUP) == new.node_labels.get(GROUP)
        }
        _ => LIVE.contains(&flag),
    }
}

/// The settings in force, with those of `new` that [`is_live`] says can change.
#[must_use]
pub fn apply(old: &Config, new: &Config) -> Config {
    let mut config = old.clone();
    if is_live("node-labels", old, new) {
        config.node_labels.clone_from(&new.node_labels);
    }
    config.dead.in_all = new.dead.in_all;
    let host = &new.node.host;
    let (shutdown, shutdown_critical) = (host.shutdown, host.shutdown_critical);
    config.node = Arc::new(Node {
        max_pods: new.node.max_pods,
        host: Host { shutdown, shutdown_critical, ..old.node.host.clone() },
        ..Node::clone(&old.node)
    });
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::turn::tests::rig;

    #[test]
    fn what_can_change_changes_and_nothing_else() {
        let old = rig::config();
        let mut new = rig::config();
        new.node_labels.insert("site".to_owned(), "harbour".to_owned());
        new.dead.in_all = Some(7);
        new.root_dir = "/elsewhere".into();
        let mut node = Node { max_pods: 3, max_pids: Some(9), ..Node::default() };
        node.host.shutdown = std::time::Duration::from_secs(5);
        new.node = Arc::new(node);
        let got = apply(&old, &new);
        assert_eq!((got.node_labels.get("site"), got.dead.in_all), (new.node_labels.get("site"), Some(7)));
        assert_eq!((got.node.max_pods, got.node.max_pids), (3, old.node.max_pids));
        assert_eq!(got.node.host.shutdown.as_secs(), 5);
        assert_eq!(got.root_dir, old.root_dir);
        assert!(is_live("v", &old, &new) && !is_live("root-dir", &old, &new));
    }
}
