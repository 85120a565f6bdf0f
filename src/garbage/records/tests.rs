use super::*;
use crate::garbage::images::tests::container;

pub(super) fn at(up: u64) -> Moment {
    Moment { up: Duration::from_secs(up), wall: Timestamp::from_second(1_795_000_000).unwrap() }
}

pub(super) fn image(id: &str) -> ImageSummary {
    ImageSummary { id: id.to_owned(), tags: vec![format!("{id}-name:1")], ..ImageSummary::default() }
}

fn seen() -> Records {
    let mut records = Records { boot: "b1".into(), ..Records::default() };
    records.note_containers(&[container("c", "sha256:1"), container("d", "")], at(5));
    records.note_images(&[image("sha256:1"), image("sha256:2")], at(7));
    records
}

fn take_changed(records: &mut Records) -> bool {
    let changed = records.is_changed();
    records.take_unwritten();
    changed
}

/// A pod was evicted while such an image was there.
#[test]
fn an_image_without_a_name_is_as_old_as_docker_says_and_came_after_the_last_list() {
    let nameless = |id: &str, ago: i64| {
        let created = at(0).wall.as_second() - ago;
        ImageSummary { id: id.to_owned(), created, ..ImageSummary::default() }
    };
    let age = |records: &Records, id: &str| 1000 - records.get(id).unwrap().seen_up.as_secs();
    let mut records = seen();
    let all = [nameless("a", 300), nameless("old", 9999), nameless("later", -50), image("named")];
    records.note_images(&all, at(1000));
    let ages = ["a", "old", "later", "named"].map(|id| age(&records, id));
    assert_eq!(ages, [300, 993, 0, 0], "the last list was at 7");
    // At the first list of a daemon nothing is known.
    let mut first = Records::default();
    first.note_images(&all, at(1000));
    assert_eq!(age(&first, "a"), 0);
}

/// While the disk is full, images are looked at every five minutes.
#[test]
fn containers_of_others_that_stay_are_no_reason_take_unwritten() {
    let mut records = seen();
    records.note_others(["sha256:2"].into_iter(), at(8));
    assert!(take_changed(&mut records), "it is used by now");
    for up in 9..60 {
        records.note_containers(&[container("c", "sha256:1")], at(up));
        records.note_others(["sha256:1", "sha256:2", "sha256:3"].into_iter(), at(up));
        assert!(!records.is_changed());
    }
    assert_eq!(
        records.get("sha256:2").unwrap().unused_up,
        Duration::from_secs(59),
        "it is known all the same"
    );
    assert!(records.get("sha256:2").unwrap().used > records.get("sha256:1").unwrap().used);
    records.note_others(std::iter::empty(), at(60));
    assert!(take_changed(&mut records), "it ceases to be used");
}

#[test]
fn nothing_is_written_while_nothing_changes() {
    let mut records = seen();
    assert!(take_changed(&mut records));
    for up in 8..60 {
        records.note_containers(&[container("c", "sha256:1"), container("e", "sha256:1")], at(up));
        records.note_images(&[image("sha256:2"), image("sha256:1")], at(up));
    }
    assert!(!take_changed(&mut records));
    records.note_containers(&[], at(60));
    assert!(take_changed(&mut records), "it ceases to be used");
    records.note_images(&[image("sha256:1")], at(61));
    assert!(take_changed(&mut records), "an image is gone");
}

/// A container may come and go between two lists.
#[test]
fn an_event_is_a_use_once_the_image_is_known() {
    let mut records = seen();
    records.note_containers(&[], at(8));
    let before = *records.get("sha256:1").unwrap();
    records.note_use("sha256:2-name:1", at(8));
    records.note_images(&[image("sha256:1"), image("sha256:2")], at(9));
    assert!(records.get("sha256:2").unwrap().used > before.used);
    assert_eq!(records.get("sha256:1"), Some(&before));
}

#[test]
fn there_is_a_bound() {
    let mut records = Records::default();
    let images: Vec<ImageSummary> =
        (0..limits::IMAGE_RECORDS + 9).map(|n| image(&format!("sha256:{n}"))).collect();
    records.note_images(&images, at(1));
    assert_eq!(records.images.len(), limits::IMAGE_RECORDS);
    (0..limits::IMAGE_RECORDS + 9).for_each(|n| records.note_use(&format!("a:{n}"), at(8)));
    assert_eq!(records.named.len(), limits::IMAGE_RECORDS);
    let mut long = Records::default();
    let id = |n: usize| format!("sha256:{n:064}");
    let images: Vec<ImageSummary> = (0..limits::IMAGE_RECORDS).map(|n| image(&id(n))).collect();
    long.note_images(&images, at(u64::MAX / 2));
    let bytes = Value::Object(long.entries()).to_string().len();
    assert!(bytes < limits::IMAGE_RECORDS_BYTES, "{bytes}");
}

#[test]
fn records_outlive_the_daemon() {
    let root = crate::base::testing::scratch("images-seen");
    assert_eq!(read(&root, "b1"), Records { boot: "b1".into(), ..Records::default() });
    let mut records = seen();
    records.set_fixed("pause:1", vec!["a".into(), "b*".into()]);
    take_changed(&mut records);
    records.write(&root).unwrap();
    let mut again = read(&root, "b1");
    assert_eq!(again, Records { listed_up: None, ..records.clone() });
    again.set_fixed("pause:1", vec!["a".into(), "b*".into()]);
    assert!(!again.is_changed(), "nothing new");
    // An image whose container ended meanwhile became unused at the first look.
    again.note_containers(&[], at(99));
    let ended = again.get("sha256:1").unwrap();
    assert!(ended.used > records.last && ended.unused_up == at(99).up);
    // Another boot has other uptimes; the order stays the same.
    let other = read(&root, "b2");
    let (before, after) = (records.get("sha256:2").unwrap(), other.get("sha256:2").unwrap());
    assert_eq!((after.first, after.seen_up), (before.first, Duration::ZERO));
    std::fs::remove_dir_all(root).unwrap();
}

/// kubernetes/kubernetes#135711: a torn state file.
#[test]
fn k135711_a_damaged_file_is_set_aside() {
    let root = crate::base::testing::scratch("images-seen-damaged");
    seen().write(&root).unwrap();
    let good = std::fs::read(root.join(FILE)).unwrap();
    for damaged in [&good[..good.len() / 2], b"{}", b""] {
        std::fs::write(root.join(FILE), damaged).unwrap();
        assert!(look(&root, "b1").is_err());
        assert_eq!(read(&root, "b1"), Records { boot: "b1".into(), ..Records::default() });
        assert!(!root.join(FILE).exists());
        assert_eq!(std::fs::read(root.join(DAMAGED)).unwrap(), damaged);
    }
    let odd = [
        (BOOT.to_owned(), json!({ "id": "b1", "last": 1, "sandbox": "", "pinned": [] })),
        ("sha256:1".to_owned(), json!([1, 2])),
    ];
    assert!(Records::parse(odd.into_iter().collect(), "b1").is_err());
    std::fs::remove_dir_all(root).unwrap();
}

/// Regression: where batches of pods came and went between two looks, all of their images counted as new when the disk was
/// full, and pods were evicted.
#[test]
fn an_image_is_as_old_as_the_events_of_its_containers() {
    let mut records = seen();
    records.note_use("sha256:3-name:1", at(8));
    records.note_use("sha256:3-name:1", at(9));
    records.note_use("sha256:5-name:1", at(9));
    // Another image got the name after that.
    let later = ImageSummary { created: at(9).wall.as_second() + 1, ..image("sha256:5") };
    records.note_images(&[image("sha256:3"), image("sha256:4"), later], at(500));
    let seen_up = |id: &str| records.get(id).unwrap().seen_up.as_secs();
    assert_eq!((seen_up("sha256:3"), seen_up("sha256:4"), seen_up("sha256:5")), (9, 500, 500));
}
