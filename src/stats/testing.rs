//! A directory with files like the kernel's.

use std::fs;
use std::path::PathBuf;

/// Removed when it is dropped.
pub struct Tree(PathBuf);

impl Tree {
    /// An empty one; `name` tells tests apart.
    pub fn new(name: &str) -> Tree {
        let path = crate::base::testing::temporary().join(format!("podkeeper-{name}-{}", std::process::id()));
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Tree(path)
    }

    pub fn root(&self) -> PathBuf {
        self.0.clone()
    }

    /// Writes a file, with its directories.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}
