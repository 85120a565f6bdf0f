use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{bounded, unbounded};

use super::url::ManifestUrl;
use super::{HttpSource, Settings};
use crate::base::testing::scratch;
use crate::pod::Source;
use crate::source::accept::Acceptor;
use crate::source::last_good::LastGood;
use crate::source::{FromSource, SourceUpdate};
use crate::status::task::{Pulses, Task};

#[test]
fn the_thread_is_watched_and_rests_between_two_polls() {
    let ((say, said), (go_on, gate)) = (unbounded(), bounded::<()>(0));
    let sink = move |from: FromSource| {
        say.send(from.update).unwrap();
        _ = gate.recv();
        true
    };
    // No server listens there.
    let settings = Settings::new(ManifestUrl::parse("http://127.0.0.1:1/").unwrap());
    let root = scratch("http-watched");
    let (store, pulses) = (LastGood::new(&root, None, Source::Http), Pulses::default());
    let acceptor = Acceptor::new(Source::Http, "n".to_owned());
    let source = HttpSource::start(settings, acceptor, store, Box::new(sink), pulses.clone()).unwrap();
    let tasks = || pulses.busy().into_iter().map(|busy| busy.task).collect::<Vec<_>>();
    assert!(matches!(said.recv(), Ok(SourceUpdate::Failed(_))));
    assert_eq!(tasks(), [Task::Source(Source::Http)], "nobody takes what it says");
    drop(go_on);
    let end = Instant::now() + Duration::from_secs(60);
    while !tasks().is_empty() {
        assert!(Instant::now() < end, "it waits for the next poll");
        thread::sleep(Duration::from_millis(5));
    }
    drop(source);
    std::fs::remove_dir_all(root).unwrap();
}
