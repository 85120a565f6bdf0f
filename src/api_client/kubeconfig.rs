//! A kubeconfig: the server, its identity, and the client's credentials (client-go's `tools/clientcmd`).
//!
//! Never here: reading a file, or ignoring an unknown kind of credentials.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::base::concealed::Concealed;
use crate::manifest::{base64, yaml};

/// PEM bytes: in a file that is read each time, or in the kubeconfig itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pem {
    File(PathBuf),
    Data(Concealed<Vec<u8>>),
}

impl Pem {
    /// Its name in errors.
    #[must_use]
    pub fn place(&self, field: &str) -> String {
        match self {
            Pem::File(path) => path.display().to_string(),
            Pem::Data(_) => format!("{field}-data of the kubeconfig"),
        }
    }
}

/// The content of `Authorization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Secret {
    Nothing,
    Token(Concealed<String>),
    /// Read again when it changes.
    TokenFile(PathBuf),
    /// `NAME:PASSWORD`.
    Basic(Concealed<String>),
    /// A program that returns credentials (`client.authentication.k8s.io`).
    Plugin(Plugin),
}

/// A credential plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// `client.authentication.k8s.io/v1` or `v1beta1`.
    pub version: String,
    /// A path, or a name that is looked up in `PATH`.
    pub command: PathBuf,
    pub args: Vec<String>,
    /// Variables beside those of the daemon.
    pub env: Vec<(String, Concealed<String>)>,
    /// The plugin gets data about the server.
    pub wants_cluster: bool,
}

/// `scheme://host[:port]` and the prefix of each path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub https: bool,
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
    /// Empty, or `/x` without a trailing slash.
    pub prefix: String,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.prefix)
    }
}

impl Address {
    /// `host:port`, with brackets around an IPv6 address.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Parses a URL, or a bare host, which means https.
    ///
    /// # Errors
    /// The mistake, without a password of the URL.
    pub fn parse(text: &str, default: fn(bool) -> u16) -> Result<Address, String> {
        let (https, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            // client-go treats a bare host as https.
            _ if !text.contains("://") => (true, text),
            _ => return Err("must begin with https:// or http://".to_owned()),
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("must not hold a user or a password".to_owned());
        }
        if path.contains(['?', '#']) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("has no valid path".to_owned());
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) if matches!(host.parse(), Ok(IpAddr::V6(_))) => (host, port),
            Some(_) => return Err("has no valid IPv6 address in brackets".to_owned()),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
        if host.is_empty() || !host.bytes().all(good) {
            return Err("has no valid host".to_owned());
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => Some(default(https)),
            None => None,
            Some(digits) => digits.parse().ok().filter(|port| *port != 0),
        };
        let port = port.ok_or("has no valid port")?;
        let host = host.to_ascii_lowercase();
        Ok(Address { https, host, port, prefix: path.trim_end_matches('/').to_owned() })
    }
}

/// See the head of this file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kubeconfig {
    pub server: Address,
    /// The system's authorities if not given.
    pub authorities: Option<Pem>,
    /// The name in the server's certificate, if it differs from the host.
    pub server_name: Option<String>,
    /// `insecure-skip-tls-verify`.
    pub is_insecure: bool,
    /// An HTTP proxy, used by a tunnel.
    pub proxy: Option<Address>,
    /// Certificate and key.
    pub certificate: Option<(Pem, Pem)>,
    pub secret: Secret,
}

fn read(bytes: &[u8]) -> Result<Value, String> {
    let documents = yaml::text(bytes).and_then(yaml::documents).map_err(|error| match error.at {
        Some((line, _)) => format!("line {line}: {}", error.message),
        None => error.message,
    })?;
    let [document] = documents.as_slice() else {
        return Err("is not one document of YAML or JSON".to_owned());
    };
    Ok(document.to_value())
}

/// Parses the content of the file at `path`; relative names in it are relative to its directory.
///
/// # Errors
/// The mistake, with the field's name and without a value that may be a secret.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Kubeconfig, String> {
    let file = read(bytes)?;
    let kind = text(&file, "kind").unwrap_or("Config");
    if kind != "Config" {
        return Err(format!("is of kind {kind}, and not a kubeconfig (kind Config)"));
    }
    let current = text(&file, "current-context").ok_or("has no current-context")?;
    let context = named(&file, "contexts", "context", current)?;
    let cluster = text(context, "cluster").ok_or_else(|| format!("context {current} names no cluster"))?;
    let cluster = named(&file, "clusters", "cluster", cluster)?;
    let none = Value::Null;
    let user = match text(context, "user") {
        Some(user) => named(&file, "users", "user", user)?,
        None => &none,
    };
    whole(cluster, user, &Beside(path.parent().unwrap_or(Path::new("/"))))
}

/// Parses the first cluster in a server's published data (`kube-public/cluster-info`), which name no files. Returns
/// the mistake otherwise.
pub fn parse_published(bytes: &[u8]) -> Result<Kubeconfig, String> {
    let file = read(bytes)?;
    let cluster = file.pointer("/clusters/0/cluster").ok_or("has no cluster")?;
    let found = whole(cluster, &Value::Null, &Beside(Path::new("/")))?;
    match (&found.authorities, found.server.https) {
        (Some(Pem::Data(_)), true) => Ok(Kubeconfig { is_insecure: false, ..found }),
        _ => Err("has no https server with certificate-authority-data".to_owned()),
    }
}

fn whole(cluster: &Value, user: &Value, beside: &Beside<'_>) -> Result<Kubeconfig, String> {
    let server = text(cluster, "server").ok_or("the cluster has no server")?;
    let server = Address::parse(server, |https| if https { 443 } else { 80 })
        .map_err(|why| format!("server {why}"))?;
    let proxy = text(cluster, "proxy-url").map(proxy).transpose()?;
    Ok(Kubeconfig {
        server,
        authorities: beside.pem(cluster, "certificate-authority")?,
        server_name: text(cluster, "tls-server-name").map(str::to_owned),
        is_insecure: cluster.get("insecure-skip-tls-verify").and_then(Value::as_bool).unwrap_or(false),
        proxy,
        certificate: certificate(user, beside)?,
        secret: secret(user, beside)?,
    })
}

fn text<'v>(of: &'v Value, key: &str) -> Option<&'v str> {
    of.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn named<'v>(file: &'v Value, list: &str, what: &str, name: &str) -> Result<&'v Value, String> {
    let all = file.get(list).and_then(Value::as_array).into_iter().flatten();
    let found = all.into_iter().find(|each| text(each, "name").unwrap_or_default() == name);
    found.and_then(|each| each.get(what)).ok_or_else(|| format!("has no {what} of the name {name} in {list}"))
}

fn proxy(url: &str) -> Result<Address, String> {
    let address = Address::parse(url, |https| if https { 443 } else { 80 })
        .map_err(|why| format!("proxy-url {why}"))?;
    if address.https || !url.starts_with("http://") {
        return Err("proxy-url must begin with http://: podkeeper asks a proxy for a tunnel (CONNECT), and speaks neither \
                    TLS nor SOCKS to it"
            .to_owned());
    }
    Ok(address)
}

fn certificate(user: &Value, beside: &Beside<'_>) -> Result<Option<(Pem, Pem)>, String> {
    match (beside.pem(user, "client-certificate")?, beside.pem(user, "client-key")?) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err("the user has client-certificate and no client-key".to_owned()),
        (None, Some(_)) => Err("the user has client-key and no client-certificate".to_owned()),
    }
}

fn secret(user: &Value, beside: &Beside<'_>) -> Result<Secret, String> {
    for key in ["auth-provider", "as", "as-uid", "as-groups", "as-user-extra"] {
        if user.get(key).is_some_and(|value| !value.is_null()) {
            return Err(format!("{key} of the user is not supported: a node has its own credentials"));
        }
    }
    if let Some(exec) = user.get("exec").filter(|exec| !exec.is_null()) {
        return plugin(exec, beside).map(Secret::Plugin);
    }
    // As in client-go, the file takes precedence over a token beside it.
    if let Some(file) = text(user, "tokenFile") {
        return Ok(Secret::TokenFile(beside.path(file)));
    }
    if let Some(token) = text(user, "token") {
        return token_of(token).map(Secret::Token);
    }
    match (text(user, "username"), text(user, "password")) {
        (None, None) => Ok(Secret::Nothing),
        (name, password) => {
            let pair = format!("{}:{}", name.unwrap_or_default(), password.unwrap_or_default());
            Ok(Secret::Basic(Concealed(pair)))
        }
    }
}

/// A token that is valid in a header.
///
/// # Errors
/// The token has characters that a header may not have.
pub(super) fn token_of(text: &str) -> Result<Concealed<String>, String> {
    let token = text.trim();
    match token.bytes().all(|byte| byte.is_ascii_graphic()) && !token.is_empty() {
        true => Ok(Concealed(token.to_owned())),
        false => Err("the token is empty, or holds blanks or characters that are not ASCII".to_owned()),
    }
}

fn plugin(exec: &Value, beside: &Beside<'_>) -> Result<Plugin, String> {
    let version = text(exec, "apiVersion").unwrap_or_default();
    if !matches!(version, "client.authentication.k8s.io/v1" | "client.authentication.k8s.io/v1beta1") {
        return Err(
            "exec of the user must have apiVersion client.authentication.k8s.io/v1 or v1beta1".to_owned()
        );
    }
    if text(exec, "interactiveMode") == Some("Always") {
        return Err(
            "exec of the user wants a terminal (interactiveMode Always), and a daemon has none".to_owned()
        );
    }
    let command = text(exec, "command").ok_or("exec of the user has no command")?;
    // As in client-go: a name without a slash is looked up in PATH.
    let command = if command.contains('/') { beside.path(command) } else { command.into() };
    let list = |key: &str| exec.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let args = list("args").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let env = list("env");
    let env = env.iter().filter_map(|pair| {
        let value = pair.get("value").and_then(Value::as_str).unwrap_or_default();
        Some((text(pair, "name")?.to_owned(), Concealed(value.to_owned())))
    });
    let wants_cluster = exec.get("provideClusterInfo").and_then(Value::as_bool).unwrap_or(false);
    Ok(Plugin { version: version.to_owned(), command, args, env: env.collect(), wants_cluster })
}

/// The directory of the kubeconfig.
struct Beside<'p>(&'p Path);

impl Beside<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Data takes precedence over the file.
    fn pem(&self, of: &Value, field: &str) -> Result<Option<Pem>, String> {
        if let Some(data) = text(of, &format!("{field}-data")) {
            let bytes = base64::decode(data).ok_or_else(|| format!("{field}-data is not base64"))?;
            return Ok(Some(Pem::Data(Concealed(bytes))));
        }
        Ok(text(of, field).map(|name| Pem::File(self.path(name))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kubeconfig with these fields of its cluster and its user.
    fn file(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: [{{name: y, context: {{cluster: no}}}}, \
             {{name: x, context: {{cluster: c, user: u}}}}]\nclusters: [{{name: c, cluster: {{{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}]\n"
        )
    }

    fn read(cluster: &str, user: &str) -> Result<Kubeconfig, String> {
        parse(file(cluster, user).as_bytes(), Path::new("/etc/k/config"))
    }

    const SERVER: &str = "server: 'https://a:6443'";

    #[test]
    fn servers() {
        let check = |text: &str, shown: &str| {
            assert_eq!(read(&format!("server: '{text}'"), "").unwrap().server.to_string(), shown);
        };
        check("https://A", "https://a:443");
        check("https://a:6443/", "https://a:6443");
        check("http://127.0.0.1:8080/k8s/c1/", "http://127.0.0.1:8080/k8s/c1");
        check("https://[::1]:6443", "https://[::1]:6443");
        check("a:6443", "https://a:6443");
        let refuse = |text: &str, part: &str| {
            let why = read(&format!("server: '{text}'"), "").unwrap_err();
            assert!(why.starts_with("server ") && why.contains(part) && !why.contains("canary"), "{why}");
        };
        refuse("ftp://a", "https://");
        refuse("https://me:canary@a", "user or a password");
        refuse("https://", "host");
        refuse("https://a:0", "port");
        refuse("https://a/x?y", "path");
        refuse("https://[::1", "host");
        refuse("https://[a]", "IPv6");
    }

    #[test]
    fn clusters() {
        let found = read(
            &format!("{SERVER}, certificate-authority: pki/ca.crt, tls-server-name: kube, proxy-url: 'http://p:3128'"),
            "",
        )
        .unwrap();
        assert_eq!(found.authorities, Some(Pem::File("/etc/k/pki/ca.crt".into())));
        assert_eq!(found.server_name.as_deref(), Some("kube"));
        assert_eq!(found.proxy.unwrap().authority(), "p:3128");
        assert!(!found.is_insecure && found.secret == Secret::Nothing);
        let found = read(
            &format!("{SERVER}, certificate-authority: /ca, certificate-authority-data: YWI=, insecure-skip-tls-verify: true"),
            "",
        )
        .unwrap();
        assert_eq!(found.authorities, Some(Pem::Data(Concealed(b"ab".to_vec()))));
        assert!(found.is_insecure);
        for (cluster, part) in [
            ("", "no server"),
            (
                "server: 'https://a', certificate-authority-data: '!'",
                "certificate-authority-data is not base64",
            ),
            ("server: 'https://a', proxy-url: 'socks5://p'", "proxy-url must begin with https:// or http://"),
            ("server: 'https://a', proxy-url: 'https://p'", "proxy-url must begin with http://"),
        ] {
            let why = read(cluster, "").unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn users() {
        let secret = |user: &str| read(SERVER, user).unwrap().secret;
        assert_eq!(secret("token: ' abc\n'"), Secret::Token(Concealed("abc".into())));
        assert_eq!(secret("token: abc, tokenFile: t"), Secret::TokenFile("/etc/k/t".into()));
        assert_eq!(secret("username: a, password: b"), Secret::Basic(Concealed("a:b".into())));
        let found = read(SERVER, "client-certificate: c.pem, client-key-data: YWI=").unwrap();
        let pair = (Pem::File("/etc/k/c.pem".into()), Pem::Data(Concealed(b"ab".to_vec())));
        assert_eq!(found.certificate, Some(pair));
        let Secret::Plugin(plugin) = secret(
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: bin/p, args: [a, b], \
             env: [{name: N, value: v}], interactiveMode: IfAvailable, provideClusterInfo: true}",
        ) else {
            panic!("no plugin")
        };
        assert_eq!(plugin.command, PathBuf::from("/etc/k/bin/p"));
        assert_eq!(plugin.args, ["a", "b"]);
        assert_eq!(plugin.env, [("N".to_owned(), Concealed("v".to_owned()))]);
        assert!(plugin.wants_cluster);
        for (user, part) in [
            ("token: 'canary value'", "the token is empty, or holds blanks"),
            ("client-key: k", "no client-certificate"),
            ("client-certificate: k", "no client-key"),
            ("as: somebody", "as of the user is not supported"),
            ("auth-provider: {name: gcp}", "auth-provider of the user is not supported"),
            ("exec: {command: a}", "apiVersion client.authentication.k8s.io/v1"),
            ("exec: {apiVersion: client.authentication.k8s.io/v1}", "no command"),
            (
                "exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Always}",
                "wants a terminal",
            ),
        ] {
            let why = read(SERVER, user).unwrap_err();
            assert!(why.contains(part) && !why.contains("canary"), "{why}");
        }
    }

    #[test]
    fn files_that_are_no_kubeconfig() {
        for (text, part) in [
            ("", "not one document"),
            ("{}", "no current-context"),
            ("kind: Pod", "is of kind Pod"),
            ("current-context: x", "no context of the name x in contexts"),
            ("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", "no cluster of the name c"),
            (
                "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n\
                 clusters: [{name: c, cluster: {server: a}}]",
                "no user of the name u in users",
            ),
            ("a: [", "line 1"),
            ("--- {}\n--- {}", "not one document"),
        ] {
            let why = parse(text.as_bytes(), Path::new("/k")).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
        // A user is optional.
        let text = "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: a}}]";
        assert_eq!(parse(text.as_bytes(), Path::new("/k")).unwrap().secret, Secret::Nothing);
    }
}
