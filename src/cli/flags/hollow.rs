//! Flags: hollow nodes.

use super::Repeats::Adds;
use super::Takes::{Map, Number, Text};
use super::{Flag, Section, Verb, of_verbs, value};
use crate::base::limits;
use crate::node::parse_reserved;
use crate::pod::allocatable::Allocatable;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub count: u32,
    pub name_prefix: String,
    pub capacity: Allocatable,
    /// Calls per second of all nodes together, at least one.
    pub qps: u32,
}

const HOLLOW: Flag = of_verbs(&[Verb::Hollow]);

/// A number from 1 to this.
fn up_to(most: u32, number: i64) -> Result<u32, String> {
    let fits = u32::try_from(number).ok().filter(|number| (1..=most).contains(number));
    fits.ok_or_else(|| format!("must be between 1 and {most}, inclusive"))
}

/// Replaces the resources that the text has.
fn replace(all: &mut Allocatable, text: &str) -> Result<(), String> {
    let given = parse_reserved(text)?;
    for (given, value) in [
        (given.milli_cpu, &mut all.milli_cpu),
        (given.memory, &mut all.memory),
        (given.ephemeral_storage, &mut all.ephemeral_storage),
    ] {
        if given > 0 {
            *value = given;
        }
    }
    Ok(())
}

pub static SECTION: Section = Section {
    title: "Hollow nodes",
    flags: &[
        Flag {
            name: "count",
            takes: Number("N", |o, n| {
                o.hollow.count = up_to(limits::HOLLOW_NODES, n)?;
                Ok(())
            }),
            default: "1",
            ..HOLLOW
        },
        Flag {
            name: "name-prefix",
            takes: Text("TEXT", |o, text| {
                if !value::is_dns_subdomain(&format!("{text}999")) {
                    return Err("must begin an RFC 1123 subdomain".to_owned());
                }
                o.hollow.name_prefix = text.to_owned();
                Ok(())
            }),
            default: "hollow-",
            ..HOLLOW
        },
        Flag {
            name: "node-capacity",
            takes: Map("RESOURCE=N,...", '=', |o, text| replace(&mut o.hollow.capacity, text)),
            default: "cpu=1,memory=3840Mi,ephemeral-storage=100Gi",
            repeats: Adds,
            ..HOLLOW
        },
        Flag {
            name: "kube-api-qps",
            takes: Number("N", |o, n| {
                o.hollow.qps = up_to(u32::MAX, n)?;
                Ok(())
            }),
            default: "500",
            ..HOLLOW
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
                ("count", "200", |o| o.hollow.count == 200),
                ("name-prefix", "load-a", |o| o.hollow.name_prefix == "load-a"),
                ("node-capacity", "cpu=4", |o| {
                    let Allocatable { milli_cpu, memory, ephemeral_storage } = o.hollow.capacity;
                    (milli_cpu, memory, ephemeral_storage) == (4000, 3840 << 20, 100 << 30)
                }),
                ("kube-api-qps", "20", |o| o.hollow.qps == 20),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("count", ["1", "2"], &["0", "1001", "-1", "x"]),
                ("name-prefix", ["a", "b"], &["A", "a b", "-"]),
                ("node-capacity", ["cpu=2", "memory=1Gi"], &["x", "pods=1"]),
                ("kube-api-qps", ["1", "2"], &["0", "x"]),
            ],
        );
    }
}
