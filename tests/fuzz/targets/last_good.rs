//! Remembered content of a source: bytes from an untrusted disk. Sealed content is read back
//! unchanged, one changed bit is noticed, and any other bytes are refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::pod::Source;
use podkeeper::testing::source::last_good::{Key, parse};

fuzz_target!(|bytes: &[u8]| {
    let key = Key::new(&[7; 32]).expect("a key");
    let [place, bit, rest @ ..] = bytes else { return };
    // As a file: the seal refuses the fuzzer's bytes.
    let name = key.name("/m/a.yaml", 1);
    assert!(key.open(Source::File, &name, rest).is_err());
    // Inside the seal.
    let Some(content) = parse(rest) else { return };
    let (name, file) = key.seal(Source::Http, &content, [3; 12]).expect("it can be sealed");
    assert_eq!(key.open(Source::Http, &name, &file).as_ref(), Ok(&content));
    assert!(key.open(Source::File, &name, &file).is_err(), "another source's");
    let mut flipped = file.clone();
    let at = usize::from(*place) * 7 % flipped.len();
    flipped[at] ^= 1 << (bit % 8);
    assert!(key.open(Source::Http, &name, &flipped).is_err(), "one bit");
    assert!(key.open(Source::Http, &name, &file[..file.len() - 1 - at % 32]).is_err(), "cut short");
});
