//! The page for people: live, at `/` of the API, for browsers. It changes nothing.
//!
//! A link opens it once. `podkeeper page` asks for the link ([`ask`]), with a certificate that only root can have; a
//! browser that follows it gets a cookie ([`sessions`]). With the cookie it gets the paths of this file and nothing
//! else of the API. [`asks`] finds out whether another site has made a request. [`live`] sends updates, [`view`] has
//! what is shown, [`figures`] the last minutes.
//!
//! Never here: anything that changes something, or work while no page is open.

pub mod ask;
mod asks;
mod figures;
mod html;
mod live;
mod sessions;
mod view;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::json::json;

use super::failure::Failure;
use super::rights::{self, Act, Rules};
use super::serve::{Api, Seat};
use crate::base::clock::{Clock as _, Mono, System};
use crate::base::limits;
use crate::base::wait::later;
use crate::server::auth::User;
use crate::server::http::answer::{Answer, JSON};
use crate::server::http::query::Query;
use crate::server::http::request::{Method, Request};
use crate::server::kubelet::container_logs;
use crate::server::service::{Asked, Reply};
use figures::Figures;
use live::Live;
use sessions::Sessions;

/// The group that may only ask for a link. `kubeconfig` makes no user of it.
const GROUP: &str = "podkeeper:page";
/// Paths. The first one is also the page's.
const OPEN: &str = "/page/open";
const LINK: &str = "/page/link";
const NEWS: &str = "/page/news";
const LOG: &str = "/page/log";

/// The page of a node.
#[derive(Debug)]
pub struct Page {
    clock: System,
    /// `None` if the system has no random numbers: then the page is closed to everyone.
    sessions: Option<Mutex<Sessions>>,
    figures: Arc<Figures>,
    /// Number of open pages and logs.
    streams: Arc<AtomicUsize>,
    /// Names of the node: a browser's request must be for one of them.
    names: Vec<String>,
    /// Name of the cookie, which contains the port: browsers share cookies between ports of a machine.
    cookie: String,
}

impl Page {
    /// Whether a request is for the page. At `/` the page is for browsers, and for all that send its cookie.
    #[must_use]
    pub fn is_asked(&self, request: &Request) -> bool {
        match request.path.as_str() {
            "/" => asks::wants_html(request) || self.session(request).is_some(),
            path => path == "/page" || path.starts_with("/page/"),
        }
    }

    /// The page of a node with these names, at this port.
    #[must_use]
    pub fn new(names: Vec<String>, port: u16) -> Page {
        let sessions = Sessions::new().map_err(|why| log::error!("nobody can open the page: {why}"));
        Page {
            clock: System::start(),
            sessions: sessions.ok().map(Mutex::new),
            figures: Arc::default(),
            streams: Arc::default(),
            names,
            cookie: format!("__Host-podkeeper-{port}"),
        }
    }

    /// Answers a request for the page.
    #[must_use]
    pub fn answer(&self, api: &Api, asked: &mut Asked<'_>) -> Reply {
        let request = asked.request;
        if request.path == OPEN && request.is_get() {
            return self.open(asked);
        }
        let user = api.user(asked).ok();
        let session = self.session(request);
        let may_see = match &user {
            Some(user) => sees(&api.auth, user),
            None if session.is_some() => {
                asked.body.vouch("podkeeper:page");
                true
            }
            None => return refused(request, 401, "Unauthorized"),
        };
        let may_link = user.as_ref().is_some_and(|user| links(&api.auth, user));
        if let Err(why) = asks::own_site(request, &self.names) {
            log::debug!("a request of {} for the page is not answered: {why}", asked.peer);
            return refused(request, 403, why);
        }
        match (request.path.as_str(), request.method) {
            (LINK, Method::Post) if may_link => self.link(),
            (LINK, _) if session.is_some() || request.method == Method::Post => refused(
                request,
                403,
                "only root on the node, and users who may do everything, can have a link made",
            ),
            _ if !may_see => refused(request, 403, "this user may not see the node"),
            (_, method) if !matches!(method, Method::Get | Method::Head) => {
                refused(request, 405, "the page only shows")
            }
            ("/", _) => html::page().into(),
            (NEWS | LOG, Method::Head) => html::secure(Answer::new(200, "", "")).into(),
            (NEWS, _) => self.news(api, request),
            (LOG, _) => self.log(api, request),
            _ => refused(request, 404, "the page has no such part"),
        }
    }

    /// Opens a session by a link.
    fn open(&self, asked: &mut Asked<'_>) -> Reply {
        let request = asked.request;
        if let Err(why) = asks::own_host(request, &self.names) {
            return refused(request, 403, why);
        }
        if request.method == Method::Head || !asks::is_followed(request) {
            return refused(
                request,
                401,
                "a link is used up by a browser that shows the page, and by nothing else",
            );
        }
        let token = request.query.get("token").unwrap_or_default();
        let opened = self.with(|sessions, now| sessions.open(token, now));
        match opened {
            Some(Ok(Some(session))) => {
                log::info!("a browser at {} has opened the page", asked.peer.ip());
                let cookie = &self.cookie;
                // Without an end: the browser forgets it when it ends.
                html::opened(format!("{cookie}={session}; Path=/; Secure; HttpOnly; SameSite=Strict")).into()
            }
            // A browser that has the page already gets it again, by a link in its history too.
            Some(Ok(None)) if self.session(request).is_some() => html::opened_before().into(),
            Some(Ok(None)) => {
                log::warn!("{} has a link to the page that was used or is too old", asked.peer.ip());
                html::closed().into()
            }
            Some(Err(why)) => refused(request, 503, &why),
            None => refused(request, 503, "the system has no random numbers"),
        }
    }

    /// Makes a link; answers with its token.
    fn link(&self) -> Reply {
        match self.with(|sessions, now| sessions.link(now)) {
            Some(Ok(token)) => {
                let seconds = limits::PAGE_LINK.as_secs();
                let body = json!({"path": OPEN, "token": token, "seconds": seconds}).to_string();
                html::secure(Answer::new(201, JSON, body)).into()
            }
            Some(Err(why)) => Failure::new(503, why).answer().into(),
            None => Failure::new(503, "the system has no random numbers").answer().into(),
        }
    }

    fn news(&self, api: &Api, request: &Request) -> Reply {
        let Some(seat) = self.seat() else { return too_many(request) };
        let waker = match api.world.told().waker() {
            Ok(waker) => waker,
            Err(error) => return refused(request, 500, &format!("no news can be told: {error}")),
        };
        let (node, world) = (Arc::clone(&api.node), Arc::clone(&api.world));
        let live = Live { node, world, figures: Arc::clone(&self.figures), waker };
        let pour = move |sink: &mut crate::server::connection::Sink<'_>| {
            let _seat = seat;
            live.pour(sink)
        };
        Reply::Stream(html::secure(Answer::new(200, "text/event-stream", "")), Box::new(pour))
    }

    /// The end of a log, and its continuation.
    fn log(&self, api: &Api, request: &Request) -> Reply {
        let text = |name: &str| request.query.get(name).unwrap_or_default();
        let is_name = |name: &str| !text(name).is_empty() && !text(name).contains('/');
        if !["ns", "pod", "container"].into_iter().all(is_name) {
            return refused(request, 400, "name ns, pod and container");
        }
        let lines = text("lines").parse::<u32>().unwrap_or(limits::PAGE_LINES).min(limits::PAGE_LINES);
        let on = |name: &str| request.query.switch(name).unwrap_or(false);
        let (follow, previous) = (on("follow"), on("previous"));
        let query = Query::parse(&format!("tailLines={lines}&follow={follow}&previous={previous}"));
        let rest = format!("{}/{}/{}", text("ns"), text("pod"), text("container"));
        let Some(seat) = self.seat() else { return too_many(request) };
        let end = Some(later(limits::PAGE_LOG));
        match container_logs::answer_until(&api.node, &rest, &query.unwrap_or_default(), end) {
            Reply::Stream(answer, pour) => {
                let pour = move |sink: &mut crate::server::connection::Sink<'_>| {
                    let _seat = seat;
                    pour(sink)
                };
                Reply::Stream(html::secure(answer), Box::new(pour))
            }
            Reply::Whole(answer) => html::secure(answer).into(),
            upgrade @ Reply::Upgrade(..) => upgrade,
        }
    }

    /// The session of the request's cookie.
    fn session<'r>(&self, request: &'r Request) -> Option<&'r str> {
        let is_known =
            |session: &str| self.with(|sessions, now| sessions.knows(session, now)).unwrap_or(false);
        asks::cookie(request, &self.cookie).filter(|session| is_known(session))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Sessions, Mono) -> T) -> Option<T> {
        // The sessions are consistent after every change.
        let mut sessions = self.sessions.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        Some(act(&mut sessions, self.clock.now().mono))
    }

    fn seat(&self) -> Option<Seat> {
        let open = self.streams.fetch_add(1, Ordering::Relaxed);
        let seat = Seat(Arc::clone(&self.streams));
        (open < limits::PAGE_STREAMS).then_some(seat)
    }
}

/// Whether a user with a certificate may see the page: one who may view pods and their logs.
fn sees(rules: &Rules, user: &User) -> bool {
    let get = |part| Act { verb: "get", group: "", resource: "pods", part, namespace: "" };
    ["", "log"].iter().all(|part| rights::allows(rules, user, get(part), None).unwrap_or(false))
}

/// Whether a user may ask for a link.
fn links(rules: &Rules, user: &User) -> bool {
    let everything = Act { verb: "*", group: "*", resource: "*", part: "", namespace: "" };
    user.groups.contains(GROUP) || rights::allows(rules, user, everything, None).unwrap_or(false)
}

fn too_many(request: &Request) -> Reply {
    refused(request, 429, "too many pages and logs of this node are open")
}

/// A refusal: a page for a person, a status for a program.
fn refused(request: &Request, code: u16, why: &str) -> Reply {
    if code == 401 && asks::wants_html(request) {
        return html::closed().into();
    }
    html::secure(Failure::new(code, why).answer()).into()
}
