//! Kubernetes types to JSON, always through [`serde_json::Value`]: each further serializer would compile
//! another copy of the types' code into the binary, a hundred KiB. podkeeper's own types don't need this
//! room.

use serde::ser::{Error, Serialize, Serializer};

/// The value as JSON in one line; empty when it cannot be serialized, which does not happen with the API's
/// types.
#[must_use]
pub fn text(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| value.to_string())
}

/// Serializes through [`serde_json::Value`]; for `#[serde(serialize_with)]`.
///
/// # Errors
/// Those of the serializer.
pub fn through_value<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, PodSpec};

    #[test]
    fn as_the_type_itself_with_keys_in_order() {
        let container = Container { name: "a".into(), image: Some("b".into()), ..Container::default() };
        assert_eq!(super::text(&container), r#"{"image":"b","name":"a"}"#);
        #[derive(serde::Serialize)]
        struct Out<'a>(#[serde(serialize_with = "super::through_value")] &'a PodSpec);
        let spec = PodSpec { containers: vec![container], ..PodSpec::default() };
        let direct = serde_json::to_value(&spec).unwrap();
        assert_eq!(serde_json::to_value(Out(&spec)).unwrap(), direct);
    }
}
