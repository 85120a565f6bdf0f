//! Tests of the queue.

use super::*;
use crate::image::credentials::Format;

fn request(image: &str) -> PullRequest {
    PullRequest {
        image: image.into(),
        builtin: false,
        local_copy_will_do: false,
        credentials: Vec::new(),
        source: Source::File,
    }
}

fn at(seconds: u64) -> Mono {
    Mono(std::time::Duration::from_secs(seconds))
}

fn next(queue: &mut Queue<u32>) -> Option<Job> {
    queue.next(|asker| *asker < 100)
}

fn askers(asks: Vec<(PullRequest, u32)>) -> Vec<u32> {
    asks.into_iter().map(|(_, asker)| asker).collect()
}

#[test]
fn one_after_the_other_in_the_order_of_asking() {
    let mut queue = Queue::new(1, Set::new());
    for (n, image) in ["a:1", "b:1", "a:1"].into_iter().enumerate() {
        queue.add(request(image), n as u32).unwrap();
    }
    let first = next(&mut queue).unwrap();
    assert!(next(&mut queue).is_none());
    // One more request for the image that is being pulled.
    queue.add(request("docker.io/library/a:1"), 7).unwrap();
    assert_eq!(queue.askers(&first.key).count(), 3);
    assert_eq!(askers(queue.done(&first.key)), [0, 2, 7]);
    let second = next(&mut queue).unwrap();
    assert_eq!(second.request.image, "b:1");
    assert_eq!(askers(queue.done(&second.key)), [1]);
    assert!(next(&mut queue).is_none());
    assert!(queue.done(&second.key).is_empty());
}

#[test]
fn several_at_once() {
    let mut queue = Queue::new(3, Set::new());
    for n in 0..5 {
        queue.add(request(&format!("a:{n}")), n).unwrap();
    }
    let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(begun.len(), 3);
    queue.done(&begun[1].key);
    assert_eq!(next(&mut queue).unwrap().request.image, "a:3");
    assert!(next(&mut queue).is_none());
}

#[test]
fn the_sandbox_image_waits_for_nobody() {
    let mut queue = Queue::new(1, Set::new());
    queue.add(request("slow:1"), 0).unwrap();
    next(&mut queue).unwrap();
    queue.add(request("b:1"), 1).unwrap();
    queue.add(PullRequest { builtin: true, ..request("pause:1") }, 2).unwrap();
    assert!(next(&mut queue).unwrap().request.builtin);
    assert!(next(&mut queue).is_none());
}

/// Pods whose image is on the node do not wait for the pulls of others.
#[test]
fn what_may_be_here_is_asked_for_besides_the_pulls() {
    let lenient = |image: &str| PullRequest { local_copy_will_do: true, ..request(image) };
    let mut queue = Queue::new(1, Set::new());
    queue.add(request("slow:1"), 0).unwrap();
    queue.add(request("slow:2"), 1).unwrap();
    for n in 0..limits::REGISTRY_CHECKS as u32 + 1 {
        queue.add(lenient(&format!("here:{n}")), 10 + n).unwrap();
    }
    let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
    assert_eq!(begun.len(), 1 + limits::REGISTRY_CHECKS);
    assert!(!begun[0].check && begun[1..].iter().all(|job| job.check));
    // One of the images is missing: it is pulled in turn, and its place is free.
    queue.defer(&begun[1].key);
    assert_eq!(next(&mut queue).unwrap().request.image, "here:4");
    assert!(next(&mut queue).is_none());
    assert_eq!(askers(queue.done(&begun[0].key)), [0]);
    let deferred = next(&mut queue).unwrap();
    assert_eq!((deferred.request.image.as_str(), deferred.check), ("here:0", false));
    assert_eq!(askers(queue.done(&deferred.key)), [10]);
    assert_eq!(next(&mut queue).unwrap().request.image, "slow:2");
}

#[test]
fn other_credentials_are_another_pull() {
    let config = |user: &str| {
        let text = format!(r#"{{"r.io": {{"username": "{user}"}}}}"#);
        Arc::new(DockerConfig::parse(text.as_bytes(), Format::DockerCfg).unwrap())
    };
    let with = |user: &str| PullRequest { credentials: vec![config(user)], ..request("r.io/a:1") };
    let mut queue = Queue::new(9, Set::new());
    for (n, ask) in [with("u"), with("u"), with("v"), request("r.io/a:1")].into_iter().enumerate() {
        queue.add(ask, n as u32).unwrap();
    }
    let begun: Vec<Job> = std::iter::from_fn(|| next(&mut queue)).collect();
    let told: Vec<Vec<u32>> = begun.iter().map(|job| askers(queue.done(&job.key))).collect();
    assert_eq!(told, [vec![0, 1], vec![2], vec![3]]);
}

#[test]
fn who_is_gone_is_not_pulled_for() {
    let mut queue = Queue::new(1, Set::new());
    queue.add(request("gone:1"), 100).unwrap();
    queue.add(request("b:1"), 100).unwrap();
    queue.add(request("b:1"), 1).unwrap();
    let job = next(&mut queue).unwrap();
    assert_eq!(job.request.image, "b:1");
    assert_eq!(askers(queue.done(&job.key)), [1]);
}

#[test]
fn a_registry_of_one_source_keeps_no_pod_of_another_waiting() {
    let of = |source: Source, image: &str| PullRequest { source, ..request(image) };
    let mut queue = Queue::new(1, Set::new());
    queue.add(of(Source::Api, "drip:1"), 0).unwrap();
    let drip = next(&mut queue).unwrap();
    assert!(!queue.is_in_the_way(&drip.key, at(0)));
    queue.add(of(Source::File, "inno:1"), 1).unwrap();
    assert!(!queue.is_in_the_way(&drip.key, at(0)));
    let inno = next(&mut queue).unwrap();
    assert_eq!(inno.request.image, "inno:1");
    queue.add(of(Source::Api, "late:1"), 2).unwrap();
    assert!(queue.is_in_the_way(&drip.key, at(0)) && !queue.is_in_the_way(&inno.key, at(0)));
    assert!(next(&mut queue).is_none());
    // The source with a free place begins it.
    queue.add(of(Source::Http, "late:1"), 3).unwrap();
    let late = next(&mut queue).unwrap();
    assert_eq!(askers(queue.done(&late.key)), [2, 3]);
    assert!(!queue.is_in_the_way(&drip.key, at(0)));
}

/// Regression: one very slow pull had all three of Docker's downloads, and the pull of another source failed.
#[test]
fn a_pull_to_which_docker_gives_no_download_waits_for_the_place_of_the_others() {
    let mut queue = Queue::new(1, Set::new());
    queue.add(PullRequest { source: Source::Http, ..request("drip:1") }, 0).unwrap();
    queue.add(request("inno:1"), 1).unwrap();
    let (drip, inno) = (next(&mut queue).unwrap(), next(&mut queue).unwrap());
    queue.begins(&drip.key, false, at(0));
    assert!(!queue.is_in_the_way(&drip.key, at(500)), "the other has not asked yet");
    queue.moves(&drip.key);
    queue.begins(&inno.key, false, at(500));
    let starved = at(500).after(limits::PULL_STARVED);
    assert!(!queue.is_in_the_way(&drip.key, at(501)) && queue.is_in_the_way(&drip.key, starved));
    assert!(!queue.is_in_the_way(&inno.key, starved), "it waits for itself only");
    assert!(!queue.gives_way(&drip.key, starved), "among equals only what hardly moves gives way");
    queue.behind.insert(Source::Http);
    assert!(queue.gives_way(&drip.key, starved) && !queue.gives_way(&drip.key, at(501)));
    assert!(!queue.gives_way(&inno.key, starved));
    queue.moves(&inno.key);
    assert!(!queue.is_in_the_way(&drip.key, starved));
}

#[test]
fn a_pull_that_nobody_waits_for_any_more_is_given_up() {
    let mut queue = Queue::new(9, Set::new());
    for (n, image) in ["a:1", "b:1", "a:1"].into_iter().enumerate() {
        queue.add(request(image), n as u32).unwrap();
    }
    let (a, b) = (next(&mut queue).unwrap(), next(&mut queue).unwrap());
    let why = |job: &Job| job.stop.as_ref().and_then(|stop| stop.why().map(str::to_owned));
    queue.drop_unwanted(|asker| *asker != 0);
    assert_eq!((why(&a), why(&b)), (None, None));
    queue.drop_unwanted(|asker| *asker == 1);
    assert_eq!((why(&a).as_deref(), why(&b)), (Some("nobody waits for it any more"), None));
    assert!(queue.done(&a.key).is_empty() && askers(queue.done(&b.key)) == [1]);
}

#[test]
fn a_full_queue_gives_back() {
    let mut queue = Queue::new(1, Set::new());
    for n in 0..limits::PULL_QUEUE {
        queue.add(request(&format!("a:{n}")), 0).unwrap();
    }
    assert_eq!(queue.add(request("one:more"), 5).unwrap_err().1, 5);
    queue.add(request("a:0"), 6).unwrap();
}

/// One source named so many images of a registry that says nothing that no pod of another source could wait.
#[test]
fn a_source_that_fills_its_queue_keeps_no_pod_of_another_from_waiting() {
    let of = |source: Source, image: &str| PullRequest { source, ..request(image) };
    let mut queue = Queue::new(1, Set::new());
    for n in 0..=limits::PULL_QUEUE {
        queue.add(of(Source::Http, &format!("silent:{n}")), 0).unwrap();
        next(&mut queue);
    }
    assert!(queue.add(of(Source::Http, "one:more"), 1).is_err());
    for asker in 0..limits::PULL_ASKERS as u32 - 1 {
        queue.add(of(Source::Http, "silent:1"), asker % 100).unwrap();
    }
    assert!(queue.add(of(Source::Http, "silent:1"), 1).is_err());
    queue.add(of(Source::File, "silent:1"), 2).unwrap();
    queue.add(of(Source::File, "inno:1"), 3).unwrap();
    let begun: Vec<String> = std::iter::from_fn(|| next(&mut queue)).map(|job| job.request.image).collect();
    assert_eq!(begun, ["silent:1"], "the image that both want comes first");
}
