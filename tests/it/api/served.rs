//! A node with an API, and the credentials of those who ask it.

use std::fs;
use std::path::PathBuf;

use crate::harness::pods::free_port;
use crate::harness::{Node, Options};

/// A node with an API.
pub struct Served {
    pub node: Node,
    pub port: u16,
}

impl Served {
    pub fn start(more: &[&str]) -> Served {
        let port = free_port();
        let address = format!("--api-address=127.0.0.1:{port}");
        let mut flags = vec![address.as_str()];
        flags.extend(more);
        let mut node = Node::prepare(Options::flags(&flags));
        // It stands in what kubectl prints.
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
}
