//! Containers that a call of a dead daemon created too late.

use super::*;
use crate::plan::is_past;

#[test]
fn is_past_table() {
    let spec = |policy: &str| {
        pod(&format!(
            "{{restartPolicy: {policy}, initContainers: [{{name: i}}, {{name: s, restartPolicy: Always}}], containers: [{{name: app}}]}}"
        ))
    };
    let check = |row: &str, policy: &str, seen: &str, made: &str, expected: bool| {
        let pod = spec(policy);
        let seen = observed(&pod, seen);
        let made = seen.all.iter().find(|c| c.id == made).unwrap();
        assert_eq!(is_past(&pod, &seen, made), expected, "row: {row}");
    };
    check("sandbox: the first", "Always", "sandbox created", "sandbox-0", false);
    check(
        "sandbox: one runs",
        "Always",
        "sandbox running; app running; sandbox#1 created",
        "sandbox-1",
        true,
    );
    check("sandbox: one is being started", "Always", "sandbox created; sandbox#1 created", "sandbox-1", true);
    check(
        "sandbox: the other one ended",
        "Always",
        "sandbox exited 0; sandbox#1 created",
        "sandbox-1",
        false,
    );
    check("nothing else is there", "Always", "sandbox running; app created", "app-0", false);
    check("one runs, an older one", "Always", "sandbox running; app running; app#1 created", "app-1", true);
    check("one runs, a newer one", "Always", "sandbox running; app created; app#1 running", "app-0", true);
    check("one ended and restarts", "Always", "sandbox running; app exited 0; app#1 created", "app-1", false);
    check("one ended for good", "Never", "sandbox running; app exited 1; app#1 created", "app-1", true);
    check("one that failed", "OnFailure", "sandbox running; app exited 1; app#1 created", "app-1", false);
    check("one that ended well", "OnFailure", "sandbox running; app exited 0; app#1 created", "app-1", true);
    check("its definition changed", "Never", "app exited 1 hash=other; app#1 created", "app-1", false);
    check("init: a later one has begun", "Always", "sandbox running; i created; s running", "i-0", true);
    check("init: the regular one has", "Always", "sandbox running; i created; app exited 0", "i-0", true);
    check("init: in another sandbox", "Always", "sandbox#1 running; i@1 created; app exited 0", "i-0", false);
    check("init: ended well", "Always", "sandbox running; i exited 0; i#1 created", "i-1", true);
    check(
        "init: ended well elsewhere",
        "Always",
        "i exited 0; sandbox#1 running; i#1@1 created",
        "i-1",
        false,
    );
    check("init: failed, again", "Always", "sandbox running; i exited 2; i#1 created", "i-1", false);
    check("init: failed for good", "Never", "sandbox running; i exited 2; i#1 created", "i-1", true);
    check(
        "sidecar: a later one has begun",
        "Always",
        "sandbox running; s created; app running",
        "s-0",
        false,
    );
    check("not in the spec", "Always", "sandbox running; x created; x#1 running", "x-0", false);
}
