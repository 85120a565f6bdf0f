//! Flags: eviction of pods when the node runs short.

use super::Repeats::Adds;
use super::Takes::{Count, Duration, Map, Number};
use super::{Flag, InFile, RUN, Section, put};
use crate::eviction::threshold::{grace_periods, no_grace, reclaims, thresholds};

pub type Values = crate::eviction::threshold::Options;

pub static SECTION: Section = Section {
    title: "Eviction",
    flags: &[
        Flag {
            name: "eviction-hard",
            takes: Map("SIGNAL<AMOUNT,...", '<', |o, text| {
                thresholds(text, o.eviction.hard.get_or_insert_default())
            }),
            in_file: InFile::Map('<'),
            repeats: Adds,
            ..RUN
        },
        Flag {
            name: "eviction-soft",
            takes: Map("SIGNAL<AMOUNT,...", '<', |o, text| thresholds(text, &mut o.eviction.soft)),
            in_file: InFile::Map('<'),
            repeats: Adds,
            rule: |o| o.eviction.without_grace().map(no_grace),
            ..RUN
        },
        Flag {
            name: "eviction-soft-grace-period",
            takes: Map("SIGNAL=DURATION,...", '=', |o, text| grace_periods(text, &mut o.eviction.soft_grace)),
            repeats: Adds,
            ..RUN
        },
        Flag {
            name: "eviction-minimum-reclaim",
            takes: Map("SIGNAL=AMOUNT,...", '=', |o, text| reclaims(text, &mut o.eviction.reclaim)),
            repeats: Adds,
            ..RUN
        },
        Flag {
            name: "eviction-pressure-transition-period",
            takes: Duration(|o, period| o.eviction.pressure_transition_period = period),
            default: "5m",
            ..RUN
        },
        Flag {
            name: "eviction-max-pod-grace-period",
            takes: Number("SECONDS", |o, seconds| put(&mut o.eviction.max_pod_grace, Ok(seconds))),
            default: "0",
            ..RUN
        },
        Flag {
            name: "low-diskspace-threshold-mb",
            takes: Count("MIB", |o, size| o.eviction.low_disk_space = size),
            default: "0",
            ..RUN
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;
    use crate::eviction::signal::Signal;
    use crate::eviction::threshold::Amount;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("eviction-hard", "", |o| o.eviction.hard.as_ref().is_some_and(|hard| hard.is_empty())),
                ("eviction-soft", "pid.available<9", |o| o.eviction.without_grace() == Some(Signal::Pid)),
                ("eviction-soft-grace-period", "pid.available=9s", |o| {
                    o.eviction.soft_grace == [(Signal::Pid, std::time::Duration::from_secs(9))].into()
                }),
                ("eviction-minimum-reclaim", "pid.available=9", |o| {
                    o.eviction.reclaim == [(Signal::Pid, Amount::Units(9))].into()
                }),
                ("eviction-pressure-transition-period", "10s", |o| {
                    o.eviction.pressure_transition_period.as_secs() == 10
                }),
                ("eviction-max-pod-grace-period", "-1", |o| o.eviction.max_pod_grace == -1),
                ("low-diskspace-threshold-mb", "256", |o| o.eviction.low_disk_space == 256),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("eviction-hard", ["pid.available<9", "memory.available<9Mi"], &["pid.available=9"]),
                ("eviction-soft", ["pid.available<9", "memory.available<9Mi"], &["pid.available=9"]),
                (
                    "eviction-soft-grace-period",
                    ["pid.available=9s", "memory.available=9s"],
                    &["pid.available=-9s", "pid.available"],
                ),
                (
                    "eviction-minimum-reclaim",
                    ["pid.available=9", "memory.available=9"],
                    &["pid.available=-9", "pid.available"],
                ),
                ("eviction-max-pod-grace-period", ["7", "8"], &["7s"]),
            ],
        );
    }
}
