//! What the daemon before this one has written to the status file.
//!
//! Never here: a reason not to start. What runs goes on without it.

use std::path::Path;

use super::turn::Earlier;
use crate::status::file::{self, ReadError};

/// Reads it; of a file that cannot be read nothing is known, and the log says so.
pub fn read(run_dir: &Path) -> Earlier {
    match file::read(run_dir) {
        Ok(read) => Earlier::of(read.file),
        // It does not outlive a boot.
        Err(ReadError::Missing(_)) => Earlier::default(),
        Err(why) => {
            log::error!(
                "{why}; what runs goes on, but it is not known which pods were evicted, and which version of a pod ran \
                 while a newer one waits"
            );
            Earlier::default()
        }
    }
}
