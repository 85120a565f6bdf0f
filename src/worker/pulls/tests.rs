//! The image thread on the in-memory engine.

mod unjudged;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::base::clock::Now;
use crate::image::failure::is_answer;
use crate::runtime::fake::{Fake, Pull};
use crate::runtime::{Call, DockerError, Refusal, RefusalKind};

/// A clock that counts how often the engine reads it: once for each call and pull that begins.
struct Counting(System, AtomicU32);

impl Clock for Counting {
    fn now(&self) -> Now {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.now()
    }
}

struct Rig {
    fake: Fake,
    clock: Arc<Counting>,
    pulls: Pulls,
}

/// Long enough for any machine; the awaited answers come much earlier.
const PATIENCE: Duration = Duration::from_secs(60);

/// The time that a pull takes behind which others wait: longer than a loaded machine needs to let them ask.
const BUSY: Duration = Duration::from_secs(2);

fn until(what: &str, mut test: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !test() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

impl Rig {
    fn new() -> Rig {
        let clock = Arc::new(Counting(System::start(), AtomicU32::new(0)));
        let fake = Fake::new(Arc::clone(&clock) as Arc<dyn Clock>, 1);
        let pace = Pace { deadline: PATIENCE, at_once: 1, rate: 0, burst: 0 };
        let pulls = Rig::pulls(&fake, pace);
        Rig { fake, clock, pulls }
    }

    /// Pods of these sources are behind those of others.
    fn behind(sources: &[Source]) -> Rig {
        let mut rig = Rig::new();
        let pace = Pace { deadline: PATIENCE, at_once: 1, rate: 0, burst: 0 };
        rig.pulls = Rig::pulls_behind(&rig.fake, pace, crate::base::order::set(sources.iter().copied()));
        rig
    }

    fn pulls(fake: &Fake, pace: Pace) -> Pulls {
        Rig::pulls_behind(fake, pace, Set::new())
    }

    fn pulls_behind(fake: &Fake, pace: Pace, behind: Set<Source>) -> Pulls {
        let keys = NodeKeys::new(std::path::Path::new("/nonexistent"), None);
        Pulls::new(
            Docker::Fake(fake.clone()),
            System::start(),
            (pace, behind),
            keys,
            Arc::default(),
            Box::new(|_| ()),
        )
    }

    fn looks(&self) -> u32 {
        self.clock.1.load(Ordering::SeqCst)
    }

    /// Requests an image whose pull takes a while, and returns when it has begun.
    fn occupy(&self, image: &str) -> Arc<Mailbox> {
        self.fake.with(|state| state.script_pull(image, Pull::Takes(BUSY)));
        let before = self.looks();
        let mailbox = self.ask(image, false);
        until("the pull begins", || self.looks() > before);
        // The engine has read the script once it is free again.
        self.fake.with(|_| ());
        mailbox
    }

    fn ask(&self, image: &str, local_copy_will_do: bool) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        self.ask_into(image, local_copy_will_do, &mailbox);
        mailbox
    }

    fn ask_into(&self, image: &str, local_copy_will_do: bool, mailbox: &Arc<Mailbox>) {
        let request = PullRequest {
            image: image.into(),
            builtin: false,
            local_copy_will_do,
            credentials: Vec::new(),
            source: Source::File,
        };
        self.pulls.ask(request, mailbox);
    }
}

fn answer(mailbox: &Mailbox) -> PullOutcome {
    let mut found = None;
    until("an answer", || {
        found = mailbox.take().inbox.pulled.pop();
        found.is_some()
    });
    found.unwrap().outcome
}

#[test]
fn who_asks_while_it_is_pulled_gets_the_same_answer() {
    let rig = Rig::new();
    let first = rig.occupy("web:1");
    // From now on, a pull of it would fail.
    rig.fake.with(|state| state.script_pull("web:1", Pull::Fails("asked twice".into())));
    let others: Vec<_> = (0..5).map(|_| rig.ask("web:1", false)).collect();
    assert_eq!(answer(&first), PullOutcome::Done);
    for other in others {
        assert_eq!(answer(&other), PullOutcome::Done);
    }
    assert!(
        matches!(answer(&rig.ask("web:1", false)), PullOutcome::Failed(why) if why.contains("asked twice"))
    );
}

/// A pod that needs the registry's answer asks first; its failure does not affect another pod that may use the
/// local copy.
#[test]
fn who_may_use_the_local_copy_gets_it_whoever_else_asks() {
    let rig = Rig::new();
    rig.fake.with(|state| {
        state.add_image("web:1", true);
        state.script_pull("web:1", Pull::Fails("dial tcp: no route to host".into()));
    });
    let busy = rig.occupy("other:1");
    let strict = rig.ask("web:1", false);
    let lenient = rig.ask("web:1", true);
    assert_eq!(answer(&busy), PullOutcome::Done);
    let why = "dial tcp: no route to host".to_owned();
    assert_eq!(answer(&lenient), PullOutcome::LocalCopy(why));
    assert!(!matches!(answer(&strict), PullOutcome::Done));
}

#[test]
fn what_is_asked_for_is_pulled_one_after_the_other() {
    let rig = Rig::new();
    let mailbox = Arc::new(Mailbox::new().unwrap());
    for n in 0..20 {
        rig.ask_into(&format!("image:{n}"), false, &mailbox);
    }
    let mut answers = Vec::new();
    until("all of them", || {
        answers.extend(mailbox.take().inbox.pulled);
        answers.len() == 20
    });
    let order: Vec<String> = answers.iter().map(|p| p.image.clone()).collect();
    let expected: Vec<String> = (0..20).map(|n| format!("image:{n}")).collect();
    assert_eq!(order, expected);
    assert!(answers.iter().all(|p| p.outcome == PullOutcome::Done));
}

#[test]
fn a_full_queue_says_so_at_once_and_blocks_nobody() {
    let rig = Rig::new();
    let busy = rig.occupy("slow:1");
    let mailbox = Arc::new(Mailbox::new().unwrap());
    let more = 10;
    let all = limits::PULL_QUEUE + more;
    for n in 0..all {
        rig.ask_into(&format!("image:{n}"), false, &mailbox);
    }
    let mut answers = Vec::new();
    until("all of them", || {
        answers.extend(mailbox.take().inbox.pulled);
        answers.len() == all
    });
    let refused = answers.iter().filter(|p| p.outcome != PullOutcome::Done).count();
    assert!(refused <= more, "{refused} were turned away");
    for (n, pulled) in answers.iter().take(refused).enumerate() {
        let expected = PullOutcome::Failed("too many images are waiting to be pulled".into());
        assert_eq!(
            (&pulled.image, &pulled.outcome),
            (&format!("image:{}", limits::PULL_QUEUE + n), &expected)
        );
    }
    assert_eq!(answer(&busy), PullOutcome::Done);
}

#[test]
fn k11340_the_sandbox_image_comes_out_of_the_binary() {
    let rig = Rig::new();
    let image = sandbox_image::image_name();
    let inspect = Call::ImageInspect { image: image.clone() };
    assert!(rig.fake.perform(&inspect).is_err());
    rig.pulls.prepare_sandbox_image();
    until("it is loaded", || rig.fake.perform(&inspect).is_ok());
    let mailbox = Arc::new(Mailbox::new().unwrap());
    for _ in 0..2 {
        let request = PullRequest::plain(image.clone(), true, Source::File);
        rig.pulls.ask(request, &mailbox);
        assert_eq!(answer(&mailbox), PullOutcome::Done, "also when it is there");
    }
    rig.fake.with(|state| state.set_down(true));
    let request = PullRequest::plain(image, true, Source::File);
    rig.pulls.ask(request, &mailbox);
    let PullOutcome::Failed(why) = answer(&mailbox) else { panic!() };
    assert!(
        why.starts_with("the built-in sandbox image could not be loaded: Docker is not reachable"),
        "{why}"
    );
}

/// Only a refusal by the registry itself counts as an answer (k3s-io/k3s#8781, kubeedge/kubeedge#4441).
#[test]
fn k4441_what_is_an_answer_of_the_registry() {
    let check = |status: u16, kind: RefusalKind, message: &str, expected: bool| {
        let error = DockerError::Refused(Refusal { kind, status, message: message.into() });
        assert_eq!(is_answer(&error), expected, "{message}");
    };
    use RefusalKind::{BadRequest, NotFound, Server};
    check(404, NotFound, "manifest for web:9 not found: manifest unknown: manifest unknown", true);
    check(404, NotFound, "pull access denied for web, repository does not exist", true);
    check(500, Server, "Get \"https://r.example/v2/\": unauthorized: authentication required", true);
    check(404, NotFound, "no matching manifest for linux/arm/v7 in the manifest list entries", true);
    check(400, BadRequest, "invalid reference format", true);
    check(
        500,
        Server,
        "Get \"https://r.example/v2/\": dial tcp 10.0.0.1:443: connect: no route to host",
        false,
    );
    check(500, Server, "Get \"https://r.example/v2/\": dial tcp: lookup r.example: no such host", false);
    check(500, Server, "lookup r.example on 10.0.0.1:53: server misbehaving: not found", false);
    check(500, Server, "net/http: TLS handshake timeout", false);
    check(500, Server, "toomanyrequests: rate limit", false);
    check(500, Server, "write /var/lib/docker/tmp/x: no space left on device", false);
    for error in [
        DockerError::Timeout("x".into()),
        DockerError::Lost("x".into()),
        DockerError::Unreachable("x".into()),
    ] {
        assert!(!is_answer(&error));
    }
}

#[test]
fn several_at_once_are_not_held_up_by_one() {
    let rig = Rig::new();
    let pace = Pace { deadline: PATIENCE, at_once: 3, rate: 0, burst: 0 };
    let pulls = Rig::pulls(&rig.fake, pace);
    let ask = |image: &str| {
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let image = image.to_owned();
        let request = PullRequest {
            image,
            builtin: false,
            local_copy_will_do: false,
            credentials: Vec::new(),
            source: Source::File,
        };
        pulls.ask(request, &mailbox);
        mailbox
    };
    rig.fake.with(|state| {
        state.script_pull("hangs:1", Pull::Takes(Duration::from_secs(3)));
        state.script_pull("hangs:2", Pull::Takes(Duration::from_secs(3)));
    });
    let slow = [ask("hangs:1"), ask("hangs:2")];
    for n in 0..20 {
        assert_eq!(answer(&ask(&format!("web:{n}"))), PullOutcome::Done);
    }
    assert!(slow.iter().all(|mailbox| mailbox.take().inbox.pulled.is_empty()));
}

/// A node boots without its registry: its pods do not wait for it one after the other.
#[test]
fn a_registry_that_does_not_answer_is_waited_for_once() {
    let rig = Rig::new();
    let deadline = Duration::from_millis(800);
    let pulls = Rig::pulls(&rig.fake, Pace { deadline, at_once: 1, rate: 0, burst: 0 });
    let rig = Rig { pulls, ..rig };
    rig.pulls.shared.registries().slow = deadline * 3 / 4;
    let images: Vec<String> = (0..20).map(|n| format!("r.example/web:{n}")).collect();
    rig.fake.with(|state| {
        for image in &images {
            state.add_image(image, true);
            state.script_pull(image, Pull::Takes(PATIENCE));
        }
        state.script_pull("r.example/gone:1", Pull::Takes(PATIENCE));
    });
    // A missing image is pulled meanwhile, and delays no pod.
    let gone = rig.ask("r.example/gone:1", false);
    let begun = Instant::now();
    let all: Vec<_> = images.iter().map(|image| rig.ask(image, true)).collect();
    for mailbox in &all {
        assert!(matches!(answer(mailbox), PullOutcome::LocalCopy(_)));
    }
    assert!(begun.elapsed() < deadline * 10, "not one after the other: {:?}", begun.elapsed());
    let PullOutcome::LocalCopy(why) = answer(&rig.ask(&images[0], true)) else { panic!() };
    assert_eq!(why, "registry r.example has not answered lately and is not asked again so soon");
    assert!(matches!(answer(&gone), PullOutcome::Failed(_)));
    // The registry works again, and the operator sends SIGHUP.
    rig.fake.with(|state| state.script_pull(&images[0], Pull::Takes(Duration::ZERO)));
    rig.pulls.ask_all_again();
    assert_eq!(answer(&rig.ask(&images[0], true)), PullOutcome::Done);
}

/// A missing image with policy Always is pulled in its turn.
#[test]
fn an_image_that_is_not_here_is_pulled_in_turn() {
    let rig = Rig::new();
    let busy = rig.occupy("slow:1");
    let lenient = rig.ask("web:1", true);
    assert_eq!(answer(&busy), PullOutcome::Done);
    assert_eq!(answer(&lenient), PullOutcome::Done);
}

/// The kubelet's words, without a request to a registry.
#[test]
fn more_pulls_than_the_rate_lets_fail_at_once() {
    let rig = Rig::new();
    let pace = Pace { deadline: PATIENCE, at_once: 1, rate: 1, burst: 2 };
    let rig = Rig { pulls: Rig::pulls(&rig.fake, pace), ..rig };
    let answers: Vec<PullOutcome> = (0..4).map(|n| answer(&rig.ask(&format!("web:{n}"), true))).collect();
    assert_eq!(answers[..2], [PullOutcome::Done, PullOutcome::Done]);
    assert_eq!(answers[3], PullOutcome::Failed("pull QPS exceeded".into()));
}

/// No image is pulled for a pod that is gone by then.
#[test]
fn nobody_is_left_to_pull_for() {
    let rig = Rig::new();
    let busy = rig.occupy("slow:1");
    drop(rig.ask("gone:1", false));
    let last = rig.ask("last:1", false);
    assert_eq!(answer(&busy), PullOutcome::Done);
    assert_eq!(answer(&last), PullOutcome::Done);
    assert!(rig.fake.perform(&Call::ImageInspect { image: "gone:1".into() }).is_err());
}

/// Two hundred pods of one image cause one pull, and all get the answer.
#[test]
fn two_hundred_pods_of_one_image() {
    let rig = Rig::new();
    let first = rig.occupy("web:1");
    rig.fake.with(|state| state.script_pull("web:1", Pull::Fails("asked twice".into())));
    let all: Vec<_> = (0..200).map(|_| rig.ask("docker.io/library/web:1", false)).collect();
    for mailbox in all.iter().chain([&first]) {
        assert_eq!(answer(mailbox), PullOutcome::Done);
    }
}

/// More local images than `--registry-burst` are checked at the same moment, as when a node boots: each check
/// waits for its turn, and after a time-out the local copy is used. A missing image fails as with the kubelet.
#[test]
fn no_pod_whose_image_is_here_fails_for_the_rate() {
    let rig = Rig::new();
    let image = |n: u32| format!("web:{n}");
    for n in 0..20 {
        rig.fake.with(|state| state.add_image(&image(n), true));
    }
    for (burst, expected) in
        [(2, PullOutcome::Done), (0, PullOutcome::LocalCopy("pull QPS exceeded".to_owned()))]
    {
        let pace = Pace { deadline: PATIENCE, at_once: 1, rate: 50, burst };
        let rig =
            Rig { fake: rig.fake.clone(), clock: Arc::clone(&rig.clock), pulls: Rig::pulls(&rig.fake, pace) };
        let all: Vec<_> = (0..20).map(|n| rig.ask(&image(n), true)).collect();
        for (n, mailbox) in all.iter().enumerate() {
            assert_eq!(answer(mailbox), expected, "{n} of 20, burst {burst}");
        }
        if burst == 0 {
            let why = PullOutcome::Failed("pull QPS exceeded".to_owned());
            assert_eq!(answer(&rig.ask("nowhere:1", true)), why, "it is not here");
        }
    }
}

/// No pod gets an image that may belong to another. An image without a registry came without a secret.
#[test]
fn what_was_loaded_is_everybodys_though_the_record_is_damaged_and_nobody_may_pull() {
    let rig = Rig::new();
    let grants = &rig.pulls.shared.grants;
    rig.fake.with(|state| _ = state.add_image("loaded:1", true));
    let pulled = format!("r.io/web@sha256:{}", "ab".repeat(32));
    rig.fake.with(|state| _ = state.add_image(&pulled, true));
    grants.lose();
    for image in ["loaded:1", &pulled, "not-here:1"] {
        assert!(grants.needs_credentials(image));
        rig.pulls.missing(image);
    }
    until("the loaded one is cleared up", || !grants.needs_credentials("loaded:1"));
    assert!(grants.needs_credentials(&pulled) && grants.needs_credentials("not-here:1"));
}

/// An inspect that was too long to be read counted as that of a small configuration.
#[test]
fn a_pulled_image_whose_configuration_cannot_be_read_is_refused_and_removed() {
    let rig = Rig::new();
    let pulled = |bytes: usize| {
        rig.fake.with(|state| {
            state.add_image("large:1", true);
            state.set_image_configuration("large:1", bytes);
        });
        answer(&rig.ask("large:1", false))
    };
    let inspect = Call::ImageInspect { image: "large:1".into() };
    for (bytes, has) in [(300 << 10, "300.0 KiB"), (70 << 20, "more than can be read")] {
        let PullOutcome::Failed(why) = pulled(bytes) else { panic!("{bytes}") };
        assert!(why.contains(&format!("has {has}, and podkeeper takes 256.0 KiB")), "{why}");
        let gone = rig.fake.perform(&inspect).unwrap_err();
        assert_eq!(gone.refusal(), Some(&RefusalKind::NoSuchImage), "{bytes}");
    }
    assert_eq!(pulled(100 << 10), PullOutcome::Done);
}
