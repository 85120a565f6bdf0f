//! What is believed of the URL, and what the loop is told. Pure: a state machine over answers.
//!
//! Only what was accepted is remembered, with its validators: the server is never asked whether there is
//! something newer than content that was refused. Trouble is told when it is new.

use std::collections::BTreeSet;

use super::memory::{Remembered, Validators};
use crate::manifest::Decoded;
use crate::source::in_force::{InForce, Version};
use crate::source::{PodSet, Problem, Severity, SourceUpdate};

/// SHA-256 of a body and its signature.
pub type Digest = [u8; 32];

/// What a poll came back with.
#[derive(Debug)]
pub enum Answer {
    /// Nothing usable; what happened.
    Failed(String),
    /// The server says that the content is what the validators say.
    Unchanged,
    /// Content, read whole.
    Content {
        /// Of the content.
        digest: Digest,
        /// Of the content.
        content: Remembered,
        /// What it means; `None` when the digest was [`State::known`].
        decoded: Option<Decoded>,
    },
}

/// Content that was accepted last.
#[derive(Debug)]
struct Accepted {
    digest: Digest,
    validators: Validators,
    problems: Vec<Problem>,
}

/// Content that was refused last.
#[derive(Debug)]
struct Refusal {
    digest: Digest,
    why: String,
    problems: Vec<Problem>,
}

/// What the loop believes to be wrong with the source.
#[derive(Debug, PartialEq)]
enum Told {
    Nothing,
    Failed(String),
    Refused(Digest),
}

/// What must be remembered of an accepted content.
#[derive(Debug, PartialEq)]
pub struct ToRemember {
    /// Goes to the end.
    pub newest: Remembered,
    /// Places of those before it that are still in force.
    pub still: Vec<usize>,
}

/// See the module.
#[derive(Debug)]
pub struct State {
    in_force: InForce,
    /// What the memory holds, oldest first: the version that became of each, if it was accepted.
    memory: Vec<Option<Version>>,
    accepted: Option<Accepted>,
    refusal: Option<Refusal>,
    told: Told,
    /// The loop got a whole set that the source itself said.
    spoken: bool,
}

impl Default for State {
    fn default() -> Self {
        State {
            in_force: InForce::default(),
            memory: Vec::new(),
            accepted: None,
            refusal: None,
            told: Told::Nothing,
            spoken: false,
        }
    }
}

impl State {
    /// Takes what was remembered, oldest first, each judged anew: rules may have changed since. Answers
    /// with the set to restore, if anything is accepted.
    pub fn restore(&mut self, remembered: Vec<(Digest, Validators, Decoded)>) -> Option<PodSet> {
        for (digest, validators, mut decoded) in remembered {
            // A newer one that is refused now says nothing of what the older one says; but then the server
            // must not be asked for news of the older one only.
            self.accepted = None;
            if !decoded.is_good() {
                self.memory.push(None);
                continue;
            }
            let problems = std::mem::take(&mut decoded.problems);
            let version = self.in_force.apply(decoded).last().copied();
            self.memory.push(version);
            self.accepted = Some(Accepted { digest, validators, problems });
        }
        (!self.in_force.is_new()).then(|| self.set())
    }

    /// What to ask the server with.
    #[must_use]
    pub fn validators(&self) -> Validators {
        self.accepted.as_ref().map(|a| a.validators.clone()).unwrap_or_default()
    }

    /// Contents that need not be decoded: it is known what becomes of them.
    #[must_use]
    pub fn known(&self) -> Vec<Digest> {
        let accepted = self.accepted.as_ref().map(|a| a.digest);
        accepted.into_iter().chain(self.refusal.as_ref().map(|r| r.digest)).collect()
    }

    /// Takes an answer. `shown` is the URL as it may be shown. Answers with what to tell the loop, and what
    /// to remember.
    pub fn take(&mut self, answer: Answer, shown: &str) -> (Option<SourceUpdate>, Option<ToRemember>) {
        match answer {
            Answer::Failed(why) => (self.failed(format!("{shown}: {why}")), None),
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
        newest: Remembered,
        mut decoded: Decoded,
    ) -> (Option<SourceUpdate>, Option<ToRemember>) {
        let problems = std::mem::take(&mut decoded.problems);
        self.accepted = Some(Accepted { digest, validators: newest.validators.clone(), problems });
        let made_of: BTreeSet<Version> = self.in_force.apply(decoded).into_iter().collect();
        let holds = |version: &Option<Version>| version.is_some_and(|v| made_of.contains(&v));
        let still = (0..).zip(&self.memory).filter(|(_, v)| holds(v)).map(|(place, _)| place).collect();
        self.memory.retain(holds);
        self.memory.push(made_of.last().copied());
        self.spoken = false;
        (Some(self.fine()), Some(ToRemember { newest, still }))
    }

    /// The server holds what was accepted last.
    fn fine(&mut self) -> SourceUpdate {
        self.told = Told::Nothing;
        self.refusal = None;
        if std::mem::replace(&mut self.spoken, true) {
            SourceUpdate::Same
        } else {
            SourceUpdate::Full(self.set())
        }
    }

    fn failed(&mut self, why: String) -> Option<SourceUpdate> {
        let told = Told::Failed(why.clone());
        (std::mem::replace(&mut self.told, told) != Told::Failed(why.clone()))
            .then_some(SourceUpdate::Failed(why))
    }

    fn refused(&mut self) -> Option<SourceUpdate> {
        let refusal = self.refusal.as_ref()?;
        let told = Told::Refused(refusal.digest);
        let is_new = self.told != told;
        self.told = told;
        is_new.then(|| SourceUpdate::Refused { why: refusal.why.clone(), problems: refusal.problems.clone() })
    }

    fn set(&self) -> PodSet {
        PodSet {
            pods: self.in_force.pods().to_vec(),
            objects: self.in_force.objects().to_vec(),
            refused: self.in_force.refused().to_vec(),
            broken: Vec::new(),
            problems: self.accepted.as_ref().map(|a| a.problems.clone()).unwrap_or_default(),
        }
    }
}

/// Says that content is not accepted, with the first thing that is wrong with it.
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
    use crate::source::testing::{self, names};

    const URL: &str = "https://a/pods";

    fn decode(text: &str) -> Decoded {
        testing::decode(text.as_bytes(), &Context { node_name: "n", source: Source::Http, path: URL })
    }

    fn digest(text: &str) -> Digest {
        let mut digest = [0; 32];
        digest.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from);
        digest
    }

    fn content(text: &str, etag: Option<&str>) -> Remembered {
        let validators = Validators { etag: etag.map(str::to_owned), last_modified: None };
        Remembered { bytes: text.into(), signature: None, validators }
    }

    /// A source with a server that sends `text` with `etag`.
    #[derive(Default)]
    struct Rig(State);

    impl Rig {
        fn get(&mut self, text: &str, etag: &str) -> String {
            let digest = digest(text);
            let decoded = (!self.0.known().contains(&digest)).then(|| decode(text));
            self.take(Answer::Content { digest, content: content(text, Some(etag)), decoded })
        }

        fn fail(&mut self, why: &str) -> String {
            self.take(Answer::Failed(why.to_owned()))
        }

        /// What the loop is told, and what is remembered.
        fn take(&mut self, answer: Answer) -> String {
            let (update, remember) = self.0.take(answer, URL);
            let told = match update {
                None => "-".to_owned(),
                Some(SourceUpdate::Same) => "same".to_owned(),
                Some(SourceUpdate::Refused { why, problems }) => format!("refused {} {why}", problems.len()),
                Some(SourceUpdate::Failed(why)) => format!("failed {why}"),
                Some(SourceUpdate::Full(set)) => format!("full {}", names(&set).join(" ")),
                Some(SourceUpdate::Restored(_)) => unreachable!("no answer restores"),
            };
            match remember {
                None => told,
                Some(ToRemember { still, .. }) => format!("{told}, remember over {still:?}"),
            }
        }

        fn etag(&self) -> String {
            self.0.validators().etag.unwrap_or_default()
        }
    }

    #[test]
    fn validators_are_those_of_the_last_accepted_content() {
        let mut rig = Rig::default();
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod a", "1"), "full a, remember over []");
        assert_eq!(rig.etag(), "1");
        let refused = "refused 1 its content is not accepted: https://a/pods: bad line";
        assert_eq!(rig.get("rubbish", "2"), refused);
        assert_eq!(rig.etag(), "1");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.etag(), "1");
        // An entity tag that changes without a change of content is no news, and is believed.
        assert_eq!(rig.get("pod a", "3"), "same");
        assert_eq!(rig.etag(), "3");
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.get("pod b", "4"), "full b, remember over []");
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
        // Still bad after a failure: said again, for that is what is wrong now.
        assert_eq!(rig.get("rubbish", "1"), refused);
        assert_eq!(decoded(), before);
        assert_eq!(rig.get("pod a", "1"), "full a, remember over []");
        assert!(rig.get("rubbish\nrubbish", "1").contains("(and 1 more)"));
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.get("pod a", "1"), "same");
    }

    #[test]
    fn what_is_restored_becomes_full_when_the_server_says_unchanged() {
        let mut rig = Rig::default();
        let remembered = vec![(digest("pod a"), content("", Some("7")).validators, decode("pod a"))];
        let set = rig.0.restore(remembered).unwrap();
        assert_eq!(names(&set), ["a"]);
        assert_eq!(rig.etag(), "7");
        assert_eq!(rig.fail("x"), "failed https://a/pods: x");
        assert_eq!(rig.take(Answer::Unchanged), "full a");
        assert_eq!(rig.take(Answer::Unchanged), "same");
        assert_eq!(rig.get("pod a", "7"), "same");
    }

    #[test]
    fn what_is_remembered_and_not_accepted_any_more_is_not_restored() {
        let mut rig = Rig::default();
        let one = |text: &str| (digest(text), content("", Some(text)).validators, decode(text));
        assert_eq!(rig.0.restore(vec![one("rubbish")]), None);
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod b", "2"), "full b, remember over []");
        // The newest is refused now: what is older stays, and the server is asked for everything.
        let mut rig = Rig::default();
        assert_eq!(names(&rig.0.restore(vec![one("pod a"), one("rubbish")]).unwrap()), ["a"]);
        assert_eq!(rig.etag(), "");
        assert_eq!(rig.get("pod a", "1"), "full a, remember over []");
    }

    #[test]
    fn versions_in_force_are_remembered_by_their_place() {
        let refuse = |text: &str, pod: &str| {
            let mut decoded = decode(text);
            let at = decoded.pods.iter().position(|p| p.key.name == pod).unwrap();
            let pod = decoded.pods.remove(at);
            decoded.refused.push(crate::source::Refused {
                pod,
                reason: "PodSecurity".to_owned(),
                message: String::new(),
            });
            decoded
        };
        let mut rig = Rig::default();
        let mut give = |text: &str, decoded| {
            rig.take(Answer::Content {
                digest: digest(text),
                content: content(text, None),
                decoded: Some(decoded),
            })
        };
        assert_eq!(give("1", decode("pod a\npod b")), "full a b, remember over []");
        assert_eq!(give("2", refuse("pod a\npod b", "b")), "full a b, remember over [0]");
        assert_eq!(give("3", refuse("pod a\npod b", "b")), "full a b, remember over [0]");
        assert_eq!(give("4", decode("pod a")), "full a, remember over []");
    }
}
