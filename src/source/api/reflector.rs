//! Decides the next request for pods and its time, so that the set of pods stays known (client-go's
//! `tools/cache/reflector.go`). Pure: it makes no call, and gets the time as an argument.
//!
//! Never here: a pod. An expired version does not mean that there are no pods.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

use crate::api_client::ApiError;
use crate::base::clock::Mono;
use crate::base::limits;

/// The next request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A watch that begins with all pods, and marks the end of them.
    Stream {
        /// Empty for the newest.
        version: String,
    },
    /// A list.
    List {
        /// Empty for the newest, `0` for any.
        version: String,
    },
    /// A watch of changes since a version.
    Watch { version: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No version is known that a watch can begin at.
    Listing,
    /// The set is known up to the last version.
    Watching,
}

/// Random numbers by which the requests of many nodes are spread. Not for secrets.
#[derive(Debug, Default)]
pub struct Luck {
    seed: RandomState,
    drawn: u64,
}

impl Luck {
    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.drawn = self.drawn.wrapping_add(1);
        self.seed.hash_one(self.drawn)
    }
}

/// Decides the next request.
#[derive(Debug)]
pub struct Reflector {
    phase: Phase,
    /// The last version of an answer or event; empty for none.
    version: String,
    /// The last version has expired: the newest is requested.
    is_past: bool,
    /// The server has refused a watch that begins with all pods.
    cannot_stream: bool,
    /// Number of requests one after the other that were cut, or answered by something else than the server.
    lost: u32,
    wait: Duration,
    /// Time of the last failure.
    failed: Option<Mono>,
    /// Time at which a watch's version had expired last, and the wait then.
    was_past: Option<(Mono, Duration)>,
}

impl Default for Reflector {
    fn default() -> Reflector {
        Reflector {
            phase: Phase::Listing,
            version: String::new(),
            is_past: false,
            cannot_stream: false,
            lost: 0,
            wait: limits::API_BACKOFF_MIN,
            failed: None,
            was_past: None,
        }
    }
}

impl Reflector {
    /// The next request.
    #[must_use]
    pub fn ask(&self) -> Ask {
        let version = if self.is_past { String::new() } else { self.version.clone() };
        // What lets no watch through may let a list through. Watches cost a server less after it was away.
        let is_turn_of_list = self.lost % limits::API_LOST_THEN_LIST == limits::API_LOST_THEN_LIST - 1;
        match self.phase {
            Phase::Watching if !is_turn_of_list => Ask::Watch { version: self.version.clone() },
            Phase::Listing if !self.cannot_stream && !is_turn_of_list => Ask::Stream { version },
            Phase::Watching => Ask::List { version },
            Phase::Listing if self.version.is_empty() => Ask::List { version: "0".to_owned() },
            Phase::Listing => Ask::List { version },
        }
    }

    /// Whether a version is certainly later than the last one. Versions are numbers of any length
    /// (`apimachinery/pkg/util/resourceversion`).
    #[must_use]
    pub fn is_later(&self, version: &str) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let size = |text: &str| (text.len(), text.to_owned());
        is_number(version) && is_number(&self.version) && size(version) > size(&self.version)
    }

    /// Notes that a list, or the first part of a stream, is complete at this version.
    pub fn complete(&mut self, version: &str) {
        self.phase = Phase::Watching;
        self.is_past = false;
        self.lost = 0;
        version.clone_into(&mut self.version);
    }

    /// Notes an event of this version, or a bookmark.
    pub fn heard(&mut self, version: &str) {
        if !version.is_empty() && self.phase == Phase::Watching {
            version.clone_into(&mut self.version);
        }
    }

    /// Notes that a watch has worked: the failures before it say nothing about those that come.
    pub fn worked(&mut self) {
        self.lost = 0;
        self.wait = limits::API_BACKOFF_MIN;
    }

    /// Notes the regular end of a watch. `at_once`: it ended within a second, without an event. Returns how long to
    /// wait.
    pub fn ended(&mut self, at_once: bool, now: Mono, luck: u64) -> Duration {
        if self.phase == Phase::Watching && !at_once {
            return Duration::ZERO;
        }
        if self.phase == Phase::Listing {
            self.lost = self.lost.wrapping_add(1);
        }
        self.phase = Phase::Listing;
        self.back_off(now, luck)
    }

    /// Requests all pods again, although nothing has failed.
    pub fn anew(&mut self) {
        self.phase = Phase::Listing;
    }

    /// Requests all pods of the newest version: the known one is of data that the server has no more.
    pub fn expired(&mut self) {
        self.phase = Phase::Listing;
        self.is_past = true;
    }

    /// Notes a failed request. Returns how long to wait.
    pub fn failed(&mut self, error: &ApiError, now: Mono, luck: u64) -> Duration {
        let was = self.phase;
        self.lost = match error {
            ApiError::Unreachable(_) | ApiError::BadAnswer(_) => self.lost.wrapping_add(1),
            // The server itself answers: nothing cuts it off.
            _ => 0,
        };
        if error.is_gone() || error.is_too_large_version() {
            let first = !self.is_past && !self.version.is_empty();
            // The next request starts at the last version, the one after that at the newest.
            self.is_past = was == Phase::Listing;
            self.phase = Phase::Listing;
            return match was {
                // A server that answers so each time is not asked without a pause. That it could not be reached before
                // does not count: its versions are past because of that.
                Phase::Watching => {
                    let wait = self.wait_after_past(now);
                    self.was_past = Some((now, wait));
                    spread(wait, luck)
                }
                Phase::Listing if first => Duration::ZERO,
                Phase::Listing => self.back_off(now, luck),
            };
        }
        // Old servers refuse a stream as invalid, those on an old etcd with 500: a list asks for less.
        let can_list = error.code().is_some_and(|code| !matches!(code, 401 | 403 | 429));
        if was == Phase::Listing && !self.cannot_stream && can_list {
            self.cannot_stream = true;
            return Duration::ZERO;
        }
        let goes_on = matches!(error, ApiError::Unreachable(_) | ApiError::BadCredentials(_))
            || matches!(error.code(), Some(401 | 429));
        if !goes_on {
            self.phase = Phase::Listing;
        }
        self.back_off(now, luck).max(error.retry_after().unwrap_or_default())
    }

    /// 800 ms, doubled up to 30 s, each up to twice as long; it begins anew after two minutes without a failure.
    fn back_off(&mut self, now: Mono, luck: u64) -> Duration {
        if self.failed.is_some_and(|at| now.since(at) >= limits::API_BACKOFF_RESET) {
            self.wait = limits::API_BACKOFF_MIN;
        }
        self.failed = Some(now);
        let wait = self.wait;
        self.wait = longer(wait);
        spread(wait, luck)
    }

    fn wait_after_past(&self, now: Mono) -> Duration {
        match self.was_past {
            Some((at, wait)) if now.since(at) < limits::API_BACKOFF_RESET => longer(wait),
            _ => Duration::ZERO,
        }
    }
}

fn longer(wait: Duration) -> Duration {
    wait.saturating_mul(2).clamp(limits::API_BACKOFF_MIN, limits::API_BACKOFF_MAX)
}

/// Up to twice as long, so that many nodes do not come at once.
fn spread(wait: Duration, luck: u64) -> Duration {
    let more = u32::try_from(luck % 1000).unwrap_or(0);
    wait.saturating_add(wait.saturating_mul(more) / 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16) -> ApiError {
        ApiError::Status { code, reason: String::new(), message: String::new(), retry_after: None }
    }

    fn stream(version: &str) -> Ask {
        Ask::Stream { version: version.to_owned() }
    }

    fn list(version: &str) -> Ask {
        Ask::List { version: version.to_owned() }
    }

    fn watch(version: &str) -> Ask {
        Ask::Watch { version: version.to_owned() }
    }

    /// A reflector that knows the set up to version 7.
    fn watching(cannot_stream: bool) -> Reflector {
        let mut it = Reflector { cannot_stream, ..Reflector::default() };
        it.complete("5");
        it.heard("7");
        it
    }

    const NOW: Mono = Mono(Duration::ZERO);
    const FIRST: Duration = limits::API_BACKOFF_MIN;

    #[test]
    fn what_is_asked_after_each_kind_of_end() {
        let lost = || ApiError::Unreachable("no".to_owned());
        let check = |name: &str, mut it: Reflector, error: ApiError, wait: Duration, next: Ask| {
            assert_eq!((it.failed(&error, NOW, 0), it.ask()), (wait, next), "{name}");
        };
        let new = Reflector::default;
        assert_eq!(new().ask(), stream(""));
        check("no streaming list", new(), status(422), Duration::ZERO, list("0"));
        check("no server at first", new(), lost(), FIRST, stream(""));
        check("no etcd for streaming lists", new(), status(500), Duration::ZERO, list("0"));
        check("not allowed", new(), status(403), FIRST, stream(""));
        let lists = Reflector { cannot_stream: true, ..Reflector::default() };
        check("a server that fails at first", lists, status(500), FIRST, list("0"));
        check("gone in a watch", watching(false), status(410), Duration::ZERO, stream("7"));
        check("gone in a watch, without streams", watching(true), status(410), Duration::ZERO, list("7"));
        check("too many requests", watching(false), status(429), FIRST, watch("7"));
        check("no connection", watching(false), lost(), FIRST, watch("7"));
        check("not known any more", watching(false), status(401), FIRST, watch("7"));
        check("a server that fails", watching(false), status(500), FIRST, stream("7"));
        check("no events", watching(true), ApiError::BadAnswer(String::new()), FIRST, list("7"));
    }

    #[test]
    fn a_version_that_is_past_is_asked_for_once_and_then_the_newest() {
        let mut it = watching(false);
        assert_eq!((it.failed(&status(410), NOW, 0), it.ask()), (Duration::ZERO, stream("7")));
        assert_eq!((it.failed(&status(410), NOW, 0), it.ask()), (Duration::ZERO, stream("")));
        // The newest version cannot have expired: the answer is a failure like others.
        assert_eq!((it.failed(&status(410), NOW, 0), it.ask()), (FIRST, stream("")));
        it.complete("3");
        assert_eq!(it.ask(), watch("3"));
    }

    #[test]
    fn later_versions() {
        let it = watching(false);
        let told = ["8", "10", "7", "6", "", "9x", "-9"].map(|version| it.is_later(version));
        assert_eq!(told, [true, true, false, false, false, false, false]);
        assert!(!Reflector::default().is_later("8"), "nothing is known");
    }

    #[test]
    fn a_version_of_data_that_the_server_has_no_more_is_not_asked_for() {
        for (cannot_stream, newest) in [(false, stream("")), (true, list(""))] {
            let mut it = watching(cannot_stream);
            it.expired();
            assert_eq!(it.ask(), newest);
            it.failed(&ApiError::Unreachable("no".to_owned()), NOW, 0);
            assert_eq!(it.ask(), newest, "that stays so until it is answered");
            it.complete("3");
            assert_eq!(it.ask(), watch("3"));
        }
    }

    #[test]
    fn watches_whose_versions_are_past_each_time_are_begun_more_and_more_rarely() {
        let mut it = watching(false);
        let mut at = NOW;
        let waits: Vec<u128> = (0..4)
            .map(|_| {
                at = at.after(Duration::from_secs(1));
                let wait = it.failed(&status(410), at, 0);
                it.complete("8");
                wait.as_millis()
            })
            .collect();
        assert_eq!(waits, [0, 800, 1600, 3200]);
        at = at.after(limits::API_BACKOFF_RESET);
        assert_eq!(it.failed(&status(410), at, 0), Duration::ZERO, "that happens now and then");
    }

    /// Regression: behind a proxy that cut every watch, a node never got its pods.
    #[test]
    fn where_watches_are_cut_each_time_now_and_then_a_list_is_tried() {
        let lost = ApiError::Unreachable("cut".to_owned());
        let html = ApiError::BadAnswer("no JSON".to_owned());
        let asked = |it: &mut Reflector, errors: &[&ApiError]| {
            let after = errors.iter().map(|error| {
                it.failed(error, NOW, 0);
                it.ask()
            });
            after.collect::<Vec<_>>()
        };
        let mut it = Reflector::default();
        assert_eq!(asked(&mut it, &[&lost, &html, &lost]), [stream(""), list("0"), stream("")]);
        assert_eq!(asked(&mut it, &[&lost, &lost]), [stream(""), list("0")]);
        it.complete("5");
        assert_eq!(it.ask(), watch("5"));
        assert_eq!(asked(&mut it, &[&lost, &lost, &lost]), [watch("5"), list("5"), watch("5")]);
        it.worked();
        assert_eq!(asked(&mut it, &[&lost]), [watch("5")]);
        assert_eq!(asked(&mut it, &[&lost, &status(429), &lost]), [list("5"), watch("5"), watch("5")]);
        // Streams that end before their first part is complete.
        let mut it = Reflector::default();
        let ends = [(); 3].map(|()| {
            it.ended(false, NOW, 0);
            it.ask()
        });
        assert_eq!(ends, [stream(""), list("0"), stream("")]);
    }

    /// Regression: a node saw no pod for up to a minute after a server that had been away was there again.
    #[test]
    fn what_failed_before_a_server_answered_again_delays_nothing() {
        let lost = ApiError::Unreachable("no".to_owned());
        let away = |it: &mut Reflector| (0..8).for_each(|_| _ = it.failed(&lost, NOW, 999));
        let mut it = watching(false);
        let waits: Vec<Duration> = (0..2)
            .map(|_| {
                away(&mut it);
                let wait = it.failed(&status(410), NOW, 999);
                it.complete("8");
                wait
            })
            .collect();
        assert!(waits[0].is_zero() && waits[1] < FIRST * 2, "{waits:?}");
        // It watches, and the connection breaks twice.
        away(&mut it);
        it.worked();
        assert_eq!(it.ended(false, NOW, 999), Duration::ZERO);
        assert!(it.failed(&lost, NOW, 999) < FIRST * 2);
    }

    #[test]
    fn ends_of_watches() {
        let mut it = watching(false);
        assert_eq!((it.ended(false, NOW, 0), it.ask()), (Duration::ZERO, watch("7")));
        assert_eq!((it.ended(true, NOW, 0), it.ask()), (FIRST, stream("7")));
        // A stream that ends before its first part is complete does not count as a list.
        let mut it = Reflector::default();
        it.heard("4");
        assert_eq!((it.ended(false, NOW, 0), it.ask()), (FIRST, stream("")));
    }

    #[test]
    fn waits_become_longer_and_are_forgotten() {
        let mut it = Reflector { cannot_stream: true, ..Reflector::default() };
        let mut at = NOW;
        let waits: Vec<u128> = (0..7)
            .map(|_| {
                at = at.after(Duration::from_secs(60));
                it.failed(&status(500), at, 0).as_millis()
            })
            .collect();
        assert_eq!(waits, [800, 1600, 3200, 6400, 12800, 25600, 30000]);
        assert_eq!(it.failed(&status(500), at, 999).as_millis(), 59_970);
        at = at.after(limits::API_BACKOFF_RESET);
        assert_eq!(it.failed(&status(500), at, 0), FIRST);
        let wait = Duration::from_secs(120);
        let busy = ApiError::Status {
            code: 429,
            reason: String::new(),
            message: String::new(),
            retry_after: Some(wait),
        };
        assert_eq!(it.failed(&busy, at, 0), wait);
    }
}
