//! The fields of a pod in the Kubernetes types, found by recording the requests of their decoders: no list is
//! written by hand, so fields of a new version of the API appear. For tests only: in the daemon this would
//! compile all decoders a second time.

use k8s_openapi::api::core::v1::Pod;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Path in the notation of `support::Row::field`.
    pub path: String,
    /// Last part of the path.
    pub name: &'static str,
    /// `string`, `integer`, `boolean` or the API's name of a type, with `[]` or `map[string]` before it if
    /// needed.
    pub kind: String,
    /// The type that has this field.
    pub owner: &'static str,
}

/// Every field of a pod, in the order of the API's types.
pub(crate) fn of_pod() -> Vec<Shape> {
    of::<Pod>()
}

/// Every field of a type, in the order of the API's types.
pub(crate) fn of<T: for<'de> Deserialize<'de>>() -> Vec<Shape> {
    let mut all = Vec::new();
    T::deserialize(Walker { path: String::new(), all: &mut all, kind: &mut String::new() }).unwrap();
    all
}

/// A path in the notation of the rows of `support`: init containers share the rows of containers.
pub(crate) fn as_row(path: &str) -> String {
    path.replacen("spec.initContainers[*]", "spec.containers[*]", 1)
}

/// The fields directly below a path.
pub(crate) fn fields<'a>(all: &'a [Shape], parent: &str) -> impl Iterator<Item = &'a Shape> {
    let parent = format!("{parent}.");
    all.iter().filter(move |shape| shape.path.strip_prefix(&parent).is_some_and(|rest| rest == shape.name))
}

struct Walker<'a> {
    path: String,
    all: &'a mut Vec<Shape>,
    /// The recorded kind of this value.
    kind: &'a mut String,
}

/// A text that all string types accept: a time.
const TEXT: &str = "2020-01-01T00:00:00Z";

impl<'de> Deserializer<'de> for Walker<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("IntOrString");
        visitor.visit_str(TEXT)
    }
    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("boolean");
        visitor.visit_bool(false)
    }
    fn deserialize_i32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("integer");
        visitor.visit_i32(0)
    }
    fn deserialize_i64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("integer");
        visitor.visit_i64(0)
    }
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("string");
        visitor.visit_str(TEXT)
    }
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_string(visitor)
    }
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let kind = self.kind;
        let before = kind.len();
        let value =
            visitor.visit_newtype_struct(Walker { path: self.path, all: self.all, kind: &mut *kind })?;
        kind.truncate(before);
        kind.push_str(name);
        Ok(value)
    }
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("[]");
        visitor.visit_seq(One { walker: Some(Walker { path: format!("{}[*]", self.path), ..self }) })
    }
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.kind.push_str("map[string]");
        visitor.visit_map(OneEntry {
            key: true,
            walker: Some(Walker { path: format!("{}.*", self.path), ..self }),
        })
    }
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.kind.push_str(name);
        visitor.visit_map(Fields { owner: name, left: fields, path: self.path, all: self.all, now: "" })
    }
    serde::forward_to_deserialize_any! {
        i8 i16 u8 u16 u32 u64 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum
        identifier ignored_any
    }
}

struct One<'a> {
    walker: Option<Walker<'a>>,
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.walker.take().map(|walker| seed.deserialize(walker)).transpose()
    }
}

struct OneEntry<'a> {
    key: bool,
    walker: Option<Walker<'a>>,
}

impl<'de> MapAccess<'de> for OneEntry<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !std::mem::take(&mut self.key) {
            return Ok(None);
        }
        let key: StrDeserializer<'_, Error> = "key".into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.walker.take().unwrap())
    }
}

struct Fields<'a> {
    owner: &'static str,
    left: &'static [&'static str],
    path: String,
    all: &'a mut Vec<Shape>,
    now: &'static str,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((first, left)) = self.left.split_first() else { return Ok(None) };
        (self.now, self.left) = (first, left);
        let key: StrDeserializer<'_, Error> = (*first).into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let name = self.now;
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        // The API version and the kind of an object have only one valid value.
        if self.path.is_empty() && matches!(name, "apiVersion" | "kind") {
            let value = match (name, self.owner) {
                ("kind", owner) => owner,
                (_, "Lease") => "coordination.k8s.io/v1",
                _ => "v1",
            };
            let value: StrDeserializer<'_, Error> = value.into_deserializer();
            return seed.deserialize(value);
        }
        let at = self.all.len();
        let mut kind = String::new();
        let value = seed.deserialize(Walker { path: path.clone(), all: self.all, kind: &mut kind })?;
        self.all.insert(at, Shape { path, name, kind, owner: self.owner });
        Ok(value)
    }
}
