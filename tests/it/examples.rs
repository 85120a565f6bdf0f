//! The examples of `packaging/examples/k8s`, each run on the real engine and looked at from inside. What an
//! example promises stands in its first comments; all examples that need the same flags share one node.
//!
//! - `# Shows: SENTENCE`, the first line
//! - `# Flags: FLAG...`, of `podkeeper run`
//! - `# Check CONTAINER: COMMAND => TEXT`: `sh -c COMMAND` in it prints TEXT (`=~`: prints it somewhere);
//!   `POD/CONTAINER` when the file holds several pods
//! - `# Status POINTER => TEXT`: a JSON pointer below the first pod's status
//! - `# Log CONTAINER =~ TEXT`
//! - `# Refused: TEXT`: it is refused with these words, and nothing of it reaches Docker

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::harness::{Node, Options};

/// One promise of an example.
#[derive(Debug)]
enum Promise {
    Check { container: String, command: String, expected: Expected },
    Status { pointer: String, expected: Expected },
    Log { container: String, expected: Expected },
    Refused(String),
}

#[derive(Debug)]
enum Expected {
    Is(String),
    Holds(String),
}

impl Expected {
    /// Splits `LEFT => TEXT` or `LEFT =~ TEXT`.
    fn split(line: &str) -> Option<(&str, Expected)> {
        let exact = line.split_once(" => ").map(|(left, text)| (left, Expected::Is(text.trim().to_owned())));
        let part =
            line.split_once(" =~ ").map(|(left, text)| (left, Expected::Holds(text.trim().to_owned())));
        match (exact, part) {
            (Some(exact), Some(part)) if part.0.len() < exact.0.len() => Some(part),
            (Some(exact), _) => Some(exact),
            (None, part) => part,
        }
    }

    fn met(&self, found: &str) -> bool {
        match self {
            Expected::Is(text) => found.trim() == text,
            Expected::Holds(text) => found.contains(text),
        }
    }
}

/// A file with its promises.
#[derive(Debug)]
struct Example {
    path: PathBuf,
    text: String,
    flags: Vec<String>,
    promises: Vec<Promise>,
}

impl Example {
    fn read(path: PathBuf) -> Example {
        let text = fs::read_to_string(&path).unwrap();
        let bad = |line: &str| -> ! { panic!("{}: {line:?} is no promise", path.display()) };
        let mut head = text.lines().map_while(|line| line.strip_prefix("# "));
        let Some(first) = head.next() else { bad("") };
        assert!(first.starts_with("Shows: ") && first.len() > 20, "{}: {first:?}", path.display());
        let (mut flags, mut promises) = (Vec::new(), Vec::new());
        for line in head {
            let Some((word, rest)) = line.split_once(' ') else { bad(line) };
            let halves = || Expected::split(rest).unwrap_or_else(|| bad(line));
            match word {
                "Flags:" => flags.extend(rest.split_whitespace().map(str::to_owned)),
                "Check" => {
                    let (left, expected) = halves();
                    let Some((container, command)) = left.split_once(": ") else { bad(line) };
                    let (container, command) = (container.to_owned(), command.to_owned());
                    promises.push(Promise::Check { container, command, expected });
                }
                "Status" => {
                    let (pointer, expected) = halves();
                    promises.push(Promise::Status { pointer: pointer.to_owned(), expected });
                }
                "Log" => {
                    let (container, expected) = halves();
                    promises.push(Promise::Log { container: container.to_owned(), expected });
                }
                "Refused:" => promises.push(Promise::Refused(rest.to_owned())),
                // A sentence that goes on.
                _ => {}
            }
        }
        assert!(!promises.is_empty(), "{} promises nothing", path.display());
        Example { path, text, flags, promises }
    }

    fn name(&self) -> &str {
        self.path.file_stem().and_then(|stem| stem.to_str()).unwrap()
    }

    fn is_refused(&self) -> bool {
        self.promises.iter().any(|promise| matches!(promise, Promise::Refused(_)))
    }

    /// What is not as promised, with what was found instead.
    fn broken(&self, node: &Node) -> Option<String> {
        self.promises.iter().find_map(|promise| {
            let found = self.found(node, promise);
            let met = match promise {
                Promise::Check { expected, .. }
                | Promise::Status { expected, .. }
                | Promise::Log { expected, .. } => expected.met(&found),
                Promise::Refused(text) => found.contains(text),
            };
            (!met).then(|| format!("{}: {promise:?}: found {found:?}", self.name()))
        })
    }

    fn found(&self, node: &Node, promise: &Promise) -> String {
        let place = |container: &str| match container.split_once('/') {
            Some((pod, container)) => (pod.to_owned(), container.to_owned()),
            None => (self.name().to_owned(), container.to_owned()),
        };
        let said = |arguments: &[&str]| {
            let output = node.podkeeper(arguments);
            let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                text.push_str(&String::from_utf8_lossy(&output.stderr));
            }
            text
        };
        match promise {
            Promise::Check { container, command, .. } => {
                let (pod, container) = place(container);
                said(&["exec", &pod, "-c", &container, "--", "sh", "-c", command])
            }
            Promise::Log { container, .. } => {
                let (pod, container) = place(container);
                said(&["logs", &pod, "-c", &container])
            }
            Promise::Status { pointer, .. } => {
                let status = node.pod(self.name()).and_then(|pod| pod.status);
                let status = serde_json::to_value(status).unwrap();
                match status.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                }
            }
            Promise::Refused(_) => node.log(),
        }
    }
}

fn examples() -> Vec<Example> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/examples/k8s");
    let mut files: Vec<PathBuf> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(Example::read).collect()
}

/// The Docker network that `--docker-network` names: podkeeper makes it, and removes it after the last pod.
fn network_of(flags: &[String]) -> Option<String> {
    let at = flags.iter().position(|flag| flag == "--docker-network")?;
    flags.get(at + 1).cloned()
}

/// Everything that an example says of itself holds on the real engine.
#[test]
fn examples_do_what_they_say() {
    let mut by_flags: BTreeMap<Vec<String>, Vec<Example>> = BTreeMap::new();
    for example in examples() {
        by_flags.entry(example.flags.clone()).or_default().push(example);
    }
    let mut broken = Vec::new();
    for (flags, examples) in by_flags {
        let network = network_of(&flags);
        let node = Node::with(Options { flags, ..Options::default() });
        // A few at a time: a busy machine is no fault of an example.
        for some in examples.chunks(8) {
            for example in some {
                node.write(&format!("{}.yaml", example.name()), &example.text);
            }
            for example in some {
                let mut last = None;
                let kept = node.comes_true(|| {
                    last = example.broken(&node);
                    last.is_none()
                });
                if !kept {
                    broken.extend([last.unwrap_or_default(), node.picture()]);
                }
                if example.is_refused() {
                    assert!(node.of(example.name()).is_empty(), "{} reached Docker", example.name());
                }
            }
            for example in some {
                node.remove(&format!("{}.yaml", example.name()));
            }
        }
        drop(node);
        network.iter().for_each(|name| super::harness::remove_network(name));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
