//! CPU requests and limits in the numbers of cgroup version 1, which Docker takes too (upstream
//! `pkg/kubelet/cm/helpers_linux.go`). Pure.

/// Length of a CPU quota period, microseconds.
pub const PERIOD: i64 = 100_000;
/// Docker's and the kernel's smallest quota, microseconds.
const QUOTA_MIN: i64 = 1000;
/// The kernel's smallest weight, and that of a container that requests nothing.
pub const SHARES_MIN: i64 = 2;
/// The kernel's largest weight.
const SHARES_MAX: i64 = 262_144;

/// CPU time in microseconds per period, for thousandths of a CPU.
#[must_use]
pub fn quota(milli: i64) -> i64 {
    // Period / 1000 is whole, so this is exact, and saturates only far beyond any machine's CPUs.
    milli.saturating_mul(PERIOD / 1000).max(QUOTA_MIN)
}

/// CPU weight, for thousandths of a CPU.
#[must_use]
pub fn shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(SHARES_MIN, SHARES_MAX)
}
