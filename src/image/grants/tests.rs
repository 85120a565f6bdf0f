//! Which pods may use an image, after pulls, failures and restarts.

use super::super::credentials::{DockerConfig, Format, lookup};
use super::*;
use crate::base::durable;

fn config(user: &str) -> DockerConfig {
    let text = format!(r#"{{"r.io": {{"username": "{user}", "password": "canary"}}}}"#);
    DockerConfig::parse(text.as_bytes(), Format::DockerCfg).unwrap()
}

fn secret(config: &DockerConfig) -> With {
    With::Secret(lookup("r.io/a", [config])[0].clone())
}

#[test]
fn an_image_that_one_secret_brought_is_not_everybodys() {
    let (own, other) = (config("own"), config("other"));
    let grants = Grants::default();
    let id = format!("sha256:{}", "ab".repeat(32));
    let allows = |image: &str, config: Option<&DockerConfig>| grants.allows(image, &lookup("r.io/a", config));
    assert!(allows("r.io/a:1", None), "loaded by hand");
    let begun = grants.begin("r.io/a:1");
    assert!(!allows("r.io/a:1", Some(&own)), "nobody knows yet");
    grants.pulled("r.io/a:1", &id, &secret(&own), Some(begun));
    assert!(allows("r.io/a:1", Some(&own)));
    // By every name that Docker accepts.
    let names = ["r.io/a:1", &format!("r.io/a@{id}"), &id, &id[7..20], &format!("r.io/a:1@{id}")];
    for name in names {
        assert!(
            !allows(name, None) && !allows(name, Some(&other)) && grants.needs_credentials(name),
            "{name}"
        );
        assert!(allows(name, Some(&own)), "{name}");
    }
    for name in ["r.io/a:2", "r.io/b:1", "busybox", "cafe", &format!("r.io/b@{id}")] {
        assert!(allows(name, None), "{name}");
    }
    // The registry accepts another secret, and then a pull without one.
    grants.pulled("r.io/a:1", &id, &secret(&other), None);
    assert!(allows("r.io/a:1", Some(&own)) && allows("r.io/a:1", Some(&other)) && !allows("r.io/a:1", None));
    grants.pulled("r.io/a:1", &id, &With::NodeOrNone, None);
    assert!(allows("r.io/a:1", None));
    // Another image has the name now.
    grants.pulled("r.io/a:1", "sha256:cd", &secret(&other), None);
    assert!(!allows("r.io/a:1", Some(&own)) && allows("r.io/a:1", Some(&other)));
}

#[test]
fn what_a_pull_with_a_secret_notes_meanwhile_is_not_taken_for_loaded() {
    let own = config("own");
    let grants = Grants::default();
    grants.lose();
    assert!(grants.is_unknown("r.io/a:1"), "and Docker is asked about it now");
    let _begun = grants.begin("r.io/a:1");
    assert!(!grants.loaded("r.io/a:1", "sha256:ab") && grants.needs_credentials("r.io/a:1"));
    grants.pulled("r.io/a:1", "sha256:cd", &secret(&own), None);
    assert!(!grants.loaded("r.io/a:1", "sha256:ab") && grants.needs_credentials("r.io/a:1"));
    assert!(grants.loaded("r.io/b:1", "sha256:ef") && !grants.needs_credentials("r.io/b:1"));
}

/// Regression: every pod could use the image that came after the record was full.
#[test]
fn an_image_that_cannot_be_noted_is_not_everybodys() {
    let own = config("own");
    let grants = Grants::default();
    let name = |n: usize| format!("r.io/i{n}:1");
    let full = (0..limits::GRANTS)
        .map(|n| (name(n).into(), Arc::new(Grant { id: format!("sha256:{n:08x}"), ..Grant::default() })));
    grants.replace(Known(full.collect()));
    assert!(!grants.has_room("r.io/new:1", false) && grants.has_room(&name(7), true));
    // Pulls that had begun when there was room.
    for n in 0..=limits::GRANTS_UNDER_WAY {
        let image = format!("r.io/more{n}:1");
        grants.pulled(&image, &format!("sha256:{n:064}"), &secret(&own), None);
        assert!(grants.needs_credentials(&image), "{n}");
    }
    assert!(grants.needs_credentials(&name(7)) && grants.needs_credentials("r.io/else:1"));
    // Removed images make room.
    let grants = Grants::default();
    let full = (0..limits::GRANTS)
        .map(|n| (name(n).into(), Arc::new(Grant { id: format!("sha256:{n:08x}"), ..Grant::default() })));
    grants.replace(Known(full.collect()));
    let begun = grants.begin(&name(3));
    grants.forget_gone(|image, id| image == name(1) || id == "sha256:00000002");
    assert_eq!(
        grants.known().0.keys().map(|image| image.to_string()).collect::<Vec<_>>(),
        [name(1), name(2), name(3)]
    );
    assert!(grants.has_room("r.io/new:1", false));
    grants.failed(&name(3), begun);
}

/// Regression: one source filled the record with names of one small image, and no pod of another source could pull
/// with a secret.
#[test]
fn a_source_behind_others_leaves_them_half_of_the_record() {
    let grants = Grants::default();
    let half = (0..limits::GRANTS / 2).map(|n| {
        (format!("r.io/i{n}:1").into(), Arc::new(Grant { id: "sha256:1".into(), ..Grant::default() }))
    });
    grants.replace(Known(half.collect()));
    assert!(!grants.has_room("r.io/new:1", true) && grants.has_room("r.io/new:1", false));
}

#[test]
fn a_pull_that_fails_takes_nothing_away() {
    let own = config("own");
    let grants = Grants::default();
    let begun = grants.begin("r.io/a:1");
    grants.failed("r.io/a:1", begun);
    assert!(grants.allows("r.io/a:1", &[]), "what was there before is what it was");
    grants.pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
    let begun = grants.begin("r.io/a:1");
    grants.failed("r.io/a:1", begun);
    assert!(!grants.allows("r.io/a:1", &[]));
    assert_eq!(format!("{grants:?}"), "Grants(1 images)");
}

#[test]
fn a_pull_that_fails_takes_nothing_away_from_another_one_under_way() {
    let own = config("own");
    let grants = Grants::default();
    let [one, two] = ["r.io/a:1", "r.io/a:1"].map(|image| grants.begin(image));
    grants.failed("r.io/a:1", one);
    assert!(grants.needs_credentials("r.io/a:1"), "the other one may bring it");
    grants.failed("r.io/a:1", two);
    assert!(!grants.needs_credentials("r.io/a:1"));
    let [one, two] = ["r.io/a:1", "r.io/a:1"].map(|image| grants.begin(image));
    grants.pulled("r.io/a:1", "sha256:ab", &secret(&own), Some(one));
    grants.failed("r.io/a:1", two);
    assert!(grants.needs_credentials("r.io/a:1"));
}

#[test]
fn no_question_waits_for_a_disk_that_hangs() {
    use std::sync::mpsc::channel;
    let root = crate::base::testing::scratch("grants-hang");
    std::fs::create_dir_all(&root).unwrap();
    let grants = Arc::new(Grants::open(&root));
    let ((at_disk, reached), (answers, answered), (says, said)) = (channel(), channel::<()>(), channel());
    let of_pull = Arc::clone(&grants);
    let pull = std::thread::spawn(move || {
        durable::HANGS.set(Some(Box::new(move || {
            at_disk.send(()).unwrap();
            _ = answered.recv();
        })));
        let _begun = of_pull.begin("r.io/a:1");
    });
    reached.recv().unwrap();
    std::thread::spawn(move || says.send(grants.needs_credentials("r.io/a:1")));
    let said = said.recv_timeout(std::time::Duration::from_secs(20));
    drop(answers);
    assert_eq!(said, Ok(true), "what the pull began with counts before the disk has it");
    pull.join().unwrap();
    assert!(Grants::open(&root).needs_credentials("r.io/a:1"));
    std::fs::remove_dir_all(root).unwrap();
}

/// Regression: after one disk error the record was lost for good: all images had to be checked, and without a
/// network none ran.
#[test]
fn a_record_that_cannot_be_read_now_is_read_again_before_it_is_written() {
    use crate::base::regular::faults::READS;
    use rustix::io::Errno;
    let root = crate::base::testing::scratch("grants-trouble");
    std::fs::create_dir_all(&root).unwrap();
    let own = config("own");
    Grants::open(&root).pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
    let path = root.join(FILE);
    let bytes = std::fs::read(&path).unwrap();
    let fails = |times| READS.with_borrow_mut(|all| _ = all.insert(path.clone(), (times, Errno::IO)));
    // A short failure is waited out.
    fails(limits::READ_TRIES - 1);
    let grants = Grants::open(&root);
    assert!(grants.needs_credentials("r.io/a:1") && !grants.needs_credentials("r.io/b:1"));
    // No pod gets an image that may belong to another, and the file is not overwritten.
    fails(u32::MAX);
    let grants = Grants::open(&root);
    assert!(grants.is_unknown("r.io/a:1") && grants.needs_credentials("r.io/b:1"));
    let begun = grants.begin("r.io/c:1");
    assert!(grants.loaded("r.io/a:1", "sha256:ab"));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    fails(0);
    grants.pulled("r.io/c:1", "sha256:cd", &secret(&own), Some(begun));
    for grants in [grants, Grants::open(&root)] {
        for image in ["r.io/a:1", "r.io/c:1"] {
            assert!(grants.needs_credentials(image) && !grants.is_unknown(image), "{image}");
        }
        assert!(
            grants.allows("r.io/a:1", &lookup("r.io/a", [&own])) && !grants.needs_credentials("r.io/b:1")
        );
    }
    std::fs::remove_dir_all(root).unwrap();
}

#[test]
fn what_is_known_outlives_the_daemon() {
    let root = crate::base::testing::scratch("grants");
    std::fs::create_dir_all(&root).unwrap();
    let own = config("own");
    Grants::open(&root).pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
    let bytes = std::fs::read(root.join(FILE)).unwrap();
    assert!(!String::from_utf8(bytes.clone()).unwrap().contains("canary"));
    let again = Grants::open(&root);
    assert!(!again.allows("r.io/a:1", &[]) && again.allows("r.io/a:1", &lookup("r.io/a", [&own])));
    std::fs::remove_dir_all(root).unwrap();
}

/// No pod gets an image that may need credentials, after any number of restarts, until the registry has
/// accepted it.
#[test]
fn a_damaged_memory_gives_nobody_what_may_be_anothers() {
    let root = crate::base::testing::scratch("grants-damaged");
    std::fs::create_dir_all(&root).unwrap();
    let own = config("own");
    Grants::open(&root).pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
    let bytes = std::fs::read(root.join(FILE)).unwrap();
    for damaged in [&bytes[..bytes.len() - 9], b"", b"podkeeper-pulled-2 x\n{}\n"] {
        std::fs::write(root.join(FILE), damaged).unwrap();
        let grants = Grants::open(&root);
        assert!(!grants.allows("r.io/a:1", &lookup("r.io/a", [&own])) && grants.is_unknown("r.io/a:1"));
        let begun = grants.begin("r.io/a:1");
        grants.failed("r.io/a:1", begun);
        assert!(grants.needs_credentials("r.io/a:1"));
        // The new file says that the record is incomplete.
        grants.pulled("r.io/b:1", "sha256:cd", &With::NodeOrNone, None);
        let again = Grants::open(&root);
        assert!(again.allows("r.io/b:1", &[]) && !again.is_unknown("r.io/b:1"));
        assert!(again.needs_credentials("r.io/a:1"));
        again.pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
        assert!(again.allows("r.io/a:1", &lookup("r.io/a", [&own])) && again.needs_credentials("r.io/a:1"));
    }
    std::fs::remove_file(root.join(FILE)).unwrap();
    assert!(!Grants::open(&root).needs_credentials("r.io/a:1"), "the operator's word");
    std::fs::remove_dir_all(root).unwrap();
}

/// A pod holds the record of its last step, which may be old.
#[test]
fn what_pods_hold_of_other_times_is_the_same_where_it_did_not_change() {
    let own = config("own");
    let grants = Grants::default();
    grants.pulled("r.io/a:1", "sha256:ab", &secret(&own), None);
    let before = grants.known();
    grants.pulled("r.io/b:1", "sha256:cd", &secret(&own), None);
    let (name, grant) = before.0.first().unwrap();
    let known = grants.known();
    let (same_name, same_grant) = known.0.iter().find(|(of, _)| *of == name).unwrap();
    assert!(Arc::ptr_eq(name, same_name) && Arc::ptr_eq(grant, same_grant) && known.0.len() == 2);
}
