//! The environment of a container, and `$(VAR)` references in it, in its command and its arguments. Pure. An
//! unknown reference is not an error: it stays as written. A missing local object is an error, and the
//! container waits for it.
//!
//! Upstream: `third_party/forked/golang/expansion/expand.go`, `pkg/kubelet/kubelet_pods.go`
//! (`makeEnvironmentVariables`), `pkg/kubelet/container/helpers.go` (`ExpandContainerCommandAndArgs`).
//!
//! Values may be secret: nothing here prints them, not even [`Expanded`]'s `Debug`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource};

use crate::base::limits;
use crate::base::order;
use crate::base::table::Table;
use crate::pod::downward::{self, Facts};
use crate::pod::object::{
    Content, LEFT_OUT, LocalObject, ObjectKey, ObjectKind, Objects, SERVICES, not_found,
};

/// Environment, command and arguments of a container, with references replaced.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Expanded {
    /// `NAME=value`, in the order of each name's first appearance; for equal names the last value is used.
    pub env: Vec<String>,
    /// `command`, absent when absent or empty.
    pub command: Option<Vec<String>>,
    /// `args`, absent when absent or empty.
    pub args: Option<Vec<String>>,
    /// Some references are left as written because their values would have exceeded
    /// [`limits::EXPANSION_BYTES`] or [`limits::ARGUMENT_BYTES`].
    pub cut: bool,
}

impl fmt::Debug for Expanded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} variables>", self.env.len())
    }
}

/// Expands `envFrom`, then `env`, like the kubelet's makeEnvironmentVariables: of equal names the later one
/// is used, and a variable can refer only to those before it. Command and arguments can refer to all of them.
/// `namespace` is the pod's; without `facts`, variables from fields are left out.
///
/// `envFrom` accepts any key as a name: since upstream relaxed its rule (KEP-4369) every key that the API
/// allows is a valid name, so no key is skipped.
///
/// # Errors
/// An object or key that is not optional is missing, or its value cannot be a variable. In the kubelet's
/// words, for reason `CreateContainerConfigError`.
pub fn expand(
    container: &Container,
    namespace: &str,
    objects: &Objects,
    facts: Option<&Facts<'_>>,
) -> Result<Expanded, String> {
    let mut budget = Budget { left: limits::EXPANSION_BYTES, cut: false };
    let mut lookup = Lookup { namespace, objects, facts, left: limits::ENVIRONMENT_BYTES };
    let mut known = Known::default();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        let (kind, name, optional) = match (&from.config_map_ref, &from.secret_ref) {
            (Some(it), _) => (ObjectKind::ConfigMap, &it.name, it.optional),
            (None, Some(it)) => (ObjectKind::Secret, &it.name, it.optional),
            (None, None) => continue,
        };
        let Some(object) = lookup.object(kind, name, optional)? else { continue };
        for (key, value) in values(object) {
            let value = lookup.variable(object, key, value)?;
            let name = if prefix.is_empty() { Cow::from(key) } else { Cow::from(format!("{prefix}{key}")) };
            known.set(name, value);
        }
    }
    for var in container.env.iter().flatten() {
        let value = match &var.value_from {
            None => substitute(var.value.as_deref().unwrap_or(""), &known, &mut budget),
            Some(from) => match lookup.value(from, var, container)? {
                Some(value) => value,
                None => continue,
            },
        };
        known.set(Cow::from(&var.name), value);
    }
    let mut list = |words: Option<&[String]>| {
        let words = words.filter(|words| !words.is_empty())?;
        Some(words.iter().map(|word| substitute(word, &known, &mut budget)).collect())
    };
    let command = list(container.command.as_deref());
    let args = list(container.args.as_deref());
    Ok(Expanded { env: known.entries(), command, args, cut: budget.cut })
}

/// The Services of its namespace that a container's environment leaves out, and why.
#[must_use]
pub fn services_left_out(container: &Container, namespace: &str, objects: &Objects) -> Option<String> {
    let name = &container.env_from.as_ref()?.first()?.config_map_ref.as_ref()?.name;
    let key =
        ObjectKey { kind: ObjectKind::ConfigMap, namespace: namespace.to_owned(), name: name.to_owned() };
    match &objects.get(&key)?.content {
        Content::ConfigMap { binary, .. } if name == SERVICES => {
            binary.get(LEFT_OUT).map(|what| String::from_utf8_lossy(what).into_owned())
        }
        _ => None,
    }
}

/// Whether the environment contains the addresses of the pod, and of the node.
#[must_use]
pub fn tells_addresses(container: &Container) -> (bool, bool) {
    let fields = container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()?.field_ref.as_ref());
    fields.fold((false, false), |(pod, node), field| {
        let path = field.field_path.as_str();
        (pod || downward::needs_pod_ip(path), node || downward::needs_host_ip(path))
    })
}

/// The variables so far, by name, with the order of their first appearance.
#[derive(Default)]
struct Known<'a>(Table<Cow<'a, str>, (usize, String)>);

impl<'a> Known<'a> {
    fn set(&mut self, name: Cow<'a, str>, value: String) {
        let next = self.0.len();
        self.0.get_or_insert(name, (next, String::new())).1 = value;
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(_, value)| value.as_str())
    }

    /// `NAME=value`, in the order of first appearance.
    fn entries(self) -> Vec<String> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        order::sort_by_key(&mut all, |(_, (order, _))| *order);
        all.into_iter().map(|(name, (_, value))| format!("{name}={value}")).collect()
    }
}

/// Looks up values in local objects and pod fields.
struct Lookup<'a> {
    namespace: &'a str,
    objects: &'a Objects,
    facts: Option<&'a Facts<'a>>,
    /// Bytes left for further values.
    left: usize,
}

impl<'a> Lookup<'a> {
    /// `None` if the object is missing and optional.
    fn object(
        &self,
        kind: ObjectKind,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Option<&'a LocalObject>, String> {
        let key = ObjectKey { kind, namespace: self.namespace.to_owned(), name: name.to_owned() };
        match self.objects.get(&key).map(Arc::as_ref) {
            None if !optional.unwrap_or(false) => Err(not_found(kind, name)),
            found => Ok(found),
        }
    }

    /// The value for `valueFrom`. `None` if it is missing and optional.
    fn value(
        &mut self,
        from: &EnvVarSource,
        var: &EnvVar,
        container: &Container,
    ) -> Result<Option<String>, String> {
        let Some(facts) = self.facts else { return self.key(from) };
        let value = match (&from.field_ref, &from.resource_field_ref) {
            (Some(field), _) => downward::field(&field.field_path, facts)?,
            (None, Some(resource)) => downward::resource(resource, facts, &container.name)?,
            (None, None) => return self.key(from),
        };
        if value.contains('\0') {
            return Err(format!("variable {} cannot be set: its value holds a NUL byte", var.name));
        }
        self.take(var.name.len().saturating_add(value.len()))?;
        Ok(Some(value))
    }

    fn key(&mut self, from: &EnvVarSource) -> Result<Option<String>, String> {
        let (kind, name, key, optional) = match (&from.config_map_key_ref, &from.secret_key_ref) {
            (Some(it), _) => (ObjectKind::ConfigMap, &it.name, &it.key, it.optional),
            (None, Some(it)) => (ObjectKind::Secret, &it.name, &it.key, it.optional),
            // `manifest/` refuses the other kinds.
            (None, None) => return Ok(None),
        };
        let Some(object) = self.object(kind, name, optional)? else { return Ok(None) };
        match value(object, key) {
            Some(value) => self.variable(object, key, value).map(Some),
            None if optional.unwrap_or(false) => Ok(None),
            None => Err(format!("couldn't find key {key} in {}", object.key)),
        }
    }

    /// The value as a variable, or an error without the value. The kubelet passes an invalid value on, and
    /// the runtime refuses it, perhaps with the value in its message.
    fn variable(&mut self, object: &LocalObject, key: &str, value: &[u8]) -> Result<String, String> {
        let unfit =
            |why| Err(format!("key {key} in {} cannot be an environment variable: {why}", object.key));
        let Ok(text) = std::str::from_utf8(value) else { return unfit("it is not UTF-8") };
        if text.contains('\0') {
            return unfit("it holds a NUL byte");
        }
        self.take(key.len().saturating_add(text.len()))?;
        Ok(text.to_owned())
    }

    fn take(&mut self, bytes: usize) -> Result<(), String> {
        let left = self.left.checked_sub(bytes);
        self.left = left
            .ok_or_else(|| format!("the environment is larger than {} bytes", limits::ENVIRONMENT_BYTES))?;
        Ok(())
    }
}

/// Keys and values, in order; of a ConfigMap only `data`, as upstream.
fn values(object: &LocalObject) -> Vec<(&str, &[u8])> {
    match &object.content {
        Content::ConfigMap { data, .. } => data.iter().map(|(k, v)| (k.as_str(), v.as_bytes())).collect(),
        Content::Secret { data, .. } => data.iter().map(|(k, v)| (k.as_str(), v.expose())).collect(),
        Content::Claim { .. } | Content::ClusterClaim(_) => Vec::new(),
    }
}

fn value<'a>(object: &'a LocalObject, key: &str) -> Option<&'a [u8]> {
    match &object.content {
        Content::ConfigMap { data, .. } => data.get(key).map(String::as_bytes),
        Content::Secret { data, .. } => data.get(key).map(|v| v.expose()),
        Content::Claim { .. } | Content::ClusterClaim(_) => None,
    }
}

/// Bytes that references may still add.
struct Budget {
    left: usize,
    cut: bool,
}

impl Budget {
    /// Whether a value may be inserted after `length` bytes of the expanded text.
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

/// Replaces `$(NAME)` by the value of the variable. An unknown variable, or one over the budget, stays as it
/// is.
fn substitute(text: &str, known: &Known<'_>, budget: &mut Budget) -> String {
    references(text, |name, out| match known.get(name) {
        Some(value) if budget.take(value, out.len()) => out.push_str(value),
        _ => {
            out.push_str("$(");
            out.push_str(name);
            out.push(')');
        }
    })
}

/// The text, with what `put` appends for each `$(NAME)`, and `$` for `$$`. An unclosed `$(` and a lone `$`
/// stay.
pub(super) fn references<'a>(text: &'a str, mut put: impl FnMut(&'a str, &mut String)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // Once no `)` is left, further `$(` are not searched: a text with many unclosed `$(` takes linear time.
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
        match reference {
            Some((name, after)) => {
                put(name, &mut out);
                rest = after;
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
#[path = "env/tests/objects.rs"]
mod from_objects;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expand(container: &Container) -> Expanded {
        super::expand(container, "default", &Objects::new(), None).unwrap()
    }

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
        let mut all = Known::default();
        known.into_iter().for_each(|(k, v)| all.set(Cow::from(k), v.to_string()));
        let check = |input: &str, expected: &str| {
            let mut budget = Budget { left: limits::EXPANSION_BYTES, cut: false };
            assert_eq!((input, substitute(input, &all, &mut budget).as_str()), (input, expected));
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
    fn an_absent_value_is_empty() {
        let mut c = container(&[("A", "1")], &[], &[]);
        c.env.as_mut().unwrap()[0].value = None;
        assert_eq!(expand(&c).env, ["A="]);
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
