//! Flags: logging.

use super::Takes::Number;
use super::{Flag, RUN_HOLLOW, Section};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// 0 to 10, as in the kubelet.
    pub verbosity: u8,
}

pub static SECTION: Section = Section {
    title: "Logging",
    flags: &[Flag {
        name: "v",
        short: Some('v'),
        field: "verbosity",
        takes: Number("N", |o, level| {
            let level = u8::try_from(level).ok().filter(|level| *level <= 10);
            o.logging.verbosity = level.ok_or("must be between 0 and 10, inclusive")?;
            Ok(())
        }),
        default: "0",
        live: |_, _| true,
        ..RUN_HOLLOW
    }],
};

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(&SECTION, &[("v", "4", |o| o.logging.verbosity == 4)]);
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(&SECTION, &[("v", ["4", "5"], &["11", "-1", "x"])]);
    }
}
