//! Thresholds: the amount of a signal at which podkeeper has to act, and their syntax
//! (`pkg/kubelet/eviction/helpers.go`, `ParseThresholdConfig`).

use std::time::Duration;

use super::signal::Signal;
use crate::base::table::Table;
use crate::base::{duration, quantity};
use crate::pod::allocatable::Allocatable;

/// An amount of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A number of bytes, inodes or processes.
    Units(u64),
    /// A part of the capacity, thousandths of a percent.
    Part(u32),
}

impl Amount {
    /// The amount for a total of `capacity`.
    #[must_use]
    pub fn of(self, capacity: u64) -> u64 {
        match self {
            Amount::Units(amount) => amount,
            Amount::Part(part) => {
                u64::try_from(u128::from(capacity) * u128::from(part) / 100_000).unwrap_or(u64::MAX)
            }
        }
    }
}

/// When to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// The watched signal.
    pub signal: Signal,
    /// The threshold is met while less than this is available.
    pub value: Amount,
    /// How long it must have been met; zero for a hard threshold.
    pub grace: Duration,
    /// Once met, it stays met until this much more than `value` is available.
    pub reclaim: Option<Amount>,
}

impl Threshold {
    /// Whether pods have no influence on their grace period.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// Amounts by signal.
pub type Amounts = Table<Signal, Amount>;

/// Values of the flags, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--eviction-hard`; `None` for the kubelet's default, which is dropped entirely if any value is given.
    pub hard: Option<Amounts>,
    /// `--eviction-soft`.
    pub soft: Amounts,
    /// `--eviction-soft-grace-period`.
    pub soft_grace: Table<Signal, Duration>,
    /// `--eviction-minimum-reclaim`.
    pub reclaim: Amounts,
    /// `--eviction-pressure-transition-period`.
    pub pressure_transition_period: Duration,
    /// `--eviction-max-pod-grace-period`, seconds; negative: the pod's own.
    pub max_pod_grace: i64,
    /// `--low-diskspace-threshold-mb`, MiB; 0 for off.
    pub low_disk_space: u32,
}

/// Settings from all flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// In the order of signals, hard ones first.
    pub thresholds: Vec<Threshold>,
    /// How long the node is still reported short after it was last seen short.
    pub pressure_transition_period: Duration,
    /// Longest grace period in seconds at a soft threshold.
    pub max_pod_grace: u32,
    /// While less than this many bytes of the file system of the root directory, or of Docker's, are left, no pod is
    /// admitted; 0 to always admit.
    pub low_disk_space: u64,
}

impl Settings {
    /// Settings with which nothing is watched and no pod is evicted.
    #[must_use]
    pub fn none() -> Settings {
        Settings {
            thresholds: Vec::new(),
            pressure_transition_period: Duration::from_secs(300),
            max_pod_grace: 0,
            low_disk_space: 0,
        }
    }

    /// Thresholds that no pod is evicted for: those of `--low-diskspace-threshold-mb`.
    #[must_use]
    pub fn of_admission(&self) -> Vec<Threshold> {
        let value = Amount::Units(self.low_disk_space);
        let threshold = |signal| Threshold { signal, value, grace: Duration::ZERO, reclaim: None };
        let signals = [Signal::NodeFs, Signal::ImageFs].into_iter().filter(|_| self.low_disk_space > 0);
        signals.map(threshold).collect()
    }
}

/// The node's memory and disk at which pods are evicted at once (upstream
/// `pkg/kubelet/cm/node_container_manager_linux.go`, `hardEvictionReservation`).
#[must_use]
pub fn evicted_below(thresholds: &[Threshold], capacity: Allocatable) -> Allocatable {
    let of = |signal: Signal, capacity: i64| {
        let hard = thresholds.iter().filter(|t| t.signal == signal && t.grace.is_zero());
        let amount = hard.map(|t| t.value.of(u64::try_from(capacity).unwrap_or(0))).max().unwrap_or(0);
        i64::try_from(amount).unwrap_or(i64::MAX)
    };
    Allocatable {
        milli_cpu: 0,
        memory: of(Signal::Memory, capacity.memory),
        ephemeral_storage: of(Signal::NodeFs, capacity.ephemeral_storage),
    }
}

/// `pkg/kubelet/apis/config/v1beta1/defaults_linux.go`.
const HARD: &[(Signal, Amount)] = &[
    (Signal::Memory, Amount::Units(100 << 20)),
    (Signal::NodeFs, Amount::Part(10_000)),
    (Signal::NodeFsInodes, Amount::Part(5_000)),
    (Signal::ImageFs, Amount::Part(15_000)),
    (Signal::ImageFsInodes, Amount::Part(5_000)),
];

impl Options {
    /// The first soft threshold without a grace period.
    #[must_use]
    pub fn without_grace(&self) -> Option<Signal> {
        self.soft.keys().copied().find(|signal| !self.soft_grace.contains_key(signal))
    }

    /// Settings from the flags.
    ///
    /// # Errors
    /// The kubelet's sentence about a soft threshold without its grace period.
    pub fn settings(&self) -> Result<Settings, String> {
        if let Some(signal) = self.without_grace() {
            return Err(no_grace(signal));
        }
        let by_default = || Table::from_iter(HARD.iter().copied());
        let hard = self.hard.clone().unwrap_or_else(by_default);
        let threshold = |signal: Signal, value: Amount, grace: Duration| Threshold {
            signal,
            value,
            grace,
            reclaim: self.reclaim.get(&signal).copied(),
        };
        let mut thresholds: Vec<Threshold> =
            hard.iter().map(|(signal, value)| threshold(*signal, *value, Duration::ZERO)).collect();
        for (signal, value) in &self.soft {
            let grace = self.soft_grace.get(signal).copied().unwrap_or_default();
            thresholds.push(threshold(*signal, *value, grace));
        }
        // If the cgroup of all pods has its own limit, it is watched like the node.
        if let Some(value) = hard.get(&Signal::Memory)
            && !hard.contains_key(&Signal::AllocatableMemory)
        {
            let of_node = threshold(Signal::Memory, *value, Duration::ZERO);
            thresholds.push(Threshold { signal: Signal::AllocatableMemory, ..of_node });
        }
        Ok(Settings {
            thresholds,
            pressure_transition_period: self.pressure_transition_period,
            // Negative: the pod's own grace period, which is always the upper bound.
            max_pod_grace: u32::try_from(self.max_pod_grace).unwrap_or(u32::MAX),
            low_disk_space: u64::from(self.low_disk_space) << 20,
        })
    }
}

/// The error of a soft threshold without a grace period.
#[must_use]
pub fn no_grace(signal: Signal) -> String {
    format!("grace period must be specified for the soft eviction threshold {signal}")
}

/// Parses `SIGNAL<AMOUNT,...` of `--eviction-hard` and `--eviction-soft` into `amounts`.
///
/// # Errors
/// The kubelet's words about the first wrong part.
pub fn thresholds(text: &str, amounts: &mut Amounts) -> Result<(), String> {
    for (name, text) in pairs(text, '<')? {
        let signal = Signal::parse(name)?;
        if matches!(text, "0%" | "100%") {
            // The kubelet treats this as no threshold.
            signal.map(|signal| amounts.remove(&signal));
            continue;
        }
        let value = match text.strip_suffix('%') {
            Some(number) => match percent(number)? {
                part if part < 0 => {
                    return Err(format!("eviction percentage threshold {name} must be >= 0%: {text}"));
                }
                part => match u32::try_from(part).ok().filter(|part| *part <= 100_000) {
                    Some(part) => Amount::Part(part),
                    None => {
                        return Err(format!("eviction percentage threshold {name} must be <= 100%: {text}"));
                    }
                },
            },
            None => match units(text)? {
                amount if amount > 0 => Amount::Units(amount.unsigned_abs()),
                _ => return Err(format!("eviction threshold {name} must be positive: {text}")),
            },
        };
        signal.map(|signal| amounts.insert(signal, value));
    }
    Ok(())
}

/// Parses `SIGNAL=AMOUNT,...` of `--eviction-minimum-reclaim` into `amounts`.
///
/// # Errors
/// The kubelet's words about the first wrong part.
pub fn reclaims(text: &str, amounts: &mut Amounts) -> Result<(), String> {
    for (name, text) in pairs(text, '=')? {
        let signal = Signal::parse(name)?;
        let value = match text.strip_suffix('%') {
            Some(number) => match u32::try_from(percent(number)?).ok().filter(|part| *part > 0) {
                Some(part) => Amount::Part(part),
                None => {
                    return Err(format!(
                        "eviction percentage minimum reclaim {name} must be positive: {text}"
                    ));
                }
            },
            None => match u64::try_from(units(text)?) {
                Ok(amount) => Amount::Units(amount),
                Err(_) => return Err(format!("negative eviction minimum reclaim specified for {name}")),
            },
        };
        signal.map(|signal| amounts.insert(signal, value));
    }
    Ok(())
}

/// Parses `SIGNAL=DURATION,...` of `--eviction-soft-grace-period` into `periods`.
///
/// # Errors
/// The kubelet's words about the first wrong part.
pub fn grace_periods(text: &str, periods: &mut Table<Signal, Duration>) -> Result<(), String> {
    for (name, text) in pairs(text, '=')? {
        let signal = Signal::parse(name)?;
        if text.starts_with('-') {
            return Err(format!("invalid eviction grace period specified: {text}, must be a positive value"));
        }
        let period = duration::duration(text)?;
        signal.map(|signal| periods.insert(signal, period));
    }
    Ok(())
}

/// Parses `KEY<VALUE,KEY<VALUE`, each part without spaces around it.
fn pairs<'a>(text: &'a str, between: char) -> Result<Vec<(&'a str, &'a str)>, String> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pair = |part: &'a str| part.split_once(between).map(|(key, value)| (key.trim(), value.trim()));
    let malformed = |part: &str| format!("malformed pair, expect string{between}string: {part:?}");
    parts.map(|part| pair(part).ok_or_else(|| malformed(part))).collect()
}

/// Parses a percentage into thousandths of a percent.
fn percent(number: &str) -> Result<i64, String> {
    let plain = number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'));
    let value = if plain && quantity::has_digits(number) { quantity::milli(number).ok() } else { None };
    value.ok_or_else(|| format!("parsing {number:?}: a number is wanted before the %"))
}

fn units(text: &str) -> Result<i64, String> {
    quantity::written(text).map_err(|error| format!("quantity {text:?} {error}, or a percentage"))
}

#[cfg(test)]
mod tests;
