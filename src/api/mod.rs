//! The part of the Kubernetes API that one node can answer truthfully, for an unchanged kubectl and without a control
//! plane. It does not listen without `--api-address`. Clients need a certificate of this node's own authority
//! ([`pki`]), and browsers a session of [`page`].
//!
//! The main loop publishes changes ([`told`]). [`world`] makes objects with resource versions of them on request, and
//! keeps the latest changes for watches. [`serve`] finds the object of a request by [`path`] and [`kinds`], checks
//! [`rights`], and answers by [`reads`], [`watch`](mod@watch) or [`streams`]. The HTTP is in `server`. [`page`] is for
//! people and browsers.
//!
//! Never here: anything that holds up a pod or the main loop, or work without a request.

mod asked;
mod discovery;
mod failure;
pub mod holdings;
mod identity;
pub mod kinds;
mod metrics;
mod objects;
mod openapi;
pub mod page;
pub mod path;
pub mod pki;
pub mod proto;
mod reads;
mod rights;
mod room;
pub mod selector;
mod serve;
mod streams;
mod table;
pub mod told;
mod value;
mod watch;
mod world;
pub mod write;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::json::json;
use serde_json::Value;

use crate::api_client::Client;
use crate::base::{durable, limits, regular};
use crate::network::address;
use crate::server::auth;
use crate::server::auth::webhook::Webhook;
use crate::server::census::Census;
use crate::server::kubelet::Node;
use crate::server::listen::Port;
use crate::server::pool::Count;
use crate::server::tls::{self, Certificates};
use crate::worker::adding::Adder;
use holdings::Holdings;
use serve::Api;
use told::ApiBoard;
use world::World;
use write::added::Maker;
use write::writes::Writes;

/// The Kubernetes version of this API.
const KUBERNETES: &str = "1.36";

/// Settings of the API from flags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--api-address`.
    pub address: SocketAddr,
    /// The groups of the servers' flags. Anonymous requests are refused here.
    pub auth: auth::Settings,
    /// The API server decides about users that it knows by a token.
    pub asks_rights: bool,
}

/// The parts of the API.
pub struct Parts {
    pub node: Arc<Node>,
    pub told: ApiBoard,
    /// The written objects; `None` when the pods are a cluster's.
    pub holdings: Option<Holdings>,
    /// `--root-dir` and `--run-dir`, absolute.
    pub root_dir: PathBuf,
    pub run_dir: PathBuf,
    pub node_name: String,
    /// `--node-ip`.
    pub node_ips: Vec<IpAddr>,
    pub adder: Adder,
    /// An API server to ask about clients.
    pub server: Option<Client>,
}

/// Directory of the API's certificate and address, below the run directory.
const DIRECTORY: &str = "api";

/// The API's port. It reads and writes below the directories.
#[must_use]
pub fn port(settings: &Settings, parts: Parts) -> Port {
    let Parts { node, told, holdings, root_dir, run_dir, node_name, node_ips, adder, server } = parts;
    let webhook = server.map(|client| Webhook::new(client, settings.auth.webhook.clone()));
    let certificates = certificates(settings, &root_dir, &run_dir, &node_name, &node_ips);
    let names = pki::names(&node_name, settings.address.ip(), &address::of_node(&node_ips));
    let maker = Maker { adder, told: told.clone(), at_once: Count::new(limits::API_ADDED_AT_ONCE) };
    let world = Arc::new(World::new(told, node_ips, epoch(&root_dir)));
    let api = Api {
        node,
        writes: holdings.map(|holdings| Writes { holdings, world: Arc::clone(&world), maker }),
        world,
        auth: rights::Rules { webhook, settings: settings.auth.clone(), asks: settings.asks_rights },
        certificates: Arc::clone(&certificates),
        watches: Census::fair(limits::API_WATCHES, limits::API_WATCHES_OF_USER),
        room: room::Room::default(),
        address: settings.address.to_string(),
        page: page::Page::new(names, settings.address.port()),
    };
    Port {
        name: "the API of this node",
        address: settings.address,
        certificates: Some(certificates),
        service: Arc::new(api),
    }
}

/// The API's certificates. Its own is made at each start, in a file system in memory: it names the present addresses,
/// and writes to no disk. While its authority cannot be read, or it cannot be written, that is retried when a client
/// comes, without a restart.
fn certificates(
    settings: &Settings,
    root_dir: &Path,
    run_dir: &Path,
    node: &str,
    ips: &[IpAddr],
) -> Arc<Certificates> {
    let directory = run_dir.join(DIRECTORY);
    let (certificate, key) = (directory.join("server.crt"), directory.join("server.key"));
    let names = pki::names(node, settings.address.ip(), &address::of_node(ips));
    let listens = settings.address.to_string();
    let settings = tls::Settings {
        given: Some((certificate.clone(), key.clone())),
        signed: None,
        directory: directory.clone(),
        client_ca: Some(pki::certificate_file(root_dir)),
        names: names.clone(),
    };
    let (root_dir, address) = (root_dir.to_owned(), listens);
    let make = move || {
        let pair = pki::Authority::open(&root_dir)?.server(&names)?;
        let write = |path: &Path, text: &str| durable::write(path, text.as_bytes());
        durable::make_directory(&directory)
            .and_then(|()| write(&key, &pair.key))
            .and_then(|()| write(&certificate, &pair.certificate))
            .and_then(|()| write(&directory.join("address"), &address))
            .map_err(|error| {
                format!("the API's certificate cannot be written to {}: {error}", directory.display())
            })
    };
    Certificates::open_made(settings, Some(tls::Make(Box::new(make))))
}

/// Address of the API of the daemon with this run directory, if it has one.
#[must_use]
pub fn address_of(run_dir: &Path) -> Option<SocketAddr> {
    let bytes = regular::read(&run_dir.join(DIRECTORY).join("address"), limits::NODE_FILE).ok()?;
    std::str::from_utf8(&bytes).ok()?.trim().parse().ok()
}

/// The number of this start, one more than that of the one before: the upper part of resource versions.
fn epoch(root_dir: &Path) -> u32 {
    let path = root_dir.join("pki/api/starts");
    let before = regular::read(&path, limits::NODE_FILE).ok();
    let before = before.and_then(|bytes| String::from_utf8(bytes).ok()?.trim().parse::<u32>().ok());
    let epoch = before.unwrap_or(0).saturating_add(1);
    if let Err(error) = durable::write(&path, epoch.to_string().as_bytes()) {
        log::warn!(
            "{} cannot be written: {error}; clients that watch across a restart may miss something",
            path.display()
        );
    }
    epoch
}

/// `/version`.
fn version() -> Value {
    let (major, minor) = KUBERNETES.split_once('.').unwrap_or_default();
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{KUBERNETES}.0+podkeeper-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("linux/{}", crate::node::sys::architecture(std::env::consts::ARCH)),
    })
}
