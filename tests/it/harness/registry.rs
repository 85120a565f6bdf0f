//! A registry of a test's own on loopback, which Docker accepts without TLS; images made by hand, so that
//! no two tests share a layer; and a gate in front of the registry that is slow, cuts, hangs, or counts.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::runtime::client::Client;
use podkeeper::testing::runtime::docker::Docker;
use podkeeper::testing::runtime::sandbox_image::tar::{Entry, archive};
use podkeeper::testing::runtime::{Call, fake::Rng};
use serde_json::{Value, json};

use crate::harness::pods::free_port;
use crate::harness::private_engine::image_archive;
use crate::harness::{PATIENCE, SOCKET, untag_image};

/// Password of the user `robot`, for a registry that demands one.
pub const PASSWORD: &str = "hunter2-canary";
/// User and password in base64, as in Docker's files; and for `htpasswd`.
pub const AUTH: &str = "cm9ib3Q6aHVudGVyMi1jYW5hcnk=";
const HTPASSWD: &str = "robot:$2y$04$ey2X37YTyCnUaz1ehnQCtOqOBa5TWhgpVDJ.clBUbyT/4NbSYbz/S\n";

/// An image made by hand: the shell's layer, and one of random bytes that no other image has.
pub struct Image {
    config: Vec<u8>,
    pub layers: Vec<Vec<u8>>,
}

/// The file of this name (or the only one with this ending) in a tar.
fn file_in(tar: &[u8], end: &str) -> Option<Vec<u8>> {
    let mut at = 0;
    while let Some(head) = tar.get(at..at + 512).filter(|head| head[0] != 0) {
        let text = |range: std::ops::Range<usize>| {
            let bytes = &head[range];
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
        };
        let size = usize::from_str_radix(&text(124..136), 8).unwrap();
        if text(0..100).ends_with(end) {
            return tar.get(at + 512..at + 512 + size).map(<[u8]>::to_vec);
        }
        at += 512 + size.next_multiple_of(512);
    }
    None
}

/// The layer of a saved image that has one, in the form of Docker 20.10, or of 25 and later.
fn only_layer(tar: &[u8]) -> Option<Vec<u8>> {
    let manifest: serde_json::Value = serde_json::from_slice(&file_in(tar, "manifest.json")?).ok()?;
    file_in(tar, manifest[0]["Layers"][0].as_str()?)
}

fn hex(bytes: &[u8]) -> String {
    ring::digest::digest(&ring::digest::SHA256, bytes).as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

/// `sha256:…`.
pub fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

impl Image {
    /// An image with this many random bytes.
    pub fn new(noise: usize) -> Image {
        static SHELL: OnceLock<Vec<u8>> = OnceLock::new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let shell = SHELL.get_or_init(|| only_layer(&image_archive()).expect("no layer"));
        let seed = u64::from(std::process::id()) << 32 | u64::from(COUNT.fetch_add(1, Ordering::Relaxed));
        let mut rng = Rng::new(seed);
        let bytes: Vec<u8> =
            std::iter::repeat_with(|| rng.number().to_le_bytes()).flatten().take(noise).collect();
        let unique = format!("{seed} {:?}", Instant::now());
        let noise = archive(&[
            Entry { path: "noise", mode: 0o644, content: &bytes },
            Entry { path: "unique", mode: 0o644, content: unique.as_bytes() },
        ]);
        let layers = vec![shell.clone(), noise];
        let ids: Vec<String> = layers.iter().map(|layer| digest(layer)).collect();
        let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = json!({"architecture": arch, "os": "linux", "config": {"Cmd": ["/bin/sh"]},
            "rootfs": {"type": "layers", "diff_ids": ids}, "history": [{}, {}]});
        Image { config: config.to_string().into_bytes(), layers }
    }

    /// The image in the format of `docker save`, under this name.
    pub fn saved(&self, name: &str) -> Vec<u8> {
        let config = format!("{}.json", hex(&self.config));
        let paths: Vec<String> = (0..self.layers.len()).map(|n| format!("{n}/layer.tar")).collect();
        let manifest = json!([{"Config": config, "RepoTags": [name], "Layers": paths}]).to_string();
        let entry = |path, content| Entry { path, mode: 0o644, content };
        let mut entries = vec![entry(config.as_str(), &self.config[..])];
        entries.extend(paths.iter().zip(&self.layers).map(|(path, layer)| entry(path, layer)));
        entries.push(entry("manifest.json", manifest.as_bytes()));
        archive(&entries)
    }

    /// Pushes it to a registry; returns its digest.
    pub fn push(&self, registry: &Registry, repository: &str, tag: &str) -> String {
        let blob = |bytes: &[u8], kind: &str| {
            let uploads = format!("/v2/{repository}/blobs/uploads/");
            let (status, head) = registry.http("POST", &uploads, "application/octet-stream", b"");
            assert_eq!(status, 202, "{head}");
            let location = head.lines().find_map(|l| l.strip_prefix("Location: ")).unwrap().trim();
            let path = location.split_once("/v2/").unwrap().1;
            let to = format!("/v2/{path}&digest={}", digest(bytes));
            let (status, head) = registry.http("PUT", &to, "application/octet-stream", bytes);
            assert_eq!(status, 201, "{head}");
            json!({"mediaType": kind, "size": bytes.len(), "digest": digest(bytes)})
        };
        let config = blob(&self.config, "application/vnd.docker.container.image.v1+json");
        let layer = |bytes: &Vec<u8>| blob(bytes, "application/vnd.docker.image.rootfs.diff.tar.gzip");
        let layers: Vec<Value> = self.layers.iter().map(layer).collect();
        let kind = "application/vnd.docker.distribution.manifest.v2+json";
        let manifest = json!({"schemaVersion": 2, "mediaType": kind, "config": config, "layers": layers});
        let manifest = manifest.to_string();
        let to = format!("/v2/{repository}/manifests/{tag}");
        let (status, head) = registry.http("PUT", &to, kind, manifest.as_bytes());
        assert_eq!(status, 201, "{head}");
        digest(manifest.as_bytes())
    }
}

/// A registry that ends with its handle.
pub struct Registry {
    pub port: u16,
    base: PathBuf,
    process: Option<Child>,
}

impl Registry {
    /// Starts a registry; with `locked` it demands [`PASSWORD`].
    pub fn start(locked: bool) -> Registry {
        let port = free_port();
        let base = std::env::temp_dir().join(format!("podkeeper-registry-{}-{port}", std::process::id()));
        _ = fs::remove_dir_all(&base);
        fs::create_dir_all(base.join("data")).unwrap();
        fs::write(base.join("htpasswd"), HTPASSWD).unwrap();
        let mut config = json!({"version": "0.1", "log": {"level": "error", "accesslog": {"disabled": true}},
            "storage": {"filesystem": {"rootdirectory": base.join("data")}},
            "http": {"addr": format!("127.0.0.1:{port}")}});
        if locked {
            config["auth"] = json!({"htpasswd": {"realm": "test", "path": base.join("htpasswd")}});
        }
        fs::write(base.join("config.yml"), config.to_string()).unwrap();
        let log = fs::File::create(base.join("log")).unwrap();
        let process = Command::new("docker-registry")
            .arg("serve")
            .arg(base.join("config.yml"))
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("docker-registry is not installed (sh tests/run installs it)");
        let registry = Registry { port, base, process: Some(process) };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let log = || fs::read_to_string(registry.base.join("log")).unwrap_or_default();
            assert!(begun.elapsed() < PATIENCE, "the registry does not answer:\n{}", log());
            thread::sleep(Duration::from_millis(10));
        }
        registry
    }

    /// Status and head of the answer.
    fn http(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Type: {kind}\r\n\
             Authorization: Basic {AUTH}\r\nContent-Length: {length}\r\n\r\n",
            self.port
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        (answer.get(9..12).and_then(|code| code.parse().ok()).unwrap_or(0), answer)
    }

    /// Ends the registry.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.base);
    }
}

/// The gate's treatment of the registry's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// At most this many bytes in 50 ms.
    Slow(usize),
    /// The next connection with a larger answer than this ends there; those after it pass.
    CutOnce(usize),
    /// An answer larger than this is stopped there.
    Hang(usize),
}

struct Shared {
    mode: Mutex<Mode>,
    requests: Mutex<Vec<String>>,
    open: Mutex<Vec<TcpStream>>,
    target: u16,
}

/// A gate in front of a registry: images are named by the gate's port.
pub struct Gate {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Gate {
    pub fn before(registry: &Registry) -> Gate {
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Pass),
            requests: Mutex::default(),
            open: Mutex::default(),
            target: registry.port,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (shared, stream) = (Arc::clone(&accepting), stream.unwrap());
                thread::spawn(move || shared.serve(stream));
            }
        });
        Gate { port, shared }
    }

    pub fn mode(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        if mode == Mode::Pass {
            // Requests that hung before would hang for ever.
            for stream in self.shared.open.lock().unwrap().drain(..) {
                _ = stream.shutdown(Shutdown::Both);
            }
        }
    }

    /// How many requests so far began with this text.
    pub fn count(&self, begin: &str) -> usize {
        self.shared.requests.lock().unwrap().iter().filter(|line| line.starts_with(begin)).count()
    }
}

impl Shared {
    fn serve(&self, client: TcpStream) {
        let Ok(server) = TcpStream::connect(("127.0.0.1", self.target)) else { return };
        self.open.lock().unwrap().push(client.try_clone().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| self.ask(&client, &server));
            self.answer(&server, &client);
        });
    }

    fn ask(&self, mut client: &TcpStream, mut server: &TcpStream) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n @ 1..) = client.read(&mut buffer) {
            let line = String::from_utf8_lossy(&buffer[..n]).lines().next().unwrap_or_default().to_owned();
            self.requests.lock().unwrap().push(line);
            if server.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        _ = server.shutdown(Shutdown::Both);
    }

    fn answer(&self, mut server: &TcpStream, mut client: &TcpStream) {
        let mut buffer = [0; 16 * 1024];
        let mut sent = 0;
        while let Ok(n @ 1..) = server.read(&mut buffer) {
            sent += n;
            let mode = *self.mode.lock().unwrap();
            match mode {
                Mode::Pass => {}
                Mode::Slow(bytes) => {
                    let share = u32::try_from(n).unwrap() * 50 / u32::try_from(bytes).unwrap();
                    thread::sleep(Duration::from_millis(share.into()));
                }
                Mode::CutOnce(most) if sent > most => {
                    *self.mode.lock().unwrap() = Mode::Pass;
                    break;
                }
                // Until both ends are closed.
                Mode::Hang(most) if sent > most => {
                    while *self.mode.lock().unwrap() == mode {
                        thread::sleep(Duration::from_millis(20));
                    }
                    break;
                }
                Mode::CutOnce(_) | Mode::Hang(_) => {}
            }
            if client.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        _ = client.shutdown(Shutdown::Both);
        _ = server.shutdown(Shutdown::Both);
    }
}

/// Images that are removed from Docker at the end; make it before the node, whose containers have to be
/// removed first.
#[derive(Default)]
pub struct Cleanup(pub Vec<String>);

impl Cleanup {
    /// Adds an image; returns its name.
    pub fn image(&mut self, name: String) -> String {
        self.0.push(name.clone());
        name
    }
}

/// Removes an image from Docker, if it is there.
pub fn forget(image: &str) {
    untag_image(image);
}

/// Whether Docker has this image.
pub fn is_there(image: &str) -> bool {
    let docker = Docker::Engine(Client::new(std::path::Path::new(SOCKET)));
    docker.call(&Call::ImageInspect { image: image.to_owned() }).is_ok()
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.0.iter().for_each(|image| forget(image));
    }
}
