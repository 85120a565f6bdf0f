//! Images that are being pulled, for pods of sources behind others.

use super::*;

/// Pods that asked in between used an image that was refused a moment later, and then it stayed.
#[test]
fn an_image_that_is_being_pulled_is_missing_for_pods_behind_others_until_it_is_judged() {
    let rig = Rig::behind(&[Source::Http]);
    let mailbox = rig.occupy("web:1");
    let mut answered = None;
    until("the image is known to be new", || {
        answered = rig.pulls.unjudged("docker.io/library/web:1");
        answered.is_some()
    });
    let missing = answered.unwrap();
    assert_eq!(missing.refusal(), Some(&RefusalKind::NoSuchImage));
    assert_eq!(rig.pulls.unjudged("other:1"), None);
    assert_eq!(answer(&mailbox), PullOutcome::Done);
    assert_eq!(rig.pulls.unjudged("web:1"), None);
}

/// One pod pulled an image again, and pods that had it got ErrImageNeverPull.
#[test]
fn an_image_that_is_pulled_again_is_not_missing() {
    let rig = Rig::behind(&[Source::Http]);
    rig.fake.with(|state| drop(state.add_image("web:1", true)));
    let mailbox = rig.occupy("web:1");
    let (mut asked, mut outcome) = (0, None);
    until("the pull is over", || {
        assert_eq!(rig.pulls.unjudged("web:1"), None);
        asked += 1;
        outcome = mailbox.take().inbox.pulled.pop().map(|pulled| pulled.outcome);
        outcome.is_some()
    });
    assert_eq!(outcome, Some(PullOutcome::Done));
    assert!(asked > 1, "it was asked about during the pull");
}
