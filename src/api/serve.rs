//! Finds the handler of each request.
//!
//! Never here: any answer to an unknown client but that it is unknown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::json::json;
use serde_json::Value;

use super::asked::{Form, Wanted, form};
use super::failure::Failure;
use super::kinds::Resource;
use super::page::Page;
use super::path::{Route, Target, route};
use super::rights::{self, Act};
use super::room::{self, Room};
use super::watch::Watch;
use super::world::World;
use super::write::parts::Sent;
use super::write::patch;
use super::write::writes::{Done, Writes};
use super::{discovery, identity, metrics, openapi, proto, reads, streams};
use crate::base::clock::{Clock as _, System};
use crate::base::json as json_text;
use crate::base::limits;
use crate::server::auth::{self, User};
use crate::server::census::{Census, Client, Full};
use crate::server::http::answer::{Answer, JSON};
use crate::server::http::request::{Method, Request};
use crate::server::kubelet::Node;
use crate::server::service::{Asked, Reply, Service};
use crate::server::tls::Certificates;

/// The API of this node.
pub struct Api {
    pub node: Arc<Node>,
    pub world: Arc<World>,
    pub writes: Option<Writes>,
    pub auth: rights::Rules,
    pub certificates: Arc<Certificates>,
    /// Open watches.
    pub watches: Census,
    pub room: Room,
    /// The API's address, for clients.
    pub address: String,
    /// The page for people.
    pub page: Page,
}

/// An open stream, until dropped.
pub struct Seat(pub Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service for Api {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let other = asked.request.impersonated();
        if other.is_none() && self.page.is_asked(asked.request) {
            return self.page.answer(self, asked);
        }
        let user = match self.user(asked) {
            Ok(user) => user,
            Err(why) => {
                log::debug!("a request of {} is not answered: {why}", asked.peer);
                return Failure::new(401, "Unauthorized").answer().into();
            }
        };
        let reply = match other {
            // Nothing would be worse than an answer with the rights of the user itself.
            Some(_) => Err(rights::forbidden(&user, rights::IMPERSONATE, other)),
            None => self.reply(asked, &user),
        };
        reply.unwrap_or_else(|failure| {
            log::debug!("{} of {}: {} {}", user.name, asked.peer, failure.code, failure.message);
            failure.answer().into()
        })
    }
}

/// An answer in JSON.
fn json(status: u16, value: &Value) -> Reply {
    Answer::new(status, JSON, value.to_string()).into()
}

/// The writing manager: the parameter of the request, or the name of the client's program.
fn manager(request: &Request) -> &str {
    let given = request.query.get("fieldManager").filter(|manager| !manager.is_empty());
    let program = || request.header("user-agent").and_then(|agent| agent.split('/').next());
    given.or_else(program).unwrap_or("unknown")
}

/// The answer to a write.
fn done(done: Done) -> Reply {
    let answer = Answer::new(done.code, JSON, done.value.to_string());
    let warn = |answer: Answer, text: &String| {
        // Quoted as in RFC 7234; a header has no control characters.
        let quoted: String = text.chars().filter(|c| !c.is_control()).take(limits::API_WARNING).collect();
        let quoted = quoted.replace('\\', "\\\\").replace('"', "\\\"");
        answer.with("Warning", format!("299 - \"{quoted}\""))
    };
    done.warnings.iter().take(limits::API_WARNINGS).fold(answer, warn).into()
}

impl Api {
    /// The user who sent the request. Anonymous requests are refused here.
    ///
    /// # Errors
    /// The reason why the client is unknown.
    pub fn user(&self, asked: &Asked<'_>) -> Result<User, String> {
        auth::identified(&self.certificates, self.auth.webhook.as_ref(), asked.certificates, asked.request)
    }

    fn reply(&self, asked: &mut Asked<'_>, user: &User) -> Result<Reply, Failure> {
        let request = asked.request;
        let route = route(&request.path);
        if let Route::Object(target) = route {
            return self.object(target, asked, user);
        }
        let verb = auth::verb(request.method);
        if !rights::allows_path(&self.auth, user, verb, &request.path)? {
            let why = format!("forbidden: User {:?} cannot {verb} path {:?}", user.name, request.path);
            return Err(Failure { details: json!({}), ..Failure::new(403, why) });
        }
        if !request.is_get() {
            return Err(if route == Route::Unknown {
                Failure::no_resource()
            } else {
                Failure::not_allowed()
            });
        }
        self.page(&route, request)
    }

    /// Answers routes that are no object.
    fn page(&self, route: &Route<'_>, request: &Request) -> Result<Reply, Failure> {
        let aggregated = discovery::aggregated(request.header("accept").unwrap_or_default());
        let list = |version, is_core| {
            let value = discovery::aggregated_list(version, is_core).to_string();
            Answer::new(200, &discovery::aggregated_type(version), value).into()
        };
        Ok(match (route, aggregated) {
            (Route::Core, Some(version)) => list(version, true),
            (Route::Groups, Some(version)) => list(version, false),
            (Route::Core, None) => json(200, &discovery::versions(&self.address)),
            (Route::Groups, None) => json(200, &discovery::group_list()),
            (Route::Group(name), _) => json(200, &discovery::one_group(name)?),
            (Route::Version(group, version), _) => json(200, &discovery::resources(group, version)?),
            (Route::ServerVersion, _) => json(200, &super::version()),
            (Route::Health, _) => Answer::new(200, "text/plain; charset=utf-8", "ok").into(),
            (Route::OpenApi, _) => json(200, &openapi::index()),
            (Route::OpenApiOf(group, version), _) => {
                let document = openapi::document(group, version).ok_or_else(Failure::no_resource)?;
                json(200, &document)
            }
            (Route::OpenApiOld, _)
                if request.header("accept").is_some_and(|accept| accept.starts_with(JSON)) =>
            {
                json(
                    200,
                    &json!({"swagger": "2.0", "info": {"title": "podkeeper", "version": "v1"}, "paths": {}}),
                )
            }
            // An empty message is an empty document. The type is upstream's without its `@`, which a type must not
            // have.
            (Route::OpenApiOld, _) => {
                Answer::new(200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", "").into()
            }
            (Route::Unknown | Route::Object(_), _) => return Err(Failure::no_resource()),
        })
    }

    fn object(&self, target: Target<'_>, asked: &mut Asked<'_>, user: &User) -> Result<Reply, Failure> {
        let request = asked.request;
        let is_stream = target.part.is_some_and(|part| part.verbs.contains(&"create"));
        let watch = request.query.switch("watch").unwrap_or(false);
        let verb = match (request.method, target.name) {
            // WebSocket begins with a GET, and needs the same right as SPDY.
            (Method::Get | Method::Post, Some(_)) if is_stream => "create",
            (Method::Get | Method::Head, None) if watch => "watch",
            (Method::Get | Method::Head, None) => "list",
            (Method::Delete, None) => "deletecollection",
            (method, _) => auth::verb(method),
        };
        let act = Act {
            verb,
            group: target.kind.group,
            resource: target.kind.plural,
            part: target.part.map_or("", |part| part.name),
            namespace: target.namespace.unwrap_or_default(),
        };
        if !rights::allows(&self.auth, user, act, target.name)? {
            return Err(rights::forbidden(user, act, target.name));
        }
        let offers = target.part.map_or(target.kind.verbs, |part| part.verbs);
        if !offers.contains(&verb) {
            return Err(Failure::read_only(target.kind));
        }
        // A review is small, and needs no place.
        let writes = target.kind.is_listed() && !is_stream;
        let _place = if writes { self.room.of_body(&asked.body)? } else { None };
        match (verb, target.name, target.part) {
            ("get", Some(name), None) => self.get(target, name, request),
            ("get", Some(name), Some(part)) if part.kind == "Pod" && part.name != "log" => {
                self.get(target, name, request)
            }
            ("patch" | "update", Some(name), Some(_)) => {
                self.change_part(target, name, asked, verb == "patch")
            }
            ("deletecollection", None, None) => self.delete_all(target, asked),
            ("get" | "create", Some(name), Some(part)) => {
                let pod = reads::get(&self.world.now(), target.kind, target.namespace, name)?;
                streams::answer(&self.node, &pod.value, part.name, request)
            }
            ("list", ..) => self.list(target, request, &asked.client),
            ("watch", ..) => self.watch(target, request, user),
            ("create", None, None) if target.kind.is_listed() => {
                let body = self.body(asked)?;
                self.writes()?.create(target, &request.query, body).map(done)
            }
            ("update", Some(name), None) => {
                let body = self.body(asked)?;
                self.writes()?.replace(target, name, &request.query, manager(request), body).map(done)
            }
            ("patch", Some(name), None) => self.patch(target, name, asked),
            ("delete", Some(name), None) => {
                let options = self.body(asked)?;
                self.writes()?.delete(target, name, &request.query, &options).map(done)
            }
            ("create", None, None) => {
                let body = self.review(asked)?;
                Ok(json(201, &identity::review(target.kind, &body, &self.auth, user)?))
            }
            _ => Err(Failure::not_allowed()),
        }
    }

    fn patch(&self, target: Target<'_>, name: &str, asked: &mut Asked<'_>) -> Result<Reply, Failure> {
        let request = asked.request;
        let (query, content) = (&request.query, request.header("content-type"));
        if content.is_some_and(|content| content.starts_with("application/apply-patch+yaml")) {
            let bytes = self.bytes(asked)?;
            let body = proto::object(Some("application/yaml"), &bytes, limits::API_BODY_VALUES)?;
            return self.writes()?.apply(target, name, query, body).map(done);
        }
        patch::Kind::of(content)?;
        let body = self.patch_body(asked)?;
        self.writes()?.patch(target, name, query, content, manager(request), &body).map(done)
    }

    fn change_part(
        &self,
        target: Target<'_>,
        name: &str,
        asked: &mut Asked<'_>,
        is_patch: bool,
    ) -> Result<Reply, Failure> {
        let (writes, request) = (self.writes()?, asked.request);
        let (body, by);
        let sent = if is_patch {
            by = patch::Kind::of(request.header("content-type"))?;
            body = self.patch_body(asked)?;
            Sent::Patch(by, &body)
        } else {
            body = self.body(asked)?;
            Sent::Whole(&body)
        };
        writes.change_part(target, name, &request.query, manager(request), sent).map(done)
    }

    fn delete_all(&self, target: Target<'_>, asked: &mut Asked<'_>) -> Result<Reply, Failure> {
        let options = self.body(asked)?;
        let query = &asked.request.query;
        let wanted = Wanted::read(target.kind, None, query)?;
        let gone = self.writes()?.delete_all(target, &wanted, query, &options)?;
        let version = self.world.now().version().to_string();
        // The deletion is done, even if there is no room for a list of the objects.
        let done = |_| {
            Ok(json(
                200,
                &crate::base::json::json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}),
            ))
        };
        self.room.answer(&asked.client, || Ok(reads::list_of(target.kind, &version, &gone))).or_else(done)
    }

    fn patch_body(&self, asked: &mut Asked<'_>) -> Result<Value, Failure> {
        let bytes = self.bytes(asked)?;
        serde_json::from_slice(&bytes)
            .map_err(|error| Failure::new(400, format!("the patch is no JSON: {error}")))
    }

    fn writes(&self) -> Result<&Writes, Failure> {
        self.writes.as_ref().ok_or_else(|| {
            Failure::new(
                403,
                "the API server of the cluster owns what runs on this node (--kubeconfig): write there",
            )
        })
    }

    fn bytes(&self, asked: &mut Asked<'_>) -> Result<Vec<u8>, Failure> {
        Api::read(asked, limits::API_BODY)
    }

    fn read(asked: &mut Asked<'_>, most: usize) -> Result<Vec<u8>, Failure> {
        let bytes = asked.body.read(most).map_err(|refused| Failure::new(refused.status, refused.why))?;
        room::check_values(&bytes)?;
        Ok(bytes)
    }

    /// The object in the body.
    fn body(&self, asked: &mut Asked<'_>) -> Result<Value, Failure> {
        let bytes = self.bytes(asked)?;
        proto::object(asked.request.header("content-type"), &bytes, limits::API_BODY_VALUES)
    }

    /// The body of a review, which every identified user may send: small, and with few values.
    fn review(&self, asked: &mut Asked<'_>) -> Result<Value, Failure> {
        let bytes = Api::read(asked, limits::API_SMALL_BODY)?;
        let content = asked.request.header("content-type");
        // YAML has a line for each value, or commas like JSON.
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
        if json_text::values(&bytes).saturating_add(lines) > limits::API_REVIEW_VALUES {
            return Err(Failure::new(413, "the body of the request has too many values"));
        }
        proto::object(content, &bytes, limits::API_REVIEW_VALUES)
    }

    fn is_measured(target: &Target<'_>) -> bool {
        matches!(target.kind.resource, Resource::NodeMetrics | Resource::PodMetrics)
    }

    fn measured(&self, target: Target<'_>, request: &Request) -> Result<Reply, Failure> {
        let like = match target.kind.resource {
            Resource::NodeMetrics => Resource::Nodes,
            _ => Resource::Pods,
        };
        let like = super::kinds::of(like).unwrap_or(target.kind);
        let wanted = Wanted::read(like, request.header("accept"), &request.query)?;
        let summary = self.node.figures.light(&self.node);
        let (state, now) = (self.world.now(), System::start().now().wall);
        let (namespace, name) = (target.namespace, target.name);
        metrics::answer(&state, target.kind, namespace, name, &wanted, &summary, now)
            .map(|value| json(200, &value))
    }

    fn get(&self, target: Target<'_>, name: &str, request: &Request) -> Result<Reply, Failure> {
        if Api::is_measured(&target) {
            return self.measured(target, request);
        }
        let form = form(request.header("accept"), &request.query)?;
        let object = reads::get(&self.world.now(), target.kind, target.namespace, name)?;
        Ok(json(200, &reads::in_form(target.kind, &object, form)))
    }

    fn list(&self, target: Target<'_>, request: &Request, client: &Client) -> Result<Reply, Failure> {
        if Api::is_measured(&target) {
            return self.measured(target, request);
        }
        let wanted = Wanted::read(target.kind, request.header("accept"), &request.query)?;
        let list = || reads::list(&self.world.now(), target.kind, target.namespace, &wanted);
        self.room.answer(client, || list().map(|list| list.to_string()))
    }

    fn watch(&self, target: Target<'_>, request: &Request, user: &User) -> Result<Reply, Failure> {
        let wanted = Wanted::read(target.kind, request.header("accept"), &request.query)?;
        let seat = self.watches.enter(Client::User(user.name.as_str().into())).map_err(|full| {
            let (most, whose) = match full {
                Full::All => (limits::API_WATCHES, "on this node"),
                Full::Client => (limits::API_WATCHES_OF_USER, "of this user"),
            };
            Failure::new(429, format!("{most} watches {whose} are open, and no more may be"))
        })?;
        let no_waker = |error: std::io::Error| Failure::new(500, format!("no watch can be begun: {error}"));
        let content = match wanted.form {
            Form::Whole => JSON,
            Form::Table(_) => "application/json;as=Table;g=meta.k8s.io;v=v1",
            Form::Partial => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        };
        let watch = Watch {
            world: Arc::clone(&self.world),
            kind: target.kind,
            namespace: target.namespace.map(str::to_owned),
            name: target.name.map(str::to_owned),
            wanted,
            waker: self.world.told().waker().map_err(no_waker)?,
        };
        let pour = move |sink: &mut crate::server::connection::Sink<'_>| {
            let _seat = seat;
            watch.pour(sink)
        };
        Ok(Reply::Stream(Answer::new(200, content, ""), Box::new(pour)))
    }
}
