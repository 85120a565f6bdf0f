//! The kubelet's words.

use super::*;

#[test]
fn events() {
    let check = |outcome: Outcome, expected: Option<(&str, &str)>| {
        let got = event(Kind::Liveness, &outcome);
        assert_eq!(got.as_ref().map(|(r, t)| (*r, t.as_str())), expected);
    };
    check(Outcome::Passed, None);
    check(
        Outcome::Failed("HTTP probe failed with statuscode: 503".into()),
        Some(("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 503")),
    );
    check(
        Outcome::Warned("Probe terminated redirects, Response body: x".into()),
        Some(("ProbeWarning", "Liveness probe warning: Probe terminated redirects, Response body: x")),
    );
    check(
        Outcome::unknown("no such container"),
        Some(("Unhealthy", "Liveness probe errored and resulted in unknown state: no such container")),
    );
}

#[test]
fn exec_texts() {
    let command = ["sh".to_owned(), "-c".to_owned(), "sleep 9".to_owned()];
    let text = "command timed out: \"sh -c sleep 9\" timed out after 1m30s";
    assert_eq!(exec_timed_out(&command, Duration::from_secs(90)), text);
    assert_eq!(exec_output(b"out", b"err"), "outerr");
    assert_eq!(exec_output(&[b'x'; 10240], b"err").len(), 10240);
    assert_eq!(errno_words(&std::io::Error::from_raw_os_error(111)), "connection refused");
}
