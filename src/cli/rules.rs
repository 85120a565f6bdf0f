//! Rules between the values of flags, checked after the command line and the configuration file have been read. A rule
//! against the value of one flag is in that flag's entry ([`flags::Flag::rule`]), even if it depends on another flag;
//! the rules here blame no single flag. `parse/operands.rs` checks which flags go with which words.

use super::flags::server::{Mode, Values};
use super::flags::{self, Options, Verb};
use super::given::Parsed;
use super::parse::{UsageError, usage};
use crate::cluster::node::labels;
use crate::manifest::edition::Edition;
use crate::runtime::docker::Endpoint;

/// Returns a sentence for the user when the rule is broken.
type Rule = fn(&Options) -> Option<String>;

/// Rules between flags, for `run` and `check`.
const BETWEEN: &[Rule] = &[
    |o| {
        let is_alone =
            o.sources.verify_keys.is_empty() && o.sources.manifest_min_version != Edition::Unnumbered;
        is_alone.then(|| {
            "--manifest-min-version is of signed manifests: it needs --manifest-verify-key".to_owned()
        })
    },
    |o| {
        let is_alone = o.docker.network.is_none() && !o.docker.network_cidrs.is_empty();
        is_alone.then(|| "--docker-network-cidr is of a network that --docker-network names".to_owned())
    },
    |o| {
        let both = o.network.is_cni && o.docker.network.is_some();
        both.then(|| {
            "--network-plugin=cni and --docker-network exclude each other: plugins attach pods, or Docker does"
                .to_owned()
        })
    },
    |o| {
        let both = o.network.is_cni && o.docker.endpoint == Endpoint::Fake;
        both.then(|| "--network-plugin=cni needs pods that run: fake:// is a Docker in memory".to_owned())
    },
    |o| {
        let is_half = o.sources.url_cert_file.is_some() != o.sources.url_key_file.is_some();
        is_half.then(|| "--manifest-url-cert-file and --manifest-url-key-file go together".to_owned())
    },
    |o| {
        let is_alone = o.sources.kubeconfig.is_none() && o.cluster.bootstrap.is_some();
        is_alone.then(|| {
            "--bootstrap-kubeconfig needs --kubeconfig: where the node's own credentials are written"
                .to_owned()
        })
    },
    |o| {
        let has_server = o.sources.kubeconfig.is_some() || o.server.api_address.is_some();
        (o.sources.runs_once && has_server).then(|| {
            "--runonce is for the pods of files and a URL: it excludes --kubeconfig and --api-address"
                .to_owned()
        })
    },
    |o| {
        let both = o.cluster.asks_serving && o.server.cert_file.is_some();
        both.then(|| "--rotate-server-certificates and --tls-cert-file exclude each other".to_owned())
    },
    |o| servers(&o.server).map(str::to_owned),
    |o| o.node.gives.host.check(o.node.gives.cgroups_per_qos, &o.node.gives.cgroup_root).err(),
];

/// Rules between flags, for a node with credentials of its own: hollow nodes have those of an administrator.
const OF_NODE: &[Rule] =
    &[|o| if o.sources.kubeconfig.is_some() { labels::refused(&o.node.labels) } else { None }];

/// The error in the flags of the servers together.
fn servers(s: &Values) -> Option<&'static str> {
    let ports = [s.port, s.read_only_port, s.healthz_port, s.cadvisor_port];
    let twice = |port: &u16| *port != 0 && ports.iter().filter(|other| *other == port).count() > 1;
    if s.cert_file.is_some() != s.key_file.is_some() {
        return Some("--tls-cert-file and --tls-private-key-file go together");
    }
    if s.port != 0 && s.client_ca_file.is_none() && !s.anonymous_auth && !s.token_webhook {
        return Some(
            "--port is of no use to anybody: give --client-ca-file with the authorities of its clients",
        );
    }
    ports
        .iter()
        .any(twice)
        .then_some("--port, --read-only-port, --healthz-port and --cadvisor-port must differ")
}

/// Checks the values that `run` starts with; `check` uses it for the configuration file, too. Reports all errors at
/// once.
///
/// # Errors
/// The errors, in the words of this command.
pub(super) fn check_values(verb: Verb, o: &Options) -> Result<(), UsageError> {
    let of_one = |flag: &flags::Flag| {
        let why = (flag.rule)(o)?;
        Some(format!("{} (--{}) {why}", flag.field().unwrap_or_default(), flag.name))
    };
    let mut wrong: Vec<String> = flags::of(Verb::Run).filter_map(of_one).collect();
    wrong.extend(BETWEEN.iter().filter_map(|rule| rule(o)));
    if verb != Verb::Hollow {
        wrong.extend(OF_NODE.iter().filter_map(|rule| rule(o)));
    }
    if !wrong.is_empty() {
        return usage(verb, format!("invalid configuration: {}", wrong.join(", ")));
    }
    Ok(())
}

/// Checks the values for `run`, and for `config`, which prints them. `check` does not need a source of pods: a flag of
/// `run` may add it to the file.
///
/// # Errors
/// As [`check_values`], or there is no source of pods.
pub(super) fn check_run(verb: Verb, o: &Options) -> Result<(), UsageError> {
    check_values(verb, o)?;
    let s = &o.sources;
    let has_none = s.manifest_path.is_none() && s.url.is_none() && s.kubeconfig.is_none();
    if has_none && o.server.api_address.is_none() {
        return usage(
            verb,
            "no source of pods: give --pod-manifest-path DIR (a directory of manifests, or one file), \
             --manifest-url URL, --kubeconfig FILE, or --api-address IP:PORT for kubectl; a package's settings are \
             --config /etc/podkeeper/config.yaml",
        );
    }
    Ok(())
}

/// Checks the values for `hollow`.
///
/// # Errors
/// As [`check_values`], or there is no API server.
pub(super) fn check_hollow(verb: Verb, o: &Options) -> Result<(), UsageError> {
    check_values(verb, o)?;
    if o.sources.kubeconfig.is_none() {
        return usage(verb, "no API server: give --kubeconfig FILE");
    }
    Ok(())
}

/// Notes about what has no effect: fields of the files, and flags.
pub(super) fn notes(parsed: &Parsed) -> impl Iterator<Item = String> {
    let all = parsed.notes.iter().cloned().chain(without_effect(&parsed.options));
    all.map(|note| format!("note: {note}"))
}

/// Notes about flags that are given and have no effect, with the reason.
pub(super) fn without_effect(o: &Options) -> Vec<String> {
    if o.sources.kubeconfig.is_some() {
        return Vec::new();
    }
    let of_server = [
        ("--authorization-mode=Webhook", o.server.mode == Mode::Webhook),
        ("--authentication-token-webhook", o.server.token_webhook),
        ("--rotate-server-certificates", o.cluster.asks_serving),
        ("--register-with-taints", !o.cluster.taints.is_empty()),
    ];
    let why = "has no effect: --kubeconfig names no API server that could be asked";
    of_server.iter().filter(|(_, given)| *given).map(|(flag, _)| format!("{flag} {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_the_servers_that_do_not_go_together() {
        let none = Values::default();
        assert_eq!(servers(&none), None);
        let alone = Values { port: 10250, ..Values::default() };
        assert!(servers(&alone).unwrap().contains("--client-ca-file"));
        assert_eq!(servers(&Values { anonymous_auth: true, ..alone.clone() }), None);
        let same = Values { read_only_port: 10250, anonymous_auth: true, ..alone };
        assert!(servers(&same).unwrap().contains("must differ"));
        let half = Values { cert_file: Some("c".into()), ..none };
        assert!(servers(&half).unwrap().contains("go together"));
    }

    #[test]
    fn labels_that_a_node_may_not_set_are_refused_in_a_cluster() {
        let mut o = Options::defaults().unwrap();
        o.node.labels.insert("node-role.kubernetes.io/edge".to_owned(), String::new());
        assert_eq!(check_values(Verb::Run, &o), Ok(()), "there is no API server");
        o.sources.kubeconfig = Some("/k".into());
        assert_eq!(check_hollow(Verb::Hollow, &o), Ok(()), "its credentials are no node's");
        let told = check_run(Verb::Run, &o).unwrap_err();
        let words = "invalid configuration: unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: \
                     [node-role.kubernetes.io/edge]; ";
        assert!(format!("{told:?}").contains(words), "{told:?}");
    }

    #[test]
    fn what_needs_an_api_server_says_so_without_one() {
        let mut o = Options::defaults().unwrap();
        assert_eq!(without_effect(&o), [""; 0]);
        (o.server.token_webhook, o.cluster.asks_serving) = (true, true);
        o.cluster.taints = crate::cluster::node::parse_taints("a=b:NoSchedule").unwrap();
        let said = without_effect(&o);
        assert!(
            said.len() == 3 && said[0].starts_with("--authentication-token-webhook has no effect"),
            "{said:?}"
        );
        o.sources.kubeconfig = Some("/k".into());
        assert_eq!(without_effect(&o), [""; 0]);
    }
}
