//! The API's kinds of names (`apimachinery/pkg/util/validation/validation.go`), checked by hand, because a
//! regular expression engine would be a tenth of the binary. The texts are upstream's.

/// Accepted, or the mistake.
pub(super) type Verdict = Result<(), &'static str>;

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const MOST_63: &str = "must be no more than 63 bytes";
const MOST_253: &str = "must be no more than 253 bytes";

fn ok(good: bool, otherwise: &'static str) -> Verdict {
    if good { Ok(()) } else { Err(otherwise) }
}

/// True when first and last byte are `edge` and all bytes are `edge` or in `inner`.
fn shaped(text: &str, edge: fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.into_iter().all(|b| b.is_some_and(|b| edge(*b)))
        && bytes.iter().all(|b| edge(*b) || inner.contains(b))
}

fn lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

fn alphanumeric(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}

/// DNS-1123 label: container names, namespaces, host names, volume names.
pub(super) fn label(text: &str) -> Verdict {
    ok(text.len() <= 63, MOST_63)?;
    ok(shaped(text, lower, b"-"), LABEL)
}

/// DNS-1123 subdomain: pod and node names.
pub(super) fn subdomain(text: &str) -> Verdict {
    ok(text.len() <= 253, MOST_253)?;
    ok(text.split('.').all(|part| shaped(part, lower, b"-")), SUBDOMAIN)
}

/// Beginning of a DNS-1123 subdomain: a final dash is allowed, and as upstream (`maskTrailingDash`) any character
/// before it.
pub(super) fn subdomain_prefix(text: &str) -> Verdict {
    let masked = text.strip_suffix('-').filter(|rest| !rest.is_empty()).map(|rest| {
        let mut rest: String = rest.to_owned();
        rest.pop();
        rest + "a"
    });
    subdomain(masked.as_deref().unwrap_or(text))
}

/// Subdomain of a resolver's search list: a part may begin with one `_` and contain more.
pub(super) fn search(text: &str) -> Verdict {
    ok(text.len() <= 253, MOST_253)?;
    let part = |part: &str| shaped(part.strip_prefix('_').unwrap_or(part), lower, b"-_");
    ok(text.split('.').all(part), SUBDOMAIN)
}

/// Key of a label: an optional `prefix/` and a name.
pub(in crate::manifest) fn qualified(text: &str) -> Verdict {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if let Some(prefix) = prefix {
        ok(!prefix.is_empty(), "prefix part must be non-empty")?;
        ok(
            subdomain(prefix).is_ok(),
            "prefix part must be a lowercase RFC 1123 subdomain (e.g. 'example.com')",
        )?;
        ok(!name.contains('/'), "a qualified name must have at most one '/' (e.g. 'example.com/MyName')")?;
    }
    ok(!name.is_empty(), "name part must be non-empty")?;
    ok(name.len() <= 63, "name part must be no more than 63 bytes")?;
    ok(shaped(name, alphanumeric, b"-_."), QUALIFIED)
}

pub(in crate::manifest) fn label_value(text: &str) -> Verdict {
    ok(text.len() <= 63, MOST_63)?;
    ok(text.is_empty() || shaped(text, alphanumeric, b"-_."), LABEL_VALUE)
}

/// Name of an environment variable (relaxed rule, since 1.30).
pub(super) fn env_name(text: &str) -> Verdict {
    let good = text.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=');
    ok(
        good,
        "a valid environment variable name must consist only of printable ASCII characters other than '='",
    )
}

/// IANA service name: names of ports.
pub(super) fn port_name(text: &str) -> Verdict {
    ok(text.len() <= 15, "must be no more than 15 bytes")?;
    ok(
        text.bytes().all(|b| lower(b) || b == b'-'),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    )?;
    ok(text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)")?;
    ok(!text.contains("--"), "must not contain consecutive hyphens")?;
    ok(!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen")
}

/// IPv4 or IPv6 address.
pub(super) fn ip(text: &str) -> Verdict {
    match text.parse::<std::net::IpAddr>() {
        Ok(std::net::IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err("must not be an IPv4-mapped IPv6 address")
        }
        Ok(_) => Ok(()),
        Err(_) => Err("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    }
}

/// Name of an HTTP header.
pub(super) fn header(text: &str) -> Verdict {
    ok(
        text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')",
    )
}

/// A UID that can be a part of paths, and of container names, which are split at `_`.
pub(in crate::manifest) fn uid(text: &str) -> Verdict {
    ok(text.len() <= 63, MOST_63)?;
    ok(
        shaped(text, alphanumeric, b"-."),
        "must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    )
}

/// Name of a sysctl, with dots or slashes.
pub(super) fn sysctl(text: &str) -> Verdict {
    ok(text.len() <= 253, MOST_253)?;
    let parts = text.split(['.', '/']);
    ok(
        parts.into_iter().all(|part| shaped(part, lower, b"-_")),
        "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_upstream() {
        let long = "a".repeat(64);
        for (rule, good, bad) in [
            (
                label as fn(&str) -> Verdict,
                vec!["a", "a-b", "1"],
                vec!["", "A", "-a", "a-", "a.b", "a_b", "\u{e9}", &long],
            ),
            (subdomain, vec!["a.b-c", "1.2", &long], vec!["", ".", "a..b", "a.", "A", "a.-b"]),
            (subdomain_prefix, vec!["a", "a-", "a_-", "--", "a.-"], vec!["", "-", "A", "a--b-c.", "A.--"]),
            (qualified, vec!["a", "A_b", "x.y/Z"], vec!["", "/a", "a/", "a/b/c", "X/a", "-a", &long]),
            (label_value, vec!["", "A", "a_b.c"], vec!["-", "a b", &long]),
            (env_name, vec!["A", "a b", "1"], vec!["a=b", "\u{e9}", "a\n"]),
            (port_name, vec!["http", "a-1"], vec!["", "1", "a--b", "-a", "a-", "HTTP", "sixteen-letters-"]),
            (search, vec!["a.b", "_tcp.a", "a_b.c"], vec!["", "a..b", "__a", "a_", "_", "A"]),
            (ip, vec!["1.2.3.4", "::1"], vec!["", "1.2.3", "01.2.3.4", "::ffff:1.2.3.4", "host"]),
            (header, vec!["X-A"], vec!["X_A", "X A"]),
            (uid, vec!["abc", "1-2"], vec!["", "a_b", "a/b", "-"]),
            (sysctl, vec!["net.core.somaxconn", "net/ipv4/x_y"], vec!["", "a..b", "A"]),
        ] {
            for text in good {
                assert_eq!(rule(text), Ok(()), "{text:?}");
            }
            for text in bad {
                assert!(rule(text).is_err(), "{text:?}");
            }
        }
    }
}
