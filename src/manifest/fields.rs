//! The names of the API's fields, as its types have them: the types are asked by being read from nothing. Pure.

use std::cell::Cell;

use k8s_openapi::api::core::v1::Pod;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
};
use serde::{Deserialize as _, forward_to_deserialize_any};

use super::path::{Path, Step};

/// The names of a type.
type Names = &'static [&'static str];

/// The fields that stand at a path of a pod; none where the pod has no type with fields.
pub(crate) fn at(path: &Path<'_>) -> Names {
    let mut steps = Vec::new();
    let mut at = Some(path);
    while let Some(path) = at {
        match path.step() {
            Step::Root => {}
            Step::Index(_) => steps.push(""),
            Step::Field(name) | Step::Key(name) => steps.push(name),
        }
        at = path.parent();
    }
    let found = Cell::new(&[][..]);
    // It ends with an error always: there is nothing to read.
    let _none = Pod::deserialize(Walk { steps: &steps, found: &found });
    found.get()
}

/// Reads along the steps, the last one first, and notes the fields of the type behind them.
#[derive(Clone, Copy)]
struct Walk<'a> {
    steps: &'a [&'a str],
    found: &'a Cell<Names>,
}

impl<'a> Walk<'a> {
    fn next(self) -> Option<(&'a str, Walk<'a>)> {
        let (step, steps) = self.steps.split_last()?;
        Some((step, Walk { steps, ..self }))
    }

    fn one(self) -> Result<One<'a>, Error> {
        let (step, rest) = self.next().ok_or_else(|| Error::custom("no step"))?;
        Ok(One { step, rest: Some(rest) })
    }
}

/// A map or a list of one thing.
struct One<'a> {
    step: &'a str,
    rest: Option<Walk<'a>>,
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.rest.take().map(|rest| seed.deserialize(rest)).transpose()
    }
}

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let key: StrDeserializer<'_, Error> = self.step.into_deserializer();
        self.rest.map(|_| seed.deserialize(key)).transpose()
    }
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.rest.take().ok_or_else(|| Error::custom("no value"))?)
    }
}

impl<'de> Deserializer<'de> for Walk<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &str,
        fields: Names,
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.one() {
            Ok(one) => visitor.visit_map(one),
            Err(end) => {
                self.found.set(fields);
                Err(end)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(self.one()?)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self.one()?)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("no type with fields"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple
        tuple_struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_types_of_the_api_tell_their_fields() {
        let root = Path::ROOT;
        let spec = root.field("spec");
        assert!(at(&root).contains(&"metadata"));
        assert!(at(&spec).contains(&"hostNetwork"));
        let containers = spec.field("containers");
        let container = containers.index(3);
        assert!(at(&container).contains(&"image"));
        let ports = container.field("ports");
        assert!(at(&ports.index(0)).contains(&"hostPort"));
        assert_eq!(at(&ports), [""; 0], "a list");
        for (none, names) in [("typo", at(&spec.field("typo"))), ("image", at(&container.field("image")))] {
            assert_eq!(names, [""; 0], "{none}");
        }
    }
}
