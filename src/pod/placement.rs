//! Whether a pod may be on a node with these labels and taints (`k8s.io/component-helpers/scheduling/corev1`,
//! `pkg/scheduler/framework/plugins/nodeaffinity`, `tainttoleration`). Pure.
//!
//! Never here: the consequences.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PodSpec, Taint, Toleration,
};

/// The node in an API server, with labels and taints that others may set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeAtServer {
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
}

/// Whether `spec.nodeSelector` and the required node affinity select the node of this name.
#[must_use]
pub fn is_selected(spec: &PodSpec, name: &str, labels: &BTreeMap<String, String>) -> bool {
    if spec.node_selector.iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        return false;
    }
    let affinity = spec.affinity.as_ref().and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|it| it.required_during_scheduling_ignored_during_execution.as_ref());
    required.is_none_or(|it| is_any_met(it, name, labels))
}

/// Whether a selector selects the node of this name: any of its terms is enough. A selector without terms
/// selects no node.
#[must_use]
pub fn is_any_met(selector: &NodeSelector, name: &str, labels: &BTreeMap<String, String>) -> bool {
    selector.node_selector_terms.iter().any(|term| is_met(term, name, labels))
}

fn is_met(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let empty = Vec::new();
    let expressions = term.match_expressions.as_ref().unwrap_or(&empty);
    let fields = term.match_fields.as_ref().unwrap_or(&empty);
    let is_empty = expressions.is_empty() && fields.is_empty();
    let of_label = |it: &NodeSelectorRequirement| holds(it, labels.get(&it.key).map(String::as_str));
    let of_field = |it: &NodeSelectorRequirement| it.key == "metadata.name" && holds(it, Some(name));
    !is_empty && expressions.iter().all(of_label) && fields.iter().all(of_field)
}

fn holds(it: &NodeSelectorRequirement, is: Option<&str>) -> bool {
    let values = it.values.as_deref().unwrap_or_default();
    let among = |is: &str| values.iter().any(|value| value == is);
    let compared = |order: std::cmp::Ordering| {
        let number = |text: &str| text.parse::<i64>().ok();
        let limit = values.first().and_then(|value| number(value));
        is.and_then(number).zip(limit).is_some_and(|(is, limit)| is.cmp(&limit) == order)
    };
    match it.operator.as_str() {
        "In" => is.is_some_and(among),
        "NotIn" => !is.is_some_and(among),
        "Exists" => is.is_some(),
        "DoesNotExist" => is.is_none(),
        "Gt" => compared(std::cmp::Ordering::Greater),
        "Lt" => compared(std::cmp::Ordering::Less),
        _ => false,
    }
}

/// The first taint of this effect that the pod does not tolerate.
#[must_use]
pub fn untolerated<'t>(spec: &PodSpec, taints: &'t [Taint], effect: &str) -> Option<&'t Taint> {
    let mut of_effect = taints.iter().filter(|taint| taint.effect == effect);
    of_effect.find(|taint| !spec.tolerations.iter().flatten().any(|it| tolerates(it, taint)))
}

/// Whether a toleration fits a taint (`ToleratesTaint` in `pkg/apis/core/v1/helper`).
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (given(&toleration.key), given(&toleration.effect));
    let fits = |own: &str, of: &str| own.is_empty() || own == of;
    if !fits(&effect, &taint.effect) || !fits(&key, &taint.key) {
        return false;
    }
    match given(&toleration.operator).as_str() {
        "Exists" => true,
        // An empty key matches all taints only with `Exists`.
        "" | "Equal" => key == taint.key && given(&toleration.value) == given(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(more: Value) -> PodSpec {
        let mut spec = json!({"containers": []});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn nodes_that_are_selected() {
        let labels: BTreeMap<String, String> =
            [("zone", "a"), ("cores", "8")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let check = |spec: PodSpec, expected: bool| {
            assert_eq!(is_selected(&spec, "n1", &labels), expected, "{spec:?}");
        };
        check(spec(json!({})), true);
        check(spec(json!({"nodeSelector": {"zone": "a"}})), true);
        check(spec(json!({"nodeSelector": {"zone": "b"}})), false);
        let terms = |terms: Value| {
            let required = json!({"nodeSelectorTerms": terms});
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": required});
            spec(json!({"affinity": {"nodeAffinity": affinity}}))
        };
        let one = |key: &str, operator: &str, values: Value| {
            terms(json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]))
        };
        for (key, operator, values, expected) in [
            ("zone", "In", json!(["b", "a"]), true),
            ("zone", "In", json!(["b"]), false),
            ("none", "In", json!(["a"]), false),
            ("zone", "NotIn", json!(["a"]), false),
            ("none", "NotIn", json!(["a"]), true),
            ("zone", "Exists", json!([]), true),
            ("none", "Exists", json!([]), false),
            ("zone", "DoesNotExist", json!([]), false),
            ("none", "DoesNotExist", json!([]), true),
            ("cores", "Gt", json!(["4"]), true),
            ("cores", "Gt", json!(["8"]), false),
            ("cores", "Lt", json!(["9"]), true),
            ("zone", "Lt", json!(["9"]), false),
            ("zone", "Like", json!(["a"]), false),
        ] {
            check(one(key, operator, values), expected);
        }
        check(terms(json!([])), false);
        check(terms(json!([{}])), false);
        // Fields that a DaemonSet writes.
        let field = |name: &str, value: &str| {
            terms(json!([{"matchFields": [{"key": name, "operator": "In", "values": [value]}]}]))
        };
        check(field("metadata.name", "n1"), true);
        check(field("metadata.name", "n2"), false);
        check(field("metadata.uid", "n1"), false);
        // All expressions of one term must match, and any of several terms.
        let (yes, no) =
            (json!({"key": "zone", "operator": "Exists"}), json!({"key": "x", "operator": "Exists"}));
        check(terms(json!([{"matchExpressions": [yes, no]}])), false);
        check(terms(json!([{"matchExpressions": [no]}, {"matchExpressions": [yes]}])), true);
    }

    #[test]
    fn taints_that_are_tolerated() {
        let taints: Vec<Taint> = serde_json::from_value(json!([
            {"key": "a", "value": "1", "effect": "NoExecute"},
            {"key": "b", "effect": "NoSchedule"},
        ]))
        .unwrap();
        for (tolerations, expected) in [
            (json!([]), Some("a")),
            (json!([{"operator": "Exists"}]), None),
            (
                json!([{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}]),
                None,
            ),
            (json!([{"key": "a", "value": "1"}]), None),
            (json!([{"key": "a", "operator": "Equal", "value": "2"}]), Some("a")),
            (json!([{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]), Some("a")),
            (json!([{"value": "1"}]), Some("a")),
            (json!([{"key": "a", "operator": "Lt", "value": "2"}]), Some("a")),
        ] {
            let spec = spec(json!({"tolerations": tolerations}));
            let first = untolerated(&spec, &taints, "NoExecute").map(|taint| taint.key.as_str());
            assert_eq!(first, expected, "{tolerations}");
        }
    }
}
