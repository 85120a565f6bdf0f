//! Settings that are read anew while the daemon runs (SIGHUP). Pure: `cli/` reads them, knows of each flag whether its
//! value can change under a running daemon, and the main loop puts them in force.

use std::fmt;
use std::sync::Arc;

use crate::daemon::config::Config;

/// What reading the settings anew came to, when they are others than those in force.
#[derive(Debug, Clone, PartialEq)]
pub enum Reload {
    /// They can be read.
    Read {
        /// Those in force from now on: as they are written now, as far as they can change.
        config: Arc<Config>,
        /// How much is logged from now on; `None` when that is as before.
        verbosity: Option<u8>,
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
