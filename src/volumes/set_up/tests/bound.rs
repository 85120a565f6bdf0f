//! hostPath volumes that are bound: below allowed paths, and of a source whose pods are evicted first.

use super::*;
use crate::volumes::Gone;

/// A directory of the host with a mount of its own, and with the root directories of podkeeper and Docker, in which
/// another pod's volume and container are mounted.
fn ground(name: &str) -> (PathBuf, Rig) {
    let host = fs::canonicalize(crate::base::testing::scratch(name)).unwrap();
    let open = rustix::fs::open(&host, DIRECTORY, Mode::empty()).unwrap();
    mounts::bind(&open, &open).unwrap();
    share(&host);
    for at in ["own", "later", "pk/pods/x/volumes/kubernetes.io~secret/s", "docker/c/mounts/shm"] {
        fs::create_dir_all(host.join(at)).unwrap();
    }
    for at in ["own", "pk/pods/x/volumes/kubernetes.io~secret/s", "docker/c/mounts/shm"] {
        mount_at(&host.join(at));
    }
    let mut policy = SourcePolicy::default();
    policy.set("evict-first", "true").unwrap();
    let rig = rig_with(&host.join("pk"), "p", Policies::default().with(Source::Http, policy));
    rig.engine_root.tell(&host.join("docker").display().to_string());
    (host, rig)
}

fn mount_at(at: &Path) {
    mounts::tmpfs(&rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap(), Some(1 << 20)).unwrap();
}

/// Where mounts are below the place, in the order of their names.
fn below(place: &Path) -> Vec<String> {
    let table = mounts::table().unwrap();
    let rest = |at: &Path| at.strip_prefix(place).unwrap().display().to_string();
    let mut found: Vec<String> = mounts::below(&table, place).iter().map(|m| rest(&m.at)).collect();
    found.sort();
    found
}

/// Fields of the mount at this place that tell from which others it gets mounts.
fn propagation(place: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let line = table.lines().rfind(|line| line.split(' ').nth(4) == place.to_str()).unwrap();
    line.split(' ').skip(6).take_while(|field| *field != "-").map(str::to_owned).collect()
}

fn end(host: &Path, rig: &Rig) {
    rig.tear_down("a").unwrap();
    assert_eq!(below(&host.join("pk/pods/a")), [""; 0]);
    mounts::drop_all(host).unwrap();
    fs::remove_dir_all(host).unwrap();
}

#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_guarded_host_path_is_bound_as_it_was_found() {
    let base = crate::base::testing::scratch("set-up-guarded");
    let (shared, outside) = (base.join("shared"), base.join("outside"));
    for dir in [&shared.join("data/mounted"), &outside] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(shared.join("data/inside"), "").unwrap();
    let mut policy = SourcePolicy::default();
    policy.set("allowed-host-paths", &shared.display().to_string()).unwrap();
    let rig = rig_with(&base, "p", Policies::all(policy));
    let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", shared.join("data").display());
    let submount = rustix::fs::open(shared.join("data/mounted"), DIRECTORY, Mode::empty()).unwrap();
    mounts::tmpfs(&submount, Some(1 << 20)).unwrap();
    assert_eq!(rig.set_up("a", &volumes, ""), "");
    let place = base.join("pods/a/volumes/kubernetes.io~host-path/v");
    assert!(place.join("inside").exists());
    let table = || mounts::table().unwrap();
    let real = fs::canonicalize(&place).unwrap();
    assert!(mounts::at(&table(), &real.join("mounted")).is_some(), "what is mounted below it is seen");
    assert_eq!(rig.set_up("a", &volumes, ""), "");
    assert_eq!(table().iter().filter(|mounted| mounted.at == real).count(), 1, "bound once");
    // The path becomes a link to a path that is not allowed.
    fs::rename(shared.join("data"), shared.join("moved")).unwrap();
    symlink("../outside", shared.join("data")).unwrap();
    assert!(place.join("inside").exists(), "it shows what was found");
    let refused = rig.set_up("a", &volumes, "");
    assert!(refused.ends_with("a link leads out of the allowed path"), "{refused}");
    assert!(place.join("inside").exists());
    rig.tear_down("a").unwrap();
    let left = fs::canonicalize(shared.join("moved/mounted")).unwrap();
    assert!(mounts::at(&table(), &left).is_some(), "the host's own mounts stay");
    assert!(shared.join("moved/inside").exists());
    mounts::end(&left).unwrap();
    rig.end();
}

/// Regression: the bind of a directory kept the mounts of all other pods and containers below it, and neither Docker nor
/// podkeeper could remove what they were mounted at; and Docker refused a container that wants to see later mounts.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_bind_of_a_source_behind_others_keeps_nothing_of_other_pods() {
    let (host, rig) = ground("set-up-bound-foreign");
    let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", host.display());
    assert_eq!(rig.set_up_of(Source::Http, "a", &volumes, ""), "");
    let place = host.join("pk/pods/a/volumes/kubernetes.io~host-path/v");
    assert_eq!(below(&place), ["own"]);
    let told = propagation(&place);
    assert!(
        told.iter().any(|field| field.starts_with("shared:")),
        "Docker can let a container follow it: {told:?}"
    );
    assert!(!told.iter().any(|field| field.starts_with("master:")), "it follows nothing: {told:?}");
    mount_at(&host.join("later"));
    assert_eq!(below(&place), ["own"], "later mounts of the host are not in it");
    // What others have mounted can be taken away and removed.
    for at in ["pk/pods/x/volumes/kubernetes.io~secret/s", "docker/c/mounts/shm"] {
        mounts::end(&host.join(at)).unwrap();
        fs::remove_dir(host.join(at)).unwrap();
    }
    assert_eq!(rig.set_up_of(Source::Http, "a", &volumes, ""), "");
    assert_eq!(below(&place), ["own"]);
    end(&host, &rig);
}

/// Regression: a container of another pod that follows the host's mounts (`mountPropagation: HostToContainer` of `/`) got
/// each bind with the mounts of other pods, and with all binds before it: twice as many each time.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn binds_are_whole_before_another_namespace_gets_them_and_go_from_there_too() {
    let (host, rig) = ground("set-up-bound-follower");
    let open = |at: &Path| rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap();
    // Such a container has a mount that follows the host's.
    let pk = host.join("pk");
    let follower = fs::canonicalize(crate::base::testing::scratch("set-up-follower")).unwrap();
    mounts::bind(&open(&pk), &open(&follower)).unwrap();
    mounts::make_slave(&follower).unwrap();
    let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", host.display());
    let place = |uid: &str| format!("pods/{uid}/volumes/kubernetes.io~host-path/v");
    for uid in ["a", "b", "c"] {
        assert_eq!(rig.set_up_of(Source::Http, uid, &volumes, ""), "");
        let (own, theirs) = (pk.join(place(uid)), follower.join(place(uid)));
        assert_eq!((below(&own), below(&theirs)), (vec!["own".to_owned()], vec!["own".to_owned()]));
    }
    assert_eq!(below(&follower).len(), 6);
    for uid in ["a", "b", "c"] {
        rig.tear_down(uid).unwrap();
    }
    assert_eq!(below(&follower), [""; 0], "they are gone there, too");
    mounts::drop_all(&follower).unwrap();
    fs::remove_dir_all(follower).unwrap();
    end(&host, &rig);
}

/// Regression: a daemon was killed just after it had bound a directory at the stage, and the next one took the host's own
/// mounts away with that bind.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn what_a_killed_daemon_left_at_the_stage_takes_nothing_of_the_host() {
    let (host, rig) = ground("set-up-bound-stage");
    share(&host.join("own"));
    fs::create_dir(host.join("own/deep")).unwrap();
    mount_at(&host.join("own/deep"));
    let open = |at: &Path| rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap();
    let stage = host.join("pk").join(layout::STAGE);
    let left = || {
        fs::create_dir_all(stage.join("directory")).unwrap();
        mounts::bind(&open(&stage), &open(&stage)).unwrap();
        rustix::mount::mount_change(&stage, rustix::mount::MountPropagationFlags::PRIVATE).unwrap();
        mounts::bind_with_all(&open(&host.join("own")), &open(&stage.join("directory"))).unwrap();
    };
    left();
    assert_eq!(below(&host.join("pk/stage")), ["directory", "directory/deep"]);
    rig.volumes.sweep(Gone::AllBut(["x".to_owned()].into()));
    assert_eq!(below(&host.join("pk")), ["pods/x/volumes/kubernetes.io~secret/s"]);
    assert_eq!(below(&host.join("own")), ["deep"], "it is the host's");
    left();
    let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", host.display());
    assert_eq!(rig.set_up_of(Source::Http, "a", &volumes, ""), "");
    assert_eq!(below(&host.join("pk/stage")), [""; 0]);
    assert_eq!(below(&host.join("own")), ["deep"], "it is the host's");
    mount_at(&host.join("later"));
    end(&host, &rig);
}

/// Regression: where the root directory is seen at another place, too, the bind of a source that is behind no other was a
/// peer of the host's mount there, and what was unmounted in it was unmounted on the host.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn a_bind_is_set_apart_wherever_it_is_seen() {
    let (host, rig) = ground("set-up-bound-alias");
    share(&host.join("own"));
    fs::create_dir(host.join("own/deep")).unwrap();
    mount_at(&host.join("own/deep"));
    let alias = fs::canonicalize(crate::base::testing::scratch("set-up-alias")).unwrap();
    let open = |at: &Path| rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap();
    mounts::bind(&open(&host.join("pk")), &open(&alias)).unwrap();
    let mut policy = SourcePolicy::default();
    policy.set("allowed-host-paths", &host.display().to_string()).unwrap();
    let trusted = rig_with(&host.join("pk"), "p", Policies::all(policy));
    let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", host.join("own").display());
    assert_eq!(trusted.set_up("a", &volumes, ""), "");
    let place = Path::new("pods/a/volumes/kubernetes.io~host-path/v");
    let (own, seen) = (host.join("pk").join(place), alias.join(place));
    assert_eq!((below(&own), below(&seen)), (vec!["deep".to_owned()], vec!["deep".to_owned()]));
    let groups = |at: &Path| -> Vec<String> {
        propagation(at).into_iter().filter(|field| field.starts_with("shared:")).collect()
    };
    for at in [&own, &seen] {
        assert_ne!(groups(at), groups(&host.join("own")), "{}", at.display());
    }
    // It follows the host all the same.
    mounts::end(&host.join("own/deep")).unwrap();
    assert_eq!((below(&own), below(&seen)), (vec![], vec![]));
    mount_at(&host.join("own/deep"));
    assert_eq!((below(&own), below(&seen)), (vec!["deep".to_owned()], vec!["deep".to_owned()]));
    mounts::end(&seen.join("deep")).unwrap();
    assert_eq!(below(&host.join("own")), ["deep"], "it is the host's");
    trusted.tear_down("a").unwrap();
    assert_eq!(below(&host.join("own")), ["deep"], "it is the host's");
    mounts::drop_all(&alias).unwrap();
    fs::remove_dir_all(alias).unwrap();
    end(&host, &rig);
}

/// Regression: nine mounts of one volume in a container were 88,000 mounts there, and none was counted.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn each_further_mount_in_a_container_counts() {
    let (host, rig) = ground("set-up-bound-copies");
    let mount = "{name: v, mountPath: /m, mountPropagation: HostToContainer}";
    let set_up = |times: usize| {
        let mounts = vec![mount; times].join(", ");
        let volumes = format!("[{{name: v, hostPath: {{path: '{}'}}}}]", host.display());
        let spec = format!("{{containers: [{{name: a, volumeMounts: [{mounts}]}}], volumes: {volumes}}}");
        rig.set_up_pod(Source::Http, "a", &spec, "").0
    };
    let refused = set_up(600);
    assert!(refused.contains("with 1200 more mounts for it"), "{refused}");
    assert_eq!(set_up(300), "");
    // What is bound counts as well when the pod changes.
    let refused = set_up(600);
    assert!(refused.contains("with 600 more mounts for it"), "{refused}");
    end(&host, &rig);
}

/// Regression: a daemon that was killed just after it had bound a subPath left a bind that followed the host in both
/// directions, and the end of its pod took the host's mounts away.
#[test]
#[ignore = "needs root: cargo test --lib -- --ignored"]
fn the_end_of_a_sub_path_that_was_not_set_apart_takes_nothing_of_the_host() {
    let (host, rig) = ground("set-up-bound-killed");
    share(&host.join("own"));
    fs::create_dir(host.join("own/deep")).unwrap();
    let place = host.join("pk/pods/a/volume-subpaths/v/a/0");
    fs::create_dir_all(&place).unwrap();
    let open = |at: &Path| rustix::fs::open(at, DIRECTORY, Mode::empty()).unwrap();
    mounts::bind(&open(&host.join("own")), &open(&place)).unwrap();
    mount_at(&host.join("own/deep"));
    assert_eq!(below(&place), ["deep"], "it follows the host");
    rig.tear_down("a").unwrap();
    assert_eq!(below(&host.join("pk/pods/a")), [""; 0]);
    assert_eq!(below(&host.join("own")), ["deep"], "the host's mount stays");
    end(&host, &rig);
}

fn share(at: &Path) {
    use rustix::mount::{MountPropagationFlags, mount_change};
    mount_change(at, MountPropagationFlags::SHARED).unwrap();
}
