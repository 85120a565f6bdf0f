//! The command line, as a user writes it.

use std::time::Duration;

use super::super::flags::Output;
use super::*;
use crate::base::testing::golden;
use crate::cli::help;
use crate::pod::Source;
use crate::runtime::docker::Endpoint;

fn words(line: &str) -> Result<Command, UsageError> {
    parse(line.split_whitespace().map(OsString::from), &|_| Err("no file".to_owned()))
}

fn run(line: &str) -> Options {
    match words(line) {
        Ok(Command::Run(parsed)) => parsed.options,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str) -> String {
    words(line).unwrap_err().message
}

#[test]
fn one_flag_is_enough_for_run() {
    let o = run("run --pod-manifest-path /etc/m");
    assert_eq!(o.sources.manifest_path, Some(PathBuf::from("/etc/m")));
    assert_eq!(o.sources.file_check_frequency, Duration::from_secs(20));
    assert_eq!(o.sources.sync_frequency, Duration::from_secs(60));
    assert_eq!(o.docker.pull_progress_deadline, Duration::from_secs(60));
    assert_eq!(
        (o.sources.http_check_frequency, o.sources.url_max_size),
        (Duration::from_secs(20), 1024 * 1024)
    );
    assert_eq!((o.sources.url, o.sources.url_headers.len()), (None, 0));
    assert_eq!(o.directories.root, PathBuf::from("/var/lib/podkeeper"));
    assert_eq!(o.directories.run, PathBuf::from("/run/podkeeper"));
    assert_eq!(o.docker.endpoint, Endpoint::Unix("/var/run/docker.sock".into()));
    assert_eq!(o.policy.host_network_sources, vec![Source::File, Source::Http, Source::Api]);
    assert_eq!((o.policy.all.allow_privileged, o.logging.verbosity, o.docker.infra_image), (false, 0, None));
}

#[test]
fn flags_in_every_spelling() {
    let o = run(
        "run --pod_manifest_path=/m --sync_frequency 10s --allow-privileged -v4 --docker-endpoint fake://",
    );
    assert_eq!(o.sources.sync_frequency, Duration::from_secs(10));
    assert_eq!(
        (o.policy.all.allow_privileged, o.logging.verbosity, o.docker.endpoint),
        (true, 4, Endpoint::Fake)
    );
    let o = run("run --pod-manifest-path /m --allow-privileged --allow-privileged=false --v=2");
    assert_eq!((o.policy.all.allow_privileged, o.logging.verbosity), (false, 2));
    let o = run("run --pod-manifest-path /m --node-labels a=b,c=d --node-labels e= --host-network-sources=");
    assert_eq!(o.node.labels.len(), 3);
    assert_eq!(o.policy.host_network_sources, vec![]);
}

#[test]
fn top_is_of_the_node_or_of_pods() {
    let check = |line: &str, of_pods: bool, expected: &[&str]| {
        let (found, names) = match words(line) {
            Ok(Command::TopPods(_, names)) => (true, names),
            Ok(Command::TopNode(_, names)) => (false, names),
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(
            (found, names.iter().map(String::as_str).collect::<Vec<_>>()),
            (of_pods, expected.to_vec())
        );
    };
    check("top node", false, &[]);
    check("top nodes node1", false, &["node1"]);
    check("top pods", true, &[]);
    check("top po web db --sort-by cpu", true, &["web", "db"]);
    check("top pod/web pod/db", true, &["web", "db"]);
}

#[test]
fn the_urls_flags_have_rules_and_keep_secrets() {
    let o = run("run --manifest-url https://a/b?c --manifest-url-header a:1,b:2 --manifest-url-header a:3");
    assert_eq!(o.sources.url.unwrap().full(), "https://a/b?c");
    let headers: Vec<_> = o.sources.url_headers.iter().map(|h| (h.name.as_str(), h.value.as_str())).collect();
    assert_eq!(headers, [("a", "1"), ("b", "2"), ("a", "3")]);
    run("run --manifest-url http://127.0.0.1/");
    run("run --manifest-url http://a/ --manifest-url-allow-insecure");
    run("run --manifest-url https://a/ --manifest-url-cert-file c --manifest-url-key-file k");
    let check = |flags: &str, part: &str| {
        let message = refused(&format!("run {flags}"));
        assert!(message.contains(part) && !message.contains("secret"), "{flags}: {message}");
    };
    check("--manifest-url=", "no source of pods");
    check("--manifest-url ftp://secret", "must be https://HOST/PATH");
    check("--manifest-url https://u:secret@a/", "must not hold a user or a password");
    check("--manifest-url https://a/ --manifest-url-header secret", "malformed pair, expect string:string");
    check("--manifest-url http://a/?secret", "http://a/ is plain http to another machine");
    check("--manifest-url http://localhost.a/", "is plain http to another machine");
    check("--manifest-url https://a/ --manifest-url-cert-file c", "go together");
    check("--manifest-url https://a/ --manifest-url-key-file k", "go together");
    check("--manifest-url https://a/ --manifest-url-max-size 0", "must be between 1 and 67108864");
    check("--manifest-url https://a/ --manifest-url-max-size 99999999", "must be between 1 and");
    check("--manifest-url https://a/ --http-check-frequency 1ms", "(--http-check-frequency) 1ms must be");
}

#[test]
fn pulls_are_paced_as_the_kubelet_has_it() {
    let o = run("run --pod-manifest-path /m");
    assert_eq!((o.docker.serialize_image_pulls, o.docker.max_parallel_image_pulls), (None, None));
    assert_eq!((o.docker.registry_qps, o.docker.registry_burst), (5, 10));
    assert_eq!(o.docker.image_preload_dir, Some("/var/lib/podkeeper/images".into()));
    let o = run("run --pod-manifest-path /m --serialize-image-pulls=false --max-parallel-image-pulls 3 \
                 --registry-qps 0 --registry-burst 0 --image-preload-dir=");
    assert_eq!((o.docker.serialize_image_pulls, o.docker.max_parallel_image_pulls), (Some(false), Some(3)));
    assert_eq!((o.docker.registry_qps, o.docker.registry_burst, o.docker.image_preload_dir), (0, 0, None));
    let check = |flags: &str, expected: &str| {
        let why = refused(&format!("run --pod-manifest-path /m {flags}"));
        assert!(why.contains(expected), "{why}");
    };
    check("--max-parallel-image-pulls 0", "must be a positive number");
    check("--registry-qps=-1", "must not be a negative number");
    check("--registry-burst 0", "registryBurst (--registry-burst) 0 would let no pull begin");
    check(
        "--serialize-image-pulls --max-parallel-image-pulls 2",
        "maxParallelImagePulls (--max-parallel-image-pulls) 2 cannot be larger than 1 unless \
         SerializeImagePulls (--serialize-image-pulls) is set to false",
    );
}

#[test]
fn images_and_archives_by_hand() {
    let Ok(Command::Pull(o, images)) = words("pull --root-dir /r a:1 b") else { panic!() };
    assert_eq!((o.directories.root, images), ("/r".into(), vec!["a:1".to_owned(), "b".to_owned()]));
    let Ok(Command::Load(_, files)) = words("load a.tar -") else { panic!() };
    assert_eq!(files, [PathBuf::from("a.tar"), PathBuf::from("-")]);
    assert_eq!(refused("pull"), "no image given");
    assert!(refused("load").starts_with("no archive given"));
}

#[test]
fn policies_are_read() {
    let none = run("run --pod-manifest-path /m").policy.all;
    assert_eq!(none, crate::policy::SourcePolicy::default());
    let some = run("run --pod-manifest-path /m --pod-security file=baseline,http=restricted:v1.30 \
         --allowed-host-paths /var/log,/etc:ro --allowed-host-paths=/srv --allowed-images= \
         --require-image-digest");
    let levels: Vec<String> =
        some.policy.pod_security.iter().map(|(source, at)| format!("{source}={at}")).collect();
    assert_eq!(levels, ["file=baseline:latest", "http=restricted:v1.30"]);
    let some = some.policy.all;
    let paths: Vec<String> = some.allowed_host_paths.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(paths, ["/var/log", "/etc:ro", "/srv"]);
    assert_eq!((some.allowed_images, some.require_image_digest), (Some(vec![]), true));
    let last = run("run --pod-manifest-path /m --pod-security restricted --pod-security api=baseline");
    assert_eq!(last.policy.pod_security.len(), 1);
}

#[test]
fn a_container_is_added_with_or_without_a_command() {
    let debug = |line: &str| match words(line) {
        Ok(Command::Debug(options, pod, command)) => {
            (options.command.debug.image, options.command.debug.target, pod, command.join(" "))
        }
        other => panic!("{line}: {other:?}"),
    };
    let image = Some("busybox".to_owned());
    let with = debug("debug pod/web --image busybox -it --target app -- sh -c x");
    assert_eq!(with, (image.clone(), Some("app".into()), "web".into(), "sh -c x".into()));
    assert_eq!(debug("debug web --image busybox"), (image, None, "web".into(), String::new()));
    assert!(
        matches!(words("explain pod.spec --recursive"), Ok(Command::Explain(o, f)) if o.command.recursive && f == "pod.spec")
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let check = |line: &str, part: &str| {
        let message = refused(line);
        assert!(message.contains(part), "{line}: {message}");
    };
    check("", "no command given");
    check("debug web", "you must specify --image");
    check("debug --image i", "no pod given");
    check("debug web --image i -t", "-i/--stdin is required for containers with -t/--tty=true");
    check("explain", "you must specify the field to be explained");
    check("explain pod pod.spec", "one field at a time");
    check("run --pod-manifest-path m --docker-network host", "pods need a network that gives them addresses");
    check("run --pod-manifest-path m --cluster-dns dns", "\"dns\" is not an IP address");
    check(
        "run --pod-manifest-path m --node-ip 1.2.3.4,5.6.7.8",
        "must be one address, or one of IPv4 and one",
    );
    check(
        "check --pod-security strict a.yaml",
        "invalid argument \"strict\" for \"--pod-security\" flag: \
         level \"strict\" must be one of privileged, baseline, restricted",
    );
    check("run --pod-security restricted:1.25", "version \"1.25\" must be \"latest\" or \"v1.x\"");
    check("run --allowed-host-paths var", "\"var\" must be an absolute path");
    check("check --allowed-images a/* x.yaml", "\"a/*\" is neither an image nor the beginning of one");
    check("get pods --pod-security baseline", "unknown flag: --pod-security");
    check("rnu", "unknown command \"rnu\" (did you mean run?)");
    check("events", "unknown command \"events\" (did you mean get events?)");
    check("uncordon", "unknown command \"uncordon\" (did you mean resume?)");
    check(
        "delete pod web",
        "unknown command \"delete\": write or remove a pod's manifest; kubectl itself works with --api-address of run",
    );
    check(
        "stop",
        "unknown command \"stop\": write or remove a pod's manifest; kubectl itself works with --api-address of run",
    );
    check("status", "unknown command \"status\" (did you mean get pods, get sources, or describe?)");
    check("drain --grace 5s", "parsing \"5s\": a whole number of seconds is wanted, without a unit");
    check("drain --timeout 5", "missing unit in duration \"5\": such as 30s or 1m30s");
    check("drain --timeout 5x", "unknown unit \"x\" in duration \"5x\": such as 30s or 1m30s");
    check("run --pod-manifest-path /m --max-pods 5s", "parsing \"5s\": a whole number is wanted");
    check("help rnu", "unknown command \"rnu\" (did you mean run?)");
    check("help run get", "unexpected argument \"get\"");
    check("get sources --for pod/a", "--for chooses among events");
    check("get sources -w", "--watch is of pods and events");
    check("describe -A pod/a", "cannot be retrieved by name across all namespaces");
    check("top", "say of what: top node, or top pods");
    check("top web", "\"web\" has no figures: say of what: top node, or top pods");
    check("top pods web -A", "cannot be retrieved by name across all namespaces");
    check("top node --containers", "are of pods: podkeeper top pods");
    check("top pods --sort-by name", "must be cpu or memory");
    check("zzzzzz", "unknown command \"zzzzzz\"");
    check("run", "no source of pods: give --pod-manifest-path DIR");
    check(
        "run --pod-manifest-path m --docker-network-cidr 10.9.0.0/16",
        "is of a network that --docker-network names",
    );
    check("run --pod-manifest-path m --manifest-min-version 2", "it needs --manifest-verify-key");
    check(
        "run --pod-manifst-path /m",
        "unknown flag: --pod-manifst-path (did you mean --pod-manifest-path?)",
    );
    for line in ["get pods --root-dir /r", "logs web --root-dir=/r", "images --root-dir /r"] {
        check(line, "the daemon that it asks is the one of --run-dir");
    }
    check("run --kubeconfigs /m", "unknown flag: --kubeconfigs");
    check("run -x", "unknown shorthand flag: -x");
    check("run --pod-manifest-path", "flag needs an argument: --pod-manifest-path");
    check("run --pod-manifest-path=", "must not be empty");
    check("run --pod-manifest-path /m extra", "unexpected argument \"extra\"");
    check("run --pod-manifest-path /m --sync-frequency 5", "missing unit in duration \"5\"");
    check(
        "run --pod-manifest-path /m --sync-frequency 1ms",
        "syncFrequency (--sync-frequency) 1ms must be at least 100ms",
    );
    for period in ["0s", "999ms", "301s"] {
        let line = format!("run --pod-manifest-path /m --max-container-restart-period {period}");
        check(&line, "must be set between 1s and 300s");
    }
    check("run --pod-manifest-path /m --allow-privileged=maybe", "parsing \"maybe\": invalid syntax");
    check("run --pod-manifest-path /m --hostname-override a_b", "must be an RFC 1123 subdomain");
    check("run --pod-manifest-path /m --docker-endpoint tcp://1.2.3.4", "must be unix:///PATH or fake://");
    check("run --pod-manifest-path /m --host-network-sources x", "unknown pod source \"x\"");
    check("run --pod-manifest-path /m -v 11", "must be between 0 and 10, inclusive");
    check("check", "no manifest given");
    check("get", "you must specify the type of resource");
    check("get nodes -w", "get node shows one node at one moment");
    check("describe node -A", "a node has no namespace");
    check("get services", "no resource type \"services\"");
    check("get pods -A web", "cannot be retrieved by name across all namespaces");
    check("check -o wide x", "invalid argument \"wide\" for \"--output\" flag: allowed formats are: json");
    check("check -o jsonpath={.a} x", "allowed formats are: json");
    check("stats -o name", "allowed formats are: json,yaml");
    check("get pods -o xml", "allowed formats are: wide,json,yaml,name");
    check("get pods -w -o json", "--watch prints rows");
    check("logs", "no pod given");
    check("logs a b c", "unexpected argument \"b\"");
    check("logs a -c b c", "unexpected argument \"c\"");
    check("logs a b --all-containers", "--all-containers does not go with the name of a container");
    check("logs a -l b", "only a selector (-l) or the name of a pod is allowed");
    check("logs a -A", "-A goes with -l");
    check("logs a --since 1s --since-time 2026-01-02T03:04:05Z", "at most one of --since and --since-time");
    check("get pods -l a=$", "invalid argument \"a=$\"");
    check("get pods --field-selector spec.x=1", "field label not supported: spec.x");
    check("get pods web -l a", "name cannot be provided when a selector is specified");
    check("logs a --tail -2", "must be greater than or equal to -1");
    check("exec a", "at least one command");
    check("exec a --", "at least one command");
    check("exec a ls", "the command comes after --");
    check("exec -- ls", "no pod given");
}

/// `config` takes only settings that `run` takes, and names itself in the error.
#[test]
fn config_refuses_what_run_refuses() {
    for flags in [
        "",
        "--pod-manifest-path /m --docker-network-cidr 10.9.0.0/16",
        "--pod-manifest-path /m --manifest-min-version 2",
        "--pod-manifest-path /m --hostname-override a_b",
        "--pod-manifest-path /m --tls-cert-file c",
    ] {
        let of = |verb: &str| words(&format!("{verb} {flags}")).unwrap_err();
        let (run, config) = (of("run"), of("config"));
        assert_eq!((run.message, run.exit), (config.message, config.exit), "{flags}");
        assert_eq!((run.verb, config.verb), (Some(Verb::Run), Some(Verb::Config)), "{flags}");
    }
    for flags in ["--manifest-min-version 2", "--hostname-override a_b"] {
        let run = words(&format!("run --pod-manifest-path m {flags}")).unwrap_err();
        let check = words(&format!("check {flags} x")).unwrap_err();
        assert_eq!((run.message, Some(Verb::Check)), (check.message, check.verb), "{flags}");
    }
}

#[test]
fn commands_that_look_at_pods() {
    let Ok(Command::Get(o, names)) = words("get po web db -n kube-system -o wide -w --no-headers") else {
        panic!()
    };
    assert_eq!(
        (names, o.command.namespace.as_str(), o.command.output),
        (vec!["web".into(), "db".into()], "kube-system", Output::Wide)
    );
    assert!(o.command.watch && o.command.no_headers);
    let Ok(Command::Get(o, names)) = words("get pod/web pods/db") else { panic!() };
    assert_eq!((names, o.command.namespace.as_str()), (vec!["web".to_owned(), "db".to_owned()], "default"));
    let Ok(Command::Logs(o, LogsOf::Pod(pod))) = words("logs pod/web -fpt --tail=3 --since 1m30s -c app")
    else {
        panic!()
    };
    assert_eq!((pod.as_str(), o.logs.tail, o.logs.since), ("web", Some(3), Duration::from_secs(90)));
    assert!(o.logs.follow && o.logs.previous && o.logs.timestamps);
    let Ok(Command::Exec(o, pod, command)) = words("exec -it web -c app -- sh -c -- --help") else {
        panic!()
    };
    assert_eq!((pod.as_str(), command), ("web", ["sh", "-c", "--", "--help"].map(String::from).to_vec()));
    assert!(o.command.stdin && o.command.tty);
}

#[test]
fn help_is_generated_from_the_entries() {
    assert_eq!(words("--help"), Ok(Command::Help(None)));
    assert_eq!(words("run --nonsense-comes-later -h"), words("run --nonsense-comes-later"));
    assert_eq!(words("run -h"), Ok(Command::Help(Some(Verb::Run))));
    assert_eq!(words("help get"), Ok(Command::Help(Some(Verb::Get))));
    golden("cli/help.txt", &help::text(None));
    for verb in Verb::ALL {
        let text = help::text(Some(*verb));
        for flag in flags::of(*verb).filter(|flag| flag.verbs.contains(verb)) {
            assert!(
                text.contains(&format!("-{}", flag.name)) && text.contains(&flag.said()),
                "{}",
                flag.name
            );
        }
        golden(&format!("cli/help-{}.txt", verb.word()), &text);
    }
}

#[test]
fn the_entries_hold_together() {
    // `run` knows at most one flag of each name: fields of settings are found by it.
    for flag in flags::of(Verb::Run) {
        assert_eq!(flags::all().filter(|other| other.name == flag.name).count(), 1, "{}", flag.name);
    }
    for verb in Verb::ALL {
        let mut seen = Vec::new();
        for flag in flags::of(*verb) {
            let names = [Some(flag.name.to_owned()), flag.short.map(String::from)];
            for name in names.into_iter().flatten().filter(|n| n != "v") {
                assert!(!seen.contains(&name), "{} twice in {}", name, verb.word());
                seen.push(name);
            }
            let help = flag.help();
            assert!(flag.said().len() <= 105 && (1..=90).contains(&help.len()), "{}", flag.said());
            assert!(!help.ends_with('.') && !help.contains("repeated"), "{help}");
        }
    }
    let named = include_str!("../flags/help.txt").lines().map(|line| line.split('\t').next().unwrap());
    assert_eq!(named.collect::<Vec<_>>(), flags::all().map(|flag| flag.name).collect::<Vec<_>>());
    assert!(Options::defaults().is_ok());
}

proptest::proptest! {
    #[test]
    fn no_argument_breaks_the_parser(words in proptest::collection::vec("\\PC{0,20}", 0..6), verb in 0..Verb::ALL.len()) {
        let verb = Verb::ALL[verb].word();
        let _ = parse(std::iter::once(verb.to_owned()).chain(words).map(OsString::from), &|_| Err("no file".to_owned()));
    }
}

#[test]
fn cp_reads_its_ends_as_kubectl_does() {
    let check = |line: &str, way: Way, pod: &str, inside: &str, outside: &str, namespace: &str| {
        let Ok(Command::Copy(options, copied)) = words(line) else { panic!("{line}: {:?}", words(line)) };
        let expected = Copied { way, pod: pod.into(), inside: inside.into(), outside: outside.into() };
        assert_eq!((copied, options.command.namespace.as_str()), (expected, namespace), "{line}");
    };
    check("cp web:/etc/hosts ./x", Way::Out, "web", "/etc/hosts", "./x", "default");
    check("cp x kube-system/web:a:b -c app", Way::In, "web", "a:b", "x", "kube-system");
    check("cp ./a:b web:/tmp -n ns", Way::In, "web", "/tmp", "./a:b", "ns");
    check("cp a/web:/tmp /x:y --no-preserve", Way::Out, "web", "/tmp", "/x:y", "a");
    let no = |line: &str, why: &str| assert!(refused(line).contains(why), "{line}: {}", refused(line));
    no("cp x", "say what to copy");
    no("cp x y", "one of src or dest must be a remote file specification");
    no("cp a:x b:y", "one of src or dest must be a local file specification");
    no("cp a: y", "filepath can not be empty");
    no("cp a/b/c:x y", "filespec must match the canonical format");
    no("cp /x :y", "filespec must match the canonical format");
}

/// `kubeadm token create --print-join-command` prints these names.
#[test]
fn join_takes_the_flags_of_kubeadm() {
    let pin = format!("sha256:{}", "00".repeat(32));
    let line = |flag: &str| format!("join 10.0.0.1:6443 --token 07401b.f395accd246ae52d {flag}");
    let parsed =
        |flag: &str| match super::parse(
            line(flag).split_whitespace().map(Into::into),
            &|_| Err(String::new()),
        ) {
            Ok(Command::Join(options, _)) => options.command.join.clone(),
            other => panic!("{other:?}"),
        };
    let told = parsed(&format!("--discovery-token-ca-cert-hash {pin}"));
    assert_eq!((told.clone(), told.ca_cert_hashes.len()), (parsed(&format!("--ca-cert-hash {pin}")), 1));
    assert!(parsed("--discovery-token-unsafe-skip-ca-verification").skip_ca_check);
    let other =
        super::parse(["run", "--discovery-token-ca-cert-hash=x"].map(Into::into).into_iter(), &|_| {
            Err(String::new())
        });
    assert!(format!("{other:?}").contains("unknown flag: --discovery-token-ca-cert-hash"), "{other:?}");
}
