//! Tests that the man pages match the program's tables: flags, exit codes, fields of settings and manifests.

use std::fmt::Write;

use crate::cli::config_file::kubelet::{FIELDS, Means};
use crate::cli::exit::Exit;
use crate::cli::flags::{self, Flag};
use crate::cli::verbs::Verb;
use crate::manifest::support::{Row, Support, table};

/// The pages of the daemon's flags and of the commands' flags.
const PAGES: [&str; 2] = ["man/podkeeper.8", "man/podkeeper.1"];
const SETTINGS: &str = "man/podkeeper.conf.5";
const MANIFESTS: &str = "man/podkeeper-manifest.5";
const BEGIN: &str = ".\\\" begin fields (written by: UPDATE=1 cargo test --lib man)\n";
const END: &str = ".\\\" end fields\n";
const OWN: (&str, &str) =
    (".\\\" begin own fields (written by: UPDATE=1 cargo test --lib man)\n", ".\\\" end own fields\n");
const KUBELET: (&str, &str) = (
    ".\\\" begin kubelet fields (written by: UPDATE=1 cargo test --lib man)\n",
    ".\\\" end kubelet fields\n",
);

fn path(page: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page)
}

fn page(page: &str) -> String {
    std::fs::read_to_string(path(page)).unwrap()
}

fn commands_and_daemon() -> String {
    PAGES.map(page).concat()
}

/// The entry of a flag in a list: from its `.It` to the next one.
fn entry(page: &str, flag: &Flag) -> String {
    let long = format!("Fl -{} ", flag.name);
    let is_it = |line: &str| {
        let line = format!("{line} ");
        let heads = line.starts_with(".It ") && line.contains(&long);
        heads || (flag.name.len() == 1 && line.starts_with(&format!(".It Fl {} ", flag.name)))
    };
    let from = page.lines().skip_while(|l| !is_it(l));
    let lines: Vec<&str> =
        from.take_while(|l| is_it(l) || !(l.starts_with(".It") || l.starts_with(".El"))).collect();
    lines.join("\n")
}

#[test]
fn every_flag_is_in_the_man_page_with_its_default() {
    let page = commands_and_daemon();
    for flag in flags::all() {
        let entry = entry(&page, flag);
        assert!(!entry.is_empty(), "--{} is not in {PAGES:?}", flag.name);
        if let Some(short) = flag.short {
            assert!(entry.contains(&format!("Fl {short} ")), "-{short} is not in {PAGES:?}");
        }
        if flag.word().is_some() && !flag.default.is_empty() {
            let default = format!("Default: {}", flag.default);
            let said = entry.lines().any(|l| {
                l.strip_prefix(&default).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ',']))
            });
            assert!(said, "--{}: \"{default}\" is not in {PAGES:?}", flag.name);
        }
    }
}

/// An entry does not name `run`, nor `check` when `run` knows the flag too (the entry of `check` says so), and names no
/// command when all commands that look at pods know the flag.
#[test]
fn every_flag_names_the_commands_that_know_it() {
    let page = commands_and_daemon();
    let look_at_pods = [
        Verb::Get,
        Verb::Describe,
        Verb::Top,
        Verb::Logs,
        Verb::Restart,
        Verb::Attach,
        Verb::Exec,
        Verb::Cp,
        Verb::PortForward,
        Verb::Debug,
    ];
    let mut wrong = Vec::new();
    for flag in flags::all().filter(|flag| !flag.name.starts_with("config")) {
        let entry = entry(&page, flag);
        let lines = entry.lines().skip(1).filter(|line| line.contains("Cm "));
        let named: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
        let knows = |verb: &Verb| match verb {
            Verb::Run => false,
            Verb::Check => !flag.verbs.contains(&Verb::Run),
            _ => flag.verbs != look_at_pods,
        };
        let missing = flag.verbs.iter().filter(|verb| knows(verb) && !named.contains(&verb.word()));
        wrong.extend(missing.map(|verb| format!("--{}: {}", flag.name, verb.word())));
    }
    assert!(wrong.is_empty(), "not in {PAGES:?}:\n{}", wrong.join("\n"));
}

#[test]
fn no_flag_is_in_the_man_page_alone() {
    // podkeeper(7) has flags of Docker, too.
    let others = [SETTINGS, MANIFESTS].map(page).concat();
    let pages = commands_and_daemon() + &others;
    for line in pages.lines().filter(|l| l.starts_with('.') && !l.starts_with(".\\\"")) {
        for word in line.split_whitespace().filter_map(|w| w.strip_prefix('-')).filter(|w| w.len() > 2) {
            let is_macro_argument =
                line.starts_with(".Bl") || line.starts_with(".Bd") || line.starts_with(".Dl");
            let known = flags::all().any(|f| f.name == word) || ["help", "flag"].contains(&word);
            assert!(known || is_macro_argument, "the man pages have a flag --{word}: {line}");
        }
    }
}

/// A command that a terminal of 80 columns breaks cannot be pasted.
#[test]
fn shown_commands_have_one_line() {
    let all = commands_and_daemon() + &[SETTINGS, MANIFESTS].map(page).concat();
    let shown = all.lines().filter_map(|line| line.strip_prefix(".Dl "));
    let long: Vec<&str> = shown.filter(|line| line.replace("\\&", "").len() > 69).collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn exit_codes_are_in_the_man_page() {
    let page = commands_and_daemon();
    for (number, (exit, meaning)) in (0..).zip(Exit::TABLE) {
        assert_eq!(exit.code(), number, "{meaning}");
        assert!(page.contains(&format!(".It {number}\n{meaning}\n")), "exit code {number}");
    }
}

fn list(out: &mut String, title: &str, rows: &[(&Row, &str)]) {
    let _ = write!(out, ".Pp\n{title}\n.Bl -tag -width Ds -compact -offset indent\n");
    for (row, why) in rows {
        let _ = writeln!(out, ".It Li {}\n{why}", row.field);
    }
    out.push_str(".El\n");
}

fn fields() -> String {
    let mut out = String::from(".Pp\nSupported:\n.Bd -ragged -offset indent\n");
    let mut supported = table().iter().filter(|r| r.support == Support::Supported).peekable();
    while let Some(row) = supported.next() {
        let comma = if supported.peek().is_some() { " ," } else { "" };
        let _ = writeln!(out, ".Li {}{comma}", row.field);
    }
    out.push_str(".Ed\n");
    let why = |row: &'static Row, wanted: bool| match row.support {
        Support::Ignored(why) if wanted => Some((row, why)),
        Support::Refused(why) if !wanted => Some((row, why)),
        _ => None,
    };
    list(&mut out, "Ignored:", &table().iter().filter_map(|r| why(r, true)).collect::<Vec<_>>());
    list(&mut out, "Refused:", &table().iter().filter_map(|r| why(r, false)).collect::<Vec<_>>());
    out
}

#[test]
fn the_manifest_fields_are_those_of_the_program() {
    let mut page = page(MANIFESTS);
    let (from, to) = (page.find(BEGIN).unwrap() + BEGIN.len(), page.find(END).unwrap());
    let expected = fields();
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        page.replace_range(from..to, &expected);
        std::fs::write(path(MANIFESTS), page).unwrap();
    } else {
        assert_eq!(&page[from..to], expected, "UPDATE=1 cargo test --lib man rewrites it");
    }
}

fn kubelet_fields() -> String {
    let mut out = String::from(".Pp\nIn force, by the flag:\n.Bl -tag -width Ds -compact -offset indent\n");
    for (name, means) in FIELDS {
        match means {
            Means::Flag(flag) | Means::Pointer(flag) if flag.len() > 1 => {
                let _ = writeln!(out, ".It Li {name}\n.Fl -{flag}");
            }
            Means::Flag(flag) | Means::Pointer(flag) => {
                let _ = writeln!(out, ".It Li {name}\n.Fl {flag}");
            }
            Means::Only(..) | Means::Without(..) => {}
        }
    }
    out.push_str(".El\n.Pp\nWith this value alone:\n.Bl -tag -width Ds -compact -offset indent\n");
    for (name, means) in FIELDS {
        if let Means::Only(value, why) = means {
            let _ = writeln!(out, ".It Li {name}: {value}\n{why}");
        }
    }
    out.push_str(".El\n.Pp\nWithout effect:\n.Bl -tag -width Ds -compact -offset indent\n");
    for (name, means) in FIELDS {
        if let Means::Without(_, why) = means {
            let _ = writeln!(out, ".It Li {name}\n{}", why.replace(" --", " -\\-"));
        }
    }
    out.push_str(".El\n");
    out
}

/// The fields of podkeeper's own file, with the help of their flags.
fn own_fields() -> String {
    let mut out = String::from(".Bl -tag -width Ds -compact -offset indent\n");
    for (flag, field) in flags::all().filter_map(|flag| flag.field().map(|field| (flag, field))) {
        let dash = if flag.name.len() > 1 { "-" } else { "" };
        let help = flag.help().replace(" -", " \\-");
        let _ = write!(out, ".It Li {field}\n.Fl {dash}{} :\n{help}.\n", flag.name);
        if !flag.default.is_empty() {
            let _ = writeln!(out, "Default: {}.", flag.default);
        }
    }
    out.push_str(".El\n");
    out
}

/// Compares a part of the settings' page, or rewrites it.
fn has_part((begin, end): (&str, &str), expected: &str) {
    let mut page = page(SETTINGS);
    let (from, to) = (page.find(begin).unwrap() + begin.len(), page.find(end).unwrap());
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        page.replace_range(from..to, expected);
        std::fs::write(path(SETTINGS), page).unwrap();
    } else {
        assert_eq!(&page[from..to], expected, "UPDATE=1 cargo test --lib man rewrites it");
    }
}

/// One test for both lists, because they rewrite one page.
#[test]
fn the_fields_of_settings_are_those_of_the_program() {
    has_part(OWN, &own_fields());
    has_part(KUBELET, &kubelet_fields());
}
