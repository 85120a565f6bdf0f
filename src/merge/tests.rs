//! The decisions of upstream's `checkAndUpdatePod`, names across sources, and the bounds.

mod names;
mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::*;
use crate::base::table::Table;
use crate::manifest::static_pod::{CONFIG_MIRROR, CONFIG_SEEN, CONFIG_SOURCE};
use crate::pod::Origin;

/// A pod for a manifest.
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
            ceiling: i32::MAX,
            weight: 0,
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

/// After a start with a stored deletion, all that was written over the API waited for sources that are not heard.
#[test]
fn a_pod_whose_deletion_has_begun_is_not_given_up() {
    let mut merge = merge();
    file(&mut merge, &[sample("web", "u1", "/m/a.yaml"), sample("gone", "u2", "/m/b.yaml").deleted(5, 30)]);
    let gives_up = |samples: &[Sample]| merge.gives_up(Source::File, &set(Source::File, samples));
    assert!(!gives_up(&[sample("web", "u1", "/m/a.yaml"), sample("new", "u3", "/m/c.yaml")]));
    assert!(gives_up(&[sample("gone", "u2", "/m/b.yaml").deleted(5, 30)]));
    assert!(gives_up(&[]));
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
    // A change of a pod that is being deleted is another Delete: a shortened grace period must be delivered.
    check(a().deleted(5, 30), Some(a().deleted(5, 1)), "Delete[web:u1]");
    check(a().deleted(5, 30), Some(a()), "Update[web:u1]");
    // If status and meaning change together, one Update has both.
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
    // The merge sets the first-seen time, regardless of the manifest.
    check(&merge, "file", "2026-01-02T03:04:05.100000000Z");
    merge.full(Source::File, &set(Source::File, &[a().host("x")]), at(1_900_000_000));
    check(&merge, "file", "2026-01-02T03:04:05.100000000Z");
    // A pod with another UID is another pod.
    let other = sample("web", "u2", "/m/a.yaml");
    merge.full(Source::File, &set(Source::File, &[other]), at(0));
    check(&merge, "file", "1970-01-01T00:00:00.000000000Z");
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
    // The last ones run; then a thousand are added that sort before them.
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

/// Regression: copies of manifests, which are not used anyway, counted in the bound, and kept pods of other names out.
#[test]
fn past_the_bound_a_further_pod_of_a_name_keeps_no_other_name_out() {
    let numbered = |n: usize, dir: &str| {
        let mut pod = sample("x", &format!("{dir}{n}"), &format!("/m/{dir}/{n:05}.yaml")).pod(Source::File);
        Arc::make_mut(&mut pod).key.name = format!("pod{n:05}");
        pod
    };
    let copies = (0..300).map(|n| numbered(n, "a"));
    let all = copies.chain((0..limits::PODS_PER_SOURCE).map(|n| numbered(n, "b")));
    let set = PodSet { pods: all.collect(), ..PodSet::default() };
    let mut merge = merge();
    merge.full(Source::File, &set, at(1));
    assert_eq!(merge.pods().count(), limits::PODS_PER_SOURCE);
    // What runs stays when it is read again.
    assert_eq!(merge.full(Source::File, &set, at(2)).len(), 0);
    let told = merge.problems();
    assert!(
        told.iter().any(|it| it.message.starts_with("source file wants 300 pods more than the 1000")),
        "{told:?}"
    );
}

/// Regression: copies of running pods that come before them in order kept out edits and new names.
#[test]
fn past_the_bound_a_copy_of_what_runs_keeps_no_edit_and_no_new_name_out() {
    let numbered = |n: usize, dir: &str, version: &str| {
        let mut pod =
            sample("x", &format!("{dir}{n}{version}"), &format!("/m/{dir}/{n:05}.yaml")).pod(Source::File);
        Arc::make_mut(&mut pod).key.name = format!("pod{n:05}");
        pod
    };
    let names = limits::PODS_PER_SOURCE - 2;
    let running = |version: &'static str| {
        (0..names).map(move |n| numbered(n, "m", if n == 500 { version } else { "" }))
    };
    let copies = || (0..40).map(|n| numbered(n, "a", ""));
    let new = || (2000..2002).map(|n| numbered(n, "z", ""));
    let set = |pods: Vec<Arc<DesiredPod>>| PodSet { pods, ..PodSet::default() };
    let mut merge = merge();
    merge.full(Source::File, &set(running("").collect()), at(1));
    assert_eq!(merge.full(Source::File, &set(copies().chain(running("")).collect()), at(2)).len(), 0);
    // An edit, and new names.
    let all = copies().chain(running("2")).chain(new()).collect();
    merge.full(Source::File, &set(all), at(3));
    assert_eq!(merge.pods().count(), limits::PODS_PER_SOURCE);
    let uids: Set<String> = merge.pods().map(|pod| pod.uid.clone()).collect();
    assert!(["m5002", "m0", "m39", "z2000", "z2001"].iter().all(|uid| uids.contains(*uid)));
    // The copy takes the place of a manifest that goes.
    let left = copies().chain(running("2").skip(1)).chain(new()).collect();
    merge.full(Source::File, &set(left), at(4));
    assert_eq!(merge.pods().count(), limits::PODS_PER_SOURCE);
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
    // Back again.
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
    // A pod that runs when the daemon starts is recognized by its labels.
    let mut merge = Merge::new(&[Source::File]);
    let places = [(Source::File, "/m/a.yaml".to_owned())].into();
    let found = Running {
        uid: "u1".into(),
        written: Some("w".into()),
        shape: Some("s".into()),
        places,
        seen: None,
        is_alive: true,
    };
    let key = PodKey { namespace: "default".into(), name: "web-node1".into() };
    merge.running(&[(key, found)].into(), at(0));
    merge.full(Source::File, &set(Source::File, &[sized("u2", "/m/a.yaml", "s", "i:2")]), at(1));
    assert_eq!(uid(&merge), ["u1"]);
}

/// The age continues after a restart of the daemon: the running pod was seen earlier, in any order of
/// reports.
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
