//! When to request a certificate, and when to check whether it was signed. Pure: it returns the next action, and takes
//! the result.
//!
//! A certificate ends at a wall-clock time, so the time of its renewal is one, too: only this module uses that clock.
//! All waits after an answer use the monotonic clock, so that a wrong or jumping clock causes no flood of requests.

use std::time::Duration;

use crate::base::clock::{Mono, Now, Timestamp};
use crate::base::limits;
use crate::base::tls::x509::Validity;

/// The next action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send the request to the server.
    Create,
    /// Read the state of the request.
    Read,
    /// Wait until one of the two times; without any, wait for ever.
    Wait { mono: Option<Mono>, wall: Option<Timestamp> },
}

/// The result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateNews {
    /// The request exists, and is not signed yet.
    Pending,
    /// The request does not exist any more.
    Gone,
    /// The request was denied.
    Refused,
    /// The server did not answer this request.
    Failed,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Renewal {
    /// Spreads the requests of a cluster's nodes over time.
    seed: u64,
    /// When the certificate in use has to be replaced; `None` for never.
    due: Option<Timestamp>,
    is_asked: bool,
    not_before: Mono,
    wait: Duration,
}

impl Renewal {
    /// The state without a certificate to renew. `seed` differs from node to node.
    #[must_use]
    pub fn new(seed: u64) -> Renewal {
        Renewal { seed, due: None, is_asked: false, not_before: Mono::default(), wait: Duration::ZERO }
    }

    /// There is no usable certificate: one is requested at once.
    pub fn has_none(&mut self) {
        self.due = Some(Timestamp::UNIX_EPOCH);
    }

    /// Takes the certificate from before; `None` if it is not to be renewed.
    pub fn has(&mut self, validity: Option<Validity>) {
        self.due = validity.map(|validity| self.moment(validity));
    }

    /// Takes a newly signed certificate. If it is past its renewal time on arrival (a signer that backdates
    /// certificates that last a minute), it is used for half of its remaining time.
    pub fn signed(&mut self, validity: Validity, renews: bool, now: &Now) {
        let left = validity.until.as_second().saturating_sub(now.wall.as_second());
        let half = Timestamp::from_second(now.wall.as_second().saturating_add(left / 2)).ok();
        self.due = renews.then(|| half.map_or(self.moment(validity), |half| half.max(self.moment(validity))));
        (self.is_asked, self.wait) = (false, Duration::ZERO);
        let is_past = self.due.is_some_and(|due| due <= now.wall);
        // By this clock it has expired already: the clock is wrong, and another certificate would not help.
        let rest = if is_past { limits::CERTIFICATE_REST } else { Duration::ZERO };
        self.not_before = now.mono.after(rest);
    }

    /// Whether a request is in progress or due.
    #[must_use]
    pub fn is_due(&self, now: &Now) -> bool {
        self.is_asked || self.due.is_some_and(|due| due <= now.wall)
    }

    /// The next action.
    #[must_use]
    pub fn next(&self, now: &Now) -> Next {
        match self.due {
            None => Next::Wait { mono: None, wall: None },
            Some(_) if self.is_due(now) && now.mono < self.not_before => {
                Next::Wait { mono: Some(self.not_before), wall: None }
            }
            Some(_) if self.is_asked => Next::Read,
            Some(due) if due <= now.wall => Next::Create,
            Some(due) => Next::Wait { mono: None, wall: Some(due) },
        }
    }

    /// Takes the result of an action.
    pub fn told(&mut self, told: CertificateNews, now: &Now) {
        let was_asked = std::mem::replace(&mut self.is_asked, told == CertificateNews::Pending);
        let (first, most) = match told {
            CertificateNews::Pending => (limits::CERTIFICATE_PENDING, limits::CERTIFICATE_PENDING_MAX),
            // A request that vanished twice in a row is being deleted by another program.
            CertificateNews::Gone | CertificateNews::Failed => {
                (limits::CERTIFICATE_AGAIN, limits::CERTIFICATE_AGAIN_MAX)
            }
            CertificateNews::Refused => (limits::CERTIFICATE_REST, limits::CERTIFICATE_REST),
        };
        // A server without an answer may still have the request: it is read again.
        self.is_asked |= told == CertificateNews::Failed && was_asked;
        let begins = told == CertificateNews::Pending && !was_asked;
        self.wait = match begins {
            true => first,
            false => self.wait.saturating_mul(2).clamp(first, most),
        };
        let jitter = self.wait.mul_f64(0.1 * self.part());
        self.not_before = now.mono.after(self.wait.saturating_add(jitter));
    }

    /// When a certificate of this validity has to be replaced.
    fn moment(&self, validity: Validity) -> Timestamp {
        let (from, until) = (validity.from.as_second(), validity.until.as_second());
        let life = u64::try_from(until.saturating_sub(from)).unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 200")]
        let more = (self.part() * limits::CERTIFICATE_LIFE_JITTER as f64) as u64;
        let parts = limits::CERTIFICATE_LIFE.saturating_add(more);
        let passed =
            (life / 1000).saturating_mul(parts).saturating_add((life % 1000).saturating_mul(parts) / 1000);
        let moment = from.saturating_add(i64::try_from(passed).unwrap_or(i64::MAX));
        Timestamp::from_second(moment).unwrap_or(validity.until)
    }

    /// A number from 0 to 1, fixed for this process.
    fn part(&self) -> f64 {
        (self.seed % 1000) as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn now(mono: u64, wall: i64) -> Now {
        Now { mono: Mono(Duration::from_secs(mono)), wall: at(wall) }
    }

    const YEAR: i64 = 365 * 86_400;
    /// A time in 2026.
    const T: i64 = 1_790_000_000;

    #[test]
    fn a_certificate_is_replaced_when_seventy_to_ninety_parts_in_a_hundred_have_passed() {
        for seed in [0, 1, 499, 999, u64::MAX] {
            let mut renewal = Renewal::new(seed);
            renewal.has(Some(Validity { from: at(T), until: at(T + YEAR) }));
            let Next::Wait { mono: None, wall: Some(due) } = renewal.next(&now(0, T)) else { panic!() };
            let passed = (due.as_second() - T) as f64 / YEAR as f64;
            assert!((0.7..0.9).contains(&passed), "{seed}: {passed}");
            assert_eq!(
                renewal.next(&now(0, due.as_second() - 1)),
                Next::Wait { mono: None, wall: Some(due) }
            );
            assert_eq!(renewal.next(&now(0, due.as_second())), Next::Create);
            // A clock that is behind does not lead to a request.
            assert_eq!(renewal.next(&now(0, 5)), Next::Wait { mono: None, wall: Some(due) });
        }
        let mut renewal = Renewal::new(7);
        renewal.has(None);
        assert_eq!(renewal.next(&now(0, T + 9 * YEAR)), Next::Wait { mono: None, wall: None });
        renewal.has_none();
        assert_eq!(renewal.next(&now(0, 0)), Next::Create);
    }

    #[test]
    fn a_year_of_short_certificates_takes_no_more_requests_than_it_must() {
        // Signed for an hour and backdated by five minutes, as by kube-controller-manager.
        let (mut renewal, mut wall, mut mono, mut signed) = (Renewal::new(321), T, 0, 0);
        renewal.has_none();
        while wall < T + 86_400 {
            match renewal.next(&now(mono, wall)) {
                Next::Create => {
                    renewal.told(CertificateNews::Pending, &now(mono, wall));
                }
                Next::Read => {
                    signed += 1;
                    let validity = Validity { from: at(wall - 300), until: at(wall + 3600) };
                    renewal.signed(validity, true, &now(mono, wall));
                }
                Next::Wait { mono: until, wall: due } => {
                    let step = until.map_or(i64::MAX, |until| until.0.as_secs() as i64 - mono as i64 + 1);
                    let step = step.min(due.map_or(i64::MAX, |due| due.as_second() - wall)).max(1);
                    (mono, wall) = (mono + step as u64, wall + step);
                }
            }
        }
        assert!((24..40).contains(&signed), "{signed}");
    }

    #[test]
    fn one_that_is_dated_back_by_more_than_it_holds_is_used_for_half_of_what_is_left() {
        let mut renewal = Renewal::new(999);
        renewal.signed(Validity { from: at(T - 300), until: at(T + 60) }, true, &now(1, T));
        assert_eq!(renewal.next(&now(1, T)), Next::Wait { mono: None, wall: Some(at(T + 30)) });
        assert_eq!(renewal.next(&now(31, T + 30)), Next::Create);
    }

    #[test]
    fn a_clock_that_is_years_ahead_brings_a_request_now_and_then_and_no_storm() {
        let mut renewal = Renewal::new(1);
        renewal.has(Some(Validity { from: at(T), until: at(T + YEAR) }));
        let (mut asked, ahead) = (0, T + 60 * YEAR);
        for second in 0..3600 {
            let now = now(second, ahead + second as i64);
            match renewal.next(&now) {
                Next::Create => {
                    asked += 1;
                    renewal.told(CertificateNews::Pending, &now);
                }
                Next::Read => {
                    renewal.signed(Validity { from: at(T), until: at(T + YEAR) }, true, &now);
                }
                Next::Wait { .. } => {}
            }
        }
        assert!((5..=7).contains(&asked), "{asked}");
        // NTP has corrected the clock.
        assert!(matches!(renewal.next(&now(3600, T + 1)), Next::Wait { mono: None, wall: Some(_) }));
    }

    #[test]
    fn waits_grow_and_end_with_an_answer() {
        let mut renewal = Renewal::new(0);
        renewal.has_none();
        let mut mono = 0;
        for expected in [2, 4, 8, 16, 32, 32] {
            assert_eq!(renewal.next(&now(mono, T)), Next::Create);
            renewal.told(CertificateNews::Failed, &now(mono, T));
            mono += expected;
            assert_eq!(
                renewal.next(&now(mono - 1, T)),
                Next::Wait { mono: Some(Mono(Duration::from_secs(mono))), wall: None }
            );
        }
        renewal.told(CertificateNews::Pending, &now(mono, T));
        assert_eq!(renewal.next(&now(mono + 1, T)), Next::Read, "the first look comes soon");
        // After a failure of the server, the same request is read again.
        renewal.told(CertificateNews::Failed, &now(mono, T));
        assert_eq!(renewal.next(&now(mono + 60, T)), Next::Read);
        renewal.told(CertificateNews::Gone, &now(mono + 60, T));
        assert_eq!(renewal.next(&now(mono + 120, T)), Next::Create);
        renewal.told(CertificateNews::Refused, &now(mono + 120, T));
        assert!(matches!(renewal.next(&now(mono + 700, T)), Next::Wait { mono: Some(_), wall: None }));
        assert_eq!(renewal.next(&now(mono + 720, T)), Next::Create);
    }
}
