//! What a pod finds on the network: resolver settings, `/etc/hosts`, names and addresses. `resolver`
//! and `hosts` are pure; `address` and `files` read and write what is on the node.
//!
//! Never here: Docker. How names and ports are told to it is `mapping/network.rs`.
//!
//! The resolver settings are read before a container is created. Docker is told of them on the sandbox, and a file of
//! podkeeper's own is written where Docker could not say the same: no name server at all, or no options where the node has
//! some. The hosts file is written at each create and once more before the start, which waits for the sandbox's address;
//! an inspection that fails, or tells none, holds nothing up. A network of `--docker-network` is made by the first worker
//! or at the next connect, again when a sandbox finds it missing, and removed by the last worker that ends, if its label
//! says that podkeeper made it and Docker says that no container is in it. One thread at a time asks, because Docker makes
//! two networks of one name.

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
