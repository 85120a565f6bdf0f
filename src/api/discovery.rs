//! Discovery: the served resources, in the old form and in the aggregated one (`client-go/discovery`). Pure.

use crate::base::json::json;
use serde_json::Value;

use super::failure::Failure;
use super::kinds::{Kind, groups, within};
use super::value::place;
use crate::base::limits;

/// The version of the aggregated form that the client prefers, if it accepts one: `v2`, `v2beta1`.
#[must_use]
pub fn aggregated(accept: &str) -> Option<&'static str> {
    accept.split(',').take(limits::API_ACCEPTS).find_map(|media| {
        let has = |wanted: &str| media.split(';').any(|part| part.trim() == wanted);
        if !has("as=APIGroupDiscoveryList") || !has("g=apidiscovery.k8s.io") {
            return None;
        }
        ["v2", "v2beta1"].into_iter().find(|version| has(&format!("v={version}")))
    })
}

/// The content type of the aggregated form.
#[must_use]
pub fn aggregated_type(version: &str) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList")
}

/// The aggregated form of `/api` or of `/apis`.
#[must_use]
pub fn aggregated_list(version: &str, is_core: bool) -> Value {
    let items: Vec<Value> = match is_core {
        true => vec![group("", "v1", json!({}))],
        false => groups().map(|(name, version)| group(name, version, json!({"name": name}))).collect(),
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    })
}

fn group(name: &str, version: &str, metadata: Value) -> Value {
    let resources: Vec<Value> = within(name, version).map(resource).collect();
    json!({"metadata": metadata,
           "versions": [{"version": version, "freshness": "Current", "resources": resources}]})
}

fn resource(kind: &'static Kind) -> Value {
    let response = |of: &str| json!({"group": kind.group, "version": kind.version, "kind": of});
    let mut resource = json!({
        "resource": kind.plural,
        "responseKind": response(kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": kind.verbs,
    });
    if !kind.short.is_empty() {
        *place(&mut resource, &["shortNames"]) = json!(kind.short);
    }
    if !kind.categories.is_empty() {
        *place(&mut resource, &["categories"]) = json!(kind.categories);
    }
    if !kind.parts.is_empty() {
        let parts = kind.parts.iter().map(|part| {
            json!({"subresource": part.name, "responseKind": response(part.kind), "verbs": part.verbs})
        });
        *place(&mut resource, &["subresources"]) = parts.collect();
    }
    resource
}

/// `/api`.
#[must_use]
pub fn versions(address: &str) -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
           "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]})
}

fn group_of(name: &str, version: &str) -> Value {
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

/// `/apis`.
#[must_use]
pub fn group_list() -> Value {
    let all: Vec<Value> = groups().map(|(name, version)| group_of(name, version)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": all})
}

/// `/apis/GROUP`.
///
/// # Errors
/// There is no such group.
pub fn one_group(name: &str) -> Result<Value, Failure> {
    let (name, version) = groups().find(|(found, _)| *found == name).ok_or_else(Failure::no_resource)?;
    let mut group = group_of(name, version);
    *place(&mut group, &["kind"]) = "APIGroup".into();
    *place(&mut group, &["apiVersion"]) = "v1".into();
    Ok(group)
}

/// `/api/v1`, `/apis/GROUP/VERSION`.
///
/// # Errors
/// There is no such group or version.
pub fn resources(group: &str, version: &str) -> Result<Value, Failure> {
    let mut all = Vec::new();
    for kind in within(group, version) {
        let mut one = json!({"name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
                             "kind": kind.kind, "verbs": kind.verbs});
        if !kind.short.is_empty() {
            *place(&mut one, &["shortNames"]) = json!(kind.short);
        }
        if !kind.categories.is_empty() {
            *place(&mut one, &["categories"]) = json!(kind.categories);
        }
        all.push(one);
        all.extend(kind.parts.iter().map(|part| {
            json!({"name": format!("{}/{}", kind.plural, part.name), "singularName": "",
                   "namespaced": kind.namespaced, "kind": part.kind, "verbs": part.verbs})
        }));
    }
    if all.is_empty() {
        return Err(Failure::no_resource());
    }
    let of = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": of, "resources": all}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_the_clients_choice() {
        let of_kubectl = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;\
                          g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
        assert_eq!(aggregated(of_kubectl), Some("v2"));
        assert_eq!(
            aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
            Some("v2beta1")
        );
        assert_eq!(aggregated("application/json, */*"), None);
    }

    #[test]
    fn both_forms_tell_the_same_resources() {
        let list = aggregated_list("v2", true);
        let names = |value: &Value, field: &str| -> Vec<String> {
            value.as_array().unwrap().iter().map(|one| one[field].as_str().unwrap().to_owned()).collect()
        };
        let new = names(&list["items"][0]["versions"][0]["resources"], "resource");
        let mut old = names(&resources("", "v1").unwrap()["resources"], "name");
        old.retain(|name| !name.contains('/'));
        assert_eq!(new, old);
        assert!(one_group("apps").is_err() && resources("apps", "v1").is_err());
        assert_eq!(one_group("metrics.k8s.io").unwrap()["preferredVersion"]["version"], "v1beta1");
    }
}
