//! Accepted content is restored when the server does not answer.

use super::*;

/// A root directory in which a daemon has remembered this answer of the URL.
fn remembering(url: &str, body: &str, etag: &str) -> PathBuf {
    let root = scratch();
    let mut store = LastGood::new(&root, None, Source::Http);
    store.load();
    let content = Remembered {
        path: ManifestUrl::parse(url).unwrap().identity(),
        version: 1,
        bytes: body.into(),
        etag: Some(etag.to_owned()),
        ..Remembered::default()
    };
    store.remember(content, &[1]);
    store.save_some(Default::default());
    assert!(!store.is_behind(Default::default()));
    root
}

/// The remembered content: bodies and entity tags.
fn remembered(root: &Path) -> Vec<(String, Option<String>)> {
    let contents = LastGood::new(root, None, Source::Http).load();
    contents.into_iter().map(|c| (String::from_utf8(c.bytes.0).unwrap(), c.etag)).collect()
}

#[test]
fn what_was_accepted_is_restored_while_the_server_says_nothing() {
    let server = Server::start();
    server.answer(|_, pipe| silence(pipe));
    let root = remembering(&server.url(), POD_A, "\"7\"");
    let rig = Rig::with(hasty(&server.url()), &root, None);
    assert_eq!(rig.next(), "restored a");
    assert!(rig.next().ends_with("no answer within 700ms"));
    server.send(status("304 Not Modified"));
    assert_eq!(rig.poll(), "full a");
    assert!(server.heads().iter().all(|head| header(head, "if-none-match") == ["\"7\""]));
    server.send(ok("ETag: \"8\"\r\n", POD_A));
    assert_eq!(rig.poll(), "same");
    // A new entity tag alone is not written.
    assert_eq!(remembered(&root), [(POD_A.to_owned(), Some("\"7\"".to_owned()))]);
    server.send(ok("ETag: \"9\"\r\n", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    assert_eq!(remembered(&root), [(POD_B.to_owned(), Some("\"9\"".to_owned()))]);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn what_was_accepted_is_restored_at_once_when_the_server_is_gone() {
    let url = Server::start().url();
    let rig = Rig::with(settings(&url), &remembering(&url, POD_A, "1"), None);
    assert_eq!(rig.next(), "restored a");
    assert!(rig.next().contains("Connection refused"));
}

#[test]
fn a_quick_answer_needs_no_restoring_and_what_is_not_accepted_any_more_is_not_restored() {
    let server = Server::start();
    server.send(ok("", POD_B));
    let rig = Rig::with(settings(&server.url()), &remembering(&server.url(), POD_A, "1"), None);
    let first = rig.next();
    // On an overloaded machine the head start may pass before the answer arrives.
    assert_eq!(if first == "restored a" { rig.next() } else { first }, "full b");
    let rig = Rig::with(settings(&server.url()), &remembering(&server.url(), "rubbish", "1"), None);
    assert_eq!(rig.next(), "full b");
    assert_eq!(header(server.heads().last().unwrap(), "if-none-match"), [""; 0]);
}

#[test]
fn what_is_forgotten_runs_only_when_the_server_says_so_again() {
    let server = Server::start();
    server.send(ok("ETag: 1\r\n", POD_A));
    let root = scratch();
    let rig = Rig::with(settings(&server.url()), &root, None);
    assert_eq!(rig.next(), "full a");
    let store = directory(&root, Source::Http);
    let forget = || {
        // The content is written after the update was sent.
        let is_whole = |e: fs::DirEntry| e.path().extension().is_some_and(|x| x == "good");
        while !fs::read_dir(&store).is_ok_and(|entries| entries.flatten().any(is_whole)) {
            std::thread::yield_now();
        }
        assert_eq!(forget::forget(&root, Source::Http).unwrap(), Some(1));
    };
    forget();
    assert_eq!(rig.poll(), "full a");
    assert_eq!(header(server.heads().last().unwrap(), "if-none-match"), [""; 0]);
    forget();
    server.send(status("503 Service Unavailable"));
    assert_eq!(rig.poll(), "forgotten");
    assert!(rig.next().contains("503 Service Unavailable"));
    assert!(store.exists() && remembered(&root).is_empty());
    // Now there is nothing left to forget.
    server.send(ok("", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    fs::remove_dir_all(&root).unwrap();
}

#[test]
fn another_url_restores_nothing_and_takes_the_place() {
    let root = remembering("http://127.0.0.1:9/other?node=1", POD_A, "1");
    let server = Server::start();
    server.send(status("404 Not Found"));
    let rig = Rig::with(settings(&server.url()), &root, None);
    assert!(rig.next().contains("404 Not Found"));
    assert_eq!(remembered(&root).len(), 1);
    server.send(ok("", POD_B));
    assert_eq!(rig.poll(), "full b");
    drop(rig);
    assert_eq!(remembered(&root), [(POD_B.to_owned(), None)]);
    fs::remove_dir_all(&root).unwrap();
}

// --- TLS -----------------------------------------------------------------------------------------
