//! Tests of files and directories that are removed: one by one, all at once, for a moment.

use super::*;

#[test]
fn a_file_that_goes_away_while_others_stay_is_gone_when_the_directory_has_rested() {
    let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
    bench.disk.remove("/m/a.yaml");
    let outcome = bench.scan(&gone(&["a.yaml"]));
    assert_eq!((outcome.update, outcome.settle), (None, Some(Mono(limits::SCAN_SETTLE))));
    assert_eq!(bench.look_after(200), "b");
    // It comes back without a hint.
    bench.disk.file("/m/a.yaml", "pod a", 0);
    assert_eq!(bench.look(), "b; broken /m/a.yaml");
    assert_eq!(bench.look_after(200), "a b");
    // Gone and back in time: nothing changes.
    bench.disk.remove("/m/a.yaml");
    assert_eq!(bench.look(), "");
    bench.disk.file("/m/a.yaml", "pod a", 0);
    assert_eq!(bench.look_after(199), "");
    assert_eq!(bench.look_after(1000), "");
}

#[test]
fn a_directory_that_is_removed_file_by_file_stops_no_pod() {
    let names: Vec<String> = (0..9).map(|n| format!("{n}.yaml")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|n| (n.as_str(), "pod p")).collect();
    let mut bench = Bench::with(&[]);
    for (name, _) in &files {
        bench.disk.file(&format!("/m/{name}"), &format!("pod p{name}"), 0);
    }
    bench.look();
    let said = bench.look_after(200);
    for (name, _) in files {
        bench.disk.remove(&format!("/m/{name}"));
        // A slow disk: each deletion takes almost as long as the settling.
        bench.millis += 199;
        assert_eq!(bench.deleted(&[name]), "", "{name}");
    }
    bench.disk.remove("/m");
    assert_eq!(bench.look_after(199), "Failed(/m: does not exist)");
    // It comes back as it was.
    bench.disk.put("/m", Node::Directory);
    for name in &names {
        bench.disk.file(&format!("/m/{name}"), &format!("pod p{name}"), 0);
    }
    assert_eq!(bench.look(), said);
}

#[test]
fn deletions_are_believed_in_the_end_however_restless_a_directory_is() {
    let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
    bench.disk.remove("/m/a.yaml");
    let mut looks = 0;
    while bench.scanner.holds("/m/a.yaml") {
        bench.disk.file(&format!("/m/n{looks}.yaml"), "", 0);
        bench.look_after(100);
        looks += 1;
        assert!(looks <= 302, "never believed");
    }
    assert!(looks > 290, "{looks}");
}

#[test]
fn a_file_that_is_renamed_moves_its_pods_at_once() {
    let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
    bench.disk.remove("/m/a.yaml");
    bench.disk.file("/m/c.yaml", "pod a", 0);
    let mut hints = gone(&["a.yaml"]);
    hints.finished("c.yaml");
    let outcome = bench.scan(&hints);
    assert_eq!((outcome.settle, bench.scanner.holds("/m/a.yaml")), (None, false));
    assert_eq!(pods_sent(&outcome), Some(2));
}

#[test]
fn an_emptied_directory_is_believed_when_it_has_rested_and_every_deletion_was_seen() {
    let two = [("a.yaml", "pod a"), ("b.yaml", "pod b")];
    for second in [false, true] {
        let mut bench = Bench::with(&two);
        bench.disk.remove("/m/a.yaml");
        bench.disk.remove("/m/b.yaml");
        if second {
            // The second event arrives after the scan.
            assert_eq!(pods_sent(&bench.scan(&gone(&["a.yaml"]))), None);
            assert_eq!(pods_sent(&bench.scan(&gone(&["b.yaml"]))), None);
        } else {
            assert_eq!(pods_sent(&bench.scan(&gone(&["a.yaml", "b.yaml"]))), None);
        }
        bench.millis += 200;
        assert_eq!(pods_sent(&bench.scan(&Hints::default())), Some(0));
    }
}

#[test]
fn a_directory_that_is_empty_all_of_a_sudden_needs_three_equal_looks() {
    let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
    bench.disk.remove("/m/a.yaml");
    bench.disk.remove("/m/b.yaml");
    for (millis, due) in [(0, 200), (10, 200), (190, 400), (100, 400)] {
        bench.millis += millis;
        let outcome = bench.scan(&Hints::default());
        assert_eq!(outcome.update, None);
        assert_eq!(outcome.settle, Some(Mono(Duration::from_millis(due))));
    }
    bench.millis += 100;
    let outcome = bench.scan(&Hints::default());
    assert_eq!(pods_sent(&outcome), Some(0));
    assert_eq!(outcome.settle, None);
}

#[test]
fn a_volume_that_comes_back_in_time_changes_nothing() {
    let mut bench = Bench::with(&[("a.yaml", "pod a"), ("b.yaml", "pod b")]);
    bench.disk.remove("/m/a.yaml");
    bench.disk.remove("/m/b.yaml");
    bench.disk.file("/m/c.yaml", "bad", 0);
    assert_eq!(bench.look(), "");
    assert_eq!(bench.look_after(200), "");
    bench.disk.remove("/m/c.yaml");
    bench.disk.file("/m/a.yaml", "pod a", 0);
    bench.disk.file("/m/b.yaml", "pod b", 0);
    assert_eq!(bench.look_after(100), "");
    // The next time the doubt begins anew.
    bench.disk.remove("/m/a.yaml");
    bench.disk.remove("/m/b.yaml");
    assert_eq!(bench.look_after(1000), "");
    assert_eq!(pods_sent(&bench.scan(&Hints::default())), None);
}

#[test]
fn an_unmounted_volume_is_not_an_empty_directory() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.put("/m", Node::OtherVolume);
    bench.disk.remove("/m/a.yaml");
    let unmounted = "Failed(/m: it is on another file system now and holds no manifest; was it unmounted?)";
    assert_eq!(bench.look(), unmounted);
    for _ in 0..5 {
        assert_eq!(bench.look_after(20_000), "");
    }
    // The volume is mounted again.
    bench.disk.put("/m", Node::Directory);
    bench.disk.file("/m/a.yaml", "pod a", 0);
    assert_eq!(bench.look(), "a");
    // A volume that does hold manifests is believed.
    bench.disk.put("/m", Node::OtherVolume);
    bench.disk.remove("/m/a.yaml");
    bench.disk.file("/m/b.yaml", "pod b", 1000);
    assert_eq!(bench.look(), "");
    assert_eq!(bench.look_after(200), "b");
}

#[test]
fn a_directory_replaced_by_another_set_never_looks_empty() {
    let mut bench = Bench::with(&[("a.yaml", "pod a")]);
    bench.disk.remove("/m/a.yaml");
    bench.disk.file("/m/b.yaml", "pod b", 0);
    assert_eq!(bench.look(), "");
    assert_eq!(bench.look_after(200), "b");
}

#[test]
fn k3355_a_source_that_cannot_be_read_is_not_empty() {
    let check = |node: Option<Node>, why: &str| {
        let mut bench = Bench::with(&[("a.yaml", "pod a")]);
        match node {
            Some(node) => bench.disk.put("/m", node),
            None => bench.disk.remove("/m"),
        }
        let failed = format!("Failed(/m: {why})");
        assert_eq!(bench.look(), failed);
        assert_eq!(bench.look_after(20_000), "");
        assert!(bench.scan(&Hints::default()).failed);
        // The directory is back: that is sent, so that the failure is not shown any longer.
        bench.disk.put("/m", Node::Directory);
        assert_eq!(bench.look(), "a");
        assert_eq!(bench.look(), "");
        // Back, but empty: that is doubted as always.
        bench.disk.put("/m", Node::Fault(io::ErrorKind::TimedOut));
        assert_eq!(bench.look(), "Failed(/m: cannot be read: timed out)");
        bench.disk.put("/m", Node::Directory);
        bench.disk.remove("/m/a.yaml");
        assert_eq!(pods_sent(&bench.scan(&Hints::default())), None);
        bench.millis += 200;
        assert_eq!(pods_sent(&bench.scan(&Hints::default())), None);
        bench.millis += 200;
        assert_eq!(pods_sent(&bench.scan(&Hints::default())), Some(0));
    };
    check(None, "does not exist");
    check(Some(Node::Special), "it is neither a directory nor a file");
    check(Some(Node::Unlistable(io::ErrorKind::TimedOut)), "cannot be read: timed out");
    check(Some(Node::Fault(io::ErrorKind::PermissionDenied)), "cannot be read: permission denied");
}
