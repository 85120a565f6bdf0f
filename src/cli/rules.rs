//! What must hold between the values of settings, after flags and configuration file have been read.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use super::flags::Verb;
use super::options::Options;
use super::parse::{UsageError, usage};
use super::value;

/// Shortest period a user may ask for: below, the daemon would be busy looking.
const SHORTEST_PERIOD: Duration = Duration::from_millis(100);

/// The rules over values, worded like the kubelet's (`pkg/kubelet/apis/config/validation/validation.go`). All
/// that is wrong is told at once.
pub(super) fn check_run(o: &Options) -> Result<(), UsageError> {
    let mut wrong = Vec::new();
    let periods = [
        ("fileCheckFrequency", "file-check-frequency", o.file_check_frequency),
        ("httpCheckFrequency", "http-check-frequency", o.http_check_frequency),
        ("syncFrequency", "sync-frequency", o.sync_frequency),
        ("imagePullProgressDeadline", "image-pull-progress-deadline", o.pull_progress_deadline),
    ];
    for (field, flag, period) in periods {
        if period < SHORTEST_PERIOD {
            wrong.push(format!("{field} (--{flag}) {period:?} must be at least {SHORTEST_PERIOD:?}"));
        }
    }
    if let (Some(most @ 2..), Some(true)) = (o.max_parallel_image_pulls, o.serialize_image_pulls) {
        wrong.push(format!(
            "maxParallelImagePulls (--max-parallel-image-pulls) {most} cannot be larger than 1 unless \
             SerializeImagePulls (--serialize-image-pulls) is set to false"
        ));
    }
    if o.registry_qps > 0 && o.registry_burst == 0 {
        wrong.push("registryBurst (--registry-burst) 0 would let no pull begin: give at least 1".to_owned());
    }
    if o.container_log_max_files < 2 || u32::try_from(o.container_log_max_files).is_err() {
        wrong.push(format!(
            "containerLogMaxFiles (--container-log-max-files) {} must be greater than 1",
            o.container_log_max_files
        ));
    }
    if o.container_log_max_size == 0 {
        wrong.push(
            "containerLogMaxSize (--container-log-max-size) 0 must be positive, or negative for no rotation"
                .to_owned(),
        );
    }
    if let Some(why) = wrong_log_dir(&o.pod_logs_dir) {
        wrong.push(format!("podLogsDir (--pod-logs-dir) {:?} {why}", o.pod_logs_dir));
    }
    if let Some(name) = &o.hostname_override
        && !value::is_dns_subdomain(&name.trim().to_lowercase())
    {
        wrong.push(format!("hostnameOverride (--hostname-override) {name:?} must be an RFC 1123 subdomain"));
    }
    if let Some(url) = &o.manifest_url
        && !(url.is_https() || url.is_loopback() || o.manifest_url_allow_insecure)
    {
        wrong.push(format!(
            "staticPodURL (--manifest-url) {url} is plain http to another machine: whoever can change the \
             answer is root on this node; use https, or give --manifest-url-allow-insecure"
        ));
    }
    if o.manifest_url_cert_file.is_some() != o.manifest_url_key_file.is_some() {
        wrong.push("--manifest-url-cert-file and --manifest-url-key-file go together".to_owned());
    }
    if !wrong.is_empty() {
        return usage(Verb::Run, format!("invalid configuration: {}", wrong.join(", ")));
    }
    if o.manifest_path.is_none() && o.manifest_url.is_none() {
        return usage(
            Verb::Run,
            "no source of pods: give --pod-manifest-path DIR (a directory of manifests, or one file), \
             or --manifest-url URL",
        );
    }
    Ok(())
}

/// What the kubelet's validation says of a directory for pod logs.
fn wrong_log_dir(dir: &Path) -> Option<&'static str> {
    let text = dir.to_string_lossy();
    let normal: PathBuf = dir.components().collect();
    let up = dir.components().any(|c| matches!(c, Component::ParentDir));
    if text.is_empty() {
        Some("was not specified")
    } else if !text.is_ascii() {
        Some("must contain only ASCII characters")
    } else if !dir.is_absolute() {
        Some("must be absolute path")
    } else if up || normal.as_os_str() != dir.as_os_str() {
        Some("must be normalized")
    } else if dir.file_name().is_none() {
        Some("must not be the root directory")
    } else {
        None
    }
}
