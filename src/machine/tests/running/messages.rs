//! Tests of termination messages: when they are read, and that only the status waits for them.

use super::rig::{Hurt, Rig, app, ms, no_space, pod, s, timeout};
use crate::mapping::logs::LogDriver;
use crate::runtime::DockerError;
use crate::runtime::fake::Behaviour;

fn spec(policy: &str) -> String {
    format!(
        "{{restartPolicy: Never, containers: [{{name: app, terminationMessagePath: /dev/termination-log, \
         terminationMessagePolicy: {policy}}}]}}"
    )
}

/// The message of `app`, after it ended with this code.
fn told(policy: &str, code: i64, file: Result<&str, &str>, log: &str) -> (Rig, String) {
    let mut rig = Rig::fresh();
    rig.files.last_words.insert("app#0".into(), file.map(Into::into).map_err(Into::into));
    rig.engine.behave("app", Behaviour { output: log.into(), ..Behaviour::exits(code, s(1)) });
    rig.run(&pod(&spec(policy)));
    rig.pass(s(30));
    let message = message(&rig);
    (rig, message)
}

fn message(rig: &Rig) -> String {
    let status = rig.last_status();
    let state = status.container_statuses.unwrap().remove(0).state.unwrap();
    state.terminated.and_then(|end| end.message).unwrap_or_default()
}

#[test]
fn table_of_policies() {
    const FALLBACK: &str = "FallbackToLogsOnError";
    let check = |policy, code, file, expected: &str| {
        let (rig, message) = told(policy, code, file, "one\ntwo\n");
        assert_eq!(message, expected, "{policy} {code} {file:?}");
        rig
    };
    check("File", 0, Ok("done"), "done");
    check("File", 1, Ok("sorry"), "sorry");
    check("File", 1, Ok(""), "");
    check(FALLBACK, 1, Ok("sorry"), "sorry");
    check(FALLBACK, 0, Ok(""), "");
    check("File", 1, Err("Error on reading termination log x"), "Error on reading termination log x");
    check(FALLBACK, 1, Err("Error on reading"), "Error on reading");
    let mut rig = check(FALLBACK, 1, Ok(""), "one\ntwo\n");
    let calls = rig.take_calls();
    assert_eq!(calls.iter().filter(|c| *c == "log app#0 80").count(), 1, "{calls:?}");
    // No daemon saw it end: only its labels and files are left.
    let mut rig = rig.reborn();
    rig.run(&pod(&spec(FALLBACK)));
    rig.pass(s(5));
    assert_eq!(message(&rig), "one\ntwo\n", "reborn");
}

#[test]
fn a_log_that_cannot_be_read_says_so_and_holds_up_nothing() {
    for error in [no_space(), timeout()] {
        let mut rig = Rig::fresh();
        rig.engine.behave("app", Behaviour::exits(1, s(1)));
        rig.hurt("log", 1000, Hurt::Says(error));
        rig.run(&pod(&spec("FallbackToLogsOnError").replace("restartPolicy: Never, ", "")));
        rig.pass(s(8));
        assert!(!rig.times("create app#1").is_empty(), "the next one is made meanwhile: {:?}", rig.calls);
        rig.pass(s(60));
        let status = rig.last_status().container_statuses.unwrap().remove(0);
        let last = status.last_state.and_then(|s| s.terminated).and_then(|t| t.message).unwrap_or_default();
        assert!(last.starts_with("Error on reading termination message from logs: "), "{last}");
    }
}

#[test]
fn a_log_that_is_not_kept_is_told_with_the_flag() {
    let mut rig = Rig::fresh_with_logs(LogDriver::None);
    rig.engine.behave("app", Behaviour::exits(1, s(1)));
    rig.run(&pod(&spec("FallbackToLogsOnError")));
    rig.pass(s(5));
    assert_eq!(
        message(&rig),
        "Error on reading termination message from logs: none is kept (--container-log-driver=none)"
    );
}

#[test]
fn files_go_with_their_containers() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, ms(200)));
    let pod = pod(&spec("File").replace("restartPolicy: Never, ", ""));
    rig.run(&pod);
    rig.pass(s(100));
    assert_eq!(
        rig.files.messages_forgotten,
        ["app#0", "app#1", "app#2", "app#3"],
        "each when the one after it has ended"
    );
    rig.wish(super::rig::stop(None));
    rig.pass(s(60));
    assert_eq!(rig.files.messages_forgotten.len(), 5);
    let mut plain = Rig::up(&app());
    plain.wish(super::rig::stop(None));
    plain.pass(s(60));
    assert!(plain.files.messages_forgotten.is_empty(), "without a path there is no file");
}

#[test]
fn a_log_is_not_asked_of_a_docker_that_is_away_without_a_pause() {
    let mut rig = Rig::fresh();
    rig.engine.behave("app", Behaviour::exits(1, s(1)));
    rig.hurt("log", u32::MAX, Hurt::Says(DockerError::Unreachable("connection refused".into())));
    rig.run(&pod(&spec("FallbackToLogsOnError")));
    rig.pass(s(600));
    let asked = rig.calls.iter().filter(|(_, words)| words.starts_with("log")).count();
    assert!((1..60).contains(&asked), "{asked}");
}
