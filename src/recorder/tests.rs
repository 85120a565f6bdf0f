use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::ring::{COMBINED, Change, Kept, Ring};
use super::*;
use crate::base::clock::{Mono, Now, Timestamp};

fn at(seconds: u64) -> Now {
    let wall = Timestamp::new(1_795_000_000 + i64::try_from(seconds).unwrap(), 0).unwrap();
    Now { mono: Mono(Duration::from_secs(seconds)), wall }
}

fn event(uid: &str, container: &str, words: Words) -> ObjectEvent {
    let pod = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let subject = (!container.is_empty()).then(|| Subject { list: List::Regular, name: container.into() });
    ObjectEvent::new(pod, uid.into(), subject, words)
}

fn kept(ring: &Ring) -> Vec<(String, u32)> {
    ring.all().iter().map(|k| (k.event.message.clone(), k.count)).collect()
}

#[test]
fn the_same_again_is_counted() {
    let mut ring = Ring::default();
    let line = ring.add(event("u1", "web", words::started()), &at(0));
    assert_eq!(line.as_deref(), Some("pod default/web-node1: container web: Started: Container started"));
    assert_eq!(ring.take_changed(), Some(Change::New));
    assert_eq!(ring.take_changed(), None);
    assert_eq!(ring.add(event("u1", "web", words::started()), &at(60)), None);
    assert_eq!(ring.take_changed(), Some(Change::Repeated));
    let all = ring.all();
    let [only] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((only.count, only.first, only.last), (2, at(0).wall, at(60).wall));
    // Another pod, container, reason or text is another event.
    ring.add(event("u2", "web", words::started()), &at(61));
    ring.add(event("u1", "db", words::started()), &at(62));
    ring.add(event("u1", "web", words::created()), &at(63));
    ring.add(event("u1", "", words::sandbox_changed(false)), &at(64));
    assert_eq!(ring.all().len(), 5);
    assert_eq!(ring.take_changed(), Some(Change::New));
    // The latest one is last.
    ring.add(event("u2", "web", words::started()), &at(65));
    assert_eq!(ring.all().last().map(|k| (k.event.uid.clone(), k.count)), Some(("u2".into(), 2)));
    let mut serials: Vec<i128> = ring.all().iter().map(|k| k.serial).collect();
    serials.sort_unstable();
    serials.dedup();
    assert_eq!(serials.len(), 5);
}

#[test]
fn what_is_said_again_is_rarely_logged_again() {
    let mut ring = Ring::default();
    let mut lines = Vec::new();
    for second in 0..1200 {
        lines.extend(ring.add(event("u1", "web", words::error("no")), &at(second)));
    }
    let expected: Vec<String> = ["", " (x10)", " (x100)", " (x700)", " (x1000)"]
        .iter()
        .map(|times| format!("pod default/web-node1: container web: Failed: Error: no{times}"))
        .collect();
    assert_eq!(lines, expected);
    // After a pause it is logged again.
    assert!(ring.add(event("u1", "web", words::error("no")), &at(5000)).is_some());
}

#[test]
fn texts_that_always_differ_become_one_event() {
    let mut ring = Ring::default();
    ring.add(event("u2", "other", words::started()), &at(0));
    let mut lines = 0;
    for second in 0..2000_u64 {
        let words = words::probe("Unhealthy", format!("Liveness probe failed: at {second}"));
        lines += usize::from(ring.add(event("u1", "web", words), &at(second)).is_some());
    }
    let all = kept(&ring);
    assert_eq!(all.len(), 2 + limits::EVENT_VARIANTS, "{all:?}");
    assert_eq!(all[0].0, "Container started", "nobody is pushed out");
    assert_eq!(*all.last().unwrap(), (format!("{COMBINED}Liveness probe failed: at 1999"), 1990));
    assert!(lines < limits::EVENT_VARIANTS + 10, "{lines}");
    // A known text is still counted separately.
    ring.add(event("u1", "web", words::probe("Unhealthy", "Liveness probe failed: at 3".into())), &at(2001));
    assert_eq!(*kept(&ring).last().unwrap(), ("Liveness probe failed: at 3".into(), 2));
}

#[test]
fn texts_that_differ_in_ids_alone_are_one_event() {
    let mut ring = Ring::default();
    let id = |n: u32| format!("{n:08x}").repeat(8);
    let texts = |n: u32| {
        [
            format!("mkdir /var/lib/docker/overlay2/{}-init: no space left on device", id(n)),
            format!("mkdir /var/lib/containerd/snapshots/{n}/fs: no space left on device"),
            format!("layer sha256:{} of container {} is damaged", id(n), &id(n)[..12]),
        ]
    };
    for n in 1..=40 {
        for text in texts(n) {
            ring.add(event("u1", "", words::sandbox_failed(&text)), &at(u64::from(n)));
        }
    }
    let shown = texts(40).map(|text| (format!("Failed to create pod sandbox: {text}"), 40));
    assert_eq!(kept(&ring), shown, "with the latest ids");
}

#[test]
fn texts_that_differ_in_anything_but_ids_are_several_events() {
    let mut ring = Ring::default();
    let texts = [
        "mkdir /var/lib/docker/tmp: no space left on device",
        "mkdir /var/lib/docker/tmp/: no space left on device",
        "mkdir /var/lib/docker/0123456789a: no space left on device",
        "mkdir /var/lib/docker/0123456789b: no space left on device",
        "mkdir /var/lib/docker/0123456789ab: no space left on device",
        "port 80 is taken",
        "port 81 is taken",
        "",
    ];
    for text in texts {
        ring.add(event("u1", "", words::sandbox_failed(text)), &at(1));
    }
    assert_eq!(kept(&ring).iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1; 8], "{:?}", kept(&ring));
}

#[test]
fn the_ring_is_bounded_in_number() {
    let mut ring = Ring::default();
    for n in 0..limits::EVENTS + 10 {
        ring.add(event(&format!("u{n}"), "web", words::started()), &at(1));
    }
    let all = ring.all();
    assert_eq!((all.len(), all[0].event.uid.as_str()), (limits::EVENTS, "u10"));
}

#[test]
fn long_messages_are_cut() {
    let long = event("u", "", words::error(&"ä".repeat(limits::EVENT_MESSAGE)));
    assert!(long.message.len() <= limits::EVENT_MESSAGE && long.message.ends_with("ä..."));
    assert_eq!(event("u", "", words::error("no \n\n")).message, "Error: no");
}

#[test]
fn a_secrets_value_is_in_no_message() {
    let objects = crate::pod::object::testing::snapshot(
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {a: hunter, b: hunter2pass, c: 'x', \
         d: \"two\\nlines\", e: 'a \"green\" grün', \
         f: \"esc\\x1b[0m\\aöld\\u200b\"}}\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {k: plain}}",
    );
    let check = |text: &str, expected: &str| assert_eq!(mask(text.into(), &objects), expected);
    check("exec: \"hunter2pass\": not found", "exec: \"<secret>\": not found");
    check("hunter and hunter2pass", "<secret> and <secret>");
    check("a two\nlines b \"two\\nlines\"", "a <secret> b \"<secret>\"");
    check("plain x", "plain x");
    check(&format!("subPath {:?} of", "a \"green\" grün"), "subPath \"<secret>\" of");
    // As Go quotes it.
    check(r#"exec: "/a/esc\x1b[0m\aöld\u200b": no"#, r#"exec: "/a/<secret>": no"#);
}

#[test]
fn what_is_written_is_read_and_restored() {
    let mut ring = Ring::default();
    ring.add(event("u1", "web", words::started()), &at(0));
    ring.add(event("u1", "", words::sandbox_changed(false)), &at(1));
    let mut init = event("u1", "setup", words::error("no"));
    init.subject = Some(Subject { list: List::Init, name: "setup".into() });
    ring.add(init.clone(), &at(2));
    ring.add(init, &at(9));
    let bytes = object::render("node1", &ring.all());
    crate::base::testing::golden("cli/events-file.json", &String::from_utf8(bytes.clone()).unwrap());
    let dir = crate::base::testing::scratch("events-file");
    assert!(object::read(&dir).unwrap().items.is_empty(), "none yet");
    std::fs::write(dir.join(object::NAME), &bytes).unwrap();
    let mut again = Ring::default();
    again.restore(object::restore(&dir).unwrap());
    assert_eq!(object::render("node1", &again.all()), bytes);
    assert_eq!(again.take_changed(), None, "nothing to write");
    again.add(event("u1", "web", words::started()), &at(20));
    assert_eq!(again.all().last().map(|k| (k.count, k.first)), Some((2, at(0).wall)));
    for damaged in
        [&bytes[..bytes.len() / 2], b"{}", b"[]", b"{\"apiVersion\":\"podkeeper.dev/v1\",\"items\":[1]}"]
    {
        std::fs::write(dir.join(object::NAME), damaged).unwrap();
        let error = object::read(&dir).unwrap_err();
        assert!(error.contains("events.json: "), "{error}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// In any order of events: bounded, counted correctly, and without duplicates.
    #[test]
    fn the_ring_is_bounded_and_counts_right(
        all in prop::collection::vec((0..40_u8, 0..3_u8, 0..4_u8, 0..60_u16, 0..400_usize), 0..1500),
    ) {
        let mut ring = Ring::default();
        let mut said: BTreeMap<String, u64> = BTreeMap::new();
        for (n, (uid, container, reason, text, length)) in all.iter().enumerate() {
            let reason = ["Unhealthy", "Failed", "BackOff", "Killing"][usize::from(*reason)];
            let message = format!("{text}{}", "x".repeat(*length));
            let event = event(&format!("u{uid}"), &format!("c{container}"), words::probe(reason, message));
            *said.entry(format!("{uid} {container} {reason}")).or_default() += 1;
            ring.add(event, &at(u64::try_from(n).unwrap()));
        }
        let kept = ring.all();
        prop_assert!(kept.len() <= limits::EVENTS);
        let bytes: usize = kept.iter().map(|k| k.event.size()).sum();
        prop_assert!(bytes <= limits::EVENTS_BYTES);
        let ordered = |pair: &[Arc<Kept>]| pair[0].last <= pair[1].last;
        prop_assert!(kept.windows(2).all(ordered));
        for (at, one) in kept.iter().enumerate() {
            prop_assert!(!kept[at + 1..].iter().any(|other| other.event == one.event));
            let like = kept.iter().filter(|k| k.event.is_like(&one.event));
            prop_assert!(like.clone().count() <= limits::EVENT_VARIANTS + 1);
            let ObjectEvent { uid, subject, reason, .. } = &one.event;
            let key = format!("{} {} {reason}", &uid[1..], &subject.as_ref().unwrap().name[1..]);
            prop_assert!(like.map(|k| u64::from(k.count)).sum::<u64>() <= said[&key]);
        }
    }
}

#[test]
fn a_pipe_in_the_place_of_the_event_file_is_not_waited_for() {
    let dir = crate::base::testing::scratch("events-pipe");
    crate::base::regular::fifo(&dir.join(object::NAME));
    let error = object::read(&dir).unwrap_err();
    assert!(error.contains("it is not a regular file"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}
