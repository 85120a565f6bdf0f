use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::base::testing::scratch;
use crate::status::file::tests::snapshot;

#[test]
fn only_pods_that_have_ended_for_good_have_such_containers() {
    let id = "a".repeat(64);
    let of = |phase: &str, state: &str, change: fn(&mut crate::status::snapshot::PodView)| {
        let mut node = snapshot();
        node.pods.truncate(1);
        let status = json!({"phase": phase, "containerStatuses": [{"name": "app", "image": "", "imageID": "",
            "ready": false, "restartCount": 0, "containerID": format!("docker://{id}"),
            "state": {state: if state == "terminated" { json!({"exitCode": 0}) } else { json!({}) }}}]});
        node.pods[0].status = Arc::new(serde_json::from_value(status).unwrap());
        change(&mut node.pods[0]);
        let uid = node.pods[0].pod.uid.clone();
        // A slow Docker takes long to end a pod whose container has ended, and innocent pods were evicted meanwhile.
        assert_eq!(is_ending(&node, &uid), containers(&node).is_empty(), "it is one or the other");
        assert!(!is_ending(&node, "another"), "it is gone");
        let has_left = node.pods[0].leaving.is_some() && state == "terminated";
        let goes_on = containers(&node).is_empty() && !has_left;
        assert_eq!(going_on(&node).contains(&uid), goes_on, "{phase} {state}");
        containers(&node).len()
    };
    assert_eq!(of("Succeeded", "terminated", |_| {}), 1);
    assert_eq!(of("Failed", "terminated", |_| {}), 1);
    assert_eq!(of("Running", "terminated", |_| {}), 0, "it may be started again");
    assert_eq!(of("Failed", "running", |_| {}), 0, "a debugging container, or one that does not stop");
    assert_eq!(of("Failed", "terminated", |view| view.is_told = false), 0);
    assert_eq!(
        of("Failed", "terminated", |view| view.leaving = Some(crate::base::clock::Timestamp::UNIX_EPOCH)),
        0
    );
}

#[test]
fn what_is_not_a_container_s_own_is_left_alone() {
    let id = "0a".repeat(32);
    let of = |upper: &str, volume: &str| {
        let volumes = vec![volume.to_owned()];
        let files = ContainerFiles { upper_dir: Some(upper.into()), volumes, ..ContainerFiles::default() };
        own(&files, Path::new("/d/docker")).len()
    };
    assert_eq!(of("/d/docker/overlay2/abc/diff", &format!("/d/docker/volumes/{id}/_data")), 2);
    for upper in [
        "/d/docker/overlay2/abc/merged",
        "/d/docker/overlay2/diff",
        "/d/docker/a/b/c/diff",
        "/d/docker/../x/diff",
        "/d/docker/overlay2/../diff",
        "/d/other/overlay2/abc/diff",
        "/d/docker",
        "/",
    ] {
        assert_eq!(of(upper, "/srv/data"), 0, "{upper}");
    }
    assert_eq!(of("/", "/d/docker/volumes/named/_data"), 0);
}

fn container(root: &Path, id: &str, uid: &str, state: DockerState) -> ContainerSummary {
    ContainerSummary {
        id: id.to_owned(),
        name: "k8s_app".into(),
        image: String::new(),
        image_id: String::new(),
        labels: [(labels::ROOT_DIR, &*root.to_string_lossy()), (labels::POD_UID, uid)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        state,
        status: String::new(),
        created: 0,
        ips: None,
        networks: Vec::new(),
        length: 0,
    }
}

/// Regression: Docker answered no call about the container that had filled the disk; it was killed, its layer stayed,
/// and innocent pods were evicted.
#[test]
fn the_layer_of_a_container_of_which_docker_does_not_tell_is_emptied() {
    let root = scratch("keeper-ended-untold");
    let docker_root = root.join("docker");
    let (id, layer) = ("a1".repeat(32), "b2".repeat(32));
    let of = docker_root.join("image/overlay2/layerdb/mounts").join(&id);
    let upper = docker_root.join("overlay2").join(layer.as_str()).join("diff");
    fs::create_dir_all(&of).unwrap();
    fs::create_dir_all(&upper).unwrap();
    fs::write(of.join("mount-id"), &layer).unwrap();
    let (never, soon) = (std::time::Duration::from_secs(30), std::time::Duration::from_millis(1));
    let docker = crate::runtime::testing::slow_docker(&root, never, soon, &root);
    let (runs, strange, killed) = ("c3".repeat(32), "d4".repeat(32), "f6".repeat(32));
    let key = PodKey { namespace: "default".into(), name: "web".into() };
    let told = EngineRoot::default();
    told.tell(&docker_root.to_string_lossy());
    let ended = Ended {
        docker,
        docker_root: told,
        root_dir: root.clone(),
        containers: [&id, &runs, &strange].map(|id| (id.clone(), key.clone())).into(),
        pods: Latest::default(),
        keep_logs: ["keeps its logs".to_owned()].into(),
        go_on: ["goes on".to_owned()].into(),
        killed: [killed.clone()].into(),
        before: Removing::new(),
    };
    fs::create_dir_all(of.with_file_name(&runs)).unwrap();
    fs::write(of.with_file_name(&runs).join("mount-id"), &layer).unwrap();
    fs::create_dir_all(of.with_file_name(&killed)).unwrap();
    fs::write(of.with_file_name(&killed).join("mount-id"), &layer).unwrap();
    for id in [&id, &runs, &killed] {
        let own = docker_root.join("containers").join(id);
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("config.v2.json"), "{}").unwrap();
    }
    let all = [
        container(&root, &id, "u", DockerState::Exited),
        container(&root, &runs, "u", DockerState::Running),
        container(&root, &strange, "u", DockerState::Exited),
        container(&root, &"e5".repeat(32), "goes on", DockerState::Exited),
        container(&root, &killed, "goes on", DockerState::Running),
    ];
    let (places, unknown) = ended.places(&all, &docker_root, &Tie::default());
    let places: Vec<_> = places.into_iter().map(|(container, at)| (container.id.clone(), at)).collect();
    assert_eq!(places, [(id, upper.clone()), (killed, upper)], "what runs is mounted");
    assert_eq!(unknown, [strange].into());
    fs::remove_dir_all(root).unwrap();
}

#[test]
fn a_directory_is_emptied_and_stays() {
    let base = scratch("keeper-ended");
    let at = base.join("diff");
    fs::create_dir_all(at.join("a/b")).unwrap();
    fs::write(at.join("a/b/file"), "x".repeat(100_000)).unwrap();
    fs::write(base.join("outside"), "x").unwrap();
    std::os::unix::fs::symlink(base.join("outside"), at.join("link")).unwrap();
    let least = |bytes| Least { bytes, inodes: 30 };
    let always = || true;
    assert_eq!(emptied(&at, least(1 << 20), &mut { always }).unwrap(), Outcome::Little, "it helps nobody");
    assert!(at.join("a/b/file").exists());
    let freed = emptied(&at, least(100_000), &mut { always }).unwrap();
    assert!(matches!(freed, Outcome::Whole(it) if it.bytes >= 100_000), "{freed:?}");
    assert_eq!(fs::read_dir(&at).unwrap().count(), 0);
    assert_eq!(emptied(&at, least(100_000), &mut { always }).unwrap(), Outcome::Little, "not again");
    assert!(base.join("outside").exists());
    std::os::unix::fs::symlink(&base, base.join("l")).unwrap();
    assert!(emptied(&base.join("l"), Least::default(), &mut { always }).is_err(), "no link is followed");
    fs::remove_dir_all(base).unwrap();
}

/// Regression: an ended pod kept most inodes of a disk with empty files, which have no bytes, and other pods were
/// evicted for it and stayed away.
#[test]
fn a_directory_of_many_empty_files_is_emptied_for_its_inodes() {
    let base = scratch("keeper-ended-inodes");
    let fill = || {
        fs::create_dir_all(&base).unwrap();
        (0..40).for_each(|n| fs::write(base.join(n.to_string()), "").unwrap());
    };
    fill();
    let disk = FileSystem::of(&base).unwrap();
    let of = |inodes| Least::of(FileSystem { capacity: 1 << 40, inodes, ..disk });
    assert_eq!(emptied(&base, of(100_000), &mut || true).unwrap(), Outcome::Little);
    assert_eq!(emptied(&base, of(0), &mut || true).unwrap(), Outcome::Little, "it has no such bound");
    let freed = emptied(&base, of(30_000), &mut || true).unwrap();
    assert!(matches!(freed, Outcome::Whole(DiskUse { inodes: 41, .. })), "{freed:?}");
    // No time is left after ten files.
    fill();
    let mut left = 10;
    let mut goes_on = || {
        left -= 1;
        left >= 0
    };
    assert_eq!(emptied(&base, of(30_000), &mut goes_on).unwrap(), Outcome::Part);
    assert_eq!(fs::read_dir(&base).unwrap().count(), 30);
    fs::remove_dir_all(base).unwrap();
}

/// Regression: Docker removed a layer with 400,000 links on a slow disk, and innocent pods were evicted meanwhile.
#[test]
fn a_removal_by_docker_gets_on_as_long_as_entries_go() {
    let base = scratch("keeper-ended-progress");
    let at = base.join("diff");
    fs::create_dir_all(at.join("a/b")).unwrap();
    for n in 0..3 {
        fs::write(at.join("a/b").join(n.to_string()), "x").unwrap();
    }
    let mut seen = vec![progress(&at)];
    assert_eq!(progress(&at), seen[0], "nothing goes");
    for gone in ["a/b/0", "a/b/1", "a/b/2"] {
        std::thread::sleep(std::time::Duration::from_millis(15));
        fs::remove_file(at.join(gone)).unwrap();
        seen.push(progress(&at));
    }
    fs::remove_dir(at.join("a/b")).unwrap();
    seen.push(progress(&at));
    seen.dedup();
    assert_eq!(seen.len(), 5, "{seen:?}");
    fs::remove_dir_all(&base).unwrap();
    assert_eq!(progress(&at), None);
}

/// Regression: a pod filled the disk through `/etc/hosts`, `/etc/hostname` or its termination message and ended, and all
/// other pods were evicted for it.
#[test]
fn files_beside_the_layers_of_ended_pods_are_made_short() {
    let root = scratch("keeper-ended-beside");
    let docker_root = root.join("docker");
    let (app, sandbox, other) = ("a1".repeat(32), "b2".repeat(32), "c3".repeat(32));
    let keeps = "e5".repeat(32);
    fs::create_dir_all(docker_root.join("containers").join(&keeps)).unwrap();
    let large = |path: PathBuf| {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "x".repeat(100_000) + "end").unwrap();
        path
    };
    let own = [
        docker_root.join("containers").join(&sandbox).join("hostname"),
        docker_root.join("containers").join(&sandbox).join("resolv.conf"),
        docker_root.join("containers").join(&app).join("hosts"),
        root.join("pods/u/etc-hosts"),
        root.join("pods/u/resolv.conf"),
        root.join("pods/u/containers/app/0"),
    ]
    .map(large);
    let others = [
        docker_root.join("containers").join(&other).join("hostname"),
        docker_root.join("containers").join(&app).join("config.v2.json"),
        root.join("pods/goes on/etc-hosts"),
        root.join("pods/u/volumes/v/etc-hosts"),
    ]
    .map(large);
    fs::write(root.join("pods/u/containers/app/1"), "the message").unwrap();
    let all = [
        container(&root, &app, "u", DockerState::Exited),
        container(&root, &sandbox, "u", DockerState::Running),
        container(&root, &other, "goes on", DockerState::Exited),
        container(Path::new("/another"), &other, "u", DockerState::Exited),
        container(&root, &"d4".repeat(32), "../..", DockerState::Exited),
        container(&root, &keeps, "keeps its logs", DockerState::Exited),
    ];
    let ended = Ended {
        docker: Docker::Fake(crate::runtime::fake::Fake::new(
            Arc::new(crate::base::clock::System::start()),
            1,
        )),
        docker_root: EngineRoot::default(),
        root_dir: root.clone(),
        containers: Containers::new(),
        pods: Latest::default(),
        keep_logs: ["keeps its logs".to_owned()].into(),
        go_on: ["goes on".to_owned()].into(),
        killed: Set::new(),
        before: Removing::new(),
    };
    let json =
        |id: &str, more: &str| docker_root.join("containers").join(id).join(format!("{id}-json.log{more}"));
    let lines = "{a line of a log}\n".repeat(10_000);
    fs::write(json(&app, ""), &lines).unwrap();
    fs::write(json(&app, ".1"), &lines).unwrap();
    fs::write(json(&sandbox, ""), &lines).unwrap();
    fs::write(json(&keeps, ""), &lines).unwrap();
    // What is allocated behind the end of a file counts, too.
    let allocated = root.join("pods/u/containers/app/2");
    let file = fs::File::create(&allocated).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, 1 << 20).unwrap();
    let dead: Vec<_> = all.iter().filter(|container| ended.is_dead(container)).collect();
    let found = ended.beside(&dead, &all, &docker_root);
    found.iter().for_each(|file| file.shorten(50_000));
    assert_eq!(std::os::unix::fs::MetadataExt::blocks(&fs::metadata(&allocated).unwrap()), 0);
    let left = fs::read_to_string(json(&app, "")).unwrap();
    assert!(left.len() <= limits::ENDED_LOG && left.starts_with("{a line") && lines.ends_with(&left));
    assert!(!json(&app, ".1").exists());
    assert_eq!(fs::metadata(json(&sandbox, "")).unwrap().len(), lines.len() as u64, "it has not ended");
    assert_eq!(fs::metadata(json(&keeps, "")).unwrap().len(), lines.len() as u64);
    for path in own {
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.len() == limits::TERMINATION_FILE && left.ends_with("end"), "{path:?}: {}", left.len());
    }
    for path in others {
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_003, "{path:?}");
    }
    assert_eq!(fs::read_to_string(root.join("pods/u/containers/app/1")).unwrap(), "the message");
    fs::remove_dir_all(root).unwrap();
}

/// Regression: an ended pod kept a disk full with hundreds of places, each of them small.
#[test]
fn many_small_places_are_emptied_like_a_large_one() {
    let one = Least { bytes: 2_000_000, inodes: 100 };
    let of = |count| {
        let Least { bytes, inodes } = one.shared(count);
        (bytes, inodes)
    };
    assert_eq!(of(0), (2_000_000, 100));
    assert_eq!(of(1), (2_000_000, 100));
    assert_eq!(of(20), (100_000, 5));
    assert_eq!(of(10_000), (16 * 1024, 4), "an empty directory stays");
    let small = Least { bytes: 1000, inodes: 2 }.shared(10);
    assert_eq!((small.bytes, small.inodes), (1000, 2));
}

/// Regression: a pod came while a run removed images; its init container was emptied like one of a pod that is gone.
#[test]
fn a_pod_that_comes_during_a_run_keeps_everything() {
    let run = |is_known: bool| {
        let root = scratch("keeper-ended-comes");
        let fake = crate::runtime::fake::Fake::new(Arc::new(crate::base::clock::System::start()), 1);
        let node = snapshot();
        let uid = node.pods[0].pod.uid.clone();
        let labels = [(labels::ROOT_DIR, &*root.to_string_lossy()), (labels::POD_UID, &*uid)];
        let now = crate::base::clock::Clock::now(&crate::base::clock::System::start());
        fake.with(|state| {
            let id = state.plant("k8s_init", &labels, true, now);
            state.crash(&id, 0, now);
        });
        let hosts = root.join("pods").join(&uid).join("etc-hosts");
        fs::create_dir_all(hosts.parent().unwrap()).unwrap();
        let file = fs::File::create(&hosts).unwrap();
        let large = FileSystem::of(&root).unwrap().capacity / 1000 + (1 << 20);
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, large).unwrap();
        let (docker_root, pods) = (EngineRoot::default(), Latest::default());
        docker_root.tell(&root.join("docker").to_string_lossy());
        fs::create_dir(root.join("docker")).unwrap();
        let ended = Ended {
            docker: Docker::Fake(fake),
            docker_root,
            root_dir: root.clone(),
            containers: Containers::new(),
            pods: pods.clone(),
            keep_logs: Set::new(),
            go_on: Set::new(),
            killed: Set::new(),
            before: Removing::new(),
        };
        if is_known {
            pods.tell(Arc::new(node));
        }
        ended.empty(&Tie::default());
        let left = fs::metadata(&hosts).unwrap().len();
        fs::remove_dir_all(root).unwrap();
        left == large
    };
    assert!(run(true));
    assert!(!run(false), "it is nobody's");
}
