//! Requests, redirects and verdicts of an httpGet, rule by rule (upstream `pkg/probe/http/http.go`).

use super::*;

fn get(path: &str, headers: &[(&str, &str)]) -> HttpGet {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    HttpGet { tls: false, host: None, port: Ok(8080), path: path.into(), headers }
}

fn url(get: &HttpGet) -> Url {
    Url::first(get, Some("10.1.2.3".parse().unwrap())).unwrap()
}

fn sent(headers: &[(&str, &str)]) -> String {
    let get = get("/", headers);
    String::from_utf8(request(&get, &url(&get), true, None)).unwrap()
}

#[test]
fn the_request() {
    let plain = "GET / HTTP/1.1\r\nHost: 10.1.2.3:8080\r\nUser-Agent: kube-probe/1.36\r\nAccept: */*\r\n\
                 Connection: close\r\n\r\n";
    assert_eq!(sent(&[]), plain);
    assert_eq!(
        sent(&[("X-A", "1"), ("x-a", "2"), ("Host", "site.example"), ("user-agent", "me"), ("Accept", "")]),
        "GET / HTTP/1.1\r\nHost: site.example\r\nX-A: 1\r\nx-a: 2\r\nuser-agent: me\r\nConnection: close\r\n\r\n"
    );
    assert!(!sent(&[("User-Agent", "")]).contains("User-Agent"));
    let evil = sent(&[("X", "1\r\nY: 2"), ("Content-Length", "10"), ("Connection", "keep-alive")]);
    assert!(evil.contains("X: 1Y: 2\r\n") && !evil.contains("Length") && !evil.contains("keep"), "{evil}");
    let get = get("/", &[]);
    let hook = String::from_utf8(request(&get, &url(&get), true, Some(HookKind::PreStop))).unwrap();
    assert!(hook.contains("User-Agent: kube-lifecycle/1.36\r\n"));
}

#[test]
fn paths() {
    for (path, expected) in [
        ("/", "/"),
        ("", "/"),
        ("healthz", "/healthz"),
        ("?a=b", "/?a=b"),
        ("/a?b=c&d=%20e", "/a?b=c&d=%20e"),
        ("/a b#part", "/a%20b"),
        ("/é", "/%C3%A9"),
        ("/a\r\nHost: evil", "/a%0D%0AHost:%20evil"),
    ] {
        assert_eq!(url(&get(path, &[])).target, expected, "{path}");
    }
}

#[test]
fn hosts() {
    let mut get = get("/", &[]);
    assert_eq!(url(&get).shown(), "http://10.1.2.3:8080/");
    let v6 = Url::first(&get, Some("fd00::1".parse().unwrap())).unwrap();
    assert_eq!((v6.authority().as_str(), v6.host.as_str()), ("[fd00::1]:8080", "fd00::1"));
    assert_eq!(Url::first(&get, None), Err("the pod's address is not known".into()));
    get.host = Some("node.example".into());
    assert_eq!(Url::first(&get, None).unwrap().authority(), "node.example:8080");
    get.port = Err("invalid port number: 0".into());
    assert_eq!(Url::first(&get, None), Err("invalid port number: 0".into()));
}

#[test]
fn statuses() {
    for (status, passed) in [(200, true), (204, true), (299, true), (400, false), (404, false), (500, false)]
    {
        let expected = match passed {
            true => Outcome::Passed,
            false => Outcome::Failed(format!("HTTP probe failed with statuscode: {status}")),
        };
        assert_eq!(judge(status, b"secret"), expected);
    }
    let warned = |body: &str| Outcome::Warned(format!("Probe terminated redirects, Response body: {body}"));
    assert_eq!(judge(302, b"moved"), warned("moved"));
    assert_eq!(judge(304, b""), warned(""));
}

/// The next URL, or the other decision.
fn led(status: u16, location: Option<&str>, followed: usize) -> String {
    let get = get("/dir/page?q", &[("Host", "site")]);
    let first = url(&get);
    match next(status, location, &first, &first, true, followed) {
        Next::Follow(url, named) => format!("{}{}", url.shown(), if named { " named" } else { "" }),
        Next::Judge => "judge".into(),
        Next::Stop(why) => why,
    }
}

#[test]
fn redirects() {
    for (status, location, expected) in [
        (301, Some("/other"), "http://10.1.2.3:8080/other named"),
        (302, Some("near"), "http://10.1.2.3:8080/dir/near named"),
        (303, Some("?x=1"), "http://10.1.2.3:8080/dir/page?x=1 named"),
        (307, Some("http://10.1.2.3/x"), "http://10.1.2.3/x"),
        (308, Some("https://10.1.2.3:9/x"), "https://10.1.2.3:9/x"),
        (302, Some("//10.1.2.3:81"), "http://10.1.2.3:81/"),
        // Another host is not followed, in any notation.
        (302, Some("http://10.1.2.4/"), "judge"),
        (302, Some("//elsewhere"), "judge"),
        (302, Some("http://10.1.2.3@elsewhere/"), "judge"),
        (300, Some("/other"), "judge"),
        (304, Some("/other"), "judge"),
        (302, None, "judge"),
        (302, Some(""), "judge"),
        (200, Some("/other"), "judge"),
        (302, Some("ftp://10.1.2.3/"), "failed to parse Location header \"ftp://10.1.2.3/\""),
        (302, Some("http://10.1.2.3:99999/"), "failed to parse Location header \"http://10.1.2.3:99999/\""),
    ] {
        assert_eq!(led(status, location, 0), expected, "{status} {location:?}");
    }
    assert_eq!(led(302, Some("/x"), 9), "http://10.1.2.3:8080/x named");
    assert_eq!(led(302, Some("/x"), 10), "stopped after 10 redirects");
}

#[test]
fn a_named_host_holds_until_a_redirect_names_a_server() {
    let get = get("/", &[("Host", "site")]);
    let named = |named| String::from_utf8(request(&get, &url(&get), named, None)).unwrap();
    assert!(named(true).contains("Host: site\r\n"));
    assert!(named(false).contains("Host: 10.1.2.3:8080\r\n"));
}
