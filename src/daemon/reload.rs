//! Settings that are read again while the daemon runs (SIGHUP). Pure: `cli/` reads them and knows for each flag
//! whether its value can change in a running daemon; the main loop applies them.

use std::fmt;
use std::sync::Arc;

use crate::daemon::config::Config;

/// The result of reading the settings again, when they differ from those in force.
#[derive(Debug, Clone, PartialEq)]
pub enum Reload {
    /// The settings can be read.
    Read {
        /// The settings in force from now on: the new values of all flags that can change.
        config: Arc<Config>,
        /// The new log level; `None` when it is unchanged.
        verbosity: Option<u8>,
        /// Names of flags whose new values are in force from now on.
        now: Vec<&'static str>,
        /// Names of flags whose new values need a restart of the daemon.
        later: Vec<&'static str>,
    },
    /// The settings cannot be read, for this reason: nothing changes.
    Refused(String),
}

/// Reads the settings again; `None` when they are the ones in force.
pub struct Reader(pub Box<dyn FnMut() -> Option<Reload> + Send>);

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reader")
    }
}
