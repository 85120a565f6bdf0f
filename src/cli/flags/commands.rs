//! Flags of the commands that look at pods.

use std::net::IpAddr;

use super::Repeats::Adds;
use super::Takes::{Choice, Format, Name, Secret, Switch, Text};
use super::{Flag, Options, Section, Verb, of_verbs, put, value};
use crate::certificates::discovery::{Pin, Token};
use crate::cli::docker::profile::Profile;
use crate::cli::show::template::Template;
use crate::manifest::selectors::{FieldSelector, LabelSelector};
use crate::pod::fields;

/// The output format of `get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    #[default]
    Table,
    /// A table with more columns.
    Wide,
    Json,
    Yaml,
    /// Lines such as `pod/NAME`.
    Name,
}

impl Output {
    /// The word for `-o`; empty for a table.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Output::Table => "",
            Output::Wide => "wide",
            Output::Json => "json",
            Output::Yaml => "yaml",
            Output::Name => "name",
        }
    }
}

/// Whether `-o` takes templates beside formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Templates {
    /// `jsonpath=` and `custom-columns=`.
    Taken,
    /// Refused.
    Refused,
}

/// The figure that `top` sorts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortBy {
    Cpu,
    Memory,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    pub namespace: String,
    pub all_namespaces: bool,
    pub selector: LabelSelector,
    pub field_selector: FieldSelector,
    pub output: Output,
    /// Template of `-o jsonpath=` or `-o custom-columns=`.
    pub template: Option<Template>,
    pub watch: bool,
    /// Name of a pod.
    pub for_pod: Option<String>,
    pub no_headers: bool,
    pub container: Option<String>,
    pub stdin: bool,
    pub tty: bool,
    pub carry: Carry,
    pub recursive: bool,
    /// URL of the API.
    pub server: Option<String>,
    pub top: Top,
    pub debug: Debug,
    pub prune: Prune,
    pub kubeconfig: Kubeconfig,
    pub join: Join,
}

/// Flags of `port-forward` and of `cp` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Carry {
    pub listen: Vec<IpAddr>,
    /// Copies in a container do not keep permissions.
    pub no_preserve: bool,
}

/// Flags of `top` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Top {
    pub containers: bool,
    /// By name when not given.
    pub sort_by: Option<SortBy>,
}

/// Flags of `debug` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Debug {
    pub image: Option<String>,
    pub target: Option<String>,
    pub profile: Profile,
}

/// Flags of `prune` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Prune {
    pub dry_run: bool,
    pub build_cache: bool,
}

/// Flags of `kubeconfig` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Kubeconfig {
    /// Name of a user of the API.
    pub user: String,
    /// `view` or `admin`.
    pub group: &'static str,
}

/// Flags of `join` alone.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Join {
    /// A bootstrap token.
    pub token: Option<Token>,
    pub ca_cert_hashes: Vec<Pin>,
    pub skip_ca_check: bool,
}

const GET: Flag = of_verbs(&[Verb::Get]);
const TOP: Flag = of_verbs(&[Verb::Top]);
const PRUNE: Flag = of_verbs(&[Verb::Prune]);
const DEBUG: Flag = of_verbs(&[Verb::Debug]);
const KUBECONFIG: Flag = of_verbs(&[Verb::Kubeconfig]);
const JOIN: Flag = of_verbs(&[Verb::Join]);
const COMMANDS: Flag = of_verbs(&[Verb::Attach, Verb::Exec, Verb::Debug]);

pub static SECTION: Section = Section {
    title: "Flags",
    flags: &[
        Flag {
            name: "token",
            takes: Secret("TOKEN", |o, text| put(&mut o.command.join.token, Token::parse(text).map(Some))),
            ..JOIN
        },
        Flag {
            name: "ca-cert-hash",
            takes: Text("sha256:HEX", |o, text| {
                Pin::parse(text).map(|pin| o.command.join.ca_cert_hashes.push(pin))
            }),
            repeats: Adds,
            ..JOIN
        },
        Flag {
            name: "unsafe-skip-ca-verification",
            takes: Switch(|o, on| o.command.join.skip_ca_check = on),
            ..JOIN
        },
        Flag {
            name: "user",
            takes: Text("NAME", |o, text| put(&mut o.command.kubeconfig.user, user(text))),
            default: "admin",
            ..KUBECONFIG
        },
        Flag {
            name: "group",
            takes: Choice(
                "GROUP",
                &[
                    ("view", |o| o.command.kubeconfig.group = "view"),
                    ("admin", |o| o.command.kubeconfig.group = "admin"),
                ],
            ),
            default: "admin",
            ..KUBECONFIG
        },
        Flag {
            name: "server",
            takes: Name("URL", |o, url| o.command.server = url),
            ..of_verbs(&[Verb::Kubeconfig, Verb::Page])
        },
        Flag {
            name: "namespace",
            short: Some('n'),
            takes: Text("NAMESPACE", |o, text| {
                if text.is_empty() {
                    return Err("must not be empty".to_owned());
                }
                o.command.namespace = text.to_owned();
                Ok(())
            }),
            default: "default",
            ..of_verbs(&[
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
            ])
        },
        Flag {
            name: "all-namespaces",
            short: Some('A'),
            takes: Switch(|o, on| o.command.all_namespaces = on),
            ..of_verbs(&[Verb::Get, Verb::Describe, Verb::Top, Verb::Logs])
        },
        Flag {
            name: "selector",
            short: Some('l'),
            takes: Text("LABELS", |o, text| put(&mut o.command.selector, LabelSelector::parse(text))),
            ..of_verbs(&[Verb::Get, Verb::Describe, Verb::Top, Verb::Logs])
        },
        Flag {
            name: "field-selector",
            takes: Text("FIELDS", |o, text| {
                let selector = FieldSelector::parse(text)?;
                if let Some(unknown) =
                    selector.fields().find(|name| fields::NAMES.iter().all(|ours| ours != name))
                {
                    return Err(format!("field label not supported: {unknown}"));
                }
                o.command.field_selector = selector;
                Ok(())
            }),
            ..GET
        },
        Flag {
            name: "output",
            short: Some('o'),
            takes: Format(&[Output::Wide, Output::Json, Output::Yaml, Output::Name], Templates::Taken),
            ..of_verbs(&[Verb::Get, Verb::Images])
        },
        Flag {
            name: "output",
            short: Some('o'),
            takes: Format(&[Output::Json], Templates::Refused),
            ..of_verbs(&[Verb::Check])
        },
        Flag {
            name: "output",
            short: Some('o'),
            takes: Format(&[Output::Json, Output::Yaml], Templates::Refused),
            ..of_verbs(&[Verb::Stats])
        },
        Flag { name: "watch", short: Some('w'), takes: Switch(|o, on| o.command.watch = on), ..GET },
        Flag {
            name: "for",
            takes: Text("pod/NAME", |o, text| {
                let name = value::strip_kind(text).filter(|name| !name.is_empty());
                o.command.for_pod = Some(name.ok_or("not pod/NAME")?.to_owned());
                Ok(())
            }),
            ..GET
        },
        Flag {
            name: "no-headers",
            takes: Switch(|o, on| o.command.no_headers = on),
            ..of_verbs(&[Verb::Get, Verb::Top, Verb::Images])
        },
        Flag { name: "dry-run", takes: Switch(|o, on| o.command.prune.dry_run = on), ..PRUNE },
        Flag { name: "prune-build-cache", takes: Switch(|o, on| o.command.prune.build_cache = on), ..PRUNE },
        Flag { name: "containers", takes: Switch(|o, on| o.command.top.containers = on), ..TOP },
        Flag {
            name: "sort-by",
            takes: Choice(
                "cpu|memory",
                &[
                    ("cpu", |o| o.command.top.sort_by = Some(SortBy::Cpu)),
                    ("memory", |o| o.command.top.sort_by = Some(SortBy::Memory)),
                ],
            ),
            ..TOP
        },
        Flag {
            name: "container",
            short: Some('c'),
            takes: Name("NAME", |o, name| o.command.container = name),
            ..of_verbs(&[Verb::Logs, Verb::Attach, Verb::Exec, Verb::Cp, Verb::Debug])
        },
        Flag { name: "stdin", short: Some('i'), takes: Switch(|o, on| o.command.stdin = on), ..COMMANDS },
        Flag { name: "tty", short: Some('t'), takes: Switch(|o, on| o.command.tty = on), ..COMMANDS },
        Flag {
            name: "no-preserve",
            takes: Switch(|o, on| o.command.carry.no_preserve = on),
            ..of_verbs(&[Verb::Cp])
        },
        Flag {
            name: "listen",
            takes: Text("ADDRESSES", |o, text| put(&mut o.command.carry.listen, value::addresses(text))),
            default: "127.0.0.1,::1",
            ..of_verbs(&[Verb::PortForward])
        },
        Flag { name: "image", takes: Name("IMAGE", |o, image| o.command.debug.image = image), ..DEBUG },
        Flag { name: "target", takes: Name("CONTAINER", |o, name| o.command.debug.target = name), ..DEBUG },
        Flag {
            name: "profile",
            takes: Choice(
                "PROFILE",
                &[
                    ("legacy", |o| o.command.debug.profile = Profile::Legacy),
                    ("general", |o| o.command.debug.profile = Profile::General),
                    ("baseline", |o| o.command.debug.profile = Profile::Baseline),
                    ("restricted", |o| o.command.debug.profile = Profile::Restricted),
                    ("netadmin", |o| o.command.debug.profile = Profile::Netadmin),
                    ("sysadmin", |o| o.command.debug.profile = Profile::Sysadmin),
                ],
            ),
            default: "general",
            ..DEBUG
        },
        Flag {
            name: "recursive",
            takes: Switch(|o, on| o.command.recursive = on),
            ..of_verbs(&[Verb::Explain])
        },
    ],
};

fn user(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.len() <= 64 && !text.chars().any(char::is_control);
    if is_good { Ok(text.to_owned()) } else { Err("must be a name of 1 to 64 bytes".to_owned()) }
}

/// Sets the format that `-o` names.
///
/// # Errors
/// The command has no such format.
pub(super) fn set_format(
    o: &mut Options,
    formats: &[Output],
    templates: Templates,
    text: &str,
) -> Result<(), String> {
    o.command.template = match templates {
        Templates::Taken => Template::parse(text)?,
        Templates::Refused => None,
    };
    o.command.output = match text {
        _ if o.command.template.is_some() => Output::Json,
        "" => Output::Table,
        _ => *formats.iter().find(|format| format.word() == text).ok_or_else(|| {
            let more: &[&str] =
                if templates == Templates::Taken { &["jsonpath", "custom-columns"] } else { &[] };
            let words: Vec<&str> =
                formats.iter().map(|format| format.word()).chain(more.iter().copied()).collect();
            format!("allowed formats are: {}", words.join(","))
        })?,
    };
    Ok(())
}

#[cfg(test)]
mod tests;
