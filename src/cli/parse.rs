//! Arguments -> [`Command`]. Pure: it reads no file, clock or environment. Every flag and its default come from
//! `flags`.

mod files;
mod operands;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use lexopt::Arg;

use super::completion::Shell;
use super::exit::Exit;
use super::flags::{self, Flag, Options, Takes, Verb};
use super::given::{Given, Origin, Parsed};
use super::nearest::nearest;
use super::rules::{check_hollow, check_run};
use super::verbs::Operands;
use crate::pod::Source;
use crate::pod::object::ObjectKind;
pub use files::Files;
use files::apply_files;

/// A command with its words and flags.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `run`.
    Run(Box<Parsed>),
    /// `check`, with at least one path; `-` is standard input.
    Check(Box<Parsed>, Vec<PathBuf>),
    /// `config`.
    Config(Box<Parsed>),
    /// `forget` this source.
    Forget(Box<Options>, Source),
    /// `drain`.
    Drain(Box<Options>),
    /// `resume`.
    Resume(Box<Options>),
    /// `get pods`, all or these.
    Get(Box<Options>, Vec<String>),
    /// `get events`.
    GetEvents(Box<Options>),
    /// `get sources`.
    GetSources(Box<Options>),
    /// `get configmaps` or `get secrets`, all or these.
    GetObjects(Box<Options>, ObjectKind, Vec<String>),
    /// `get node`, with the name when one was given.
    GetNode(Box<Options>, Vec<String>),
    /// `describe node`, with the name when one was given.
    DescribeNode(Box<Options>, Vec<String>),
    /// `describe pod`, all or these.
    Describe(Box<Options>, Vec<String>),
    /// `top node`, with the name when one was given.
    TopNode(Box<Options>, Vec<String>),
    /// `stats`.
    Stats(Box<Options>),
    /// `top pods`, all or these.
    TopPods(Box<Options>, Vec<String>),
    /// `logs`.
    Logs(Box<Options>, LogsOf),
    /// `restart` this pod.
    Restart(Box<Options>, String),
    /// `attach` to this pod.
    Attach(Box<Options>, String),
    /// `port-forward` to this pod, with at least one pair of ports, each as it was given.
    PortForward(Box<Options>, String, Vec<String>),
    /// `cp`.
    Copy(Box<Options>, Copied),
    /// `exec` in this pod, with a command of at least one word.
    Exec(Box<Options>, String, Vec<String>),
    /// `debug` this pod, with a command of any length.
    Debug(Box<Options>, String, Vec<String>),
    /// `explain` this field.
    Explain(Box<Options>, String),
    /// `pull`, with at least one image.
    Pull(Box<Options>, Vec<String>),
    /// `load`, with at least one file; `-` is standard input.
    Load(Box<Options>, Vec<PathBuf>),
    /// `images`.
    Images(Box<Options>),
    /// `prune`.
    Prune(Box<Options>),
    /// `completion` for this shell.
    Completion(Shell),
    /// `kubeconfig`.
    Kubeconfig(Box<Options>),
    /// `page`.
    Page(Box<Options>),
    /// `join` of this server.
    Join(Box<Options>, String),
    /// `hollow`.
    Hollow(Box<Parsed>),
    /// `version`.
    Version,
    /// `help`, of one subcommand or of all.
    Help(Option<Verb>),
}

/// The pods whose output `logs` prints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LogsOf {
    /// This pod.
    Pod(String),
    /// The pods of the selector, which is not empty.
    Selected,
}

/// The paths that `cp` copies between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub way: Way,
    /// Name of the pod.
    pub pod: String,
    /// Path in the container, not empty.
    pub inside: String,
    /// Path on this machine, not empty.
    pub outside: PathBuf,
}

/// Direction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Out of the container.
    Out,
    /// Into it.
    In,
}

/// An error in a command line or a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageError {
    /// The message.
    pub message: String,
    /// The command whose `--help` tells more.
    pub verb: Option<Verb>,
    /// [`Exit::Usage`], unless a later try may succeed.
    pub exit: Exit,
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.exit != Exit::Usage {
            return write!(f, "error: {}", self.message);
        }
        let (space, word) = self.verb.map_or(("", ""), |v| (" ", v.word()));
        write!(f, "error: {}\nSee 'podkeeper{space}{word} --help' for usage.", self.message)
    }
}

impl std::error::Error for UsageError {}

pub(super) fn usage<T>(verb: impl Into<Option<Verb>>, message: impl Into<String>) -> Result<T, UsageError> {
    Err(UsageError { message: message.into(), verb: verb.into(), exit: Exit::Usage })
}

/// Parses the arguments (without the program's name).
///
/// # Errors
/// A [`UsageError`] for anything that is not understood: the parser does not guess.
pub fn parse_with(
    arguments: impl Iterator<Item = OsString>,
    files: Files<'_>,
) -> Result<Command, UsageError> {
    let mut arguments = arguments;
    let Some(first) = arguments.next() else {
        return usage(None, "no command given");
    };
    let word = first.to_string_lossy().into_owned();
    let verb = match word.as_str() {
        "-h" | "--help" => return Ok(Command::Help(None)),
        "--version" => return Ok(Command::Version),
        word => known_verb(word)?,
    };
    // Words behind `--` are the command of `exec`, whatever they look like.
    let mut ours: Vec<OsString> = arguments.collect();
    let rest = match (verb, ours.iter().position(|a| a == "--")) {
        (Verb::Exec | Verb::Debug, Some(at)) => Some(ours.split_off(at).split_off(1)),
        _ => None,
    };
    let Some((parsed, words)) = read(verb, ours, files)? else {
        return Ok(Command::Help(Some(verb)));
    };
    finish(verb, parsed, words, rest)
}

/// Flags and plain words of one subcommand; `None` when help is asked for.
fn read(
    verb: Verb,
    arguments: Vec<OsString>,
    files: Files<'_>,
) -> Result<Option<(Parsed, Vec<OsString>)>, UsageError> {
    let mut given = Vec::new();
    let mut words = Vec::new();
    let mut parser = lexopt::Parser::from_args(arguments);
    loop {
        let (flag, long) = match parser.next().map_err(|e| wrong(verb, &e))? {
            None => break,
            Some(Arg::Value(word)) => {
                words.push(word);
                continue;
            }
            Some(Arg::Short('h') | Arg::Long("help")) => return Ok(None),
            Some(Arg::Short(letter)) => match flags::of(verb).find(|f| f.short == Some(letter)) {
                Some(flag) => (flag, false),
                None => return usage(verb, format!("unknown shorthand flag: -{letter}")),
            },
            Some(Arg::Long(name)) => (find_long(verb, name)?, true),
        };
        let text = match flag.takes {
            // `-it` is two switches, so only a long switch may carry its value.
            Takes::Switch(_) if long => parser.optional_value().unwrap_or_else(|| "true".into()),
            Takes::Switch(_) => "true".into(),
            _ => match parser.value() {
                Ok(text) => text,
                Err(_) => return usage(verb, format!("flag needs an argument: --{}", flag.name)),
            },
        };
        given.push((flag, text));
    }
    let options = Options::defaults().or_else(|why| usage(None, why))?;
    let mut parsed = Parsed { options, given: Vec::new(), notes: Vec::new() };
    apply_files(&mut parsed, verb, &given, files)?;
    for (flag, text) in given {
        // The message may be printed or kept.
        let shown = if flag.is_secret() { "...".into() } else { text.to_string_lossy() };
        flag.set(&mut parsed.options, &text).or_else(|why| {
            usage(verb, format!("invalid argument {shown:?} for \"--{}\" flag: {why}", flag.name))
        })?;
        parsed.given.push(Given::new(flag, &text, Origin::Flag));
    }
    Ok(Some((parsed, words)))
}

fn wrong(verb: Verb, error: &lexopt::Error) -> UsageError {
    UsageError { message: error.to_string(), verb: Some(verb), exit: Exit::Usage }
}

/// Commands of other programs, and words that users try as commands, with podkeeper's command for them.
const ELSEWHERE: &[(&str, &str)] = &[
    ("events", "get events"),
    ("sources", "get sources"),
    ("pods", "get pods"),
    ("ps", "get pods"),
    ("cordon", "drain"),
    ("uncordon", "resume"),
    ("list", "get pods"),
    ("status", "get pods, get sources, or describe"),
];

/// Commands of kubectl and docker that change which pods run.
const CHANGES: [&str; 13] = [
    "apply", "create", "delete", "down", "edit", "kill", "patch", "remove", "replace", "rm", "start", "stop",
    "up",
];

fn known_verb(word: &str) -> Result<Verb, UsageError> {
    let unknown = || {
        if CHANGES.contains(&word) {
            let why = "write or remove a pod's manifest; kubectl itself works with --api-address of run";
            return usage(None, format!("unknown command {word:?}: {why}"));
        }
        let near = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, ours)| *ours);
        let near = near.or_else(|| nearest(word, Verb::ALL.iter().map(|verb| verb.word())));
        let near = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
        usage(None, format!("unknown command {word:?}{near}"))
    };
    Verb::parse(word).map_or_else(unknown, Ok)
}

/// Names that kubeadm's join gives to flags of this one.
const SECOND_NAMES: [(&str, &str); 2] = [
    ("discovery-token-ca-cert-hash", "ca-cert-hash"),
    ("discovery-token-unsafe-skip-ca-verification", "unsafe-skip-ca-verification"),
];

/// Finds a long flag. `_` and `-` are the same in a name, as in the kubelet.
fn find_long(verb: Verb, name: &str) -> Result<&'static Flag, UsageError> {
    let wanted = name.replace('_', "-");
    let second = SECOND_NAMES
        .iter()
        .find(|(second, first)| *second == wanted && flags::of(verb).any(|flag| flag.name == *first));
    let wanted = second.map_or(wanted, |(_, first)| (*first).to_owned());
    if let Some(flag) = flags::of(verb).find(|f| f.name == wanted) {
        return Ok(flag);
    }
    if wanted == "root-dir" && flags::of(verb).any(|flag| flag.name == "run-dir") {
        let why = "the daemon that it asks is the one of --run-dir, which knows its root directory";
        return usage(verb, format!("unknown flag: --{name}: {} has none, {why}", verb.word()));
    }
    let hint = match nearest(&wanted, flags::of(verb).map(|f| f.name)) {
        Some(near) => format!(" (did you mean --{near}?)"),
        None => String::new(),
    };
    usage(verb, format!("unknown flag: --{name}{hint}"))
}

/// The command of a subcommand's flags and words. `rest` has the words behind `--`.
fn finish(
    verb: Verb,
    parsed: Parsed,
    words: Vec<OsString>,
    rest: Option<Vec<OsString>>,
) -> Result<Command, UsageError> {
    let Parsed { options, given, notes } = parsed;
    let options = Box::new(options);
    // Only the commands that print the origins of values, or start with them, keep them.
    let whole = |options: Box<Options>| Box::new(Parsed { options: *options, given, notes });
    if verb.about().operands == Operands::None {
        operands::none_left(verb, &words)?;
    }
    match verb {
        Verb::Run => {
            check_run(verb, &options)?;
            Ok(Command::Run(whole(options)))
        }
        Verb::Config => {
            check_run(verb, &options)?;
            Ok(Command::Config(whole(options)))
        }
        Verb::Check => {
            let paths = operands::check(&options, words)?;
            Ok(Command::Check(whole(options), paths))
        }
        Verb::Forget => operands::forget(options),
        Verb::Drain => Ok(Command::Drain(options)),
        Verb::Resume => Ok(Command::Resume(options)),
        Verb::Get => operands::get(options, words),
        Verb::Describe => operands::describe(options, words),
        Verb::Top => operands::top(options, words),
        Verb::Stats => Ok(Command::Stats(options)),
        Verb::Logs => operands::logs(options, words),
        Verb::Restart => operands::one_pod(verb, words).map(|pod| Command::Restart(options, pod)),
        Verb::Attach => operands::one_pod(verb, words).map(|pod| Command::Attach(options, pod)),
        Verb::PortForward => operands::port_forward(options, words),
        Verb::Cp => operands::cp(options, &words),
        Verb::Exec => operands::exec(options, words, rest.unwrap_or_default()),
        Verb::Debug => operands::debug(options, words, rest.unwrap_or_default()),
        Verb::Explain => match operands::texts(verb, words)?.as_slice() {
            [field] => Ok(Command::Explain(options, field.clone())),
            [] => usage(verb, "you must specify the field to be explained, such as pod.spec.containers"),
            _ => usage(verb, "one field at a time"),
        },
        Verb::Pull if words.is_empty() => usage(verb, "no image given"),
        Verb::Pull => Ok(Command::Pull(options, operands::texts(verb, words)?)),
        Verb::Load if words.is_empty() => {
            usage(verb, "no archive given: name files, or - for standard input")
        }
        Verb::Load => Ok(Command::Load(options, words.into_iter().map(PathBuf::from).collect())),
        Verb::Images => Ok(Command::Images(options)),
        Verb::Prune => Ok(Command::Prune(options)),
        Verb::Completion => operands::shell(words).map(Command::Completion),
        Verb::Kubeconfig => Ok(Command::Kubeconfig(options)),
        Verb::Page => Ok(Command::Page(options)),
        Verb::Join => match operands::texts(verb, words)?.as_slice() {
            [server] => Ok(Command::Join(options, server.clone())),
            _ => usage(verb, "name one API server: https://HOST:6443"),
        },
        Verb::Hollow => {
            check_hollow(verb, &options)?;
            Ok(Command::Hollow(whole(options)))
        }
        Verb::Version => Ok(Command::Version),
        Verb::Help => match words.as_slice() {
            [] => Ok(Command::Help(None)),
            [word] => known_verb(&word.to_string_lossy()).map(|verb| Command::Help(Some(verb))),
            [_, more, ..] => usage(verb, format!("unexpected argument {:?}", more.to_string_lossy())),
        },
    }
}

/// [`parse_with`] without directories of settings.
#[cfg(test)]
pub fn parse(
    arguments: impl Iterator<Item = OsString>,
    read: files::Reader<'_>,
) -> Result<Command, UsageError> {
    parse_with(arguments, Files { read, list: &|_| Err("no directory".to_owned()) })
}

#[cfg(test)]
mod tests;
