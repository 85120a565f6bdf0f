//! The page: access to it, and its contents in a browser while pods start, fail and recover.

use std::process::Command;

use serde_json::json;

use super::browser::{self, Browser};
use super::kubectl::Served;
use super::strangers::unpack;
use crate::harness::pods::Pod;

/// An answer by `curl`: its status, and its head with its body.
fn get(served: &Served, arguments: &[&str], path: &str) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--max-time", "5", "--include", "--write-out", "\n%{http_code}"]);
    curl.args(arguments).arg(format!("https://127.0.0.1:{}{path}", served.port));
    let all = String::from_utf8(curl.output().unwrap().stdout).unwrap();
    let (text, status) = all.rsplit_once('\n').unwrap();
    (status.to_owned(), text.to_owned())
}

/// A link, as `podkeeper page` prints it.
fn link(served: &Served) -> String {
    let root = served.node.root();
    let link = served.node.says(&["page", "--root-dir", root.to_str().unwrap()]);
    let start = format!("https://127.0.0.1:{}/page/open?token=", served.port);
    assert!(link.starts_with(&start) && link.ends_with('\n'), "{link}");
    link.trim_end().to_owned()
}

/// Path and query of a link.
fn path_of(served: &Served, link: &str) -> String {
    link.strip_prefix(&format!("https://127.0.0.1:{}", served.port)).unwrap().to_owned()
}

/// Follows a link, and returns the `Cookie` header of the client that did.
fn open(served: &Served) -> String {
    let (status, text) = get(served, &[], &path_of(served, &link(served)));
    assert_eq!(status, "200", "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let (cookie, rest) = line.split_once("; ").unwrap();
    assert!(cookie.starts_with("__Host-podkeeper-"), "{line}");
    assert_eq!(rest.trim(), "Path=/; Secure; HttpOnly; SameSite=Strict");
    format!("Cookie: {cookie}")
}

#[test]
fn each_path_for_nobody_a_browser_and_users_with_certificates() {
    let served = Served::start(&[]);
    served.node.write("web.yaml", Pod::new("web").script("echo hello; sleep 1000").text());
    served.node.wait_running("web", "app");
    let (cookie, pod) = (open(&served), served.node.full("web"));
    for user in ["view", "admin"] {
        unpack(&served, user);
    }
    let file = |user: &str, part: &str| served.node.base.join(format!("{user}.{part}")).display().to_string();
    let certificate =
        |user: &str| ["--cert".to_owned(), file(user, "cert"), "--key".to_owned(), file(user, "key")];
    let log = format!("/page/log?ns=default&pod={pod}&container=app");
    let missing = "/page/log?ns=default&pod=none&container=app";
    let secrets = "/api/v1/secrets";
    let used = path_of(&served, &link(&served));
    assert_eq!(get(&served, &[], &used).0, "200");
    let html = "Accept: text/html, */*";
    // Path, method, and the status for a browser with the cookie, for a viewer and for an
    // administrator.
    let rows: Vec<(&str, &str, [&str; 3])> = vec![
        ("/", "GET", ["200", "200", "200"]),
        ("/", "HEAD", ["200", "200", "200"]),
        ("/", "POST", ["405", "405", "405"]),
        ("/page/news", "HEAD", ["200", "200", "200"]),
        ("/page/news", "DELETE", ["405", "405", "405"]),
        (&log, "GET", ["200", "200", "200"]),
        (&log, "PUT", ["405", "405", "405"]),
        (missing, "GET", ["404", "404", "404"]),
        ("/page/log", "GET", ["400", "400", "400"]),
        ("/page/log?ns=a&pod=b&container=../c", "GET", ["400", "400", "400"]),
        ("/page/link", "POST", ["403", "403", "201"]),
        ("/page/link", "GET", ["403", "404", "404"]),
        ("/page", "GET", ["404", "404", "404"]),
        ("/page/none", "GET", ["404", "404", "404"]),
        ("/page/open", "POST", ["405", "405", "405"]),
        // The cookie is for the page alone.
        (secrets, "GET", ["401", "403", "200"]),
        ("/api/v1/pods", "GET", ["401", "200", "200"]),
        ("/version", "GET", ["401", "200", "200"]),
    ];
    let mut wrong = Vec::new();
    let mut check = |who: &str, arguments: &[&str], path: &str, expected: &str| {
        let (found, text) = get(&served, arguments, path);
        if found != expected {
            wrong.push(format!("{path} {arguments:?} as {who}: {found}, not {expected}: {text}"));
        }
    };
    for (path, method, expected) in rows {
        let mut base = vec!["--header", html];
        match method {
            "HEAD" => base.push("--head"),
            method => base.extend(["--request", method]),
        }
        let with = |more: &[&'static str]| [base.clone(), more.to_vec()].concat();
        check("nobody", &with(&[]), path, "401");
        check("a liar", &with(&["--header", "Cookie: __Host-podkeeper-1=x; podkeeper=y"]), path, "401");
        check("a browser", &[base.clone(), vec!["--header", &cookie]].concat(), path, expected[0]);
        for (user, expected) in [("view", expected[1]), ("admin", expected[2])] {
            let certificate = certificate(user);
            let more: Vec<&str> = certificate.iter().map(String::as_str).collect();
            check(user, &[base.clone(), more].concat(), path, expected);
        }
    }
    // A link that was used, one that never existed, and users who may only view.
    check("nobody", &[], &used, "401");
    check("a browser that has the page", &["--header", &cookie], &used, "200");
    check("nobody", &[], "/page/open?token=x", "401");
    check("nobody", &[], "/page/open", "401");
    let fresh = path_of(&served, &link(&served));
    check("a preview", &["--header", "Sec-Purpose: prefetch"], &fresh, "401");
    check("a preview", &["--head"], &fresh, "401");
    check("another name", &["--header", "Host: evil.example"], &fresh, "403");
    check("who follows it", &["--header", "Sec-Fetch-Site: cross-site"], &fresh, "200");
    check("who follows it again", &[], &fresh, "401");
    // Another site makes the browser send the request.
    for header in
        ["Host: evil.example", "Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"]
    {
        for path in ["/", "/page/news", &log] {
            let arguments = ["--header", header, "--header", html, "--header", &cookie];
            check("another site", &arguments, path, "403");
        }
    }
    // Neither a token nor a cookie is in the log or on the disk.
    let secret = cookie.rsplit('=').next().unwrap();
    let token = used.rsplit('=').next().unwrap();
    for secret in [secret, token] {
        let found = Command::new("grep").args(["-rl", "--", secret]).arg(&served.node.base).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout), "");
    }
    // A program that sends the cookie need not say that it takes a page; without the cookie it asks the API.
    for accept in ["Accept:", "Accept: */*", "Accept: application/json"] {
        check("a program with the cookie", &["--header", accept, "--header", &cookie], "/", "200");
        check("a program with a liar's cookie", &["--header", accept, "--header", "Cookie: a=b"], "/", "401");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let (_, page) = get(&served, &["--header", html, "--header", &cookie], "/");
    let policy = page.lines().find(|line| line.starts_with("Content-Security-Policy: ")).unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn the_news_are_bounded_and_begin_with_everything() {
    let served = Served::start(&[]);
    served.node.write("web.yaml", Pod::new("web").text());
    served.node.wait_running("web", "app");
    let cookie = open(&served);
    let url = format!("https://127.0.0.1:{}/page/news", served.port);
    let watch = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--max-time", "600", "--header", &cookie, &url]);
        curl.stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    // Long enough for a busy machine: only a page that is being shown takes the whole time.
    let news = || get(&served, &["--header", &cookie, "--max-time", "3"], "/page/news");
    let (status, text) = news();
    assert_eq!(status, "200");
    assert!(text.contains("\r\nContent-Type: text/event-stream\r\n"), "{text}");
    let all =
        text.lines().skip_while(|line| *line != "event: all").find_map(|line| line.strip_prefix("data: "));
    let all: serde_json::Value = serde_json::from_str(all.unwrap()).unwrap();
    assert_eq!((&all["node"]["name"], &all["pods"][0]["status"]), (&json!("n1"), &json!("Running")), "{all}");
    let mut children: Vec<_> = (0..20).map(|_| watch()).collect();
    served.node.wait_until("no further page is shown", || ["429", "503"].contains(&news().0.as_str()));
    // The page does not disturb pods or other clients.
    served.node.write("web2.yaml", Pod::new("web2").text());
    served.node.wait_running("web2", "app");
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    served.node.wait_until("a page is shown again", || news().0 == "200");
}

/// JavaScript for the row of a pod.
fn row(pod: &str, is: &str) -> String {
    format!(
        "[...document.querySelectorAll('tr.pod')].some((row) => row.querySelector('.name').textContent === '{pod}' && {is})"
    )
}

#[test]
fn a_browser_sees_a_pod_start_fail_and_recover_without_a_reload() {
    let Some(program) = browser::program() else { return };
    let served = Served::start(&[]);
    let mut browser = Browser::start(&program, &served.node.base);
    browser.call("Page.navigate", json!({"url": link(&served)}));
    browser.sees("it is live", "document.getElementById('link')?.textContent === 'live'");
    assert_eq!(browser.tells("document.cookie"), json!(""), "scripts do not see the cookie");
    assert_eq!(
        browser.tells("location.pathname + location.search"),
        json!("/"),
        "the link is not in the address"
    );
    browser.tells("window.mark = true");
    // A user who may write a pod may not write into the page.
    let evil = "<img src=x onerror=window.evil=true><script>window.evil=true</script>";
    let script = "echo \"$WORDS\"; while [ ! -e /data/fail ]; do sleep 0.2; done; exit 7";
    let pod = Pod::new("web")
        .script(script)
        .set("/spec/containers/0/env", json!([{"name": "WORDS", "value": evil}]))
        .set("/spec/containers/0/volumeMounts", json!([{"name": "data", "mountPath": "/data"}]))
        .set("/spec/volumes", json!([{"name": "data", "emptyDir": {}}]));
    served.node.write("web.yaml", pod.text());
    let name = served.node.full("web");
    browser.sees("the pod runs", &row(&name, "row.innerText.includes('Running')"));
    browser.sees("its figures come", &row(&name, "/\\d (m|cores)[^]*\\d [KM]iB/.test(row.innerText)"));
    served.node.inside("web", "app", "touch /data/fail");
    browser.sees("it fails", &row(&name, "row.innerText.includes('CrashLoopBackOff')"));
    browser.sees(
        "somebody who hears is told",
        "document.getElementById('say').textContent.includes('CrashLoopBackOff')",
    );
    browser.tells("document.querySelector('.name').click()");
    browser.sees(
        "the chart says how long it was seen",
        "/Memory, \\d+ (s|min) seen of 5 minutes/.test(document.querySelector('.large').innerText)",
    );
    browser.sees("why it fails", "document.querySelector('.reasons').innerText.includes('exit code 7')");
    browser.tells("document.querySelector('.containers button').click()");
    browser.sees("its log", "document.getElementById('logs-text').textContent.includes('onerror')");
    browser.tells("document.getElementById('logs').close()");
    browser.sees("its events", "document.getElementById('events').innerText.includes('BackOff')");
    // Another manifest repairs it.
    served.node.write("web.yaml", pod.script("sleep 1000").text());
    browser.sees("it runs again", &row(&name, "row.querySelector('.pill').textContent === 'Running'"));
    served.node.remove("web.yaml");
    browser.sees("it is gone", &format!("!{}", row(&name, "true")));
    assert_eq!(
        browser.tells("[window.mark, window.evil === undefined]"),
        json!([true, true]),
        "no reload, no script"
    );
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    assert_eq!(browser.tells("document.body.className"), json!(""));
    served.node.stop();
    browser.sees("what it shows may be old", "document.body.className === 'old'");
}
