//! The environment of a container, and `$(VAR)` references in it, in its command and its arguments.
//! Pure. A reference is never an error: what is unknown stays as it is written.
//!
//! Upstream: `third_party/forked/golang/expansion/expand.go`, `pkg/kubelet/kubelet_pods.go`
//! (`makeEnvironmentVariables`), `pkg/kubelet/container/helpers.go` (`ExpandContainerCommandAndArgs`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;

use crate::limits;

/// What a container is started with, references replaced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expanded {
    /// `NAME=value`, in the order of each name's first appearance; of equal names the last value counts.
    pub env: Vec<String>,
    /// `command`, absent when absent or empty.
    pub command: Option<Vec<String>>,
    /// `args`, absent when absent or empty.
    pub args: Option<Vec<String>>,
    /// Some references are left as written, for their values would have passed
    /// [`limits::EXPANSION_BYTES`] or [`limits::ARGUMENT_BYTES`].
    pub cut: bool,
}

/// Expands the literal values of `env` (a variable sees only those before it), then command and
/// arguments (which see them all). Entries with `valueFrom` are left out: nothing here looks things up.
#[must_use]
pub fn expand(container: &Container) -> Expanded {
    let mut budget = Budget { left: limits::EXPANSION_BYTES, cut: false };
    let mut known: BTreeMap<&str, String> = BTreeMap::new();
    let mut order: Vec<&str> = Vec::new();
    for var in container.env.iter().flatten().filter(|var| var.value_from.is_none()) {
        let value = substitute(var.value.as_deref().unwrap_or(""), &known, &mut budget);
        if known.insert(&var.name, value).is_none() {
            order.push(&var.name);
        }
    }
    let mut list = |words: Option<&[String]>| {
        let words = words.filter(|words| !words.is_empty())?;
        Some(words.iter().map(|word| substitute(word, &known, &mut budget)).collect())
    };
    let command = list(container.command.as_deref());
    let args = list(container.args.as_deref());
    let entry = |name: &&str| Some(format!("{name}={}", known.get(name)?));
    Expanded { env: order.iter().filter_map(entry).collect(), command, args, cut: budget.cut }
}

/// How much more references may add.
struct Budget {
    left: usize,
    cut: bool,
}

impl Budget {
    /// Whether a value may be put in after `length` bytes of the text being made.
    fn take(&mut self, value: &str, length: usize) -> bool {
        let fits = length.saturating_add(value.len()) <= limits::ARGUMENT_BYTES;
        match self.left.checked_sub(value.len()) {
            Some(left) if fits => self.left = left,
            _ => {
                self.cut = true;
                return false;
            }
        }
        true
    }
}

/// `$(NAME)` becomes the value, `$$` becomes `$`; an unknown name, an open `$(` and a lone `$` stay.
fn substitute(text: &str, known: &BTreeMap<&str, String>, budget: &mut Budget) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Once no `)` is left none is looked for again: a text of many open `$(` stays linear.
    let mut closable = true;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
            continue;
        }
        let reference = match after.strip_prefix('(').filter(|_| closable) {
            Some(open) => {
                let closed = open.split_once(')');
                closable = closed.is_some();
                closed
            }
            None => None,
        };
        let Some((name, after)) = reference else {
            out.push('$');
            rest = after;
            continue;
        };
        match known.get(name) {
            Some(value) if budget.take(value, out.len()) => out.push_str(value),
            _ => {
                out.push_str("$(");
                out.push_str(name);
                out.push(')');
            }
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource};
    use proptest::prelude::*;

    use super::*;

    fn container(env: &[(&str, &str)], command: &[&str], args: &[&str]) -> Container {
        let var = |(name, value): &(&str, &str)| EnvVar {
            name: (*name).into(),
            value: Some((*value).into()),
            value_from: None,
        };
        let words = |list: &[&str]| Some(list.iter().map(|word| (*word).to_string()).collect());
        Container {
            env: Some(env.iter().map(var).collect()),
            command: words(command),
            args: words(args),
            ..Container::default()
        }
    }

    #[test]
    fn one_word() {
        // The table of upstream's expand_test.go, with its variables.
        let known =
            [("VAR_A", "A"), ("VAR_B", "B"), ("VAR_C", "C"), ("VAR_REF", "$(VAR_A)"), ("VAR_EMPTY", "")];
        let known: BTreeMap<&str, String> = known.into_iter().map(|(k, v)| (k, v.to_string())).collect();
        let check = |input: &str, expected: &str| {
            let mut budget = Budget { left: limits::EXPANSION_BYTES, cut: false };
            assert_eq!((input, substitute(input, &known, &mut budget).as_str()), (input, expected));
            assert!(!budget.cut);
        };
        check("$(VAR_A)", "A");
        check("___$(VAR_B)___", "___B___");
        check("___$(VAR_C)", "___C");
        check("$(VAR_A)-$(VAR_A)", "A-A");
        check("$(VAR_A)_1", "A_1");
        check("$$(VAR_B)_$(VAR_A)", "$(VAR_B)_A");
        check("$$$(VAR_A)", "$A");
        check("$$$$$$$(VAR_A)", "$$$A");
        check("$(VAR_DNE)", "$(VAR_DNE)");
        check("f000-$$VAR_A", "f000-$VAR_A");
        check("foo\\$(VAR_C)bar", "foo\\Cbar");
        check("foo\\\\$(VAR_C)bar", "foo\\\\Cbar");
        check("$(VAR_REF)", "$(VAR_A)");
        check("%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%");
        check("foo$(VAR_EMPTY)bar", "foobar");
        check("foo$(VAR_Awhoops!", "foo$(VAR_Awhoops!");
        check("f00__(VAR_A)__", "f00__(VAR_A)__");
        check("$?_boo_$!", "$?_boo_$!");
        check("$VAR_A", "$VAR_A");
        check("$(VAR_DNE", "$(VAR_DNE");
        check("$()", "$()");
        check("$", "$");
        check("$$", "$");
        check("foo$$$(VAR_DNE)bar", "foo$$(VAR_DNE)bar");
        check("$(VAR_A$(VAR_B))", "$(VAR_A$(VAR_B))");
        check("$é$(VAR_A)", "$éA");
        check("$( $$ )$$", "$( $$ )$");
    }

    #[test]
    fn order_matters() {
        let c = container(
            &[("B", "$(A)"), ("A", "1"), ("C", "$(A)$(B)"), ("A", "2$(A)"), ("E", "")],
            &["sh", "$(A)", "$$(A)"],
            &["$(C)", "$(E)", "$(NOPE)"],
        );
        let got = expand(&c);
        assert_eq!(got.env, ["B=$(A)", "A=21", "C=1$(A)", "E="]);
        assert_eq!(got.command.unwrap(), ["sh", "21", "$(A)"]);
        assert_eq!(got.args.unwrap(), ["1$(A)", "", "$(NOPE)"]);
        assert!(!got.cut);
    }

    #[test]
    fn absent_and_looked_up() {
        let mut c = container(&[("A", "1"), ("B", "")], &[], &[]);
        c.env.as_mut().unwrap()[1].value_from = Some(EnvVarSource::default());
        c.env.as_mut().unwrap()[0].value = None;
        assert_eq!(expand(&c), Expanded { env: vec!["A=".into()], ..Expanded::default() });
    }

    #[test]
    fn references_cannot_explode() {
        let names: Vec<String> = (0..64).map(|n| format!("V{n}")).collect();
        let values: Vec<String> =
            (0..64).map(|n: usize| format!("$(V{0})$(V{0})", n.wrapping_sub(1))).collect();
        let mut env: Vec<(&str, &str)> =
            names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
        env[0].1 = "xxxxxxxxxxxxxxxx";
        let got = expand(&container(&env, &["$(V13)"; 100], &[]));
        assert!(got.cut);
        let longest = got.env.iter().map(String::len).max().unwrap();
        assert!(longest <= limits::ARGUMENT_BYTES + 64, "{longest}");
        let total: usize = got.env.iter().chain(got.command.iter().flatten()).map(String::len).sum();
        assert!(total <= limits::EXPANSION_BYTES + 8 * 1024, "{total}");
        assert_eq!(got.command.unwrap()[99], "$(V13)", "past the bound a reference stays as written");
    }

    proptest! {
        #[test]
        fn never_panics(
            env in proptest::collection::vec(("[A-C$()é]{0,3}", "[$()ABCé]{0,12}"), 0..6),
            words in proptest::collection::vec("[$()ABCé]{0,12}", 0..4),
        ) {
            let env: Vec<(&str, &str)> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let got = expand(&container(&env, &words, &words));
            prop_assert_eq!(got.command, got.args);
            prop_assert!(got.env.len() <= env.len());
        }
        #[test]
        fn text_without_dollar_stays(word in "[^$]{0,40}") {
            let got = expand(&container(&[("A", "1")], &[&word], &[]));
            prop_assert_eq!(got.command, Some(vec![word]));
        }
    }
}
