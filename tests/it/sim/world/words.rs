//! The text of a story, and pods from the text of manifests.

use super::*;

/// The pod of a manifest. The same few manifests are read again and again, so each is decoded once.
pub(super) fn decoded(path: &str, text: &str) -> Arc<DesiredPod> {
    thread_local! {
        static DECODED: RefCell<BTreeMap<String, Arc<DesiredPod>>> = const { RefCell::new(BTreeMap::new()) };
    }
    let both = format!("{path}\n{text}");
    DECODED.with_borrow_mut(|all| {
        let pod = all.entry(both).or_insert_with(|| {
            let context = Context { node_name: NODE, source: Source::File, path };
            let decoded = manifest::decode(text.as_bytes(), &context);
            assert!(decoded.is_good(), "{:?}", decoded.problems);
            decoded.pods.into_iter().next().expect("a pod in each manifest")
        });
        Arc::clone(pod)
    })
}

pub(super) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

pub(super) fn words(call: &Call) -> String {
    match call {
        Call::Create { name, .. } => format!("create {name}"),
        Call::Start { id } => format!("start {}", short(id)),
        Call::Kill { id, signal } => format!("kill {} {signal}", short(id)),
        Call::Remove { id, .. } => format!("remove {}", short(id)),
        Call::Inspect { id } => format!("inspect {}", id.get(..40).map_or(id.as_str(), |_| short(id))),
        Call::List { .. } => "list".into(),
        other => format!("{other:?}").chars().take(40).collect(),
    }
}

pub(super) fn result_words(result: &Result<Reply, DockerError>) -> String {
    match result {
        Ok(Reply::Created { id, .. }) => format!("created {}", short(id)),
        Ok(Reply::Container(c)) => format!("{:?} {}", c.state, c.exit_code),
        Ok(Reply::Containers(list)) => format!("{} containers", list.len()),
        Ok(other) => format!("{other:?}").chars().take(30).collect(),
        Err(error) => format!("{error:?}").chars().take(110).collect(),
    }
}

pub(super) fn is_volume(mount: &Mount) -> bool {
    mount.source.contains("/volumes/")
}
