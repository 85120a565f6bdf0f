//! Bodies, split over reads in all ways.

use proptest::prelude::*;

use super::*;

fn read(framing: Framing, parts: &[&[u8]]) -> Result<(Vec<u8>, bool, usize), Broken> {
    let mut body = Body::new(framing, u64::MAX);
    let (mut out, mut taken) = (Vec::new(), 0);
    for part in parts {
        let mut rest = *part;
        body.feed(&mut rest, &mut out)?;
        taken += part.len() - rest.len();
    }
    Ok((out, body.is_done(), taken))
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
    let trailer = [b"0\r\n".to_vec(), b"a: b\r\n".repeat(limits::HTTP_TRAILERS)].concat();
    let wrong: &[(&[u8], Broken)] = &[
        (b"x\r\n", Broken::ChunkSize),
        (b"\r\n", Broken::ChunkSize),
        (b"-1\r\n", Broken::ChunkSize),
        (b"+1\r\na", Broken::ChunkSize),
        (b"1\r\nab\r\n", Broken::ChunkEnd),
        (b"1\r\na\r\r\n", Broken::ChunkEnd),
        (b"fffffffffffffffff\r\n", Broken::ChunkSize),
        (&long, Broken::ChunkLine),
        (&trailer, Broken::Trailers),
    ];
    for (bytes, why) in wrong {
        assert_eq!(read(Framing::Chunked, &[bytes]), Err(*why), "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_body_has_a_bound_unless_its_length_is_known() {
    let fed = |framing: Framing, bytes: &[u8]| {
        let mut rest = bytes;
        Body::new(framing, 3).feed(&mut rest, &mut Vec::new())
    };
    assert_eq!(fed(Framing::UntilClose, b"abc"), Ok(()));
    assert_eq!(fed(Framing::UntilClose, b"abcd"), Err(Broken::TooLong));
    assert_eq!(fed(Framing::Chunked, b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"), Ok(()));
    assert_eq!(fed(Framing::Chunked, b"1\r\na\r\n3\r\n"), Err(Broken::TooLong));
    // The caller has checked the length already.
    assert_eq!(fed(Framing::Length(9), b"123456789"), Ok(()));
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
