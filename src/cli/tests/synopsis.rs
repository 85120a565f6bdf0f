//! Tests that usage lines, which are written by hand for their order and brackets, use the words of the entries.

use crate::cli::completion::Shell;
use crate::cli::flags::{self, Verb};
use crate::cli::verbs::Operands;

/// Errors in this usage line of a command.
fn wrong(verb: Verb, synopsis: &str) -> Vec<String> {
    let words: Vec<&str> =
        synopsis.split_whitespace().map(|word| word.trim_matches(['[', ']'])).skip(1).collect();
    let mut wrong = Vec::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| word.starts_with('-')) {
        let name = word.trim_start_matches('-');
        if matches!(name, "" | "c..." | "-...") || *word == "-|" {
            continue;
        }
        let is =
            |flag: &&flags::Flag| flag.name == name || flag.short.map(String::from).as_deref() == Some(name);
        let Some(flag) = flags::of(verb).find(is) else {
            wrong.push(format!("{word} is no flag of it"));
            continue;
        };
        let choices = flag.choices().join("|");
        let said = words.get(at + 1).copied().filter(|_| flag.word().is_some()).unwrap_or_default();
        if said.contains('|') && said != choices {
            wrong.push(format!("{word} takes {choices}, and not {said}"));
        }
    }
    let expected = match verb.about().operands {
        Operands::Kinds(kinds) => kinds.join("|"),
        Operands::Shells => Shell::words().join("|"),
        _ => return wrong,
    };
    if words.first() != Some(&expected.as_str()) {
        wrong.push(format!("{expected} stands first"));
    }
    wrong
}

#[test]
fn a_usage_line_has_the_flags_and_the_words_that_the_entries_have() {
    let found: Vec<String> = Verb::ALL
        .iter()
        .flat_map(|verb| {
            wrong(*verb, verb.about().synopsis).into_iter().map(|why| format!("{}: {why}", verb.word()))
        })
        .collect();
    assert_eq!(found, [""; 0]);
    let check = |verb, synopsis: &str, expected: &[&str]| assert_eq!(wrong(verb, synopsis), expected);
    check(Verb::Stats, "stats [-o json|yaml]", &[]);
    check(
        Verb::Stats,
        "stats [-o yaml|xml] [-q]",
        &["-o takes json|yaml, and not yaml|xml", "-q is no flag of it"],
    );
    check(Verb::Top, "top pods|node", &["node|pods stands first"]);
}
