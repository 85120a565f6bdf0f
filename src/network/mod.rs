//! A pod's view of the network: resolver settings, `/etc/hosts`, names and addresses. `resolver` and `hosts`
//! are pure; `address` and `files` read and write the node's files.
//!
//! Never here: Docker's options for names and ports; those are in `mapping/network.rs`.
//!
//! The resolver settings are read before a container is created. Docker gets them with the sandbox. Podkeeper
//! writes a file of its own where Docker could not say the same: no name server at all, or no options where
//! the node has some. The hosts file is written at each create and once more before the start, which waits
//! for the sandbox's address; an inspection that fails, or shows no address, delays no start. A network of
//! `--docker-network` is made by the first worker or at the next connect, and again when a sandbox finds it
//! missing. The last worker that ends has it removed, if its label says that podkeeper made it and Docker
//! says that no container is in it. One thread at a time asks, because Docker makes two networks of one name.

pub mod address;
pub mod docker;
pub mod files;
pub mod hosts;
pub mod netns;
pub mod resolver;

use std::net::IpAddr;
use std::path::PathBuf;

/// The node's flags about its network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkConfig {
    /// `--docker-network`; `None` for Docker's default bridge.
    pub docker_network: Option<DockerNetwork>,
    /// `--cluster-dns`.
    pub cluster_dns: Vec<IpAddr>,
    /// `--cluster-domain`, without a dot at its end; empty for none.
    pub cluster_domain: String,
    /// `--resolv-conf`; `None` for a resolver on the node itself.
    pub resolv_conf: Option<PathBuf>,
    /// `--node-ip`; empty: the addresses are detected.
    pub node_ips: Vec<IpAddr>,
    /// `--network-plugin` and its directories.
    pub cni: Cni,
}

/// Network plugins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cni {
    /// `--network-plugin=cni`: sandboxes that are made from now on are attached by plugins, not by Docker.
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
    /// where Docker's would be wrong.
    pub sandbox: bool,
    /// Whether the network has names: only Docker's own resolver knows them.
    pub names: bool,
}
