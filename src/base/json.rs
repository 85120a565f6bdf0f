//! Kubernetes types to JSON, always through [`serde_json::Value`]: each serializer that meets them is another
//! copy of their code, a hundred KiB of it, in the binary. No type of ours that is only ours needs this room.

use serde::ser::{Error, Serialize, Serializer};

/// The value as JSON in one line; empty for what cannot be written, which none of the API's types is.
#[must_use]
pub fn text(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| value.to_string())
}

/// For `#[serde(serialize_with)]`.
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
