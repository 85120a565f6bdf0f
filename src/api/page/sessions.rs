//! Access to the page: links that are used once, and the sessions that they open. Pure but for the system's random
//! numbers.
//!
//! Never here: a token itself. Only its authentication code is kept, under a key that is made at each start: so a
//! client's token is compared in constant time, and no memory, log or disk contains what opens the page.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::base::clock::Mono;
use crate::base::limits;
use crate::manifest::base64;

/// Bytes of a token.
const TOKEN: usize = 32;

/// Links and sessions.
pub struct Sessions {
    key: hmac::Key,
    random: SystemRandom,
    links: VecDeque<Held>,
    sessions: VecDeque<Held>,
}

/// A token of a client.
struct Held {
    code: hmac::Tag,
    begun: Mono,
    used: Mono,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} links and {} sessions", self.links.len(), self.sessions.len())
    }
}

impl Sessions {
    /// No links and no sessions.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Sessions, String> {
        let random = SystemRandom::new();
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &random).map_err(|_| no_random())?;
        Ok(Sessions { key, random, links: VecDeque::new(), sessions: VecDeque::new() })
    }

    /// The token of a new link. The oldest link is dropped when there are [`limits::PAGE_LINKS`].
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn link(&mut self, now: Mono) -> Result<String, String> {
        self.expire(now);
        let (token, held) = self.make(now)?;
        while self.links.len() >= limits::PAGE_LINKS {
            self.links.pop_front();
        }
        self.links.push_back(held);
        Ok(token)
    }

    /// Uses a link up. Returns `Some` token of the session that it opens. The session that was used longest ago is
    /// dropped when there are [`limits::PAGE_SESSIONS`].
    ///
    /// # Errors
    /// The system has no random numbers; the link can be used again.
    pub fn open(&mut self, link: &str, now: Mono) -> Result<Option<String>, String> {
        self.expire(now);
        let Some(at) = find(&self.key, &self.links, link) else { return Ok(None) };
        let (token, held) = self.make(now)?;
        self.links.remove(at);
        while self.sessions.len() >= limits::PAGE_SESSIONS {
            let oldest = self.sessions.iter().enumerate().min_by_key(|(_, session)| session.used);
            let Some(at) = oldest.map(|(at, _)| at) else { break };
            self.sessions.remove(at);
        }
        self.sessions.push_back(held);
        Ok(Some(token))
    }

    /// Whether this is a session, which counts as used now.
    pub fn knows(&mut self, session: &str, now: Mono) -> bool {
        self.expire(now);
        let found = find(&self.key, &self.sessions, session).and_then(|at| self.sessions.get_mut(at));
        found.map(|held| held.used = now).is_some()
    }

    fn make(&self, now: Mono) -> Result<(String, Held), String> {
        let mut bytes = [0_u8; TOKEN];
        self.random.fill(&mut bytes).map_err(|_| no_random())?;
        // Base64 in a form for URLs and cookies.
        let token = base64::encode(&bytes).replace('+', "-").replace('/', "_").replace('=', "");
        let code = hmac::sign(&self.key, token.as_bytes());
        Ok((token, Held { code, begun: now, used: now }))
    }

    fn expire(&mut self, now: Mono) {
        let is_within = |since: Mono, time: Duration| now.since(since) < time;
        self.links.retain(|link| is_within(link.begun, limits::PAGE_LINK));
        self.sessions.retain(|session| {
            is_within(session.begun, limits::PAGE_SESSION)
                && is_within(session.used, limits::PAGE_SESSION_REST)
        });
    }
}

/// The index of a token. All are compared, each in constant time.
fn find(key: &hmac::Key, all: &VecDeque<Held>, token: &str) -> Option<usize> {
    let is_it = |held: &Held| hmac::verify(key, token.as_bytes(), held.code.as_ref()).is_ok();
    let compare = |found: Option<usize>, (at, held)| if is_it(held) { Some(at) } else { found };
    all.iter().enumerate().fold(None, compare)
}

fn no_random() -> String {
    "the system has no random numbers".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Mono = Mono(Duration::ZERO);

    #[test]
    fn a_link_opens_one_session_and_no_other() {
        let mut sessions = Sessions::new().unwrap();
        let link = sessions.link(START).unwrap();
        assert_eq!(link.len(), 43);
        assert!(link.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{link}");
        assert_eq!(sessions.open("", START).unwrap(), None);
        assert_eq!(sessions.open(link.get(1..).unwrap(), START).unwrap(), None);
        let session = sessions.open(&link, START).unwrap().unwrap();
        assert_ne!(session, link);
        assert_eq!(sessions.open(&link, START).unwrap(), None, "it was used");
        assert!(sessions.knows(&session, START));
        assert!(!sessions.knows(&link, START), "a link is no session");
        assert_eq!(sessions.open(&session, START).unwrap(), None, "a session is no link");
        assert_eq!(format!("{sessions:?}"), "0 links and 1 sessions");
    }

    #[test]
    fn links_and_sessions_end_by_time() {
        let mut sessions = Sessions::new().unwrap();
        let link = sessions.link(START).unwrap();
        assert_eq!(sessions.open(&link, START.after(limits::PAGE_LINK)).unwrap(), None);
        let link = sessions.link(START).unwrap();
        let session = sessions.open(&link, START).unwrap().unwrap();
        // It is used now and then, until its time is over.
        let step = limits::PAGE_SESSION_REST / 2;
        let mut now = START;
        while now.after(step) < START.after(limits::PAGE_SESSION) {
            now = now.after(step);
            assert!(sessions.knows(&session, now));
        }
        assert!(!sessions.knows(&session, START.after(limits::PAGE_SESSION)));
        let link = sessions.link(now).unwrap();
        let session = sessions.open(&link, now).unwrap().unwrap();
        assert!(!sessions.knows(&session, now.after(limits::PAGE_SESSION_REST)), "nobody used it");
    }

    #[test]
    fn both_are_bounded_and_the_oldest_goes() {
        let mut sessions = Sessions::new().unwrap();
        let links: Vec<String> = (0..=limits::PAGE_LINKS).map(|_| sessions.link(START).unwrap()).collect();
        assert_eq!(sessions.open(links.first().unwrap(), START).unwrap(), None);
        assert!(sessions.open(links.last().unwrap(), START).unwrap().is_some());
        let mut open = |now| {
            let link = sessions.link(now).unwrap();
            sessions.open(&link, now).unwrap().unwrap()
        };
        let second = |n: usize| START.after(Duration::from_secs(n as u64));
        let all: Vec<String> = (0..limits::PAGE_SESSIONS).map(|n| open(second(n))).collect();
        // The first one is in use, so the second one is dropped.
        assert!(sessions.knows(all.first().unwrap(), second(100)));
        let link = sessions.link(second(101)).unwrap();
        sessions.open(&link, second(101)).unwrap().unwrap();
        assert!(sessions.knows(all.first().unwrap(), second(102)));
        assert!(!sessions.knows(all.get(1).unwrap(), second(102)));
    }
}
