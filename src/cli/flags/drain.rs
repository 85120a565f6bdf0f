//! Flags of `drain` and `resume`.

use std::time;

use super::Takes::{Duration, Seconds, Switch};
use super::{Flag, Section, Verb, of_verbs};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// Seconds.
    pub grace: Option<u32>,
    pub timeout: time::Duration,
    pub until_reboot: bool,
    pub shutdown: bool,
}

const DRAIN: Flag = of_verbs(&[Verb::Drain]);

pub static SECTION: Section = Section {
    title: "Flags",
    flags: &[
        Flag { name: "grace", takes: Seconds(|o, seconds| o.drain.grace = Some(seconds)), ..DRAIN },
        Flag { name: "timeout", takes: Duration(|o, time| o.drain.timeout = time), default: "5m", ..DRAIN },
        Flag { name: "until-reboot", takes: Switch(|o, on| o.drain.until_reboot = on), ..DRAIN },
        Flag {
            name: "shutdown",
            takes: Switch(|o, on| o.drain.shutdown = on),
            ..of_verbs(&[Verb::Drain, Verb::Resume])
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
                ("grace", "3", |o| o.drain.grace == Some(3)),
                ("timeout", "3s", |o| o.drain.timeout.as_secs() == 3),
                ("until-reboot", "true", |o| o.drain.until_reboot),
                ("shutdown", "true", |o| o.drain.shutdown),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(&SECTION, &[]);
    }
}
