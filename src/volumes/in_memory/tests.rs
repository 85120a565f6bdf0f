//! Shares of pods and sources.

use super::*;
use crate::plan::testing;
use crate::pod::allocatable::Allocatable;
use crate::pod::object::testing::{secret, snapshot};

const MI: u64 = 1 << 20;

fn asker(uid: &str, is_behind: bool) -> Asker<'_> {
    Asker { uid, is_behind, memory: 256 * MI }
}

fn sum(shares: &Shares) -> u64 {
    shares.0.values().map(|share| share.sum).sum()
}

/// One Secret of 450 KB in 650 volumes took 290 MB, and the daemon of a node of 256 MiB was killed at each start.
#[test]
fn a_pod_gets_much_memory_for_secrets_only_while_little_is_taken() {
    let mut shares = Shares::default();
    shares.take(asker("a", false), &[("v", 32 * MI)]).unwrap();
    let refused = shares.take(asker("b", false), &[("v", MI / 2), ("w", MI)]).unwrap_err();
    let Refused { volume, why } = refused;
    assert_eq!(volume, "w");
    assert!(why.contains("would take 33.5 MiB there, 1.5 MiB of it this pod"), "{why}");
    assert!(why.ends_with("more than 512.0 KiB only while all together take at most 32.0 MiB"), "{why}");
    assert_eq!(sum(&shares), 32 * MI, "what is refused takes nothing");
    shares.take(asker("b", false), &[("v", MI / 2)]).unwrap();
    assert_eq!(sum(&shares), 32 * MI + MI / 2, "a pod may always have a little");
    let unknown = Asker { memory: 0, ..asker("c", true) };
    shares.take(unknown, &[("v", 900 * MI)]).unwrap();
}

/// 109 pods of a source that is not trusted took 512 KiB each, beside an eighth of the node's memory.
#[test]
fn sources_behind_others_get_half_of_it_for_all_of_their_pods() {
    let mut shares = Shares::default();
    for n in 0..32 {
        shares.take(asker(&format!("p{n}"), true), &[("v", MI / 2)]).unwrap();
    }
    let Refused { why, .. } = shares.take(asker("q", true), &[("v", PAGE)]).unwrap_err();
    assert!(why.contains("would take 16.0 MiB there") && why.ends_with("together get 16.0 MiB"), "{why}");
    shares.take(asker("mine", false), &[("v", 16 * MI)]).unwrap();
}

/// Pods of 740 volumes each, others at each poll of a URL, made 23,000 mounts: each look at the mounts took seconds.
#[test]
fn sources_behind_others_get_so_many_mounts_for_all_of_their_pods() {
    let names: Vec<String> = (0..740).map(|n| format!("v{n}")).collect();
    let wanted: Vec<(&str, u64)> = names.iter().map(|name| (name.as_str(), MOUNT + PAGE)).collect();
    let large = |uid| Asker { memory: 1 << 40, ..asker(uid, true) };
    let mut shares = Shares::default();
    shares.take(large("a"), &wanted).unwrap();
    let Refused { volume, why } = shares.take(large("b"), &wanted).unwrap_err();
    assert_eq!(volume, "v284");
    assert!(why.ends_with("would be 1025 mounts: all of these together get 1024"), "{why}");
    assert!(
        shares.take(Asker { memory: 0, ..large("b") }, &wanted).is_err(),
        "also where the memory is unknown"
    );
    assert!(shares.take(large("a"), &wanted).is_ok(), "what is there stays");
    shares.take(asker("mine", false), &wanted).unwrap();
    shares.take(large("c"), &wanted[..284]).unwrap();
    shares.0.remove("a");
    shares.take(large("b"), &wanted[..740]).unwrap();
}

/// Pods of 320 subPaths each made 14,000 mounts: each start of a container on the node took seconds. Then a pod was edited
/// again and again, and made 16,000.
#[test]
fn sub_paths_of_sources_behind_others_count_among_their_mounts_as_long_as_they_are_there() {
    let of = |container: &str, count: usize| -> Vec<String> {
        (0..count).map(|index| format!("volume-subpaths/v/{container}/{index}")).collect()
    };
    let mut shares = Shares::default();
    shares.take(asker("a", true), &[("v", MOUNT)]).unwrap();
    assert_eq!(shares.take_mounts("a", of("app", 1000)), Ok(()));
    assert_eq!(shares.take_mounts("a", of("app", 1000)), Ok(()), "the same ones");
    assert_eq!(shares.take_mounts("b", of("app", 23)), Ok(()));
    let why = shares.take_mounts("c", of("app", 1)).unwrap_err();
    assert!(why.starts_with("with 1 more mount for it"), "{why}");
    assert!(why.ends_with("would be 1025: all of these together get 1024"), "{why}");
    assert!(
        shares.take_mounts("a", of("other", 1)).is_err(),
        "those of its earlier containers are still there"
    );
    let Refused { why, .. } = shares.take(asker("c", true), &[("v", MOUNT)]).unwrap_err();
    assert!(why.contains("would be 1025 mounts"), "{why}");
    shares.take(asker("mine", false), &[("v", MOUNT)]).unwrap();
    shares.0.remove("b");
    assert_eq!(shares.take_mounts("c", of("app", 23)), Ok(()), "what was refused took nothing");
    // What an earlier daemon has left counts until it is known to be of another source: the pod may be gone from its
    // source, and take minutes to end.
    let at = |path: &str| mounted(&format!("/r/pods/{path}"), "ext4");
    let table = [
        at("x/volume-subpaths/v/app/0"),
        at("x/volume-subpaths/v/app/1"),
        at("y"),
        at("file/volume-subpaths/v/app/0"),
        at("file/volumes/kubernetes.io~host-path/h"),
    ];
    let mut found = Shares::found(&table, Path::new("/r/pods"), |_| 0);
    assert_eq!(found.mounts_behind(), 4);
    assert_eq!(found.take_mounts("x", of("app", 3)), Ok(()));
    assert_eq!(found.mounts_behind(), 5);
    found.take(asker("file", false), &[("v", MOUNT)]).unwrap();
    assert_eq!(found.mounts_behind(), 3);
}

#[test]
fn a_volume_that_is_there_keeps_its_files_when_it_may_not_grow() {
    let mut shares = Shares::default();
    shares.take(asker("a", false), &[("v", MI), ("w", MI)]).unwrap();
    shares.take(asker("b", false), &[("v", 30 * MI)]).unwrap();
    let granted = shares.take(asker("a", false), &[("v", 2 * MI), ("w", MI / 2)]).unwrap();
    assert_eq!(granted.kept.keys().collect::<Vec<_>>(), ["v"]);
    assert_eq!(granted.before.get("w"), Some(&MI));
    assert_eq!(sum(&shares), 31 * MI + MI / 2);
    // Nothing grows: also on a node that has less memory than before.
    let small = Asker { memory: 16 * MI, ..asker("b", true) };
    assert_eq!(shares.take(small, &[("v", 30 * MI)]).unwrap().kept, Table::default());
}

#[test]
fn what_an_earlier_daemon_left_counts_until_its_pod_asks_or_is_gone() {
    let of = |kind: &str, at: &str| mounted(at, kind);
    let table = [
        of("tmpfs", "/r/pods/u/volumes/kubernetes.io~secret/s"),
        of("tmpfs", "/r/pods/u/volumes/kubernetes.io~projected/p"),
        of("tmpfs", "/r/pods/w/volumes/kubernetes.io~downward-api/d"),
        of("tmpfs", "/r/pods/w/volumes/kubernetes.io~empty-dir/e"),
        of("ext4", "/r/pods/u/volumes/kubernetes.io~secret/x"),
        of("tmpfs", "/r/pods/u/volumes/kubernetes.io~secret/s/below"),
        of("tmpfs", "/other/pods/u/volumes/kubernetes.io~secret/s"),
        of("tmpfs", "/r/pods"),
    ];
    let mut shares = Shares::found(&table, Path::new("/r/pods"), |_| 4 * MI);
    assert_eq!(sum(&shares), 3 * (4 * MI + MOUNT) + MOUNT);
    let no = shares.take(asker("b", true), &[("v", 4 * MI)]).unwrap_err();
    assert!(no.why.contains("behind others would take 16.0 MiB there"), "{}", no.why);
    assert_eq!(shares.take(asker("u", false), &[("s", MI), ("p", MI)]).unwrap().kept, Table::default());
    shares.take(asker("b", true), &[("v", 4 * MI)]).unwrap();
}

#[test]
fn the_size_of_a_volume_is_known_without_its_files() {
    let secrets = [secret("s", "{a: x, b: ''}"), secret("t", &format!("{{a: {}}}", "x".repeat(4097)))];
    let objects = snapshot(&secrets.concat());
    let check = |volume: &str, expected: Option<u64>| {
        let pod = testing::pod(&format!("{{containers: [{{name: a}}], volumes: [{{name: v, {volume}}}]}}"));
        let allocatable = Allocatable::default();
        let facts =
            Facts { pod: &pod, node_name: "n", host_ips: &[], pod_ips: &[], allocatable: &allocatable };
        let kind = Kind::of(&pod.spec.volumes.as_ref().unwrap()[0]);
        assert_eq!(size(kind, &facts, &objects), expected, "{volume}");
    };
    check("secret: {secretName: s}", Some(MOUNT + 3 * PAGE));
    check("secret: {secretName: t}", Some(MOUNT + 3 * PAGE));
    check("secret: {secretName: missing, optional: true}", Some(MOUNT));
    check("secret: {secretName: missing}", None);
    check("projected: {sources: [{secret: {name: s}}, {secret: {name: t}}]}", Some(MOUNT + 6 * PAGE));
    check("emptyDir: {medium: Memory}", Some(MOUNT));
    check("emptyDir: {}", None);
    check("hostPath: {path: /x}", None);
}

fn mounted(at: &str, kind: &str) -> Mounted {
    Mounted {
        at: at.into(),
        kind: kind.into(),
        device: "8:1".into(),
        root: "/".into(),
        follows: false,
        group: None,
    }
}
