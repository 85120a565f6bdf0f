//! Which log is meant, and how much of it.

use k8s_openapi::api::core::v1::{ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting};

use super::*;

fn parse(query: &str) -> Result<Wanted, (u16, String)> {
    let now = Timestamp::from_second(1000).unwrap();
    wanted(&Query::parse(query).unwrap(), now)
        .map_err(|answer| (answer.status, String::from_utf8(answer.body).unwrap()))
}

#[test]
fn parameters_are_read_as_upstream_reads_them() {
    let all =
        parse("follow=true&previous=1&timestamps=True&tailLines=5&limitBytes=9&sinceSeconds=400").unwrap();
    let since = Timestamp::from_second(600).ok();
    assert_eq!(
        all,
        Wanted { follow: true, previous: true, timestamps: true, tail: Some(5), since, limit: Some(9) }
    );
    assert_eq!(parse("tail=3").unwrap().tail, Some(3));
    assert_eq!((parse("tail=all").unwrap().tail, parse("tailLines=0").unwrap().tail), (None, Some(0)));
    assert_eq!(parse("sinceTime=1970-01-01T00:00:07Z").unwrap().since, Timestamp::from_second(7).ok());
    assert_eq!(parse("sinceSeconds=9223372036854775807").unwrap().since, Some(Timestamp::UNIX_EPOCH));
    let invalid = Err((422, "{\"message\": \"Invalid request.\"}".to_owned()));
    let several = "sinceSeconds=1&sinceTime=1970-01-01T00:00:07Z";
    for query in ["tailLines=-1", "limitBytes=0", "sinceSeconds=0", several] {
        assert_eq!(parse(query).map(drop), invalid.clone().map(|_: Wanted| ()), "{query}");
    }
    let unreadable = Err((400, "{\"message\": \"Unable to decode query.\"}".to_owned()));
    for query in ["follow=maybe", "tailLines=x", "sinceTime=yesterday", "stream=Stdout"] {
        assert_eq!(parse(query).map(drop), unreadable.clone().map(|_: Wanted| ()), "{query}");
    }
}

/// A container whose state is in one letter, and whose last state has the id `last`, if it has one.
fn status(state: &str, has_last: bool) -> PodStatus {
    let ended = |id: &str| ContainerStateTerminated {
        container_id: Some(format!("docker://{id}")),
        ..ContainerStateTerminated::default()
    };
    let state = match state {
        "running" => ContainerState {
            running: Some(ContainerStateRunning { started_at: None }),
            ..ContainerState::default()
        },
        "ended" => ContainerState { terminated: Some(ended("current")), ..ContainerState::default() },
        reason => ContainerState {
            waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message: None }),
            ..ContainerState::default()
        },
    };
    let last =
        has_last.then(|| ContainerState { terminated: Some(ended("last")), ..ContainerState::default() });
    let container = ContainerStatus {
        name: "c".to_owned(),
        container_id: Some("docker://current".to_owned()),
        state: Some(state),
        last_state: last,
        ..ContainerStatus::default()
    };
    PodStatus { container_statuses: Some(vec![container]), ..PodStatus::default() }
}

#[test]
fn the_log_that_is_meant() {
    let find = |state: &str, has_last: bool, previous: bool| {
        let wanted = Wanted { previous, ..parse("").unwrap() };
        target(&status(state, has_last), "p", "c", &wanted)
    };
    let table = [
        ("running", true, false, Ok("current")),
        ("running", true, true, Ok("last")),
        ("running", false, true, Err("previous terminated container \"c\" in pod \"p\" not found")),
        ("ended", false, false, Ok("current")),
        ("CrashLoopBackOff", true, false, Ok("last")),
        (
            "ContainerCreating",
            false,
            false,
            Err("container \"c\" in pod \"p\" is waiting to start: ContainerCreating"),
        ),
        (
            "ErrImagePull",
            false,
            false,
            Err("container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"),
        ),
        (
            "ImagePullBackOff",
            false,
            false,
            Err("container \"c\" in pod \"p\" is waiting to start: image can't be pulled"),
        ),
    ];
    for (state, has_last, previous, expected) in table {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(find(state, has_last, previous), expected, "{state} {has_last} {previous}");
    }
    let none = target(&PodStatus::default(), "p", "c", &parse("").unwrap());
    assert_eq!(none, Err("container \"c\" in pod \"p\" is not available".to_owned()));
}
