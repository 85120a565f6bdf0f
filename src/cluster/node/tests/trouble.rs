//! Why the server does not hear of a node.

use super::super::heart::Trouble;
use super::*;

fn trouble(why: &str, is_answer: bool) -> News {
    News::Trouble(Trouble { why: why.to_owned(), is_answer, is_new: true })
}

#[test]
fn a_server_that_is_away_is_tried_more_rarely_and_told_of_once() {
    let mut rig = Rig::new();
    let down = |_: &Ask| Answer::Failed("connection refused".into());
    rig.run(30_000, down);
    assert!((8..14).contains(&rig.story.len()), "{:?}", rig.story);
    assert_eq!(rig.news, [trouble("connection refused", false)]);
    rig.run(40_000, kind_server);
    assert!(rig.news.contains(&News::Well));
    // The same once it is registered.
    rig.story.clear();
    let began = rig.millis;
    rig.run(began + 60_000, down);
    assert!(rig.story.len() < 40, "{:?}", rig.story);
    rig.story.clear();
    let began = rig.millis;
    rig.run(began + 10_000, kind_server);
    // Meanwhile the control plane may have declared the node lost.
    let has = |word: &str| rig.story.iter().any(|line| line.ends_with(word));
    assert!(has("renew lease") && has("read"), "{:?}", rig.story);
}

#[test]
fn a_node_that_may_not_be_made_says_why_once() {
    let mut rig = Rig::new();
    rig.run(60_000, |ask| match ask {
        Ask::Create(_) => Answer::Forbidden("is not allowed to set the label x".into()),
        Ask::Read => Answer::Missing,
        other => kind_server(other),
    });
    assert_eq!(rig.news, [trouble("is not allowed to set the label x", true)]);
    assert!(rig.story.len() < 60, "{:?}", rig.story);
}

#[test]
fn a_node_that_may_not_be_made_says_why_also_after_another_trouble() {
    let mut rig = Rig::new();
    rig.run(20_000, |_| Answer::Failed("no credentials yet".into()));
    let server = |ask: &Ask| match ask {
        Ask::Create(_) => Answer::Forbidden("is not allowed to set the label x".into()),
        Ask::Read => Answer::Missing,
        other => kind_server(other),
    };
    rig.run(60_000, server);
    rig.run(120_000, |_| Answer::Failed("no credentials yet".into()));
    let mut again = trouble("no credentials yet", false);
    if let News::Trouble(trouble) = &mut again {
        trouble.is_new = false;
    }
    let first = [trouble("no credentials yet", false), trouble("is not allowed to set the label x", true)];
    assert_eq!(rig.news, [first.as_slice(), &[again]].concat());
    rig.run(200_000, kind_server);
    assert!(rig.news.contains(&News::Well), "{:?}", rig.news);
}

#[test]
fn troubles_that_all_differ_are_reported_as_new_a_few_times() {
    let mut rig = Rig::new();
    let mut count = 0;
    rig.run(10_000_000, |_| {
        count += 1;
        Answer::Failed(format!("trouble {count}"))
    });
    let is_new = |news: &&News| matches!(news, News::Trouble(Trouble { is_new: true, .. }));
    assert_eq!(rig.news.iter().filter(is_new).count(), crate::base::limits::HEARTBEAT_TROUBLES);
    assert!(rig.news.len() > 20, "{}", rig.news.len());
}

#[test]
fn a_node_that_others_have_to_make_says_that_it_is_missing() {
    let mut rig = Rig::new();
    rig.heart = Heart::new(Settings { register: false, ..Settings::of("n1") }, 7, Mono::default());
    rig.run(600_000, |ask| match ask {
        Ask::Read => Answer::Missing,
        other => panic!("{other:?}"),
    });
    let why = "the API server has no node object \"n1\", and --register-node=false leaves it to others to create it";
    assert_eq!(rig.news, [trouble(why, true)]);
    rig.run(700_000, |ask| match ask {
        Ask::Read => Answer::Done(stored(true)),
        other => kind_server(other),
    });
    assert_eq!(rig.news[1..3], [News::Well, News::Registered("node-uid".into())], "{:?}", rig.news);
}

#[test]
fn labels_that_the_server_does_not_take_are_reported() {
    let mut rig = Rig::new();
    rig.run(1_000, |ask| match ask {
        Ask::Create(_) => Answer::Exists,
        Ask::Read => {
            let mut node = stored(true);
            node["metadata"]["labels"]["kubernetes.io/hostname"] = "other".into();
            Answer::Done(node)
        }
        Ask::Patch(patch) if patch.get("metadata").is_some() => Answer::Forbidden("not that label".into()),
        other => kind_server(other),
    });
    assert_eq!(rig.news, [News::Registered("node-uid".into()), News::LabelsRefused("not that label".into())]);
}
