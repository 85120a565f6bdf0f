//! A place to connect to, and the probe that only connects.

use std::net::{IpAddr, SocketAddr};

use crate::probe::net::Net;
use crate::probe::outcome::Outcome;

/// A host and a port to connect to.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub host: String,
    pub port: u16,
    pub address: Option<IpAddr>,
}

impl Place {
    pub fn new(host: &str, port: u16) -> Place {
        Place { host: host.to_owned(), port, address: host.parse().ok() }
    }

    pub fn socket(&self) -> Option<SocketAddr> {
        self.address.map(|address| SocketAddr::new(address, self.port))
    }
}

pub(super) fn advance_tcp(place: &Place, net: &mut Option<Net>) -> Option<Outcome> {
    let open = match net {
        Some(open) => open,
        None => match Net::open(place.socket()?) {
            Ok(open) => net.insert(open),
            Err(why) => return Some(Outcome::Failed(why)),
        },
    };
    match open.advance_connect() {
        Ok(true) => Some(Outcome::Passed),
        Ok(false) => None,
        Err(why) => Some(Outcome::Failed(why)),
    }
}
