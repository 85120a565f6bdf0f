//! Records of images: entries of a file with a correct checksum and any other content. Records can be written and
//! read back unchanged; uptimes of another boot begin again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::garbage::records::Records;
use serde_json::{Map, Value};

fuzz_target!(|bytes: &[u8]| {
    let Ok(entries) = serde_json::from_slice::<Map<String, Value>>(bytes) else { return };
    let Ok(records) = Records::parse(entries, "b") else { return };
    let again = Records::parse(records.entries(), "b").expect("it was written by podkeeper");
    let (read, reread) = (records.entries(), again.entries());
    assert_eq!(read["boot"]["last"], reread["boot"]["last"]);
    assert_eq!(read, reread);
    let other = Records::parse(records.entries(), "c").expect("another boot");
    for (id, value) in other.entries().into_iter().filter(|(id, _)| id != "boot") {
        assert_eq!((&value[3], &value[4]), (&Value::from(0), &Value::from(0)), "{id}");
        let record = other.get(&id).expect("it is known");
        assert!(record.seen_up.is_zero() && record.unused_up.is_zero());
    }
});
