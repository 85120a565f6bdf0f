//! What outlives the daemon of a source: the contents that are in force, kept by somebody else.

/// What the server said of a version of its content: sent back to ask whether there is a newer one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`, as it came.
    pub etag: Option<String>,
    /// `Last-Modified`, as it came. It is compared by the server alone.
    pub last_modified: Option<String>,
}

impl Validators {
    /// There is nothing to ask with.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// One accepted content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// The body, as it came.
    pub bytes: Vec<u8>,
    /// The detached signature that came with it.
    pub signature: Option<Vec<u8>>,
    /// What to ask with.
    pub validators: Validators,
}

/// Remembers the accepted contents of one URL, in order. Called by the source's thread only; may write to
/// disk. It logs its own failures: that nothing could be remembered stops nothing.
pub trait Memory: Send {
    /// What is remembered, oldest first: the last one is the newest that was accepted. Called once.
    fn restore(&mut self) -> Vec<Remembered>;

    /// `newest` was accepted and goes to the end. Of what was remembered before, only the contents at the
    /// places `still` (ascending, 0 is the oldest) are in force beside it: the rest is forgotten.
    fn remember(&mut self, newest: &Remembered, still: &[usize]);
}

/// Remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Forgetful;

impl Memory for Forgetful {
    fn restore(&mut self) -> Vec<Remembered> {
        Vec::new()
    }

    fn remember(&mut self, _newest: &Remembered, _still: &[usize]) {}
}
