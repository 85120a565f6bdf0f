//! Answers that are corrupted on purpose.

use super::*;

/// A megabyte of spaces in less than a thousand bytes.
pub(super) fn gzip_bomb() -> Vec<u8> {
    let mut gzip =
        Command::new("gzip").args(["-9", "-c"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The output fits into the pipe.
    gzip.stdin.take().unwrap().write_all(&[b' '; 900_000]).unwrap();
    let packed = gzip.wait_with_output().unwrap().stdout;
    assert!(packed.starts_with(&[0x1f, 0x8b]) && packed.len() < 1000, "{}", packed.len());
    packed
}

/// However an answer of 100 MB announces its length, no more of it is read than the buffers between both sides
/// hold.
#[test]
fn an_answer_of_100_megabytes_is_given_up_at_once() {
    const WHOLE: usize = 100_000_000;
    let server = Server::start();
    server.send(ok("", POD_A));
    let rig = Rig::start(Settings { max_bytes: 1000, ..settings(&server.url()) });
    assert_eq!(rig.next(), "full a");
    let (tell, sent) = unbounded();
    for framing in [format!("Content-Length: {WHOLE}"), "Transfer-Encoding: chunked".to_owned()] {
        let tell = tell.clone();
        server.answer(move |_, pipe| {
            write!(pipe, "HTTP/1.1 200 OK\r\n{framing}\r\n\r\n")?;
            let chunked = framing.starts_with("Transfer");
            let piece = vec![b'#'; 0x1_0000];
            let mut count = 0;
            while count < WHOLE {
                let head = if chunked { "10000\r\n" } else { "" };
                let tail = if chunked { "\r\n" } else { "" };
                let whole = [head.as_bytes(), &piece, tail.as_bytes()].concat();
                if pipe.write_all(&whole).is_err() {
                    break;
                }
                count += piece.len();
            }
            tell.send(count).unwrap();
            Ok(())
        });
        let told = rig.poll();
        assert!(told.starts_with("failed ") && told.contains("larger than 1000 bytes"), "{told}");
        let count = sent.recv_timeout(PATIENCE).unwrap();
        assert!(count < WHOLE / 5, "{count} bytes were taken");
        // A failure that lasts is reported once.
        server.send(ok("", POD_A));
        assert_eq!(rig.poll(), "same");
    }
}

/// Answers with a few bytes changed, removed or inserted, by a seed.
fn spoiled(seed: u64) -> Vec<u8> {
    const WHOLE: &[&str] = &[
        "HTTP/1.1 200 OK\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\nT: 1\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 302 Found\r\nLocation: /x\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nxx",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    ];
    const PIECES: &[&[u8]] = &[
        b"\r\n",
        b"\n",
        b"\r",
        b":",
        b" ",
        b"\0",
        b"\xff",
        b"0",
        b"ffffffffffffffff",
        b"-1",
        b"101",
        b"chunked",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let mut bytes = WHOLE[next(WHOLE.len())].as_bytes().to_vec();
    for _ in 0..=next(3) {
        let at = next(bytes.len());
        let end = bytes.len().min(at + next(4));
        match next(3) {
            0 => _ = bytes.splice(at..end, PIECES[next(PIECES.len())].iter().copied()),
            1 => bytes.truncate(at.max(1)),
            _ => bytes[at] = u8::try_from(next(256)).unwrap(),
        }
    }
    bytes
}

#[test]
fn no_answer_breaks_the_source() {
    let server = Server::start();
    server.send(ok("", POD_A));
    let rig = Rig::start(hasty(&server.url()));
    assert_eq!(rig.next(), "full a");
    for seed in 0..400 {
        server.send(spoiled(seed));
        let seen = server.heads().len();
        rig.rescan();
        while server.heads().len() == seen {
            std::thread::yield_now();
        }
    }
    server.send(ok("", POD_A));
    // All updates in between, up to the good answer.
    let mut told = vec![rig.poll()];
    while told.last().is_some_and(|told| told != "same") {
        told.push(rig.next());
    }
    assert!(told.len() > 5, "{told:?}");
    assert!(
        !told.iter().any(|told| told.contains("the poll ended early") || told.starts_with("full")),
        "{told:?}"
    );
}
