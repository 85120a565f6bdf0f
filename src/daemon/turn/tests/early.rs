//! The begin of the daemon with more than one source, and with sources that hang or cannot be read.

use super::rig::{Rig, acts, pod};
use super::sources::{full, http, of_url, set, stale, two};
use crate::daemon::turn::Event;
use crate::source::SourceUpdate;

/// Regression: after a power cut nothing of a directory ran whose first reading hung, though it was remembered.
#[test]
fn what_is_remembered_of_a_directory_that_hangs_runs_a_little_later() {
    let mut rig = Rig::listed();
    assert_eq!(rig.source(SourceUpdate::Remembered(set(&["a"]))), [""; 0]);
    assert_eq!(rig.turn.next_due(), Some(rig.now.after(crate::base::limits::DIRECTORY_LATE)));
    rig.now = rig.now.after(crate::base::limits::DIRECTORY_LATE);
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a, empty", "run a/a-1"]);
    assert_eq!(stale(&rig), "a STALE");
    rig.fail("/m cannot be read");
    assert_eq!(acts(rig.source(SourceUpdate::Restored(set(&["a"])))), [""; 0], "it is in force");
    assert_eq!(
        acts(rig.source(SourceUpdate::Full(set(&["b"])))),
        ["stop a: its manifest is gone", "spawn b, empty", "run b/b-1"]
    );
    // Another source does not get the pod's name meanwhile.
    let mut rig = two(&[]);
    rig.source(SourceUpdate::Remembered(set(&["a"])));
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.now = rig.now.after(crate::base::limits::DIRECTORY_LATE);
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a, empty", "run a/a-1"]);
    // The directory is read in time.
    let mut rig = Rig::listed();
    rig.source(SourceUpdate::Remembered(set(&["a"])));
    assert_eq!(acts(rig.source(SourceUpdate::Full(set(&["b"])))), ["spawn b, empty", "run b/b-1"]);
    rig.now = rig.now.after(crate::base::limits::DIRECTORY_LATE);
    assert_eq!(acts(rig.handle(Event::Tick)), [""; 0]);
}

#[test]
fn a_pod_in_both_sources_is_the_files_whoever_answers_first() {
    let (of_file, of_url, other) = (pod("a/from-file"), of_url("a/from-url"), of_url("b"));
    // The URL answers first: it waits for the file source, so that no pod is started twice.
    let mut rig = two(&[]);
    assert_eq!(http(&mut rig, full(&[of_url.clone(), other.clone()])), [""; 0]);
    let told = acts(rig.source(full(std::slice::from_ref(&of_file))));
    assert_eq!(told, ["spawn a, empty", "run a/from-file", "spawn b, empty", "run b/b-1"]);
    // The file answers first.
    let mut rig = two(&[]);
    let told = acts(rig.source(full(std::slice::from_ref(&of_file))));
    assert_eq!(told, ["spawn a, empty", "run a/from-file"]);
    assert_eq!(acts(http(&mut rig, full(&[of_url.clone(), other]))), ["spawn b, empty", "run b/b-1"]);
    // The file source hangs: the URL's pods do not wait for ever, and the file's pod takes over in the end.
    let mut rig = two(&[]);
    assert_eq!(http(&mut rig, full(std::slice::from_ref(&of_url))), [""; 0]);
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    assert_eq!(rig.turn.next_due(), Some(rig.now));
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a, empty", "run a/from-url"]);
    assert_eq!(acts(rig.source(full(std::slice::from_ref(&of_file)))), ["run a/from-file"]);
    // Its file is gone: the URL's pod has the name again.
    assert_eq!(acts(rig.source(full(&[]))), ["run a/from-url"]);
}

/// Regression: the main loop was busy, and two reports came before it noticed that the first one need not wait
/// any longer.
#[test]
fn what_waited_for_another_source_does_not_replace_what_came_after_it() {
    let mut rig = two(&[]);
    assert_eq!(http(&mut rig, full(&[of_url("a")])), [""; 0]);
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    assert_eq!(acts(http(&mut rig, full(&[of_url("b")]))), ["spawn a, empty", "run a/a-1"]);
    // The file source may have the pod that is given up, until it has reported.
    let told = acts(rig.source(full(&[])));
    assert_eq!(told, ["stop a: its manifest is gone", "spawn b, empty", "run b/b-1"]);
}

#[test]
fn what_runs_from_a_file_is_not_replaced_by_a_url_before_the_file_source_has_spoken() {
    let running = "a/from-file/app running";
    let mut rig = two(&[running]);
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    assert_eq!(acts(rig.handle(Event::Tick)), [""; 0]);
    assert_eq!(rig.shown(), "a Running Unmanaged");
    // It cannot be read: its content stays unknown.
    rig.fail("/m cannot be read");
    assert_eq!(acts(rig.list(&[running])), [""; 0]);
    // It still holds the pod: adopted.
    assert_eq!(acts(rig.source(full(&[pod("a/from-file")]))), ["spawn a", "run a/from-file"]);
    // Another daemon, and the file is gone: now the URL's pod may have the name.
    let mut rig = two(&[running]);
    http(&mut rig, full(&[of_url("a/from-url")]));
    assert_eq!(acts(rig.source(full(&[]))), ["spawn a", "run a/from-url"]);
}

/// The file gave the pod up, and the URL had it with the same text: what ended from the file is of an earlier life.
#[test]
fn what_ended_from_a_file_does_not_hold_up_the_source_that_runs_the_pod_since() {
    let mut rig = two(&["a/one/POD#1 running of http", "a/one/app#1 running of http", "a/one/app exited"]);
    rig.fail("/m cannot be read");
    assert_eq!(acts(http(&mut rig, full(&[of_url("a/from-url")]))), ["spawn a", "run a/from-url"]);
    // The file has taken it over, and made its sandbox anew.
    let mut rig = two(&["a/one/POD#1 running", "a/one/app running of http"]);
    rig.fail("/m cannot be read");
    assert_eq!(acts(http(&mut rig, full(&[of_url("a/from-url")]))), [""; 0]);
}

#[test]
fn what_ended_from_a_file_that_cannot_be_read_holds_up_no_other_source() {
    let mut rig = two(&["a/from-file/POD running", "a/from-file/app running"]);
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.fail("/m cannot be read");
    assert_eq!(rig.turn.snapshot(&rig.now()).problems.len(), 1);
    assert_eq!(acts(rig.list(&["a/from-file/POD running", "a/from-file/app exited"])), [""; 0]);
    let told = acts(rig.list(&["a/from-file/POD exited", "a/from-file/app exited"]));
    assert_eq!(told, ["spawn a", "run a/from-url"]);
    // Lists without its containers are not believed, and none while its source was not heard.
    let running = ["a/from-file/POD running", "a/from-file/app running"];
    let mut rig = two(&running);
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.fail("/m cannot be read");
    for list in [&[][..], &[], &running, &[]] {
        assert_eq!(acts(rig.list(list)), [""; 0]);
    }
    let mut rig = two(&running);
    http(&mut rig, full(&[of_url("a/from-url")]));
    assert_eq!(acts(rig.list(&["a/from-file/POD exited", "a/from-file/app exited"])), [""; 0]);
    // Its source hangs.
    let mut rig = two(&["a/from-file/app exited"]);
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    assert_eq!(acts(rig.handle(Event::Tick)), [""; 0]);
    rig.now = rig.now.after(crate::base::limits::NAMES_KEPT);
    assert_eq!(acts(rig.handle(Event::Tick)), ["spawn a", "run a/from-url"]);
    // A container that the daemon before was starting may run a moment later.
    let mut rig = two(&["a/from-file/POD exited", "a/from-file/app created"]);
    http(&mut rig, full(&[of_url("a/from-url")]));
    rig.fail("/m cannot be read");
    assert_eq!(
        acts(rig.list(&["a/from-file/POD exited", "a/from-file/app created"])),
        ["spawn a", "run a/from-url"]
    );
}

/// Regression: while a directory hung of which nothing was remembered, no pod of a URL started or stopped whose content
/// had lost a pod.
#[test]
fn a_source_that_hangs_holds_up_the_changes_of_others_for_a_bounded_time() {
    let mut rig = two(&[]);
    http(&mut rig, SourceUpdate::Restored(set(&["a"])));
    rig.now = rig.now.after(crate::base::limits::SOURCE_HEAD_START);
    rig.handle(Event::Tick);
    assert_eq!(acts(http(&mut rig, full(&[of_url("b")]))), [""; 0], "a may be the file's");
    let degraded =
        |rig: &Rig| rig.snapshot().sources.iter().filter_map(|it| it.degraded.clone()).collect::<Vec<_>>();
    assert!(degraded(&rig)[0].starts_with("its newest content waits"), "{:?}", degraded(&rig));
    rig.now = rig.now.after(crate::base::limits::NAMES_KEPT);
    assert_eq!(
        acts(rig.handle(Event::Tick)),
        ["stop a: its manifest is gone", "spawn b, empty", "run b/b-1"]
    );
    assert_eq!(degraded(&rig), [""; 0]);
    assert_eq!(
        acts(http(&mut rig, full(&[of_url("c")]))),
        ["stop b: its manifest is gone", "spawn c, empty", "run c/c-1"]
    );
}
