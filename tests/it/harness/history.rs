//! History of a node's containers, from Docker's own event stream: dead containers are removed, and with
//! them every trace that an inspection could show.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use podkeeper::testing::runtime::labels;
use serde_json::Value;

use crate::harness::Node;

/// One event of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// Docker's clock, nanoseconds.
    pub at: i64,
    /// `create`, `start`, `kill`, `die`, `destroy` …
    pub what: String,
    /// Container id.
    pub id: String,
    /// Pod name with the node's suffix.
    pub pod: String,
    /// Container name; `POD` for a sandbox.
    pub container: String,
    /// Id of the sandbox that it belongs to; a sandbox has its own.
    pub sandbox: String,
}

/// Everything since [`History::of`].
pub struct History {
    events: Arc<Mutex<Vec<Happened>>>,
    stream: UnixStream,
    reader: Option<JoinHandle<()>>,
}

impl History {
    /// Starts to listen; call it before the events can happen.
    pub fn of(node: &Node) -> History {
        let filter = format!(r#"{{"label":["{}={}"]}}"#, labels::ROOT_DIR, node.root().display());
        let encoded: String = filter.bytes().map(|b| format!("%{b:02X}")).collect();
        let mut stream = UnixStream::connect(node.socket()).unwrap();
        // Docker answers before it listens; its memory of past events fills the gap. A node's label is its
        // own, so nothing older can match.
        write!(stream, "GET /events?since=1&filters={encoded} HTTP/1.0\r\nHost: docker\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().contains(" 200 "), "Docker refuses to tell events");
        let events = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&events);
        let reader = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str::<Value>(&line) {
                    shared.lock().unwrap().push(read(&event));
                }
            }
        });
        History { events, stream, reader: Some(reader) }
    }

    /// Events so far, in Docker's order.
    pub fn events(&self) -> Vec<Happened> {
        self.events.lock().unwrap().clone()
    }

    /// Times of this event for containers of this name in this pod (full name).
    pub fn times(&self, pod: &str, container: &str, what: &str) -> Vec<i64> {
        let events = self.events();
        let matching = events.iter().filter(|e| e.pod == pod && e.container == container && e.what == what);
        matching.map(|e| e.at).collect()
    }

    /// Fails when containers of two sets of one pod (two sandboxes), or two containers of one name, were
    /// alive at the same time.
    pub fn check_one_set_at_a_time(&self) {
        let mut alive: BTreeMap<String, Happened> = BTreeMap::new();
        for event in self.events() {
            match event.what.as_str() {
                "start" => {
                    for other in alive.values().filter(|other| other.pod == event.pod) {
                        assert_eq!(other.sandbox, event.sandbox, "two sets at once: {:#?}", self.events());
                        assert_ne!(other.container, event.container, "twice at once: {:#?}", self.events());
                    }
                    alive.insert(event.id.clone(), event);
                }
                "die" => _ = alive.remove(&event.id),
                _ => {}
            }
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}

fn read(event: &Value) -> Happened {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attribute = |key: &str| text(&event["Actor"]["Attributes"][key]);
    let id = text(&event["Actor"]["ID"]);
    let sandbox = attribute(labels::SANDBOX_ID);
    Happened {
        at: event["timeNano"].as_i64().unwrap_or_default(),
        what: text(&event["Action"]),
        pod: attribute(labels::POD_NAME),
        container: attribute(labels::CONTAINER_NAME),
        sandbox: if sandbox.is_empty() { id.clone() } else { sandbox },
        id,
    }
}
