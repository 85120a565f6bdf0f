//! The decisions of upstream's `checkAndUpdatePod`, names across sources, and the bounds.

mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;
use crate::base::table::Table;
use crate::manifest::static_pod::{CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE};
use crate::pod::Origin;

/// A pod to be written in a manifest.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: &'static str,
    pub uid: String,
    pub path: String,
    pub document: u32,
    pub host: Option<String>,
    pub phase: &'static str,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub deleted: Option<i64>,
    pub grace: Option<i64>,
    pub written: Option<&'static str>,
    pub shape: Option<&'static str>,
}

pub fn sample(name: &'static str, uid: &str, path: &str) -> Sample {
    Sample {
        name,
        uid: uid.into(),
        path: path.into(),
        document: 0,
        host: None,
        phase: "Pending",
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        deleted: None,
        grace: None,
        written: None,
        shape: None,
    }
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

impl Sample {
    pub fn pod(&self, source: Source) -> Arc<DesiredPod> {
        let full_name = format!("{}-node1", self.name);
        let metadata = ObjectMeta {
            name: Some(full_name.clone()),
            namespace: Some("default".into()),
            uid: Some(self.uid.clone()),
            labels: Some(self.labels.clone()).filter(|l| !l.is_empty()),
            annotations: Some(self.annotations.clone()).filter(|l| !l.is_empty()),
            deletion_timestamp: self.deleted.map(|s| Time(at(s))),
            deletion_grace_period_seconds: self.grace,
            ..ObjectMeta::default()
        };
        Arc::new(DesiredPod {
            withheld: Default::default(),
            written: self.written.map(str::to_owned),
            shape: self.shape.map(str::to_owned),
            key: PodKey { namespace: "default".into(), name: full_name },
            uid: self.uid.clone(),
            source,
            origin: Origin { path: self.path.clone(), document: self.document },
            metadata,
            spec: Arc::new(PodSpec {
                node_name: Some("Node1".into()),
                hostname: self.host.clone(),
                ..PodSpec::default()
            }),
            status: PodStatus { phase: Some(self.phase.into()), ..PodStatus::default() },
        })
    }
    pub fn document(mut self, document: u32) -> Sample {
        self.document = document;
        self
    }
    fn host(mut self, host: &str) -> Sample {
        self.host = Some(host.into());
        self
    }
    fn phase(mut self, phase: &'static str) -> Sample {
        self.phase = phase;
        self
    }
    fn written(mut self, hash: &'static str) -> Sample {
        self.written = Some(hash);
        self
    }
    fn label(mut self, key: &str, value: &str) -> Sample {
        self.labels.insert(key.into(), value.into());
        self
    }
    fn annotation(mut self, key: &str, value: &str) -> Sample {
        self.annotations.insert(key.into(), value.into());
        self
    }
    fn deleted(mut self, seconds: i64, grace: i64) -> Sample {
        self.deleted = Some(seconds);
        self.grace = Some(grace);
        self
    }
}

pub fn set(source: Source, samples: &[Sample]) -> PodSet {
    PodSet { pods: samples.iter().map(|s| s.pod(source)).collect(), ..PodSet::default() }
}

fn merge() -> Merge {
    Merge::new(&[Source::File, Source::Http])
}

fn file(merge: &mut Merge, samples: &[Sample]) -> String {
    words(&merge.full(Source::File, &set(Source::File, samples), at(100)))
}

fn http(merge: &mut Merge, samples: &[Sample]) -> String {
    words(&merge.full(Source::Http, &set(Source::Http, samples), at(200)))
}

/// `Remove[web:u1] Add[web:u2 db:u3]`.
fn words(changes: &[Change]) -> String {
    let one = |c: &Change| {
        let pods: Vec<String> =
            c.pods.iter().map(|p| format!("{}:{}", p.key.name.trim_end_matches("-node1"), p.uid)).collect();
        format!("{:?}[{}]", c.op, pods.join(" "))
    };
    changes.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn holder(merge: &Merge, name: &str) -> String {
    let key = PodKey { namespace: "default".into(), name: format!("{name}-node1") };
    merge.get(&key).map(|p| format!("{}:{}:{}", p.source, p.origin, p.uid)).unwrap_or_default()
}

#[test]
fn the_decision_table_of_one_pod() {
    let a = || sample("web", "u1", "/m/a.yaml");
    let check = |before: Sample, after: Option<Sample>, expected: &str| {
        let mut merge = merge();
        assert_eq!(file(&mut merge, std::slice::from_ref(&before)), "Add[web:u1]");
        let told = file(&mut merge, after.as_slice());
        assert_eq!(told, expected, "{before:?} then {after:?}");
    };
    check(a(), Some(a()), "");
    check(a(), Some(a().phase("Running")), "Reconcile[web:u1]");
    check(a(), Some(a().host("x")), "Update[web:u1]");
    check(a(), Some(a().label("a", "b")), "Update[web:u1]");
    check(a().label("a", "b"), Some(a()), "Update[web:u1]");
    check(a(), Some(a().annotation("a", "b")), "Update[web:u1]");
    check(a(), Some(a().annotation("kubernetes.io/config.hash", "b")), "Update[web:u1]");
    for local in [CONFIG_SOURCE, CONFIG_SEEN, CONFIG_MIRROR] {
        check(a(), Some(a().annotation(local, "b")), "");
    }
    check(a(), Some(a().deleted(5, 30)), "Delete[web:u1]");
    check(a(), Some(a().host("x").deleted(5, 30)), "Delete[web:u1]");
    // A change of a pod that is being deleted is a Delete again: a shortened grace must arrive.
    check(a().deleted(5, 30), Some(a().deleted(5, 1)), "Delete[web:u1]");
    check(a().deleted(5, 30), Some(a()), "Update[web:u1]");
    // Status and meaning change together: one Update has both.
    check(a(), Some(a().host("x").phase("Running")), "Update[web:u1]");
    check(a(), None, "Remove[web:u1]");
    check(a(), Some(sample("web", "u2", "/m/a.yaml")), "Remove[web:u1] Add[web:u2]");
}

#[test]
fn a_pod_first_seen_while_being_deleted_is_added() {
    let mut merge = merge();
    assert_eq!(file(&mut merge, &[sample("web", "u1", "/m/a.yaml").deleted(5, 30)]), "Add[web:u1]");
}

#[test]
fn all_kinds_arrive_in_delivery_order_and_sorted_by_origin() {
    let mut merge = merge();
    let path = |n: u32| format!("/m/{n}.yaml");
    file(
        &mut merge,
        &[
            sample("gone", "u1", &path(1)),
            sample("edit", "u2", &path(2)),
            sample("stop", "u3", &path(3)),
            sample("same", "u4", &path(4)),
            sample("stat", "u5", &path(5)),
        ],
    );
    let told = file(
        &mut merge,
        &[
            sample("new2", "u7", &path(7)),
            sample("new1", "u6", &path(6)),
            sample("edit", "u2", &path(2)).host("x"),
            sample("stop", "u3", &path(3)).deleted(1, 1),
            sample("same", "u4", &path(4)),
            sample("stat", "u5", &path(5)).phase("Running"),
        ],
    );
    assert_eq!(
        told,
        "Remove[gone:u1] Add[new1:u6 new2:u7] Update[edit:u2] Delete[stop:u3] Reconcile[stat:u5]"
    );
}

#[test]
fn a_source_is_ready_with_its_first_set() {
    let mut merge = merge();
    assert!(!merge.ready(Source::File) && !merge.all_ready());
    assert_eq!(file(&mut merge, &[]), "");
    assert!(merge.ready(Source::File) && !merge.all_ready());
    assert_eq!(file(&mut merge, &[]), "");
    assert_eq!(http(&mut merge, &[sample("web", "u1", "url")]), "Add[web:u1]");
    assert!(merge.all_ready());
}

#[test]
fn k59275_a_source_that_is_not_declared_does_not_exist() {
    let mut merge = Merge::new(&[Source::File]);
    assert_eq!(http(&mut merge, &[sample("web", "u1", "url")]), "");
    assert!(!merge.ready(Source::Http));
    assert_eq!(file(&mut merge, &[sample("web", "u2", "/m/a.yaml")]), "Add[web:u2]");
    assert!(merge.all_ready());
    assert_eq!(file(&mut merge, &[]), "Remove[web:u2]");
    assert!(Merge::new(&[]).all_ready());
}

#[test]
fn restore_adds_without_making_ready_and_the_real_set_wins() {
    let mut merge = merge();
    let old = set(Source::File, &[sample("web", "u1", "/m/a.yaml"), sample("db", "u2", "/m/b.yaml")]);
    assert_eq!(words(&merge.restore(Source::File, &old, at(1))), "Restore[web:u1 db:u2]");
    assert!(!merge.ready(Source::File));
    assert_eq!(file(&mut merge, &[sample("web", "u1", "/m/a.yaml")]), "Remove[db:u2]");
    assert!(merge.ready(Source::File));
    assert_eq!(words(&merge.restore(Source::File, &old, at(3))), "");
    assert_eq!(merge.pods().count(), 1);
}

#[test]
fn source_and_first_seen_are_annotated_and_kept() {
    let mut merge = merge();
    let a = || sample("web", "u1", "/m/a.yaml").annotation(CONFIG_SEEN, "forged");
    let check = |merge: &Merge, source: &str, seen: &str| {
        let pod = merge.pods().next().unwrap();
        let annotations = pod.metadata.annotations.clone().unwrap();
        assert_eq!(annotations[CONFIG_SOURCE], source);
        assert_eq!(annotations[CONFIG_SEEN], seen);
        assert_eq!(pod.source.as_str(), source);
    };
    merge.full(Source::File, &set(Source::File, &[a()]), "2026-01-02T03:04:05.1Z".parse().unwrap());
    // The merge writes the first-seen time, whatever the manifest says.
    check(&merge, "file", "2026-01-02T03:04:05.100000000Z");
    merge.full(Source::File, &set(Source::File, &[a().host("x")]), at(1_900_000_000));
    check(&merge, "file", "2026-01-02T03:04:05.100000000Z");
    // A pod with another UID is another pod.
    let other = sample("web", "u2", "/m/a.yaml");
    merge.full(Source::File, &set(Source::File, &[other]), at(0));
    check(&merge, "file", "1970-01-01T00:00:00.000000000Z");
}

#[test]
fn k136962_two_files_one_name() {
    let (winner, loser) = (sample("web", "u1", "/m/b.yaml"), sample("web", "u2", "/m/a.yaml"));
    let mut merge = merge();
    assert_eq!(file(&mut merge, std::slice::from_ref(&winner)), "Add[web:u1]");
    // The backup sorts first, and yet the running one keeps the name; both are reported.
    assert_eq!(file(&mut merge, &[winner.clone(), loser.clone()]), "");
    let problems: Vec<String> = merge.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "/m/a.yaml: pod default/web: the name is held by the pod from /m/b.yaml, which keeps it; this one \
             is ignored until that one is gone or renamed",
            "/m/b.yaml: pod default/web: the pod from /m/a.yaml has the same name and is ignored",
        ]
    );
    // The loser is removed: no change.
    assert_eq!(file(&mut merge, std::slice::from_ref(&winner)), "");
    assert!(merge.problems().is_empty());
    // The holder is removed: the loser takes over in the same merge.
    file(&mut merge, &[winner.clone(), loser.clone()]);
    assert_eq!(file(&mut merge, std::slice::from_ref(&loser)), "Remove[web:u1] Add[web:u2]");
    assert!(merge.problems().is_empty());
    // It keeps the name when the first comes back.
    assert_eq!(file(&mut merge, &[winner, loser]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:u2");
}

#[test]
fn an_edit_follows_its_origin_and_then_its_file() {
    let other = sample("web", "u9", "/m/a.yaml");
    let check = |edited: Sample| {
        let mut merge = merge();
        let held = sample("web", "u1", "/m/b.yaml");
        file(&mut merge, std::slice::from_ref(&held));
        file(&mut merge, &[held, other.clone()]);
        let told = file(&mut merge, &[other.clone(), edited.clone()]);
        assert_eq!(told, format!("Remove[web:u1] Add[web:{}]", edited.uid));
    };
    check(sample("web", "u2", "/m/b.yaml"));
    // At the same time a document was inserted before it.
    check(sample("web", "u2", "/m/b.yaml").document(3));
}

#[test]
fn without_a_holder_the_first_by_source_and_origin_wins() {
    let mut merge = merge();
    let told = file(
        &mut merge,
        &[
            sample("web", "u3", "/m/c.yaml"),
            sample("web", "u2", "/m/b.yaml").document(1),
            sample("web", "u1", "/m/b.yaml"),
        ],
    );
    assert_eq!(told, "Add[web:u1]");
    assert_eq!(merge.problems().len(), 4);
}

#[test]
fn only_the_owner_removes_and_another_source_takes_over_at_once() {
    let mut merge = merge();
    assert_eq!(file(&mut merge, &[sample("web", "f1", "/m/a.yaml")]), "Add[web:f1]");
    assert_eq!(http(&mut merge, &[sample("web", "h1", "http://x")]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    assert_eq!(http(&mut merge, &[]), "");
    assert_eq!(http(&mut merge, &[sample("web", "h1", "http://x")]), "");
    let changes = merge.full(Source::File, &PodSet::default(), at(9));
    assert_eq!(words(&changes), "Remove[web:f1] Add[web:h1]");
    assert_eq!(changes[0].pods[0].source, Source::File);
    assert_eq!(changes[1].pods[0].source, Source::Http);
}

#[test]
fn a_file_wins_over_a_url_whoever_came_first() {
    let (in_file, in_url) = (sample("web", "f1", "/m/a.yaml"), sample("web", "h1", "http://x"));
    let mut merge = merge();
    assert_eq!(http(&mut merge, std::slice::from_ref(&in_url)), "Add[web:h1]");
    assert_eq!(file(&mut merge, std::slice::from_ref(&in_file)), "Remove[web:h1] Add[web:f1]");
    assert_eq!(http(&mut merge, &[in_url]), "");
    // Also when the URL's pod runs as the daemon starts.
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let running = Running { uid: "h1".to_owned(), ..Running::default() };
    assert_eq!(words(&merge.running(&Table::from([(key, running)]), at(2))), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
}

#[test]
fn a_pod_with_a_fixed_uid_moves_between_sources_and_files_without_a_restart() {
    let check = |then: Sample, expected: &str| {
        let mut merge = merge();
        file(&mut merge, &[sample("web", "u1", "/m/a.yaml")]);
        assert_eq!(http(&mut merge, std::slice::from_ref(&then)), "");
        assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:u1");
        let changes = merge.full(Source::File, &PodSet::default(), at(9));
        assert_eq!(words(&changes), expected);
        assert_eq!(holder(&merge, "web"), "http:http://x:u1");
        let pod = merge.pods().next().unwrap();
        let annotations = pod.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[CONFIG_SOURCE], "http");
        assert_eq!(annotations[CONFIG_SEEN], "1970-01-01T00:01:40.000000000Z");
        assert!(merge.problems().is_empty());
        // Only the new owner removes it.
        assert_eq!(file(&mut merge, &[]), "");
        assert_eq!(http(&mut merge, &[]), "Remove[web:u1]");
    };
    check(sample("web", "u1", "http://x"), "Reconcile[web:u1]");
    check(sample("web", "u1", "http://x").host("x"), "Update[web:u1]");
}

#[test]
fn what_runs_when_the_daemon_begins_keeps_its_name() {
    let uids = |uid: &str| {
        let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
        Table::from([(key, Running { uid: uid.to_owned(), ..Running::default() })])
    };
    let both = [sample("web", "u1", "/m/a.yaml"), sample("web", "u2", "/m/b.yaml")];
    // Docker was listed first.
    let mut first = merge();
    assert!(first.running(&uids("u2"), at(1)).is_empty());
    assert_eq!(file(&mut first, &both), "Add[web:u2]");
    // The files were read first.
    let mut second = merge();
    assert_eq!(file(&mut second, &both), "Add[web:u1]");
    let changes = second.running(&uids("u2"), at(2));
    assert_eq!(words(&changes), "Remove[web:u1] Add[web:u2]");
    // That counts once: from now on the holder keeps the name by itself.
    assert_eq!(file(&mut second, &[both[0].clone()]), "Remove[web:u2] Add[web:u1]");
    assert_eq!(file(&mut second, &both), "");
    // The running version is wanted by no manifest: the edit of kubernetes/kubernetes#112814.
    let mut third = merge();
    assert!(third.running(&uids("u0"), at(1)).is_empty());
    assert_eq!(file(&mut third, &both), "Add[web:u1]");
}

#[test]
fn a_running_pod_keeps_its_name_within_its_source_alone() {
    let mut merge = merge();
    file(&mut merge, &[sample("web", "f1", "/m/a.yaml"), sample("db", "f2", "/m/b.yaml")]);
    http(&mut merge, &[sample("web", "h1", "http://x")]);
    file(
        &mut merge,
        &[sample("web", "f1", "/m/a.yaml"), sample("db", "f2", "/m/b.yaml"), sample("db", "f3", "/m/c.yaml")],
    );
    let key = |name: &str| PodKey { namespace: "default".into(), name: format!("{name}-node1") };
    let uid = |uid: &str| Running { uid: uid.to_owned(), ..Running::default() };
    let uids = Table::from([(key("web"), uid("h1")), (key("db"), uid("f3"))]);
    let changes = merge.running(&uids, at(2));
    // Within one source the running pod keeps its name; between two sources the file's pod does.
    assert_eq!(words(&changes), "Remove[db:f2] Add[db:f3]");
}

#[test]
fn a_pod_that_another_source_takes_over_word_for_word_stays_the_same() {
    let in_file = || sample("web", "f1", "/m/a.yaml").written("w");
    let in_url = || sample("web", "h1", "http://x").written("w");
    let mut merge = merge();
    assert_eq!(file(&mut merge, &[in_file()]), "Add[web:f1]");
    assert_eq!(http(&mut merge, &[in_url()]), "");
    assert_eq!(merge.problems().len(), 1, "{:?}", merge.problems());
    assert_eq!(merge.problems()[0].severity, Severity::Warning);
    // The file is removed: the URL's pod is the same one, under the UID that runs.
    assert_eq!(file(&mut merge, &[]), "Reconcile[web:f1]");
    assert_eq!(holder(&merge, "web"), "http:http://x:f1");
    // It is the same after the next reading, and when the file comes back and takes the name again.
    assert_eq!(http(&mut merge, &[in_url()]), "");
    assert_eq!(file(&mut merge, &[in_file()]), "Reconcile[web:f1]");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    // Edited, it is another pod.
    assert_eq!(http(&mut merge, &[sample("web", "h2", "http://x").written("v")]), "");
    assert_eq!(holder(&merge, "web"), "file:/m/a.yaml:f1");
    assert_eq!(file(&mut merge, &[]), "Remove[web:f1] Add[web:h2]");
    // Another content under the same name is another pod, and so is a file that was only renamed.
    assert_eq!(file(&mut merge, &[sample("db", "f3", "/m/c.yaml").written("c")]), "Add[db:f3]");
    let renamed = sample("db", "f4", "/m/d.yaml").written("c");
    assert_eq!(file(&mut merge, &[renamed]), "Remove[db:f3] Add[db:f4]");
}

#[test]
fn a_pod_that_moved_before_the_daemon_began_is_recognised() {
    let key = || PodKey { namespace: "default".into(), name: "web-node1".into() };
    let check = |places: &[(Source, &str)], claim: Sample, expected: &str| {
        let places = places.iter().map(|(s, p)| (*s, (*p).to_owned())).collect();
        let found = Running { uid: "f1".into(), written: Some("w".into()), shape: None, places, seen: None };
        let found = Table::from([(key(), found)]);
        // Docker was listed first, and the URL read first: the same end.
        let mut first = merge();
        first.running(&found, at(1));
        http(&mut first, std::slice::from_ref(&claim));
        let mut second = merge();
        http(&mut second, &[claim]);
        second.running(&found, at(1));
        assert_eq!(holder(&first, "web"), expected);
        assert_eq!(holder(&second, "web"), expected);
    };
    let claim = || sample("web", "h1", "http://x").written("w");
    check(&[(Source::File, "/m/a.yaml")], claim(), "http:http://x:f1");
    // It moved long ago, and one container was made since.
    check(&[(Source::File, "/m/a.yaml"), (Source::Http, "http://x")], claim(), "http:http://x:f1");
    check(&[(Source::Http, "http://x")], claim(), "http:http://x:f1");
    // The URL changed: as with a renamed file.
    check(&[(Source::Http, "http://old")], claim(), "http:http://x:h1");
    // Another content: the pod is still the file's, until that source has reported without it.
    for claim in [sample("web", "h1", "http://x").written("v"), sample("web", "h1", "http://x")] {
        let places = [(Source::File, "/m/a.yaml".to_owned())].into();
        let found = Running { uid: "f1".into(), written: Some("w".into()), shape: None, places, seen: None };
        let found = Table::from([(key(), found)]);
        let mut merge = merge();
        http(&mut merge, std::slice::from_ref(&claim));
        merge.running(&found, at(1));
        assert!(merge.get(&key()).is_none());
        assert_eq!(file(&mut merge, &[]), "Add[web:h1]");
        let mut merge = self::merge();
        http(&mut merge, &[claim]);
        merge.running(&found, at(1));
        assert_eq!(file(&mut merge, &[sample("web", "f1", "/m/a.yaml").written("w")]), "Add[web:f1]");
    }
}

#[test]
fn one_uid_under_two_names_loses_no_pod_and_is_reported() {
    let mut merge = merge();
    let told = file(&mut merge, &[sample("web", "u1", "/m/a.yaml"), sample("db", "u1", "/m/b.yaml")]);
    assert_eq!(told, "Add[web:u1 db:u1]");
    let problems: Vec<String> = merge.problems().iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        ["/m/b.yaml: pod default/db: metadata.uid u1 is also that of pod default/web from /m/a.yaml: only \
          the first of them to run is not refused"]
    );
    // A renamed pod with a fixed UID is another pod.
    assert_eq!(
        file(&mut merge, &[sample("web", "u1", "/m/a.yaml"), sample("kv", "u1", "/m/b.yaml")]),
        "Remove[db:u1] Add[kv:u1]"
    );
    // A copied file with a fixed UID: one holder, and removing either file changes nothing.
    let copies = [sample("web", "u1", "/m/a.yaml"), sample("web", "u1", "/m/b.yaml")];
    assert_eq!(file(&mut merge, &copies), "Remove[kv:u1]");
    assert_eq!(file(&mut merge, &[copies[1].clone()]), "Reconcile[web:u1]");
    assert_eq!(holder(&merge, "web"), "file:/m/b.yaml:u1");
}

#[test]
fn broken_paths_are_those_of_the_last_set_of_that_source() {
    let mut merge = merge();
    let broken = |path: &str| PodSet { broken: vec![path.into()], ..PodSet::default() };
    merge.full(Source::File, &broken("/m/a.yaml"), at(1));
    assert!(merge.is_broken(Source::File, "/m/a.yaml"));
    assert!(!merge.is_broken(Source::Http, "/m/a.yaml"));
    merge.full(Source::File, &broken("/m/b.yaml"), at(1));
    assert!(!merge.is_broken(Source::File, "/m/a.yaml"));
}

#[test]
fn past_the_bound_what_holds_its_name_stays() {
    let numbered = |n: usize, uid: &str| {
        let mut pod = sample("x", &format!("{uid}{n}"), &format!("/m/{n:05}.yaml")).pod(Source::File);
        Arc::make_mut(&mut pod).key.name = format!("pod{n:05}");
        pod
    };
    let of = |pods: Vec<Arc<DesiredPod>>| PodSet { pods, ..PodSet::default() };
    let mut merge = merge();
    // The last ones run; then a thousand come that sort before them.
    let last: Vec<_> = (1000..1010).map(|n| numbered(n, "u")).collect();
    merge.full(Source::File, &of(last), at(1));
    let edited = (1000..1010).map(|n| numbered(n, if n == 1005 { "v" } else { "u" }));
    let all: Vec<_> = (0..1000).map(|n| numbered(n, "u")).chain(edited).collect();
    let changes = merge.full(Source::File, &of(all), at(1));
    let counts: Vec<(Op, usize)> = changes.iter().map(|c| (c.op, c.pods.len())).collect();
    assert_eq!(counts, [(Op::Remove, 1), (Op::Add, limits::PODS_PER_SOURCE - 9)]);
    assert_eq!(changes[0].pods[0].uid, "u1005");
    let problems = merge.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].message.starts_with("source file wants 10 pods more than the 1000"), "{problems:?}");
    assert_eq!(problems[0].path, "/m/00990.yaml");
    // The problem ends when the set is small enough.
    merge.full(Source::File, &of(vec![numbered(1, "u")]), at(1));
    assert!(merge.problems().is_empty());
}

#[test]
fn a_pod_that_is_resized_keeps_its_uid() {
    let sized = |uid: &str, path: &str, shape: &'static str, image: &str| {
        let mut made = sample("web", uid, path);
        made.shape = Some(shape);
        made.host = Some(image.to_owned());
        made
    };
    let mut merge = Merge::new(&[Source::File]);
    let uid = |merge: &Merge| merge.pods().map(|p| p.uid.clone()).collect::<Vec<_>>();
    merge.full(Source::File, &set(Source::File, &[sized("u1", "/m/a.yaml", "s", "i:1")]), at(0));
    let changes =
        merge.full(Source::File, &set(Source::File, &[sized("u2", "/m/a.yaml", "s", "i:2")]), at(1));
    assert_eq!(changes.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Update]);
    assert_eq!(uid(&merge), ["u1"]);
    // Back, and once more.
    let changes =
        merge.full(Source::File, &set(Source::File, &[sized("u1", "/m/a.yaml", "s", "i:1")]), at(2));
    assert_eq!(changes.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Update]);
    merge.full(Source::File, &set(Source::File, &[sized("u2", "/m/a.yaml", "s", "i:2")]), at(3));
    assert_eq!(uid(&merge), ["u1"]);
    // Another shape is another pod, and so is another path.
    let changes =
        merge.full(Source::File, &set(Source::File, &[sized("u3", "/m/a.yaml", "t", "i:1")]), at(4));
    assert_eq!(changes.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Remove, Op::Add]);
    let changes =
        merge.full(Source::File, &set(Source::File, &[sized("u4", "/m/b.yaml", "t", "i:1")]), at(5));
    assert_eq!(changes.iter().map(|c| c.op).collect::<Vec<_>>(), [Op::Remove, Op::Add]);
    // A pod that runs when the daemon starts is recognised by its labels.
    let mut merge = Merge::new(&[Source::File]);
    let places = [(Source::File, "/m/a.yaml".to_owned())].into();
    let found =
        Running { uid: "u1".into(), written: Some("w".into()), shape: Some("s".into()), places, seen: None };
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    merge.running(&[(key, found)].into(), at(0));
    merge.full(Source::File, &set(Source::File, &[sized("u2", "/m/a.yaml", "s", "i:2")]), at(1));
    assert_eq!(uid(&merge), ["u1"]);
}

/// The age goes on after a restart of the daemon: the running pod was seen earlier, whichever is known first.
#[test]
fn what_runs_keeps_the_time_at_which_it_was_first_seen() {
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    let seen =
        |merge: &Merge| merge.get(&key).unwrap().metadata.annotations.as_ref().unwrap()[CONFIG_SEEN].clone();
    let found = |uid: &str| {
        let running = Running { uid: uid.into(), seen: Some(at(1)), ..Running::default() };
        Table::from([(key.clone(), running)])
    };
    let web = [sample("web", "u1", "/m/a.yaml")];
    let mut listed = merge();
    listed.running(&found("u1"), at(9));
    file(&mut listed, &web);
    assert_eq!(seen(&listed), "1970-01-01T00:00:01.000000000Z");
    let mut read = merge();
    file(&mut read, &web);
    assert_ne!(seen(&read), "1970-01-01T00:00:01.000000000Z");
    read.running(&found("u1"), at(9));
    assert_eq!(seen(&read), "1970-01-01T00:00:01.000000000Z");
    // Another pod of this name is new.
    let mut other = merge();
    other.running(&found("u0"), at(9));
    file(&mut other, &web);
    assert_ne!(seen(&other), "1970-01-01T00:00:01.000000000Z");
}
