//! What must hold between the values of flags, after they and the configuration file have been read. What holds of
//! one value stands in the flag's entry.

use super::flags::{self, Options, Verb};
use super::parse::{UsageError, usage};
use crate::manifest::edition::Edition;

/// What must hold for `run`, and for `check`, which judges by the same configuration.
///
/// # Errors
/// The first rule that is broken.
pub(super) fn check_together(o: &Options) -> Result<(), String> {
    if o.sources.verify_keys.is_empty() && o.sources.manifest_min_version != Edition::Unnumbered {
        return Err(
            "--manifest-min-version is of signed manifests: it needs --manifest-verify-key".to_owned()
        );
    }
    if o.docker.network.is_none() && !o.docker.network_cidrs.is_empty() {
        return Err("--docker-network-cidr is of a network that --docker-network names".to_owned());
    }
    Ok(())
}

/// What must hold of values that `run` begins with, also of those that `check` reads for it from the configuration
/// file. All that is wrong is told at once.
pub(super) fn check_values(verb: Verb, o: &Options) -> Result<(), UsageError> {
    let of_one = |flag: &flags::Flag| {
        let why = (flag.rule)(o)?;
        Some(format!("{} (--{}) {why}", flag.field().unwrap_or_default(), flag.name))
    };
    let mut wrong: Vec<String> = flags::of(Verb::Run).filter_map(of_one).collect();
    if o.sources.url_cert_file.is_some() != o.sources.url_key_file.is_some() {
        wrong.push("--manifest-url-cert-file and --manifest-url-key-file go together".to_owned());
    }
    if o.sources.kubeconfig.is_none() && o.cluster.bootstrap.is_some() {
        let why = "--bootstrap-kubeconfig needs --kubeconfig: where the node's own credentials are written";
        wrong.push(why.to_owned());
    }
    if o.sources.runs_once && (o.sources.kubeconfig.is_some() || o.server.api_address.is_some()) {
        wrong.push(
            "--runonce is for the pods of files and a URL: it excludes --kubeconfig and --api-address"
                .to_owned(),
        );
    }
    if o.cluster.asks_serving && o.server.cert_file.is_some() {
        wrong.push("--rotate-server-certificates and --tls-cert-file exclude each other".to_owned());
    }
    wrong.extend(o.server.problem().map(str::to_owned));
    let gives = &o.node.gives;
    wrong.extend(gives.host.check(gives.cgroups_per_qos, &gives.cgroup_root).err());
    if !wrong.is_empty() {
        return usage(verb, format!("invalid configuration: {}", wrong.join(", ")));
    }
    Ok(())
}

/// What must hold for `run` alone: the file that `check` is given may leave the source to a flag of `run`.
pub(super) fn check_run(o: &Options) -> Result<(), UsageError> {
    check_values(Verb::Run, o)?;
    let s = &o.sources;
    let has_none = s.manifest_path.is_none() && s.url.is_none() && s.kubeconfig.is_none();
    if has_none && o.server.api_address.is_none() {
        return usage(
            Verb::Run,
            "no source of pods: give --pod-manifest-path DIR (a directory of manifests, or one file), \
             --manifest-url URL, --kubeconfig FILE, or --api-address IP:PORT for kubectl",
        );
    }
    Ok(())
}
