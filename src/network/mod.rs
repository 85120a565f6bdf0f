//! A pod's view of the network: resolver settings, `/etc/hosts`, names and addresses. `resolver` and `hosts`
//! are pure; `address` and `files` read and write the node's files.
//!
//! Never here: Docker's options for names and ports; those are in `mapping/network.rs`.
//!
//! The resolver settings are read before a container is created. Docker gets them with the sandbox. podkeeper
//! writes its own file if Docker cannot produce the same settings: no name server at all, or no options if
//! the node has some. The hosts file is written at each create and once more before the start, when the
//! sandbox's address is known; a failed inspection, or one without an address, does not delay the start. A
//! network of `--docker-network` is created by the first worker or at the next connect, and again when a
//! sandbox finds it missing. The last worker that ends causes its removal, if its label shows that podkeeper
//! created it and Docker reports no container in it. Only one thread at a time sends requests, because Docker
//! would create two networks of the same name.

pub mod address;
pub mod docker;
pub mod files;
pub mod hosts;
pub mod netns;
pub mod resolver;

use std::net::IpAddr;
use std::path::PathBuf;

/// The node's flags for its network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkConfig {
    /// `--docker-network`; `None` for Docker's default bridge.
    pub docker_network: Option<DockerNetwork>,
    /// `--cluster-dns`.
    pub cluster_dns: Vec<IpAddr>,
    /// `--cluster-domain`, without a final dot; empty for none.
    pub cluster_domain: String,
    /// `--resolv-conf`; `None` for a resolver on the node itself.
    pub resolv_conf: Option<PathBuf>,
    /// `--node-ip`; empty: the addresses are detected.
    pub node_ips: Vec<IpAddr>,
    /// `--network-plugin` and its directories.
    pub cni: Cni,
}

/// CNI plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cni {
    /// `--network-plugin=cni`: from now on, new sandboxes are attached by plugins, not by Docker.
    pub is_on: bool,
    /// `--cni-conf-dir`.
    pub conf_dir: PathBuf,
    /// `--cni-bin-dir`.
    pub bin_dirs: Vec<PathBuf>,
    /// `--cni-cache-dir`.
    pub cache_dir: PathBuf,
}

/// A user-defined network of Docker, in which pods have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerNetwork {
    /// Name of the network.
    pub name: String,
    /// `--docker-network-cidr`: subnets it is made with, in CIDR notation.
    pub cidrs: Vec<String>,
}

/// Files and settings that a create body needs from the node's disk. The thread that sends the create passes
/// it to [`files::NodeFiles::prepare`].
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Resolver settings.
    pub resolver: resolver::Asked,
    /// Set for a container that gets the managed file; the mount is in the body.
    pub hosts: Option<hosts::HostsFile>,
    /// Whether it is the sandbox: Docker gets the resolver settings with it. Other containers get a file
    /// if Docker's would be wrong.
    pub sandbox: bool,
    /// Whether the network has names: only Docker's own resolver resolves them.
    pub names: bool,
}
