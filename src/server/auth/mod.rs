//! Who asks, and what may be asked. The kubelet's rules (`pkg/kubelet/server/auth.go`), with a table by group in place of
//! an API server's word.
//!
//! Never here: an answer for somebody who is not known, other than that.

mod rights;
mod subject;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::http::answer::{Answer, TEXT};
use super::service::{Asked, Reply, Service};
use super::tls::Certificates;
pub use rights::{Right, right, subresources, verb};

/// Who sent a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The common name of the certificate, or `system:anonymous`.
    pub name: String,
    /// Its organizations, or `system:unauthenticated`.
    pub groups: BTreeSet<String>,
}

/// What users may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authorization {
    /// Whoever is known may do everything.
    AlwaysAllow,
    /// Users of these groups may.
    Groups {
        /// Everything.
        admin: BTreeSet<String>,
        /// What changes nothing and runs nothing: see [`Right::View`].
        view: BTreeSet<String>,
    },
}

/// The rules of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// `--anonymous-auth`: who shows no certificate is `system:anonymous`, instead of nobody.
    pub allows_anonymous: bool,
    /// `--authorization-mode` and the groups that go with it.
    pub authorization: Authorization,
}

impl Default for Settings {
    /// Nobody may do anything.
    fn default() -> Settings {
        let authorization = Authorization::Groups { admin: BTreeSet::new(), view: BTreeSet::new() };
        Settings { allows_anonymous: false, authorization }
    }
}

/// A service that only those reach who may.
pub struct Guard {
    pub settings: Settings,
    pub certificates: Arc<Certificates>,
    pub inner: Arc<dyn Service>,
}

impl Service for Guard {
    fn answer(&self, asked: &mut Asked<'_>) -> Reply {
        let user = match self.user(asked.certificates) {
            Ok(user) => user,
            Err(why) => {
                log::debug!("a request of {} is not answered: {why}", asked.peer);
                return Answer::new(401, TEXT, "Unauthorized").into();
            }
        };
        if self.settings.allows(&user, right(asked.request)) {
            return self.inner.answer(asked);
        }
        let (verb, subresources) = (verb(asked.request.method), subresources(&asked.request.path).join(" "));
        let why = format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{subresources}])",
            user.name
        );
        log::debug!("a request of {} is not answered: {why}", asked.peer);
        Answer::text(403, &why).into()
    }
}

/// Who a client with these certificates is.
///
/// # Errors
/// Why nobody.
pub fn known(certificates: &Certificates, chain: &[CertificateDer<'static>]) -> Result<User, String> {
    let Some(certificate) = chain.first() else { return Err("it shows no certificate".to_owned()) };
    certificates.verify(chain)?;
    subject::user(certificate).ok_or_else(|| "its certificate names no user".to_owned())
}

impl Guard {
    /// Who the client is.
    ///
    /// # Errors
    /// Why nobody.
    fn user(&self, chain: &[CertificateDer<'static>]) -> Result<User, String> {
        if !chain.is_empty() || !self.settings.allows_anonymous {
            return known(&self.certificates, chain);
        }
        let groups = BTreeSet::from(["system:unauthenticated".to_owned()]);
        Ok(User { name: "system:anonymous".to_owned(), groups })
    }
}

impl Settings {
    /// Whether this user has this right.
    #[must_use]
    pub fn allows(&self, user: &User, right: Right) -> bool {
        match &self.authorization {
            Authorization::AlwaysAllow => true,
            Authorization::Groups { admin, view } => {
                let is_of =
                    |groups: &BTreeSet<String>| user.groups.iter().any(|group| groups.contains(group));
                is_of(admin) || right == Right::View && is_of(view)
            }
        }
    }
}

#[cfg(test)]
mod tests;
