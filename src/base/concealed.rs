//! Bytes and texts that may hold a Secret's value: formatting them prints their length only.
//!
//! The type keeps them out of logs and panics, whatever `derive(Debug)` is around it.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A value that is used like `T` and is never printed.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Concealed<T>(pub T);

impl<T: AsRef<[u8]>> fmt::Debug for Concealed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes>", self.0.as_ref().len())
    }
}

impl<T> Deref for Concealed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Concealed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for Concealed<T> {
    fn from(of: T) -> Concealed<T> {
        Concealed(of)
    }
}

impl From<&str> for Concealed<Vec<u8>> {
    fn from(of: &str) -> Concealed<Vec<u8>> {
        Concealed(of.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;
    use crate::pod::Source;
    use crate::runtime::client::Client;
    use crate::runtime::exchange::{Answer, Exchange};
    use crate::runtime::http1::Head;
    use crate::source::accept::Acceptor;
    use crate::source::disk::{Disk as _, RealDisk};
    use crate::source::entry::Look;
    use crate::source::http::fetch::{Fetched, Validators};
    use crate::source::http::state;
    use crate::source::last_good::replay::replay;
    use crate::source::last_good::{LastGood, Remembered};
    use crate::source::testing::TempDir;

    const CANARY: &str = "canary-0123456789-abcdefghijklmn";

    /// Whether `text` contains the canary as text, as the numbers of its bytes, or in base64.
    fn holds(text: &str) -> bool {
        let digits = format!("{:?}", &CANARY.as_bytes()[..8]);
        let base64 = "Y2FuYXJ5LTAxMjM0NTY3ODk";
        [CANARY, digits.trim_matches(['[', ']']), base64].iter().any(|word| text.contains(word))
    }

    #[test]
    fn nothing_that_can_hold_a_secret_shows_it_when_it_is_formatted() {
        let text = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, stringData: {{password: {CANARY}}}}}"
        );
        assert!(holds(&text));
        let bytes = || Concealed(text.clone().into_bytes());
        let mut shown: Vec<(&str, String)> = Vec::new();
        let temp = TempDir::new();
        let path = temp.path("s.yaml");
        std::fs::write(&path, &text).unwrap();
        shown.push(("a reading", format!("{:?}", RealDisk.read(&path, 4096).unwrap())));
        shown.push(("a look", format!("{:?}", Look { content: bytes(), signature: None, stamps: None })));
        let remembered =
            || Remembered { path: "/m/s.yaml".into(), version: 1, bytes: bytes(), ..Remembered::default() };
        shown.push(("remembered", format!("{:?}", remembered())));
        let mut store = LastGood::new(&temp.path(""), None, Source::File);
        store.load();
        store.remember(remembered(), &[1]);
        shown.push(("the store", format!("{store:?}")));
        let acceptor = Acceptor::new(Source::File, "node1".to_owned());
        shown.push(("replayed", format!("{:?}", replay(vec![remembered()], &acceptor))));
        let validators = Validators::default;
        let content = || state::Content { bytes: bytes(), signature: None, validators: validators() };
        shown.push(("fetched", format!("{:?}", Fetched::Body { bytes: bytes(), validators: validators() })));
        let decoded = || acceptor.accept("/m/s.yaml", text.as_bytes(), None, &Default::default());
        assert!(decoded().is_good());
        shown.push(("decoded", format!("{:?}", decoded())));
        let digest = content().digest();
        let answer = || state::Answer::Content { digest, content: content(), decoded: Some(decoded()) };
        shown.push(("an answer of the URL", format!("{:?}", answer())));
        let mut url = state::State::default();
        let taken = url.take(answer(), "https://x");
        shown.push(("what is believed of the URL", format!("{url:?} {taken:?}")));
        let head = Head { status: 200, keep_alive: true, ..Head::default() };
        shown.push(("an answer of Docker", format!("{:?}", Answer { head, body: bytes(), list: None })));
        let Ok(tree) = manifest::yaml::documents(&text) else { panic!("not YAML") };
        shown.push(("a tree", format!("{tree:?}")));
        let socket = temp.path("docker.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let mut exchange = Exchange::begin(&Client::new(&socket), None).unwrap();
        exchange.push(text.as_bytes());
        shown.push(("an exchange", format!("{exchange:?}")));
        for (what, text) in shown {
            assert!(!holds(&text), "{what}: {text}");
        }
    }
}
