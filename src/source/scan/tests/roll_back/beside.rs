//! Tests of signed contents that one source replaced and another source puts back.

use super::*;

/// Anyone who may write to the directory could put the URL's old pod back, because its pods take precedence.
#[test]
fn what_another_source_replaced_is_not_put_back_by_this_one() {
    let world = World::new();
    let url = |board: &Board| LastGood::new(&world.temp.path(""), None, Source::Http).seen_by(board);
    let seen = |version: u64, names: &[&str]| {
        let names = names.iter().copied().map(str::to_owned).collect();
        (Claim { edition: Edition::Version(version), digest: [8; 32], names }, Set::new())
    };
    for restarts in [false, true] {
        let board = Board::default();
        let mut http = url(&board);
        let _ = http.load();
        http.load_seen();
        http.note(&[seen(8, &["pod default/web", "ConfigMap default/web"])], Set::new);
        while http.is_behind(Mono::default()) {
            http.save_some(Mono::default());
        }
        let board = if restarts { Board::default() } else { board };
        // As at a start: the URL's contents are not loaded yet.
        let _http = restarts.then(|| url(&board));
        let mut daemon = world.start_beside(&board);
        world.put("a.yaml", "pod web\npod db", "version:7");
        let highest = "pod default/web was accepted in version 8 from source http";
        is_refused(&daemon.look(), "", "/m/a.yaml", "version 7", highest);
        world.put("a.yaml", "pod db", "version:7");
        assert_eq!(daemon.look(), "db");
        // The pod moves, and stays though the other source has a newer version: accepted content is not judged anew.
        world.put("b.yaml", "pod web", "version:8");
        assert_eq!(daemon.look(), "db web");
        http.note(&[seen(9, &["pod default/web"])], Set::new);
        assert_eq!(world.start_beside(&board).look(), "db web");
        world.remove("a.yaml");
        world.remove("b.yaml");
        daemon.look();
        drop(daemon);
        fs::remove_dir_all(directory(&world.temp.path(""), Source::File)).unwrap();
        fs::remove_dir_all(directory(&world.temp.path(""), Source::Http)).unwrap();
    }
}

/// The URL's newer signed content drops the pod, and someone who may write to the directory has kept the last content
/// with it. The record of an earlier version of podkeeper, or of a daemon that was killed, does not have the drop.
#[test]
fn what_another_source_does_without_is_not_put_back_by_its_last_content() {
    for (restarts, earlier) in [(false, false), (true, false), (true, true)] {
        let world = World::new();
        let board = Board::default();
        let mut http = world.url(&board);
        let said = "pod default/web was accepted and has been replaced since in version 8 from source http";
        let old = of_url(8, "pod web", &["pod default/web"]);
        http.note(&[(old.clone(), Set::new())], Set::new);
        http.note(&[(of_url(20, "pod other", &["pod default/other"]), Set::new())], Set::new);
        if earlier {
            // The URL's record now says no more about the pod than the file's.
            fs::remove_dir_all(directory(&world.temp.path(""), Source::Http)).unwrap();
            assert!(http.was_forgotten());
            http.note(&[(of_url(20, "pod other", &["pod default/other"]), Set::new())], Set::new);
            let names = order::set(["pod default/web".to_owned()]);
            http.note(&[(Claim { names, ..old }, Set::new())], Set::new);
        }
        write_out(&mut http);
        let board = if restarts { Board::default() } else { board };
        let _http = restarts.then(|| LastGood::new(&world.temp.path(""), None, Source::Http).seen_by(&board));
        let mut daemon = world.start_beside(&board);
        world.put("x.yaml", "pod web", "version:8");
        is_refused(&daemon.look(), "", "/m/x.yaml", "version 8", said);
        world.put("x.yaml", "pod web", "version:9");
        assert_eq!(daemon.look(), "web", "on purpose");
    }
}

/// The reverse: the owner of the server has kept the content of a file.
#[test]
fn what_a_file_does_without_is_not_put_back_by_the_url() {
    let world = World::new();
    let board = Board::default();
    let mut daemon = world.start_beside(&board);
    world.put("a.yaml", "pod web", "version:8");
    assert_eq!(daemon.look(), "web");
    let http = world.url(&board);
    let old = of_url(8, "pod web", &["pod default/web"]);
    // The pod moves while the file exists, or after it was removed.
    assert_eq!(http.seen().check(&old, "http"), Ok(()));
    world.put("a.yaml", "pod shop", "version:20");
    assert_eq!(daemon.look(), "shop");
    let said = http.seen().check(&old, "http").unwrap_err();
    assert!(said.contains("has been replaced since in version 8 from source file"), "{said}");
    let board = Board::default();
    let _file = LastGood::new(&world.temp.path(""), None, Source::File).seen_by(&board);
    assert!(world.url(&board).seen().check(&old, "http").is_err(), "after a restart");
    assert_eq!(world.url(&board).seen().check(&of_url(9, "pod web", &["pod default/web"]), "http"), Ok(()));
}

/// A pod that moved to a file before the URL dropped it stays there, whatever the file's name is.
#[test]
fn a_pod_that_moved_from_the_url_to_a_file_stays_when_the_url_goes_on() {
    let world = World::new();
    let board = Board::default();
    let mut http = world.url(&board);
    http.note(&[(of_url(8, "pod web", &["pod default/web"]), Set::new())], Set::new);
    let mut daemon = world.start_beside(&board);
    world.put("a.yaml", "pod web", "version:8");
    assert_eq!(daemon.look(), "web");
    http.note(&[(of_url(20, "pod other", &["pod default/other"]), Set::new())], Set::new);
    write_out(&mut http);
    for restarts in [false, true] {
        world.remove("a.yaml");
        world.put("b.yaml", "pod web", "version:8");
        let board = Board::default();
        let _http = LastGood::new(&world.temp.path(""), None, Source::Http).seen_by(&board);
        if restarts {
            daemon = world.start_beside(&board);
        }
        assert_eq!(daemon.look(), "web", "{restarts}");
        world.remove("b.yaml");
        world.put("a.yaml", "pod web", "version:8");
        assert_eq!(daemon.look(), "web", "{restarts}");
    }
}

/// A source that starts before this one judges by the record alone.
#[test]
fn killed_at_any_moment_the_record_says_what_the_remembered_content_does_without() {
    let world = World::new();
    let board = Board::default();
    let mut http = world.url(&board);
    let accept = |http: &mut LastGood, claim: Claim, version| {
        http.note(&[(claim, Set::new())], Set::new);
        let content = Remembered { path: "u".into(), version, bytes: "pods".into(), ..Remembered::default() };
        http.remember(content, &[version]);
    };
    let old = of_url(8, "pod web", &["pod default/web"]);
    accept(&mut http, old.clone(), 1);
    write_out(&mut http);
    accept(&mut http, of_url(20, "pod other", &["pod default/other"]), 2);
    let of_file = Claim { names: order::set(["pod default/web".to_owned()]), ..old };
    while http.is_behind(Mono::default()) {
        http.save_some(Mono::default());
        let board = Board::default();
        let mut again = LastGood::new(&world.temp.path(""), None, Source::Http).seen_by(&board);
        let file = LastGood::new(&world.temp.path(""), None, Source::File).seen_by(&board);
        assert!(
            again.load().iter().all(|content| content.version == 1) || {
                file.seen().check(&of_file, "file").is_err()
            }
        );
    }
    let file = LastGood::new(&world.temp.path(""), None, Source::File).seen_by(&board);
    assert!(file.seen().check(&of_file, "file").is_err());
}

/// The operator changes the URL and changes it back: the last content of the first URL is not older than what was seen.
#[test]
fn a_url_that_is_asked_again_is_not_refused_for_what_another_one_said() {
    let world = World::new();
    let board = Board::default();
    let mut http = world.url(&board);
    let other = |version, text: &str, name: &str| Claim {
        names: order::set([name.to_owned(), "URL v".to_owned()]),
        ..of_url(version, text, &[])
    };
    let first = of_url(8, "pod web", &["pod default/web"]);
    http.note(&[(first.clone(), Set::new())], Set::new);
    http.note(&[(other(8, "pod db", "pod default/db"), Set::new())], Set::new);
    let file = LastGood::new(&world.temp.path(""), None, Source::File).seen_by(&board);
    let of_file =
        |text: &str, name: &str| Claim { names: order::set([name.to_owned()]), ..of_url(8, text, &[]) };
    let (web, db) = (of_file("pod web", "pod default/web"), of_file("pod db", "pod default/db"));
    assert!(file.seen().check(&web, "file").is_err());
    assert_eq!(file.seen().check(&db, "file"), Ok(()));
    assert_eq!(http.seen().check(&first, "http"), Ok(()));
    http.note(&[(first, Set::new())], Set::new);
    assert_eq!(file.seen().check(&web, "file"), Ok(()));
    assert!(file.seen().check(&db, "file").is_err());
}

/// The claim of the signer of the URL's content.
fn of_url(version: u64, text: &str, names: &[&str]) -> Claim {
    Claim {
        edition: Edition::Version(version),
        digest: crate::base::sha256::hash(text.as_bytes()),
        names: order::set(names.iter().copied().chain(["URL u"]).map(str::to_owned)),
    }
}

fn write_out(store: &mut LastGood) {
    while store.is_behind(Mono::default()) {
        store.save_some(Mono::default());
    }
}
