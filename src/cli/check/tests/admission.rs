//! Tests of `check` with pods that are well written and that the daemon would not start.

use super::*;
use crate::cli::config_file;
use crate::cli::parse::{Files, parse_with};

/// Podkeeper cannot run half of these pods: under a standard that is a warning, and a violation is an error.
#[test]
fn pods_are_judged_by_a_standard() {
    let strange = concat!(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: far, annotations: {a: b}}\nspec:\n",
        "  os: {name: windows}\n  hostUsers: false\n  serviceAccountName: robot\n  typo: 1\n",
        "  securityContext: {runAsNonRoot: true, sysctls: [{name: kernel.shm_rmid_forced, value: '0'}]}\n",
        "  containers:\n  - {name: Not_A_Name, image: x, securityContext: {procMount: Unmasked}}\n",
        "  ephemeralContainers: [{name: debug, image: y}]\n",
        "  volumes: [{name: v, csi: {driver: d}}, {name: v, persistentVolumeClaim: {claimName: c}}]\n",
    );
    let decode = |standard: &str, text: &str| {
        let mut report = empty(&format!("--pod-security {standard}"));
        report.decode(text.as_bytes(), "far.yaml", None);
        report.judge();
        report
    };
    let good = decode("baseline", strange);
    assert_eq!(good.count(Severity::Error), 0, "{:?}", good.problems);
    assert!(good.count(Severity::Warning) > 4 && good.names.len() == 1, "{:?}", good.problems);
    let bad = decode("restricted", strange);
    let errors: Vec<String> =
        bad.problems.iter().filter(|p| p.severity == Severity::Error).map(line).collect();
    let says = r#"violates PodSecurity "restricted:latest": procMount (container "Not_A_Name" "#;
    let says = format!("{says}must not set securityContext.procMount to \"Unmasked\")");
    assert_eq!(errors, [format!("far.yaml:11:5: error: pod default/far: {says}")]);
    // A file that is no manifest of pods is an error under every standard.
    for text in ["a: [", "", "kind: Pod", "apiVersion: v1\nkind: Deployment\n"] {
        assert_eq!(decode("privileged", text).count(Severity::Error), 1, "{text}");
    }
    let misfit = strange.replace("hostUsers: false", "hostUsers: maybe");
    assert_eq!(decode("privileged", &misfit).count(Severity::Error), 1);
    assert_eq!(decode("http=restricted", strange).count(Severity::Error), 0);
}

#[test]
fn the_lists_of_the_node_hold_for_good_pods() {
    let mut report = empty("--allowed-images=");
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: b:1}]}\n";
    report.decode(pod.as_bytes(), "web.yaml", None);
    report.decode(pod.replace("name: a", "name: A").as_bytes(), "bad.yaml", None);
    let lines: Vec<String> = report.problems.iter().map(line).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(
        lines[0],
        "web.yaml:4:21: error: pod default/web: container \"a\": image \"b:1\" is not allowed on this node"
    );
    assert!(lines[1].contains("spec.containers[0].name: Invalid value"), "{lines:?}");
}

#[test]
fn pods_that_wait_in_a_circle() {
    let pod = |name: &str, after: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, annotations: {{podkeeper.dev/after: '{after}'}}}}\n\
             spec: {{containers: [{{name: a, image: b}}]}}\n"
        )
    };
    let mut found = empty("");
    for (name, after) in [("a", "c=ready"), ("b", "default/a"), ("c", "d,b=succeeded"), ("me", "me")] {
        found.decode(pod(name, after).as_bytes(), &format!("{name}.yaml"), None);
    }
    found.decode(pod("bad", "a=soon").as_bytes(), "bad.yaml", None);
    found.judge();
    let lines: Vec<String> = found.problems.iter().map(line).collect();
    assert_eq!(
        lines,
        [
            "bad.yaml:3:37: error: pod default/bad: metadata.annotations[podkeeper.dev/after]: Invalid value: \
             \"a=soon\": \"soon\" must be ready or succeeded",
            "c.yaml:3:35: error: pod default/c: metadata.annotations[podkeeper.dev/after]: waits for pod default/d to \
             run, which is in none of the files that were checked; it starts without it after 300 s",
            "c.yaml:3:35: error: pod default/c: metadata.annotations[podkeeper.dev/after]: podkeeper.dev/after of \
             default/c-node1 closes a cycle: \
             default/c-node1 -> default/b-node1 -> default/a-node1 -> default/c-node1",
            "me.yaml:3:36: error: pod default/me: metadata.annotations[podkeeper.dev/after]: podkeeper.dev/after of \
             default/me-node1 closes a cycle: default/me-node1 -> default/me-node1",
        ]
    );
}

/// A list of pods of which the daemon starts none: each is an error, with its place.
#[test]
fn what_the_daemon_would_not_start_is_an_error() {
    let dir = scratch("check-admission");
    let pod = |name: &str, metadata: &str, pod: &str, container: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n{metadata}spec:\n{pod}  containers:\n  - name: app\n    \
             image: a\n{container}"
        );
        fs::write(dir.join(format!("{name}.yaml")), text).unwrap();
    };
    let port = "    ports:\n    - containerPort: 80\n    - {containerPort: 81, hostPort: 8080}\n";
    pod("port-a", "", "", port);
    pod("port-b", "", "", port);
    pod("affinity", "", "  nodeSelector: {disk: fast}\n", "");
    let required = "nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
        [{matchExpressions: [{key: disk, operator: In, values: [fast]}]}]}}";
    pod("required", "", &format!("  affinity:\n    {required}\n"), "");
    pod("cpu", "", "", "    resources:\n      requests: {cpu: 100k}\n");
    pod("sysctl", "", "  securityContext:\n    sysctls: [{name: kernel.msgmax, value: '1'}]\n", "");
    pod("privileged", "", "", "    securityContext:\n      privileged: true\n");
    pod("after", "  annotations:\n    podkeeper.dev/after: nobody, port-a\n", "", "");
    pod("cycle", "  annotations:\n    podkeeper.dev/after: cycle\n", "", "");
    pod("elsewhere", "", "  nodeName: far\n", "");
    fs::write(
        dir.join("c.yml"),
        "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\nnodeLabels: {a: b}\n",
    )
    .unwrap();
    let config = dir.join("c.yml");
    fs::create_dir(dir.join("m")).unwrap();
    for entry in fs::read_dir(&dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "yaml"))
    {
        fs::rename(&entry, dir.join("m").join(entry.file_name().unwrap())).unwrap();
    }
    let mut found = empty(&format!("--config {}", config.display()));
    found.visit(&dir.join("m"));
    found.judge();
    let told: String =
        lines(&found).iter().map(|l| l.replace(dir.to_string_lossy().as_ref(), "DIR") + "\n").collect();
    let told = told + &found.summary();
    // The machine's own size is in the message about cpu.
    let cpu = told.lines().find(|l| l.contains("OutOfcpu")).unwrap();
    let told = told.replace(&cpu[cpu.find("requested").unwrap()..], "...");
    let uid = told.find("with UID \"").map(|at| told[at + 10..at + 42].to_owned()).unwrap();
    crate::base::testing::golden("cli/check-admission.txt", &told.replace(&uid, "..."));
    // A pod that a flag or the file allows is no error.
    let mut allowed =
        empty("--allow-privileged --node-labels disk=fast --allowed-unsafe-sysctls kernel.msg*");
    for name in ["privileged", "affinity", "required", "sysctl", "port-a"] {
        allowed.visit(&dir.join("m").join(format!("{name}.yaml")));
    }
    allowed.judge();
    assert_eq!(lines(&allowed), [""; 0]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The daemon's settings make the standard one rule among others.
#[test]
fn a_standard_in_the_configuration_file_does_not_make_errors_warnings() {
    let dir = scratch("check-config-standard");
    let config = dir.join("c.yml");
    let head = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";
    fs::write(&config, format!("{head}podSecurity: http=restricted,file=privileged\n")).unwrap();
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: A, image: b}\n";
    let errors = |flags: &str, text: &str| {
        let mut found = empty(&format!("--config {} {flags}", config.display()));
        found.decode(text.as_bytes(), "web.yaml", None);
        found.judge();
        lines(&found)
    };
    let told = errors("", pod);
    assert!(told.len() == 1 && told[0].contains("spec.containers[0].name: Invalid value"), "{told:?}");
    // Each source has its own rules.
    let good = pod.replace("name: A", "name: a");
    assert_eq!(errors("", &good), [""; 0]);
    let told = errors("--source http", &good);
    assert!(
        told.len() == 1 && told[0].starts_with("web.yaml:6:5: error: pod default/web: violates PodSecurity"),
        "{told:?}"
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// For all places of the configuration: only a standard that is named on the command line, alone, judges alone.
#[test]
fn a_standard_in_a_directory_of_settings_does_not_make_errors_warnings() {
    let dir = scratch("check-config-dir-standard");
    let head = "apiVersion: podkeeper.dev/v1alpha1\nkind: PodkeeperConfiguration\n";
    fs::write(dir.join("a.conf"), format!("{head}podSecurity: baseline\n")).unwrap();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  nodeName: far\n  containers:\n  \
               - {name: a, image: b}\n";
    let judged = |flags: &str| {
        let line = format!("check {flags} x");
        let files = Files { read: &config_file::read, list: &config_file::files::list };
        let Ok(Command::Check(parsed, _)) = parse_with(line.split_whitespace().map(Into::into), files) else {
            panic!("{line}")
        };
        let mut found = Report::new(&parsed, "node1").unwrap();
        found.decode(pod.as_bytes(), "web.yaml", None);
        found.judge();
        (found.count(Severity::Error), found.count(Severity::Warning))
    };
    assert_eq!(judged("--pod-security baseline"), (0, 1));
    assert_eq!(judged(&format!("--config {}", dir.join("a.conf").display())), (1, 0));
    assert_eq!(judged(&format!("--config-dir {}", dir.display())), (1, 0));
    fs::remove_dir_all(&dir).unwrap();
}

/// Sources share objects as `run` decides it.
#[test]
fn what_one_source_keeps_from_another_is_told() {
    let dir = scratch("check-sources");
    let write = |place: &str, text: &str| {
        fs::create_dir_all(dir.join(place).parent().unwrap()).unwrap();
        fs::write(dir.join(place), text).unwrap();
    };
    let pod = |metadata: &str, container: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  {metadata}\nspec:\n  containers:\n  - {{name: a, image: b{container}}}\n"
        )
    };
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n";
    write("m/web.yaml", &pod("{name: web}", ""));
    write("m/uid.yaml", &pod("{name: mine, uid: u-1}", ", ports: [{containerPort: 1, hostPort: 80}]"));
    write("m/map.yaml", map);
    write("u/web.yaml", &pod("{name: web}", ", command: [x]"));
    write("u/uid.yaml", &pod("{name: other, uid: u-1}", ""));
    write("u/port.yaml", &pod("{name: port}", ", ports: [{containerPort: 1, hostPort: 80}]"));
    write("u/refers.yaml", &pod("{name: refers}", ", envFrom: [{configMapRef: {name: c}}]"));
    let told = |flags: &str| {
        let source = format!("{flags} --source=http={}", dir.join("u").display());
        let line = format!("check {source} {}", dir.join("m").display());
        let Ok(Command::Check(parsed, paths)) =
            parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned()))
        else {
            panic!("{line}")
        };
        let mut report = Report::new(&parsed, "node1").unwrap();
        report.read_all(&parsed.options, &paths);
        report.judge();
        let all: String = lines(&report).iter().map(|line| format!("{line}\n")).collect();
        (all + &report.summary()).replace(&dir.display().to_string(), "DIR")
    };
    crate::base::testing::golden("cli/check-sources.txt", &told(""));
    let shared = told("--source-policy http=shared-objects=file/ConfigMap/default/c");
    assert!(!shared.contains("refers"), "{shared}");
    fs::remove_dir_all(&dir).unwrap();
}

/// An error in one pod hides neither its other errors nor those of other pods.
#[test]
fn a_misfit_hides_nothing() {
    let pod = |name: &str, spec: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}---\n")
    };
    let misfit = pod(
        "misfit",
        "  volumes: [{name: 5, emptyDir: {}}, {name: w, hostPath: {path: 7}}]\n  containers:\n  - name: app\n    image: 7\n    \
         volumeMounts: [{name: '5', mountPath: /v}]\n    ports: [oops, {containerPort: 70000}]\n    typo: 1\n  - {name: Two, \
         image: b}\n",
    );
    let other = pod("other", "  nodeName: far\n  containers: [{name: app, image: a}]\n");
    let mut found = empty("");
    found.decode((misfit + &other).as_bytes(), "a.yaml", None);
    found.judge();
    let told: String = lines(&found).iter().map(|l| format!("{l}\n")).collect();
    crate::base::testing::golden("cli/check-misfit.txt", &told);
}

/// `run` resolves the priority in the same way.
#[test]
fn a_priority_that_a_source_may_not_have_is_told() {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  priorityClassName: system-node-critical\n  \
               containers: [{name: a, image: 'b:1'}]\n";
    let told = |flags: &str| {
        let mut report = empty(flags);
        report.decode(pod.as_bytes(), "web.yaml", None);
        report.judge();
        lines(&report)
    };
    assert_eq!(told(""), [""; 0]);
    assert_eq!(
        told("--source-policy file=max-priority=7"),
        [
            "web.yaml:5:3: warning: pod default/web: spec.priorityClassName: counts as 7: the highest that pods of source \
          file may have (--source-policy file=max-priority)"
        ]
    );
}

/// Regression: it was said to be in none of the files that were checked.
#[test]
fn a_claim_with_errors_of_its_own_is_in_the_files() {
    let claim = |size: &str| {
        format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: disk}}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
             resources: {{requests: {{storage: {size}}}}}\n"
        )
    };
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n  containers:\n  - {name: a, image: 'b:1', \
               volumeMounts: [{name: v, mountPath: /v}]}\n  \
               volumes: [{name: v, persistentVolumeClaim: {claimName: disk}}]\n";
    let told = |claim: &str| {
        let mut report = empty("");
        report.decode(claim.as_bytes(), "claim.yaml", None);
        report.decode(pod.as_bytes(), "web.yaml", None);
        report.judge();
        let all = lines(&report).into_iter().filter(|line| line.starts_with("web.yaml"));
        all.map(|line| line.rsplit_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&claim("1Gi")), [""; 0]);
    assert_eq!(told(&claim("1Xi")), ["PersistentVolumeClaim default/disk is refused for its own errors"]);
    assert_eq!(told(""), ["PersistentVolumeClaim default/disk is in none of the files that were checked"]);
}
