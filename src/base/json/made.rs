//! JSON values as they are written in code: the macro `json!`.
//!
//! Never here: values from outside.

use serde::Serialize;
use serde_json::{Map, Value};

/// A JSON value written as JSON, with expressions as values. It takes what the macro of `serde_json` takes, but each key
/// must be one token or in parentheses. That macro makes each key's text and drops what the key had before at each place,
/// some 60 bytes of machine code; here both are in [`put`], which saves the program 56 KiB.
macro_rules! json_value {
    (@object $object:ident $(,)?) => {};
    (@object $object:ident $key:tt : null $(, $($rest:tt)*)?) => {
        $crate::base::json::put(&mut $object, $key, serde_json::Value::Null);
        $crate::base::json::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::base::json::put(&mut $object, $key, $crate::base::json::json!({ $($inner)* }));
        $crate::base::json::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::base::json::put(&mut $object, $key, $crate::base::json::json!([ $($inner)* ]));
        $crate::base::json::json!(@object $object $($($rest)*)?);
    };
    (@object $object:ident $key:tt : $value:expr $(, $($rest:tt)*)?) => {
        $crate::base::json::put(&mut $object, $key, $crate::base::json::value(&$value));
        $crate::base::json::json!(@object $object $($($rest)*)?);
    };
    (@array $array:ident $(,)?) => {};
    (@array $array:ident null $(, $($rest:tt)*)?) => {
        $crate::base::json::push(&mut $array, serde_json::Value::Null);
        $crate::base::json::json!(@array $array $($($rest)*)?);
    };
    (@array $array:ident { $($inner:tt)* } $(, $($rest:tt)*)?) => {
        $crate::base::json::push(&mut $array, $crate::base::json::json!({ $($inner)* }));
        $crate::base::json::json!(@array $array $($($rest)*)?);
    };
    (@array $array:ident [ $($inner:tt)* ] $(, $($rest:tt)*)?) => {
        $crate::base::json::push(&mut $array, $crate::base::json::json!([ $($inner)* ]));
        $crate::base::json::json!(@array $array $($($rest)*)?);
    };
    (@array $array:ident $value:expr $(, $($rest:tt)*)?) => {
        $crate::base::json::push(&mut $array, $crate::base::json::value(&$value));
        $crate::base::json::json!(@array $array $($($rest)*)?);
    };
    (null) => { serde_json::Value::Null };
    ({}) => { serde_json::Value::Object(serde_json::Map::new()) };
    ([]) => { serde_json::Value::Array(Vec::new()) };
    ({ $($inner:tt)+ }) => {{
        let mut object = serde_json::Map::new();
        $crate::base::json::json!(@object object $($inner)+);
        serde_json::Value::Object(object)
    }};
    ([ $($inner:tt)+ ]) => {{
        let mut array = Vec::new();
        $crate::base::json::json!(@array array $($inner)+);
        serde_json::Value::Array(array)
    }};
    ($value:expr) => { $crate::base::json::value(&$value) };
}

pub(crate) use json_value as json;

/// Puts an entry into an object; the last one of equal keys stays.
#[inline(never)]
pub fn put(object: &mut Map<String, Value>, key: &str, value: Value) {
    object.insert(key.to_owned(), value);
}

/// Appends an element to an array.
#[inline(never)]
pub fn push(array: &mut Vec<Value>, value: Value) {
    array.push(value);
}

/// The value in JSON. No type of podkeeper's fails here; what does is null.
#[inline(never)]
pub fn value<T: Serialize + ?Sized>(of: &T) -> Value {
    serde_json::to_value(of).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_means_what_the_macro_of_serde_json_means() {
        const NAME: &str = "named";
        let (text, list, none) = ("t".to_owned(), vec![1, 2], None::<u8>);
        macro_rules! both {
            ($($json:tt)+) => {
                assert_eq!(super::json!($($json)+), serde_json::json!($($json)+))
            };
        }
        both!(null);
        both!(true);
        both!({});
        both!([]);
        both!(list.len() + 1);
        both!([null, {"a": 1}, [2, [3,],], list, list.len(), none, "x",]);
        both!({"n": null, "o": {"p": {}, "q": {"r": []},}, "l": [{"m": -1.5}, []], NAME: text, (text.as_str()): &list,
            "e": list.iter().sum::<i32>(), "f": if list.is_empty() { 1 } else { 2 }, "z": none,});
        both!({"same": 1, "same": 2});
    }
}
