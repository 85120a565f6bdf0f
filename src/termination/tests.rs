//! Sizes, places, and attacks of a container on its file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::files::Files;
use super::*;
use crate::base::table::Set;
use crate::plan::{Exit, Way};

fn file(uid: &str, container: &str, attempt: u32) -> LogFile {
    LogFile { uid: uid.into(), container: container.into(), attempt }
}

fn exit(code: i64, cannot_run: bool) -> Exit {
    Exit {
        code,
        oom_killed: false,
        cannot_run,
        message: String::new(),
        started: None,
        finished: None,
        seen: None,
    }
}

#[test]
fn places_are_told_by_labels_alone() {
    let check = |file: LogFile, expected: Option<&str>| {
        assert_eq!(file.path(Path::new("/r")).as_deref(), expected.map(Path::new), "{file:?}");
    };
    check(file("u-1", "app", 42), Some("/r/pods/u-1/containers/app/0000002a"));
    check(file("u", "a", u32::MAX), Some("/r/pods/u/containers/a/ffffffff"));
    for hostile in ["", ".", "..", "../../etc", "a/b", "a\0b", &"x".repeat(256)] {
        check(file(hostile, "app", 0), None);
        check(file("u", hostile, 0), None);
    }
    assert_eq!((target("/dev/x").as_str(), target("x/y").as_str()), ("/dev/x", "/x/y"));
}

#[test]
fn policies() {
    let way = |path, policy| Way::of(path, policy);
    let file = Some("/dev/termination-log");
    assert_eq!(way(file, Some("File")), Way { file: true, log: false });
    assert_eq!(way(file, Some("FallbackToLogsOnError")), Way { file: true, log: true });
    assert_eq!(way(Some(""), Some("FallbackToLogsOnError")), Way { file: false, log: true });
    assert_eq!(way(None, None), Way::default());
    let both = way(file, Some("FallbackToLogsOnError"));
    let asks = [(1, false), (137, false), (0, false), (127, true)]
        .map(|(c, cannot)| both.asks_log(&exit(c, cannot)));
    assert_eq!(asks, [true, true, false, false], "an error, and of a container that ran");
    assert!(!way(file, Some("File")).asks_log(&exit(1, false)));
}

#[test]
fn sizes() {
    assert_eq!(text(&[b'x'; 5000]).len(), 4096);
    assert_eq!(text(b"first\nlast"), "first\nlast");
    let long: Vec<u8> = (0..3000u32).flat_map(|n| format!("{n}\n").into_bytes()).collect();
    assert!(text(&long).ends_with("2999\n"), "the newest is kept");
    assert!(text(&[0xff; 5000]).len() <= 4096, "also of what is no text");
    let cut = text(&[&[b'x'; 10][..], "ä".repeat(2048).as_bytes()].concat());
    assert!(cut.len() <= 4096 && cut.starts_with('ä'), "{cut}");
    assert_eq!((share(1), share(3), share(0)), (12288, 4096, 12288));
    assert_eq!(joined("", "", 10), None);
    assert_eq!(joined("runtime", "", 100).as_deref(), Some("runtime"));
    assert_eq!(joined("", "own", 100).as_deref(), Some("own"));
    assert_eq!(joined("runtime", "own", 100).as_deref(), Some("runtime: own"));
    assert_eq!(joined("runtime", "own", 10).as_deref(), Some("runtime: o"), "the beginning is kept");
    assert_eq!(joined("", "äää", 3).as_deref(), Some("ä"));
}

#[test]
fn logs_are_framed_or_raw() {
    let frame =
        |text: &str| [&[1, 0, 0, 0, 0, 0, 0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    assert_eq!(log_text(&[frame("one\n"), frame("two\n")].concat()), "one\ntwo\n");
    assert_eq!(log_text(b"from a terminal\r\n"), "from a terminal\r\n");
    assert_eq!(log_text(b""), "");
    let long: Vec<u8> = (0..100).flat_map(|n| frame(&format!("{n:099}\n"))).collect();
    let text = log_text(&long);
    assert!(text.len() == 2048 && text.ends_with("99\n"), "{}", text.len());
}

#[test]
fn files_are_made_read_and_removed() {
    let root = crate::base::testing::scratch("termination");
    let files = Files::new(root.clone());
    let one = file("u", "app", 0);
    assert_eq!(files.read(&one).as_deref(), Ok(""), "one that is not there is empty");
    files.make(&one).unwrap();
    let path = one.path(&root).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
    fs::write(&path, "my last words").unwrap();
    assert_eq!(files.read(&one).as_deref(), Ok("my last words"));
    fs::write(&path, [b"old".repeat(100_000), b"new".to_vec()].concat()).unwrap();
    let read = files.read(&one).unwrap();
    assert!(read.len() == 4096 && read.ends_with("oldnew"), "{}", read.len());
    files.make(&one).unwrap();
    assert_eq!(files.read(&one).as_deref(), Ok(""), "made anew, it is empty");
    let two = file("u", "app", 1);
    files.make(&two).unwrap();
    files.remove(&one);
    assert!(!path.exists() && two.path(&root).unwrap().exists());
    fs::create_dir(root.join("pods/u/volumes")).unwrap();
    files.remove(&two);
    assert!(!root.join("pods/u/containers").exists() && root.join("pods/u/volumes").exists());
    files.remove(&two);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn links_and_other_things_in_a_file_s_place_are_not_followed() {
    let root = crate::base::testing::scratch("termination-links");
    let files = Files::new(root.clone());
    let it = file("u", "app", 0);
    let path = it.path(&root).unwrap();
    fs::write(root.join("secret"), "secret").unwrap();
    files.make(&it).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(root.join("secret"), &path).unwrap();
    let error = files.read(&it).unwrap_err();
    assert!(error.starts_with(&format!("Error on reading termination log {}: ", path.display())), "{error}");
    assert!(files.make(&it).is_err());
    assert_eq!(fs::read_to_string(root.join("secret")).unwrap(), "secret");
    fs::remove_file(&path).unwrap();
    let fifo = rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    );
    fifo.unwrap();
    assert!(files.read(&it).is_err(), "and a pipe is not waited for");
    fs::remove_dir_all(root.join("pods/u")).unwrap();
    fs::create_dir(root.join("elsewhere")).unwrap();
    symlink(root.join("elsewhere"), root.join("pods/u")).unwrap();
    assert!(files.make(&it).is_err());
    files.sweep(&Set::new());
    assert!(root.join("elsewhere").exists());
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn a_sweep_takes_what_nobody_has() {
    let root = crate::base::testing::scratch("termination-sweep");
    let dead = Files::new(root.clone());
    for uid in ["kept", "gone", "gone-with-volumes", "again"] {
        dead.make(&file(uid, "app", 0)).unwrap();
        dead.make(&file(uid, "other", 7)).unwrap();
    }
    fs::create_dir(root.join("pods/gone-with-volumes/volumes")).unwrap();
    fs::write(root.join("pods/gone-with-volumes/containers/app/theirs"), "").unwrap();
    let files = Files::new(root.clone());
    files.make(&file("again", "app", 1)).unwrap();
    files.sweep(&["kept".to_owned()].into());
    let left: Set<String> = fs::read_dir(root.join("pods"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["kept", "gone-with-volumes", "again"].map(String::from).into());
    assert!(root.join("pods/gone-with-volumes/containers/app/theirs").exists(), "not ours");
    assert!(!root.join("pods/gone-with-volumes/containers/other").exists());
    assert!(file("again", "app", 0).path(&root).unwrap().exists());
    fs::remove_dir_all(&root).unwrap();
}

/// A container whose image never came has a directory, but no end.
#[test]
fn a_pod_that_is_gone_leaves_nothing_of_what_was_never_made() {
    let root = crate::base::testing::scratch("never-made");
    let files = Files::new(root.clone());
    files.make(&file("u", "app", 0)).unwrap();
    files.make(&file("u", "other", 0)).unwrap();
    files.pod_file("u", crate::layout::HOSTS).unwrap();
    files.make(&file("another", "app", 0)).unwrap();
    files.forget_pod("u");
    assert!(!root.join("pods/u").exists());
    assert!(root.join("pods/another/containers/app/00000000").exists());
    fs::remove_dir_all(root).unwrap();
}
