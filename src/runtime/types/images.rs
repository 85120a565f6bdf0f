//! Docker's data about images.

/// An inspect of an image.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageDetail {
    /// `sha256:…`.
    pub id: String,
    /// `RepoTags`.
    pub tags: Vec<String>,
    /// `RepoDigests`.
    pub digests: Vec<String>,
    /// Size in bytes.
    pub size: i64,
    /// `Config.User`.
    pub user: String,
    /// `Config.StopSignal`.
    pub stop_signal: Option<String>,
    /// Bytes of `Config` as JSON.
    pub configuration: usize,
    /// Labels, variables, words of commands and whatever else there are several of in `Config`.
    pub entries: usize,
    /// Paths of the volumes that `Config` declares: each container of the image gets its own.
    pub volumes: Vec<String>,
}

/// One entry of the list of images.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageSummary {
    /// `sha256:…`.
    pub id: String,
    /// `ParentId`: the image that it was made from on this engine; empty if there is none.
    pub parent: String,
    /// `RepoTags`.
    pub tags: Vec<String>,
    /// `RepoDigests`.
    pub digests: Vec<String>,
    /// Bytes of all its layers, including those shared with other images.
    pub size: u64,
    /// When it was built, in seconds of wall time; for printing.
    pub created: i64,
}

impl ImageSummary {
    /// All names: tags, then digests.
    pub fn names(&self) -> impl DoubleEndedIterator<Item = &String> {
        self.tags.iter().chain(&self.digests)
    }
}

/// The part of Docker's disk usage that no other call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskUsage {
    /// Bytes of the build cache that no build and no image uses.
    pub build_cache: u64,
}
