//! A server for tests: a Unix socket whose connections are served by scripts that may do anything Docker
//! should not. Compiled for tests only.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::Client;
use super::docker::Docker;

type Script = Box<dyn FnOnce(UnixStream) + Send>;

thread_local! {
    static SEEN: std::cell::RefCell<Option<Arc<Mutex<Vec<String>>>>> = const { std::cell::RefCell::new(None) };
}

/// The server. One script per connection, in the order of arrival.
pub(crate) struct Server {
    directory: PathBuf,
    path: PathBuf,
    seen: Arc<Mutex<Vec<String>>>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(scripts: Vec<Script>) -> Server {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let unique = format!("pk-hostile-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = crate::base::testing::temporary().join(unique);
        std::fs::create_dir_all(&directory).unwrap();
        let path = directory.join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all_seen = Arc::clone(&seen);
        let accepting = std::thread::spawn(move || {
            let mut threads = Vec::new();
            for script in scripts {
                let (stream, _) = listener.accept().unwrap();
                let seen = Arc::clone(&all_seen);
                threads.push(std::thread::spawn(move || {
                    SEEN.with(|s| *s.borrow_mut() = Some(seen));
                    script(stream);
                }));
            }
            drop(listener);
            for thread in threads {
                thread.join().unwrap();
            }
        });
        Server { directory, path, seen, accepting: Some(accepting) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The requests received, after every script has ended.
    pub(crate) fn requests(mut self) -> Vec<String> {
        self.accepting.take().unwrap().join().unwrap();
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Reads one request, records its first line (without the protocol), and returns its body.
pub(crate) fn read_request(stream: &UnixStream) -> Vec<u8> {
    let mut reader = BufReader::with_capacity(1, stream);
    let line = |reader: &mut BufReader<&UnixStream>| {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line(&mut reader);
    let first = first.strip_suffix(" HTTP/1.1").unwrap_or_else(|| panic!("no request: {first:?}")).to_owned();
    SEEN.with(|s| s.borrow().as_ref().unwrap().lock().unwrap().push(first));
    let (mut length, mut chunked) = (0usize, false);
    loop {
        let header = line(&mut reader);
        match header.split_once(": ") {
            Some(("Content-Length", n)) => length = n.parse().unwrap(),
            Some(("Transfer-Encoding", _)) => chunked = true,
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    while chunked {
        let size = usize::from_str_radix(&line(&mut reader), 16).unwrap();
        let mut part = vec![0; size + 2];
        reader.read_exact(&mut part).unwrap();
        body.extend(&part[..size]);
        chunked = size > 0;
    }
    body
}

/// Sends nothing until the client closes the connection.
pub(crate) fn hold(stream: &UnixStream) {
    let _ = std::io::copy(&mut &*stream, &mut std::io::sink());
}

/// A plain successful answer of an engine with API 1.41.
pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nApi-Version: 1.41\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Starts a Docker in this directory that answers quickly, but not about a container: after `delay` it tells that the files of a container are in `UPPER/ID`; calls
/// that take longer than `patience` time out.
pub(crate) fn slow_docker(root: &Path, delay: Duration, patience: Duration, upper: &Path) -> Docker {
    let socket = root.join("slow.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let upper = upper.to_owned();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let upper = upper.clone();
            std::thread::spawn(move || serve_slowly(stream, delay, &upper));
        }
    });
    Docker::Engine(Client::with_deadline(&socket, patience))
}

fn serve_slowly(mut stream: UnixStream, delay: Duration, upper: &Path) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let parts: Vec<&str> = first.split(['/', ' ']).collect();
        let id = parts.iter().position(|part| *part == "containers").map(|at| parts[at + 1]);
        let body = match id {
            Some(id) => {
                std::thread::sleep(delay);
                let upper = upper.join(id);
                serde_json::json!({"GraphDriver": {"Data": {"UpperDir": upper}}}).to_string()
            }
            None if first.contains("_ping") => "OK".to_owned(),
            None => "{}".to_owned(),
        };
        if stream.write_all(ok(&body).as_bytes()).is_err() {
            return;
        }
    }
}
