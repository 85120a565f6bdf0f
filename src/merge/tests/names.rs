//! Several pods that claim one name, or one UID: which one gets it.

use super::*;

#[test]
fn k136962_two_files_one_name() {
    let (winner, loser) = (sample("web", "u1", "/m/b.yaml"), sample("web", "u2", "/m/a.yaml"));
    let mut merge = merge();
    assert_eq!(file(&mut merge, std::slice::from_ref(&winner)), "Add[web:u1]");
    // The backup sorts first, but the running one keeps the name; both are reported.
    assert_eq!(file(&mut merge, &[winner.clone(), loser.clone()]), "");
    let problems: Vec<String> = merge.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "/m/a.yaml: pod default/web: the name is held by the pod from /m/b.yaml, which keeps it; this one \
             is ignored until that one is gone or renamed",
            "/m/b.yaml: pod default/web: the pod from /m/a.yaml has the same name and is ignored",
        ]
    );
    // The loser is removed: no change.
    assert_eq!(file(&mut merge, std::slice::from_ref(&winner)), "");
    assert!(merge.problems().is_empty());
    // The holder is removed: the loser takes over in the same merge.
    file(&mut merge, &[winner.clone(), loser.clone()]);
    assert_eq!(file(&mut merge, std::slice::from_ref(&loser)), "Remove[web:u1] Add[web:u2]");
    assert!(merge.problems().is_empty());
    // It keeps the name when the first comes back.
    assert_eq!(file(&mut merge, &[winner, loser]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:u2");
}

#[test]
fn of_many_problems_the_errors_are_told_first() {
    let mut merge = merge();
    let many = limits::PROBLEMS_PER_SOURCE - 100;
    let all: Vec<Sample> =
        (0..=many).map(|n| sample("web", &format!("u{n}"), &format!("/m/{n:04}.yaml"))).collect();
    file(&mut merge, &all);
    let problems = merge.problems();
    assert_eq!(problems.len(), limits::PROBLEMS_PER_SOURCE);
    assert_eq!(problems.iter().filter(|problem| problem.severity == Severity::Error).count(), many);
}

#[test]
fn an_edit_follows_its_origin_and_then_its_file() {
    let other = sample("web", "u9", "/m/a.yaml");
    let check = |edited: Sample| {
        let mut merge = merge();
        let held = sample("web", "u1", "/m/b.yaml");
        file(&mut merge, std::slice::from_ref(&held));
        file(&mut merge, &[held, other.clone()]);
        let told = file(&mut merge, &[other.clone(), edited.clone()]);
        assert_eq!(told, format!("Remove[web:u1] Add[web:{}]", edited.uid));
    };
    check(sample("web", "u2", "/m/b.yaml"));
    // At the same time a document was inserted before it.
    check(sample("web", "u2", "/m/b.yaml").document(3));
}

#[test]
fn without_a_holder_the_first_by_source_and_origin_wins() {
    let mut merge = merge();
    let told = file(
        &mut merge,
        &[
            sample("web", "u3", "/m/c.yaml"),
            sample("web", "u2", "/m/b.yaml").document(1),
            sample("web", "u1", "/m/b.yaml"),
        ],
    );
    assert_eq!(told, "Add[web:u1]");
    assert_eq!(merge.problems().len(), 4);
}

#[test]
fn only_the_owner_removes_and_another_source_takes_over_at_once() {
    let mut merge = merge();
    assert_eq!(file(&mut merge, &[sample("web", "f1", "/m/a.yaml")]), "Add[web:f1]");
    assert_eq!(http(&mut merge, &[sample("web", "h1", "http://x")]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    assert_eq!(http(&mut merge, &[]), "");
    assert_eq!(http(&mut merge, &[sample("web", "h1", "http://x")]), "");
    let changes = merge.full(Source::File, &PodSet::default(), at(9));
    assert_eq!(words(&changes), "Remove[web:f1] Add[web:h1]");
    assert_eq!(changes[0].pods[0].source, Source::File);
    assert_eq!(changes[1].pods[0].source, Source::Http);
}

#[test]
fn a_file_wins_over_a_url_whoever_came_first() {
    let (in_file, in_url) = (sample("web", "f1", "/m/a.yaml"), sample("web", "h1", "http://x"));
    let mut merge = merge();
    assert_eq!(http(&mut merge, std::slice::from_ref(&in_url)), "Add[web:h1]");
    assert_eq!(file(&mut merge, std::slice::from_ref(&in_file)), "Remove[web:h1] Add[web:f1]");
    assert_eq!(http(&mut merge, &[in_url]), "");
    // The same when the URL's pod runs as the daemon starts.
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let running = Running { uid: "h1".to_owned(), ..Running::default() };
    assert_eq!(words(&merge.running(&Table::from([(key, running)]), at(2))), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
}

#[test]
fn a_pod_with_a_fixed_uid_moves_between_sources_and_files_without_a_restart() {
    let check = |then: Sample, expected: &str| {
        let mut merge = merge();
        file(&mut merge, &[sample("web", "u1", "/m/a.yaml")]);
        assert_eq!(http(&mut merge, std::slice::from_ref(&then)), "");
        assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:u1");
        let changes = merge.full(Source::File, &PodSet::default(), at(9));
        assert_eq!(words(&changes), expected);
        assert_eq!(holder(&merge, "web"), "http:http://x:u1");
        let pod = merge.pods().next().unwrap();
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[CONFIG_SOURCE], "http");
        assert_eq!(annotations[CONFIG_SEEN], "1970-01-01T00:01:40.000000000Z");
        assert!(merge.problems().is_empty());
        // Only the new owner removes it.
        assert_eq!(file(&mut merge, &[]), "");
        assert_eq!(http(&mut merge, &[]), "Remove[web:u1]");
    };
    check(sample("web", "u1", "http://x"), "Reconcile[web:u1]");
    check(sample("web", "u1", "http://x").host("x"), "Update[web:u1]");
}

#[test]
fn what_runs_when_the_daemon_begins_keeps_its_name() {
    let uids = |uid: &str| {
        let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
        Table::from([(key, Running { uid: uid.to_owned(), ..Running::default() })])
    };
    let both = [sample("web", "u1", "/m/a.yaml"), sample("web", "u2", "/m/b.yaml")];
    // Docker was listed first.
    let mut first = merge();
    assert!(first.running(&uids("u2"), at(1)).is_empty());
    assert_eq!(file(&mut first, &both), "Add[web:u2]");
    // The files were read first.
    let mut second = merge();
    assert_eq!(file(&mut second, &both), "Add[web:u1]");
    let changes = second.running(&uids("u2"), at(2));
    assert_eq!(words(&changes), "Remove[web:u1] Add[web:u2]");
    // This counts once: from now on the holder keeps the name by itself.
    assert_eq!(file(&mut second, &[both[0].clone()]), "Remove[web:u2] Add[web:u1]");
    assert_eq!(file(&mut second, &both), "");
    // No manifest wants the running version: the edit of kubernetes/kubernetes#112814.
    let mut third = merge();
    assert!(third.running(&uids("u0"), at(1)).is_empty());
    assert_eq!(file(&mut third, &both), "Add[web:u1]");
}

#[test]
fn a_running_pod_keeps_its_name_within_its_source_alone() {
    let mut merge = merge();
    file(&mut merge, &[sample("web", "f1", "/m/a.yaml"), sample("db", "f2", "/m/b.yaml")]);
    http(&mut merge, &[sample("web", "h1", "http://x")]);
    file(
        &mut merge,
        &[sample("web", "f1", "/m/a.yaml"), sample("db", "f2", "/m/b.yaml"), sample("db", "f3", "/m/c.yaml")],
    );
    let key = |name: &str| PodKey { namespace: "default".into(), name: format!("{name}-node1") };
    let uid = |uid: &str| Running { uid: uid.to_owned(), ..Running::default() };
    let uids = Table::from([(key("web"), uid("h1")), (key("db"), uid("f3"))]);
    let changes = merge.running(&uids, at(2));
    // Within one source the running pod keeps its name; between two sources the file's pod does.
    assert_eq!(words(&changes), "Remove[db:f2] Add[db:f3]");
}

#[test]
fn a_pod_that_another_source_takes_over_word_for_word_stays_the_same() {
    let in_file = || sample("web", "f1", "/m/a.yaml").written("w");
    let in_url = || sample("web", "h1", "http://x").written("w");
    let mut merge = merge();
    assert_eq!(file(&mut merge, &[in_file()]), "Add[web:f1]");
    assert_eq!(http(&mut merge, &[in_url()]), "");
    assert_eq!(merge.problems().len(), 1, "{:?}", merge.problems());
    assert_eq!(merge.problems()[0].severity, Severity::Warning);
    // The file is removed: the URL's pod is the same pod, with the running UID.
    assert_eq!(file(&mut merge, &[]), "Reconcile[web:f1]");
    assert_eq!(holder(&merge, "web"), "http:http://x:f1");
    // It is the same after the next reading, and when the file comes back and takes the name again.
    assert_eq!(http(&mut merge, &[in_url()]), "");
    assert_eq!(file(&mut merge, &[in_file()]), "Reconcile[web:f1]");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    // Edited, it is another pod.
    assert_eq!(http(&mut merge, &[sample("web", "h2", "http://x").written("v")]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    assert_eq!(file(&mut merge, &[]), "Remove[web:f1] Add[web:h2]");
    // Another content under the same name is another pod, and so is a file that was only renamed.
    assert_eq!(file(&mut merge, &[sample("db", "f3", "/m/c.yaml").written("c")]), "Add[db:f3]");
    let renamed = sample("db", "f4", "/m/d.yaml").written("c");
    assert_eq!(file(&mut merge, &[renamed]), "Remove[db:f3] Add[db:f4]");
}

#[test]
fn a_pod_that_moved_before_the_daemon_began_is_recognised() {
    let key = || PodKey { namespace: "default".into(), name: "web-node1".into() };
    let check = |places: &[(Source, &str)], claim: Sample, expected: &str| {
        let places = places.iter().map(|(s, p)| (*s, (*p).to_owned())).collect();
        let found = Running {
            uid: "f1".into(),
            written: Some("w".into()),
            shape: None,
            places,
            seen: None,
            is_alive: true,
        };
        let found = Table::from([(key(), found)]);
        // Docker was listed first, and the URL read first: the same result.
        let mut first = merge();
        first.running(&found, at(1));
        http(&mut first, std::slice::from_ref(&claim));
        let mut second = merge();
        http(&mut second, &[claim]);
        second.running(&found, at(1));
        assert_eq!(holder(&first, "web"), expected);
        assert_eq!(holder(&second, "web"), expected);
    };
    let claim = || sample("web", "h1", "http://x").written("w");
    check(&[(Source::File, "/m/a.yaml")], claim(), "http:http://x:f1");
    // It moved long ago, and one container was created since.
    check(&[(Source::File, "/m/a.yaml"), (Source::Http, "http://x")], claim(), "http:http://x:f1");
    check(&[(Source::Http, "http://x")], claim(), "http:http://x:f1");
    // The URL changed: as with a renamed file.
    check(&[(Source::Http, "http://old")], claim(), "http:http://x:h1");
    // Another content: the pod is still the file's, until that source has reported without it.
    for claim in [sample("web", "h1", "http://x").written("v"), sample("web", "h1", "http://x")] {
        let places = [(Source::File, "/m/a.yaml".to_owned())].into();
        let found = Running {
            uid: "f1".into(),
            written: Some("w".into()),
            shape: None,
            places,
            seen: None,
            is_alive: true,
        };
        let found = Table::from([(key(), found)]);
        let mut merge = merge();
        http(&mut merge, std::slice::from_ref(&claim));
        merge.running(&found, at(1));
        assert!(merge.get(&key()).is_none());
        assert_eq!(file(&mut merge, &[]), "Add[web:h1]");
        let mut merge = self::merge();
        http(&mut merge, &[claim]);
        merge.running(&found, at(1));
        assert_eq!(file(&mut merge, &[sample("web", "f1", "/m/a.yaml").written("w")]), "Add[web:f1]");
    }
}

/// Regression: after a power cut a URL's pod waited for a directory that could not be read, though nothing of the
/// file's pod ran.
#[test]
fn the_name_of_a_pod_that_ended_is_kept_for_no_source_that_cannot_be_read() {
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let found = |is_alive| {
        let places = [(Source::File, "/m/a.yaml".to_owned())].into();
        Table::from([(key.clone(), Running { uid: "f1".into(), places, is_alive, ..Running::default() })])
    };
    let in_url = sample("web", "h1", "http://x");
    let mut merge = merge();
    merge.running(&found(false), at(1));
    assert_eq!(http(&mut merge, std::slice::from_ref(&in_url)), "", "it may be remembered");
    assert_eq!(merge.problems().len(), 1);
    assert_eq!(words(&merge.heard(Source::File, at(2))), "Add[web:h1]");
    assert_eq!(words(&merge.heard(Source::File, at(2))), "", "once");
    // It runs when the daemon begins, and ends later.
    let mut merge = self::merge();
    merge.running(&found(true), at(1));
    merge.heard(Source::File, at(1));
    assert_eq!(http(&mut merge, &[in_url]), "");
    let told: Vec<String> = merge.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "http://x: pod default/web: a pod of source file has this name, and that source was not read since podkeeper \
          started: this one waits until it is read or that pod ends"
        ]
    );
    assert_eq!(words(&merge.ended(|_| true, at(2))), "");
    assert_eq!(words(&merge.ended(|_| false, at(2))), "Add[web:h1]");
    assert_eq!((merge.problems(), merge.alive().count()), (Vec::new(), 0));
    // The file's pod is wanted after all.
    assert_eq!(file(&mut merge, &[sample("web", "f1", "/m/a.yaml")]), "Remove[web:h1] Add[web:f1]");
}

/// Regression: a URL had the running pod of a file, word for word, and changed it before the files could be read: the
/// file's pod was stopped. And a running pod of a file was stopped that was not remembered, while others were.
#[test]
fn a_running_pod_that_another_source_has_too_is_not_changed_before_its_own_was_read() {
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let running = || {
        let (places, written) = ([(Source::File, "/m/a.yaml".to_owned())].into(), Some("w".to_owned()));
        let running = Running { uid: "f1".into(), places, written, is_alive: true, ..Running::default() };
        Table::from([(key.clone(), running)])
    };
    let in_url = |uid: &'static str, written: &'static str| [sample("web", uid, "http://x").written(written)];
    let mut merge = merge();
    merge.running(&running(), at(1));
    assert_eq!(http(&mut merge, &in_url("h1", "w")), "Add[web:f1]");
    assert_eq!(http(&mut merge, &in_url("h2", "v")), "", "the change waits");
    assert_eq!((holder(&merge, "web").as_str(), merge.problems().len()), ("http:http://x:f1", 1));
    assert_eq!(words(&merge.heard(Source::File, at(2))), "", "it runs");
    assert_eq!(http(&mut merge, &in_url("h1", "w")), "", "it was changed back");
    assert_eq!(http(&mut merge, &in_url("h2", "v")), "");
    assert_eq!(file(&mut merge, &[]), "Remove[web:f1] Add[web:h2]");
    assert_eq!(http(&mut merge, &in_url("h3", "u")), "Remove[web:h2] Add[web:h3]");
    // What is remembered of the files lacks it.
    let mut merge = self::merge();
    merge.running(&running(), at(1));
    merge.restore(Source::File, &PodSet::default(), at(1));
    assert_eq!(http(&mut merge, &in_url("h2", "v")), "");
    assert_eq!(file(&mut merge, &[]), "Add[web:h2]");
}

#[test]
fn one_uid_under_two_names_loses_no_pod_and_is_reported() {
    let mut merge = merge();
    let told = file(&mut merge, &[sample("web", "u1", "/m/a.yaml"), sample("db", "u1", "/m/b.yaml")]);
    assert_eq!(told, "Add[web:u1 db:u1]");
    let problems: Vec<String> = merge.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["/m/b.yaml: pod default/db: metadata.uid u1 is also that of pod default/web from /m/a.yaml: only \
          the first of them to run is not refused"]
    );
    // A renamed pod with a fixed UID is another pod.
    assert_eq!(
        file(&mut merge, &[sample("web", "u1", "/m/a.yaml"), sample("kv", "u1", "/m/b.yaml")]),
        "Remove[db:u1] Add[kv:u1]"
    );
    // A copied file with a fixed UID: one holder, and removing either file changes nothing.
    let copies = [sample("web", "u1", "/m/a.yaml"), sample("web", "u1", "/m/b.yaml")];
    assert_eq!(file(&mut merge, &copies), "Remove[kv:u1]");
    assert_eq!(file(&mut merge, &[copies[1].clone()]), "Reconcile[web:u1]");
    assert_eq!(holder(&merge, "web"), "file:/m/b.yaml:u1");
}
