//! The texts of events.

use super::*;
use crate::plan::testing::pod;

#[test]
fn each_event_in_the_kubelets_words() {
    let check = |words: Words, weight: Weight, reason: &str, message: &str| {
        assert_eq!((words.weight, &*words.reason, &*words.message), (weight, reason, message));
        let page = include_str!("../../../man/podkeeper.8");
        let is_told = page.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == reason);
        assert!(is_told, "{reason} is not in the man page");
    };
    let (normal, warning) = (Weight::Normal, Weight::Warning);
    let ms = Duration::from_millis;
    check(pulling("web:1"), normal, "Pulling", "Pulling image \"web:1\"");
    check(
        pulled("web:1", ms(1234), ms(61_500), Some(1024)),
        normal,
        "Pulled",
        "Successfully pulled image \"web:1\" in 1.234s (1m1.5s including waiting). Image size: 1024 bytes.",
    );
    check(
        pulled("web:1", ms(900), ms(0), None),
        normal,
        "Pulled",
        "Successfully pulled image \"web:1\" in 900ms (900ms including waiting).",
    );
    check(
        present("web:1"),
        normal,
        "Pulled",
        "Container image \"web:1\" already present on machine and can be accessed by the pod",
    );
    check(
        local_copy("web:1", "dial tcp: no route"),
        warning,
        "Failed",
        "Failed to pull image \"web:1\": dial tcp: no route; the copy on this machine is used",
    );
    check(pull_failed("web:1", "denied"), warning, "Failed", "Failed to pull image \"web:1\": denied");
    check(pull_backs_off("web:1"), normal, "BackOff", "Back-off pulling image \"web:1\"");
    check(error("ErrImagePull"), warning, "Failed", "Error: ErrImagePull");
    check(
        bad_image_name("Web", "uppercase"),
        warning,
        "InspectFailed",
        "Failed to apply default image tag \"Web\": couldn't parse image name \"Web\": uppercase",
    );
    check(never_pulled("no"), warning, "ErrImageNeverPull", "no");
    check(pull_secrets("no"), warning, "FailedToRetrieveImagePullSecret", "no");
    check(created(), normal, "Created", "Container created");
    check(started(), normal, "Started", "Container started");
    check(killing("web", None), normal, "Killing", "Stopping container web");
    check(killing("web", Some("FailedPostStartHook")), normal, "Killing", "FailedPostStartHook");
    check(kill_failed("no"), warning, "FailedKillPod", "error killing pod: no");
    let pod = pod("metadata: {name: p}\nspec: {containers: [{name: web, image: i}]}");
    let text = format!("Back-off restarting failed container web in pod {}", backoff::pod_words(&pod));
    check(backs_off("web", &pod), warning, "BackOff", &text);
    let exited = crate::pod::waiting::hook_exited(&["sh".into(), "-c".into(), "x".into()], 3, "a secret");
    assert_eq!(exited, "command 'sh -c x' exited with 3: , message: \"a secret\"");
    let failed = "failed: command 'sh' exited with 3";
    check(post_start_failed(&exited), warning, "FailedPostStartHook", &format!("PostStartHook {failed}"));
    check(pre_stop_failed(&exited), warning, "FailedPreStopHook", &format!("PreStopHook {failed}"));
    check(
        sandbox_changed(false),
        normal,
        "SandboxChanged",
        "Pod sandbox changed, it will be killed and re-created.",
    );
    check(
        network_kept(Some("bridge"), Some("pods"), false),
        warning,
        "NetworkKept",
        "The pod stays on the Docker network bridge, on which its sandbox was made, and --docker-network names pods \
         now: it moves when its sandbox is made anew, by drain and resume, say",
    );
    check(
        sandbox_failed("no space"),
        warning,
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: no space",
    );
    check(
        probe("Unhealthy", "Liveness probe failed: no".into()),
        warning,
        "Unhealthy",
        "Liveness probe failed: no",
    );
    check(dns_config("cut".into()), warning, "DNSConfigForming", "cut");
    check(
        missing_cluster_dns(),
        warning,
        "MissingClusterDNS",
        "kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
         Falling back to \"Default\" policy.",
    );
    check(
        names_withheld("db (pod default/db-n of source file)"),
        warning,
        "NamesWithheld",
        "Names on the pods' network that belong to a preceding source: db (pod default/db-n of source file). This \
         pod does not get them; if its sandbox has some already, it keeps them until it is made anew",
    );
    check(rejected("NodePorts", "taken"), warning, "NodePorts", "taken");
}
