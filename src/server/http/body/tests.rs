//! Bodies of requests, however they are cut.

use proptest::prelude::*;

use super::*;

fn read(framing: Framing, parts: &[&[u8]]) -> Result<(Vec<u8>, bool, usize), u16> {
    let mut reader = Reader::new(framing);
    let (mut out, mut taken) = (Vec::new(), 0);
    for part in parts {
        taken += reader.feed(part, &mut out).map_err(|refused| refused.status)?;
    }
    Ok((out, reader.is_done(), taken))
}

#[test]
fn a_body_ends_where_it_says() {
    assert_eq!(read(Framing::Length(0), &[b"GET"]), Ok((vec![], true, 0)), "the next request is left");
    assert_eq!(read(Framing::Length(3), &[b"ab"]), Ok((b"ab".to_vec(), false, 2)));
    assert_eq!(read(Framing::Length(3), &[b"abcd"]), Ok((b"abc".to_vec(), true, 3)));
    let chunked = b"3;name=x\r\nabc\r\n0A\r\n0123456789\r\n0\r\nTrailer: a\r\n\r\nGET";
    assert_eq!(read(Framing::Chunked, &[chunked]), Ok((b"abc0123456789".to_vec(), true, chunked.len() - 3)));
    assert!(!read(Framing::Chunked, &[b"0\r\n"]).unwrap().1);
}

#[test]
fn what_is_not_chunked_is_refused() {
    let long = [b"1".repeat(limits::HTTP_CHUNK_LINE + 1), b"\r\n".to_vec()].concat();
    let trailer = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(limits::HTTP_CHUNK_LINE)].concat();
    let wrong: &[&[u8]] = &[
        b"x\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+1\r\na",
        b"1\r\nab\r\n",
        b"1\r\na\r\r\n",
        b"fffffffffffffffff\r\n",
        &long,
        &trailer,
    ];
    for bytes in wrong {
        assert_eq!(read(Framing::Chunked, &[bytes]), Err(400), "{}", String::from_utf8_lossy(bytes));
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
        cut in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let mut bytes = Vec::new();
        for chunk in &chunks {
            bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        let mut at: Vec<usize> = cut.iter().map(|i| i.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let parts: Vec<&[u8]> = at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(read(Framing::Chunked, &parts), Ok((chunks.concat(), true, bytes.len())));
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(Framing::Chunked, &[&bytes]);
    }
}
