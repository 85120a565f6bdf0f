//! The kubelet's keyring as tables.

use proptest::prelude::*;

use super::*;

/// A configuration of these servers; each server's user has its name.
fn config(servers: &[&str]) -> DockerConfig {
    let auths: Map<String, Value> =
        servers.iter().map(|s| ((*s).to_owned(), json!({ "username": s, "password": "secret" }))).collect();
    DockerConfig::parse(json!({ "auths": auths }).to_string().as_bytes(), Format::ConfigJson).unwrap()
}

fn found(image: &str, servers: &[&str]) -> Vec<String> {
    let config = config(servers);
    lookup(image, [&config]).into_iter().map(|c| c.username.clone()).collect()
}

#[test]
fn registries_fit_by_host_port_and_path() {
    let check = |image: &str, server: &str, fits: bool| {
        assert_eq!(found(image, &[server]).len(), usize::from(fits), "{image} {server}");
    };
    check("r.io/a", "r.io", true);
    check("r.io/a", "https://r.io", true);
    check("r.io/a", "http://r.io/", true);
    check("r.io/a", "https://r.io/v1/", true);
    check("r.io/a", "https://r.io/v2/", true);
    check("r.io/a", "https://r.io/v2", true);
    check("r.io/team/a:1", "r.io/team", true);
    check("r.io/team/a:1", "r.io/v2/team", true);
    check("r.io/team/a:1", "r.io/team/", true);
    check("r.io/team/a:1", "r.io/team/a", true);
    check("r.io/teammate/a", "r.io/team", false);
    check("r.io/a", "r.io/team", false);
    check("r.io:5000/a", "r.io", false);
    check("r.io/a", "r.io:5000", false);
    check("r.io:5000/a", "r.io:5000", true);
    check("r.io:443/a", "*.io:443", true);
    check("r.io:443/a", "*.io", false);
    check("x.r.io/a", "*.r.io", true);
    check("x.y.r.io/a", "*.r.io", false);
    check("x.y.r.io/a", "*.*.io", false);
    check("x.y.r.io/a", "*.*.r.io", true);
    check("abc-def.r.io/a", "abc-*.r.io", true);
    check("abc.r.io/a", "a*c.r.io", true);
    check("abd.r.io/a", "a*c.r.io", false);
    check("abc.r.io/a", "a?c.r.io", true);
    check("r.io.evil.com/a", "r.io", false);
    check("[::1]:5000/a", "[::1]:5000", true);
    check("not a reference", "*", false);
}

#[test]
fn docker_hub_has_many_names() {
    for image in ["busybox", "library/busybox:1", "docker.io/busybox", "index.docker.io/library/busybox"] {
        for server in ["docker.io", "https://index.docker.io/v1/", "index.docker.io", "docker.io/library"] {
            assert_eq!(found(image, &[server]), [server], "{image}");
        }
        assert_eq!(found(image, &["https://index.docker.io/v1/", "docker.io"]), ["docker.io"]);
    }
    assert!(found("r.io/a", &["https://index.docker.io/v1/"]).is_empty());
}

#[test]
fn the_longest_match_comes_first_and_all_are_given() {
    assert_eq!(
        found("r.io/team/app/x:1", &["*.io", "r.io", "r.io/team", "r.io/team/app", "r.io/other"]),
        ["r.io/team/app", "r.io/team", "r.io", "*.io"]
    );
    let (first, second) = (config(&["r.io"]), config(&["r.io", "r.io/a"]));
    let both: Vec<&str> = lookup("r.io/a", [&first, &second]).iter().map(|c| c.server.as_str()).collect();
    assert_eq!(both, ["r.io/a", "r.io"], "the same one is tried once");
    let many: Vec<String> = (0..100).map(|n| format!("r.io/a/{}", "b/".repeat(n))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let image = format!("r.io/a/{}c", "b/".repeat(99));
    assert_eq!(found(&image, &many).len(), limits::PULL_CREDENTIALS);
}

#[test]
fn files_are_read_as_docker_and_the_kubelet_write_them() {
    let fields = |text: &str, format| {
        let config = DockerConfig::parse(text.as_bytes(), format).unwrap();
        let one = lookup("r.io/a", [&config]).first().map(|c| (*c).clone()).unwrap_or_default();
        (one.username, one.password, one.identity_token, one.registry_token, config.warnings.len())
    };
    let words = |u: &str, p: &str, i: &str, r: &str, n| (u.into(), p.into(), i.into(), r.into(), n);
    let check = |text: &str, expected: (String, String, String, String, usize)| {
        assert_eq!(fields(&format!(r#"{{"auths": {{"r.io": {text}}}}}"#), Format::ConfigJson), expected);
        assert_eq!(fields(&format!(r#"{{"r.io": {text}}}"#), Format::DockerCfg), expected);
    };
    check(r#"{"username": "u", "password": "p", "email": "e"}"#, words("u", "p", "", "", 0));
    check(r#"{"auth": "dTpwOnE="}"#, words("u", "p:q", "", "", 0));
    check(r#"{"username": "x", "auth": "dTpw"}"#, words("u", "p", "", "", 0));
    check(r#"{"auth": "dTo=", "identitytoken": "t"}"#, words("u", "", "t", "", 0));
    check(r#"{"registrytoken": "b"}"#, words("", "", "", "b", 0));
    check("{}", words("", "", "", "", 0));
    check(r#"{"auth": "no colon"}"#, words("", "", "", "", 1));
    check(r#"{"auth": 1}"#, words("", "", "", "", 1));
    check("7", words("", "", "", "", 1));
    let warned = |text: &str| DockerConfig::parse(text.as_bytes(), Format::ConfigJson).unwrap().warnings;
    assert!(warned(r#"{"credsStore": "desktop"}"#)[0].starts_with("credsStore is not supported"));
    assert!(warned(r#"{"credHelpers": {"r.io": "x"}}"#)[0].starts_with("credHelpers for \"r.io\" is not"));
    assert!(warned(r#"{"auths": {"r.io": {}}, "credsStore": ""}"#).is_empty());
    for bad in ["", "[]", "{\"auths\": 3}", "{\"auths\": {\"r.io\": {\"auth\": \"c2VjcmV0"] {
        let why = DockerConfig::parse(bad.as_bytes(), Format::ConfigJson).unwrap_err();
        assert!(!why.contains("c2VjcmV0"), "{why}");
    }
}

#[test]
fn no_value_is_ever_printed() {
    let text = r#"{"auths": {"r.io": {"username": "canary1", "password": "canary2", "identitytoken": "canary3",
        "registrytoken": "canary4"}, "x.io": {"auth": "canary5"}, "y.io": ["canary6"]}}"#;
    let config = DockerConfig::parse(text.as_bytes(), Format::ConfigJson).unwrap();
    let printed = format!("{config:?} {:?}", lookup("r.io/a", [&config]));
    assert!(printed.contains("r.io") && !printed.contains("canary"), "{printed}");
}

#[test]
fn the_header_is_what_docker_wants() {
    let check = |text: &str, expected: Value| {
        let config = DockerConfig::parse(text.as_bytes(), Format::DockerCfg).unwrap();
        let header = lookup("r.io/a", [&config])[0].header();
        assert!(header.len() % 4 == 0 && !header.contains(['+', '/']), "{header}");
        let json = base64::decode(&header.replace('-', "+").replace('_', "/")).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&json).unwrap(), expected);
    };
    check(
        r#"{"r.io": {"auth": "dTpw"}}"#,
        json!({ "username": "u", "password": "p", "serveraddress": "r.io" }),
    );
    check(
        r#"{"https://r.io/v1/": {"username": "u", "password": "ÿ>?~ü\"", "identitytoken": "t"}}"#,
        json!({ "username": "u", "password": "ÿ>?~ü\"", "identitytoken": "t", "serveraddress": "https://r.io/v1/" }),
    );
}

#[test]
fn base64_of_every_length() {
    let check = |bytes: &[u8], expected: &str| assert_eq!(url_safe(bytes), expected);
    check(b"", "");
    check(b"f", "Zg==");
    check(b"fo", "Zm8=");
    check(b"foo", "Zm9v");
    check(&[0xff, 0xef, 0xfe], "_-_-");
}

proptest! {
    #[test]
    fn nothing_breaks_the_reader(text in "\\PC{0,60}", key in "[a-z.*?:/\\[\\]]{0,20}", image in "[a-z.:/]{0,20}") {
        let _ = DockerConfig::parse(text.as_bytes(), Format::ConfigJson);
        let _ = found(&image, &[&key]);
    }

    #[test]
    fn a_glob_fits_like_a_simple_one(glob in "[ab*?]{0,8}", text in "[ab]{0,8}") {
        fn simple(glob: &[u8], text: &[u8]) -> bool {
            match (glob.split_first(), text.split_first()) {
                (None, None) => true,
                (Some((b'*', rest)), _) => simple(rest, text) || text.split_first().is_some_and(|(_, t)| simple(glob, t)),
                (Some((g, glob)), Some((t, text))) => (*g == b'?' || g == t) && simple(glob, text),
                _ => false,
            }
        }
        prop_assert_eq!(glob_fits(&glob, &text), simple(glob.as_bytes(), text.as_bytes()));
    }
}
