//! What comes with joining a cluster: a kubeconfig, and the events of a watch, which the network splits as it likes.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::api_client::{kubeconfig, watch};

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    if choice % 2 == 0 {
        let _ = kubeconfig::parse(bytes, Path::new("/etc/podkeeper/kubeconfig"));
        return;
    }
    let whole = format!("{:?}", watch::events(&[bytes]));
    let (first, second) = bytes.split_at(bytes.len() * usize::from(*choice) / 255);
    assert_eq!(format!("{:?}", watch::events(&[first, second])), whole);
});
