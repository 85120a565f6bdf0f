//! Tests of the parameters of a log.

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

/// Through an API server a 404 in another form than the API's is "the server could not find the requested resource".
#[test]
fn an_ephemeral_container_that_waits_has_the_kubelets_words() {
    let pod = |state: serde_json::Value| -> Pod {
        let status = serde_json::json!({"name": "look", "image": "i", "imageID": "", "ready": false,
            "restartCount": 0, "state": state});
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web"},
            "spec": {"containers": [], "ephemeralContainers": [{"name": "look"}, {"name": "next"}]},
            "status": {"ephemeralContainerStatuses": [status]},
        }))
        .unwrap()
    };
    let waits = pod(serde_json::json!({"waiting": {"reason": "ErrImagePull"}}));
    let why = "container \"look\" in pod \"web\" is waiting to start: trying and failing to pull image";
    assert_eq!(not_made(&waits, "look").as_deref(), Some(why));
    assert_eq!(
        not_made(&waits, "next").as_deref(),
        Some("container \"next\" in pod \"web\" is not available")
    );
    assert_eq!(not_made(&waits, "app"), None);
}
