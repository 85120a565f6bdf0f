//! Flags: Docker, images and logs of containers.

use std::path::PathBuf;
use std::time;

use super::Repeats::Adds;
use super::Takes::{Choice, Count, Duration, List, Name, Number, PathOrNone, Switch, Text};
use super::{Flag, Options, RUN, Section, Verb, of_verbs, put, value};
use crate::base::quantity;
use crate::mapping::logs::LogDriver;
use crate::runtime::docker::Endpoint;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub endpoint: Endpoint,
    pub infra_image: Option<String>,
    pub network: Option<String>,
    pub network_cidrs: Vec<String>,
    pub pull_progress_deadline: time::Duration,
    /// `None` when not given.
    pub serialize_image_pulls: Option<bool>,
    /// `None` for no limit.
    pub max_parallel_image_pulls: Option<usize>,
    /// 0 for no limit.
    pub registry_qps: u32,
    pub registry_burst: u32,
    /// `None` for no directory.
    pub image_preload_dir: Option<PathBuf>,
    pub dead_min_age: time::Duration,
    /// Negative for no bound.
    pub dead_per_container: i64,
    /// Negative for no bound.
    pub dead_in_all: i64,
    pub log_driver: LogDriver,
    /// Bytes; negative for no rotation.
    pub log_max_size: i64,
    pub log_max_files: i64,
}

impl Values {
    /// Limits of the rotation of container logs: bytes of a file, and number of files.
    fn rotation(&self) -> (i64, i64) {
        (self.log_max_size, self.log_max_files)
    }
}

const IMAGES: Flag = of_verbs(&[Verb::Run, Verb::Pull, Verb::Load]);

impl Values {
    /// Whether pulls come one after the other. A limit of two or more means that they do not, as upstream.
    #[must_use]
    pub fn serializes_pulls(&self) -> bool {
        let most = self.max_parallel_image_pulls;
        self.serialize_image_pulls.unwrap_or(most.is_none_or(|most| most < 2))
    }
}

pub static SECTION: Section = Section {
    title: "Docker",
    flags: &[
        Flag {
            name: "docker-endpoint",
            takes: Text("URL", |o, text| put(&mut o.docker.endpoint, endpoint(text))),
            default: "unix:///var/run/docker.sock",
            ..IMAGES
        },
        Flag {
            name: "pod-infra-container-image",
            takes: Name("IMAGE", |o, image| o.docker.infra_image = image),
            ..RUN
        },
        Flag {
            name: "docker-network",
            takes: Text("NAME", |o, text| put(&mut o.docker.network, value::network(text))),
            ..RUN
        },
        Flag {
            name: "docker-network-cidr",
            takes: List("CIDR,...", |o, text| {
                for word in value::words(text) {
                    o.docker.network_cidrs.push(value::cidr(word)?);
                }
                Ok(())
            }),
            repeats: Adds,
            ..RUN
        },
        Flag {
            name: "image-pull-progress-deadline",
            takes: Duration(|o, time| o.docker.pull_progress_deadline = time),
            default: "1m",
            rule: |o| value::too_short(o.docker.pull_progress_deadline),
            ..IMAGES
        },
        Flag {
            name: "serialize-image-pulls",
            takes: Switch(|o, on| o.docker.serialize_image_pulls = Some(on)),
            ..RUN
        },
        Flag {
            name: "max-parallel-image-pulls",
            takes: Number("N", |o, most| {
                let most = usize::try_from(most).ok().filter(|most| *most > 0);
                o.docker.max_parallel_image_pulls = Some(most.ok_or("must be a positive number")?);
                Ok(())
            }),
            rule: |o| {
                let most = o.docker.max_parallel_image_pulls.filter(|most| *most > 1)?;
                (o.docker.serialize_image_pulls == Some(true)).then(|| {
                    format!(
                        "{most} cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is \
                         set to false"
                    )
                })
            },
            ..RUN
        },
        Flag {
            name: "registry-qps",
            field: "registryPullQPS",
            takes: Count("N", |o, rate| o.docker.registry_qps = rate),
            default: "5",
            ..RUN
        },
        Flag {
            name: "registry-burst",
            takes: Count("N", |o, burst| o.docker.registry_burst = burst),
            default: "10",
            rule: |o| {
                let none = o.docker.registry_qps > 0 && o.docker.registry_burst == 0;
                none.then(|| "0 would let no pull begin: give at least 1".to_owned())
            },
            ..RUN
        },
        Flag {
            name: "image-preload-dir",
            takes: PathOrNone("DIR", |o, path| o.docker.image_preload_dir = path),
            default: "/var/lib/podkeeper/images",
            ..RUN
        },
        Flag {
            name: "minimum-container-ttl-duration",
            takes: Duration(|o, time| o.docker.dead_min_age = time),
            default: "0s",
            ..RUN
        },
        Flag {
            name: "maximum-dead-containers-per-container",
            takes: Number("N", |o, most| put(&mut o.docker.dead_per_container, Ok(most))),
            default: "1",
            ..RUN
        },
        Flag {
            name: "maximum-dead-containers",
            takes: Number("N", |o, most| put(&mut o.docker.dead_in_all, Ok(most))),
            default: "-1",
            live: |now, new| {
                now.dead.in_all = new.dead.in_all;
                true
            },
            ..RUN
        },
        Flag {
            name: "container-log-driver",
            takes: Choice(
                "NAME",
                &[
                    ("json-file", |o| o.docker.log_driver = LogDriver::JsonFile),
                    ("local", |o| o.docker.log_driver = LogDriver::Local),
                    ("journald", |o| o.docker.log_driver = LogDriver::Journald),
                    ("none", |o| o.docker.log_driver = LogDriver::None),
                ],
            ),
            default: "json-file",
            rule: |o| {
                let is_default =
                    Options::defaults().is_ok_and(|it| it.docker.rotation() == o.docker.rotation());
                let driver = o.docker.log_driver;
                match driver {
                    LogDriver::Journald | LogDriver::None if !is_default => Some(format!(
                        "{} keeps no files: --container-log-max-size and --container-log-max-files are of json-file \
                         and local",
                        driver.as_str()
                    )),
                    LogDriver::Local if o.docker.log_max_size < 0 => Some(
                        "local always rotates: --container-log-max-size must be positive with it".to_owned(),
                    ),
                    _ => None,
                }
            },
            ..RUN
        },
        Flag {
            name: "container-log-max-size",
            takes: Text("SIZE", |o, text| {
                let size = quantity::written(text).map_err(|_| "must be a quantity, such as 10Mi".to_owned());
                o.docker.log_max_size = size?;
                Ok(())
            }),
            default: "1Mi",
            rule: |o| {
                let none = o.docker.log_max_size == 0;
                none.then(|| "0 must be positive, or negative for no rotation".to_owned())
            },
            ..RUN
        },
        Flag {
            name: "container-log-max-files",
            takes: Number("N", |o, most| put(&mut o.docker.log_max_files, Ok(most))),
            default: "5",
            rule: |o| {
                let most = o.docker.log_max_files;
                let bad = most < 2 || u32::try_from(most).is_err();
                bad.then(|| format!("{most} must be greater than 1"))
            },
            ..RUN
        },
    ],
};

/// Parses the endpoint of Docker: `unix:///PATH` or `fake://`.
///
/// # Errors
/// The text is neither.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    match text.split_once("://") {
        Some(("fake", "")) => Ok(Endpoint::Fake),
        Some(("unix", path)) if path.starts_with('/') => Ok(Endpoint::Unix(PathBuf::from(path))),
        _ => Err("must be unix:///PATH or fake://".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{repeats_and_refuses, sets};
    use super::*;

    #[test]
    fn each_flag_sets_its_value() {
        sets(
            &SECTION,
            &[
                ("docker-endpoint", "fake://", |o| o.docker.endpoint == Endpoint::Fake),
                ("pod-infra-container-image", "a:1", |o| o.docker.infra_image == Some("a:1".to_owned())),
                ("docker-network", "pods", |o| o.docker.network == Some("pods".to_owned())),
                ("docker-network-cidr", "10.9.0.0/16,fd09::/64", |o| {
                    o.docker.network_cidrs == ["10.9.0.0/16", "fd09::/64"]
                }),
                ("image-pull-progress-deadline", "3s", |o| o.docker.pull_progress_deadline.as_secs() == 3),
                ("serialize-image-pulls", "true", |o| o.docker.serialize_image_pulls == Some(true)),
                ("max-parallel-image-pulls", "3", |o| o.docker.max_parallel_image_pulls == Some(3)),
                ("registry-qps", "7", |o| o.docker.registry_qps == 7),
                ("registry-burst", "7", |o| o.docker.registry_burst == 7),
                ("image-preload-dir", "", |o| o.docker.image_preload_dir.is_none()),
                ("minimum-container-ttl-duration", "1m", |o| o.docker.dead_min_age.as_secs() == 60),
                ("maximum-dead-containers-per-container", "-1", |o| o.docker.dead_per_container == -1),
                ("maximum-dead-containers", "100", |o| o.docker.dead_in_all == 100),
                ("container-log-driver", "local", |o| o.docker.log_driver == LogDriver::Local),
                ("container-log-max-size", "10Mi", |o| o.docker.log_max_size == 10 * 1024 * 1024),
                ("container-log-max-files", "7", |o| o.docker.log_max_files == 7),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("docker-endpoint", ["fake://", "unix:///d"], &["tcp://192.0.2.1", "/d"]),
                ("docker-network", ["a", "b"], &["host", "a/b"]),
                ("docker-network-cidr", ["10.9.0.0/16", "fd09::/64"], &["10.9.0.0"]),
                ("max-parallel-image-pulls", ["2", "3"], &["0", "-1", "x"]),
                ("maximum-dead-containers-per-container", ["2", "3"], &["x"]),
                ("maximum-dead-containers", ["2", "3"], &["x"]),
                ("container-log-max-size", ["2Mi", "3Mi"], &["big"]),
                ("container-log-max-files", ["3", "4"], &["x"]),
            ],
        );
    }

    #[test]
    fn a_size_goes_with_a_driver_that_has_one() {
        let rule = SECTION.flags.iter().find(|flag| flag.name == "container-log-driver").unwrap().rule;
        let check = |driver: LogDriver, size: i64, files: i64, expected: &str| {
            let mut o = Options::defaults().unwrap();
            (o.docker.log_driver, o.docker.log_max_size, o.docker.log_max_files) = (driver, size, files);
            let said = rule(&o).unwrap_or_default();
            assert!(
                said.starts_with(expected) && said.is_empty() == expected.is_empty(),
                "{driver:?}: {said}"
            );
        };
        let (size, files) = Options::defaults().unwrap().docker.rotation();
        for driver in LogDriver::ALL {
            check(driver, size, files, "");
        }
        for driver in [LogDriver::JsonFile, LogDriver::Local] {
            check(driver, 5, 2, "");
        }
        check(LogDriver::JsonFile, -1, 5, "");
        check(LogDriver::Local, -1, 5, "local always rotates");
        check(LogDriver::Journald, 5, 5, "journald keeps no files");
        check(LogDriver::None, size, 2, "none keeps no files");
    }

    #[test]
    fn the_log_drivers_are_those_that_are_known() {
        let flag = SECTION.flags.iter().find(|flag| flag.name == "container-log-driver").unwrap();
        assert_eq!(flag.choices(), LogDriver::ALL.map(LogDriver::as_str));
    }

    #[test]
    fn docker_is_at_a_socket_or_in_memory() {
        assert_eq!(endpoint("unix:///run/d.sock"), Ok(Endpoint::Unix("/run/d.sock".into())));
        for bad in ["", "unix://d.sock", "fake://x", "tcp://1.2.3.4", "/run/d.sock"] {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_default_is_docker_s_own_socket() {
        assert_eq!(endpoint("unix:///var/run/docker.sock"), Ok(Endpoint::default()));
    }
}
