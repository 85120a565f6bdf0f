use super::*;
use crate::garbage::records::tests::{at, image};
use crate::runtime::ImageSummary;

fn id(digit: char) -> String {
    format!("sha256:{}", digit.to_string().repeat(DIGITS))
}

fn event(action: EventAction, id: &str, name: &str) -> DockerEvent {
    let labels = [("name".to_owned(), name.to_owned())].into();
    DockerEvent { id: id.to_owned(), action, labels, time_nano: 0 }
}

fn named(digit: char, tags: &[&str]) -> ImageSummary {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    ImageSummary { tags, ..image(&id(digit)) }
}

fn came(records: &Records, digit: char) -> u64 {
    records.get(&id(digit)).unwrap().seen_up.as_secs()
}

/// Regression: an image that no container had used counted as new when the disk was full, and a pod was evicted.
#[test]
fn an_image_is_as_old_as_the_event_that_brought_it() {
    let mut records = Records::default();
    assert_eq!(records.note_event(&event(EventAction::Load, &id('1'), ""), at(5)), None);
    assert_eq!(records.note_event(&event(EventAction::Tag, &id('2'), "b:1"), at(6)), None);
    let asked = records.note_event(&event(EventAction::Pull, "c:1", "c"), at(7));
    assert_eq!(asked, Some(Ask::Id("c:1".into())));
    records.note_id("c:1", &id('3'), at(7));
    assert!(records.is_changed());
    records.note_event(&event(EventAction::Tag, &id('2'), "again:1"), at(60));
    records.note_images(&[named('1', &[]), named('2', &["b:1"]), named('3', &["c:1"])], at(500));
    assert_eq!((came(&records, '1'), came(&records, '2'), came(&records, '3')), (5, 6, 7));
    // It was removed, and comes again.
    records.note_event(&event(EventAction::Destroy, &id('1'), ""), at(600));
    records.note_event(&event(EventAction::Load, &id('1'), ""), at(700));
    records.note_images(&[named('1', &[])], at(800));
    assert_eq!(came(&records, '1'), 700);
}

/// Regression: the image that had got the name counted as the one that had been used, and that one as new.
#[test]
fn a_use_belongs_to_the_image_that_had_the_name_then() {
    let mut records = Records::default();
    records.note_event(&event(EventAction::Tag, &id('1'), "a:1"), at(5));
    records.note_use("docker.io/library/a:1", at(6));
    records.note_event(&event(EventAction::Tag, &id('2'), "a:1"), at(50));
    records.note_images(&[named('1', &[]), named('2', &["a:1"])], at(60));
    let used = |records: &Records, digit| records.get(&id(digit)).unwrap().used > 0;
    assert_eq!((came(&records, '1'), came(&records, '2')), (5, 50));
    assert_eq!((used(&records, '1'), used(&records, '2')), (true, false));
    // The id was not known, and another image has come with the name since.
    records.note_use("c:1", at(70));
    records.note_event(&event(EventAction::Load, &id('3'), ""), at(80));
    records.note_images(&[named('1', &[]), named('3', &["c:1"])], at(90));
    assert_eq!((came(&records, '3'), used(&records, '3')), (80, false));
}

/// Docker does not tell which name was removed, and loads and pulls move names silently.
#[test]
fn ids_are_forgotten_when_names_may_have_moved() {
    let mut records = Records::default();
    let tagged = |records: &mut Records| {
        records.note_event(&event(EventAction::Tag, &id('1'), "a:1"), at(1));
        records.note_event(&event(EventAction::Tag, &id('2'), "b:1"), at(1));
    };
    let known = |records: &Records| (records.id_of("a:1").is_some(), records.id_of("b:1").is_some());
    for (what, expected) in [
        (event(EventAction::Untag, &id('1'), &id('1')), (false, true)),
        (event(EventAction::Destroy, &id('2'), ""), (true, false)),
        (event(EventAction::Pull, "b:1", "b"), (true, false)),
        (event(EventAction::Load, &id('3'), ""), (false, false)),
        (event(EventAction::Other, &id('3'), ""), (true, true)),
        (event(EventAction::Other, "a:1", ""), (true, true)),
    ] {
        tagged(&mut records);
        records.note_event(&what, at(2));
        assert_eq!(known(&records), expected, "{what:?}");
    }
    records.missed_events();
    assert_eq!(known(&records), (false, false));
    assert_eq!(records.id_of(&id('7')), Some(id('7')));
    (0..limits::IMAGE_RECORDS + 9).for_each(|n| records.note_id(&format!("a:{n}"), &id('1'), at(8)));
    assert_eq!(records.ids.len(), limits::IMAGE_RECORDS);
}

/// Podman 4.3: ids without a prefix, none for an archive, and an image is removed with each of its names.
#[test]
fn events_of_podman() {
    let mut records = Records::default();
    let plain = |digit: char| digit.to_string().repeat(DIGITS);
    records.note_event(&event(EventAction::Pull, &plain('1'), "docker.io/library/a:1"), at(5));
    assert_eq!(records.id_of("a:1"), Some(id('1')));
    let asked = records.note_event(&event(EventAction::Destroy, &plain('1'), "b:1"), at(6));
    assert_eq!(asked, Some(Ask::There(id('1'))));
    records.note_event(&event(EventAction::Load, "", "/var/tmp/x.tar"), at(7));
    records.note_event(&event(EventAction::Load, "", "/var/tmp/y.tar"), at(8));
    records.note_images(&[named('1', &[]), named('2', &[])], at(500));
    assert_eq!((came(&records, '1'), came(&records, '2')), (5, 8), "it came with one of the archives");
    records.note_gone(&id('1'));
    records.note_images(&[named('1', &[]), named('2', &[])], at(600));
    assert_eq!(came(&records, '1'), 600);
}
