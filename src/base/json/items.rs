//! A JSON list, alone or in an object, one element at a time: all elements together, as values, take many times the memory
//! of their text, and the heap keeps it.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// Gives each element of an array to the function. `null` is an empty array.
pub struct Each<'a>(pub &'a mut dyn FnMut(Value));

impl<'de> Visitor<'de> for Each<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(value) = seq.next_element()? {
            (self.0)(value);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Each<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Reads an object with `items`, and gives each of them to `read`. Returns the object's other members.
///
/// # Errors
/// It is no such thing. Items before the error have been read.
pub fn of_list(bytes: &[u8], read: &mut dyn FnMut(Value)) -> Result<Vec<(String, Value)>, serde_json::Error> {
    let mut others = Vec::new();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    json.deserialize_any(List { read, others: &mut others })?;
    json.end()?;
    Ok(others)
}

struct List<'a> {
    read: &'a mut dyn FnMut(Value),
    others: &'a mut Vec<(String, Value)>,
}

impl<'de> Visitor<'de> for List<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list object")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "items" => map.next_value_seed(Each(&mut *self.read))?,
                _ => self.others.push((key, map.next_value()?)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn items_are_read_one_by_one_and_the_rest_is_returned() {
        let read = |text: &str| {
            let mut items = Vec::new();
            let others = of_list(text.as_bytes(), &mut |item| items.push(item));
            (others.map_err(|error| error.to_string()), items)
        };
        let (others, items) = read(r#"{"kind":"List","items":[1,{"a":[2]}],"node":"n"}"#);
        assert_eq!(others, Ok(vec![("kind".to_owned(), json!("List")), ("node".to_owned(), json!("n"))]));
        assert_eq!(items, [json!(1), json!({"a": [2]})]);
        assert_eq!(read(r#"{"items":null}"#), (Ok(Vec::new()), Vec::new()));
        for wrong in ["", "[]", "7", r#"{"items":{}}"#, r#"{"items":[1,2}"#, r#"{"items":[]} x"#] {
            assert!(read(wrong).0.is_err(), "{wrong}");
        }
    }
}
