//! The examples of `packaging/examples/k8s`, each run on the real engine and checked from inside. The
//! promises of an example stand in its first comments; all examples that need the same flags share one node.
//!
//! - `# Shows: SENTENCE`, the first line
//! - `# Flags: FLAG...`, of `podkeeper run`
//! - `# Check CONTAINER: COMMAND => TEXT`: `sh -c COMMAND` in it prints TEXT (`=~`: prints it somewhere);
//!   `POD/CONTAINER` when the file holds several pods
//! - `# Status POINTER => TEXT`: a JSON pointer below the first pod's status, in which conditions go by type
//! - `# Log CONTAINER =~ TEXT`
//! - `# Refused: TEXT`: it is refused with these words, and nothing of it reaches Docker
//! - `# Edit: OLD => NEW`: now the file is edited so, and what follows holds after that
//! - `# Registry: NAME`: NAME stands for a registry that wants a password, and has the image `team/app:v1`

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::registry::{Cleanup, Image, Registry};
use crate::harness::{Node, Options};

/// One promise of an example.
#[derive(Debug)]
enum Promise {
    Check {
        container: String,
        command: String,
        expected: Expected,
    },
    Status {
        pointer: String,
        expected: Expected,
    },
    Log {
        container: String,
        expected: Expected,
    },
    Refused(String),
    /// Not a promise: the manifest as it is written from here on.
    Edit(String),
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

/// A file and its promises.
#[derive(Debug)]
struct Example {
    path: PathBuf,
    text: String,
    flags: Vec<String>,
    promises: Vec<Promise>,
    /// The placeholder for a registry in the text, until it is replaced by a real one.
    registry: Option<String>,
}

impl Example {
    fn read(path: PathBuf) -> Example {
        let text = fs::read_to_string(&path).unwrap();
        let bad = |line: &str| -> ! { panic!("{}: {line:?} is no promise", path.display()) };
        let mut head = text.lines().map_while(|line| line.strip_prefix("# "));
        let Some(first) = head.next() else { bad("") };
        assert!(first.starts_with("Shows: ") && first.len() > 20, "{}: {first:?}", path.display());
        let (mut flags, mut promises, mut registry) = (Vec::new(), Vec::new(), None);
        let mut edited: String =
            text.lines().skip_while(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n");
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
                "Registry:" => registry = Some(rest.to_owned()),
                "Edit:" => {
                    let (old, Expected::Is(new)) = halves() else { bad(line) };
                    assert!(edited.contains(old), "{}: {old:?} is not in it", path.display());
                    edited = edited.replace(old, &new);
                    promises.push(Promise::Edit(edited.clone()));
                }
                "Refused:" => promises.push(Promise::Refused(rest.to_owned())),
                // Continuation of a sentence.
                _ => {}
            }
        }
        assert!(!promises.is_empty(), "{} promises nothing", path.display());
        Example { path, text, flags, promises, registry }
    }

    fn name(&self) -> &str {
        self.path.file_stem().and_then(|stem| stem.to_str()).unwrap()
    }

    fn is_refused(&self) -> bool {
        self.promises.iter().any(|promise| matches!(promise, Promise::Refused(_)))
    }

    /// The first broken promise, with the value that was found instead. Edits the file where the promises
    /// say so.
    fn broken(&self, node: &Node) -> Option<String> {
        for promises in self.promises.split_inclusive(|promise| matches!(promise, Promise::Edit(_))) {
            let mut last = None;
            let kept = node.comes_true(|| {
                last = promises.iter().find_map(|promise| self.not_kept(node, promise));
                last.is_none()
            });
            if !kept {
                return last;
            }
            if let Some(Promise::Edit(text)) = promises.last() {
                node.write(&format!("{}.yaml", self.name()), text);
            }
        }
        None
    }

    fn not_kept(&self, node: &Node, promise: &Promise) -> Option<String> {
        let found = self.found(node, promise);
        let met = match promise {
            Promise::Check { expected, .. }
            | Promise::Status { expected, .. }
            | Promise::Log { expected, .. } => expected.met(&found),
            Promise::Refused(text) => found.contains(text),
            Promise::Edit(_) => true,
        };
        (!met).then(|| format!("{}: {promise:?}: found {found:?}", self.name()))
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
                let mut status = serde_json::to_value(status).unwrap();
                if let Some(Value::Array(conditions)) = status.get_mut("conditions").map(Value::take) {
                    let by_type = conditions.into_iter().map(|c| (c["type"].as_str().unwrap().to_owned(), c));
                    status["conditions"] = by_type.collect::<serde_json::Map<_, _>>().into();
                }
                match status.pointer(pointer) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => String::new(),
                }
            }
            Promise::Refused(_) => node.log(),
            Promise::Edit(_) => String::new(),
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

/// Every promise that an example makes holds on the real engine.
#[test]
fn examples_do_what_they_say() {
    let mut by_flags: BTreeMap<Vec<String>, Vec<Example>> = BTreeMap::new();
    let registry = Registry::start(true);
    Image::new(100).push(&registry, "team/app", "v1");
    let mut cleanup = Cleanup::default();
    cleanup.image(format!("127.0.0.1:{}/team/app:v1", registry.port));
    for mut example in examples() {
        if let Some(name) = example.registry.take() {
            example.text = example.text.replace(&name, &format!("127.0.0.1:{}", registry.port));
        }
        by_flags.entry(example.flags.clone()).or_default().push(example);
    }
    let mut broken = Vec::new();
    for (flags, examples) in by_flags {
        let network = network_of(&flags);
        let node = Node::with(Options { flags, ..Options::default() });
        // A few at a time: an overloaded machine is not an example's fault.
        for some in examples.chunks(8) {
            for example in some {
                node.write(&format!("{}.yaml", example.name()), &example.text);
            }
            for example in some {
                if let Some(why) = example.broken(&node) {
                    broken.extend([why, node.picture()]);
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
        network.iter().for_each(|name| crate::harness::remove_network(name));
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}
