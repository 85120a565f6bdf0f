//! Thresholds: at which amount of a signal something has to be done, and how they are written
//! (`pkg/kubelet/eviction/helpers.go`, `ParseThresholdConfig`).

use std::time::Duration;

use super::signal::Signal;
use crate::base::table::Table;
use crate::base::{duration, quantity};
use crate::pod::allocatable::Allocatable;

/// An amount of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// So many bytes, inodes or processes.
    Units(u64),
    /// A part of the capacity, thousandths of a percent.
    Part(u32),
}

impl Amount {
    /// The amount, when there are `capacity` in all.
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
    /// What is watched.
    pub signal: Signal,
    /// It is met while less than this is there.
    pub value: Amount,
    /// How long it must have been met; none for a hard threshold.
    pub grace: Duration,
    /// Once met, it stays so until this much more than `value` is there.
    pub reclaim: Option<Amount>,
}

impl Threshold {
    /// Pods have no say in how long they may take.
    #[must_use]
    pub fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }
}

/// What is said of signals, by signal.
pub type Amounts = Table<Signal, Amount>;

/// What is decided by flags, as given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// `--eviction-hard`; `None` for the kubelet's default, of which nothing is left once anything is given.
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
    /// `--low-diskspace-threshold-mb`, MiB; 0 for none.
    pub low_disk_space: u32,
}

/// What is decided by flags, together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// By order of signals, hard ones first.
    pub thresholds: Vec<Threshold>,
    /// The node is told to be short of something for so long after it was last seen so.
    pub pressure_transition_period: Duration,
    /// Most seconds that a pod gets at a soft threshold.
    pub max_pod_grace: u32,
    /// While less than so many bytes of the root directory's file system, or of Docker's, are left, no pod is admitted;
    /// 0 for always.
    pub low_disk_space: u64,
}

impl Settings {
    /// Nothing is watched, and no pod is evicted.
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

/// What is left of the node's memory and disk when pods are evicted at once (upstream
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
    /// Soft thresholds have a time for which they must have been met.
    #[must_use]
    pub fn without_grace(&self) -> Option<Signal> {
        self.soft.keys().copied().find(|signal| !self.soft_grace.contains_key(signal))
    }

    /// What the flags say together.
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
        // Where the cgroup of all pods has a limit of its own, it is watched like the node.
        if let Some(value) = hard.get(&Signal::Memory)
            && !hard.contains_key(&Signal::AllocatableMemory)
        {
            let of_node = threshold(Signal::Memory, *value, Duration::ZERO);
            thresholds.push(Threshold { signal: Signal::AllocatableMemory, ..of_node });
        }
        Ok(Settings {
            thresholds,
            pressure_transition_period: self.pressure_transition_period,
            // Negative: the pod's own, which is the most it ever gets.
            max_pod_grace: u32::try_from(self.max_pod_grace).unwrap_or(u32::MAX),
            low_disk_space: u64::from(self.low_disk_space) << 20,
        })
    }
}

/// What is wrong with a soft threshold.
#[must_use]
pub fn no_grace(signal: Signal) -> String {
    format!("grace period must be specified for the soft eviction threshold {signal}")
}

/// `SIGNAL<AMOUNT,...` of `--eviction-hard` and `--eviction-soft`, into `amounts`.
///
/// # Errors
/// The kubelet's words about the first part that is wrong.
pub fn thresholds(text: &str, amounts: &mut Amounts) -> Result<(), String> {
    for (name, text) in pairs(text, '<')? {
        let signal = Signal::parse(name)?;
        if matches!(text, "0%" | "100%") {
            // The kubelet takes it for none at all.
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

/// `SIGNAL=AMOUNT,...` of `--eviction-minimum-reclaim`, into `amounts`.
///
/// # Errors
/// The kubelet's words about the first part that is wrong.
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

/// `SIGNAL=DURATION,...` of `--eviction-soft-grace-period`, into `periods`.
///
/// # Errors
/// The kubelet's words about the first part that is wrong.
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

/// `KEY<VALUE,KEY<VALUE`, each part without spaces around it.
fn pairs<'a>(text: &'a str, between: char) -> Result<Vec<(&'a str, &'a str)>, String> {
    let parts = text.split(',').filter(|part| !part.trim().is_empty());
    let pair = |part: &'a str| part.split_once(between).map(|(key, value)| (key.trim(), value.trim()));
    let malformed = |part: &str| format!("malformed pair, expect string{between}string: {part:?}");
    parts.map(|part| pair(part).ok_or_else(|| malformed(part))).collect()
}

/// Thousandths of a percent.
fn percent(number: &str) -> Result<i64, String> {
    let plain = number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+'));
    let value = if plain { quantity::milli(number).ok() } else { None };
    value.ok_or_else(|| format!("parsing {number:?}: a number is wanted before the %"))
}

fn units(text: &str) -> Result<i64, String> {
    quantity::value(text).map_err(|error| format!("quantity {text:?} {error}, or a percentage"))
}

#[cfg(test)]
mod tests;
