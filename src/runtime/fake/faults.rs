//! Faults of the in-memory Docker, chosen by a seed: each call and each event draws at random. Pure and
//! repeatable: the same seed and the same calls give the same faults.

use std::time::Duration;

use super::state::{State, refused};
use crate::base::clock::{Mono, Now};
use crate::runtime::{Call, ContainerSummary, DockerError, DockerState, RefusalKind as Kind, Reply, labels};

/// Delay before a call is carried out whose caller gave up ([`Fault::HangLate`]).
const LATE: Duration = Duration::from_secs(5);
/// Duration of a slow removal after its caller gave up ([`Fault::SlowRemove`]).
const SLOW: Duration = Duration::from_secs(15);
/// How long a foreign container holds a pod's container name ([`Fault::NameForeign`]).
const FOREIGN: Duration = Duration::from_secs(60);
/// How long after a death a list may show the container as running ([`Fault::ListBehind`]).
const BEHIND: Duration = Duration::from_secs(1);

/// One kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No answer in time, and the call was not carried out.
    Hang,
    /// No answer in time, yet the call was carried out.
    HangDone,
    /// No answer in time; the call is carried out seconds later, after the caller's next tries.
    HangLate,
    /// The connection broke before the call was carried out.
    Lost,
    /// The connection broke after the call was carried out.
    LostDone,
    /// 500 without a useful reason.
    Refused500,
    /// 500: no space left on device.
    NoSpace,
    /// 409 at create: the name's holder can be neither listed nor inspected (kubernetes/kubernetes#40443).
    NameGhost,
    /// 409 at create: a foreign container runs under our name; it is removed after a minute.
    NameForeign,
    /// 409 at create: a dead container of another pod UID of ours has the name.
    NameStale,
    /// The container vanishes between list and inspect.
    Vanished,
    /// A list still shows what has just died as running, as Docker's does between its event and its list.
    ListBehind,
    /// A removal hangs and goes on for some seconds.
    SlowRemove,
    /// This container's removal fails, now and always (moby/moby#22312).
    Undeletable,
    /// An event is not delivered.
    EventLost,
    /// An event is delivered twice.
    EventTwice,
    /// An event is delivered after the next one.
    EventOvertaken,
    /// No further event is delivered over this connection, which stays open.
    EventsSilent,
    /// The event stream ends after this event.
    EventsCut,
}

/// All kinds of faults.
pub const FAULTS: [Fault; 19] = [
    Fault::Hang,
    Fault::HangDone,
    Fault::HangLate,
    Fault::Lost,
    Fault::LostDone,
    Fault::Refused500,
    Fault::NoSpace,
    Fault::NameGhost,
    Fault::NameForeign,
    Fault::NameStale,
    Fault::Vanished,
    Fault::ListBehind,
    Fault::SlowRemove,
    Fault::Undeletable,
    Fault::EventLost,
    Fault::EventTwice,
    Fault::EventOvertaken,
    Fault::EventsSilent,
    Fault::EventsCut,
];

impl Fault {
    fn is_of_events(self) -> bool {
        use Fault::{EventLost, EventOvertaken, EventTwice, EventsCut, EventsSilent};
        matches!(self, EventLost | EventTwice | EventOvertaken | EventsSilent | EventsCut)
    }

    /// Whether the fault can happen to this call; `None` is a pull or a load.
    fn fits(self, call: Option<&Call>) -> bool {
        match self {
            Fault::Hang | Fault::Lost | Fault::Refused500 => true,
            Fault::HangDone | Fault::LostDone => call.is_some(),
            Fault::HangLate => {
                matches!(
                    call,
                    Some(
                        Call::Create { .. }
                            | Call::Start { .. }
                            | Call::Kill { .. }
                            | Call::Remove { .. }
                            | Call::ImageRemove { .. }
                    )
                )
            }
            Fault::NoSpace => {
                matches!(
                    call,
                    None | Some(Call::Create { .. } | Call::Start { .. } | Call::ExecCreate { .. })
                )
            }
            Fault::NameGhost | Fault::NameForeign | Fault::NameStale => {
                matches!(call, Some(Call::Create { .. }))
            }
            Fault::Vanished => matches!(call, Some(Call::Inspect { .. })),
            Fault::ListBehind => matches!(call, Some(Call::List { .. })),
            Fault::SlowRemove | Fault::Undeletable => matches!(call, Some(Call::Remove { .. })),
            _ => false,
        }
    }
}

/// The faults and how often they happen.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    rng: Rng,
    /// Chances in ten thousand.
    rates: Vec<(Fault, u16)>,
    until: Mono,
}

impl FaultPlan {
    /// A plan without faults.
    #[must_use]
    pub fn none() -> Self {
        Self::seeded(0, &[], Mono::default())
    }

    /// Each fault with its chance in ten thousand, until that time; no faults afterwards.
    #[must_use]
    pub fn seeded(seed: u64, rates: &[(Fault, u16)], until: Mono) -> Self {
        FaultPlan { rng: Rng::new(seed), rates: rates.to_vec(), until }
    }

    /// Every fault with the same chance in ten thousand.
    #[must_use]
    pub fn all(seed: u64, chance: u16, until: Mono) -> Self {
        Self::seeded(seed, &FAULTS.map(|fault| (fault, chance)), until)
    }

    pub(super) fn draw(&mut self, call: Option<&Call>, at: Mono) -> Option<Fault> {
        self.pick(at, |fault| fault.fits(call))
    }

    pub(super) fn draw_event(&mut self, at: Mono) -> Option<Fault> {
        self.pick(at, Fault::is_of_events)
    }

    fn pick(&mut self, at: Mono, fits: impl Fn(Fault) -> bool) -> Option<Fault> {
        if at >= self.until {
            return None;
        }
        let rng = &mut self.rng;
        let happens =
            |(fault, chance): &&(Fault, u16)| fits(*fault) && rng.number() % 10_000 < u64::from(*chance);
        self.rates.iter().find(happens).map(|(fault, _)| *fault)
    }
}

/// SplitMix64 (public domain, Sebastiano Vigna): one number after the other from a seed.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl State {
    /// Lets a call fail with this fault.
    pub(super) fn fail(&mut self, fault: Fault, call: &Call, now: Now) -> Result<Reply, DockerError> {
        let timeout = || Err(DockerError::Timeout(format!("fake {fault:?}")));
        match (fault, call) {
            (Fault::HangDone, _) => {
                drop(self.carry_out(call, now));
                timeout()
            }
            (Fault::HangLate, _) => {
                self.carry_out_late(call, now.mono.after(LATE));
                timeout()
            }
            (Fault::LostDone, _) => {
                drop(self.carry_out(call, now));
                Err(DockerError::Lost(format!("fake {fault:?}")))
            }
            (Fault::NameGhost, Call::Create { name, .. }) => {
                // A name in use keeps its holder.
                if self.get(name).is_none() && !self.hidden_names.contains_key(name) {
                    let holder = self.new_id();
                    self.hidden_names.insert(name.clone(), holder);
                }
                self.carry_out(call, now)
            }
            (Fault::NameForeign, Call::Create { name, .. }) => {
                if self.get(name).is_none() && !self.hidden_names.contains_key(name) {
                    let id = self.plant(name, &[("com.example", "foreign")], true, now);
                    self.remove_at(&id, now.mono.after(FOREIGN));
                }
                self.carry_out(call, now)
            }
            (Fault::NameStale, Call::Create { name, body }) => {
                if self.get(name).is_none() && !self.hidden_names.contains_key(name) {
                    let mut labels = body.labels.clone();
                    labels.insert(labels::POD_UID.into(), "stale".into());
                    labels.insert(labels::HASH.into(), "0badc0de".into());
                    // Another manifest made it: with equal hashes it would be this pod (`merge::names`).
                    labels.insert(labels::WRITTEN.into(), "0badc0de".into());
                    labels.insert(labels::SHAPE.into(), "0badc0de".into());
                    let labels: Vec<_> = labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
                    let id = self.plant(name, &labels, true, now);
                    self.crash(&id, 1, now);
                }
                self.carry_out(call, now)
            }
            (Fault::Vanished, Call::Inspect { id }) => {
                self.remove_behind_our_back(id, now);
                self.carry_out(call, now)
            }
            (Fault::ListBehind, Call::List { .. }) => {
                let mut answer = self.carry_out(call, now);
                if let Ok(Reply::Containers(list)) = &mut answer {
                    list.iter_mut().for_each(|shown| self.show_as_before(shown, now));
                }
                answer
            }
            (Fault::SlowRemove, Call::Remove { id, .. }) => {
                self.remove_slowly(id, SLOW, now);
                match self.get(id).map(|c| c.state) {
                    Some(DockerState::Removing) => timeout(),
                    _ => self.carry_out(call, now),
                }
            }
            (Fault::Undeletable, Call::Remove { id, .. }) => {
                self.refuse_removal(id, true);
                self.carry_out(call, now)
            }
            _ => Err(self.stream_fails(fault, "call")),
        }
    }

    /// Shows a container that has just died as if it still ran.
    fn show_as_before(&self, shown: &mut ContainerSummary, now: Now) {
        let ended = self.get(&shown.id).and_then(|c| c.finished);
        if shown.state == DockerState::Exited && ended.is_some_and(|at| now.mono.since(at.mono) < BEHIND) {
            shown.state = DockerState::Running;
            shown.status = "Up Less than a second".to_owned();
        }
    }

    /// The errors of faults that do not depend on the call.
    pub(super) fn stream_fails(&self, fault: Fault, what: &str) -> DockerError {
        match fault {
            Fault::Hang => DockerError::Timeout(format!("fake Hang of a {what}")),
            Fault::NoSpace => {
                let why = "mkdir /var/lib/docker/overlay2/fake-init: no space left on device";
                refused(Kind::Server, 500, why)
            }
            Fault::Refused500 => refused(Kind::Server, 500, "fake engine: internal error"),
            _ => DockerError::Lost(format!("fake {fault:?} of a {what}")),
        }
    }
}
