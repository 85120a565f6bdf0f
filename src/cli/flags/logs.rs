//! Flags of `logs`.

use std::time;

use super::Takes::{Count, Duration, Number, Switch, Text};
use super::{Flag, Section, Verb, of_verbs};
use crate::base::clock::Timestamp;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub all_containers: bool,
    pub follow: bool,
    pub previous: bool,
    pub timestamps: bool,
    pub prefix: bool,
    /// Lines; `None` when not given.
    pub tail: Option<i64>,
    pub since: time::Duration,
    pub since_time: Option<Timestamp>,
    /// Bytes of each container; `None` for all.
    pub limit_bytes: Option<u64>,
    /// Number of containers followed at once.
    pub max_log_requests: u32,
}

const LOGS: Flag = of_verbs(&[Verb::Logs]);

pub static SECTION: Section = Section {
    title: "Flags",
    flags: &[
        Flag { name: "all-containers", takes: Switch(|o, on| o.logs.all_containers = on), ..LOGS },
        Flag { name: "follow", short: Some('f'), takes: Switch(|o, on| o.logs.follow = on), ..LOGS },
        Flag { name: "previous", short: Some('p'), takes: Switch(|o, on| o.logs.previous = on), ..LOGS },
        Flag { name: "timestamps", short: Some('t'), takes: Switch(|o, on| o.logs.timestamps = on), ..LOGS },
        Flag { name: "prefix", takes: Switch(|o, on| o.logs.prefix = on), ..LOGS },
        Flag {
            name: "tail",
            takes: Number("N", |o, lines| {
                let lines = Some(lines).filter(|lines| *lines >= -1);
                o.logs.tail = Some(lines.ok_or("must be greater than or equal to -1")?);
                Ok(())
            }),
            ..LOGS
        },
        Flag { name: "since", takes: Duration(|o, time| o.logs.since = time), default: "0s", ..LOGS },
        Flag {
            name: "since-time",
            takes: Text("TIME", |o, text| {
                let time = text.parse().map_err(|_| "not a time as in 2026-01-02T03:04:05Z (RFC 3339)")?;
                o.logs.since_time = Some(time);
                Ok(())
            }),
            ..LOGS
        },
        Flag {
            name: "limit-bytes",
            takes: Number("BYTES", |o, bytes| {
                let bytes = u64::try_from(bytes).map_err(|_| "must not be negative")?;
                o.logs.limit_bytes = Some(bytes).filter(|bytes| *bytes > 0);
                Ok(())
            }),
            ..LOGS
        },
        Flag {
            name: "max-log-requests",
            takes: Count("N", |o, number| o.logs.max_log_requests = number),
            default: "5",
            ..LOGS
        },
    ],
};

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("all-containers", "true", |o| o.logs.all_containers),
                ("follow", "true", |o| o.logs.follow),
                ("previous", "true", |o| o.logs.previous),
                ("timestamps", "true", |o| o.logs.timestamps),
                ("prefix", "true", |o| o.logs.prefix),
                ("tail", "3", |o| o.logs.tail == Some(3)),
                ("since", "3s", |o| o.logs.since.as_secs() == 3),
                ("since-time", "2026-01-02T03:04:05Z", |o| {
                    o.logs.since_time.is_some_and(|time| time.to_string() == "2026-01-02T03:04:05Z")
                }),
                ("limit-bytes", "3", |o| o.logs.limit_bytes == Some(3)),
                ("max-log-requests", "3", |o| o.logs.max_log_requests == 3),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("tail", ["3", "4"], &["-2", "x"]),
                ("since-time", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"], &["yesterday"]),
                ("limit-bytes", ["3", "4"], &["-1", "x"]),
            ],
        );
    }
}
