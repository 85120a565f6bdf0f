//! A node object that somebody else removes, or makes anew.

use super::*;
use crate::api_client::pods::NodeSeen;

/// Such a node was without a status until the next report, which is sent every five minutes.
#[test]
fn a_node_that_somebody_else_removes_or_makes_anew_is_registered_at_once() {
    for seen in [NodeSeen::Missing, NodeSeen::Uid("later-uid".to_owned())] {
        let mut rig = Rig::new();
        rig.run(15_000, kind_server);
        let now = rig.now().mono;
        for known in [NodeSeen::Unknown, NodeSeen::Uid("node-uid".to_owned())] {
            rig.heart.has_seen(&known, now);
        }
        rig.run(18_000, kind_server);
        assert_eq!(rig.story.iter().filter(|line| line.ends_with(" read")).count(), 0, "{:?}", rig.story);
        rig.story.clear();
        rig.news.clear();
        let now = rig.now().mono;
        assert_eq!(rig.heart.confirmed_uid(), Some("node-uid"));
        rig.heart.has_seen(&seen, now);
        assert_eq!(rig.heart.confirmed_uid(), None, "no mirror pod names the old one");
        let is_gone = std::cell::Cell::new(seen == NodeSeen::Missing);
        let until = rig.millis + 4_000;
        rig.run(until, |ask| match ask {
            Ask::Read if is_gone.get() => Answer::Missing,
            Ask::Create(_) if !is_gone.take() => Answer::Exists,
            Ask::Create(_) | Ask::Read | Ask::Patch(_) => {
                let mut node = stored(false);
                node["metadata"]["uid"] = "later-uid".into();
                Answer::Done(node)
            }
            other => kind_server(other),
        });
        let begin = if seen == NodeSeen::Missing { ["read", "create"] } else { ["read", "read"] };
        let words: Vec<&str> = rig
            .story
            .iter()
            .filter_map(|line| line.split_once(' '))
            .map(|it| it.1)
            .filter(|it| *it != "renew lease")
            .collect();
        assert_eq!(words.first_chunk::<2>(), Some(&begin), "{seen:?}: {words:?}");
        assert!(words.contains(&"patch") && words.contains(&"read lease"), "{seen:?}: {words:?}");
        assert_eq!(rig.news, [News::Registered("later-uid".to_owned())], "{seen:?}");
        assert_eq!(rig.heart.confirmed_uid(), Some("later-uid"), "{seen:?}");
    }
}

#[test]
fn a_server_that_tells_another_uid_each_time_gets_no_storm() {
    let mut rig = Rig::new();
    let mut uid = 0;
    rig.run(61_000, |ask| match ask {
        Ask::Create(_) | Ask::Patch(_) | Ask::Read => {
            let mut node = stored(true);
            uid += 1;
            node["metadata"]["uid"] = uid.to_string().into();
            Answer::Done(node)
        }
        other => kind_server(other),
    });
    assert!(rig.story.len() < 100, "{} requests", rig.story.len());
}
