//! The objects made of the server's services: their requests, bounds and problems.

use serde_json::Value;

use super::{Asker, Known, Objects};
use crate::api_client::ApiError;
use crate::api_client::request::encoded;
use crate::base::limits;
use crate::pod::object::ObjectKey;
use crate::pod::problem::{Problem, Severity};
use crate::source::api::services::{self, MASTER, Made, Wanted};

impl Objects {
    /// Problems with them for the operator.
    pub fn problems(&self, server: &str) -> impl Iterator<Item = Problem> {
        self.without.iter().map(move |(key, what)| Problem {
            severity: Severity::Warning,
            path: format!("{server}/api/v1/namespaces/{}/services", key.namespace),
            at: None,
            pod: None,
            field: None,
            message: format!("namespace {}: {what}", key.namespace),
        })
    }

    /// A server that has no services, or lets this node read none, has no variables: no pod waits for them.
    pub(super) fn variables(
        &mut self,
        key: &ObjectKey,
        wanted: Wanted,
        found: Result<Vec<Value>, ApiError>,
    ) -> Result<Value, ApiError> {
        let Made { object, left_out } = match found {
            Err(error) if error.code() == Some(404) || error.is_forbidden() => {
                let why = format!("containers start without the environment variables of Services: {error}");
                if error.is_forbidden() {
                    self.refuse(key, error)?;
                }
                Made { left_out: Some(why), ..services::object(key, wanted, &[], 0) }
            }
            other => services::object(key, wanted, &other?, self.room_for(key)),
        };
        match left_out {
            Some(what) => _ = self.without.insert(key.clone(), what),
            None => _ = self.without.remove(key),
        }
        Ok(object)
    }

    /// Bytes left for the variables of this object: those of all namespaces together are bounded, too.
    fn room_for(&self, key: &ObjectKey) -> usize {
        let others = self.known.iter().filter(|(other, _)| *other != key && services::of(other).is_some());
        let taken = others.map(|(_, known)| match known {
            Known::Found { text: Some(text), .. } => text.len(),
            Known::Found { .. } | Known::Missing => 0,
        });
        let taken = taken.fold(0, usize::saturating_add);
        limits::SERVICE_VARIABLES.min(limits::SERVICE_VARIABLES_OF_NODE.saturating_sub(taken))
    }
}

/// The services for a pod's variables. One call lists those of its namespace, another one gets the API server's. A
/// watch of all services of a cluster would cost a connection, and more memory than a node has.
pub(super) fn services_of(asker: &Asker, key: &ObjectKey, wanted: Wanted) -> Result<Vec<Value>, ApiError> {
    let (namespace, name) = MASTER;
    let mut all = match wanted {
        Wanted::Master => Vec::new(),
        Wanted::Namespace => {
            let mut list = asker.get(format!("/api/v1/namespaces/{}/services", encoded(&key.namespace)))?;
            match list.get_mut("items").map(Value::take) {
                Some(Value::Array(all)) => all,
                _ => Vec::new(),
            }
        }
    };
    if wanted == Wanted::Master || key.namespace != namespace {
        match asker.get(format!("/api/v1/namespaces/{namespace}/services/{name}")) {
            Ok(service) => all.push(service),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
