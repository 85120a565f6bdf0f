//! Host ports of a pod that are in use on this node: a plugin that maps ports with firewall rules would take them away,
//! even those on loopback (the kubelet's `pkg/kubelet/dockershim/network/hostport/hostport_manager.go` opened each port
//! for this reason).
//!
//! Never here: a port that stays open.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};

use serde_json::{Map, Value};

/// Fails if one of the host ports of [`super::wanted::capabilities`] is in use on this node.
///
/// # Errors
/// The port, in the kubelet's words.
pub(super) fn check(capabilities: &Map<String, Value>) -> Result<(), String> {
    let all = capabilities.get("portMappings").and_then(Value::as_array);
    all.into_iter().flatten().try_for_each(|mapping| {
        let text = |name: &str| mapping.get(name).and_then(Value::as_str).unwrap_or_default();
        let port = mapping.get("hostPort").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let Some(port) = port else { return Ok(()) };
        let (protocol, host) = (text("protocol"), text("hostIP"));
        let is_used = addresses(host).into_iter().any(|ip| is_used(protocol, SocketAddr::new(ip, port)));
        match is_used {
            true => Err(format!(
                "cannot open hostport {port}/{protocol}: bind {host}:{port}: address already in use"
            )),
            false => Ok(()),
        }
    })
}

/// The address, or all addresses if none is given.
fn addresses(host: &str) -> Vec<IpAddr> {
    match host.parse() {
        Ok(ip) => vec![ip],
        Err(_) => vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()],
    }
}

/// Whether a port is in use. Other errors, for example an address that the node does not have, are left to the plugin.
fn is_used(protocol: &str, at: SocketAddr) -> bool {
    let opened: io::Result<()> = match protocol {
        "tcp" => TcpListener::bind(at).map(drop),
        "udp" => UdpSocket::bind(at).map(drop),
        _ => Ok(()),
    };
    opened.is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_of_the_node_is_not_given_to_a_pod() {
        let of = |port: u16, protocol: &str, host: &str| {
            let mapping =
                json!({"hostPort": port, "containerPort": 80, "protocol": protocol, "hostIP": host});
            check(json!({ "portMappings": [mapping] }).as_object().unwrap())
        };
        let api = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = api.local_addr().unwrap().port();
        for host in ["", "0.0.0.0", "127.0.0.1"] {
            let why = of(port, "tcp", host).unwrap_err();
            let words =
                format!("cannot open hostport {port}/tcp: bind {host}:{port}: address already in use");
            assert_eq!(why, words);
        }
        assert_eq!(of(port, "sctp", ""), Ok(()));
        assert_eq!(of(port, "tcp", "203.0.113.7"), Ok(()), "not an address of this node");
        drop(api);
        assert_eq!(of(port, "tcp", ""), Ok(()));
        let dns = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(of(dns.local_addr().unwrap().port(), "udp", "").is_err());
        assert_eq!(check(&Map::new()), Ok(()));
    }
}
