//! Judges stored contents again as if they came today: keys and policy may have changed. Pure.

use crate::manifest::edition::{Claim, Known};
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::source::accept::Acceptor;
use crate::source::in_force::{InForce, Version};
use crate::source::last_good::Remembered;

/// The present meaning of the stored contents of one path.
#[derive(Debug, Default)]
pub struct Replayed {
    /// File path or URL.
    pub path: String,
    /// The pods and objects in force; new when nothing was accepted.
    pub in_force: InForce,
    /// The newest content that was accepted.
    pub newest: Option<Remembered>,
    /// Warnings about the newest content.
    pub problems: Vec<Problem>,
    /// Versions that make this state; others are not needed any more.
    pub needed: Vec<Version>,
    /// The signers' claims of all versions, oldest first.
    pub signed: Vec<Claim>,
    /// The reason why the newest stored content is not accepted any more.
    pub refused: Option<Problem>,
}

/// Folds contents, ordered by path and version, into their meaning.
#[must_use]
pub fn replay(contents: Vec<Remembered>, acceptor: &Acceptor) -> Vec<Replayed> {
    let mut paths: Vec<Replayed> = Vec::new();
    for content in contents {
        if paths.last().is_none_or(|last| last.path != content.path) {
            paths.push(Replayed { path: content.path.clone(), ..Replayed::default() });
        }
        let Some(at) = paths.last_mut() else { continue };
        let signature = content.signature.as_deref();
        // It was accepted once: the record of seen versions may come from it, and older contents may still be needed.
        let mut decoded = acceptor.accept(&content.path, &content.bytes, signature, &Known::default());
        let error = decoded.problems.iter().find(|p| p.severity == Severity::Error);
        at.refused = error.cloned();
        if at.refused.is_none() {
            at.problems = std::mem::take(&mut decoded.problems);
            at.signed.extend(decoded.signed.take().map(|claim| *claim));
            at.needed = at.in_force.replay(content.version, decoded);
            at.newest = Some(content);
        } else {
            // It may be accepted again, for example when a key is put back.
            at.in_force.reserve(content.version);
            at.needed.push(content.version);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::manifest::{Context, Decoded};
    use crate::pod::problem::Refused;
    use crate::pod::{DesiredPod, Source};
    use crate::source::testing::decode;

    /// Like `decode`, but the policy refuses pods whose name begins with `evil`.
    fn judge(bytes: &[u8], context: &Context<'_>) -> Decoded {
        let mut decoded = decode(bytes, context);
        let (refused, pods): (Vec<_>, Vec<_>) =
            decoded.pods.drain(..).partition(|p| p.uid.starts_with("evil"));
        decoded.pods = pods;
        let refuse = |pod: Arc<DesiredPod>| {
            // The name is the same in both versions.
            let mut pod = (*pod).clone();
            pod.key.name = pod.key.name.trim_start_matches("evil-").to_owned();
            Refused { pod: pod.into(), at: None, reason: "PodSecurity".into(), message: "no".into() }
        };
        decoded.refused = refused.into_iter().map(refuse).collect();
        decoded
    }

    fn acceptor() -> Acceptor {
        Acceptor { decode: judge, ..Acceptor::new(Source::File, "node1".into()) }
    }

    fn content(path: &str, version: Version, text: &str) -> Remembered {
        Remembered { path: path.into(), version, bytes: text.into(), ..Remembered::default() }
    }

    fn names(of: &InForce) -> Vec<&str> {
        of.pods().iter().map(|p| p.key.name.as_str()).collect()
    }

    #[test]
    fn contents_of_each_path_are_folded_in_order() {
        let contents = vec![
            content("/a", 3, "pod x\npod y"),
            content("/a", 7, "pod evil-x\npod y\npod z"),
            content("/b", 1, "pod b\nwarn"),
        ];
        let [a, b] = <[Replayed; 2]>::try_from(replay(contents, &acceptor())).unwrap();
        assert_eq!((names(&a.in_force), &a.needed), (vec!["y", "z", "x"], &vec![3, 7]));
        assert_eq!((a.in_force.newest(), a.in_force.refused().len()), (7, 1));
        assert_eq!((names(&b.in_force), b.problems.len(), b.refused), (vec!["b"], 1, None));
        // The next content continues the numbers, and drops contents that are not needed.
        let mut in_force = a.in_force;
        let context = Context { node_name: "node1", source: Source::File, path: "/a" };
        assert_eq!(in_force.apply(judge(b"pod evil-x", &context)), [3, 8]);
        assert_eq!(in_force.apply(judge(b"pod x", &context)), [9]);
    }

    #[test]
    fn what_is_not_accepted_any_more_is_kept_and_not_in_force() {
        let contents = vec![content("/a", 3, "pod x"), content("/a", 4, "bad"), content("/b", 9, "bad")];
        let [a, b] = <[Replayed; 2]>::try_from(replay(contents, &acceptor())).unwrap();
        assert_eq!((names(&a.in_force), &a.needed), (vec!["x"], &vec![3, 4]));
        assert_eq!(a.newest.unwrap().version, 3);
        assert_eq!(a.refused.unwrap().message, "bad line");
        assert!(b.in_force.is_new() && b.newest.is_none());
        // Its number is not reused.
        let mut in_force = b.in_force;
        let context = Context { node_name: "node1", source: Source::File, path: "/b" };
        assert_eq!(in_force.apply(judge(b"pod b", &context)), [10]);
    }

    /// A daemon that never died has the same state as one that started from the needed contents.
    #[test]
    fn a_restart_at_any_moment_changes_nothing() {
        let texts = ["pod x\npod y", "pod evil-x\npod y", "pod y", "pod evil-x\npod evil-y\npod z", "pod x"];
        for order in 0..texts.len().pow(4) {
            let history = (0..4_u32).map(|n| texts[order / texts.len().pow(n) % texts.len()]);
            let mut alive = InForce::default();
            let mut stored: Vec<Remembered> = Vec::new();
            for text in history {
                let context = Context { node_name: "node1", source: Source::File, path: "/a" };
                let needed = alive.apply(judge(text.as_bytes(), &context));
                stored.push(content("/a", alive.newest(), text));
                stored.retain(|c| needed.contains(&c.version));
                let again = replay(stored.clone(), &acceptor()).remove(0);
                let sorted = |mut names: Vec<String>| {
                    names.sort();
                    names
                };
                let owned = |of: &InForce| sorted(names(of).into_iter().map(str::to_owned).collect());
                assert_eq!(owned(&again.in_force), owned(&alive));
                assert_eq!((again.needed, again.in_force.newest()), (needed, alive.newest()));
                assert_eq!(again.in_force.refused(), alive.refused());
            }
        }
    }
}
