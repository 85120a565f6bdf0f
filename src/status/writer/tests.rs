use super::*;
use crate::base::clock::{Mono, Now, Timestamp};
use crate::pod::PodKey;
use crate::recorder::{ObjectEvent, Ring, words};

fn until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kept() -> Vec<Arc<Kept>> {
    let pod = PodKey { namespace: "default".into(), name: "a".into() };
    let event = ObjectEvent::new(pod, "u".into(), None, words::rejected("Reason", "why"));
    let mut ring = Ring::default();
    ring.add(event, &Now { mono: Mono::default(), wall: Timestamp::UNIX_EPOCH });
    ring.all()
}

#[test]
fn what_is_taken_away_is_written_again() {
    let root = crate::base::testing::scratch("writer");
    let dir = root.join("run");
    let made = dir.clone();
    let restore: Restore = Box::new(move || {
        std::fs::create_dir_all(&made)?;
        std::fs::write(made.join("lock"), "")
    });
    restore().unwrap();
    let writer = Writer::start(&dir, "node", &[], KeptImages::default(), restore).unwrap();
    let watch = writer.watch(&dir, "lock");
    writer.publish(Arc::new(file::tests::snapshot()), Arc::default());
    let path = dir.join(file::NAME);
    until("it is written", || path.exists());
    let first = std::fs::read(&path).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    // Without a change or a publish.
    watch.check();
    until("it is written again", || path.exists());
    assert_eq!(std::fs::read(&path).unwrap(), first);
    // Only the directory's content, including the lock beside the file.
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(dir.join("lock")).unwrap();
    watch.check();
    until("it is written again", || path.exists());
    assert!(dir.join("lock").exists());
    // Only the file of objects.
    let objects = dir.join(local_objects::NAME);
    std::fs::remove_file(&objects).unwrap();
    watch.check();
    until("it is written again", || objects.exists());
    // Only the event file, both of an earlier daemon and of this one.
    let events = dir.join(object::NAME);
    watch.check();
    writer.set_earlier_events(kept());
    watch.check();
    until("they are written again", || events.exists());
    let found = std::fs::read(&events).unwrap();
    std::fs::remove_file(&events).unwrap();
    watch.check();
    until("they are written again", || events.exists());
    assert_eq!(std::fs::read(&events).unwrap(), found);
    writer.publish_events(Change::New, kept());
    until("they are written", || writer.shared.slot.lock().unwrap().events.is_none());
    std::fs::remove_file(&events).unwrap();
    watch.check();
    until("they are written again", || events.exists());
    // Only the lock beside it.
    std::fs::remove_file(dir.join("lock")).unwrap();
    watch.check();
    until("it is made again", || dir.join("lock").exists());
    drop(writer);
    // The thread may still be writing.
    until("all is removed", || std::fs::remove_dir_all(&root).is_ok());
}

/// Regression: the next write made the directory anew with its own file alone, and commands found no status for a minute.
#[test]
fn a_write_that_finds_the_directory_gone_is_followed_by_all_the_others() {
    let root = crate::base::testing::scratch("writer-gone");
    let dir = root.join("run");
    let made = dir.clone();
    let restore: Restore = Box::new(move || std::fs::create_dir_all(&made));
    let writer = Writer::start(&dir, "node", &[], KeptImages::default(), restore).unwrap();
    writer.publish(Arc::new(file::tests::snapshot()), Arc::default());
    writer.publish_events(Change::New, kept());
    let names = [file::NAME, local_objects::NAME, object::NAME];
    let all = || names.iter().all(|name| dir.join(name).exists());
    until("they are written", all);
    let mut other = file::tests::snapshot();
    other.pods.clear();
    let writes: [&dyn Fn(); 4] = [
        &|| writer.publish_events(Change::New, kept()),
        &|| writer.publish(Arc::new(other.clone()), Arc::default()),
        &|| writer.answer(),
        // Somebody else was faster, and has made the directory.
        &|| {
            std::fs::create_dir(&dir).unwrap();
            writer.publish_events(Change::New, kept());
        },
    ];
    for write in writes {
        // The thread may still be writing.
        until("all is removed", || std::fs::remove_dir_all(&dir).is_ok());
        write();
        until("all is written again", all);
    }
    drop(writer);
    std::fs::remove_dir_all(&root).unwrap();
}

/// The last event of a restarted pod was "Killing": counts are written every ten seconds, and a daemon that ended meanwhile
/// lost them.
#[test]
fn events_that_are_not_written_yet_are_written_at_the_end() {
    let root = crate::base::testing::scratch("writer-end");
    let writer = Writer::start(&root, "node", &[], KeptImages::default(), Box::new(|| Ok(()))).unwrap();
    let events = root.join(object::NAME);
    writer.publish_events(Change::New, kept());
    until("they are written", || events.exists());
    std::fs::remove_file(&events).unwrap();
    writer.publish_events(Change::Repeated, kept());
    drop(writer);
    assert!(events.exists());
    std::fs::remove_dir_all(&root).unwrap();
}

/// A failed write (for example on a full disk) is repeated, and an outdated file does not get a new time.
#[test]
fn what_could_not_be_written_is_written_later_and_until_then_the_file_has_no_new_time() {
    let root = crate::base::testing::scratch("writer-full");
    let writer = Writer::start(&root, "node", &[], KeptImages::default(), Box::new(|| Ok(()))).unwrap();
    let mut snapshot = file::tests::snapshot();
    writer.publish(Arc::new(snapshot.clone()), Arc::default());
    let path = root.join(file::NAME);
    until("it is written", || path.exists());
    let old = std::fs::read(&path).unwrap();
    let time = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = time();
    writer.answer();
    until("it has a new time", || time() != before);
    let before = time();
    let in_the_way = root.join(format!(".{}.tmp", file::NAME));
    std::fs::create_dir(&in_the_way).unwrap();
    snapshot.pods.clear();
    writer.publish(Arc::new(snapshot), Arc::default());
    let taken = || writer.shared.slot.lock().unwrap().latest.is_none();
    until("it is tried", taken);
    writer.answer();
    until("it is asked", || !writer.shared.slot.lock().unwrap().asked);
    writer.publish_events(Change::New, kept());
    until("they are tried", || writer.shared.slot.lock().unwrap().events.is_none());
    std::thread::sleep(limits::STATUS_COALESCE);
    assert_eq!((time(), std::fs::read(&path).unwrap()), (before, old.clone()));
    std::fs::remove_dir(&in_the_way).unwrap();
    // Without a change or a caller.
    until("it is written", || std::fs::read(&path).is_ok_and(|new| new != old));
    until("they are written", || root.join(object::NAME).exists());
    std::fs::remove_dir_all(&root).unwrap();
}

/// Regression: `prune` removed pinned and preloaded images when the root directory was full at the daemon's start.
#[test]
fn images_that_are_preloaded_later_are_told_without_a_change_of_any_pod() {
    let root = crate::base::testing::scratch("writer-images");
    let kept = KeptImages { pinned: vec!["a:1".into()], ..KeptImages::default() };
    let writer = Writer::start(&root, "node", &[], kept, Box::new(|| Ok(()))).unwrap();
    let preloaded = writer.preloaded();
    writer.publish(Arc::new(file::tests::snapshot()), Arc::default());
    let read = || file::read(&root).ok().and_then(|status| status.file.kept_images);
    until("the pins are told", || read().is_some_and(|kept| kept.pinned == ["a:1"]));
    assert_eq!(read().unwrap().preloaded, None, "not known yet");
    preloaded.tell(&["b:1".to_owned()].into());
    until("the images are told", || read().is_some_and(|kept| kept.preloaded.is_some()));
    drop(writer);
    std::fs::remove_dir_all(root).unwrap();
}
