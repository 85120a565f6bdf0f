//! The built-in sandbox image on a real Docker Engine. Speaks HTTP/1.0 by hand: the test must not depend
//! on podkeeper's own client.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::sandbox_image;
use serde_json::{Value, json};

/// Sends one request; returns status and body. The answer ends with the connection.
fn request(method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let mut stream = UnixStream::connect("/var/run/docker.sock").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// A request without a body: if Docker did not read a body, the connection would be reset under the
/// answer.
fn post(path: &str) -> (u16, String) {
    request("POST", path, "text/plain", b"")
}

/// A container that is removed when dropped.
struct Container(String);

impl Drop for Container {
    fn drop(&mut self) {
        let _ = request("DELETE", &format!("/containers/{}?force=1&v=1", self.0), "text/plain", b"");
    }
}

impl Container {
    fn run(name: &str, body: &Value) -> Container {
        let name = format!("podkeeper-test-{}-{name}", std::process::id());
        let create = format!("/containers/create?name={name}");
        let (status, text) = request("POST", &create, "application/json", body.to_string().as_bytes());
        assert_eq!(status, 201, "{text}");
        let container = Container(name);
        let (status, text) = post(&format!("/containers/{}/start", container.0));
        assert_eq!(status, 204, "{text}");
        container
    }
    fn kill(&self, signal: &str) {
        let (status, text) = post(&format!("/containers/{}/kill?signal={signal}", self.0));
        assert_eq!(status, 204, "{text}");
    }
    /// Waits for the container's end; returns the exit code.
    fn wait(&self) -> i64 {
        let (status, text) = post(&format!("/containers/{}/wait", self.0));
        assert_eq!(status, 200, "{text}");
        serde_json::from_str::<Value>(&text).unwrap()["StatusCode"].as_i64().unwrap()
    }
}

fn load() -> String {
    let (status, text) =
        request("POST", "/images/load?quiet=1", "application/x-tar", &sandbox_image::image_tar());
    assert_eq!(status, 200, "{text}");
    let name = sandbox_image::image_name();
    assert!(text.contains(&name), "{text}");
    name
}

fn sandbox(name: &str) -> Container {
    // No network: a sandbox of this test needs none, and creating one takes most of the time.
    let host = json!({ "NetworkMode": "none", "SecurityOpt": ["no-new-privileges"] });
    let sandbox = Container::run(name, &json!({ "Image": load(), "HostConfig": host }));
    // Docker answers when the program is about to be executed: wait until the program sleeps, waiting for
    // signals.
    let (_, text) = request("GET", &format!("/containers/{}/json", sandbox.0), "text/plain", b"");
    let pid = serde_json::from_str::<Value>(&text).unwrap()["State"]["Pid"].as_u64().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        if status.contains("Name:\tpause\n") && status.contains("State:\tS") {
            return sandbox;
        }
        assert!(Instant::now() < deadline, "{status}");
        std::thread::yield_now();
    }
}

#[test]
fn k11340_the_sandbox_image_needs_no_registry() {
    let name = load();
    assert_eq!(load(), name, "loading it again is harmless");
    let (status, text) = request("GET", &format!("/images/{name}/json"), "text/plain", b"");
    assert_eq!(status, 200, "{text}");
    let image: Value = serde_json::from_str(&text).unwrap();
    let tag = name.rsplit(':').next().unwrap();
    assert!(image["Id"].as_str().unwrap().starts_with(&format!("sha256:{tag}")), "{text}");
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    assert_eq!(image["Architecture"], architecture);
    assert_eq!(image["Os"], "linux");
    assert_eq!(image["Config"]["Entrypoint"], json!(["/pause"]));
}

#[test]
fn term_and_int_end_the_sandbox_at_once() {
    for signal in ["SIGTERM", "SIGINT"] {
        let sandbox = sandbox(signal);
        sandbox.kill("SIGHUP");
        let began = Instant::now();
        sandbox.kill(signal);
        assert_eq!(sandbox.wait(), 0, "{signal}");
        // Nearly all of this time is Docker's own; a lost signal would take for ever.
        assert!(began.elapsed() < Duration::from_secs(60), "{signal}: {:?}", began.elapsed());
    }
}

#[test]
fn the_sandbox_collects_orphans_of_a_shared_process_namespace() {
    let sandbox = sandbox("reaper");
    // A child whose parent is gone belongs to PID 1, the sandbox: 41 or 43 if it does not. It ends when
    // the pipe is written to. Its directory in /proc stays until the process is reaped, and without that
    // the last loop would never end.
    let script = "mkfifo /tmp/end
        (sh -c 'echo $$ > /tmp/pid; exec cat /tmp/end' &)
        while [ ! -s /tmp/pid ]; do :; done
        pid=$(cat /tmp/pid)
        grep -q '^PPid:.1$' /proc/$pid/status || exit 41
        grep -q pause /proc/1/status || exit 43
        : > /tmp/end
        while [ -d /proc/$pid ]; do :; done
        exit 42";
    let host = json!({ "NetworkMode": "none", "PidMode": format!("container:{}", sandbox.0) });
    let body = json!({ "Image": "busybox:static", "Cmd": ["sh", "-c", script], "HostConfig": host });
    let orphaned = Container::run("orphans", &body);
    assert_eq!(orphaned.wait(), 42);
    sandbox.kill("SIGTERM");
    assert_eq!(sandbox.wait(), 0);
}
