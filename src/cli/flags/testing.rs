//! Shared by the tests of all sections.

use std::ffi::OsStr;

use super::{Options, Section};

/// A flag's name, a text that it is given, and whether the values are those that it then wants.
pub(super) type Case = (&'static str, &'static str, fn(&Options) -> bool);

/// Every flag of the section has a case, and does what its case says.
pub(super) fn sets(section: &Section, cases: &[Case]) {
    let names: Vec<&str> = section.flags.iter().map(|flag| flag.name).collect();
    assert_eq!(names, cases.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
    for (flag, (name, text, is_set)) in section.flags.iter().zip(cases) {
        let mut options = Options::defaults().unwrap();
        assert!(!is_set(&options), "--{name} {text} is what holds when nothing is given");
        flag.set(&mut options, OsStr::new(text)).unwrap();
        assert!(is_set(&options), "--{name} {text}");
    }
}
