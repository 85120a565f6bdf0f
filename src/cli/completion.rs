//! `completion`: shell scripts that complete command lines, made of the tables of verbs and flags. The scripts ask for
//! names of pods when the user presses the key. Pure but for the printing.

use std::fmt::Write as _;

use super::flags::{self, Flag, Verb};
use super::value;
use super::verbs::Operands;
use crate::base::order;

/// The shells that are known, with the word for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// `bash`.
    Bash,
    /// `zsh`.
    Zsh,
    /// `fish`.
    Fish,
}

impl Shell {
    /// Every shell, with its word.
    pub const ALL: &[(&str, Shell)] = &[("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)];

    /// The words of all shells.
    pub fn words() -> Vec<&'static str> {
        Shell::ALL.iter().map(|(word, _)| *word).collect()
    }

    /// The shell that a word means.
    #[must_use]
    pub fn parse(word: &str) -> Option<Shell> {
        Shell::ALL.iter().find(|(name, _)| *name == word).map(|(_, shell)| *shell)
    }
}

/// The completion script for a shell.
#[must_use]
pub fn text(shell: Shell) -> String {
    match shell {
        Shell::Bash => bash(),
        Shell::Zsh => zsh(),
        Shell::Fish => fish(),
    }
}

/// The kinds that a command takes, in the order in which shells show them.
fn sorted(kinds: &[&'static str]) -> Vec<&'static str> {
    let mut kinds = kinds.to_vec();
    order::sort(&mut kinds);
    kinds
}

/// The kinds of all commands, without those that names of pods follow.
fn other_kinds() -> Vec<&'static str> {
    let of = |verb: &Verb| match verb.about().operands {
        Operands::Kinds(kinds) => kinds,
        _ => &[],
    };
    let all = order::set(Verb::ALL.iter().flat_map(of).copied());
    all.into_iter().filter(|kind| !value::PODS.contains(kind)).collect()
}

fn dashed(flag: &Flag) -> Vec<String> {
    let long = if flag.name.len() == 1 { format!("-{}", flag.name) } else { format!("--{}", flag.name) };
    let short = flag.short.filter(|_| flag.name.len() > 1).map(|letter| format!("-{letter}"));
    std::iter::once(long).chain(short).collect()
}

fn verb_words() -> String {
    Verb::ALL.iter().map(|verb| verb.word()).collect::<Vec<_>>().join(" ")
}

const BASH_HEAD: &str = r#"# Completion of podkeeper for bash; printed by: podkeeper completion bash
_podkeeper_pods() {
    # Of the daemon and the namespace that the line names so far.
    local i value given=()
    for ((i = 2; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        --run-dir | --config | --namespace | -n)
            value=$((i + 1))
            [ "${COMP_WORDS[value]}" != = ] || value=$((i + 2))
            [ "$value" -ge "$COMP_CWORD" ] || given+=("${COMP_WORDS[i]}" "${COMP_WORDS[value]}")
            ;;
        esac
    done
    podkeeper get pods "${given[@]}" --output name 2>/dev/null | sed 's,^pod/,,'
}

_podkeeper() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
    local flags='' words='' kinds='' i
    COMPREPLY=()
    # Behind -- stands the command of a container.
    for ((i = 1; i < COMP_CWORD; i++)); do
        [ "${COMP_WORDS[i]}" != -- ] || return
    done
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W '@VERBS@ --help --version' -- "$current"))
        return
    fi
    case $verb:$before in
"#;

const BASH_TAIL: &str = r#"    *) return ;;
    esac
    if [ "${current#-}" != "$current" ]; then
        COMPREPLY=($(compgen -W "$flags --help" -- "$current"))
        return
    fi
    if [ -n "$kinds" ]; then
        # The kind comes first, and names only behind that of pods.
        words=$kinds
        for ((i = 2; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            pod | pods) words='@pods'; break ;;
            @OTHERS@) words=''; break ;;
            esac
        done
    fi
    case $words in
    @files) COMPREPLY=($(compgen -f -- "$current")) ;;
    @pods) COMPREPLY=($(compgen -W "$(_podkeeper_pods)" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
    esac
}

complete -o filenames -F _podkeeper podkeeper
"#;

fn bash() -> String {
    let mut out = BASH_HEAD.replace("@VERBS@", &verb_words());
    for verb in Verb::ALL {
        let (mut files, mut others) = (Vec::new(), Vec::new());
        for flag in flags::of(*verb).filter(|flag| flag.word().is_some()) {
            let patterns = dashed(flag).into_iter().map(|name| format!("{}:{name}", verb.word()));
            let choices = flag.choices();
            if !choices.is_empty() {
                let patterns: Vec<String> = patterns.collect();
                let words = choices.join(" ");
                let _ = writeln!(
                    out,
                    "    {})\n        COMPREPLY=($(compgen -W '{words}' -- \"$current\"))\n        return\n        ;;",
                    patterns.join(" | ")
                );
            } else if flag.is_path() {
                files.extend(patterns);
            } else {
                others.extend(patterns);
            }
        }
        if !files.is_empty() {
            let does = "COMPREPLY=($(compgen -f -- \"$current\"))\n        return\n        ;;";
            let _ = writeln!(out, "    {})\n        {does}", files.join(" | "));
        }
        if !others.is_empty() {
            let _ = writeln!(out, "    {}) return ;;", others.join(" | "));
        }
    }
    out.push_str("    esac\n    case $verb in\n");
    for verb in Verb::ALL {
        let flags: Vec<String> = flags::of(*verb).flat_map(dashed).collect();
        let words = match verb.about().operands {
            Operands::None | Operands::Free => "''".to_owned(),
            Operands::Files => "@files".to_owned(),
            Operands::Pods => "@pods".to_owned(),
            Operands::Kinds(kinds) => format!("'' kinds='{}'", sorted(kinds).join(" ")),
            Operands::Verbs => format!("'{}'", verb_words()),
            Operands::Shells => format!("'{}'", Shell::words().join(" ")),
        };
        let _ = writeln!(out, "    {}) flags='{}' words={words} ;;", verb.word(), flags.join(" "));
    }
    out.push_str(&BASH_TAIL.replace("@OTHERS@", &other_kinds().join(" | ")));
    out
}

const ZSH_HEAD: &str = r#"#compdef podkeeper
# Completion of podkeeper for zsh; printed by: podkeeper completion zsh
_podkeeper_pods() {
    local -a pods
    pods=(${(f)"$(podkeeper get pods --output name 2>/dev/null)"})
    compadd -- ${pods#pod/}
}

_podkeeper_kinds() {
    if (( CURRENT == 2 )); then
        compadd -- "$@"
    elif [[ $words[2] == pod || $words[2] == pods ]]; then
        _podkeeper_pods
    fi
}

_podkeeper() {
    local context state line
    typeset -A opt_args
    _arguments -C '1:command:->command' '*::argument:->argument'
    case $state in
    command)
        local -a commands
        commands=(
"#;

/// Text for single quotes in zsh, with brackets and colons escaped: `_arguments` and `_describe` interpret them.
fn zsh_text(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\'' => out.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

fn zsh() -> String {
    let mut out = ZSH_HEAD.to_owned();
    for verb in Verb::ALL {
        let _ = writeln!(out, "            '{}:{}'", verb.word(), zsh_text(verb.about().summary));
    }
    out.push_str("        )\n        _describe command commands\n        ;;\n    argument)\n        case $words[1] in\n");
    for verb in Verb::ALL {
        let _ = writeln!(out, "        {})\n            _arguments \\", verb.word());
        for flag in flags::of(*verb) {
            zsh_flag(&mut out, flag);
        }
        let action = match verb.about().operands {
            Operands::None | Operands::Free => "",
            Operands::Files => "_files",
            Operands::Pods => "_podkeeper_pods",
            Operands::Kinds(kinds) => &format!("_podkeeper_kinds {}", sorted(kinds).join(" ")),
            Operands::Verbs => &format!("({})", verb_words()),
            Operands::Shells => &format!("({})", Shell::words().join(" ")),
        };
        let _ = writeln!(out, "                '*:argument:{action}'\n            ;;");
    }
    out.push_str("        esac\n        ;;\n    esac\n}\n\n_podkeeper \"$@\"\n");
    out
}

fn zsh_flag(out: &mut String, flag: &Flag) {
    for name in dashed(flag) {
        let help = zsh_text(&flag.said());
        let _ = match flag.word() {
            None => writeln!(out, "                '*{name}[{help}]' \\"),
            Some(word) => {
                let equals = if name.starts_with("--") { "=" } else { "" };
                let choices = flag.choices();
                let action = match choices.as_slice() {
                    [] if flag.is_path() => "_files".to_owned(),
                    [] => String::new(),
                    choices => format!("({})", choices.join(" ")),
                };
                let word = zsh_text(word);
                writeln!(out, "                '*{name}{equals}[{help}]:{word}:{action}' \\")
            }
        };
    }
}

const FISH_HEAD: &str = r#"# Completion of podkeeper for fish; printed by: podkeeper completion fish
function __podkeeper_pods
    podkeeper get pods --output name 2>/dev/null | string replace pod/ ''
end

complete -c podkeeper -f
"#;

fn fish_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

fn fish() -> String {
    let mut out = FISH_HEAD.to_owned();
    for verb in Verb::ALL {
        let (word, summary) = (verb.word(), fish_text(verb.about().summary));
        let _ = writeln!(out, "complete -c podkeeper -n __fish_use_subcommand -a {word} -d '{summary}'");
    }
    for verb in Verb::ALL {
        let head = format!("complete -c podkeeper -n '__fish_seen_subcommand_from {}'", verb.word());
        for flag in flags::of(*verb) {
            fish_flag(&mut out, &head, flag);
        }
        let _ = match verb.about().operands {
            Operands::None | Operands::Free => Ok(()),
            Operands::Files => writeln!(out, "{head} -F"),
            Operands::Pods => writeln!(out, "{head} -a '(__podkeeper_pods)'"),
            Operands::Kinds(kinds) => {
                let kinds = sorted(kinds).join(" ");
                let unsaid = format!(
                    "__fish_seen_subcommand_from {0}; and not __fish_seen_subcommand_from {kinds}",
                    verb.word()
                );
                let said = format!(
                    "__fish_seen_subcommand_from {0}; and __fish_seen_subcommand_from pod pods",
                    verb.word()
                );
                let pods = "'(__podkeeper_pods)'";
                writeln!(
                    out,
                    "complete -c podkeeper -n '{unsaid}' -a '{kinds}'\ncomplete -c podkeeper -n '{said}' -a {pods}"
                )
            }
            Operands::Verbs => writeln!(out, "{head} -a '{}'", verb_words()),
            Operands::Shells => writeln!(out, "{head} -a '{}'", Shell::words().join(" ")),
        };
    }
    out
}

fn fish_flag(out: &mut String, head: &str, flag: &Flag) {
    let long = if flag.name.len() == 1 { format!("-s {}", flag.name) } else { format!("-l {}", flag.name) };
    let short = flag.short.filter(|_| flag.name.len() > 1).map(|letter| format!(" -s {letter}"));
    let choices = flag.choices();
    let value = match flag.word() {
        None => String::new(),
        Some(_) if !choices.is_empty() => format!(" -x -a '{}'", choices.join(" ")),
        Some(_) if flag.is_path() => " -r -F".to_owned(),
        Some(_) => " -x".to_owned(),
    };
    let help = fish_text(&flag.said());
    let _ = writeln!(out, "{head} {long}{}{value} -d '{help}'", short.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::golden;

    /// Packages take the scripts from the golden files.
    #[test]
    fn scripts_are_made_of_the_tables() {
        for (word, shell) in Shell::ALL {
            assert_eq!(Shell::parse(word), Some(*shell));
            golden(&format!("cli/completion.{word}"), &text(*shell));
        }
        assert_eq!(Shell::parse("csh"), None);
    }
}
