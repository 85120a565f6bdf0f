//! `pods/resize`: other resources for the containers of a running pod (`pkg/registry/core/pod/strategy.go`,
//! `podResizeStrategy`; `pkg/apis/core/validation/validation.go`, `ValidatePodResize`). Pure.

use k8s_openapi::api::core::v1::PodSpec;
use serde_json::Value;

use crate::api::value::{part, place};
use crate::base::json;
use crate::pod::qos;

/// Fields of a container that a resize may change.
const FIELDS: [&str; 2] = ["resources", "resizePolicy"];

/// The pod with the wanted resources; the rest of `wanted` is dropped, as upstream.
///
/// # Errors
/// A resize cannot make this change.
pub fn resized(live: &Value, wanted: &Value) -> Result<Value, String> {
    let mut new = live.clone();
    if let Some(version) = wanted.pointer("/metadata/resourceVersion") {
        *place(&mut new, &["metadata", "resourceVersion"]) = version.clone();
    }
    for list in ["containers", "initContainers"] {
        let path = format!("/spec/{list}");
        let Some(Value::Array(containers)) = new.pointer_mut(&path) else { continue };
        for (at, container) in containers.iter_mut().enumerate() {
            let name = container.get("name").cloned();
            let all = part(wanted, &path).as_array().into_iter().flatten();
            let Some(wish) = all.into_iter().find(|one| one.get("name") == name.as_ref()) else { continue };
            if list == "initContainers"
                && FIELDS.iter().any(|field| container.get(field) != wish.get(field))
                && container.get("restartPolicy").is_none()
            {
                return Err(format!(
                    "spec.{list}[{at}]: Forbidden: only containers that run on can be resized"
                ));
            }
            check(
                &format!("spec.{list}[{at}].resources"),
                part(container, "/resources"),
                part(wish, "/resources"),
            )?;
            for field in FIELDS {
                if let Some(value) = wish.get(field) {
                    *place(container, &[field]) = value.clone();
                }
            }
        }
    }
    let class = |pod: &Value| json::read::<PodSpec>(part(pod, "/spec")).ok().map(|spec| qos::class(&spec));
    match (class(live), class(&new)) {
        (Some(before), Some(after)) if before == after => Ok(new),
        (_, None) => Err("spec: Invalid value: it is no spec of a pod".to_owned()),
        _ => Err("spec: Forbidden: Pod QOS Class may not change as a result of resizing".to_owned()),
    }
}

/// Checks that only cpu and memory change, and that none is removed.
fn check(at: &str, old: &Value, new: &Value) -> Result<(), String> {
    for part_of in ["limits", "requests"] {
        let of = |value: &Value| part(value, &format!("/{part_of}")).as_object().cloned().unwrap_or_default();
        let (old, new) = (of(old), of(new));
        if let Some(gone) = old.keys().find(|name| !new.contains_key(*name)) {
            return Err(format!("{at}.{part_of}: Forbidden: resource {part_of} cannot be removed ({gone})"));
        }
        let is_other =
            |name: &&String| !["cpu", "memory"].contains(&name.as_str()) && old.get(*name) != new.get(*name);
        if let Some(other) = new.keys().find(is_other) {
            return Err(format!(
                "{at}.{part_of}: Forbidden: only cpu and memory resources are mutable, not {other}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [
            {"name": "a", "image": "x", "resources": resources}]}})
    }

    #[test]
    fn sizes_change_and_nothing_else() {
        let live = pod(json!({"requests": {"cpu": "1", "example.com/x": "1"}}));
        let check = |resources: Value| resized(&live, &pod(resources));
        let mut wish =
            pod(json!({"requests": {"cpu": "2", "example.com/x": "1"}, "limits": {"memory": "1Gi"}}));
        wish["spec"]["containers"][0]["image"] = "y".into();
        let new = resized(&live, &wish).unwrap();
        assert_eq!(new["spec"]["containers"][0]["resources"], wish["spec"]["containers"][0]["resources"]);
        assert_eq!(new["spec"]["containers"][0]["image"], "x");
        let refused = |resources: Value| check(resources).unwrap_err();
        assert!(refused(json!({"requests": {"example.com/x": "1"}})).contains("cannot be removed (cpu)"));
        assert!(
            refused(json!({"requests": {"cpu": "1", "example.com/x": "2"}})).contains("not example.com/x")
        );
        let all = json!({"cpu": "1", "memory": "1Gi"});
        let best = resized(&pod(json!({})), &pod(json!({"limits": all, "requests": all}))).unwrap_err();
        assert!(best.contains("QOS"), "{best}");
    }
}
