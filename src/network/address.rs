//! The addresses of this node: its source addresses for other hosts. No packet is sent.
//!
//! Upstream: `pkg/kubelet/nodestatus/setters.go` (`NodeAddress`), `apimachinery/pkg/util/net/interface.go`.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

use crate::base::{limits, regular};

/// Addresses that only the default route reaches: reserved for documentation.
const FAR: [(&str, &str); 2] = [("0.0.0.0:0", "198.51.100.1:9"), ("[::]:0", "[2001:db8::1]:9")];
/// Prefixes of interfaces that reach no other host.
const INNER: &[&str] = &["lo", "docker", "br-", "veth", "virbr", "cni", "podman"];

/// The node's addresses, at most one of each family, IPv4 first: `given`, or the source address of the
/// default route, or the first global one. Empty when there is none.
#[must_use]
pub fn of_node(given: &[IpAddr]) -> Vec<String> {
    if !given.is_empty() {
        return given.iter().map(IpAddr::to_string).collect();
    }
    let read = |name: &str| std::fs::read_to_string(Path::new("/proc/net").join(name)).unwrap_or_default();
    let [four, six] = FAR.map(|(from, to)| {
        let socket = UdpSocket::bind(from).ok()?;
        socket.connect(to).ok()?;
        socket.local_addr().ok().map(|address| address.ip()).filter(is_global)
    });
    let four = four.or_else(|| first_four(&read("route"), &read("fib_trie")).map(IpAddr::V4));
    let six = six.or_else(|| first_six(&read("if_inet6")).map(IpAddr::V6));
    four.into_iter().chain(six).map(|ip| ip.to_string()).collect()
}

fn is_global(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_loopback() || ip.is_unspecified() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_loopback() || ip.is_unspecified() || ip.segments()[0] & 0xffc0 == 0xfe80),
    }
}

fn leads_out(interface: &str) -> bool {
    !INNER.iter().any(|inner| interface.starts_with(inner))
}

/// The first own address in a directly connected network, in the kernel's order of routes.
fn first_four(routes: &str, trie: &str) -> Option<Ipv4Addr> {
    let own = own_four(trie);
    routes.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [interface, to, gateway, _, _, _, _, mask, ..] = words.as_slice() else { return None };
        // Numbers are in the machine's byte order.
        let hex =
            |text: &str| u32::from_str_radix(text, 16).ok().map(|n| u32::from_be_bytes(n.to_ne_bytes()));
        let (to, gateway, mask) = (hex(to)?, hex(gateway)?, hex(mask)?);
        let connected = gateway == 0 && mask != 0 && leads_out(interface);
        own.iter().copied().find(|ip| connected && ip.to_bits() & mask == to)
    })
}

/// Addresses in the network namespace of a process, IPv4 first, without those that reach no other host; from
/// the first [`limits::NAMESPACE_TABLE`] bytes of each table, because processes in the namespace may fill it.
///
/// # Errors
/// Errors of the system.
pub fn of_process(pid: u32) -> io::Result<Vec<String>> {
    let four = own_four(&table_of(pid, "fib_trie")?).into_iter().map(IpAddr::V4);
    let six = all_six(&table_of(pid, "if_inet6")?, |_| true).into_iter().map(IpAddr::V6);
    Ok(four.chain(six).take(limits::NAMESPACE_ADDRESSES).map(|ip| ip.to_string()).collect())
}

/// Whether the network namespace of a process has an interface of this name.
///
/// # Errors
/// Errors of the system.
pub fn has_interface(pid: u32, name: &str) -> io::Result<bool> {
    let table = table_of(pid, "dev")?;
    Ok(table
        .lines()
        .any(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))))
}

fn table_of(pid: u32, name: &str) -> io::Result<String> {
    let path = format!("/proc/{pid}/net/{name}");
    let bytes = match regular::read_start(Path::new(&path), limits::NAMESPACE_TABLE) {
        // Without IPv6 this table does not exist.
        Err(error) if error.kind() == io::ErrorKind::NotFound && name == "if_inet6" => Vec::new(),
        read => read?,
    };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Own addresses: `|-- ADDRESS` with `/32 host LOCAL` below it.
fn own_four(trie: &str) -> Vec<Ipv4Addr> {
    let (mut own, mut last) = (Vec::new(), None);
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL")
            && own.len() < limits::NAMESPACE_ADDRESSES
            && let Some(ip) = last.filter(|ip| is_global(&IpAddr::V4(*ip)) && !own.contains(ip))
        {
            own.push(ip);
        }
    }
    own
}

fn first_six(table: &str) -> Option<Ipv6Addr> {
    all_six(table, leads_out).into_iter().next()
}

/// Global addresses of the interfaces that `counts` accepts.
fn all_six(table: &str, counts: impl Fn(&str) -> bool) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [address, _, _, scope, _, interface] = words.as_slice() else { return None };
        let ip = Ipv6Addr::from_bits(u128::from_str_radix(address, 16).ok()?);
        // Scope 0 is global.
        (*scope == "00" && counts(interface) && is_global(&IpAddr::V6(ip))).then_some(ip)
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pod with NET_ADMIN may have a million addresses: the daemon must not read all of them.
    #[test]
    fn of_many_addresses_only_some_are_read() {
        let line = |n: u32| format!("  |-- {}\n     /32 host LOCAL\n", Ipv4Addr::from_bits(0x0b00_0000 + n));
        let trie: String = (0..10_000).map(line).collect();
        assert_eq!(own_four(&trie).len(), limits::NAMESPACE_ADDRESSES);
    }

    #[test]
    fn what_cannot_be_read_is_no_empty_namespace() {
        assert!(of_process(u32::MAX).is_err());
        assert!(has_interface(u32::MAX, "eth0").is_err());
        let own = std::process::id();
        assert!(has_interface(own, "lo").unwrap());
        assert!(!has_interface(own, "l").unwrap());
    }

    #[test]
    fn the_given_ones_win() {
        let given = ["192.0.2.9".parse().unwrap(), "fd00::9".parse().unwrap()];
        assert_eq!(of_node(&given), ["192.0.2.9", "fd00::9"]);
    }

    #[test]
    fn without_a_default_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
            docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n\
            eth0\t0000000A\t010200C0\t0003\t0\t0\t0\t000000FF\t0\t0\t0\n\
            eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
            Local:\n        |-- 127.0.0.1\n           /32 host LOCAL\n     |-- 172.17.0.1\n\
            \x20          /32 host LOCAL\n        |-- 172.17.255.255\n           /32 link BROADCAST\n\
            \x20       |-- 192.0.2.2\n           /32 host LOCAL\n";
        if cfg!(target_endian = "little") {
            assert_eq!(first_four(routes, trie), Some(Ipv4Addr::new(192, 0, 2, 2)));
        }
        assert_eq!(own_four(trie), [Ipv4Addr::new(172, 17, 0, 1), Ipv4Addr::new(192, 0, 2, 2)]);
        assert_eq!(first_four("", trie), None);
        assert_eq!(first_four(routes, ""), None);
    }

    #[test]
    fn the_first_global_address_of_ipv6() {
        let table = "00000000000000000000000000000001 01 80 10 80       lo\n\
            fe8000000000000000fc00fffe000001 04 40 20 80     eth0\n\
            fd010000000000000000000000000001 05 40 00 80  docker0\n\
            fd000000000000000000000000000002 04 40 00 82     eth0\n";
        assert_eq!(first_six(table), "fd00::2".parse().ok());
        assert_eq!(first_six(""), None);
    }
}
