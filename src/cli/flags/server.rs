//! Flags: the HTTP servers and their users. No server listens unless its port is given.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time;

use super::Takes::{Choice, Duration, List, PathOrNone, Port, Switch, Text};
use super::{Flag, RUN, Section, Verb, put, value};
use crate::api;
use crate::base::order;
use crate::base::table::Set;
use crate::server;
use crate::server::auth::{self, Authorization, webhook};
use crate::server::kubelet::Switches;
use crate::server::tls;

/// The way to decide what users may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// The flags that name groups decide.
    #[default]
    Groups,
    /// Every known user may do everything.
    AlwaysAllow,
    /// The API server decides.
    Webhook,
}

/// A port of 0 means that there is no such server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub api_address: Option<SocketAddr>,
    pub listen: Listen,
    pub port: u16,
    pub read_only_port: u16,
    pub healthz_port: u16,
    pub cadvisor_port: u16,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    pub cert_dir: Option<PathBuf>,
    pub client_ca_file: Option<PathBuf>,
    pub anonymous_auth: bool,
    pub mode: Mode,
    pub token_webhook: bool,
    pub hold: Hold,
    pub admin_groups: Set<String>,
    pub view_groups: Set<String>,
    pub debugging_handlers: bool,
    pub system_log_handler: bool,
}

/// Addresses on which servers listen.
#[derive(Debug, Clone, PartialEq)]
pub struct Listen {
    pub address: IpAddr,
    pub healthz: IpAddr,
}

impl Default for Listen {
    /// The same as the defaults of the entries.
    fn default() -> Listen {
        Listen { address: Ipv4Addr::UNSPECIFIED.into(), healthz: Ipv4Addr::LOCALHOST.into() }
    }
}

/// How long answers of the API server are cached.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hold {
    pub token: time::Duration,
    pub allowed: time::Duration,
    pub denied: time::Duration,
}

pub static SECTION: Section = Section {
    title: "Servers",
    flags: &[
        Flag {
            name: "api-address",
            takes: Text("IP:PORT", |o, text| put(&mut o.server.api_address, api_address(text).map(Some))),
            verbs: &[Verb::Run, Verb::Kubeconfig, Verb::Page],
            ..RUN
        },
        Flag { name: "port", takes: Port(|o, port| o.server.port = port), default: "0", ..RUN },
        Flag {
            name: "address",
            takes: Text("IP", |o, text| put(&mut o.server.listen.address, value::address(text))),
            default: "0.0.0.0",
            ..RUN
        },
        Flag {
            name: "read-only-port",
            takes: Port(|o, port| o.server.read_only_port = port),
            default: "0",
            ..RUN
        },
        Flag {
            name: "cadvisor-port",
            takes: Port(|o, port| o.server.cadvisor_port = port),
            default: "0",
            ..RUN
        },
        Flag {
            name: "healthz-port",
            takes: Port(|o, port| o.server.healthz_port = port),
            default: "0",
            ..RUN
        },
        Flag {
            name: "healthz-bind-address",
            takes: Text("IP", |o, text| put(&mut o.server.listen.healthz, value::address(text))),
            default: "127.0.0.1",
            ..RUN
        },
        Flag { name: "tls-cert-file", takes: PathOrNone("FILE", |o, path| o.server.cert_file = path), ..RUN },
        Flag {
            name: "tls-private-key-file",
            takes: PathOrNone("FILE", |o, path| o.server.key_file = path),
            ..RUN
        },
        Flag { name: "cert-dir", takes: PathOrNone("DIR", |o, path| o.server.cert_dir = path), ..RUN },
        Flag {
            name: "client-ca-file",
            takes: PathOrNone("FILE", |o, path| o.server.client_ca_file = path),
            field: "clientCAFile",
            ..RUN
        },
        Flag { name: "anonymous-auth", takes: Switch(|o, on| o.server.anonymous_auth = on), ..RUN },
        Flag {
            name: "authorization-mode",
            takes: Choice(
                "MODE",
                &[
                    ("Groups", |o| o.server.mode = Mode::Groups),
                    ("Webhook", |o| o.server.mode = Mode::Webhook),
                    ("AlwaysAllow", |o| o.server.mode = Mode::AlwaysAllow),
                ],
            ),
            default: "Groups",
            ..RUN
        },
        Flag {
            name: "authentication-token-webhook",
            takes: Switch(|o, on| o.server.token_webhook = on),
            ..RUN
        },
        Flag {
            name: "authentication-token-webhook-cache-ttl",
            takes: Duration(|o, time| o.server.hold.token = time),
            default: "2m",
            ..RUN
        },
        Flag {
            name: "authorization-webhook-cache-authorized-ttl",
            takes: Duration(|o, time| o.server.hold.allowed = time),
            default: "5m",
            ..RUN
        },
        Flag {
            name: "authorization-webhook-cache-unauthorized-ttl",
            takes: Duration(|o, time| o.server.hold.denied = time),
            default: "30s",
            ..RUN
        },
        Flag {
            name: "authorization-admin-groups",
            takes: List("LIST", |o, text| put(&mut o.server.admin_groups, Ok(groups(text)))),
            default: "system:masters,kubeadm:cluster-admins,podkeeper:admin",
            ..RUN
        },
        Flag {
            name: "authorization-view-groups",
            takes: List("LIST", |o, text| put(&mut o.server.view_groups, Ok(groups(text)))),
            default: "podkeeper:view",
            ..RUN
        },
        Flag {
            name: "enable-debugging-handlers",
            takes: Switch(|o, on| o.server.debugging_handlers = on),
            default: "true",
            ..RUN
        },
        Flag {
            name: "enable-system-log-handler",
            takes: Switch(|o, on| o.server.system_log_handler = on),
            ..RUN
        },
    ],
};

fn api_address(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>().ok().filter(|address| address.port() != 0);
    address.ok_or_else(|| "must be IP:PORT, such as 127.0.0.1:6443 or [::1]:6443".to_owned())
}

fn groups(text: &str) -> Set<String> {
    order::set(value::words(text).map(str::to_owned))
}

/// Facts about the node for the servers, beside their flags.
#[derive(Debug)]
pub struct OfNode<'a> {
    /// Its name.
    pub name: &'a str,
    /// Addresses of the node, when they are given.
    pub ips: &'a [IpAddr],
    /// Absolute.
    pub root_dir: &'a Path,
    /// There is an API server to ask.
    pub has_api_server: bool,
    /// Path of a certificate that the API server has signed.
    pub signed: Option<PathBuf>,
    /// The JSON answer to `/configz`.
    pub configz: Arc<str>,
}

impl Values {
    /// The settings of the servers. Without an API server they ask none. `full` makes a path absolute.
    ///
    /// # Errors
    /// A path cannot be made absolute.
    pub fn settings<E>(
        &self,
        node: OfNode<'_>,
        full: &impl Fn(&Path) -> Result<PathBuf, E>,
    ) -> Result<server::Settings, E> {
        let Listen { address, healthz } = self.listen;
        let given = match (&self.cert_file, &self.key_file) {
            (Some(certificate), Some(key)) => Some((full(certificate)?, full(key)?)),
            _ => None,
        };
        let directory = self.directory(node.root_dir, full)?;
        Ok(server::Settings {
            main: server::address(address, self.port),
            read_only: server::address(address, self.read_only_port),
            healthz: server::address(healthz, self.healthz_port),
            cadvisor: server::address(address, self.cadvisor_port),
            tls: tls::Settings {
                given,
                signed: node.signed,
                directory,
                client_ca: self.client_ca_file.as_deref().map(full).transpose()?,
                names: tls::Settings::names_of(node.name, node.ips),
            },
            auth: auth::Settings {
                allows_anonymous: self.anonymous_auth,
                authorization: match self.mode {
                    Mode::Webhook if node.has_api_server => Authorization::Webhook,
                    _ => self.authorization(),
                },
                webhook: self.webhook(node.name, node.has_api_server),
            },
            configz: node.configz,
            switches: Switches { debugging: self.debugging_handlers, system_logs: self.system_log_handler },
        })
    }

    /// `--cert-dir`, absolute.
    ///
    /// # Errors
    /// It cannot be made absolute.
    pub fn directory<E>(
        &self,
        root_dir: &Path,
        full: &impl Fn(&Path) -> Result<PathBuf, E>,
    ) -> Result<PathBuf, E> {
        Ok(self.cert_dir.as_deref().map(full).transpose()?.unwrap_or_else(|| root_dir.join("pki")))
    }

    fn authorization(&self) -> Authorization {
        match self.mode {
            Mode::AlwaysAllow => Authorization::AlwaysAllow,
            Mode::Groups | Mode::Webhook => {
                Authorization::Groups { admin: self.admin_groups.clone(), view: self.view_groups.clone() }
            }
        }
    }

    fn webhook(&self, node: &str, has_api_server: bool) -> webhook::Settings {
        webhook::Settings {
            node: node.to_owned(),
            reviews_tokens: self.token_webhook && has_api_server,
            token_ttl: self.hold.token,
            allowed_ttl: self.hold.allowed,
            denied_ttl: self.hold.denied,
        }
    }

    /// The settings of this node's API, when it has an address. Groups decide about users with a certificate of the
    /// node's own authority, also without an API server.
    #[must_use]
    pub fn api(&self, node: &str, has_api_server: bool) -> Option<api::Settings> {
        let auth = auth::Settings {
            authorization: self.authorization(),
            webhook: self.webhook(node, has_api_server),
            ..auth::Settings::default()
        };
        let asks_rights = self.mode == Mode::Webhook && has_api_server;
        self.api_address.map(|address| api::Settings { address, auth, asks_rights })
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
                ("api-address", "[::1]:6443", |o| o.server.api_address == "[::1]:6443".parse().ok()),
                ("port", "10250", |o| o.server.port == 10250),
                ("address", "::1", |o| o.server.listen.address == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])),
                ("read-only-port", "10255", |o| o.server.read_only_port == 10255),
                ("cadvisor-port", "4194", |o| o.server.cadvisor_port == 4194),
                ("healthz-port", "10248", |o| o.server.healthz_port == 10248),
                ("healthz-bind-address", "::1", |o| {
                    o.server.listen.healthz == IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])
                }),
                ("tls-cert-file", "/c", |o| o.server.cert_file == Some("/c".into())),
                ("tls-private-key-file", "/k", |o| o.server.key_file == Some("/k".into())),
                ("cert-dir", "/d", |o| o.server.cert_dir == Some("/d".into())),
                ("client-ca-file", "/ca", |o| o.server.client_ca_file == Some("/ca".into())),
                ("anonymous-auth", "true", |o| o.server.anonymous_auth),
                ("authorization-mode", "AlwaysAllow", |o| o.server.mode == Mode::AlwaysAllow),
                ("authentication-token-webhook", "true", |o| o.server.token_webhook),
                ("authentication-token-webhook-cache-ttl", "1s", |o| o.server.hold.token.as_secs() == 1),
                ("authorization-webhook-cache-authorized-ttl", "1s", |o| {
                    o.server.hold.allowed.as_secs() == 1
                }),
                ("authorization-webhook-cache-unauthorized-ttl", "1s", |o| {
                    o.server.hold.denied.as_secs() == 1
                }),
                ("authorization-admin-groups", "a,b", |o| {
                    o.server.admin_groups == ["a", "b"].map(str::to_owned).into()
                }),
                ("authorization-view-groups", "a,b", |o| {
                    o.server.view_groups == ["a", "b"].map(str::to_owned).into()
                }),
                ("enable-debugging-handlers", "false", |o| !o.server.debugging_handlers),
                ("enable-system-log-handler", "true", |o| o.server.system_log_handler),
            ],
        );
    }

    #[test]
    fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
        repeats_and_refuses(
            &SECTION,
            &[
                ("api-address", ["127.0.0.1:1", "127.0.0.1:2"], &["127.0.0.1", "127.0.0.1:0"]),
                ("address", ["::1", "::2"], &["localhost"]),
                ("healthz-bind-address", ["::1", "::2"], &["localhost"]),
                ("authorization-admin-groups", ["a", "b"], &[]),
                ("authorization-view-groups", ["a", "b"], &[]),
            ],
        );
    }
    #[test]
    fn the_addresses_are_those_of_the_entries() {
        assert_eq!(super::super::Options::defaults().unwrap().server.listen, Listen::default());
    }
}
