//! The believed content of the URL, and the updates for the loop. Pure: a state machine over answers.
//!
//! Only accepted content is stored, with its validators: the server is never asked for content that is newer than
//! refused content. Failures are reported when they are new.

use super::fetch::Validators;
use crate::base::concealed::Concealed;
use crate::base::sha256;
use crate::base::table::Set;
use crate::manifest::Decoded;
use crate::manifest::edition::Claim;
use crate::pod::problem::Problem;
use crate::pod::problem::Severity;
use crate::source::in_force::{InForce, Version};
use crate::source::last_good::replay::Replayed;
use crate::source::{PodSet, SourceUpdate};

/// SHA-256 of a body and its signature.
pub type Digest = [u8; 32];

/// The server's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The body, as sent.
    pub bytes: Concealed<Vec<u8>>,
    /// The detached signature beside it.
    pub signature: Option<Vec<u8>>,
    /// Validators for the next request.
    pub validators: Validators,
}

impl Content {
    /// Covers body and signature: the same body with another signature is another content.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest(&self.bytes, self.signature.as_deref())
    }
}

fn digest(bytes: &[u8], signature: Option<&[u8]>) -> Digest {
    let content = sha256::hash(bytes);
    match signature {
        Some(signature) => sha256::hash_all(&[&content, b"signed", signature]),
        None => sha256::hash(&content),
    }
}

/// The result of a poll.
#[allow(clippy::large_enum_variant, reason = "one of them at a time")]
#[derive(Debug)]
pub enum Answer {
    /// The poll failed; a description.
    Failed(String),
    /// The content has not changed since the validators.
    Unchanged,
    /// Complete content.
    Content {
        /// Of the content.
        digest: Digest,
        content: Content,
        /// The decoded content; `None` when the digest was [`State::known`].
        decoded: Option<Decoded>,
    },
}

/// The last accepted content.
#[derive(Debug)]
struct Accepted {
    digest: Digest,
    validators: Validators,
    problems: Vec<Problem>,
}

/// The last refused content.
#[derive(Debug)]
struct Refusal {
    digest: Digest,
    why: String,
    problems: Vec<Problem>,
}

/// The last problem that was sent to the loop.
#[derive(Debug, Default, PartialEq)]
enum LastTold {
    #[default]
    Nothing,
    Failed(String),
    Refused(Digest),
}

/// Accepted content to store.
#[derive(Debug, PartialEq)]
pub struct ToRemember {
    /// The content.
    pub content: Content,
    /// Its number.
    pub version: Version,
    /// The versions that are still in force, oldest first; this one is the last.
    pub needed: Vec<Version>,
    /// The signer's claim.
    pub signed: Option<Box<Claim>>,
}

#[derive(Debug, Default)]
pub struct State {
    in_force: InForce,
    accepted: Option<Accepted>,
    refusal: Option<Refusal>,
    told: LastTold,
    /// The loop got a whole set from the server itself.
    spoken: bool,
    /// The loop must be told that nothing is in force, unless something comes into force.
    emptied: bool,
}

impl State {
    /// Takes stored contents that were judged anew: rules may have changed. Returns the set to restore, if anything is
    /// in force.
    pub fn restore(&mut self, replayed: Replayed) -> Option<PodSet> {
        self.in_force = replayed.in_force;
        // A newer content that is refused now does not invalidate the older one; but the server must not be asked only
        // for changes since the older one.
        let newest = replayed.newest.filter(|_| replayed.refused.is_none());
        self.accepted = newest.map(|newest| Accepted {
            digest: digest(&newest.bytes, newest.signature.as_deref()),
            validators: Validators { etag: newest.etag, last_modified: newest.last_modified },
            problems: replayed.problems,
        });
        (!self.in_force.is_new()).then(|| self.set())
    }

    /// Forgets accepted content, on the operator's request: from now on only new answers count, and nothing runs until
    /// there is a good one.
    pub fn forget(&mut self) {
        *self = State { emptied: true, ..State::default() };
    }

    /// Names of the pods and objects in force.
    #[must_use]
    pub fn names(&self) -> Set<String> {
        self.in_force.names()
    }

    /// Validators for the next request.
    #[must_use]
    pub fn validators(&self) -> Validators {
        self.accepted.as_ref().map(|a| a.validators.clone()).unwrap_or_default()
    }

    /// Digests of contents whose result is known: they need not be decoded.
    #[must_use]
    pub fn known(&self) -> Vec<Digest> {
        let accepted = self.accepted.as_ref().map(|a| a.digest);
        accepted.into_iter().chain(self.refusal.as_ref().map(|r| r.digest)).collect()
    }

    /// Takes an answer. `shown` is the URL without secrets. Returns updates for the loop, and content to store.
    pub fn take(&mut self, answer: Answer, shown: &str) -> (Vec<SourceUpdate>, Option<ToRemember>) {
        let (update, remember) = self.judge(answer, shown);
        let emptied = std::mem::take(&mut self.emptied) && !matches!(update, Some(SourceUpdate::Full(_)));
        let forgotten = emptied.then_some(SourceUpdate::Forgotten);
        (forgotten.into_iter().chain(update).collect(), remember)
    }

    fn judge(&mut self, answer: Answer, shown: &str) -> (Option<SourceUpdate>, Option<ToRemember>) {
        match answer {
            Answer::Failed(why) => (self.failed(format!("{shown}: {why}")), None),
            // The request had no validators: there is no content that could be unchanged.
            Answer::Unchanged if self.in_force.is_new() => {
                (self.failed(format!("{shown}: the server says \"unchanged\" of nothing")), None)
            }
            Answer::Unchanged => (Some(self.fine()), None),
            Answer::Content { digest, content, decoded } => {
                if let Some(accepted) = self.accepted.as_mut().filter(|a| a.digest == digest) {
                    accepted.validators = content.validators;
                    return (Some(self.fine()), None);
                }
                match decoded {
                    Some(decoded) if decoded.is_good() => self.accept(digest, content, decoded),
                    Some(decoded) => {
                        let why = refusal(shown, &decoded.problems);
                        self.refusal = Some(Refusal { digest, why, problems: decoded.problems });
                        (self.refused(), None)
                    }
                    None => (self.refused(), None),
                }
            }
        }
    }

    fn accept(
        &mut self,
        digest: Digest,
        content: Content,
        mut decoded: Decoded,
    ) -> (Option<SourceUpdate>, Option<ToRemember>) {
        let problems = std::mem::take(&mut decoded.problems);
        self.accepted = Some(Accepted { digest, validators: content.validators.clone(), problems });
        let signed = decoded.signed.take();
        let needed = self.in_force.apply(decoded);
        let version = self.in_force.newest();
        self.spoken = false;
        (Some(self.fine()), Some(ToRemember { content, version, needed, signed }))
    }

    /// The update when the server holds the last accepted content.
    fn fine(&mut self) -> SourceUpdate {
        self.told = LastTold::Nothing;
        self.refusal = None;
        if std::mem::replace(&mut self.spoken, true) {
            SourceUpdate::Same
        } else {
            SourceUpdate::Full(self.set())
        }
    }

    fn failed(&mut self, why: String) -> Option<SourceUpdate> {
        let told = LastTold::Failed(why.clone());
        (std::mem::replace(&mut self.told, told) != LastTold::Failed(why.clone()))
            .then_some(SourceUpdate::Failed(why))
    }

    fn refused(&mut self) -> Option<SourceUpdate> {
        let refusal = self.refusal.as_ref()?;
        let told = LastTold::Refused(refusal.digest);
        let is_new = self.told != told;
        self.told = told;
        is_new.then(|| SourceUpdate::Refused { why: refusal.why.clone(), problems: refusal.problems.clone() })
    }

    fn set(&self) -> PodSet {
        PodSet {
            pods: self.in_force.pods().to_vec(),
            objects: self.in_force.objects().to_vec(),
            refused: self.in_force.refused().to_vec(),
            problems: self.accepted.as_ref().map(|a| a.problems.clone()).unwrap_or_default(),
            ..PodSet::default()
        }
    }
}

/// The message when content is refused, with its first error.
fn refusal(shown: &str, problems: &[Problem]) -> String {
    let mut errors = problems.iter().filter(|p| p.severity == Severity::Error);
    match (errors.next(), errors.count()) {
        (None, _) => format!("{shown}: its content is not accepted"),
        (Some(first), 0) => format!("its content is not accepted: {first}"),
        (Some(first), more) => format!("its content is not accepted: {first} (and {more} more)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Context;
    use crate::pod::Source;
    use crate::source::accept::Acceptor;
    use crate::source::last_good::Remembered;
    use crate::source::last_good::replay::replay;
    use crate::source::testing::{self, names};

    const URL: &str = "https://a/pods";

    fn decode(text: &str) -> Decoded {
        testing::decode(text.as_bytes(), &Context { node_name: "n", source: Source::Http, path: URL })
    }

    fn content(text: &str, etag: Option<&str>) -> Content {
        let validators = Validators { etag: etag.map(str::to_owned), last_modified: None };
        Content { bytes: text.into(), signature: None, validators }
    }

    /// The texts as stored contents; each is its own entity tag.
    fn replayed(texts: &[&str]) -> Replayed {
        let acceptor = Acceptor { decode: testing::decode, ..Acceptor::new(Source::Http, "n".to_owned()) };
        let content = |(version, text): (Version, &&str)| Remembered {
            path: URL.to_owned(),
            version,
            bytes: (*text).into(),
            etag: Some((*text).to_owned()),
            ..Remembered::default()
        };
        replay((1..).zip(texts).map(content).collect(), &acceptor).remove(0)
    }

    /// A source with a server that sends `text` with `etag`.
    #[derive(Default)]
    struct Rig(State);

    impl Rig {
        fn get(&mut self, text: &str, etag: &str) -> String {
            let content = content(text, Some(etag));
            let digest = content.digest();
            let decoded = (!self.0.known().contains(&digest)).then(|| decode(text));
            self.take(Answer::Content { digest, content, decoded })
        }

        fn fail(&mut self, why: &str) -> String {
            self.take(Answer::Failed(why.to_owned()))
        }

        /// The updates for the loop, and the stored content.
        fn take(&mut self, answer: Answer) -> String {
            let (updates, remember) = self.0.take(answer, URL);
            let told = updates.into_iter().map(|update| match update {
                SourceUpdate::Same => "same".to_owned(),
                SourceUpdate::Forgotten => "forgotten".to_owned(),
                SourceUpdate::Refused { why, problems } => format!("refused {} {why}", problems.len()),
                SourceUpdate::Failed(why) => format!("failed {why}"),
                SourceUpdate::Full(set) => format!("full {}", names(&set).join(" ")),
                SourceUpdate::Restored(_) | SourceUpdate::Remembered(_) | SourceUpdate::Store(_) => {
                    unreachable!("no answer says so")
                }
            });
            let needed = remember.map(|ToRemember { needed, .. }| format!("needs {needed:?}"));
            let all: Vec<String> = told.chain(needed).collect();
            if all.is_empty() { "-".to_owned() } else { all.join(", ") }
        }

        fn etag(&self) -> String {
            self.0.validators().etag.unwrap_or_default()
        }
    }

    #[test]
    fn validators_are_those_of_the_last_accepted_content() {
        let mut rig = Rig::default();
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod a", "1"), "full a, needs [1]");
        assert_eq!(rig.etag(), "1");
        let refused = "refused 1 its content is not accepted: https://a/pods: bad line";
        assert_eq!(rig.get("rubbish", "2"), refused);
        assert_eq!(rig.etag(), "1");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.etag(), "1");
        // A new entity tag without a change of content is not reported, and is used.
        assert_eq!(rig.get("pod a", "3"), "same");
        assert_eq!(rig.etag(), "3");
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.get("pod b", "4"), "full b, needs [2]");
    }

    #[test]
    fn trouble_is_told_when_it_is_new_and_the_same_content_is_decoded_once() {
        let mut rig = Rig::default();
        let decoded = || testing::DECODED.get();
        let refused = "refused 1 its content is not accepted: https://a/pods: bad line";
        assert_eq!(rig.get("rubbish", "1"), refused);
        let before = decoded();
        assert_eq!(rig.get("rubbish", "1"), "-");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.fail("x"), "-");
        assert_eq!(rig.fail("y"), "failed https://a/pods: y");
        // Still bad after a failure: reported again, because it is the current problem.
        assert_eq!(rig.get("rubbish", "1"), refused);
        assert_eq!(decoded(), before);
        assert_eq!(rig.get("pod a", "1"), "full a, needs [1]");
        assert!(rig.get("rubbish\nrubbish", "1").contains("(and 1 more)"));
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.get("pod a", "1"), "same");
    }

    #[test]
    fn what_is_restored_becomes_full_when_the_server_says_unchanged() {
        let mut rig = Rig::default();
        let set = rig.0.restore(replayed(&["pod a"])).unwrap();
        assert_eq!(names(&set), ["a"]);
        assert_eq!(rig.etag(), "pod a");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.take(Answer::Unchanged), "full a");
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.get("pod a", "7"), "same");
        assert_eq!(rig.get("pod b", "8"), "full b, needs [2]");
    }

    #[test]
    fn what_is_remembered_and_not_accepted_any_more_is_not_restored() {
        let mut rig = Rig::default();
        assert_eq!(rig.0.restore(replayed(&["rubbish"])), None);
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod b", "2"), "full b, needs [2]");
        // The newest is refused now: the older one stays, and the request has no validators.
        let mut rig = Rig::default();
        assert_eq!(names(&rig.0.restore(replayed(&["pod a", "rubbish"])).unwrap()), ["a"]);
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod a", "1"), "full a, needs [3]");
    }

    #[test]
    fn what_is_forgotten_runs_only_when_the_server_says_so_again() {
        let forgotten = || {
            let mut rig = Rig::default();
            assert_eq!(rig.get("pod a", "1"), "full a, needs [1]");
            rig.0.forget();
            assert_eq!(rig.etag(), "");
            rig
        };
        assert_eq!(forgotten().get("pod a", "1"), "full a, needs [1]");
        let mut rig = forgotten();
        assert_eq!(rig.fail("x"), "forgotten, failed https://a/pods: x");
        assert_eq!(rig.fail("x"), "-");
        assert_eq!(rig.get("pod a", "1"), "full a, needs [1]");
        let refused = "forgotten, refused 1 its content is not accepted: https://a/pods: bad line";
        assert_eq!(forgotten().get("rubbish", "1"), refused);
        // A server that answers another question.
        assert!(
            forgotten().take(Answer::Unchanged).starts_with("forgotten, failed https://a/pods: the server")
        );
    }

    #[test]
    fn versions_in_force_are_remembered() {
        let refuse = |text: &str, pod: &str| {
            let mut decoded = decode(text);
            let at = decoded.pods.iter().position(|p| p.key.name == pod).unwrap();
            let pod = decoded.pods.remove(at);
            decoded.refused.push(crate::pod::problem::Refused {
                pod,
                at: None,
                reason: "PodSecurity".to_owned(),
                message: String::new(),
            });
            decoded
        };
        let mut rig = Rig::default();
        let mut give = |text: &str, decoded| {
            let content = content(text, None);
            rig.take(Answer::Content { digest: content.digest(), content, decoded: Some(decoded) })
        };
        assert_eq!(give("1", decode("pod a\npod b")), "full a b, needs [1]");
        assert_eq!(give("2", refuse("pod a\npod b", "b")), "full a b, needs [1, 2]");
        assert_eq!(give("3", refuse("pod a\npod b", "b")), "full a b, needs [1, 3]");
        assert_eq!(give("4", decode("pod a")), "full a, needs [4]");
    }
}
