//! Unknown users, and users who ask for too much: the rights of each user, and the bound on watches.

use std::process::Command;

use super::kubectl::Served;
use crate::harness::pods::Pod;

/// Status of a request by `curl`, as this user or as an unknown user.
fn status(served: &Served, user: Option<&str>, method: &str, path: &str) -> String {
    let url = format!("https://127.0.0.1:{}{path}", served.port);
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--insecure", "--max-time", "20", "--output", "/dev/null"]);
    curl.args(["--write-out", "%{http_code}", "--request", method, "--data", "{}"]);
    curl.args(["--header", "Content-Type: application/json"]);
    if let Some(user) = user {
        for part in ["cert", "key"] {
            curl.arg(format!("--{part}")).arg(served.node.base.join(format!("{user}.{part}")));
        }
    }
    String::from_utf8(curl.arg(url).output().unwrap().stdout).unwrap()
}

/// Extracts key and certificate from the user's configuration.
pub fn unpack(served: &Served, user: &str) {
    let text = std::fs::read_to_string(served.config(user)).unwrap();
    for (field, part) in [("client-certificate-data", "cert"), ("client-key-data", "key")] {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(&format!("{field}: "))).unwrap();
        let made = Command::new("sh").arg("-c").arg(format!("echo {line} | base64 -d")).output().unwrap();
        std::fs::write(served.node.base.join(format!("{user}.{part}")), made.stdout).unwrap();
    }
}

#[test]
fn each_verb_on_each_kind_for_nobody_a_viewer_and_an_administrator() {
    let served = Served::start(&[]);
    served.node.write("web.yaml", Pod::new("web").text());
    served.node.wait_running("web", "app");
    for user in ["view", "admin"] {
        unpack(&served, user);
    }
    let pod = served.node.full("web");
    let core = "/api/v1/namespaces/default";
    // Path, method, and the status for a viewer and for an administrator.
    let mut rows: Vec<(String, &str, &str, &str)> = Vec::new();
    for path in [
        "/api",
        "/apis",
        "/api/v1",
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/openapi/v3",
        "/openapi/v2",
    ] {
        rows.push((path.to_owned(), "GET", "200", "200"));
        rows.push((path.to_owned(), "POST", "403", "405"));
    }
    for plural in ["pods", "configmaps", "persistentvolumeclaims", "events", "services"] {
        rows.push((format!("{core}/{plural}"), "GET", "200", "200"));
        rows.push((format!("/api/v1/{plural}"), "GET", "200", "200"));
        rows.push((format!("{core}/{plural}/none"), "GET", "404", "404"));
        rows.push((
            format!("{core}/{plural}/none"),
            "DELETE",
            "403",
            if ["events", "services"].contains(&plural) { "405" } else { "404" },
        ));
    }
    rows.push((format!("{core}/secrets"), "GET", "403", "200"));
    rows.push((format!("{core}/secrets?watch=true&timeoutSeconds=1"), "GET", "403", "200"));
    rows.push(("/api/v1/secrets".to_owned(), "GET", "403", "200"));
    rows.push((format!("{core}/pods/{pod}"), "DELETE", "403", "409"));
    rows.push((format!("{core}/pods/{pod}"), "PUT", "403", "400"));
    rows.push((format!("{core}/pods/{pod}"), "PATCH", "403", "415"));
    rows.push((format!("{core}/pods/{pod}/log"), "GET", "200", "200"));
    rows.push((format!("{core}/pods/{pod}/exec?command=id&stdout=true"), "GET", "403", "400"));
    rows.push((format!("{core}/pods/{pod}/portforward"), "POST", "403", "400"));
    rows.push((format!("{core}/pods"), "POST", "403", "422"));
    rows.push(("/api/v1/nodes".to_owned(), "GET", "200", "200"));
    rows.push(("/api/v1/nodes/n1".to_owned(), "DELETE", "403", "405"));
    rows.push(("/apis/metrics.k8s.io/v1beta1/nodes".to_owned(), "GET", "200", "200"));
    rows.push(("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), "POST", "201", "201"));
    rows.push(("/apis/apps/v1/deployments".to_owned(), "GET", "404", "404"));
    let mut wrong = Vec::new();
    for (path, method, view, admin) in &rows {
        for (user, expected) in [(None, "401"), (Some("view"), *view), (Some("admin"), *admin)] {
            let found = status(&served, user, method, path);
            if found != expected {
                wrong.push(format!("{method} {path} as {user:?}: {found}, not {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn watches_are_bounded_and_one_that_is_not_read_hurts_nobody() {
    let served = Served::start(&[]);
    for user in ["view", "admin"] {
        unpack(&served, user);
    }
    let url = format!("https://127.0.0.1:{}/api/v1/pods?watch=true", served.port);
    let watch = || {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--insecure", "--no-buffer", "--max-time", "60", "--limit-rate", "1"]);
        for part in ["cert", "key"] {
            curl.arg(format!("--{part}")).arg(served.node.base.join(format!("admin.{part}")));
        }
        curl.arg(&url).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    let mut all: Vec<_> = (0..60).map(|_| watch()).collect();
    served.node.wait_until("no further watch is begun", || {
        status(&served, Some("admin"), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1") == "429"
    });
    let of_another = status(&served, Some("view"), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1");
    assert_eq!(of_another, "200", "one user does not take all");
    // A pod starts, and other clients are answered.
    served.node.write("web.yaml", Pod::new("web").text());
    served.node.wait_running("web", "app");
    assert_eq!(status(&served, Some("admin"), "GET", "/api/v1/pods"), "200");
    for child in &mut all {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    served.node.wait_until("watches can be begun again", || {
        status(&served, Some("admin"), "GET", "/api/v1/pods?watch=true&timeoutSeconds=1") == "200"
    });
}
