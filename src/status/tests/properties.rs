//! Properties of every status, for any observation: proptest.

use super::*;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn statuses_keep_their_promises(
        spec in arbitrary_spec(),
        history in prop::collection::vec((arbitrary_seen(), any::<bool>()), 1..6),
        static_pod: bool,
    ) {
        let mut pod = pod(&spec);
        pod.source = if static_pod { Source::File } else { Source::Api };
        let mut old: Option<PodStatus> = None;
        for (step, (words, terminal)) in history.iter().enumerate() {
            let mut seen = see(&pod, words);
            let probes = Probes::all_passed(&pod, &seen);
            let crash = WaitingReason { reason: Reason::CrashLoopBackOff, message: "m".into() };
            let waiting = Waiting::from([("c0".to_owned(), crash)]);
            let (digests, messages) = (BTreeMap::new(), BTreeMap::new());
            let now = at(i64::try_from(step).unwrap());
            let of = |seen: &Observed, old: Option<&PodStatus>| {
                compute(&Input { pod: &pod, observed: seen, probes: &probes, waiting: &waiting, digests: &digests, messages: &messages, old, terminal: *terminal, past_deadline: false, resize: &NO_RESIZE, recursive_mounts: false, now })
            };
            let status = of(&seen, old.as_ref());
            seen.all.reverse();
            prop_assert_eq!(&of(&seen, old.as_ref()), &status, "order of what was seen");
            // The first computation takes an end from the old status, the next one finds it there.
            let settled = of(&seen, Some(&status));
            prop_assert_eq!(&of(&seen, Some(&settled)), &settled, "looking again changes nothing");
            prop_assert_eq!(&settled.phase, &status.phase);
            if let Some(old) = &old {
                if matches!(old.phase.as_deref(), Some("Succeeded" | "Failed")) {
                    prop_assert_eq!(&old.phase, &status.phase, "a terminal phase stays");
                }
                prop_assert_eq!(&old.start_time, &status.start_time);
                for before in old.container_statuses.iter().flatten() {
                    let after = status.container_statuses.iter().flatten().find(|s| s.name == before.name).unwrap();
                    prop_assert!(after.restart_count >= before.restart_count, "restart count of {}", before.name);
                }
            }
            let count = |list: &Option<Vec<_>>| list.as_ref().map_or(0, Vec::len);
            prop_assert_eq!(count(&status.container_statuses), pod.spec.containers.len());
            prop_assert_eq!(count(&status.init_container_statuses), pod.init_containers().len());
            for s in status.container_statuses.iter().chain(&status.init_container_statuses).flatten() {
                let state = s.state.as_ref().unwrap();
                let states = [state.running.is_some(), state.waiting.is_some(), state.terminated.is_some()];
                prop_assert_eq!(states.iter().filter(|is| **is).count(), 1, "exactly one state");
                prop_assert!(!s.ready || s.started == Some(true) || state.terminated.is_some());
            }
            old = Some(status);
        }
    }
}
