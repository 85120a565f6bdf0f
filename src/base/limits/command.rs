//! Bounds of what a command line may ask for.

/// Bytes of a template of `-o jsonpath=` or of a column's path.
pub const TEMPLATE_BYTES: usize = 64 * 1024;
/// Ranges or filters of a template that stand in each other.
pub const TEMPLATE_DEPTH: usize = 16;
/// Steps of one path of a template.
pub const TEMPLATE_PATH: usize = 256;
/// Values that a template may look at.
pub const TEMPLATE_STEPS: usize = 2_000_000;
/// Bytes that a template may print.
pub const TEMPLATE_OUTPUT: usize = 64 * 1024 * 1024;
/// Columns of `-o custom-columns=`.
pub const TEMPLATE_COLUMNS: usize = 100;
