//! A node with an API, and every version of kubectl that is found on the machine: `kubectl` and `kubectl.1.N` in the
//! directories of `PATH` and of `KUBEBUILDER_ASSETS`.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::harness::pods::free_port;
use crate::harness::{Bounded as _, Node, Options};

/// A node with an API.
pub struct Served {
    pub node: Node,
    pub port: u16,
}

/// The kubectl programs, newest name last; each once.
pub fn programs() -> Vec<PathBuf> {
    let path = env::var("PATH").unwrap_or_default();
    let assets = env::var("KUBEBUILDER_ASSETS").unwrap_or_default();
    let mut found: Vec<PathBuf> = Vec::new();
    for directory in env::split_paths(&path).chain(env::split_paths(&assets)) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_it = name == "kubectl" || name.starts_with("kubectl.1.");
            let seen = |other: &PathBuf| other.file_name() == Some(entry.file_name().as_ref());
            if is_it && !found.iter().any(seen) {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// The minor version of a program.
pub fn minor(program: &PathBuf) -> u32 {
    let output = Command::new(program).args(["version", "--client", "-o", "json"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version: serde_json::Value = serde_json::from_str(&text).unwrap();
    let minor = version["clientVersion"]["minor"].as_str().unwrap();
    minor.trim_end_matches('+').parse().unwrap()
}

impl Served {
    pub fn start(more: &[&str]) -> Served {
        let port = free_port();
        let address = format!("--api-address=127.0.0.1:{port}");
        let mut flags = vec![address.as_str()];
        flags.extend(more);
        let mut node = Node::prepare(Options::flags(&flags));
        // kubectl prints the node's name.
        node.name = "n1".to_owned();
        node.launch();
        let served = Served { node, port };
        served
            .node
            .wait_until("the API has its certificate", || served.node.run_dir().join("api/address").exists());
        for group in ["admin", "view"] {
            let root = served.node.root();
            let root = root.to_str().unwrap();
            let text =
                served.node.says(&["kubeconfig", "--root-dir", root, "--user", group, "--group", group]);
            fs::write(served.config(group), text).unwrap();
        }
        served
    }

    pub fn config(&self, group: &str) -> PathBuf {
        self.node.base.join(format!("{group}.conf"))
    }

    /// Runs kubectl with these arguments, as this user, with this input.
    pub fn kubectl(&self, program: &PathBuf, group: &str, words: &[&str], input: &str) -> Output {
        let home = self.node.base.join(program.file_name().unwrap()).with_extension("home");
        Command::new(program)
            .env("HOME", &home)
            .env("KUBECONFIG", self.config(group))
            .env("KUBE_EDITOR", "sed -i s/green/yellow/")
            .current_dir(&self.node.base)
            .arg("--request-timeout=60s")
            .args(words)
            .ends_with(input.as_bytes())
    }
}
