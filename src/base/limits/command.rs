//! Bounds of command-line requests.

/// Bytes of a template of `-o jsonpath=` or of a column's path.
pub const TEMPLATE_BYTES: usize = 64 * 1024;
/// Nesting depth of ranges and filters in a template.
pub const TEMPLATE_DEPTH: usize = 16;
/// Steps of one path of a template.
pub const TEMPLATE_PATH: usize = 256;
/// Values that a template may look at.
pub const TEMPLATE_STEPS: usize = 2_000_000;
/// Bytes that a template may print.
pub const TEMPLATE_OUTPUT: usize = 64 * 1024 * 1024;
/// Columns of `-o custom-columns=`.
pub const TEMPLATE_COLUMNS: usize = 100;

/// Links that a path of `podkeeper cp` may follow, as in the kernel.
pub const COPY_LINKS: usize = 40;
/// Parts of a path of `podkeeper cp`.
pub const COPY_PARTS: usize = 256;
/// Nesting depth of directories that `podkeeper cp` copies: each costs four descriptors.
pub const COPY_DEPTH: usize = 200;
/// Files that one `podkeeper cp` copies.
pub const COPY_ENTRIES: u64 = 4_000_000;
/// Bytes that are copied of a file with a size of zero, such as the kernel's files.
pub const COPY_UNSIZED: u64 = 4 * 1024 * 1024;
/// Bytes that are read of the kernel's files about a process.
pub const COPY_PROCESS: usize = 64 * 1024;
