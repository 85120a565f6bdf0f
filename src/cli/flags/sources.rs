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
            ..RUN
        },
        Flag {
            name: "file-check-frequency",
            takes: Duration(|o, time| o.sources.file_check_frequency = time),
            default: "20s",
            rule: |o| value::too_short(o.sources.file_check_frequency),
            ..RUN
        },
        Flag {
            name: "manifest-verify-key",
            takes: Path("FILE", |o, path| o.sources.verify_keys.push(path)),
            in_file: InFile::Each,
            repeats: Adds,
            ..RUN_CHECK
        },
        Flag {
            name: "manifest-min-version",
            takes: Text("N", |o, text| put(&mut o.sources.manifest_min_version, Edition::parse(text))),
            ..RUN_CHECK
        },
        Flag {
            name: "verify-key",
            takes: Path("FILE", |o, path| o.sources.verify_keys.push(path)),
            repeats: Adds,
            ..CHECK
        },
        Flag { name: "strict", takes: Switch(|o, on| o.sources.strict = on), ..CHECK },
        Flag {
            name: "last-good-key-file",
            takes: Path("FILE", |o, path| o.sources.last_good_key_file = Some(path)),
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
            ..RUN
        },
        Flag {
            name: "http-check-frequency",
            takes: Duration(|o, time| o.sources.http_check_frequency = time),
            default: "20s",
            rule: |o| value::too_short(o.sources.http_check_frequency),
            ..RUN
        },
        Flag {
            name: "manifest-url-ca-file",
            takes: Path("FILE", |o, path| o.sources.url_ca_file = Some(path)),
            ..RUN
        },
        Flag {
            name: "manifest-url-cert-file",
            takes: Path("FILE", |o, path| o.sources.url_cert_file = Some(path)),
            ..RUN
        },
        Flag {
            name: "manifest-url-key-file",
            takes: Path("FILE", |o, path| o.sources.url_key_file = Some(path)),
            ..RUN
        },
        Flag {
            name: "manifest-url-allow-insecure",
            takes: Switch(|o, on| o.sources.url_allow_insecure = on),
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
            ..RUN
        },
        Flag {
            name: "kubeconfig",
            takes: Path("FILE", |o, path| o.sources.kubeconfig = Some(path)),
            ..RUN_HOLLOW
        },
        Flag {
            name: "api-last-good",
            takes: Switch(|o, on| o.sources.api_last_good = on),
            default: "true",
            ..RUN
        },
        Flag {
            name: "sync-frequency",
            takes: Duration(|o, time| o.sources.sync_frequency = time),
            default: "1m",
            rule: |o| value::too_short(o.sources.sync_frequency),
            ..RUN
        },
        Flag { name: "runonce", field: "runOnce", takes: Switch(|o, on| o.sources.runs_once = on), ..RUN },
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
