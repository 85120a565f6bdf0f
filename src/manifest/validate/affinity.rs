//! Affinity and topology spread. podkeeper uses the required node affinity alone, but a manifest that the API
//! would refuse is a mistake on any node.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    NodeAffinity, PodAffinityTerm, PodSpec, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::super::path::{Path, Report, duplicate, forbidden, invalid, invalid_plain, required, unsupported};
use super::{accepted, chosen, names, selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn check(spec: &PodSpec, path: &Path<'_>, report: &mut Report<'_>) {
    let field = path.field("affinity");
    if let Some(affinity) = &spec.affinity {
        if let Some(node) = &affinity.node_affinity {
            self::node(node, &field.field("nodeAffinity"), report);
        }
        if let Some(pod) = &affinity.pod_affinity {
            let path = field.field("podAffinity");
            pods(
                pod.required_during_scheduling_ignored_during_execution.as_deref(),
                pod.preferred_during_scheduling_ignored_during_execution.as_deref(),
                &path,
                report,
            );
        }
        if let Some(pod) = &affinity.pod_anti_affinity {
            let path = field.field("podAntiAffinity");
            pods(
                pod.required_during_scheduling_ignored_during_execution.as_deref(),
                pod.preferred_during_scheduling_ignored_during_execution.as_deref(),
                &path,
                report,
            );
        }
    }
    let list = path.field("topologySpreadConstraints");
    let mut seen = BTreeSet::new();
    for (i, each) in spec.topology_spread_constraints.iter().flatten().enumerate() {
        let path = list.index(i);
        spread(each, &path, report);
        if !seen.insert((each.topology_key.as_str(), each.when_unsatisfiable.as_str())) {
            let pair = format!("{{{}, {}}}", each.topology_key, each.when_unsatisfiable);
            report.error(&path.field("{topologyKey, whenUnsatisfiable}"), duplicate(&pair));
        }
    }
}

fn node(node: &NodeAffinity, path: &Path<'_>, report: &mut Report<'_>) {
    if let Some(wanted) = &node.required_during_scheduling_ignored_during_execution {
        let path = path.field(REQUIRED);
        let list = path.field("nodeSelectorTerms");
        if wanted.node_selector_terms.is_empty() {
            report.error(&list, required("must have at least one node selector term"));
        }
        for (i, term) in wanted.node_selector_terms.iter().enumerate() {
            selector::nodes(term, true, &list.index(i), report);
        }
    }
    let list = path.field(PREFERRED);
    let terms = node.preferred_during_scheduling_ignored_during_execution.iter().flatten();
    for (i, term) in terms.enumerate() {
        let path = list.index(i);
        weight(term.weight, &path, report);
        selector::nodes(&term.preference, false, &path.field("preference"), report);
    }
}

fn pods(
    needed: Option<&[PodAffinityTerm]>,
    preferred: Option<&[WeightedPodAffinityTerm]>,
    path: &Path<'_>,
    report: &mut Report<'_>,
) {
    let list = path.field(REQUIRED);
    for (i, each) in needed.unwrap_or_default().iter().enumerate() {
        term(each, &list.index(i), report);
    }
    let list = path.field(PREFERRED);
    for (i, each) in preferred.unwrap_or_default().iter().enumerate() {
        let path = list.index(i);
        weight(each.weight, &path, report);
        term(&each.pod_affinity_term, &path.field("podAffinityTerm"), report);
    }
}

fn weight(weight: i32, path: &Path<'_>, report: &mut Report<'_>) {
    if !(1..=100).contains(&weight) {
        report.error(&path.field("weight"), invalid_plain(weight, "must be in the range 1-100"));
    }
}

/// `validatePodAffinityTerm`.
fn term(term: &PodAffinityTerm, path: &Path<'_>, report: &mut Report<'_>) {
    let labels = term.label_selector.as_ref();
    selector::labels(labels, &path.field("labelSelector"), report);
    selector::labels(term.namespace_selector.as_ref(), &path.field("namespaceSelector"), report);
    let list = path.field("namespaces");
    for (i, name) in term.namespaces.iter().flatten().enumerate() {
        accepted(name, names::label, &list.index(i), report);
    }
    let ours = term.match_label_keys.as_deref().unwrap_or_default();
    let others = term.mismatch_label_keys.as_deref().unwrap_or_default();
    label_keys(ours, labels, &path.field("matchLabelKeys"), report);
    label_keys(others, labels, &path.field("mismatchLabelKeys"), report);
    let list = path.field("matchLabelKeys");
    for (i, key) in ours.iter().enumerate().filter(|(_, key)| others.contains(key)) {
        let detail = "exists in both matchLabelKeys and mismatchLabelKeys";
        report.error(&list.index(i), invalid(key, detail));
    }
    topology_key(&term.topology_key, path, report);
}

fn label_keys(keys: &[String], labels: Option<&LabelSelector>, path: &Path<'_>, report: &mut Report<'_>) {
    if !keys.is_empty() && labels.is_none() {
        return report.error(path, forbidden("must not be specified when labelSelector is not set"));
    }
    for (i, key) in keys.iter().enumerate() {
        accepted(key, names::qualified, &path.index(i), report);
    }
}

fn topology_key(key: &str, path: &Path<'_>, report: &mut Report<'_>) {
    let path = path.field("topologyKey");
    if key.is_empty() {
        report.error(&path, required("can not be empty"));
    } else {
        accepted(key, names::qualified, &path, report);
    }
}

/// `validateTopologySpreadConstraints`, for one constraint.
fn spread(spread: &TopologySpreadConstraint, path: &Path<'_>, report: &mut Report<'_>) {
    const POSITIVE: &str = "must be greater than zero";
    if spread.max_skew <= 0 {
        report.error(&path.field("maxSkew"), invalid_plain(spread.max_skew, POSITIVE));
    }
    // As upstream, any text is a key here.
    if spread.topology_key.is_empty() {
        report.error(&path.field("topologyKey"), required("can not be empty"));
    }
    let action = spread.when_unsatisfiable.as_str();
    let actions = ["DoNotSchedule", "ScheduleAnyway"];
    if !actions.contains(&action) {
        report.error(&path.field("whenUnsatisfiable"), unsupported(action, &actions));
    }
    if let Some(least) = spread.min_domains {
        let path = path.field("minDomains");
        if least <= 0 {
            report.error(&path, invalid_plain(least, POSITIVE));
        }
        if action != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
            report.error(&path, invalid_plain(least, &detail));
        }
    }
    let policies = ["Honor", "Ignore"];
    chosen(spread.node_affinity_policy.as_deref(), &policies, &path.field("nodeAffinityPolicy"), report);
    chosen(spread.node_taints_policy.as_deref(), &policies, &path.field("nodeTaintsPolicy"), report);
    let labels = spread.label_selector.as_ref();
    let keys = spread.match_label_keys.as_deref().unwrap_or_default();
    label_keys(keys, labels, &path.field("matchLabelKeys"), report);
    selector::labels(labels, &path.field("labelSelector"), report);
}
