//! One attempt of a probe, or one run of a hook. It never blocks: its owner polls its descriptors and calls
//! [`Attempt::advance`] until there is an outcome, or its deadline is reached.

use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use self::doubt::Doubt;
use self::exec::Exec;
use self::tcp::{Place, advance_tcp};
use super::grpc::{self, Health};
use super::http::{self, Next, Url};
use super::net::{Net, Progress};
use super::outcome::Outcome;
use super::spec::{Action, HookKind, HookStep, HttpGet};
use super::tls::{self, Tls};
use crate::base::limits;
use crate::runtime::client::Pending;
use crate::runtime::docker::Docker;
use crate::runtime::exec::Execution;
use crate::runtime::http1::Parser;

mod doubt;
mod exec;
mod tcp;

/// Shared parts of all attempts.
#[derive(Debug)]
pub struct Kit {
    docker: Docker,
    /// Time that Docker has to answer a call.
    patience: Duration,
    /// Created on first use.
    tls: OnceCell<Result<Tls, String>>,
}

impl Kit {
    /// Parts for this engine.
    #[must_use]
    pub fn new(docker: Docker) -> Kit {
        Kit { docker, patience: limits::PROBE_DOCKER, tls: OnceCell::new() }
    }
}

/// One probe or hook of one container.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Container id.
    pub id: &'a str,
    /// The pod's address.
    pub address: Option<IpAddr>,
    pub action: &'a Action,
    /// Time for the whole attempt; `None`: no limit.
    pub timeout: Option<Duration>,
    /// Set for a hook: the status of an HTTP answer does not matter then.
    pub hook: Option<HookKind>,
}

#[derive(Debug)]
pub struct Attempt {
    doing: Doing,
    timeout: Duration,
    deadline: Option<Instant>,
}

#[derive(Debug)]
enum Doing {
    Over(Outcome),
    Exec(Box<Exec>),
    Left { pending: Option<Pending>, text: String },
    Doubt(Box<Doubt>),
    Http(Box<Http>),
    Tcp { place: Place, net: Option<Net> },
    Grpc(Box<Grpc>),
}

#[derive(Debug)]
struct Http {
    get: HttpGet,
    first: Url,
    here: Url,
    place: Place,
    named: bool,
    followed: usize,
    hook: Option<HookKind>,
    net: Option<Net>,
    raw: Vec<u8>,
    parser: Parser,
    body: Vec<u8>,
}

#[derive(Debug)]
struct Grpc {
    shown: String,
    net: Net,
    health: Health,
    raw: Vec<u8>,
}

impl Attempt {
    /// Starts an attempt.
    #[must_use]
    pub fn begin(question: &Question<'_>, kit: &Kit) -> Attempt {
        let now = Instant::now();
        let timeout = question.timeout.unwrap_or(limits::HOOK_HTTP);
        let doing = Doing::begin(question, timeout, kit).unwrap_or_else(Doing::Over);
        // The time of a command starts when Docker has started it.
        let deadline = now.checked_add(timeout).filter(|_| !matches!(doing, Doing::Exec(_)));
        Attempt { doing, timeout, deadline }
    }

    /// An attempt that queries Docker and not the container: earlier commands of this probe outlived their
    /// timeout, and `first` is the oldest of them. The outcome is the failure `text` if that one still runs.
    #[must_use]
    pub fn of_left(kit: &Kit, first: &Execution, text: String) -> Attempt {
        let doing = Doing::Left { pending: first.inspect(), text };
        Attempt { doing, timeout: kit.patience, deadline: None }
    }

    /// A look at whether this failure is one of a container that has ended.
    #[must_use]
    pub fn of_doubt(container: &str, failure: Outcome) -> Attempt {
        let doing = Doing::Doubt(Box::new(Doubt::new(container, failure)));
        Attempt { doing, timeout: limits::PROBE_DOCKER, deadline: None }
    }

    /// Whether it is such a look.
    #[must_use]
    pub fn is_doubt(&self) -> bool {
        matches!(self.doing, Doing::Doubt(_))
    }

    /// What has happened to the command of a hook since the last call.
    pub fn take_news(&mut self) -> Option<HookStep> {
        if let Doing::Exec(exec) = &mut self.doing { exec.take_news() } else { None }
    }

    /// Advances as far as possible without waiting. Returns the outcome if there is one, also at the
    /// deadline.
    pub fn advance(&mut self, kit: &Kit) -> Option<Outcome> {
        let outcome = match &mut self.doing {
            Doing::Over(outcome) => Some(outcome.clone()),
            Doing::Exec(exec) => exec.advance(kit),
            Doing::Left { pending, text } => exec::left(pending.as_mut(), text),
            Doing::Doubt(doubt) => doubt.advance(&kit.docker),
            Doing::Http(http) => http.advance(kit),
            Doing::Tcp { place, net } => advance_tcp(place, net),
            Doing::Grpc(call) => call.advance(self.timeout),
        };
        let late = || self.deadline.is_some_and(|at| Instant::now() >= at).then(|| self.timed_out());
        outcome.or_else(late)
    }

    fn timed_out(&self) -> Outcome {
        match &self.doing {
            Doing::Over(outcome) => outcome.clone(),
            // These have no deadline here.
            Doing::Exec(_) | Doing::Left { .. } | Doing::Doubt(_) => {
                Outcome::unknown("the command's time is up")
            }
            Doing::Http(http) => http.timed_out(),
            Doing::Tcp { place, .. } => match place.socket() {
                Some(address) => Outcome::Failed(format!("dial tcp {address}: i/o timeout")),
                None => Outcome::Failed(format!("dial tcp: lookup {}: i/o timeout", place.host)),
            },
            Doing::Grpc(call) => Outcome::Failed(if call.health.is_greeted() {
                grpc::timed_out(self.timeout)
            } else {
                grpc::connect_timed_out(&call.shown, self.timeout)
            }),
        }
    }

    /// A host name that must be resolved before the attempt can continue.
    #[must_use]
    pub fn wants_name(&self) -> Option<&str> {
        let place = match &self.doing {
            Doing::Http(http) if http.net.is_none() => &http.place,
            Doing::Tcp { place, net: None } => place,
            _ => return None,
        };
        place.address.is_none().then_some(place.host.as_str())
    }

    /// Takes the address of that name, or the error.
    pub fn named(&mut self, result: &Result<IpAddr, String>) {
        let (place, url) = match &mut self.doing {
            Doing::Http(http) => (&mut http.place, Some(http.here.shown())),
            Doing::Tcp { place, .. } => (place, None),
            _ => return,
        };
        match result {
            Ok(address) => place.address = Some(*address),
            Err(why) => {
                let why = format!("dial tcp: lookup {}: {why}", place.host);
                let why = url.map_or_else(|| why.clone(), |url| get_error(&url, &why));
                self.doing = Doing::Over(Outcome::Failed(why));
            }
        }
    }

    /// The command, if it still runs: its output must be read until it ends.
    #[must_use]
    pub fn into_running(self) -> Option<Box<Execution>> {
        match self.doing {
            Doing::Exec(exec) => exec.into_running(),
            _ => None,
        }
    }

    /// Whether it runs a command.
    #[must_use]
    pub fn is_exec(&self) -> bool {
        matches!(self.doing, Doing::Exec(_))
    }

    /// Descriptors to poll; true: for writing, too.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, bool)> {
        let fds = match &self.doing {
            Doing::Over(_) => [None, None],
            Doing::Exec(exec) => exec.fds(),
            Doing::Left { pending, .. } => {
                [pending.as_ref().and_then(|call| Some((call.fd()?, call.wants_write()))), None]
            }
            Doing::Doubt(doubt) => [doubt.fd(), None],
            Doing::Http(http) => [http.net.as_ref().map(Net::polled), None],
            Doing::Tcp { net: open, .. } => [open.as_ref().map(Net::polled), None],
            Doing::Grpc(call) => [Some(call.net.polled()), None],
        };
        fds.into_iter().flatten()
    }

    /// Latest time of the next [`Attempt::advance`].
    #[must_use]
    pub fn wake(&self) -> Option<Instant> {
        let own = match &self.doing {
            Doing::Over(_) => Some(Instant::now()),
            Doing::Exec(exec) => exec.wake(),
            Doing::Left { pending, .. } => {
                Some(pending.as_ref().and_then(Pending::deadline).unwrap_or_else(Instant::now))
            }
            Doing::Doubt(doubt) => Some(doubt.wake()),
            _ => None,
        };
        [own, self.deadline].into_iter().flatten().min()
    }
}

impl Doing {
    /// `Err`: the outcome is known before the start.
    fn begin(question: &Question<'_>, timeout: Duration, kit: &Kit) -> Result<Doing, Outcome> {
        match question.action {
            Action::Exec(command) => {
                let timeout = question.timeout;
                let exec = Exec::begin(kit, question.id, command, timeout, question.hook);
                Ok(Doing::Exec(Box::new(exec)))
            }
            Action::Http(get) => {
                let first = Url::first(get, question.address).map_err(Outcome::unknown)?;
                Ok(Doing::Http(Box::new(Http {
                    get: get.clone(),
                    here: first.clone(),
                    place: Place::new(&first.host, first.port),
                    first,
                    named: true,
                    followed: 0,
                    hook: question.hook,
                    net: None,
                    raw: Vec::new(),
                    parser: Parser::new(u64::MAX),
                    body: Vec::new(),
                })))
            }
            Action::Tcp { host, port } => {
                let port = port.clone().map_err(Outcome::unknown)?;
                let place = match (host, question.address) {
                    (Some(host), _) => Place::new(host.trim_matches(['[', ']']), port),
                    (None, Some(address)) => Place { host: String::new(), port, address: Some(address) },
                    (None, None) => return Err(Outcome::unknown("the pod's address is not known")),
                };
                Ok(Doing::Tcp { place, net: None })
            }
            Action::Grpc { port, service } => {
                let Some(address) = question.address else {
                    return Err(Outcome::unknown("the pod's address is not known"));
                };
                let address = SocketAddr::new(address, *port);
                let shown = address.to_string();
                let failed = |why: String| Outcome::Failed(grpc::connect_failed(&shown, &why));
                let mut net = Net::open(address).map_err(failed)?;
                let mut out = Vec::new();
                let health = Health::begin(&shown, service, timeout, &mut out);
                net.push(&out).map_err(failed)?;
                Ok(Doing::Grpc(Box::new(Grpc { shown, net, health, raw: Vec::new() })))
            }
        }
    }
}

impl Grpc {
    fn advance(&mut self, timeout: Duration) -> Option<Outcome> {
        match self.net.advance_connect() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(why) => return Some(Outcome::Failed(grpc::connect_failed(&self.shown, &why))),
        }
        let progress = self.net.advance(&mut self.raw, limits::HTTP_READ);
        let bytes = std::mem::take(&mut self.raw);
        let mut out = Vec::new();
        if let Some(answer) = self.health.feed(&bytes, &mut out) {
            return Some(grpc::judge(&answer, timeout));
        }
        let sent = self.net.push(&out);
        match progress.and_then(|progress| sent.map(|()| progress)) {
            Ok(Progress::Waits) => None,
            Ok(Progress::Closed) if self.health.is_greeted() => {
                Some(grpc::judge(&self.health.closed(), timeout))
            }
            Ok(Progress::Closed) => Some(Outcome::Failed(grpc::connect_failed(
                &self.shown,
                "connection error: desc = \"error reading server preface: EOF\"",
            ))),
            Err(why) => Some(Outcome::Failed(grpc::connect_failed(&self.shown, &why))),
        }
    }
}

/// Go's words for a failed request.
fn get_error(url: &str, why: &str) -> String {
    format!("Get {url:?}: {why}")
}

impl Http {
    fn advance(&mut self, kit: &Kit) -> Option<Outcome> {
        loop {
            if self.net.is_none() {
                let address = self.place.socket()?;
                if let Err(why) = self.open(address, kit) {
                    return Some(self.failed(&why));
                }
            }
            let net = self.net.as_mut()?;
            let progress = net.advance(&mut self.raw, limits::HTTP_READ);
            let raw = std::mem::take(&mut self.raw);
            let fed = self.parser.feed(&raw, &mut self.body);
            let enough = self.body.len() >= limits::PROBE_OUTPUT;
            self.body.truncate(limits::PROBE_OUTPUT);
            let head = self.parser.head().map(|head| (head.status, head.location.clone()));
            let Some((status, location)) = head else {
                return match (fed, progress) {
                    (Err(why), _) => Some(self.failed(&format!("net/http: malformed HTTP response: {why}"))),
                    (_, Err(why)) if why == tls::PLAIN && self.hook.is_some() => {
                        // Upstream: a hook that uses https with a plain server is repeated over http.
                        self.here.tls = false;
                        self.again();
                        continue;
                    }
                    (_, Err(why)) => Some(self.failed(&why)),
                    (_, Ok(Progress::Closed)) => Some(self.failed("EOF")),
                    (_, Ok(Progress::Waits)) => None,
                };
            };
            let next =
                http::next(status, location.as_deref(), &self.first, &self.here, self.named, self.followed);
            match next {
                Next::Stop(why) => return Some(self.failed(&why)),
                Next::Follow(url, named) => {
                    self.followed = self.followed.saturating_add(1);
                    let known = self.place.address.filter(|_| url.host == self.here.host);
                    self.place = Place::new(&url.host, url.port);
                    self.place.address = self.place.address.or(known);
                    self.here = url;
                    self.named = named;
                    self.again();
                    continue;
                }
                Next::Judge => {}
            }
            if self.hook.is_some() {
                return Some(Outcome::Passed);
            }
            if enough || self.parser.is_done() {
                return Some(http::judge(status, &self.body));
            }
            return match (fed, progress) {
                (Err(why), _) => Some(body_error(&why.to_string())),
                (_, Err(why)) => Some(body_error(&why)),
                (_, Ok(Progress::Waits)) => None,
                (_, Ok(Progress::Closed)) if self.parser.finish() => Some(http::judge(status, &self.body)),
                (_, Ok(Progress::Closed)) => Some(body_error("unexpected EOF")),
            };
        }
    }

    fn open(&mut self, address: SocketAddr, kit: &Kit) -> Result<(), String> {
        let mut net = Net::open(address)?;
        if self.here.tls {
            let tls = kit.tls.get_or_init(Tls::new).as_ref().map_err(Clone::clone)?;
            net.encrypt(tls.connect(&self.here.host)?);
        }
        net.push(&http::request(&self.get, &self.here, self.named, self.hook))?;
        self.net = Some(net);
        Ok(())
    }

    fn again(&mut self) {
        self.net = None;
        self.raw.clear();
        self.body.clear();
        self.parser = Parser::new(u64::MAX);
    }

    fn failed(&self, why: &str) -> Outcome {
        Outcome::Failed(get_error(&self.here.shown(), why))
    }

    fn timed_out(&self) -> Outcome {
        const WAITING: &str = "(Client.Timeout exceeded while awaiting headers)";
        if self.parser.head().is_some() {
            let why = "context deadline exceeded (Client.Timeout or context cancellation while reading body)";
            return body_error(why);
        }
        match (&self.net, self.place.socket()) {
            (Some(net), _) if net.is_connected() => {
                self.failed(&format!("context deadline exceeded {WAITING}"))
            }
            (_, Some(address)) => self.failed(&format!("dial tcp {address}: i/o timeout {WAITING}")),
            (_, None) => self.failed(&format!("dial tcp: lookup {}: i/o timeout {WAITING}", self.place.host)),
        }
    }
}

/// A body that cannot be read is an error of the probe, not a failure (upstream `pkg/probe/http/http.go`).
fn body_error(why: &str) -> Outcome {
    Outcome::Errored { state: "failure", why: why.to_owned() }
}

#[cfg(test)]
mod tests;
