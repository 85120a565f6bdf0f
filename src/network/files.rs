//! The I/O of this room: files of pods below `ROOT/pods/<uid>`, and files that are read from the node.
//!
//! Files are changed in place, because they are mounted into containers: a container would not see a
//! replaced file. An unchanged file is not written.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::hosts::{self, HostsFile};
use super::resolver::{self, Resolver};
use super::{NetworkConfig, Wanted, address};
use crate::base::limits;
use crate::base::regular;
use crate::layout::{HOSTS, RESOLVER};
use crate::recorder::{Words, words};
use crate::runtime::{CreateBody, HostConfig, Mount};
use crate::termination::files::Files;

/// Path of the resolver file in a container.
const RESOLVER_TARGET: &str = "/etc/resolv.conf";
/// The node's own file, on which Docker bases its files, too.
const NODE_RESOLVER: &str = "/etc/resolv.conf";
/// The only server in that file with systemd-resolved: it answers only the node itself.
const STUB: &str = "127.0.0.53";
/// The file with the servers behind that stub.
const BEHIND_STUB: &str = "/run/systemd/resolve/resolv.conf";

/// Files of the pods of one node. Clones share the state.
#[derive(Debug, Clone)]
pub struct NodeFiles {
    root: PathBuf,
    config: NetworkConfig,
    files: Files,
    /// The missing cluster DNS has been logged.
    said: Arc<AtomicBool>,
}

impl NodeFiles {
    /// Files below this root directory.
    #[must_use]
    pub fn new(root: PathBuf, config: NetworkConfig, files: Files) -> NodeFiles {
        NodeFiles { root, config, files, said: Arc::default() }
    }

    /// Writes the files for a create body, just before it is sent. Returns the events for the pod.
    ///
    /// # Errors
    /// A file cannot be read or written, and why: the container would see wrong names or addresses, so it
    /// must not be created.
    pub fn prepare(&self, wanted: &Wanted, body: &mut CreateBody) -> Result<Vec<Words>, String> {
        if let Some(hosts) = &wanted.hosts {
            self.write_hosts(hosts)?;
        }
        self.resolver(wanted, &mut body.host_config)
    }

    fn resolver(&self, wanted: &Wanted, host_config: &mut HostConfig) -> Result<Vec<Words>, String> {
        let formed = resolver::form(&wanted.resolver, &self.node_resolver()?, &self.config);
        if !wanted.sandbox {
            let engine = Resolver::parse(&text(Path::new(NODE_RESOLVER))?);
            if !wanted.names && !formed.resolver.docker_can(&engine) {
                let uid = &wanted.resolver.uid;
                self.write(uid, RESOLVER, &formed.resolver.text())?;
                host_config.mounts.push(self.mount(uid, RESOLVER, RESOLVER_TARGET));
            }
            return Ok(Vec::new());
        }
        let Resolver { servers, searches, options } = formed.resolver;
        host_config.resolver.dns =
            servers.into_iter().filter(|s| s.parse::<std::net::IpAddr>().is_ok()).collect();
        // With an empty list Docker would use the node's; `.` means none.
        host_config.resolver.dns_search = if searches.is_empty() { vec![".".to_owned()] } else { searches };
        host_config.resolver.dns_options = options;
        let mut told: Vec<Words> = formed.omitted.into_iter().map(words::dns_config).collect();
        if let Some(explicit) = formed.missing_cluster_dns {
            if !self.said.swap(true, Ordering::Relaxed) {
                log::info!(
                    "there is no --cluster-dns: pods with dnsPolicy ClusterFirst get the node's resolver"
                );
            }
            told.extend(explicit.then(words::missing_cluster_dns));
        }
        Ok(told)
    }

    /// The file named by `--resolv-conf`; empty when it does not exist.
    fn node_resolver(&self) -> Result<Resolver, String> {
        let Some(path) = &self.config.resolv_conf else {
            return Ok(Resolver { servers: vec!["127.0.0.1".to_owned()], ..Resolver::default() });
        };
        let own = Resolver::parse(&text(path)?);
        if path == Path::new(NODE_RESOLVER) && own.servers == [STUB] {
            let behind = Resolver::parse(&text(Path::new(BEHIND_STUB))?);
            if !behind.servers.is_empty() {
                return Ok(behind);
            }
        }
        Ok(own)
    }

    /// Writes a pod's hosts file.
    ///
    /// # Errors
    /// The file cannot be written, or the node's own file cannot be read.
    pub fn write_hosts(&self, hosts: &HostsFile) -> Result<(), String> {
        if hosts.of_node {
            let own = text(Path::new(hosts::TARGET))?;
            return self.write(&hosts.uid, HOSTS, &format!("{}{own}{}", hosts::OF_NODE, hosts.text));
        }
        self.write(&hosts.uid, HOSTS, &hosts.text)
    }

    fn write(&self, uid: &str, name: &str, content: &str) -> Result<(), String> {
        if self.files.holds(uid, name, content.as_bytes()) {
            return Ok(());
        }
        let done = self.files.pod_file(uid, name).and_then(|mut file| update(&mut file, content));
        let path = path(&self.root, uid, name);
        match done {
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem && is_filled(&path) => {
                // An address of before is better than no pod: nothing else gives the disk back.
                log::warn!("{} keeps its former content, for it cannot be written: {error}", path.display());
                Ok(())
            }
            done => done.map_err(|error| format!("{} cannot be written: {error}", path.display())),
        }
    }

    fn mount(&self, uid: &str, name: &str, target: &str) -> Mount {
        let source = path(&self.root, uid, name).to_string_lossy().into_owned();
        Mount::bind(source, target.to_owned())
    }

    /// Removes the files of a pod that is gone.
    pub fn forget(&self, uid: &str) {
        self.files.forget_pod(uid);
    }

    /// The current addresses of the node.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        address::of_node(&self.config.node_ips)
    }
}

/// Path of a pod's file.
#[must_use]
pub fn path(root: &Path, uid: &str, name: &str) -> PathBuf {
    root.join("pods").join(uid).join(name)
}

/// Whether there is a regular file with content.
fn is_filled(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// Shortens the file last: on a full disk the room that it gave up would be gone.
fn update(file: &mut File, content: &str) -> io::Result<()> {
    file.write_all(content.as_bytes())?;
    file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))
}

/// A file of the node; empty when it does not exist.
fn text(path: &Path) -> Result<String, String> {
    // The rest of a longer file is ignored.
    match regular::read_start(path, limits::NODE_FILE) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!("{} of the node cannot be read: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::base::table::Set;
    use crate::plan::testing::pod;

    fn rig(name: &str, config: NetworkConfig) -> (PathBuf, NodeFiles, Files) {
        let root = crate::base::testing::scratch(name);
        let files = Files::new(root.clone());
        (root.clone(), NodeFiles::new(root, config, files.clone()), files)
    }

    fn hosts(text: &str) -> HostsFile {
        HostsFile { uid: "u".into(), of_node: false, text: text.into() }
    }

    #[test]
    fn a_hosts_file_is_changed_in_place_and_only_when_it_differs() {
        let (root, files, _) = rig("hosts", NetworkConfig::default());
        let at = path(&root, "u", HOSTS);
        files.write_hosts(&hosts("one\ntwo\n")).unwrap();
        let first = fs::metadata(&at).unwrap();
        assert_eq!(first.permissions().mode() & 0o777, 0o644);
        files.write_hosts(&hosts("one\ntwo\n")).unwrap();
        let same = fs::metadata(&at).unwrap();
        assert_eq!((same.mtime(), same.mtime_nsec()), (first.mtime(), first.mtime_nsec()));
        for text in ["one\n", "one\ntwo and more\n"] {
            files.write_hosts(&hosts(text)).unwrap();
            assert_eq!(fs::read_to_string(&at).unwrap(), text);
            assert_eq!(fs::metadata(&at).unwrap().ino(), first.ino());
        }
        files.write_hosts(&HostsFile { of_node: true, ..hosts("aliases") }).unwrap();
        let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
        assert_eq!(fs::read_to_string(&at).unwrap(), format!("{}{own}aliases", hosts::OF_NODE));
        files.forget("u");
        assert_eq!(fs::read_dir(root.join("pods")).unwrap().count(), 0);
    }

    #[test]
    fn a_container_is_not_made_with_wrong_names() {
        let root = crate::base::testing::scratch("wrong-names");
        let file = root.join("resolver");
        let config = NetworkConfig { resolv_conf: Some(file.clone()), ..NetworkConfig::default() };
        let (root, files, _) = rig("wrong-names", config);
        let prepare = |sandbox: bool| {
            let resolver = resolver::Asked::of(&pod("{containers: [{name: c}]}"));
            let hosts = (!sandbox).then(|| hosts("x"));
            let wanted = Wanted { resolver, hosts, sandbox, names: false };
            files.prepare(&wanted, &mut CreateBody::default()).map(|_| ())
        };
        // The node's resolver file exists and cannot be read: that is an error.
        fs::create_dir_all(&file).unwrap();
        let why = prepare(true).unwrap_err();
        assert!(why.starts_with(&format!("{} of the node cannot be read: ", file.display())), "{why}");
        fs::remove_dir(&file).unwrap();
        prepare(true).unwrap();
        // The pod's own file cannot be written.
        fs::write(root.join("pods"), "").unwrap();
        let why = prepare(false).unwrap_err();
        assert!(why.contains("etc-hosts cannot be written: "), "{why}");
        fs::remove_file(root.join("pods")).unwrap();
        fs::create_dir_all(path(&root, crate::plan::testing::UID, RESOLVER)).unwrap();
        fs::write(&file, "search a\n").unwrap();
        let why = prepare(false).unwrap_err();
        assert!(why.contains("resolv.conf cannot be written: "), "{why}");
    }

    #[test]
    fn links_and_odd_names_lead_nowhere() {
        let (root, files, _) = rig("links", NetworkConfig::default());
        let outside = root.join("outside");
        fs::write(&outside, "untouched").unwrap();
        fs::create_dir_all(root.join("pods/u")).unwrap();
        symlink(&outside, path(&root, "u", HOSTS)).unwrap();
        files.write_hosts(&hosts("x")).unwrap_err();
        files.write_hosts(&HostsFile { uid: "../outside".into(), ..hosts("x") }).unwrap_err();
        assert_eq!(fs::read_to_string(&outside).unwrap(), "untouched");
        files.forget("u");
        assert!(outside.exists() && !root.join("pods/u").exists());
    }

    #[test]
    fn a_sweep_spares_what_this_process_made() {
        let (root, files, swept) = rig("sweep", NetworkConfig::default());
        let other = root.join("pods/old");
        fs::create_dir_all(&other).unwrap();
        for name in [HOSTS, RESOLVER] {
            fs::write(other.join(name), "").unwrap();
        }
        files.write_hosts(&hosts("x")).unwrap();
        swept.sweep(&Set::new());
        assert!(!other.exists() && path(&root, "u", HOSTS).exists());
    }

    #[test]
    fn bodies_are_prepared() {
        let file =
            crate::base::testing::temporary().join(format!("podkeeper-resolver-{}", std::process::id()));
        let config = NetworkConfig { resolv_conf: Some(file.clone()), ..NetworkConfig::default() };
        let (root, files, _) = rig("prepare", config);
        let prepared = |text: &str, sandbox: bool, names: bool, spec: &str| {
            fs::write(&file, text).unwrap();
            let pod = pod(&format!("{{containers: [{{name: c}}], {spec}}}"));
            let hosts = (!sandbox).then(|| hosts("x"));
            let mut body = CreateBody::default();
            let resolver = resolver::Asked::of(&pod);
            let told = files.prepare(&Wanted { resolver, hosts, sandbox, names }, &mut body).unwrap();
            let targets: Vec<String> = body.host_config.mounts.iter().map(|m| m.target.clone()).collect();
            let crate::runtime::Dns { dns, dns_search, dns_options } = body.host_config.resolver;
            (dns.join(" "), dns_search.join(" "), dns_options.join(" "), targets.join(" "), told)
        };
        let full = "nameserver 192.0.2.1\nnameserver fe80::1%eth0\nsearch a b\noptions rotate\n";
        let (dns, search, options, mounts, told) = prepared(full, true, false, "");
        assert_eq!((&*dns, &*search, &*options, &*mounts), ("192.0.2.1", "a b", "rotate", ""));
        assert_eq!(told, []);
        assert_eq!(prepared("nameserver 192.0.2.1\n", true, false, "").1, ".", "none, not the node's");
        // Settings that Docker cannot express are in a file.
        assert_eq!(prepared("search a\n", false, false, "").3, RESOLVER_TARGET);
        let written = fs::read_to_string(path(&root, crate::plan::testing::UID, RESOLVER)).unwrap();
        assert_eq!(written, "search a\n");
        assert_eq!(prepared("search a\n", false, true, "").3, "", "its own resolver knows the names");
        let told = prepared("", true, false, "hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet").4;
        assert_eq!(told, [words::missing_cluster_dns()]);
        fs::remove_file(&file).unwrap();
    }
}
