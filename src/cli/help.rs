//! `--help`, made from the entries in `flags`. Short and complete: no flag can be missing here.

use std::fmt::Write;

use super::flags::{Flag, SECTIONS, Verb};

/// Help for one subcommand, or for the program.
#[must_use]
pub fn text(verb: Option<Verb>) -> String {
    let mut out = String::new();
    match verb {
        None => program(&mut out),
        Some(verb) => subcommand(&mut out, verb),
    }
    out
}

fn program(out: &mut String) {
    out.push_str("podkeeper runs Kubernetes pods on this machine with nothing but Docker.\n\nUsage:\n");
    for verb in Verb::ALL {
        let _ = writeln!(out, "  podkeeper {}", verb.synopsis());
    }
    out.push_str("\nCommands:\n");
    for verb in Verb::ALL {
        let _ = writeln!(out, "  {:<10}{}", verb.word(), verb.summary());
    }
    out.push_str("\nStart with:  podkeeper run --pod-manifest-path /etc/podkeeper/manifests\n");
    out.push_str("Flags of a command:  podkeeper COMMAND --help.  Everything else:  man 8 podkeeper\n");
}

fn subcommand(out: &mut String, verb: Verb) {
    let _ = writeln!(out, "{}.\n\nUsage:\n  podkeeper {}", verb.summary(), verb.synopsis());
    for section in SECTIONS {
        let mut flags = section.flags.iter().filter(|flag| flag.verbs.contains(&verb)).peekable();
        if flags.peek().is_some() {
            let _ = writeln!(out, "\n{}:", section.title);
        }
        flags.for_each(|flag| entry(out, flag));
    }
    out.push_str(match verb {
        Verb::Run => {
            "\nDurations are written 300ms, 20s, 1m30s. SIGTERM ends the daemon and leaves the pods running;\n\
             SIGHUP makes it look at the manifests now.\n"
        }
        Verb::Check => "\nExit code 0: no errors; 1: errors found. Warnings are printed apart.\n",
        Verb::Pull => {
            "\nThe daemon need not run. Credentials are those of config.json or .dockercfg in the root directory,\n\
             $HOME (config.json: $HOME/.docker) or / (config.json: /.docker).\n"
        }
        Verb::Load => {
            "\nThe daemon need not run. An archive is what 'docker save' writes, alone or packed by gzip or zstd\n\
             (standard input: not by zstd).\n"
        }
        Verb::Get | Verb::Describe | Verb::Logs | Verb::Exec | Verb::Debug => {
            "\nA pod's NAME may be given with or without the node's suffix (web, web-node1).\n"
        }
        Verb::Forget => {
            "\nA daemon that runs looks at the source again: what it finds then runs, and nothing else.\n"
        }
        Verb::Drain => {
            "\nPods of the lowest priority (spec.priority) stop first. Exit code 5: not all stopped in time; they\n\
             are being stopped all the same.\n"
        }
        Verb::Explain => "\nA FIELD is a path from the pod: pod.spec.containers.livenessProbe.\n",
        Verb::Resume | Verb::Version | Verb::Help => "",
    });
}

fn entry(out: &mut String, flag: &Flag) {
    let short = match flag.short {
        Some(c) if flag.name.len() > 1 => format!("-{c}, "),
        _ => String::new(),
    };
    let dashes = if flag.name.len() == 1 { "-" } else { "--" };
    let value = flag.word().map(|word| format!(" {word}")).unwrap_or_default();
    let _ = writeln!(out, "  {short}{dashes}{}{value}", flag.name);
    let _ = match (flag.word(), flag.default) {
        (None, _) | (_, "") => writeln!(out, "        {}", flag.help),
        (_, default) => writeln!(out, "        {} (default {default})", flag.help),
    };
}
