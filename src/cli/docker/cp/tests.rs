//! Copies between two directories, one of them in place of a container's root. No file outside them changes.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::*;
use crate::base::regular::fifo;
use crate::base::testing::scratch;

/// A directory with a container's root in it, and files of this machine beside the root.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = scratch(&format!("cp-{name}"));
        fs::create_dir_all(dir.join("root/etc")).unwrap();
        fs::write(dir.join("root/etc/passwd"), "of the container").unwrap();
        fs::create_dir(dir.join("etc")).unwrap();
        fs::write(dir.join("etc/passwd"), "of the machine").unwrap();
        fs::create_dir(dir.join("here")).unwrap();
        Place(dir)
    }

    fn inside(&self) -> Inside {
        Inside::below(rustix::fs::open(self.at("root"), DIRECTORY, Mode::empty()).unwrap())
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
    }

    fn mode(&self, path: &str) -> u32 {
        fs::symlink_metadata(self.at(path)).unwrap().permissions().mode() & 0o7777
    }

    fn set_mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.at(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    fn out(&self, from: &str, to: &str) -> Copying {
        out_of(&self.inside(), from, &self.at(to)).unwrap()
    }

    fn put(&self, from: &str, to: &str) -> Copying {
        into(&self.inside(), &self.at(from), to, true).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn good(copying: &Copying) {
    assert_eq!((copying.failures, copying.told.as_slice()), (0, [].as_slice()));
}

fn bad(copying: &Copying, why: &[&str]) {
    assert_eq!(copying.failures, why.len() as u64, "{:?}", copying.told);
    for (told, why) in copying.told.iter().zip(why) {
        assert!(told.contains(why), "{told:?} has no {why:?}");
    }
}

#[test]
fn paths_stay_in_the_container() {
    let place = Place::new("paths");
    for (name, target) in [
        ("absolute", "/etc/passwd"),
        ("up", "../../../../../etc/passwd"),
        ("way", "/way/../etc/../../etc/passwd"),
        ("etc-too", "../etc"),
        ("loop", "loop"),
        ("ping", "/pong"),
        ("pong", "ping/x"),
        ("to-nothing", "/nothing"),
    ] {
        symlink(target, place.at("root").join(name)).unwrap();
    }
    let inside = place.inside();
    let expected = fs::metadata(place.at("root/etc/passwd")).unwrap().ino();
    let found = |path: &str| inside.find(path).map(|found| fstat(&found).unwrap().st_ino);
    for path in [
        "/etc/passwd",
        "etc/passwd",
        "//etc/./passwd",
        "/../../etc/passwd",
        "/absolute",
        "/up",
        "/etc-too/passwd",
        "/etc-too/../etc/passwd",
    ] {
        assert_eq!(found(path), Ok(expected), "{path}");
    }
    assert_eq!(found("/"), Ok(fs::metadata(place.at("root")).unwrap().ino()));
    assert_eq!(found("/loop"), Err(Errno::LOOP));
    assert_eq!(found("/ping"), Err(Errno::LOOP));
    assert_eq!(found("/way"), Err(Errno::LOOP));
    assert_eq!(found("/to-nothing"), Err(Errno::NOENT));
    assert_eq!(found("/etc/passwd/x"), Err(Errno::NOTDIR));
    assert_eq!(found("/etc/passwd/"), Err(Errno::NOTDIR));
    assert_eq!(found(&"x/".repeat(5)), Err(Errno::NOENT));
}

#[test]
fn trees_are_copied_with_their_modes_and_links() {
    let place = Place::new("trees");
    fs::create_dir_all(place.at("here/tree/empty")).unwrap();
    fs::create_dir_all(place.at("here/tree/sub")).unwrap();
    fs::write(place.at("here/tree/sub/run"), "#!").unwrap();
    fs::write(place.at("here/tree/none"), "").unwrap();
    place.set_mode("here/tree/sub/run", 0o4751);
    place.set_mode("here/tree/none", 0o600);
    place.set_mode("here/tree/sub", 0o750);
    symlink("/etc/passwd", place.at("here/tree/link")).unwrap();
    // To a new name, and then into an existing directory.
    good(&place.put("here/tree", "/new"));
    good(&place.put("here/tree", "/etc"));
    for top in ["root/new", "root/etc/tree"] {
        assert_eq!(place.text(&format!("{top}/sub/run")), "#!");
        assert_eq!(place.mode(&format!("{top}/sub/run")), 0o4751);
        assert_eq!(place.mode(&format!("{top}/sub")), 0o750);
        assert_eq!(place.mode(&format!("{top}/none")), 0o600);
        assert_eq!(fs::read_link(place.at(top).join("link")).unwrap(), Path::new("/etc/passwd"));
        assert!(place.at(top).join("empty").is_dir());
    }
    // Only the content, into an existing directory that keeps its other files.
    fs::write(place.at("root/new/own"), "stays").unwrap();
    fs::create_dir(place.at("here/.dots")).unwrap();
    good(&place.put("here/tree/.", "/new"));
    assert_eq!(place.text("root/new/own"), "stays");
    // Out again: the content goes into the directory, and no copy has more permissions than its user may give.
    good(&place.out("/new", "here/deep/er/back"));
    assert_eq!(place.text("here/deep/er/back/own"), "stays");
    assert_eq!(place.mode("here/deep/er/back/sub/run"), 0o751 & !tree::mask());
    assert_eq!(fs::read_link(place.at("here/deep/er/back/link")).unwrap(), Path::new("/etc/passwd"));
    // A file to another name, into a directory, and over an existing file.
    good(&place.out("/etc/passwd", "here/copy"));
    good(&place.out("etc/passwd", "here/tree"));
    good(&place.out("/etc/passwd", "here/tree/none"));
    for file in ["here/copy", "here/tree/passwd", "here/tree/none"] {
        assert_eq!(place.text(file), "of the container");
    }
    let plain = into(&place.inside(), &place.at("here/tree"), "/plain", false).unwrap();
    good(&plain);
    assert_eq!((place.mode("root/plain"), place.mode("root/plain/sub/run")), (0o755, 0o644));
}

#[test]
fn what_cannot_be_is_said() {
    let place = Place::new("errors");
    let out = |from: &str, to: &str| out_of(&place.inside(), from, &place.at(to)).unwrap_err();
    let into = |from: &str, to: &str| into(&place.inside(), &place.at(from), to, true).unwrap_err();
    assert!(out("/nothing", "here/x").starts_with("/nothing: No such file"));
    assert!(out("/etc/passwd", "here/x/").ends_with("there is no such directory"));
    assert!(out("/etc", "etc/passwd").contains("File exists"));
    assert!(into("nothing", "/x").contains("No such file"));
    assert!(into("here", "/etc/passwd").ends_with("it is no directory"));
    assert!(into("etc/passwd", "/no/such").starts_with("/no/such: No such file"));
    assert!(into("etc/passwd", "/no/").ends_with("there is no such directory"));
}

/// The container has put links at the targets of copies, and entries that are not regular files among the sources.
#[test]
fn nothing_is_written_through_a_link_or_read_of_what_is_no_file() {
    let place = Place::new("hostile");
    fs::create_dir_all(place.at("root/evil/dir")).unwrap();
    fs::write(place.at("root/evil/dir/passwd"), "evil").unwrap();
    fs::write(place.at("root/evil/file"), "evil").unwrap();
    fifo(&place.at("root/evil/pipe"));
    // An earlier copy left these links here.
    fs::create_dir(place.at("here/got")).unwrap();
    symlink("../../etc", place.at("here/got/dir")).unwrap();
    symlink("../../etc/passwd", place.at("here/got/file")).unwrap();
    let all = place.out("/evil", "here/got");
    assert_eq!(all.failures, 2, "{:?}", all.told);
    assert!(all.told.iter().any(|it| it == "/evil/dir: a file or a link stands where its copy belongs"));
    assert!(all.told.iter().any(|it| it == "/evil/pipe: it is a device, a pipe or a socket"));
    assert_eq!(place.text("etc/passwd"), "of the machine");
    assert_eq!(place.text("here/got/file"), "evil");
    assert!(!fs::symlink_metadata(place.at("here/got/file")).unwrap().is_symlink());
    // The other way: the container's own links resolve within it.
    symlink(place.at("etc"), place.at("root/trap")).unwrap();
    let trapped = into(&place.inside(), &place.at("here/got/file"), "/trap/passwd", true);
    assert!(trapped.unwrap_err().contains("No such file"));
    fs::create_dir(place.at("root/dest")).unwrap();
    symlink("/etc", place.at("root/dest/dir")).unwrap();
    fs::create_dir_all(place.at("here/up/dir")).unwrap();
    fs::write(place.at("here/up/dir/passwd"), "new").unwrap();
    bad(&place.put("here/up/.", "/dest"), &["a file or a link stands where its copy belongs"]);
    assert_eq!(place.text("root/etc/passwd"), "of the container");
    bad(&place.put("here/got/file", "/etc/../evil"), &[]);
    assert_eq!(place.text("root/evil/file"), "evil");
    // A directory is where a file belongs.
    fs::create_dir(place.at("root/dest/file")).unwrap();
    bad(&place.put("here/got/file", "/dest"), &["a directory stands where its copy belongs"]);
}

#[test]
fn a_file_larger_than_the_disk_and_a_directory_in_itself_end() {
    let place = Place::new("bounds");
    let huge = fs::File::create(place.at("root/huge")).unwrap();
    if huge.set_len(1 << 43).is_ok() {
        bad(&place.out("/huge", "here/huge"), &["No space left on device"]);
        assert!(!place.at("here/huge").exists());
    }
    fs::remove_file(place.at("root/huge")).unwrap();
    bad(&place.out("/", "root/etc/back"), &["it is the directory that is written to"]);
    assert_eq!(place.text("root/etc/back/etc/passwd"), "of the container");
    let mut deep = place.at("root/deep");
    for _ in 0..=crate::base::limits::COPY_DEPTH {
        deep.push("d");
    }
    fs::create_dir_all(&deep).unwrap();
    bad(&place.out("/deep", "here/deep"), &["too many directories in each other"]);
}
