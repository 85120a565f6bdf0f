//! Docker's configuration files and pull secrets, and which of their credentials match an image, as in the
//! kubelet's keyring (`pkg/credentialprovider`). Pure.
//!
//! No credential can be printed: `Debug` shows only registries, and no error repeats a value.

use std::fmt;

use crate::base::json::json;
use serde_json::{Map, Value};

use super::reference::Reference;
use crate::base::limits;
use crate::base::order;
use crate::manifest::base64;

/// A login for one registry.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credential {
    username: String,
    password: String,
    /// A refresh token, instead of a password.
    identity_token: String,
    /// A bearer token, instead of both.
    registry_token: String,
    /// The registry as the file names it.
    server: String,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<credential for {}>", self.server)
    }
}

impl Credential {
    /// The value of `X-Registry-Auth`: URL-safe base64, with padding, of Docker's JSON.
    #[must_use]
    pub fn header(&self) -> String {
        let mut fields = Map::new();
        let pairs = [
            ("username", &self.username),
            ("password", &self.password),
            ("serveraddress", &self.server),
            ("identitytoken", &self.identity_token),
            ("registrytoken", &self.registry_token),
        ];
        for (name, value) in pairs.into_iter().filter(|(_, value)| !value.is_empty()) {
            fields.insert(name.to_owned(), json!(value));
        }
        url_safe(Value::Object(fields).to_string().as_bytes())
    }
}

/// The credentials of one file or secret.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DockerConfig {
    /// Key as in the kubelet's index: `host[:port][/path]`.
    entries: Vec<(String, Credential)>,
    /// Unusable parts, for the log; with registries and without values.
    pub warnings: Vec<String>,
}

/// The two formats of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `config.json` and `.dockerconfigjson`: registries are below `auths`.
    ConfigJson,
    /// `.dockercfg`: registries are at the top.
    DockerCfg,
}

impl DockerConfig {
    /// Reads a file or a secret's value.
    ///
    /// # Errors
    /// The text is not a JSON object; the message has the position and no value.
    pub fn parse(bytes: &[u8], format: Format) -> Result<DockerConfig, String> {
        let value: Value = serde_json::from_slice(bytes).map_err(|e| format!("it is not JSON: {e}"))?;
        let top = value.as_object().ok_or("it is not a JSON object")?;
        let mut config = DockerConfig::default();
        let none = Map::new();
        let auths = match format {
            Format::DockerCfg => top,
            Format::ConfigJson => {
                let store = top.get("credsStore").and_then(Value::as_str).filter(|s| !s.is_empty());
                let helpers = top.get("credHelpers").and_then(Value::as_object).into_iter().flatten();
                let all = store.map(|_| "credsStore".to_owned());
                let each = helpers.map(|(registry, _)| format!("credHelpers for {registry:?}"));
                for what in all.into_iter().chain(each).take(limits::CREDENTIALS) {
                    config.warnings.push(format!("{what} is not supported: podkeeper runs no helpers"));
                }
                match top.get("auths") {
                    None | Some(Value::Null) => &none,
                    Some(auths) => auths.as_object().ok_or("its auths is not an object")?,
                }
            }
        };
        for (server, entry) in auths.iter().take(limits::CREDENTIALS) {
            match credential(server, entry) {
                Ok(Some(credential)) => config.entries.push((key_of(server), credential)),
                // The credentials of this registry are in a helper.
                Ok(None) => {}
                Err(why) => config.warnings.push(format!("the entry for {server:?} is not used: {why}")),
            }
        }
        if auths.len() > limits::CREDENTIALS {
            let most = limits::CREDENTIALS;
            config.warnings.push(format!("only the first {most} registries are used"));
        }
        Ok(config)
    }
}

/// `None`: the entry is empty.
fn credential(server: &str, entry: &Value) -> Result<Option<Credential>, &'static str> {
    let entry = entry.as_object().ok_or("it is not an object")?;
    let text = |name: &str| match entry.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err("its values must be text"),
    };
    let mut credential = Credential {
        username: text("username")?,
        password: text("password")?,
        identity_token: text("identitytoken")?,
        registry_token: text("registrytoken")?,
        server: server.to_owned(),
    };
    let auth = text("auth")?;
    if !auth.is_empty() {
        let decoded = base64::decode(&auth).and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (username, password) = pair.ok_or("its auth is not base64 of USER:PASSWORD")?;
        credential.username = username.to_owned();
        // Docker's own files sometimes end it with zero bytes.
        credential.password = password.trim_end_matches('\0').to_owned();
    }
    let empty = Credential { server: server.to_owned(), ..Credential::default() };
    Ok((credential != empty).then_some(credential))
}

/// `https://host/v1/` is `host`, `host/v2/team` is `host/team`.
fn key_of(server: &str) -> String {
    let bare = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(server);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    // A query, or a name and password in the URL, are not part of the key.
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = match path {
        "v1" | "v2" => "",
        path => path.strip_prefix("v1/").or_else(|| path.strip_prefix("v2/")).unwrap_or(path),
    };
    let path = path.trim_end_matches('/');
    if path.is_empty() { host.to_owned() } else { format!("{host}/{path}") }
}

/// Docker Hub's name in Docker's files.
const HUB_KEY: &str = "index.docker.io";

/// The credentials for `image`, in the order in which they are tried: most specific first. Those of Docker
/// Hub's old name are used if no other matches. At most [`limits::PULL_CREDENTIALS`].
#[must_use]
pub fn lookup<'a>(
    image: &str,
    configs: impl IntoIterator<Item = &'a DockerConfig> + Clone,
) -> Vec<&'a Credential> {
    let Ok(reference) = Reference::parse(image) else { return Vec::new() };
    let repository = reference.repository();
    let all = || configs.clone().into_iter().flat_map(|config| &config.entries);
    let mut found: Vec<&(String, Credential)> = all().filter(|(key, _)| fits(key, &repository)).collect();
    // Reverse text order: of two paths the longer one comes first, and a wildcard comes last.
    order::sort_by(&mut found, |(a, _), (b, _)| b.cmp(a));
    if found.is_empty() && repository.starts_with("docker.io/") {
        found = all().filter(|(key, _)| key == HUB_KEY).collect();
    }
    let mut out: Vec<&Credential> = Vec::new();
    for (_, credential) in found {
        if out.len() < limits::PULL_CREDENTIALS && !out.contains(&credential) {
            out.push(credential);
        }
    }
    out
}

/// Whether the port is equal, each part of the host matches, and the key's path is a prefix of the path.
fn fits(key: &str, repository: &str) -> bool {
    let (key_host, key_path) = key.split_once('/').unwrap_or((key, ""));
    let (host, path) = repository.split_once('/').unwrap_or((repository, ""));
    let split = |host: &'_ str| match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name.to_owned(), port.to_owned()),
        _ => (host.to_owned(), String::new()),
    };
    let ((key_name, key_port), (name, port)) = (split(key_host), split(host));
    let parts = key_name.split('.').count() == name.split('.').count()
        && key_name.split('.').zip(name.split('.')).all(|(glob, part)| glob_fits(glob, part));
    let below = path.strip_prefix(key_path).is_some_and(|rest| {
        // `team` is not a prefix of `teammate/app`.
        key_path.is_empty() || rest.is_empty() || rest.starts_with('/')
    });
    key_port == port && parts && below
}

/// `*` stands for any characters, `?` for one. Never backtracks past the last `*`.
fn glob_fits(glob: &str, text: &str) -> bool {
    let (glob, text) = (glob.as_bytes(), text.as_bytes());
    let (mut g, mut t) = (0_usize, 0_usize);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match glob.get(g) {
            Some(b'*') => {
                star = Some((g, t));
                g += 1;
            }
            Some(&c) if c == b'?' || text.get(t) == Some(&c) => {
                g += 1;
                t += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    (g, t) = (at + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    glob.iter().skip(g).all(|&c| c == b'*')
}

fn url_safe(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for chunk in bytes.chunks(3) {
        let byte = |n: usize| u32::from(chunk.get(n).copied().unwrap_or_default());
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for n in 0..4_usize {
            let six = usize::try_from(group >> (18 - 6 * n) & 63).unwrap_or_default();
            let letter = LETTERS.get(six).copied().unwrap_or_default();
            out.push(if n > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    out
}

#[cfg(test)]
mod tests;
