//! Kubernetes types to JSON and back, always through a [`serde_json::Value`] and by one serializer and one deserializer:
//! each further one (serde_json has one for values and one for references to them) would compile another copy of the
//! types' code into the binary, hundreds of KiB. podkeeper's own types need this room only where they hold such a type.

pub mod items;
mod made;
mod member;
mod reader;

use std::cell::Cell;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed as _};
use serde::ser::{Error, Serialize, Serializer};
use serde_json::{Map, Value};

pub(crate) use self::made::json;
pub use self::made::{push, put, value};
pub use self::member::member;
use super::limits;

/// The error of lists that take more memory than they may.
pub const TOO_LARGE: &str = "its lists are too long: they take too much memory";

/// An object of these entries; the last one of equal keys is kept. `collect` would compile another sort and another
/// tree for each kind of iterator.
pub fn object(entries: &mut dyn Iterator<Item = (String, Value)>) -> Map<String, Value> {
    let mut all = Map::new();
    for (key, value) in entries {
        all.insert(key, value);
    }
    all
}

/// The object that a value holds, whose lists take at most [`limits::DECODED_OBJECT`] bytes.
///
/// # Errors
/// It is no such thing, or too large.
pub fn read<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    read_within(value, &Cell::new(limits::DECODED_OBJECT))
}

/// As [`read`], of a value that podkeeper has written itself.
///
/// # Errors
/// It is no such thing.
pub fn read_own<T: DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    read_within(value, &Cell::new(usize::MAX))
}

/// As [`read`], where lists may take so many bytes, which are taken off `room`. Nothing is left of it after the error
/// [`TOO_LARGE`].
///
/// # Errors
/// It is no such thing, or too large.
pub fn read_within<T: DeserializeOwned>(value: &Value, room: &Cell<usize>) -> Result<T, serde_json::Error> {
    PhantomData::<T>.deserialize(reader::Reader { value, room })
}

/// The value as JSON in one line; empty when it cannot be serialized, which does not happen with the API's
/// types.
#[must_use]
pub fn text(value: &impl Serialize) -> String {
    serde_json::to_value(value).map_or_else(|_| String::new(), |value| value.to_string())
}

/// Serializes through [`serde_json::Value`]; for `#[serde(serialize_with)]`.
///
/// # Errors
/// Errors of the serializer.
pub fn through_value<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(S::Error::custom)?.serialize(serializer)
}

/// An upper bound for the number of values in a JSON text, found without parsing: each value but the first of a list or
/// an object follows a comma. A value of two bytes takes more than thirty as [`serde_json::Value`].
#[must_use]
pub fn values(text: &[u8]) -> usize {
    let (mut count, mut is_text, mut is_escaped) = (1usize, false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b'[' | b'{' if !is_text => count = count.saturating_add(1),
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_are_counted_and_what_stands_in_texts_is_none() {
        let texts = [(r#"0"#, 1), ("[]", 2), ("[0,0,[1]]", 5), (r#"{"a":"x,[\",{","b":{}}"#, 4)];
        for (text, count) in texts {
            assert_eq!(super::values(text.as_bytes()), count, "{text}");
        }
    }

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
