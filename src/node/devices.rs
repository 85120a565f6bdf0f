//! Devices of the host in containers: named in an annotation, or requested as a resource that the node's
//! flags map to them. Pure: a missing device is noticed when the container is created.
//!
//! The units assigned to a pod are written into an annotation of the pod before it is started, and so into a
//! label of its sandbox: the next daemon reads them there.

use k8s_openapi::api::core::v1::Container;

use crate::base::order;
use crate::base::table::{Set, Table};
use crate::pod::qos;
use crate::pod::{ContainerKind, DesiredPod};
use serde::Serialize;

/// Annotation: `[CONTAINER=]/dev/x[:/dev/y][:rwm],...`; without a container name, for all of them.
pub const DEVICE: &str = "podkeeper.dev/device";
/// Annotation that podkeeper writes, in the same syntax: the assigned units of resources.
pub const ASSIGNED: &str = "podkeeper.dev/assigned-devices";
/// Prefix of the names of resources of `--device`.
pub const DOMAIN: &str = "podkeeper.dev/";
/// GPUs, which Docker's own driver assigns.
pub const GPU: &str = "nvidia.com/gpu";

/// A device of the host in the container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Device {
    /// Absolute path on the host.
    pub path_on_host: String,
    /// Absolute path in the container.
    pub path_in_container: String,
    /// Some of `r`, `w`, `m`.
    pub cgroup_permissions: String,
}

/// Devices that are assigned together.
pub type Unit = Vec<Device>;

/// The node's units, by resource name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pools(Table<String, Vec<Unit>>);

impl Pools {
    /// Adds one unit in the syntax of `--device`: `NAME=/dev/x[,/dev/y]`.
    ///
    /// # Errors
    /// The problem with the text.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, devices) = text.split_once('=').ok_or("must be NAME=/dev/PATH[,/dev/PATH]")?;
        let plain = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let ends = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        let good = name.len() <= 63 && name.bytes().all(plain);
        if !good || !ends(name.bytes().next()) || !ends(name.bytes().last()) {
            return Err(format!("{name:?} cannot be the name of a resource"));
        }
        let unit: Unit = devices.split(',').map(|text| parse(text.trim())).collect::<Result<_, _>>()?;
        let name = format!("{DOMAIN}{name}");
        let taken = self
            .0
            .values()
            .flatten()
            .flatten()
            .any(|d| unit.iter().any(|u| u.path_on_host == d.path_on_host));
        if taken {
            return Err("a device can be in one unit only".to_owned());
        }
        self.0.get_or_default(name).push(unit);
        Ok(())
    }

    /// Whether there is no unit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of units of each resource.
    pub fn counts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(name, units)| (name.as_str(), units.len()))
    }

    /// Number of units of a resource.
    #[must_use]
    pub fn count(&self, resource: &str) -> usize {
        self.0.get(resource).map_or(0, Vec::len)
    }

    /// The units of a resource that have a device among the assigned host paths.
    fn units<'a>(&'a self, resource: &str, assigned: &Set<String>) -> impl Iterator<Item = &'a Unit> {
        let units = self.0.get(resource).map(Vec::as_slice).unwrap_or_default();
        units.iter().filter(|unit| unit.iter().any(|d| assigned.contains(&d.path_on_host)))
    }

    /// Number of units of a resource that these pods have.
    #[must_use]
    pub fn used<'a>(&self, resource: &str, pods: impl Iterator<Item = &'a DesiredPod>) -> usize {
        self.units(resource, &assigned(pods)).count()
    }

    /// Assigns units to the pod: as many of its earlier ones (`before`, an annotation's text) as possible,
    /// then free ones; `taken` are the annotations of other pods. `None`: it requests none, or not enough are
    /// free.
    #[must_use]
    pub fn assign(&self, pod: &DesiredPod, before: Option<&str>, taken: &[String]) -> Option<String> {
        let taken = order::set(taken.iter().flat_map(|text| text.split(',')).filter_map(host_path));
        let before = order::set(before.into_iter().flat_map(|text| text.split(',')).filter_map(host_path));
        let mut words = Vec::new();
        for (resource, units) in &self.0 {
            let is_free = |unit: &&Unit| !unit.iter().any(|d| taken.contains(&d.path_on_host));
            let was_its = |unit: &&Unit| unit.iter().any(|d| before.contains(&d.path_on_host));
            let (mut free, fresh): (Vec<&Unit>, Vec<&Unit>) =
                units.iter().filter(is_free).partition(|unit| was_its(unit));
            free.extend(fresh);
            // Sidecars keep their units; init containers have ended when the regular ones begin, so their
            // units are reused.
            let of = |kind: ContainerKind| {
                pod.containers().filter(move |(k, _)| *k == kind).map(|(_, c)| (c, wanted(c, resource)))
            };
            let mut next = 0_usize;
            for (container, count) in of(ContainerKind::Sidecar) {
                add_devices(container, free.get(next..next.saturating_add(count))?, &mut words);
                next = next.saturating_add(count);
            }
            for (container, count) in of(ContainerKind::Init) {
                add_devices(container, free.get(next..next.saturating_add(count))?, &mut words);
            }
            for (container, count) in of(ContainerKind::Regular) {
                add_devices(container, free.get(next..next.saturating_add(count))?, &mut words);
                next = next.saturating_add(count);
            }
        }
        (!words.is_empty()).then(|| words.join(","))
    }
}

fn add_devices(container: &Container, units: &[&Unit], words: &mut Vec<String>) {
    for device in units.iter().copied().flatten() {
        words.push(format!(
            "{}={}:{}:{}",
            container.name, device.path_on_host, device.path_in_container, device.cgroup_permissions
        ));
    }
}

/// Host paths of all devices in these pods' annotations.
fn assigned<'a>(pods: impl Iterator<Item = &'a DesiredPod>) -> Set<String> {
    let texts = pods.filter_map(|pod| pod.metadata.annotations.as_ref()?.get(ASSIGNED));
    order::set(texts.flat_map(|text| text.split(',')).filter_map(host_path))
}

fn host_path(word: &str) -> Option<String> {
    entry(word).ok().map(|(_, device)| device.path_on_host)
}

/// Number of units of a resource that a container requests.
fn wanted(container: &Container, resource: &str) -> usize {
    usize::try_from(qos::limit(container.resources.as_ref(), resource)).unwrap_or(0)
}

/// Devices of one container, from both annotations. Invalid entries were refused before.
#[must_use]
pub fn of_container(pod: &DesiredPod, container: &Container) -> Vec<Device> {
    let annotations = pod.metadata.annotations.as_ref();
    let texts = [DEVICE, ASSIGNED].into_iter().filter_map(|key| annotations?.get(key));
    let all = texts.flat_map(|text| text.split(',')).filter_map(|word| entry(word).ok());
    all.filter(|(name, _)| name.is_none_or(|name| name == container.name)).map(|(_, device)| device).collect()
}

/// Number of GPUs that a container requests.
#[must_use]
pub fn gpus(container: &Container) -> i64 {
    qos::limit(container.resources.as_ref(), GPU)
}

/// The devices in a pod's annotation, each with its container.
///
/// # Errors
/// The problem with the first invalid entry.
pub fn named(pod: &DesiredPod) -> Result<Vec<(Option<&str>, Device)>, String> {
    let text = pod.metadata.annotations.as_ref().and_then(|a| a.get(DEVICE));
    let words = text.into_iter().flat_map(|text| text.split(','));
    words
        .map(|word| {
            let (name, device) = entry(word)?;
            match name {
                Some(name) if pod.container(name).is_none() => Err(format!("there is no container {name:?}")),
                name => Ok((name, device)),
            }
        })
        .collect()
}

/// Parses `[CONTAINER=]/dev/x[:/dev/y][:rwm]`.
fn entry(word: &str) -> Result<(Option<&str>, Device), String> {
    let word = word.trim();
    match word.split_once('=') {
        Some((container, device)) if !container.contains('/') => Ok((Some(container), parse(device)?)),
        _ => Ok((None, parse(word)?)),
    }
}

/// Parses `/dev/x[:/dev/y][:rwm]`.
fn parse(text: &str) -> Result<Device, String> {
    let mut parts = text.split(':');
    let host = parts.next().unwrap_or_default();
    let (mut inside, mut permissions) = (host, "rwm");
    for (i, part) in parts.enumerate() {
        match i {
            0 if part.starts_with('/') => inside = part,
            0 | 1 if permissions == "rwm" && is_permissions(part) => permissions = part,
            _ => return Err(format!("{text:?} is not /dev/PATH[:/dev/PATH][:rwm]")),
        }
    }
    for path in [host, inside] {
        let below = path.strip_prefix("/dev/").is_some_and(|rest| !rest.is_empty());
        if !below || path.split('/').any(|part| part == ".." || part == ".") {
            return Err(format!("{path:?} is no path below /dev"));
        }
    }
    Ok(Device {
        path_on_host: host.to_owned(),
        path_in_container: inside.to_owned(),
        cgroup_permissions: permissions.to_owned(),
    })
}

fn is_permissions(text: &str) -> bool {
    let once = |c: char| text.matches(c).count() <= 1;
    !text.is_empty() && text.chars().all(|c| "rwm".contains(c)) && "rwm".chars().all(once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::tests::pod;

    fn of(annotations: &str, containers: &str) -> DesiredPod {
        pod(&format!(
            r#"{{"metadata":{{"name":"p","annotations":{annotations}}},"spec":{{"containers":[{containers}]}}}}"#
        ))
    }

    fn written(devices: &[Device]) -> Vec<String> {
        let text =
            |d: &Device| format!("{}:{}:{}", d.path_on_host, d.path_in_container, d.cgroup_permissions);
        devices.iter().map(text).collect()
    }

    #[test]
    fn ways_of_writing() {
        let check = |text: &str, expected: Result<(Option<&str>, &str), &str>| {
            let got = entry(text).map(|(name, d)| (name, written(&[d]).concat()));
            match (got, expected) {
                (Ok((name, device)), Ok(expected)) => assert_eq!((name, device.as_str()), expected),
                (Err(why), Err(part)) => assert!(why.contains(part), "{text}: {why}"),
                (got, _) => panic!("{text}: {got:?}"),
            }
        };
        check("/dev/ttyUSB0", Ok((None, "/dev/ttyUSB0:/dev/ttyUSB0:rwm")));
        check(" /dev/a:r", Ok((None, "/dev/a:/dev/a:r")));
        check("/dev/a:/dev/b", Ok((None, "/dev/a:/dev/b:rwm")));
        check("main=/dev/a:/dev/b:wr", Ok((Some("main"), "/dev/a:/dev/b:wr")));
        check("/dev/serial/by-id/x=y", Ok((None, "/dev/serial/by-id/x=y:/dev/serial/by-id/x=y:rwm")));
        check("", Err("\"\" is no path below /dev"));
        check("/dev", Err("is no path below /dev"));
        check("/dev/../etc/shadow", Err("is no path below /dev"));
        check("/dev/a:/etc/b", Err("is no path below /dev"));
        check("/dev/a:rr", Err("is not /dev/PATH"));
        check("/dev/a:r:/dev/b", Err("is not /dev/PATH"));
        check("/dev/a:/dev/b:r:w", Err("is not /dev/PATH"));
    }

    #[test]
    fn annotations_name_containers() {
        let pod = of(
            r#"{"podkeeper.dev/device":"/dev/null:r, b=/dev/zero","podkeeper.dev/assigned-devices":"a=/dev/full"}"#,
            r#"{"name":"a","image":"i"},{"name":"b","image":"i"}"#,
        );
        let devices = |i: usize| written(&of_container(&pod, &pod.spec.containers[i]));
        assert_eq!(devices(0), ["/dev/null:/dev/null:r", "/dev/full:/dev/full:rwm"]);
        assert_eq!(devices(1), ["/dev/null:/dev/null:r", "/dev/zero:/dev/zero:rwm"]);
        assert_eq!(named(&pod).unwrap().len(), 2);
        let pod = of(r#"{"podkeeper.dev/device":"c=/dev/null"}"#, r#"{"name":"a","image":"i"}"#);
        assert_eq!(named(&pod).unwrap_err(), "there is no container \"c\"");
    }

    #[test]
    fn units_are_given_once() {
        let mut pools = Pools::default();
        pools.add("serial=/dev/ttyUSB0").unwrap();
        pools.add("serial=/dev/ttyUSB1:/dev/tty0:rw").unwrap();
        pools.add("camera=/dev/video0,/dev/media0").unwrap();
        assert_eq!((pools.count("podkeeper.dev/serial"), pools.count("podkeeper.dev/none")), (2, 0));
        for (text, part) in [
            ("serial", "must be NAME="),
            ("-x=/dev/a", "cannot be the name"),
            ("x=/etc/a", "no path below /dev"),
            ("again=/dev/ttyUSB0", "in one unit only"),
        ] {
            assert!(pools.clone().add(text).is_err_and(|why| why.contains(part)), "{text}");
        }
        let asks = |resource: &str, count: u32| {
            format!(
                r#"{{"name":"a","image":"i","resources":{{"limits":{{"podkeeper.dev/{resource}":"{count}"}}}}}}"#
            )
        };
        let first = of("{}", &asks("serial", 1));
        let given = pools.assign(&first, None, &[]).unwrap();
        assert_eq!(given, "a=/dev/ttyUSB0:/dev/ttyUSB0:rwm");
        let with = |mut pod: DesiredPod, text: &str| {
            pod.metadata.annotations.get_or_insert_default().insert(ASSIGNED.to_owned(), text.to_owned());
            pod
        };
        let first = with(first, &given);
        assert_eq!(pools.used("podkeeper.dev/serial", [&first].into_iter()), 1);
        let second = of("{}", &asks("serial", 1));
        let taken = [given];
        let given = pools.assign(&second, None, &taken).unwrap();
        assert_eq!(given, "a=/dev/ttyUSB1:/dev/tty0:rw");
        let second = with(second, &given);
        let third = of("{}", &asks("serial", 1));
        assert_eq!(pools.assign(&third, None, &[taken[0].clone(), given]), None);
        assert_eq!(pools.used("podkeeper.dev/serial", [&first, &second].into_iter()), 2);
        // A pod keeps its earlier units.
        let given = pools.assign(&third, Some("a=/dev/ttyUSB1:/dev/tty0:rw"), &[]).unwrap();
        assert_eq!(given, "a=/dev/ttyUSB1:/dev/tty0:rw");
        let camera = of("{}", &asks("camera", 1));
        let given = pools.assign(&camera, None, &taken).unwrap();
        assert_eq!(given, "a=/dev/video0:/dev/video0:rwm,a=/dev/media0:/dev/media0:rwm");
        assert_eq!(pools.assign(&of("{}", r#"{"name":"a","image":"i"}"#), None, &[]), None);
    }

    #[test]
    fn init_containers_share_with_those_that_follow() {
        let mut pools = Pools::default();
        for unit in ["x=/dev/a", "x=/dev/b"] {
            pools.add(unit).unwrap();
        }
        let asks = |name: &str, more: &str| {
            format!(
                r#"{{"name":"{name}","image":"i"{more},"resources":{{"limits":{{"podkeeper.dev/x":"1"}}}}}}"#
            )
        };
        let pod = pod(&format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"initContainers":[{},{}],"containers":[{}]}}}}"#,
            asks("side", r#","restartPolicy":"Always""#),
            asks("init", ""),
            asks("main", "")
        ));
        let given = pools.assign(&pod, None, &[]).unwrap();
        assert_eq!(given, "side=/dev/a:/dev/a:rwm,init=/dev/b:/dev/b:rwm,main=/dev/b:/dev/b:rwm");
    }
}
