//! Requested faults, and their hidden effects.

use super::*;

#[test]
fn a_restarted_engine_runs_nothing() {
    for (how, codes) in [(Restart::Orderly, [0, 137]), (Restart::PowerCut, [255, 255])] {
        let mut s = sim();
        let ids = [s.up("a1", body("server")), s.up("b1", body("sleep 1000"))];
        s.state.restart_engine(how, s.now);
        assert_eq!(s.events(), ["end: the fake engine closed the connection"]);
        s.seen = s.state.subscribe(Some(0)).unwrap();
        s.pass(2_000_000);
        for (id, code) in ids.iter().zip(codes) {
            let d = s.inspect(id).unwrap();
            assert_eq!((d.state, d.exit_code), (DockerState::Exited, code), "{how:?}");
        }
        assert_eq!(s.events(), Vec::<String>::new(), "the ring is new");
    }
}

#[test]
fn a_stopped_engine_is_unreachable_while_containers_live_on() {
    let mut s = sim();
    let a = s.up("a1", body("server"));
    s.state.set_down(true);
    assert!(matches!(s.inspect(&a), Err(DockerError::Unreachable(_))));
    assert!(matches!(s.state.subscribe(None), Err(DockerError::Unreachable(_))));
    assert!(matches!(s.state.pull("x", s.now), Err(DockerError::Unreachable(_))));
    s.state.set_down(false);
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Running);
}

#[test]
fn hooks_crash_kill_and_take_away() {
    let mut s = sim();
    let a = s.up("a1", body("server"));
    s.state.crash("a1", 2, s.now);
    s.start(&a).unwrap();
    s.state.oom(&a, s.now);
    s.start(&a).unwrap();
    s.state.remove_behind_our_back(&a, s.now);
    assert_eq!(s.state.containers().count(), 0);
    s.state.plant("odd name!", &[("x", "")], true, s.now);
    assert_eq!(s.list(&["x"])[0].name, "odd name!");
    let expected = [
        "a1 create",
        "a1 start",
        "a1 die 2",
        "a1 start",
        "a1 oom",
        "a1 die 137",
        "a1 start",
        "a1 kill 9",
        "a1 die 137",
        "a1 destroy",
        "odd name! create",
        "odd name! start",
    ];
    assert_eq!(s.events(), expected);
}

/// Makes one fault happen with every call it fits.
fn with_fault(fault: Fault) -> Sim {
    let mut s = sim();
    s.state.faults = FaultPlan::seeded(1, &[(fault, 10_000)], Mono(millis(60_000)));
    s
}

#[test]
fn faults_that_hide_whether_it_was_done() {
    for (fault, done, late) in [
        (Fault::Hang, false, false),
        (Fault::HangDone, true, true),
        (Fault::HangLate, false, true),
        (Fault::Lost, false, false),
        (Fault::LostDone, true, true),
        (Fault::Refused500, false, false),
        (Fault::NoSpace, false, false),
    ] {
        let mut s = with_fault(fault);
        let answer = s.create("a1", body("x")).unwrap_err();
        let fits = match fault {
            Fault::Hang | Fault::HangDone | Fault::HangLate => matches!(answer, DockerError::Timeout(_)),
            Fault::Lost | Fault::LostDone => matches!(answer, DockerError::Lost(_)),
            _ => answer.refusal() == Some(&RefusalKind::Server),
        };
        assert!(fits, "{fault:?}: {answer:?}");
        assert_eq!(s.state.get("a1").is_some(), done, "{fault:?}");
        s.pass(60_000);
        assert_eq!(s.state.get("a1").is_some(), late, "{fault:?}");
        assert!(s.create("b1", body("x")).is_ok(), "{fault:?} is over");
    }
}

#[test]
fn k40443_name_held_by_a_ghost_a_foreigner_or_a_stale_one() {
    for fault in [Fault::NameGhost, Fault::NameForeign, Fault::NameStale] {
        let mut s = with_fault(fault);
        let Some(RefusalKind::NameInUse(Some(holder))) = kind_of(s.create("a1", body("x"))) else {
            panic!("{fault:?}")
        };
        let again = kind_of(s.create("a1", body("x")));
        assert_eq!(again, Some(RefusalKind::NameInUse(Some(holder.clone()))), "{fault:?}");
        let found = s.inspect(&holder);
        match fault {
            Fault::NameGhost => {
                assert!(found.is_err() && s.list(&[]).is_empty());
                assert_eq!(kind_of(s.remove(&holder, true)), Some(RefusalKind::NoSuchContainer));
            }
            Fault::NameForeign => {
                assert!(!found.unwrap().labels.contains_key("l"));
                s.pass(60_000);
                assert_eq!(s.status(&holder), "gone");
            }
            _ => {
                let d = found.unwrap();
                assert_eq!((d.state, d.labels["l"].as_str()), (DockerState::Exited, "1"));
                assert_eq!(d.labels[labels::POD_UID], "stale");
                s.state.faults = FaultPlan::none();
                s.remove(&holder, false).unwrap();
                s.made("a1", body("x"));
            }
        }
    }
}

#[test]
fn a_container_vanishes_between_list_and_inspect() {
    let mut s = with_fault(Fault::Vanished);
    let a = s.up("a1", body("x"));
    assert_eq!(s.list(&[]).len(), 1);
    assert_eq!(s.inspect(&a).unwrap_err().refusal(), Some(&RefusalKind::NoSuchContainer));
    assert_eq!(s.list(&[]), []);
}

#[test]
fn a_list_is_behind_a_death_and_an_inspect_is_not() {
    let mut s = with_fault(Fault::ListBehind);
    let a = s.up("a1", body("x"));
    s.state.crash(&a, 1, s.now);
    assert_eq!(s.list(&[]).iter().map(|c| c.state).collect::<Vec<_>>(), [DockerState::Running]);
    assert_eq!(s.inspect(&a).unwrap().state, DockerState::Exited);
    s.pass(2_000);
    assert_eq!(s.list(&[]).iter().map(|c| c.state).collect::<Vec<_>>(), [DockerState::Exited]);
}

#[test]
fn k22312_removal_that_fails_for_ever_or_goes_on() {
    let mut s = with_fault(Fault::Undeletable);
    let a = s.up("a1", body("x"));
    for _ in 0..3 {
        assert_eq!(kind_of(s.remove(&a, true)), Some(RefusalKind::Server));
        assert_eq!((s.inspect(&a).unwrap().state, s.status(&a)), (DockerState::Removing, "Dead".into()));
    }
    assert_eq!(kind_of(s.start(&a)), Some(RefusalKind::RemovalInProgress));
    assert_eq!(kind_of(s.kill(&a, "KILL")), Some(RefusalKind::NotRunning));
    assert_eq!(kind_of(s.create("a1", body("x"))), Some(RefusalKind::NameInUse(Some(a.clone()))));
    s.state.faults = FaultPlan::none();
    s.state.refuse_removal(&a, false);
    assert_eq!(s.remove(&a, false), Ok(Reply::Done));

    let mut s = with_fault(Fault::SlowRemove);
    let a = s.made("a1", body("x"));
    assert!(matches!(s.remove("a1", false), Err(DockerError::Timeout(_))));
    assert_eq!(s.status(&a), "Removal In Progress");
    s.state.faults = FaultPlan::none();
    let text = "removal of container a1 is already in progress";
    refused(s.remove("a1", true), 409, RefusalKind::RemovalInProgress, text);
    s.pass(15_000);
    assert_eq!((s.status(&a), s.events()), ("gone".into(), vec!["a1 create".into(), "a1 destroy".into()]));
}

#[test]
fn k94829_one_inspect_hangs() {
    let mut s = sim();
    let (a, b) = (s.up("a1", body("x")), s.up("b1", body("x")));
    s.state.hang_inspect("a1", true);
    assert!(matches!(s.inspect(&a), Err(DockerError::Timeout(_))));
    assert!(matches!(s.inspect("a1"), Err(DockerError::Timeout(_))));
    assert!(s.inspect(&b).is_ok());
    assert_eq!(s.list(&[]).len(), 2);
    s.state.hang_inspect("a1", false);
    assert!(s.inspect(&a).is_ok());
}

#[test]
fn k2062_fields_left_out_of_inspect() {
    use Field::{
        Created, Error, FinishedAt, Image, ImageId, Ips, LogPath, NetworkMode, StartedAt, StopSignal,
    };
    let mut s = sim();
    let mut b = body("server");
    b.stop_signal = Some("SIGINT".into());
    let a = s.up("a1", b);
    let full = s.inspect(&a).unwrap();
    s.state.drop_inspect_fields(&[
        Created,
        StartedAt,
        FinishedAt,
        Error,
        Image,
        ImageId,
        StopSignal,
        NetworkMode,
        Ips,
        LogPath,
    ]);
    let mut expected = full.clone();
    (expected.created, expected.started_at, expected.stop_signal) = (None, None, None);
    (expected.image, expected.image_id, expected.host_config.network_mode) = Default::default();
    expected.ips.clear();
    expected.networks = None;
    assert_eq!(s.inspect(&a).unwrap(), expected);
    s.state.drop_inspect_fields(&[]);
    assert_eq!(s.inspect(&a).unwrap(), full);
}

#[test]
fn k2309_events_lost_doubled_overtaken_silent_cut() {
    for (fault, seen, replayed) in [
        (Fault::EventLost, "", "a1 create, a1 start"),
        (
            Fault::EventTwice,
            "a1 create, a1 create, a1 start, a1 start",
            "a1 create, a1 create, a1 start, a1 start",
        ),
        (Fault::EventOvertaken, "a1 start, a1 create", "a1 start, a1 create"),
        (Fault::EventsSilent, "", "a1 create, a1 start"),
        (Fault::EventsCut, "end: the fake engine closed the connection", "a1 create, a1 start"),
    ] {
        let mut s = with_fault(fault);
        s.up("a1", body("x"));
        assert_eq!(s.events().join(", "), seen, "{fault:?}");
        s.state.faults = FaultPlan::none();
        s.seen = s.state.subscribe(Some(0)).unwrap();
        assert_eq!(s.events().join(", "), replayed, "{fault:?}");
        s.state.crash("a1", 0, s.now);
        assert_eq!(s.events(), ["a1 die 0"], "{fault:?} is over");
    }
    let mut s = with_fault(Fault::EventOvertaken);
    s.made("a1", body("x"));
    assert_eq!(s.events(), Vec::<String>::new());
    s.pass(100);
    assert_eq!(s.events(), ["a1 create"], "nothing overtook it");
}

#[test]
fn the_same_seed_hurts_in_the_same_places() {
    let run = |seed| {
        let mut s = sim();
        s.state.faults = FaultPlan::all(seed, 500, Mono(millis(90_000)));
        let mut answers = Vec::new();
        for n in 0..200 {
            let name = format!("c{}", n % 7);
            answers.push(format!("{:?}", s.create(&name, body("server"))));
            answers.push(format!("{:?}", s.start(&name)));
            answers.push(format!("{:?}", s.kill(&name, "KILL")));
            answers.push(format!("{:?}", s.remove(&name, true)));
            s.pass(500);
        }
        (answers, s.events())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).0, run(2).0);
    let last = run(3).0.split_off(4 * 190);
    let calm = last.iter().all(|a| !a.contains("fake") && !a.contains("no space"));
    assert!(calm, "after its time the plan does nothing: {last:?}");
}
