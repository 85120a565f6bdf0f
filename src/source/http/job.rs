//! One poll of the URL and the judgement of its answer: the work of a thread that ends with it.
//!
//! Never here: the time of a poll; which answer is believed.

use std::io;

use super::Settings;
use super::fetch::{self, Fetched, Server, Validators};
use super::state::{Answer, Content, Digest};
use crate::base::dial::Names;
use crate::base::handover::{Taker, handover};
use crate::base::{limits, thread};
use crate::manifest::edition::Known;
use crate::source::accept::Acceptor;
use crate::source::last_good::Remembered;
use crate::source::last_good::replay::{Replayed, replay};

/// Runs a function in a thread of its own.
pub(super) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Taker<T>> {
    let (out, done) = handover();
    // The result is dropped when its receiver is gone.
    thread::spawn(name, limits::URL_STACK, move || _ = out.give(work()))?;
    Ok(done)
}

/// The data of a poll.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) settings: Settings,
    pub(super) acceptor: Acceptor,
    pub(super) names: Names,
}

impl Job {
    pub(super) fn poll(&self, validators: &Validators, known: &[Digest], seen: &Known) -> Answer {
        match self.try_poll(validators, known, seen) {
            Ok(answer) => answer,
            Err(why) => Answer::Failed(why),
        }
    }

    fn try_poll(&self, validators: &Validators, known: &[Digest], seen: &Known) -> Result<Answer, String> {
        let settings = &self.settings;
        let server = Server::find(settings, &self.names)?;
        let (bytes, validators) = match server.get(&settings.url, settings.max_bytes, validators)? {
            Fetched::Unchanged => return Ok(Answer::Unchanged),
            Fetched::Missing(status) => return Err(fetch::answered(status)),
            Fetched::Body { bytes, validators } => (bytes, validators),
        };
        let start = bytes.trim_ascii_start();
        if start.is_empty() {
            let instead =
                "no pods at all are said with {\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}";
            return Err(format!("the server's answer is empty; {instead}"));
        }
        if start.starts_with(b"<") {
            return Err(fetch::WEB_PAGE.to_owned());
        }
        let signature = if self.acceptor.wants_signature() { self.signature(&server)? } else { None };
        let content = Content { bytes, signature, validators };
        let digest = content.digest();
        let shown = settings.url.to_string();
        let decoded = (!known.contains(&digest))
            .then(|| self.acceptor.accept(&shown, &content.bytes, content.signature.as_deref(), seen));
        Ok(Answer::Content { digest, content, decoded })
    }

    /// The detached signature; `None` when there is none, which the acceptor judges.
    fn signature(&self, server: &Server<'_>) -> Result<Option<Vec<u8>>, String> {
        let url = self.settings.url.signature();
        let none = Validators::default();
        match server.get(&url, limits::URL_SIGNATURE, &none).map_err(|why| format!("its signature: {why}"))? {
            Fetched::Body { bytes, .. } => Ok(Some(bytes.0)),
            Fetched::Missing(_) | Fetched::Unchanged => Ok(None),
        }
    }

    /// Judges the stored contents of the URL.
    pub(super) fn replay(&self, mut contents: Vec<Remembered>) -> Option<Replayed> {
        let shown = self.settings.url.to_string();
        contents.iter_mut().for_each(|content| content.path.clone_from(&shown));
        replay(contents, &self.acceptor).pop()
    }
}
