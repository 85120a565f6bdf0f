//! The examples of RFC 7541 appendix C, and blocks that violate the RFC.

use proptest::prelude::*;

use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let hex: String = hex.split_whitespace().collect();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn read(decoder: &mut Decoder, hex: &str) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    decoder.read(&bytes(hex)).unwrap().into_iter().map(|(n, v)| (text(n), text(v))).collect()
}

fn check(decoder: &mut Decoder, hex: &str, expected: &[(&str, &str)]) {
    let got = read(decoder, hex);
    let got: Vec<(&str, &str)> = got.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(got, expected);
}

#[test]
fn requests_with_huffman_c4() {
    let mut d = Decoder::default();
    let same = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")];
    check(&mut d, "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", &same);
    let mut second = same.to_vec();
    second.push(("cache-control", "no-cache"));
    check(&mut d, "8286 84be 5886 a8eb 1064 9cbf", &second);
    check(
        &mut d,
        "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        &[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ],
    );
}

#[test]
fn responses_that_evict_c6() {
    // The table holds 256 bytes in this example.
    let mut d = Decoder { capacity: Some(256), ..Decoder::default() };
    check(
        &mut d,
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
         1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
        &[
            (":status", "302"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
    );
    check(
        &mut d,
        "4883 640e ffc1 c0bf",
        &[
            (":status", "307"),
            ("cache-control", "private"),
            ("date", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("location", "https://www.example.com"),
        ],
    );
    assert_eq!(d.size, 222);
}

#[test]
fn what_is_written_can_be_read() {
    let mut block = Vec::new();
    let long = "x".repeat(1000);
    for (name, value) in [(":path", "/grpc.health.v1.Health/Check"), ("te", ""), ("long", &long)] {
        write(name, value, &mut block);
    }
    let got = Decoder::default().read(&block).unwrap();
    assert_eq!(got[0], (b":path".to_vec(), b"/grpc.health.v1.Health/Check".to_vec()));
    assert_eq!((got[1].1.len(), got[2].1.len()), (0, 1000));
}

#[test]
fn broken_blocks() {
    for hex in [
        "80",                      // index 0
        "be",                      // beyond the table
        "ff ff ff ff ff 7f",       // an index without end
        "00 05 61",                // a string that is cut
        "00 01 61 81 00",          // huffman padding that is not ones
        "00 01 61 84 ff ff ff ff", // the end symbol
        "3f e2 1f",                // a table larger than we offer
    ] {
        assert_eq!(Decoder::default().read(&bytes(hex)), Err(BadBlock), "{hex}");
    }
    let bomb: Vec<u8> = {
        // One long entry, and many references to it.
        let mut block = vec![0x40, 1, b'a', 0x7f, 0x80, 0x1d];
        block.extend(vec![b'x'; 127 + 128 * 29]);
        block.extend(vec![0xbe; 1000]);
        block
    };
    assert_eq!(Decoder::default().read(&bomb), Err(BadBlock));
}

proptest! {
    #[test]
    fn never_panics(block in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut decoder = Decoder::default();
        _ = decoder.read(&block);
        prop_assert!(decoder.size <= TABLE);
    }
}
