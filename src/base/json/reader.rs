//! The one deserializer of Kubernetes types, which reads a [`Value`] by reference.
//!
//! serde_json's own takes the value apart, so each type's code has to free what is left of it wherever it may fail. The
//! errors are serde_json's.
//!
//! Elements of lists are counted with the size of their type: a volume of two bytes takes five KiB when it is read.

use std::cell::Cell;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::{Error, Map, Number, Value};

/// Reads one value.
#[derive(Clone, Copy)]
pub(super) struct Reader<'v> {
    pub(super) value: &'v Value,
    /// Bytes that elements of lists may still take.
    pub(super) room: &'v Cell<usize>,
}

impl<'v> Reader<'v> {
    #[cold]
    #[inline(never)]
    fn wrong(self, expected: &dyn serde::de::Expected) -> Error {
        let found = match self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(is) => Unexpected::Bool(*is),
            Value::Number(number) => unexpected(number),
            Value::String(text) => Unexpected::Str(text),
            Value::Array(_) => Unexpected::Seq,
            Value::Object(_) => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }

    fn text<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::String(text) => visitor.visit_borrowed_str(text),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn number<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Number(number) => visit(number, visitor),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn list<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Array(items) => visitor.visit_seq(Items { rest: items.iter(), room: self.room }),
            _ => Err(self.wrong(&visitor)),
        }
    }

    /// Reads a list, all elements of which must be consumed.
    fn tuple<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        let Value::Array(items) = self.value else { return Err(self.wrong(&visitor)) };
        let mut rest = Items { rest: items.iter(), room: self.room };
        let read = visitor.visit_seq(&mut rest)?;
        match rest.rest.len() {
            0 => Ok(read),
            _ => Err(Error::invalid_length(items.len(), &"fewer elements in array")),
        }
    }

    fn map<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(entries) => visitor.visit_map(Entries::of(entries, self.room)),
            _ => Err(self.wrong(&visitor)),
        }
    }
}

fn unexpected(number: &Number) -> Unexpected<'static> {
    match (number.as_u64(), number.as_i64()) {
        (Some(number), _) => Unexpected::Unsigned(number),
        (None, Some(number)) => Unexpected::Signed(number),
        (None, None) => Unexpected::Float(number.as_f64().unwrap_or_default()),
    }
}

fn visit<'v, V: Visitor<'v>>(number: &Number, visitor: V) -> Result<V::Value, Error> {
    match unexpected(number) {
        Unexpected::Unsigned(number) => visitor.visit_u64(number),
        Unexpected::Signed(number) => visitor.visit_i64(number),
        Unexpected::Float(number) => visitor.visit_f64(number),
        other => Err(Error::invalid_type(other, &visitor)),
    }
}

/// Defines several methods that read in the same way.
macro_rules! all {
    ($way:ident: $($kind:ident)*) => {
        $(fn $kind<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
            self.$way(visitor)
        })*
    };
}

impl<'v> Deserializer<'v> for Reader<'v> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(is) => visitor.visit_bool(*is),
            Value::Number(number) => visit(number, visitor),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(_) => self.tuple(visitor),
            Value::Object(_) => self.map(visitor),
        }
    }

    all! { number: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_u8 deserialize_u16
    deserialize_u32 deserialize_u64 deserialize_f32 deserialize_f64 }
    all! { text: deserialize_char deserialize_str deserialize_string deserialize_identifier }
    all! { list: deserialize_seq }
    all! { map: deserialize_map }

    fn deserialize_bool<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Bool(is) => visitor.visit_bool(*is),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_bytes<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_array() { self.tuple(visitor) } else { self.text(visitor) }
    }

    fn deserialize_byte_buf<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_unit() } else { Err(self.wrong(&visitor)) }
    }

    fn deserialize_unit_struct<V: Visitor<'v>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'v>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'v>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.tuple(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'v>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.tuple(visitor)
    }

    fn deserialize_struct<V: Visitor<'v>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if self.value.is_array() { self.tuple(visitor) } else { self.map(visitor) }
    }

    /// Kubernetes types have no enums; podkeeper's own enums contain no Kubernetes type.
    fn deserialize_enum<V: Visitor<'v>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.value.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'v>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

struct Items<'v> {
    rest: std::slice::Iter<'v, Value>,
    room: &'v Cell<usize>,
}

/// Takes the size of one element.
#[inline(never)]
fn take(room: &Cell<usize>, size: usize) -> Result<(), Error> {
    let left = room.get().checked_sub(size);
    room.set(left.unwrap_or(0));
    left.map(drop).ok_or_else(|| Error::custom(super::TOO_LARGE))
}

impl<'v> SeqAccess<'v> for Items<'v> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(value) = self.rest.next() else { return Ok(None) };
        take(self.room, size_of::<T::Value>())?;
        seed.deserialize(Reader { value, room: self.room }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

struct Entries<'v> {
    rest: serde_json::map::Iter<'v>,
    value: &'v Value,
    room: &'v Cell<usize>,
}

impl<'v> Entries<'v> {
    fn of(entries: &'v Map<String, Value>, room: &'v Cell<usize>) -> Entries<'v> {
        Entries { rest: entries.iter(), value: &Value::Null, room }
    }

    #[inline(never)]
    fn next(&mut self) -> Option<&'v str> {
        let (key, value) = self.rest.next()?;
        self.value = value;
        Some(key)
    }
}

impl<'v> MapAccess<'v> for Entries<'v> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.next().map(|key| seed.deserialize(BorrowedStrDeserializer::new(key))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'v>>(&mut self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(Reader { value: self.value, room: self.room })
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.rest.len())
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    fn as_serde_json<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let theirs = serde_json::from_value::<T>(value.clone()).map_err(|error| error.to_string());
        let ours = crate::base::json::read::<T>(value).map_err(|error| error.to_string());
        assert_eq!(ours, theirs, "{value}");
    }

    #[test]
    fn the_same_as_serde_json_and_in_its_words() {
        let spoiled = [
            json!(null),
            json!(true),
            json!(-1),
            json!(7),
            json!(1.5),
            json!(5_000_000_000_u64),
            json!(u64::MAX),
            json!("x"),
            json!(""),
            json!([]),
            json!([1]),
            json!(["a", "b"]),
            json!({}),
            json!({"a": "b"}),
            json!({"name": null, "x": [{}]}),
        ];
        for value in &spoiled {
            as_serde_json::<Pod>(value);
            as_serde_json::<Vec<String>>(value);
            as_serde_json::<(String, String)>(value);
            as_serde_json::<std::collections::BTreeMap<String, String>>(value);
            as_serde_json::<Option<i32>>(value);
            as_serde_json::<u16>(value);
            as_serde_json::<i64>(value);
            as_serde_json::<f64>(value);
            as_serde_json::<bool>(value);
            as_serde_json::<()>(value);
            as_serde_json::<Value>(value);
            for field in ["name", "ports", "env", "resources", "livenessProbe", "securityContext", "stdin"] {
                as_serde_json::<Container>(&json!({"name": "c", field: value}));
            }
            for field in
                ["containers", "volumes", "nodeSelector", "terminationGracePeriodSeconds", "hostNetwork"]
            {
                as_serde_json::<PodSpec>(&json!({ field: value }));
            }
            let probe = json!({"httpGet": {"port": value}, "periodSeconds": value, "x": value});
            as_serde_json::<Container>(&json!({"name": "c", "livenessProbe": probe}));
            as_serde_json::<Container>(&json!({"name": "c", "resources": {"limits": {"cpu": value}}}));
            as_serde_json::<Pod>(&json!({"metadata": {"creationTimestamp": value, "labels": {"a": value}}}));
        }
    }

    /// 285 KB of empty volumes took 540 MB.
    #[test]
    fn a_list_takes_no_more_memory_than_it_may() {
        let volumes = |count: usize| json!({"containers": [], "volumes": vec![json!({}); count]});
        let most = crate::base::limits::DECODED_OBJECT / size_of::<k8s_openapi::api::core::v1::Volume>();
        let read =
            |value: &Value| crate::base::json::read::<PodSpec>(value).map_err(|error| error.to_string());
        // An empty one has no name, and is read all the same.
        assert_eq!(read(&volumes(most)).unwrap().volumes.map(|all| all.len()), Some(most));
        assert_eq!(read(&volumes(most + 1)), Err(crate::base::json::TOO_LARGE.to_owned()));
        let env = json!({"name": "c", "env": vec![json!({"name": "a"}); 100_000]});
        assert!(read(&json!({"containers": [env]})).is_err(), "lists in lists count, too");
        let room = std::cell::Cell::new(usize::MAX);
        assert!(crate::base::json::read_within::<PodSpec>(&volumes(most + 1), &room).is_ok());
    }

    proptest! {
        #[test]
        fn any_value_is_the_same(leaves in proptest::collection::vec(any::<i64>(), 0..4), text in ".{0,8}", pick in 0_usize..6) {
            let field = ["args", "command", "name", "image", "tty", "env"].get(pick).copied().unwrap_or("name");
            as_serde_json::<Value>(&json!({"a": leaves, "b": [text, null]}));
            as_serde_json::<Container>(&json!({"name": text, field: leaves}));
            as_serde_json::<Container>(&json!({"name": text, field: [text]}));
        }
    }
}
