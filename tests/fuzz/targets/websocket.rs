//! WebSocket from a client of exec and port-forward. The first byte chooses the protocol and how the bytes are split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podkeeper::testing::server::stream::command::{Channel, Streams, Wanted};
use podkeeper::testing::server::stream::negotiate::{Command, Forward};
use podkeeper::testing::server::stream::ports::{News, Pairs};
use podkeeper::testing::server::stream::websocket::Form;

fuzz_target!(|bytes: &[u8]| {
    let [choice, bytes @ ..] = bytes else { return };
    let size = usize::from(choice >> 3) * 7 + 1;
    let form = if choice & 2 == 0 { Form::Raw } else { Form::Base64 };
    if choice & 1 == 0 {
        let wanted = Wanted { stdin: true, stdout: true, stderr: true, tty: false };
        let version = if choice & 4 == 0 { 4 } else { 5 };
        let mut streams = Streams::new(Command::WebSocket(version, form), wanted);
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
        let mut pairs = Pairs::new(Forward::WebSocket(form), &[80, 443]);
        for piece in bytes.chunks(size) {
            pairs.receive(piece);
            loop {
                match pairs.news() {
                    Ok(Some(News::Data { pair, bytes })) => pairs.write(pair, &bytes),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
        }
        pairs.end();
    }
});
