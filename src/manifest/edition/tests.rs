//! The editions in comments, and the content that the record accepts.

use proptest::prelude::*;

use super::*;
use crate::base::limits;

#[test]
fn comments() {
    use Edition::{Timestamp, Unnumbered, Version};
    let twice = Err("its trusted comment names more than one version");
    let none = Err("the version in its trusted comment is no number below 2^64");
    for (comment, expected) in [
        ("", Ok(Unnumbered)),
        ("timestamp:1790000000\tfile:web.yaml\thashed", Ok(Timestamp(1_790_000_000))),
        ("version:7", Ok(Version(7))),
        ("version:0", Ok(Version(0))),
        ("version:007", Ok(Version(7))),
        ("timestamp:9\tversion:7", Ok(Version(7))),
        ("  version:7\t\tnode:edge-1  ", Ok(Version(7))),
        ("version:18446744073709551615", Ok(Version(u64::MAX))),
        ("version:18446744073709551616", none),
        ("version:+7", none),
        ("version:-7", none),
        ("version:7.yaml", none),
        ("version:", none),
        ("version: 7", none),
        ("version:7,8", none),
        ("version:\u{667}", none),
        ("version:7 version:8", twice),
        ("version:7\tversion:7", twice),
        ("version:7 version:", twice),
        // Words of other programs; words similar to podkeeper's are refused where signatures are
        // parsed.
        ("file:version:9", Ok(Unnumbered)),
        ("Version:9 xversion:9 versions:9 version", Ok(Unnumbered)),
        // Other programs use that word, too: an invalid one is ignored.
        ("timestamp:", Ok(Unnumbered)),
        ("timestamp:2026-01-01", Ok(Unnumbered)),
        ("timestamp:18446744073709551616", Ok(Unnumbered)),
        ("timestamp:1 timestamp:2", Ok(Unnumbered)),
        ("timestamp:x version:3", Ok(Version(3))),
    ] {
        assert_eq!(Edition::of_comment(comment), expected, "{comment:?}");
    }
    assert_eq!(Edition::parse("7"), Ok(Version(7)));
    assert_eq!(Edition::parse("version:7"), Ok(Version(7)));
    assert_eq!(Edition::parse("timestamp:7"), Ok(Timestamp(7)));
    for bad in ["", "x", "-1", "+1", "timestamp", "time:7", "18446744073709551616", " 7"] {
        assert!(Edition::parse(bad).is_err(), "{bad}");
    }
}

fn claim(edition: Edition, content: u8, names: &str) -> Claim {
    Claim { edition, digest: [content; 32], names: names.split(' ').map(str::to_owned).collect() }
}

fn none() -> Set<String> {
    Set::new()
}

#[test]
fn what_is_below_what_was_seen_is_refused() {
    use Edition::{Timestamp, Unnumbered, Version};
    // The accepted content, the new content, and the expected refusal.
    let below =
        |has: &str, highest: &str| Some(format!("has {has}, and b was accepted in {highest} already: "));
    for (seen, comes, content, expected) in [
        (Version(5), Version(6), 2, None),
        (Version(5), Version(5), 1, None),
        (
            Version(5),
            Version(5),
            2,
            Some("has version 5, and b was accepted with another content in version 5 already: ".to_owned()),
        ),
        (Version(5), Version(4), 1, below("version 4", "version 5")),
        (Version(5), Timestamp(u64::MAX), 2, below(&format!("timestamp {}", u64::MAX), "version 5")),
        (Version(5), Unnumbered, 1, below("no version", "version 5")),
        (Timestamp(5), Version(0), 2, None),
        (Timestamp(5), Timestamp(6), 2, None),
        // Two signatures of one second.
        (Timestamp(5), Timestamp(5), 2, None),
        (Timestamp(5), Timestamp(4), 2, below("timestamp 4", "timestamp 5")),
        (Timestamp(5), Unnumbered, 2, below("no version", "timestamp 5")),
        (Unnumbered, Unnumbered, 2, None),
        (Unnumbered, Timestamp(0), 2, None),
    ] {
        let mut record = Record::default();
        assert_eq!(record.note(&claim(seen, 1, "a b"), &none()), seen != Unnumbered);
        assert!(!record.note(&claim(seen, 1, "a b"), &none()), "nothing is new");
        let said = record.check(&claim(comes, content, "b c"), "file").err();
        match (&said, &expected) {
            (Some(said), Some(expected)) => assert!(said.starts_with(expected), "{said}"),
            _ => assert_eq!(said, expected, "{seen} {comes}"),
        }
        assert_eq!(record.check(&claim(Unnumbered, 9, "c d"), "file"), Ok(()));
    }
    let mut record = Record::default();
    record.note(&claim(Version(5), 1, "pod default/web"), &none());
    let said = record.check(&claim(Version(4), 1, "pod default/web"), "http").unwrap_err();
    let way_out = "sign it with a higher version in the trusted comment, or forget what was seen: podkeeper \
                   forget --source http";
    assert!(said.ends_with(way_out), "{said}");
}

#[test]
fn what_a_newer_content_does_without_comes_back_only_above_what_was_seen() {
    for kind in [Edition::Version, Edition::Timestamp] {
        let mut record = Record::default();
        record.note(&claim(kind(50), 1, "old other"), &none());
        // The pod has another name now.
        assert!(
            record
                .note(&claim(kind(101), 2, "new other"), &order::set(["old".to_owned(), "other".to_owned()]))
        );
        let said = record.check(&claim(kind(50), 1, "old"), "file").unwrap_err();
        assert!(said.contains("old was accepted and has been replaced since in"), "{said}");
        // It moved to a file that was signed a little earlier than its previous file.
        let moved = claim(kind(100), 3, "old");
        assert_eq!(record.check(&moved, "file"), Ok(()));
        assert!(record.note(&moved, &none()));
        assert_eq!(record.check(&moved, "file"), Ok(()));
    }
}

/// Records of earlier versions of podkeeper did not store this.
#[test]
fn a_kept_record_says_what_the_urls_content_does_without() {
    use Edition::{Timestamp, Version};
    let mut record = Record::default();
    record.note(&claim(Version(20), 2, "other"), &none());
    let whole =
        Claim { names: order::set([name_of_url("u"), "other".to_owned()]), ..claim(Version(20), 2, "x") };
    record.note(&whole, &none());
    record.note(&claim(Version(8), 1, "web"), &none());
    record.note(&claim(Timestamp(20), 1, "old"), &none());
    let settled = Record::parse(&record.encode()).unwrap().settled();
    let dropped: Vec<&str> =
        settled.names.iter().filter(|(_, seen)| seen.dropped).map(|(name, _)| name.as_str()).collect();
    assert_eq!(dropped, ["old", "web"]);
    assert_eq!(settled.clone().settled(), settled);
    // A file only lists its own pods.
    let mut record = Record::default();
    record.note(&claim(Version(8), 1, "web"), &none());
    assert_eq!(record.clone().settled(), record);
}

#[test]
fn the_oldest_that_nothing_is_about_go_first() {
    let mut record = Record::default();
    let all = limits::SEEN_NAMES;
    for n in 0..all {
        record.note(&claim(Edition::Version(1), 1, &format!("n{n}")), &none());
    }
    assert!(!record.is_crowded());
    assert_eq!(record.trim(&none()), 0);
    record.note(&claim(Edition::Version(2), 1, "n1"), &none());
    record.note(&claim(Edition::Version(1), 1, "x y"), &none());
    assert!(record.is_crowded());
    // n0 is current, n1 was seen again.
    assert_eq!(record.trim(&order::set(["n0".to_owned()])), 2);
    let is_known = |name: &str| record.check(&claim(Edition::Unnumbered, 1, name), "file").is_err();
    let known: Vec<bool> = ["n0", "n1", "n2", "n3", "n4", "x", "y"].into_iter().map(is_known).collect();
    assert_eq!(known, [true, true, false, false, true, true, true]);
    let bytes = record.encode();
    assert_eq!(Record::parse(&bytes).unwrap().encode(), bytes);
}

fn records() -> impl Strategy<Value = Record> {
    let name = proptest::sample::select(vec!["a", "b", "pod default/web-node1", "URL https://a/b", "ü"]);
    let one = (name, any::<bool>(), 0..4_u64, any::<u8>(), any::<bool>());
    proptest::collection::vec(one, 0..12).prop_map(|notes| {
        let mut record = Record::default();
        for (name, is_version, number, content, dropped) in notes {
            let edition = if is_version { Edition::Version(number) } else { Edition::Timestamp(number) };
            record.note(&claim(edition, content, name), &none());
            if dropped {
                record.note(&claim(Edition::Unnumbered, 0, "other"), &order::set([name.to_owned()]));
            }
        }
        record
    })
}

proptest! {
    #[test]
    fn what_is_kept_comes_back(record in records()) {
        let bytes = record.encode();
        let again = Record::parse(&bytes).unwrap();
        prop_assert_eq!(again.encode(), bytes);
        let mut merged = again.clone();
        merged.merge(&record);
        prop_assert_eq!(merged, again);
    }

    #[test]
    fn random_bytes_are_no_record_or_one(bytes in proptest::collection::vec(any::<u8>(), 0..200), comment in "\\PC{0,60}") {
        if let Some(record) = Record::parse(&bytes) {
            prop_assert_eq!(record.encode(), bytes);
        }
        let _ = Edition::of_comment(&comment);
        let _ = Edition::parse(&comment);
    }

    /// Two records with different contents agree on the higher editions.
    #[test]
    fn merging_takes_the_higher(a in records(), b in records()) {
        let (mut one, mut other) = (a.clone(), b.clone());
        one.merge(&b);
        other.merge(&a);
        let view = |of: &Record| of.names.iter().map(|(n, h)| (n.clone(), h.edition, h.dropped)).collect::<Vec<_>>();
        prop_assert_eq!(view(&one), view(&other));
    }
}
