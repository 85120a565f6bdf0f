//! CNI plugins: any text of a configuration, a plugin or a record on the disk is read correctly, or refused with a
//! reason.
#![no_main]

use std::net::IpAddr;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::cni::answer::{addresses, failure, result, versions};
use podkeeper::testing::cni::call::input;
use podkeeper::testing::cni::conf::parse;
use podkeeper::testing::cni::record::Record;

fn is_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains(['/', '\0'])
}

fn conf(bytes: &[u8], is_list: bool) {
    match parse(bytes, is_list) {
        Err(why) => assert!(!why.is_empty()),
        Ok(list) => {
            assert!(is_name(&list.name) && !list.plugins.is_empty());
            let again = parse(&list.text, true).expect("what is kept of a configuration reads as a list");
            assert_eq!((&again.name, again.version, &again.plugins), (&list.name, list.version, &list.plugins));
            for plugin in &list.plugins {
                assert!(is_name(&plugin.kind));
                let given = input(&list, plugin, &serde_json::Map::new(), None);
                let given: serde_json::Value = serde_json::from_slice(&given).expect("JSON");
                assert_eq!(given["name"], list.name.as_str());
                assert!(given.get("prevResult").is_none());
            }
        }
    }
}

fn answer(bytes: &[u8]) {
    if let Ok(said) = result(bytes) {
        match addresses(&said) {
            Err(why) => assert!(!why.is_empty()),
            Ok(all) => {
                let read: Vec<IpAddr> = all.iter().map(|ip| ip.parse().expect("an address")).collect();
                assert!(matches!(read.as_slice(), [_] | [IpAddr::V4(_), IpAddr::V6(_)]), "{read:?}");
            }
        }
    }
    for text in [failure(bytes, b"", "exit status: 1").text, failure(b"", bytes, "exit status: 1").text] {
        assert!(!text.is_empty() && text.len() < 16 * 1024 && !text.contains(char::is_control));
    }
    drop(versions(bytes));
}

fuzz_target!(|bytes: &[u8]| {
    let Some((door, bytes)) = bytes.split_first() else { return };
    match door % 4 {
        0 => conf(bytes, true),
        1 => conf(bytes, false),
        2 => answer(bytes),
        _ => {
            if let Some(record) = Record::decode(bytes) {
                let again = Record::decode(&record.encode());
                assert_eq!(again.as_ref(), Some(&record));
                assert!(is_name(&record.list.name));
            }
        }
    }
});
