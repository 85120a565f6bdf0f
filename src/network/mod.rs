//! What a pod finds on the network: resolver settings, `/etc/hosts`, names and addresses. `resolver`
//! and `hosts` are pure; `address` and `files` read and write what is on the node.
//!
//! Never here: Docker. How names and ports are told to it is `mapping/network.rs`.

pub mod address;
pub mod docker;
pub mod files;
pub mod hosts;
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
    /// `--node-ip`; empty to find out.
    pub node_ips: Vec<IpAddr>,
}

/// A user-defined network of Docker's, on which pods have names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerNetwork {
    /// Its name.
    pub name: String,
    /// `--docker-network-cidr`: subnets it is made with, in CIDR notation.
    pub cidrs: Vec<String>,
}

/// What has to be on the node's disk, or be looked up there, before a container is made. Whoever sends the
/// create does it: [`files::NodeFiles::prepare`].
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Resolver settings.
    pub resolver: resolver::Asked,
    /// Of a container that gets the managed file; the mount is in the body.
    pub hosts: Option<hosts::HostsFile>,
    /// It is the sandbox: Docker is told the resolver settings. Else a file is, where Docker's would be wrong.
    pub sandbox: bool,
    /// On a network with names Docker's own resolver is the only one to know them.
    pub names: bool,
}
