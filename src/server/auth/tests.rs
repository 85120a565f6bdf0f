//! Tests of identities and rights.

use rcgen::{CertificateParams, DnType, DnValue, KeyPair};

use super::*;
use crate::server::http::request::{Method, parse};

fn certificate(names: &[(DnType, DnValue)]) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    names.iter().for_each(|(kind, value)| params.distinguished_name.push(kind.clone(), value.clone()));
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
}

fn groups(names: &[&str]) -> Set<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_certificate_names_a_user_and_its_groups() {
    let utf8 = |text: &str| DnValue::Utf8String(text.to_owned());
    let printable = |text: &str| DnValue::PrintableString(text.try_into().unwrap());
    let user = |names: &[(DnType, DnValue)]| subject::user(&certificate(names));
    let found = user(&[
        (DnType::CountryName, printable("DE")),
        (DnType::OrganizationName, printable("system:masters")),
        (DnType::CommonName, utf8("Jürgen")),
    ]);
    assert_eq!(
        found,
        Some(User { name: "Jürgen".to_owned(), groups: groups(&["system:masters"]), ..User::default() })
    );
    let long = "x".repeat(300);
    assert_eq!(user(&[(DnType::CommonName, utf8(&long))]).unwrap().name, long);
    assert_eq!(user(&[(DnType::OrganizationName, utf8("o"))]), None, "no name");
    assert_eq!(user(&[(DnType::CommonName, utf8(""))]), None);
    assert_eq!(user(&[(DnType::CommonName, utf8("a\nb"))]), None);
    assert_eq!(subject::user(&CertificateDer::from(vec![0x30, 0x82, 1])), None);
}

#[test]
fn the_right_that_each_request_needs() {
    let right = |method: &str, path: &str| {
        right(&parse(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap())
    };
    let view = [
        ("GET", "/pods"),
        ("GET", "/pods/"),
        ("GET", "/runningpods/"),
        ("GET", "/healthz/ping"),
        ("HEAD", "/healthz"),
        ("GET", "/stats/summary"),
        ("POST", "/stats/summary"),
        ("GET", "/metrics"),
        ("GET", "/metrics/cadvisor"),
        ("GET", "/containerLogs/ns/p/c"),
        ("GET", "/spec/"),
    ];
    for (method, path) in view {
        assert_eq!(right(method, path), Right::View, "{method} {path}");
    }
    let admin = [
        ("GET", "/exec/ns/p/c"),
        ("POST", "/exec/ns/p/c"),
        ("GET", "/attach/ns/p/c"),
        ("POST", "/run/ns/p/c"),
        ("GET", "/portForward/ns/p"),
        ("GET", "/logs/"),
        ("GET", "/logs/auth.log"),
        ("GET", "/configz"),
        ("POST", "/checkpoint/ns/p/c"),
        ("POST", "/pods"),
        ("POST", "/containerLogs/ns/p/c"),
        ("GET", "/"),
        ("GET", "/podsx"),
        ("GET", "/metricsx"),
        ("PUT", "/healthz"),
        ("BREW", "/pods"),
        // Percent-encoded, it is the same path.
        ("GET", "/%65xec/ns/p/c"),
    ];
    for (method, path) in admin {
        assert_eq!(right(method, path), Right::Admin, "{method} {path}");
    }
}

#[test]
fn groups_have_rights() {
    let authorization = Authorization::Groups {
        admin: groups(&["system:masters", "ops"]),
        view: groups(&["podkeeper:view"]),
    };
    let settings = Settings { allows_anonymous: true, authorization, ..Settings::default() };
    let may = |of: &[&str], right| {
        settings.allows(&User { name: "u".to_owned(), groups: groups(of), ..User::default() }, right)
    };
    assert!(may(&["ops"], Right::Admin) && may(&["x", "system:masters"], Right::View));
    assert!(may(&["podkeeper:view"], Right::View) && !may(&["podkeeper:view"], Right::Admin));
    assert!(!may(&["system:unauthenticated"], Right::View) && !may(&[], Right::View));
    let settings =
        Settings { allows_anonymous: true, authorization: Authorization::AlwaysAllow, ..Settings::default() };
    assert!(
        settings.allows(&User { name: "u".to_owned(), groups: groups(&[]), ..User::default() }, Right::Admin)
    );
}

#[test]
fn the_words_of_a_refusal() {
    assert_eq!((verb(Method::Get), verb(Method::Post), verb(Method::Delete)), ("get", "create", "delete"));
    let of = |path: &str| subresources(path).join(" ");
    assert_eq!(of("/stats/summary"), "stats");
    assert_eq!(of("/pods"), "pods proxy");
    assert_eq!(of("/exec/a/b/c"), "proxy");
    assert_eq!(of("/logs/x"), "log");
}
