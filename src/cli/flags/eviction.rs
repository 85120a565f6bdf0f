//! Flags: what happens when the node runs short.

use super::Takes::{Duration, Text};
use super::{Flag, InFile, RUN, Section, put, value};
use crate::eviction::threshold::{grace_periods, no_grace, reclaims, thresholds};

pub type Values = crate::eviction::threshold::Options;

pub static SECTION: Section = Section {
    title: "Eviction",
    flags: &[
        Flag {
            name: "eviction-hard",
            takes: Text("SIGNAL<AMOUNT,...", |o, text| {
                thresholds(text, o.eviction.hard.get_or_insert_default())
            }),
            in_file: InFile::Map('<'),
            help: "Below these pods are evicted at once; empty for none; the kubelet's when not given",
            ..RUN
        },
        Flag {
            name: "eviction-soft",
            takes: Text("SIGNAL<AMOUNT,...", |o, text| thresholds(text, &mut o.eviction.soft)),
            in_file: InFile::Map('<'),
            help: "Below these for their grace period pods are evicted, and may take their time",
            rule: |o| o.eviction.without_grace().map(no_grace),
            ..RUN
        },
        Flag {
            name: "eviction-soft-grace-period",
            takes: Text("SIGNAL=DURATION,...", |o, text| grace_periods(text, &mut o.eviction.soft_grace)),
            help: "How long a soft threshold must be met; for each of them",
            ..RUN
        },
        Flag {
            name: "eviction-minimum-reclaim",
            takes: Text("SIGNAL=AMOUNT,...", |o, text| reclaims(text, &mut o.eviction.reclaim)),
            help: "How much more than its threshold must be there before a shortage is over",
            ..RUN
        },
        Flag {
            name: "eviction-pressure-transition-period",
            takes: Duration(|o, period| o.eviction.pressure_transition_period = period),
            default: "5m",
            help: "How long the node counts as short of something after it was seen so",
            ..RUN
        },
        Flag {
            name: "eviction-max-pod-grace-period",
            takes: Text("SECONDS", |o, text| put(&mut o.eviction.max_pod_grace, value::number(text))),
            default: "0",
            help: "Most time a pod gets to end at a soft threshold; negative for its own",
            ..RUN
        },
        Flag {
            name: "low-diskspace-threshold-mb",
            takes: Text("MIB", |o, text| put(&mut o.eviction.low_disk_space, value::count(text))),
            default: "0",
            help: "Below so many MiB of disk new pods are refused as OutOfDisk; 0 for never",
            ..RUN
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::sets;
    use super::*;
    use crate::eviction::signal::Signal;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("eviction-hard", "", |o| o.eviction.hard.as_ref().is_some_and(|hard| hard.is_empty())),
                ("eviction-soft", "pid.available<9", |o| o.eviction.without_grace() == Some(Signal::Pid)),
                ("eviction-soft-grace-period", "pid.available=9s", |o| o.eviction.soft_grace.len() == 1),
                ("eviction-minimum-reclaim", "pid.available=9", |o| o.eviction.reclaim.len() == 1),
                ("eviction-pressure-transition-period", "10s", |o| {
                    o.eviction.pressure_transition_period.as_secs() == 10
                }),
                ("eviction-max-pod-grace-period", "-1", |o| o.eviction.max_pod_grace == -1),
                ("low-diskspace-threshold-mb", "256", |o| o.eviction.low_disk_space == 256),
            ],
        );
    }
}
