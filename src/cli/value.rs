//! Values of flags: text to plain data. Pure. Messages are those of Go's flag packages, which users of the kubelet and
//! kubectl know.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::base::limits;
use crate::manifest::quoted;
use crate::pod::Source;

pub use crate::base::duration::boolean;

/// A duration in Go's format.
///
/// # Errors
/// Go's message, with an example.
pub fn duration(text: &str) -> Result<Duration, String> {
    crate::base::duration::duration(text).map_err(|why| format!("{why}: such as 30s or 1m30s"))
}

/// A whole number.
///
/// # Errors
/// Not a number, or too large.
pub fn number(text: &str) -> Result<i64, String> {
    text.parse::<i64>().map_err(|_| format!("parsing {}: a whole number is wanted", quoted(text)))
}

/// A whole number that is not negative.
///
/// # Errors
/// Not a number, negative, or too large.
pub fn count(text: &str) -> Result<u32, String> {
    u32::try_from(number(text)?).map_err(|_| "must not be a negative number".to_owned())
}

/// As [`count`], of seconds.
///
/// # Errors
/// Not a number, as with a unit; negative, or too large.
pub fn seconds(text: &str) -> Result<u32, String> {
    match text.parse::<i64>() {
        Ok(_) => count(text),
        Err(_) => {
            Err(format!("parsing {}: a whole number of seconds is wanted, without a unit", quoted(text)))
        }
    }
}

/// Words separated by commas.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// The objection to a period that would keep the daemon busy.
#[must_use]
pub fn too_short(period: Duration) -> Option<String> {
    let shortest = limits::PERIOD_MIN;
    (period < shortest).then(|| format!("{period:?} must be at least {shortest:?}"))
}

/// An absolute path of a cgroup, without `.` and `..`; empty for none.
///
/// # Errors
/// The text is not such a path.
pub fn cgroup(text: &str) -> Result<String, String> {
    let up = text.split('/').any(|part| matches!(part, "." | ".."));
    if !text.is_empty() && (!text.starts_with('/') || up) {
        return Err("must be an absolute path below the mounted cgroups".to_owned());
    }
    Ok(text.to_owned())
}

/// Words of a closed list as part of a sentence: `a, b or c`.
#[must_use]
pub fn any_of(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// kubectl's words for pods.
pub const PODS: &[&str] = &["pods", "pod", "po"];

/// The name of `pod/NAME`.
#[must_use]
pub fn strip_kind(word: &str) -> Option<&str> {
    let (kind, name) = word.split_once('/')?;
    PODS.contains(&kind).then_some(name)
}

/// Adds `k=v,k=v` to `labels`, with the API's rules for label keys and values.
///
/// # Errors
/// The first pair is named that is not a label.
pub fn labels(text: &str, labels: &mut BTreeMap<String, String>) -> Result<(), String> {
    for pair in words(text) {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("malformed pair, expect string=string: {}", quoted(pair)));
        };
        if !is_label_key(key) {
            return Err(format!("{} is not a label key", quoted(key)));
        }
        if !(value.is_empty() || is_label_word(value)) {
            return Err(format!("{} is not a label value", quoted(value)));
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(())
}

fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_label_word(name),
        None => is_label_word(key),
    }
}

/// 1 to 63 letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
fn is_label_word(word: &str) -> bool {
    let end = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    word.len() <= 63
        && end(word.chars().next())
        && end(word.chars().next_back())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// Whether it is an RFC 1123 subdomain, as the API wants names of nodes: at most 253 lower-case letters, digits, `-`,
/// `.`.
#[must_use]
pub fn is_dns_subdomain(name: &str) -> bool {
    let label = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    name.len() <= 253 && name.split('.').all(label)
}

/// A port; 0 for none.
///
/// # Errors
/// The text is no port number.
pub fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "must be a port, 0 to 65535".to_owned())
}

/// An IP address.
///
/// # Errors
/// The text is no address.
pub fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "must be an IP address".to_owned())
}

/// Addresses separated by commas.
///
/// # Errors
/// A word is no address.
pub fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    words(text)
        .map(|word| word.parse().map_err(|_| format!("{} is not an IP address", quoted(word))))
        .collect()
}

/// `--node-ip`: at most one address of each family.
///
/// # Errors
/// A family has two addresses, or a word is no address.
pub fn node_ips(text: &str) -> Result<Vec<IpAddr>, String> {
    let list = addresses(text)?;
    match list.as_slice() {
        [] | [_] => Ok(list),
        [a, b] if a.is_ipv4() != b.is_ipv4() => Ok(list),
        _ => Err("must be one address, or one of IPv4 and one of IPv6".to_owned()),
    }
}

/// A domain, without the dot at its end; empty for none.
///
/// # Errors
/// The text is no domain.
pub fn domain(text: &str) -> Result<String, String> {
    let name = text.trim().trim_end_matches('.').to_ascii_lowercase();
    if name.is_empty() || is_dns_subdomain(&name) { Ok(name) } else { Err("is not a domain".to_owned()) }
}

/// Name of a Docker network; `None` for Docker's own bridge.
///
/// # Errors
/// The text is no name of a network, or names one that gives pods no addresses of their own.
pub fn network(text: &str) -> Result<Option<String>, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match text {
        "" | "bridge" | "default" => Ok(None),
        "host" | "none" => Err("pods need a network that gives them addresses".to_owned()),
        _ if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(good) => {
            Ok(Some(text.to_owned()))
        }
        _ => Err("is not a name of a Docker network".to_owned()),
    }
}

/// A subnet in CIDR notation.
///
/// # Errors
/// The text is no subnet.
pub fn cidr(text: &str) -> Result<String, String> {
    let parts =
        text.split_once('/').and_then(|(ip, bits)| Some((ip.parse().ok()?, bits.parse::<u8>().ok()?)));
    match parts {
        Some((IpAddr::V4(_), 0..=32) | (IpAddr::V6(_), 0..=128)) => Ok(text.to_owned()),
        _ => Err(format!("{} is not a subnet, such as 10.88.0.0/16", quoted(text))),
    }
}

/// `--host-network-sources`: `*`, or names of sources; empty for none.
///
/// # Errors
/// An unknown name, in the kubelet's words.
pub fn sources(text: &str) -> Result<Vec<Source>, String> {
    let mut list = Vec::new();
    for word in words(text) {
        if word == "*" {
            return Ok(Source::ALL.to_vec());
        }
        let source = Source::parse(word).ok_or_else(|| format!("unknown pod source {}", quoted(word)))?;
        if !list.contains(&source) {
            list.push(source);
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the log repeated a value of any length.
    #[test]
    fn a_long_value_is_named_in_part() {
        let long = "y".repeat(5000);
        let labels = |text: &str| labels(text, &mut BTreeMap::new()).map(|()| 0);
        let errors = [
            labels(&format!("x={long}")),
            labels(&format!("{long}=x")),
            labels(&long),
            number(&long).map(|_| 0),
            addresses(&long).map(|_| 0),
            sources(&long).map(|_| 0),
        ];
        for error in errors {
            let why = error.unwrap_err();
            assert!(why.contains("yyy...") && why.len() < 200, "{why}");
        }
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let check =
            |text: &str, expected: Option<Duration>| assert_eq!(duration(text).ok(), expected, "{text}");
        check("1m0s", Some(Duration::from_secs(60)));
        check("300ms", Some(Duration::from_millis(300)));
        check("1h", Some(Duration::from_secs(3600)));
        check("1.5h", Some(Duration::from_secs(5400)));
        check(".5s", Some(Duration::from_millis(500)));
        check("1.s", Some(Duration::from_secs(1)));
        check("2us3ns", Some(Duration::from_nanos(2003)));
        check("0", Some(Duration::ZERO));
        check("+5s", Some(Duration::from_secs(5)));
        check("5", None);
        check("", None);
        check(".s", None);
        check("1..2s", None);
        check("-1s", None);
        check("1d", None);
        check("300y", None);
        check("99999999999999999999h", None);
        check("9999999999h", None);
        assert_eq!(
            duration("20").unwrap_err(),
            "time: missing unit in duration \"20\": such as 30s or 1m30s"
        );
        assert_eq!(
            duration("1d").unwrap_err(),
            "time: unknown unit \"d\" in duration \"1d\": such as 30s or 1m30s"
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_a_parser(text in "\\PC{0,30}", digits in "[0-9.]{0,25}(ns|us|ms|s|m|h|)") {
            let _ = duration(&text);
            let _ = duration(&digits);
            let _ = labels(&text, &mut BTreeMap::new());
            let _ = sources(&text);
        }
    }

    #[test]
    fn labels_follow_the_api() {
        let read = |text: &str| {
            let mut map = BTreeMap::new();
            labels(text, &mut map).map(|()| map.into_iter().collect::<Vec<_>>())
        };
        let pair = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        assert_eq!(read("a=b,example.com/c=d"), Ok(vec![pair("a", "b"), pair("example.com/c", "d")]));
        assert_eq!(read("a="), Ok(vec![pair("a", "")]));
        assert_eq!(read(""), Ok(vec![]));
        assert!(read("a").is_err());
        assert!(read("-a=b").is_err());
        assert!(read("A_/b=c").is_err());
        assert!(read("a=b c").is_err());
    }

    #[test]
    fn addresses_and_networks() {
        let ips =
            |text: &str| node_ips(text).map(|list| list.iter().map(IpAddr::to_string).collect::<Vec<_>>());
        assert_eq!(ips("192.0.2.1, fd00::1"), Ok(vec!["192.0.2.1".to_owned(), "fd00::1".to_owned()]));
        assert_eq!(ips(""), Ok(vec![]));
        assert!(ips("192.0.2.1,192.0.2.2").is_err() && ips("x").is_err() && ips("1.2.3.4,::1,::2").is_err());
        assert_eq!(domain("Cluster.Local."), Ok("cluster.local".to_owned()));
        assert_eq!(domain("."), Ok(String::new()));
        assert!(domain("a b").is_err());
        assert_eq!(network("pods"), Ok(Some("pods".to_owned())));
        assert_eq!((network(""), network("bridge")), (Ok(None), Ok(None)));
        for bad in ["host", "none", "container:x", "-a", "a/b"] {
            assert!(network(bad).is_err(), "{bad}");
        }
        assert_eq!(cidr("10.0.0.0/8"), Ok("10.0.0.0/8".to_owned()));
        assert_eq!(cidr("fd00::/64"), Ok("fd00::/64".to_owned()));
        for bad in ["10.0.0.0", "10.0.0.0/33", "fd00::/129", "x/8"] {
            assert!(cidr(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sources_by_name() {
        assert_eq!(sources("*").unwrap().len(), 3);
        assert_eq!(sources("file,file"), Ok(vec![Source::File]));
        assert_eq!(sources(""), Ok(vec![]));
        assert_eq!(sources("files"), Err("unknown pod source \"files\"".into()));
    }
}
