//! SPDY from a client of exec and port-forward. The first byte chooses the command and how the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::server::stream::command::{Channel, Streams, Wanted};
use podkeeper::testing::server::stream::negotiate::{Command, Forward};
use podkeeper::testing::server::stream::ports::{News, Pairs};

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    let size = usize::from(choice >> 3) * 7 + 1;
    if choice & 1 == 0 {
        let wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: choice & 2 != 0 };
        let mut streams = Streams::new(Command::Spdy(4), wanted);
        for piece in bytes.chunks(size) {
            streams.receive(piece);
            loop {
                match streams.news() {
                    Ok(Some(_)) => streams.write(Channel::Stdout, piece),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
    } else {
        let mut pairs = Pairs::new(if choice & 2 == 0 { Forward::Spdy } else { Forward::Tunnel }, &[]);
        for piece in bytes.chunks(size) {
            pairs.receive(piece);
            loop {
                match pairs.news() {
                    Ok(Some(News::Data { pair, bytes })) => {
                        pairs.taken(pair, bytes.len());
                        pairs.write(pair, &bytes);
                    }
                    Ok(Some(News::Ended { pair } | News::Reset { pair })) => pairs.close(pair, Some("it ended")),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
        pairs.look();
        pairs.look();
        pairs.end();
    }
});
