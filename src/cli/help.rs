//! `--help`, made from the entries in `flags`: complete, and one line for each flag.

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
        let _ = writeln!(out, "  podkeeper {}", verb.about().synopsis);
    }
    out.push_str("\nCommands:\n");
    for verb in Verb::ALL {
        let _ = writeln!(out, "  {:<13}{}", verb.word(), verb.about().summary);
    }
    out.push_str("\nStart with:  podkeeper run --pod-manifest-path /etc/podkeeper/manifests\n");
    out.push_str("or with the settings of a package:  podkeeper run --config /etc/podkeeper/config.yaml\n");
    out.push_str("Flags of a command:  podkeeper COMMAND --help.  Everything else:  man podkeeper\n");
}

fn subcommand(out: &mut String, verb: Verb) {
    let _ = writeln!(out, "{}.\n\nUsage:\n  podkeeper {}", verb.about().summary, verb.about().synopsis);
    let mut title = "";
    for section in SECTIONS {
        let mut flags = section.flags.iter().filter(|flag| flag.verbs.contains(&verb)).peekable();
        if flags.peek().is_some() && section.title != title {
            title = section.title;
            let _ = writeln!(out, "\n{title}:");
        }
        flags.for_each(|flag| entry(out, flag));
    }
    let note = verb.about().note;
    if !note.is_empty() {
        let _ = writeln!(out, "\n{note}");
    }
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
        (None, _) | (_, "") => writeln!(out, "        {}", flag.said()),
        (_, default) => writeln!(out, "        {} (default {default})", flag.said()),
    };
}
