//! Flags: where pods come from.

use std::path::PathBuf;
use std::time;

use super::Repeats::Adds;
use super::Takes::{Choice, Duration, Number, Path, Secret, Switch, Text};
use super::{CHECK, Flag, InFile, RUN, RUN_CHECK, RUN_HOLLOW, Section, Verb, of_verbs, put, value};
use crate::base::limits;
use crate::manifest::edition::Edition;
use crate::pod::Source;
use crate::source::http::headers::{self, Header};
use crate::source::http::url::ManifestUrl;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub manifest_path: Option<PathBuf>,
    pub file_check_frequency: time::Duration,
    /// Of `run` and of `check`.
    pub verify_keys: Vec<PathBuf>,
    pub manifest_min_version: Edition,
    pub strict: bool,
    pub last_good_key_file: Option<PathBuf>,
    /// `--source SOURCE`.
    pub source: Option<Source>,
    /// `--source SOURCE=PATH`.
    pub paths: Vec<(Source, PathBuf)>,
    pub url: Option<ManifestUrl>,
    pub url_headers: Vec<Header>,
    pub http_check_frequency: time::Duration,
    pub url_ca_file: Option<PathBuf>,
    pub url_cert_file: Option<PathBuf>,
    pub url_key_file: Option<PathBuf>,
    pub url_allow_insecure: bool,
    /// Bytes.
    pub url_max_size: usize,
    pub kubeconfig: Option<PathBuf>,
    pub api_last_good: bool,
    pub sync_frequency: time::Duration,
    pub runs_once: bool,
}

pub static SECTION: Section = Section {
    title: "Sources of pods",
    flags: &[
        Flag {
            name: "pod-manifest-path",
            field: "staticPodPath",
            takes: Path("PATH", |o, path| o.sources.manifest_path = Some(path)),
            help: "Directory of manifests (.yaml, .yml, .json), or one file",
            ..RUN
        },
        Flag {
            name: "file-check-frequency",
            takes: Duration(|o, time| o.sources.file_check_frequency = time),
            default: "20s",
            help: "Time between two readings of the manifests, longer at rest; changes are noticed at once",
            rule: |o| value::too_short(o.sources.file_check_frequency),
            ..RUN
        },
        Flag {
            name: "manifest-verify-key",
            takes: Path("FILE", |o, path| o.sources.verify_keys.push(path)),
            in_file: InFile::Each,
            repeats: Adds,
            help: "Accept only manifests signed with a minisign key of this file",
            ..RUN_CHECK
        },
        Flag {
            name: "manifest-min-version",
            takes: Text("N", |o, text| put(&mut o.sources.manifest_min_version, Edition::parse(text))),
            help: "Refuse signed manifests of a lower version: N or timestamp:N of the trusted comment",
            ..RUN_CHECK
        },
        Flag {
            name: "verify-key",
            takes: Path("FILE", |o, path| o.sources.verify_keys.push(path)),
            repeats: Adds,
            help: "The same as --manifest-verify-key",
            ..CHECK
        },
        Flag {
            name: "strict",
            takes: Switch(|o, on| o.sources.strict = on),
            help: "Treat warnings as errors",
            ..CHECK
        },
        Flag {
            name: "last-good-key-file",
            takes: Path("FILE", |o, path| o.sources.last_good_key_file = Some(path)),
            help: "32 random bytes that seal stored content; made below the root directory when not given",
            ..RUN
        },
        Flag {
            name: "source",
            takes: Text("SOURCE[=PATH]", |o, text| {
                match text.split_once('=') {
                    None => o.sources.source = Some(remembering(text)?),
                    Some((_, "")) => return Err("must not be empty behind the =".to_owned()),
                    Some((name, path)) => o.sources.paths.push((remembering(name)?, path.into())),
                }
                Ok(())
            }),
            repeats: Adds,
            help: "Source of the manifests: file or http; with a path, the source of the manifests there",
            ..CHECK
        },
        Flag {
            name: "source",
            takes: Choice(
                "SOURCE",
                &[
                    ("file", |o| o.sources.source = Some(Source::File)),
                    ("http", |o| o.sources.source = Some(Source::Http)),
                ],
            ),
            help: "The source to forget: file or http",
            ..of_verbs(&[Verb::Forget])
        },
        Flag {
            name: "manifest-url",
            field: "staticPodURL",
            takes: Secret("URL", |o, text| {
                let url = Some(text).filter(|text| !text.is_empty());
                o.sources.url = url.map(ManifestUrl::parse).transpose()?;
                Ok(())
            }),
            help: "URL of manifests; https, or http to loopback",
            rule: |o| {
                let url = o.sources.url.as_ref().filter(|_| !o.sources.url_allow_insecure)?;
                let open = !url.is_https() && !url.is_loopback();
                open.then(|| {
                    format!(
                        "{url} is plain http to another machine: whoever can change the answer is root on this \
                         node; use https, or give --manifest-url-allow-insecure"
                    )
                })
            },
            ..RUN
        },
        Flag {
            name: "manifest-url-header",
            field: "staticPodURLHeader",
            takes: Secret("NAME:VALUE,...", |o, text| headers::parse(text, &mut o.sources.url_headers)),
            in_file: InFile::Pairs(':'),
            repeats: Adds,
            help: "Headers of the requests to the URL",
            ..RUN
        },
        Flag {
            name: "http-check-frequency",
            takes: Duration(|o, time| o.sources.http_check_frequency = time),
            default: "20s",
            help: "Time between two requests to the URL, a tenth more or less",
            rule: |o| value::too_short(o.sources.http_check_frequency),
            ..RUN
        },
        Flag {
            name: "manifest-url-ca-file",
            takes: Path("FILE", |o, path| o.sources.url_ca_file = Some(path)),
            help: "Certificate authorities of the URL's server, PEM; the system's when not given",
            ..RUN
        },
        Flag {
            name: "manifest-url-cert-file",
            takes: Path("FILE", |o, path| o.sources.url_cert_file = Some(path)),
            help: "Client certificate for the URL's server, PEM",
            ..RUN
        },
        Flag {
            name: "manifest-url-key-file",
            takes: Path("FILE", |o, path| o.sources.url_key_file = Some(path)),
            help: "Key of the client certificate, PEM",
            ..RUN
        },
        Flag {
            name: "manifest-url-allow-insecure",
            takes: Switch(|o, on| o.sources.url_allow_insecure = on),
            help: "Allow http to other machines: an attacker who can change the answer is root on this node",
            ..RUN
        },
        Flag {
            name: "manifest-url-max-size",
            takes: Number("BYTES", |o, size| {
                let size = usize::try_from(size).ok();
                let size = size.filter(|size| (1..=limits::URL_BODY_MAX).contains(size));
                let bounds = || format!("must be between 1 and {}, inclusive", limits::URL_BODY_MAX);
                o.sources.url_max_size = size.ok_or_else(bounds)?;
                Ok(())
            }),
            default: "1048576",
            help: "Largest answer of the URL",
            ..RUN
        },
        Flag {
            name: "kubeconfig",
            takes: Path("FILE", |o, path| o.sources.kubeconfig = Some(path)),
            help: "Kubeconfig of the API server whose pods are run, with credentials of its node or nodes",
            ..RUN_HOLLOW
        },
        Flag {
            name: "api-last-good",
            takes: Switch(|o, on| o.sources.api_last_good = on),
            default: "true",
            help: "Store the pods of the API server, sealed, for a start without it",
            ..RUN
        },
        Flag {
            name: "sync-frequency",
            takes: Duration(|o, time| o.sources.sync_frequency = time),
            default: "1m",
            help: "Time between two comparisons of all pods with Docker, longer at rest",
            rule: |o| value::too_short(o.sources.sync_frequency),
            ..RUN
        },
        Flag {
            name: "runonce",
            field: "runOnce",
            takes: Switch(|o, on| o.sources.runs_once = on),
            help: "Run the pods of files and URL, report, and end; the pods keep running",
            ..RUN
        },
    ],
};

fn remembering(text: &str) -> Result<Source, String> {
    Source::parse(text).filter(|s| *s != Source::Api).ok_or_else(|| "must be file or http".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time;

    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        const SECONDS: time::Duration = time::Duration::from_secs(3);
        sets(
            &SECTION,
            &[
                ("pod-manifest-path", "/m", |o| o.sources.manifest_path == Some("/m".into())),
                ("file-check-frequency", "3s", |o| o.sources.file_check_frequency == SECONDS),
                ("manifest-verify-key", "/k", |o| o.sources.verify_keys == [PathBuf::from("/k")]),
                ("manifest-min-version", "7", |o| o.sources.manifest_min_version == Edition::Version(7)),
                ("verify-key", "/k", |o| o.sources.verify_keys == [PathBuf::from("/k")]),
                ("strict", "true", |o| o.sources.strict),
                ("last-good-key-file", "/k", |o| o.sources.last_good_key_file == Some("/k".into())),
                ("source", "http=/m", |o| o.sources.paths == [(Source::Http, "/m".into())]),
                ("source", "http", |o| o.sources.source == Some(Source::Http)),
                ("manifest-url", "https://a/b", |o| o.sources.url == ManifestUrl::parse("https://a/b").ok()),
                (
                    "manifest-url-header",
                    "a:b",
                    |o| matches!(o.sources.url_headers.as_slice(), [one] if one.name == "a" && one.value == "b"),
                ),
                ("http-check-frequency", "3s", |o| o.sources.http_check_frequency == SECONDS),
                ("manifest-url-ca-file", "/k", |o| o.sources.url_ca_file == Some("/k".into())),
                ("manifest-url-cert-file", "/k", |o| o.sources.url_cert_file == Some("/k".into())),
                ("manifest-url-key-file", "/k", |o| o.sources.url_key_file == Some("/k".into())),
                ("manifest-url-allow-insecure", "true", |o| o.sources.url_allow_insecure),
                ("manifest-url-max-size", "4096", |o| o.sources.url_max_size == 4096),
                ("kubeconfig", "/k", |o| o.sources.kubeconfig == Some("/k".into())),
                ("api-last-good", "false", |o| !o.sources.api_last_good),
                ("sync-frequency", "3s", |o| o.sources.sync_frequency == SECONDS),
                ("runonce", "true", |o| o.sources.runs_once),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("manifest-min-version", ["1", "2"], &["x", "-1"]),
                ("source", ["http=/a", "file=/b"], &["api", "x=/a", "file="]),
                ("manifest-url", ["https://a/", "https://b/"], &["ftp://a/", "https://u:p@a/"]),
                ("manifest-url-header", ["a:1", "b:2"], &["a"]),
                ("manifest-url-max-size", ["1", "2"], &["0", "99999999", "1Ki"]),
            ],
        );
    }
}
