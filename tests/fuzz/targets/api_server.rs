//! Input from a cluster: a kubeconfig, a cluster's published data, certificates and the results of requests for them,
//! and the events of a watch, split at random like on a network.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::api_client::{kubeconfig, watch};
use podkeeper::testing::certificates::files::Held;
use podkeeper::testing::certificates::{discovery, request};

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    match choice % 8 {
        0 => {
            let _ = kubeconfig::parse(bytes, Path::new("/etc/podkeeper/kubeconfig"));
            return;
        }
        2 => {
            let _ = Held::read(bytes);
            return;
        }
        4 => {
            if let Ok(object) = serde_json::from_slice(bytes) {
                let _ = request::verdict(&object);
            }
            return;
        }
        6 => {
            let token = discovery::Token::parse("07401b.f395accd246ae52d").unwrap();
            if let Ok(object) = serde_json::from_slice(bytes) {
                assert!(discovery::checked(&object, &token, &[]).is_err(), "nobody has signed it");
            }
            return;
        }
        _ => {}
    }
    let whole = format!("{:?}", watch::events(&[bytes]));
    let (first, second) = bytes.split_at(bytes.len() * usize::from(*choice) / 255);
    assert_eq!(format!("{:?}", watch::events(&[first, second])), whole);
});
