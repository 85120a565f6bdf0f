//! Flags: log lines.

use super::Takes::Text;
use super::{Flag, RUN, Section, value};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    /// 0 to 10, as the kubelet has it.
    pub verbosity: u8,
}

pub static SECTION: Section = Section {
    title: "Logging",
    flags: &[Flag {
        name: "v",
        short: Some('v'),
        field: "verbosity",
        takes: Text("N", |o, text| {
            let level = u8::try_from(value::number(text)?).ok().filter(|level| *level <= 10);
            o.logging.verbosity = level.ok_or("must be between 0 and 10, inclusive")?;
            Ok(())
        }),
        default: "0",
        help: "Log more: 2 decisions, 4 everything",
        ..RUN
    }],
};

#[cfg(test)]
mod tests {
    use super::super::testing::sets;
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(&SECTION, &[("v", "4", |o| o.logging.verbosity == 4)]);
    }
}
