//! Label selectors and field selectors of a request, on objects of the API. Pure: the texts are a client's.

use std::collections::BTreeMap;

use serde_json::Value;

use super::kinds::Resource;
use crate::base::{limits, order};
use crate::manifest::selectors::{FieldSelector, LabelSelector};
use crate::pod::fields;

/// The requirements of a request for objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Selector {
    labels: LabelSelector,
    fields: FieldSelector,
}

/// Fields that can be selected, beside name and namespace of every resource (`pkg/apis/core/v1/conversion.go`, and the
/// strategies of the resources).
fn selectable(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Pods => fields::NAMES,
        Resource::Nodes => &["spec.unschedulable"],
        Resource::Namespaces => &["status.phase"],
        Resource::Secrets => &["type"],
        Resource::Events => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "type",
            "source",
            "reportingComponent",
        ],
        _ => &[],
    }
}

impl Selector {
    /// Parses both selectors of a request for a resource.
    ///
    /// # Errors
    /// The error in one of them.
    pub fn parse(labels: &str, fields: &str, resource: Resource) -> Result<Selector, String> {
        // Each part is compared with each object.
        if labels.matches(',').count() + fields.matches(',').count() >= limits::API_SELECTOR_PARTS {
            return Err(format!("a selector may have {} parts", limits::API_SELECTOR_PARTS));
        }
        let labels = LabelSelector::parse(labels)?;
        let fields = FieldSelector::parse(fields)?;
        let known = |field: &str| {
            ["metadata.name", "metadata.namespace"].contains(&field) || selectable(resource).contains(&field)
        };
        if let Some(field) = fields.fields().find(|field| !known(field)) {
            return Err(format!("field label not supported: {field}"));
        }
        Ok(Selector { labels, fields })
    }

    /// Whether an object meets all requirements.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        self.fields.matches(|field| value(object, field)) && self.matches_labels(object)
    }

    fn matches_labels(&self, object: &Value) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        let texts = labels.into_iter().flatten();
        let texts = texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let labels: BTreeMap<String, String> = order::map(texts);
        self.labels.matches(Some(&labels))
    }
}

/// A field as text. A missing one is empty, a missing boolean `false`.
fn value<'v>(object: &'v Value, field: &str) -> &'v str {
    let path = if field == "source" { "source.component" } else { field };
    let found = path.split('.').try_fold(object, |value, part| value.get(part));
    let is_switch = ["spec.hostNetwork", "spec.unschedulable"].contains(&field);
    match found {
        Some(Value::String(text)) => text,
        Some(Value::Bool(true)) => "true",
        Some(Value::Bool(false)) => "false",
        _ if is_switch => "false",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_selected_by_labels_and_fields() {
        let pod = json!({"metadata": {"name": "a", "labels": {"app": "web"}},
                         "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let check = |labels: &str, fields: &str| {
            Selector::parse(labels, fields, Resource::Pods).map(|selector| selector.matches(&pod))
        };
        assert_eq!(check("", ""), Ok(true));
        assert_eq!(
            check("app=web", "spec.nodeName=n,status.phase!=Failed,status.phase!=Succeeded"),
            Ok(true)
        );
        assert_eq!(check("app in (web), !tier", "status.podIP=,spec.hostNetwork=false"), Ok(true));
        assert_eq!(check("app!=web", ""), Ok(false));
        assert_eq!(check("", "status.phase=Failed"), Ok(false));
        assert_eq!(check("", "spec.x=1"), Err("field label not supported: spec.x".to_owned()));
        assert!(check("app in", "").is_err() && check("", "status.phase").is_err());
        let many = |parts| Selector::parse(&vec!["!q"; parts].join(","), "", Resource::Pods).is_ok();
        assert_eq!([limits::API_SELECTOR_PARTS, limits::API_SELECTOR_PARTS + 1].map(many), [true, false]);
        assert!(Selector::parse("", "reason=x,source=kubelet", Resource::Events).is_ok());
    }
}
