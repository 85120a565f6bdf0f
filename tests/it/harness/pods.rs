//! Manifests for the tests on the real Docker: pods of `busybox:static`, which is on the machine.

use serde_json::{Value, json};

/// The image that every one of our test machines has.
pub const IMAGE: &str = "busybox:static";

/// A script that ends at once, with 0, on TERM.
pub const OBEYS: &str = "trap 'exit 0' TERM; echo started; sleep 100000 & wait";
/// A script that does not end on TERM.
pub const IGNORES_TERM: &str = "trap '' TERM; echo started; while :; do sleep 1; done";

/// A container that runs a shell script.
pub fn container(name: &str, script: &str) -> Value {
    json!({"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script]})
}

/// A pod's manifest that is being built.
#[derive(Debug, Clone)]
pub struct Pod(pub Value);

impl Pod {
    /// A pod with one container `app` that obeys TERM, and a second of grace.
    pub fn new(name: &str) -> Pod {
        Pod(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [container("app", OBEYS)]},
        }))
    }

    /// Sets the value at a JSON pointer (`/spec/containers/0/image`), making the objects on the way; an
    /// index one past the end of an array appends.
    pub fn set(mut self, pointer: &str, value: impl Into<Value>) -> Pod {
        let mut at = &mut self.0;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/");
            at = match at {
                Value::Array(list) => {
                    let index: usize = step.parse().unwrap();
                    if index == list.len() {
                        list.push(json!({}));
                    }
                    &mut list[index]
                }
                other => &mut other[step],
            };
        }
        *at = value.into();
        self
    }

    /// Sets the script of the first container.
    pub fn script(self, script: &str) -> Pod {
        self.set("/spec/containers/0/command", json!(["/bin/sh", "-c", script]))
    }

    /// Sets the seconds between TERM and KILL.
    pub fn grace(self, seconds: i64) -> Pod {
        self.set("/spec/terminationGracePeriodSeconds", seconds)
    }

    /// Sets the restart policy: `Always`, `OnFailure` or `Never`.
    pub fn restart_policy(self, policy: &str) -> Pod {
        self.set("/spec/restartPolicy", policy)
    }

    /// Adds a container.
    pub fn and(mut self, container: Value) -> Pod {
        self.0["spec"]["containers"].as_array_mut().unwrap().push(container);
        self
    }

    /// Adds an init container; with `"restartPolicy": "Always"` in it, a sidecar.
    pub fn init(mut self, container: Value) -> Pod {
        let spec = &mut self.0["spec"];
        if spec["initContainers"].is_null() {
            spec["initContainers"] = json!([]);
        }
        spec["initContainers"].as_array_mut().unwrap().push(container);
        self
    }

    /// Adds a host port to the first container.
    pub fn host_port(self, port: u16) -> Pod {
        self.set("/spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": port}]))
    }

    /// The manifest. JSON is YAML as well.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.0)
    }
}

/// A TCP port of the host on which nothing listens and that no other test of this process gets.
pub fn free_port() -> u16 {
    use std::net::TcpListener;
    use std::sync::Mutex;
    static GIVEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());
    let mut given = GIVEN.lock().unwrap();
    loop {
        let port = TcpListener::bind(("0.0.0.0", 0)).unwrap().local_addr().unwrap().port();
        if !given.contains(&port) {
            given.push(port);
            return port;
        }
    }
}

/// A container that writes many lines, 64 KiB at a time, and counts that in `/count`.
pub const WRITES: &str = "trap 'exit 0' TERM; n=0; while :; do n=$((n+1)); echo $n >/count; \
    yes a line of output | head -c 65536; usleep 20000; done";

/// A script that ends with an error two seconds after [`FLOODS`] has begun, which is for an exec in its container.
pub const CRASHES: &str = "rm -f /crash; while ! [ -e /crash ]; do usleep 100000; done; exit 3";
/// Writes without end.
pub const FLOODS: &str = "(sleep 2; touch /crash) & yes a line of output";

/// Bytes that differ from place to place.
pub fn much(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(next).collect()
}
