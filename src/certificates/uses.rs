//! The two certificates: their files, their content, and their use.

use std::path::Path;

use super::Settings;
use super::files::{Held, Place};
use super::kubeconfig::{self, User};
use super::node::{Found, Use};
use super::request::{Kind, Wanted};
use crate::api_client::kubeconfig::{Kubeconfig, Pem, parse};
use crate::base::clock::Mono;
use crate::base::table::Set;
use crate::base::{durable, limits, order, regular};
use crate::network::address;

/// The certificate that identifies the node to the API server.
pub(super) struct Client {
    settings: Settings,
    came: Box<dyn Fn() + Send>,
}

impl Client {
    pub(super) fn new(settings: &Settings, came: Box<dyn Fn() + Send>) -> Client {
        Client { settings: settings.clone(), came }
    }

    /// The kubeconfig, and the certificate in it.
    fn read(&self) -> Result<(Kubeconfig, Option<Held>), String> {
        let path = &self.settings.kubeconfig;
        let bytes = regular::read(path, limits::API_KUBECONFIG).map_err(|error| error.to_string())?;
        let config = parse(&bytes, path)?;
        let pem = match &config.certificate {
            None => None,
            Some((Pem::Data(bytes), _)) => Some(bytes.0.clone()),
            Some((Pem::File(file), _)) => regular::read(file, limits::PEM_FILE).ok(),
        };
        Ok((config, pem.and_then(|pem| Held::read(&pem).ok())))
    }

    fn is_current(&self, config: &Kubeconfig) -> bool {
        let file = Pem::File(self.place().current());
        config.certificate.as_ref().is_some_and(|(certificate, key)| *certificate == file && *key == file)
    }

    /// Writes the kubeconfig, with the server of the bootstrap kubeconfig.
    fn write(&self, bootstrap: &Path) -> Result<(), String> {
        let cannot =
            |path: &Path, why: &dyn std::fmt::Display| format!("{} cannot be used: {why}", path.display());
        let bytes =
            regular::read(bootstrap, limits::API_KUBECONFIG).map_err(|error| cannot(bootstrap, &error))?;
        let cluster = parse(&bytes, bootstrap).map_err(|why| cannot(bootstrap, &why))?;
        let text = kubeconfig::text(&cluster, User::Pair(&self.place().current()));
        let path = &self.settings.kubeconfig;
        durable::write(path, text.as_bytes()).map_err(|error| cannot(path, &error))?;
        log::info!("{} is written: the node has its own credentials", path.display());
        (self.came)();
        Ok(())
    }
}

impl Use for Client {
    fn kind(&self) -> Kind {
        Kind::Client
    }

    fn place(&self) -> Place {
        Place::of(Kind::Client, &self.settings.directory)
    }

    fn wanted(&self) -> Option<Wanted> {
        Some(Wanted { kind: Kind::Client, node: self.settings.node.clone(), names: Vec::new() })
    }

    /// Like the kubelet's `LoadClientCert`: a kubeconfig with a certificate is used as it is. A lost kubeconfig is
    /// written again if a pair exists.
    fn found(&self) -> Found {
        match (self.read(), &self.settings.bootstrap) {
            (Ok((config, Some(held))), _) if self.is_current(&config) => Found::Held(held),
            (_, None) => Found::Others,
            (Ok((_, Some(held))), Some(_)) => Found::Held(held),
            (_, Some(bootstrap)) => {
                let user = self.wanted().map(|wanted| wanted.user());
                let Some(held) = self.place().load().filter(|held| Some(&held.user) == user.as_ref()) else {
                    return Found::Nothing;
                };
                if let Err(why) = self.write(bootstrap) {
                    log::warn!("{why}");
                }
                Found::Held(held)
            }
        }
    }

    fn renews(&self) -> bool {
        self.settings.renews
    }

    fn put(&self) -> Result<(), String> {
        let is_written = self.read().is_ok_and(|(config, _)| self.is_current(&config));
        match &self.settings.bootstrap {
            Some(bootstrap) if !is_written => self.write(bootstrap),
            _ => Ok(()),
        }
    }

    fn bootstrap(&self) -> Option<&Path> {
        self.settings.bootstrap.as_deref()
    }

    fn looks(&self, _: Mono) -> Option<Mono> {
        None
    }
}

/// The certificate of the kubelet's server.
pub(super) struct Serving {
    settings: Settings,
}

impl Serving {
    pub(super) fn new(settings: &Settings) -> Serving {
        Serving { settings: settings.clone() }
    }
}

impl Use for Serving {
    fn kind(&self) -> Kind {
        Kind::Serving
    }

    fn place(&self) -> Place {
        Place::of(Kind::Serving, &self.settings.directory)
    }

    /// The names as in the node's status, to which the API server connects. Without an address no certificate is
    /// requested, as with the kubelet.
    fn wanted(&self) -> Option<Wanted> {
        let addresses = address::of_node(&self.settings.node_ips);
        if addresses.is_empty() {
            return None;
        }
        let node = self.settings.node.clone();
        let names: Set<String> = order::set(addresses.into_iter().chain([node.clone()]));
        Some(Wanted { kind: Kind::Serving, node, names: names.into_iter().collect() })
    }

    fn found(&self) -> Found {
        self.place().load().map_or(Found::Nothing, Found::Held)
    }

    fn renews(&self) -> bool {
        true
    }

    fn put(&self) -> Result<(), String> {
        Ok(())
    }

    fn bootstrap(&self) -> Option<&Path> {
        None
    }

    fn looks(&self, now: Mono) -> Option<Mono> {
        Some(now.after(limits::CERTIFICATE_NAMES))
    }
}
