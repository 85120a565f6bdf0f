//! Helpers for the tests of all sections.

use std::ffi::OsStr;

use super::{Flag, Options, Repeats, Section, Takes};

/// A flag's name, a text for it, and a check of the values that result.
pub(super) type Case = (&'static str, &'static str, fn(&Options) -> bool);

/// Checks that every flag of the section has a case, and does what its case says.
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

/// Two different valid texts, and texts that are refused.
type Texts = ([&'static str; 2], &'static [&'static str]);

/// A flag's name, with its texts.
pub(super) type Rule = (&'static str, [&'static str; 2], &'static [&'static str]);

/// The texts of a flag whose type alone decides what is valid.
fn texts_of_type(flag: &Flag) -> Option<Texts> {
    match flag.takes {
        Takes::Switch(_) => Some((["true", "false"], &["maybe"])),
        Takes::Duration(_) => Some((["7h", "8h"], &["7", "-1s", ""])),
        Takes::Count(..) | Takes::Seconds(_) => Some((["7", "8"], &["7s", "-1", "99999999999", ""])),
        Takes::Port(_) => Some((["7", "8"], &["65536", "-1", "http"])),
        Takes::Path(..) => Some((["/y", "/z"], &[""])),
        Takes::PathOrNone(..) => Some((["/y", "/z"], &[])),
        Takes::Name(..) => Some((["y", "z"], &[])),
        Takes::Taints(_) => Some((["a=b:NoSchedule", "c=d:NoExecute"], &["a", "a=b:Never"])),
        Takes::Choice(..) | Takes::Format(..) => {
            let words = flag.choices();
            Some(([*words.first()?, *words.last()?], &["no-such-choice"]))
        }
        Takes::Number(..) | Takes::List(..) | Takes::Map(..) | Takes::Text(..) | Takes::Secret(..) => None,
    }
}

/// Checks that every flag of the section refuses invalid values, and that a second value has the effect of its entry.
/// Flags with rules of their own have a case, in their order.
pub(super) fn repeats_and_refuses(section: &Section, cases: &[Rule]) {
    let mut cases = cases.iter();
    for flag in section.flags {
        let (texts, refused) = texts_of_type(flag).unwrap_or_else(|| {
            let (name, texts, refused) =
                cases.next().unwrap_or_else(|| panic!("--{} has no case", flag.name));
            assert_eq!(*name, flag.name);
            (*texts, *refused)
        });
        let after = |texts: &[&str]| {
            let mut options = Options::defaults().unwrap();
            for text in texts {
                flag.set(&mut options, OsStr::new(text))
                    .unwrap_or_else(|why| panic!("--{} {text}: {why}", flag.name));
            }
            options
        };
        let replaces = after(&texts) == after(&texts[1..]);
        assert_eq!(replaces, flag.repeats == Repeats::Replaces, "--{} {texts:?}", flag.name);
        for text in refused {
            let mut options = Options::defaults().unwrap();
            let why = flag.set(&mut options, OsStr::new(text)).err();
            assert!(why.is_some_and(|why| !why.is_empty()), "--{} {text:?} is taken", flag.name);
        }
    }
    assert_eq!(cases.next(), None, "more cases than flags");
}
