//! A real control plane on loopback, one for all tests of this process, and one for those that do harm to it. They end
//! with that process.

use std::fs;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use podkeeper::testing::api_client::{Client, Method, Request};
use serde_json::{Value, json};

use crate::harness::{Bounded as _, PATIENCE};

/// See the module's description.
pub struct ControlPlane {
    script: PathBuf,
    directory: PathBuf,
    /// The administrator's client, for lookups: kubectl takes much longer to start than a server to answer.
    client: Client,
}

/// The script `cluster`: in `KUBEBUILDER_ASSETS`, or beside this source tree.
fn script() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/kubernetes");
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let all = assets.into_iter().chain([beside, PathBuf::from("/work/shared/kubernetes")]);
    all.map(|directory| directory.join("cluster")).find(|script| script.is_file())
}

/// The first of five ports that are free and that the kernel does not hand out to connecting clients: a program of the
/// control plane ends when it finds its port taken. Each call looks behind the block of the last one, which may not be in
/// use yet.
fn free_ports() -> u16 {
    static CALLS: AtomicU16 = AtomicU16::new(0);
    let skipped = CALLS.fetch_add(1, Ordering::SeqCst) * 100;
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = u16::try_from(std::process::id() % 1000).unwrap();
    let mut blocks = (skipped..1000).map(|n| 20_000 + (first + n) % 1000 * 10);
    blocks.find(|block| (*block..*block + 5).all(is_free)).unwrap()
}

/// Lifetime of a certificate that the cluster signs for a node.
pub const SIGNED: Duration = Duration::from_secs(40);

/// Directory of the programs of Kubernetes.
pub fn programs() -> PathBuf {
    std::env::var_os("KUBERNETES_BIN").map_or("/tmp/kubernetes-1.36.2".into(), PathBuf::from)
}

impl ControlPlane {
    /// The control plane of this process, which is started at the first call. `None` where its programs are missing:
    /// the test run reports that at its end.
    pub fn get() -> Option<&'static ControlPlane> {
        static ONE: OnceLock<Option<ControlPlane>> = OnceLock::new();
        ONE.get_or_init(|| {
            let found = script();
            if found.is_none() {
                let _ = fs::write(
                    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/not-run"),
                    "the tests of tests/it/cluster: there is no Kubernetes control plane here (KUBEBUILDER_ASSETS)\n",
                );
            }
            found.map(|script| ControlPlane::start(script, "cluster"))
        })
        .as_ref()
    }

    /// Another control plane, for one test at a time, which may kill its programs and change their data.
    pub fn alone() -> Option<MutexGuard<'static, ControlPlane>> {
        static ONE: OnceLock<Option<Mutex<ControlPlane>>> = OnceLock::new();
        let one = ONE.get_or_init(|| script().map(|script| Mutex::new(ControlPlane::start(script, "alone"))));
        one.as_ref().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(script: PathBuf, name: &str) -> ControlPlane {
        let directory = std::env::temp_dir().join(format!("podkeeper-it-{name}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        // However this process ends, its end closes the pipe.
        let stop = "cat; \"$0\" stop \"$1\"; rm -rf \"$1\"";
        let mut guard = Command::new("setsid");
        guard.args(["sh", "-c", stop]).arg(&script).arg(&directory);
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::mem::forget(guard);
        let client = Client::new(directory.join("admin.kubeconfig")).heartbeat();
        let plane = ControlPlane { script, directory, client };
        plane.prepare();
        for _ in 0..3 {
            plane.run(&["start".into(), plane.directory.clone(), free_ports().to_string().into()]);
            if plane.object("/api/v1/namespaces/default/serviceaccounts/default").is_some() {
                for program in ["etcd", "kube-apiserver"] {
                    let words = plane.words(program).expect("it runs");
                    fs::write(plane.file(&format!("{program}.words")), words).unwrap();
                }
                return plane;
            }
        }
        let log = fs::read_to_string(plane.file("kube-controller-manager.log")).unwrap_or_default();
        panic!("no controller-manager: {log}");
    }

    /// Puts the test's own programs in place of the cluster's, under the same names: requests of nodes are recorded,
    /// and signed certificates expire soon.
    fn prepare(&self) {
        let (real, own) = (programs(), self.directory.join("bin"));
        fs::create_dir_all(&own).unwrap();
        if !real.join("hyperkube").is_file() {
            let packed = self.script.with_file_name("hyperkube.xz");
            let unpack = "mkdir -p \"$1\" && xz -dc \"$0\" > \"$1/.x.$$\" && chmod +x \"$1/.x.$$\" && mv \"$1/.x.$$\" \"$1/hyperkube\"";
            let status = Command::new("sh").args(["-c", unpack]).arg(&packed).arg(&real).status().unwrap();
            assert!(status.success(), "{} cannot be unpacked", packed.display());
            std::os::unix::fs::symlink("hyperkube", real.join("kubectl")).ok();
        }
        let (policy, audit) = (self.directory.join("audit.yaml"), self.directory.join("audit.log"));
        let rules = json!([
            {"level": "Metadata", "userGroups": ["system:nodes"], "omitStages": ["RequestReceived"]},
            {"level": "None"},
        ]);
        let rules = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules});
        fs::write(&policy, rules.to_string()).unwrap();
        let program = format!(
            "#!/bin/bash\nname=$(basename \"$0\")\ncase $name in\n\
             kube-apiserver) set -- \"$@\" --audit-policy-file {} --audit-log-path {} ;;\n\
             kube-controller-manager) set -- \"$@\" --cluster-signing-duration {}s ;;\nesac\n\
             exec -a \"$name\" {}/hyperkube \"$@\"\n",
            policy.display(),
            audit.display(),
            SIGNED.as_secs(),
            real.display()
        );
        fs::write(own.join("hyperkube"), program).unwrap();
        fs::set_permissions(own.join("hyperkube"), fs::Permissions::from_mode(0o755)).unwrap();
        // The start never calls it.
        std::os::unix::fs::symlink("/bin/true", own.join("cri-dockerd")).ok();
    }

    /// The API server's audit records of requests of this node.
    pub fn audit(&self, node: &str) -> Vec<Value> {
        let user = format!("system:node:{node}");
        let text = fs::read_to_string(self.directory.join("audit.log")).unwrap();
        let all = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        all.filter(|event| event["user"]["username"] == user.as_str()).collect()
    }

    /// A file in the directory of the cluster's script: `reference`.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.script.with_file_name(name)
    }

    /// A file of the control plane's directory: `bootstrap.kubeconfig`, `ca.crt`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn run(&self, arguments: &[PathBuf]) -> String {
        let output = Command::new(&self.script)
            .args(arguments)
            .env("KUBERNETES_BIN", self.directory.join("bin"))
            .output()
            .unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} {arguments:?}: {error}", self.script.display());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Credentials for a node of this name.
    pub fn node(&self, name: &str) -> PathBuf {
        // Signing writes the authority's serial number: two at a time fail.
        static SIGNS: Mutex<()> = Mutex::new(());
        let _one = SIGNS.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&["node".into(), self.directory.clone(), name.into()]).into()
    }

    /// Port of the API server.
    pub fn port(&self) -> u16 {
        fs::read_to_string(self.directory.join("port")).unwrap().trim().parse().unwrap()
    }

    /// kubectl as the administrator.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        self.kubectl_with(arguments, "")
    }

    /// kubectl as the administrator, not started yet.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(programs().join("kubectl"));
        command.arg("--kubeconfig").arg(self.directory.join("admin.kubeconfig")).args(arguments);
        command
    }

    fn kubectl_with(&self, arguments: &[&str], input: &str) -> Output {
        self.command(arguments).ends_with(input.as_bytes())
    }

    /// Output of kubectl, which must succeed.
    pub fn says(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "kubectl {arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// An object at a path; `None` when there is none.
    pub fn object(&self, path: &str) -> Option<Value> {
        for _ in 0..10 {
            match self.client.call(&Request::get(path), PATIENCE) {
                Ok(object) => return Some(object),
                Err(error) if error.is_not_found() => return None,
                Err(error) => eprintln!("{path}: {error}"),
            }
            thread::sleep(Duration::from_millis(200));
        }
        None
    }

    /// Posts an object to a path, and returns the server's answer.
    pub fn create(&self, path: &str, object: &Value) -> String {
        let output = self.kubectl_with(&["create", "--raw", path, "-f", "-"], &object.to_string());
        assert!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies an object.
    pub fn apply(&self, object: &Value) {
        let output = self.kubectl_with(&["apply", "-f", "-"], &object.to_string());
        assert!(output.status.success(), "{object}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A program of a control plane that was ended.
pub struct Ended(Vec<String>);

impl ControlPlane {
    fn pid(&self, program: &str) -> String {
        fs::read_to_string(self.file(&format!("{program}.pid"))).unwrap().trim().to_owned()
    }

    /// The command line of a program; `None` once it has ended.
    fn words(&self, program: &str) -> Option<String> {
        let line = PathBuf::from("/proc").join(self.pid(program)).join("cmdline");
        // A process that nobody has waited for yet has no command line any more.
        fs::read_to_string(line).ok().filter(|words| words.contains(program))
    }

    /// Kills `etcd` or `kube-apiserver`, and waits for its end. An API server may end by itself when etcd's history goes.
    pub fn end(&self, program: &str) -> Ended {
        let words = fs::read_to_string(self.file(&format!("{program}.words"))).unwrap();
        let words = words.split_terminator('\0').skip(1).map(str::to_owned).collect();
        while self.words(program).is_some() {
            _ = Command::new("kill").args(["-9", &self.pid(program)]).status().unwrap();
            thread::sleep(Duration::from_millis(20));
        }
        Ended(words)
    }

    /// Starts a program that was ended, and waits until it answers; one that ends at once is started again.
    pub fn begin(&self, program: &str, ended: &Ended) {
        let answers = || match program {
            "etcd" => TcpStream::connect(("127.0.0.1", self.port() + 1)).is_ok(),
            _ => self.is_ready(),
        };
        let begun = Instant::now();
        loop {
            self.spawn(program, ended);
            // Until the shell has become the program.
            thread::sleep(Duration::from_millis(100));
            while self.words(program).is_some() {
                if answers() {
                    return;
                }
                assert!(begun.elapsed() < PATIENCE, "{program} does not answer: {}", self.log(program));
                thread::sleep(Duration::from_millis(100));
            }
            assert!(begun.elapsed() < PATIENCE, "{program} ends each time: {}", self.log(program));
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// The last lines of a program's log.
    fn log(&self, program: &str) -> String {
        let log = fs::read_to_string(self.file(&format!("{program}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn spawn(&self, program: &str, ended: &Ended) {
        let own = self.file("bin").join(program);
        let path = if own.exists() { own } else { program.into() };
        let begin = "cd \"$0\"; n=$1; shift; setsid \"$@\" >>$n.log 2>&1 </dev/null & echo $! >\"$0/$n.pid\"";
        let mut command = Command::new("sh");
        command.args(["-c", begin]).arg(&self.directory).arg(program).arg(path).args(&ended.0);
        assert!(command.status().unwrap().success());
    }

    /// Whether the API server answers, and says that it is ready.
    pub fn is_ready(&self) -> bool {
        self.kubectl(&["get", "--raw", "/readyz"]).status.success()
    }

    /// Changes an object, without kubectl.
    pub fn patch(&self, path: &str, patch: &Value) {
        self.client.call(&Request::with(Method::StrategicPatch, path, patch), PATIENCE).unwrap();
    }
}

/// A connection to the API server that can be cut.
pub struct Way {
    address: SocketAddr,
    open: Arc<AtomicBool>,
    all: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    /// To this port on loopback.
    pub fn to(port: u16) -> Way {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (open, all) = (Arc::new(AtomicBool::new(true)), Arc::new(Mutex::new(Vec::new())));
        let (is_open, kept) = (Arc::clone(&open), Arc::clone(&all));
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if !is_open.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for (mut from, mut to) in [
                    (near.try_clone().unwrap(), far.try_clone().unwrap()),
                    (far.try_clone().unwrap(), near.try_clone().unwrap()),
                ] {
                    thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                kept.lock().unwrap().extend([near, far]);
            }
        });
        Way { address, open, all }
    }

    /// A kubeconfig that uses this connection.
    pub fn kubeconfig(&self, plane: &ControlPlane, of: &Path) -> PathBuf {
        let text = fs::read_to_string(of).unwrap();
        let path = of.with_extension("cut");
        let (straight, here) = (format!("127.0.0.1:{}", plane.port()), self.address.to_string());
        assert!(text.contains(&straight));
        fs::write(&path, text.replace(&straight, &here)).unwrap();
        path
    }

    /// Cuts the connection, or opens it again.
    pub fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
        if !open {
            for stream in self.all.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}
