//! Termination messages (upstream `pkg/kubelet/kuberuntime/kuberuntime_container.go`): their source and their
//! bounds. Pure, except for [`files`], the only part that uses the disk.
//!
//! Each instance of a container has its own file, `ROOT/pods/<uid>/containers/<name>/<8 hex>`, mounted at its
//! `terminationMessagePath`. The eight digits are the attempt, so that the labels determine the file and no
//! state is needed.
//!
//! The worker's thread creates the file just before the create is sent (if the disk refuses, the container
//! waits with `CreateContainerConfigError`), reads it when an end was inspected, and removes it with the
//! container. Only the status waits for the message, so that no end is shown without it.

pub mod files;

use std::path::{Path, PathBuf};

use crate::base::limits;
use crate::runtime::frames::Frames;

/// Whether the text can be a single name in a path.
pub(crate) fn is_one_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains(['/', '\0']) && part.len() <= 255
}

/// The file of one instance.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogFile {
    /// Pod UID.
    pub uid: String,
    /// Container name.
    pub container: String,
    /// Attempt of the container.
    pub attempt: u32,
}

impl LogFile {
    /// Parts below the root directory; `None` when a part cannot be a single name in a path. Labels may have
    /// any content, and a manifest may give any UID.
    #[must_use]
    pub fn parts(&self) -> Option<[String; 5]> {
        let name = format!("{:08x}", self.attempt);
        let words = ["pods", &self.uid, "containers", &self.container, &name].map(str::to_owned);
        words.iter().all(|word| is_one_name(word)).then_some(words)
    }

    /// Path on the host.
    #[must_use]
    pub fn path(&self, root: &Path) -> Option<PathBuf> {
        Some(self.parts()?.iter().fold(root.to_owned(), |path, part| path.join(part)))
    }
}

/// Path of the file in the container. A relative path starts at the root, as with the kubelet.
#[must_use]
pub fn target(path: &str) -> String {
    crate::layout::target(path)
}

/// The message in a file's last bytes.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    newest(bytes, limits::TERMINATION_FILE)
}

/// The message in the last lines of a log, as Docker sends them: framed, or raw with a terminal.
#[must_use]
pub fn log_text(body: &[u8]) -> String {
    let mut frames = Frames::new(false);
    let (mut rest, mut payload) = (body, Vec::new());
    loop {
        match frames.next(rest) {
            Ok(Some(piece)) => {
                let (seen, left) = rest.split_at(piece.used.min(rest.len()));
                payload
                    .extend_from_slice(seen.get(seen.len().saturating_sub(piece.len)..).unwrap_or_default());
                rest = left;
            }
            Ok(None) => return newest(&payload, limits::TERMINATION_LOG),
            Err(_) => return newest(body, limits::TERMINATION_LOG),
        }
    }
}

/// At most the last `most` bytes, as text of at most that length.
fn newest(bytes: &[u8], most: usize) -> String {
    let tail = bytes.get(bytes.len().saturating_sub(most)..).unwrap_or_default();
    let text = String::from_utf8_lossy(tail);
    // Bytes that are not UTF-8 take more room as text.
    let from = (0..=text.len()).find(|&at| text.is_char_boundary(at) && text.len() - at <= most);
    text.get(from.unwrap_or(0)..).unwrap_or_default().to_owned()
}

/// The runtime's message and the container's own, at most the first `most` bytes.
#[must_use]
pub fn joined(runtime: &str, own: &str, most: usize) -> Option<String> {
    let mut both = match (runtime, own) {
        ("", own) => own.to_owned(),
        (runtime, "") => runtime.to_owned(),
        (runtime, own) => format!("{runtime}: {own}"),
    };
    let end = (0..=most.min(both.len())).rev().find(|&at| both.is_char_boundary(at));
    both.truncate(end.unwrap_or(0));
    Some(both).filter(|text| !text.is_empty())
}

/// Bytes for the message of each container: the whole pod has 12 kB.
#[must_use]
pub fn share(containers: usize) -> usize {
    limits::TERMINATION_POD.checked_div(containers).unwrap_or(limits::TERMINATION_POD)
}

#[cfg(test)]
mod tests;
