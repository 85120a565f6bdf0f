//! The parameters of a request for objects: which ones, from which version, and in which form. Pure.

use super::failure::Failure;
use super::kinds::Kind;
use super::selector::Selector;
use super::table::Include;
use crate::base::limits;
use crate::server::http::query::Query;

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The objects.
    Whole,
    Table(Include),
    /// Their metadata alone.
    Partial,
}

/// The meaning of a list's resourceVersion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    NotOlderThan,
    Exact,
}

/// The parameters of a list or a watch.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub selector: Selector,
    pub form: Form,
    pub watch: bool,
    /// `None` for the newest.
    pub version: Option<u64>,
    pub matched: Option<Match>,
    pub bookmarks: bool,
    /// `sendInitialEvents`, when given.
    pub initial: Option<bool>,
    /// Seconds.
    pub timeout: Option<u64>,
    /// Number of objects in one answer; 0 for all.
    pub limit: usize,
    pub from: Option<String>,
}

/// The first known form that `Accept` asks for.
///
/// # Errors
/// No form is known.
pub fn form(accept: Option<&str>, query: &Query) -> Result<Form, Failure> {
    let include = Include::parse(query.get("includeObject"))
        .ok_or_else(|| Failure::new(400, "unrecognized includeObject value"))?;
    let accept = accept.filter(|accept| !accept.trim().is_empty()).unwrap_or("*/*");
    for media in accept.split(',').take(limits::API_ACCEPTS) {
        let mut parts = media.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.collect();
        let is_json = ["application/json", "application/*", "*/*"].contains(&name);
        let has = |part: &str| parts.contains(&part);
        let of_meta = has("g=meta.k8s.io") && (has("v=v1") || has("v=v1beta1"));
        let plain = !parts.iter().any(|part| part.starts_with("as="));
        match () {
            () if !is_json => {}
            () if plain => return Ok(Form::Whole),
            () if has("as=Table") && of_meta => return Ok(Form::Table(include)),
            () if of_meta && (has("as=PartialObjectMetadata") || has("as=PartialObjectMetadataList")) => {
                return Ok(Form::Partial);
            }
            () => {}
        }
    }
    let known = "only the following media types are accepted: application/json";
    Err(Failure::new(406, known))
}

impl Wanted {
    /// Parses the parameters.
    ///
    /// # Errors
    /// The error in them.
    pub fn read(kind: &Kind, accept: Option<&str>, query: &Query) -> Result<Wanted, Failure> {
        let bad = |why: String| Failure::new(400, why);
        let number = |name: &str| match query.get(name).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| bad(format!("{name}: Invalid value: {text:?}")))
            }
        };
        let switch =
            |name: &str| query.switch(name).ok_or_else(|| bad(format!("{name}: must be true or false")));
        let initial = match query.get("sendInitialEvents").filter(|text| !text.is_empty()) {
            None => None,
            Some(_) => Some(switch("sendInitialEvents")?),
        };
        let matched = match query.get("resourceVersionMatch").filter(|text| !text.is_empty()) {
            None => None,
            Some("NotOlderThan") => Some(Match::NotOlderThan),
            Some("Exact") => Some(Match::Exact),
            Some(other) => return Err(bad(format!("resourceVersionMatch: Unsupported value: {other:?}"))),
        };
        let watch = switch("watch")?;
        let text = |name: &str| query.get(name).unwrap_or_default();
        if initial.is_some() && (!watch || matched != Some(Match::NotOlderThan)) {
            let why = "sendInitialEvents: Forbidden: sendInitialEvents requires a watch and resourceVersionMatch=NotOlderThan";
            return Err(Failure::new(422, why));
        }
        Ok(Wanted {
            selector: Selector::parse(text("labelSelector"), text("fieldSelector"), kind.resource)
                .map_err(bad)?,
            form: form(accept, query)?,
            watch,
            version: number("resourceVersion")?,
            matched,
            bookmarks: switch("allowWatchBookmarks")?,
            initial,
            timeout: number("timeoutSeconds")?,
            limit: usize::try_from(number("limit")?.unwrap_or(0)).unwrap_or(usize::MAX),
            from: query.get("continue").filter(|text| !text.is_empty()).map(str::to_owned),
        })
    }

    /// Whether the selectors match an object.
    #[must_use]
    pub fn selects(&self, object: &serde_json::Value) -> bool {
        self.selector.matches(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::kinds::{Resource, of};

    #[test]
    fn forms_are_negotiated() {
        let check = |accept: &str, query: &str, expected: Result<Form, u16>| {
            let found = form(Some(accept), &Query::parse(query).unwrap()).map_err(|failure| failure.code);
            assert_eq!(found, expected, "{accept}");
        };
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        check(table, "", Ok(Form::Table(Include::Metadata)));
        check(table, "includeObject=Object", Ok(Form::Table(Include::Object)));
        check(table, "includeObject=x", Err(400));
        check("application/vnd.kubernetes.protobuf,application/json", "", Ok(Form::Whole));
        check("application/json, */*", "", Ok(Form::Whole));
        check("", "", Ok(Form::Whole));
        check("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "", Ok(Form::Partial));
        check("application/vnd.kubernetes.protobuf", "", Err(406));
    }

    #[test]
    fn parameters_are_checked() {
        let kind = of(Resource::Pods).unwrap();
        let read = |query: &str| {
            Wanted::read(kind, None, &Query::parse(query).unwrap()).map_err(|failure| failure.code)
        };
        let wanted =
            read("watch=true&resourceVersion=7&allowWatchBookmarks=1&timeoutSeconds=5&limit=2").unwrap();
        assert!(wanted.watch && wanted.bookmarks && wanted.version == Some(7) && wanted.limit == 2);
        for (wrong, code) in [
            ("watch=x", 400),
            ("resourceVersion=x", 400),
            ("resourceVersionMatch=x", 400),
            ("labelSelector==", 400),
            ("fieldSelector=a=b", 400),
            ("sendInitialEvents=true", 422),
        ] {
            assert_eq!(read(wrong), Err(code), "{wrong}");
        }
        assert!(read("watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan").is_ok());
    }
}
