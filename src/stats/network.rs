//! Traffic of the interfaces of a network namespace: the namespace of a process, from `/proc/PID/net/dev`.

use std::path::Path;

use super::text;
use crate::base::limits;

/// Counters since an interface was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Received traffic.
    pub received: Traffic,
    /// Sent traffic.
    pub sent: Traffic,
}

/// One direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Damaged packets.
    pub errors: u64,
    /// Packets that were dropped for lack of space.
    pub dropped: u64,
}

/// Prefixes of interfaces that are not counted: the loopback, and the node's ends of containers'
/// interfaces (cAdvisor, `container/libcontainer/handler.go`).
const LEFT_OUT: [&str; 3] = ["lo", "veth", "docker"];

/// The interfaces that a process sees, at most [`limits::INTERFACES`]; `None` when the process is gone. `proc` is
/// `/proc`.
#[must_use]
pub fn of_process(proc: &Path, pid: u32) -> Option<Vec<Interface>> {
    let text = text(&proc.join(pid.to_string()).join("net/dev"))?;
    Some(text.lines().filter_map(parse).take(limits::INTERFACES).collect())
}

/// Parses `  eth0: 103820 1501 0 0 0 0 0 0 507880 3938 0 57 0 0 0 0`: bytes, packets, errs, drop, fifo, frame,
/// compressed and multicast of received traffic, then eight numbers of sent traffic.
fn parse(line: &str) -> Option<Interface> {
    // An alias has a colon in its name.
    let (name, numbers) = line.rsplit_once(':')?;
    let name = name.trim();
    if LEFT_OUT.iter().any(|prefix| name.to_ascii_lowercase().starts_with(prefix)) {
        return None;
    }
    let numbers: Vec<u64> = numbers.split_whitespace().map_while(|number| number.parse().ok()).collect();
    let traffic = |from: usize| match numbers.get(from..from + 4)? {
        &[bytes, packets, errors, dropped] => Some(Traffic { bytes, packets, errors, dropped }),
        _ => None,
    };
    Some(Interface { name: name.to_owned(), received: traffic(0)?, sent: traffic(8)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::Tree;

    #[test]
    fn interfaces_of_a_process() {
        let tree = Tree::new("stats-network");
        tree.write(
            "7/net/dev",
            "Inter-|   Receive                                                |  Transmit\n \
             face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
             lo: 381998113  930944    0    0    0     0          0         0 381998113  930944    0    0    0     0       0          0\n\
             docker0:  103820    1501    0    0    0     0          0         0   507880    3938    0   57    0     0       0          0\n\
             vethab12:  1    1    0    0    0     0          0         0   1    1    0   1    0     0       0          0\n  \
             eth0: 210968144    6254    1    2    3     4          5         6   344933    3730    7    8    9     10       11          12\n  \
             eth0:1: 4 3 2 1 0 0 0 0 8 7 6 5 0 0 0 0\n  \
             short: 1 2 3 4\n",
        );
        let of = |bytes, packets, errors, dropped| Traffic { bytes, packets, errors, dropped };
        let expected = [
            Interface {
                name: "eth0".into(),
                received: of(210_968_144, 6254, 1, 2),
                sent: of(344_933, 3730, 7, 8),
            },
            Interface { name: "eth0:1".into(), received: of(4, 3, 2, 1), sent: of(8, 7, 6, 5) },
        ];
        assert_eq!(of_process(&tree.root(), 7).unwrap(), expected);
        assert_eq!(of_process(&tree.root(), 8), None);
    }

    /// The files of this machine's kernel.
    #[test]
    fn this_process() {
        let found = of_process(Path::new("/proc"), std::process::id()).unwrap();
        let text = std::fs::read_to_string("/proc/self/net/dev").unwrap();
        let counted = |line: &&str| LEFT_OUT.iter().all(|prefix| !line.trim_start().starts_with(prefix));
        assert_eq!(found.len(), text.lines().skip(2).filter(counted).count(), "{found:?} {text}");
    }
}
