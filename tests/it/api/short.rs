//! `kubectl run -i` and `debug -i` of commands that end at once, or with an exit code.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use super::kubectl::{Served, programs};
use crate::harness::pods::Pod;

/// Runs kubectl for at most thirty seconds.
fn kubectl(served: &Served, program: &PathBuf, words: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.arg("30").arg(program).env("HOME", &served.node.base);
    command.env("KUBECONFIG", served.config("admin")).stdin(Stdio::null());
    command.args(words).output().unwrap()
}

const IMAGE: [&str; 2] = ["--image=busybox:static", "--image-pull-policy=IfNotPresent"];

/// Regression: Docker keeps an attach to a container that has just ended for the next start, and the client waited for
/// ever; and after an exit code other than 0 kubectl printed a warning and the whole output again.
#[test]
fn commands_that_end_at_once_print_their_output_and_are_over() {
    let programs = programs();
    if programs.is_empty() {
        println!("there is no kubectl in PATH: the API was not tried with it");
        return;
    }
    let served = Served::start(&[]);
    served.node.write("web.yaml", Pod::new("web").text());
    served.node.wait_running("web", "app");
    for (at, program) in programs.iter().enumerate() {
        for round in 0..3 {
            let name = format!("k{at}-{round}");
            let run =
                ["run", &name, "-i", "--rm", "--restart=Never", IMAGE[0], IMAGE[1], "--", "echo", "word"];
            let debug = ["debug", "web-n1", "-i", "-c", &name, IMAGE[0], IMAGE[1], "--", "echo", "word"];
            for words in [&run, &debug] {
                let output = kubectl(&served, program, words);
                let out = String::from_utf8_lossy(&output.stdout);
                assert!(
                    output.status.success() && out.contains("word"),
                    "{words:?} {}: {output:?}",
                    program.display()
                );
            }
        }
        let name = format!("k{at}-code");
        let script = "sleep 1; echo said; exit 4";
        let run =
            ["run", &name, "-i", "--rm", "--restart=Never", IMAGE[0], IMAGE[1], "--", "sh", "-c", script];
        let output = kubectl(&served, program, &run);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(out.matches("said").count(), 1, "{}: {output:?}", program.display());
        assert!(!err.contains("command terminated"), "{}: {output:?}", program.display());
    }
}
