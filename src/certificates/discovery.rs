//! Finds the cluster that a node joins, like kubeadm (`cmd/kubeadm/app/discovery/token`): the server publishes its
//! address and its authorities (`kube-public/cluster-info`), signed with the bootstrap token, and the operator has a
//! digest of an authority's key. Knowing only the token, as another node does, is not enough to stand in for the
//! server.
//!
//! Never here: a message with a token or its signature.

use std::path::PathBuf;

use serde_json::Value;

use crate::api_client::kubeconfig::{Address, Kubeconfig, Pem, Secret, parse_published};
use crate::api_client::{ApiError, Client, Request};
use crate::base::concealed::Concealed;
use crate::base::tls::x509;
use crate::base::{hex, limits, sha256};
use crate::manifest::base64;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The path of the published ConfigMap.
const PATH: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";
/// The default port of an API server.
const PORT: u16 = 6443;

/// A bootstrap token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    id: String,
    secret: Concealed<String>,
}

impl Token {
    /// Parses `ID.SECRET`, six and sixteen characters.
    ///
    /// # Errors
    /// The text is not a token.
    pub fn parse(text: &str) -> Result<Token, String> {
        let is = |part: &str, length: usize| {
            part.len() == length
                && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((id, secret)) if is(id, 6) && is(secret, 16) => {
                Ok(Token { id: id.to_owned(), secret: Concealed(secret.to_owned()) })
            }
            _ => Err("is no bootstrap token: six letters or digits, a dot, and sixteen".to_owned()),
        }
    }

    /// The token as in an `Authorization` header.
    #[must_use]
    pub fn whole(&self) -> String {
        format!("{}.{}", self.id, self.secret.0)
    }
}

/// The digest of an authority's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin(String);

impl Pin {
    /// Parses `sha256:HEX`.
    ///
    /// # Errors
    /// The text is not a digest.
    pub fn parse(text: &str) -> Result<Pin, String> {
        let digits = text.strip_prefix("sha256:").map(str::to_ascii_lowercase).unwrap_or_default();
        match digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            true => Ok(Pin(digits)),
            false => Err("must be sha256: and 64 digits, the digest of an authority's key".to_owned()),
        }
    }
}

/// Finds the cluster of the server at this address. Without pins, only the token's signature is checked.
///
/// # Errors
/// Why the answer is not trusted, or the server not reached.
pub fn find(server: &str, token: &Token, pins: &[Pin]) -> Result<Kubeconfig, String> {
    let server = Address::parse(server, |_| PORT).map_err(|why| format!("the server's address {why}"))?;
    if !server.https {
        return Err("the server's address must begin with https://".to_owned());
    }
    let mut asked = Kubeconfig {
        server,
        authorities: None,
        server_name: None,
        // The server is not known yet; its answer is checked by its signature.
        is_insecure: true,
        proxy: None,
        certificate: None,
        secret: Secret::Nothing,
    };
    let first = read(&asked)?;
    let published = checked(&first, token, pins)?;
    asked.authorities.clone_from(&published.authorities);
    asked.is_insecure = false;
    // Reads the same again, from a server with a certificate of these authorities.
    let second = read(&asked)?;
    if text(&first, "kubeconfig") != text(&second, "kubeconfig") {
        return Err("what the server publishes differs when it has to prove who it is".to_owned());
    }
    Ok(published)
}

/// Reads the ConfigMap.
fn read(asked: &Kubeconfig) -> Result<Value, String> {
    let answer = Client::given(asked.clone()).call(&Request::get(PATH), limits::JOIN_CALL);
    answer.map_err(|error| match error {
        ApiError::Status { .. } if error.is_not_found() || error.is_forbidden() => {
            format!("{} publishes no cluster-info in kube-public: {error}", asked.server)
        }
        other => format!("{}: {other}", asked.server),
    })
}

fn text<'v>(object: &'v Value, key: &str) -> &'v str {
    object.get("data").and_then(|data| data.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// The published kubeconfig, if the token has signed it and an authority has one of the digests. Pure.
///
/// # Errors
/// Why it is not trusted.
pub fn checked(object: &Value, token: &Token, pins: &[Pin]) -> Result<Kubeconfig, String> {
    let published = text(object, "kubeconfig");
    let signature = text(object, &format!("jws-kubeconfig-{}", token.id));
    if signature.is_empty() {
        return Err(format!(
            "the server has signed cluster-info with no token of the id {}: it has expired, or is of another cluster \
             (kubeadm token create)",
            token.id
        ));
    }
    if !is_signed(published, signature, token) {
        return Err(
            "cluster-info is not signed with this token: the token is wrong, or the server is not who it \
                    says"
                .to_owned(),
        );
    }
    let cluster = parse_published(published.as_bytes()).map_err(|why| format!("cluster-info {why}"))?;
    let Some(Pem::Data(authorities)) = &cluster.authorities else {
        return Err("cluster-info has no certificate-authority-data".to_owned());
    };
    let keys: Vec<String> = CertificateDer::pem_slice_iter(authorities)
        .filter_map(|certificate| x509::public_key(&certificate.ok()?))
        .map(|key| hex::sha256(&key))
        .collect();
    if !pins.is_empty() && !keys.iter().any(|key| pins.iter().any(|pin| pin.0 == *key)) {
        return Err(format!(
            "no authority of the cluster has a key with the digest that was given; it has sha256:{}",
            keys.join(", sha256:")
        ));
    }
    Ok(cluster)
}

/// Checks a detached signature (RFC 7797's form `HEAD..SIGNATURE`) by HMAC-SHA256, with the token's secret as the key.
fn is_signed(content: &str, signature: &str, token: &Token) -> bool {
    let Some((head, given)) = signature.split_once("..") else { return false };
    let Some(header) = from_url(head).and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()) else {
        return false;
    };
    let says = |key: &str, value: &str| header.get(key).and_then(Value::as_str) == Some(value);
    let message = format!("{head}.{}", to_url(content.as_bytes()));
    let made = sha256::mac(message.as_bytes(), token.secret.as_bytes());
    says("alg", "HS256") && says("kid", &token.id) && from_url(given).is_some_and(|given| given == made)
}

/// URL-safe Base64 without padding.
fn to_url(bytes: &[u8]) -> String {
    base64::encode(bytes).replace('+', "-").replace('/', "_").trim_end_matches('=').to_owned()
}

fn from_url(text: &str) -> Option<Vec<u8>> {
    let mut text = text.replace('-', "+").replace('_', "/");
    while !text.len().is_multiple_of(4) {
        text.push('=');
    }
    base64::decode(&text)
}

/// The default file for `join`'s result.
#[must_use]
pub fn default_file() -> PathBuf {
    PathBuf::from("/etc/podkeeper/bootstrap.kubeconfig")
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PublicKeyData as _};
    use serde_json::json;

    use super::*;

    const TOKEN: &str = "07401b.f395accd246ae52d";

    /// Signed as by the cluster's bootstrap signer.
    fn published(token: &str, server: &str, authority: &str) -> Value {
        let content = format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: \"\"\n  cluster:\n    server: {server}\n    \
             certificate-authority-data: {}\n",
            base64::encode(authority.as_bytes())
        );
        let token = Token::parse(token).unwrap();
        let head = to_url(json!({"alg": "HS256", "kid": token.id}).to_string().as_bytes());
        let message = format!("{head}.{}", to_url(content.as_bytes()));
        let mac = sha256::mac(message.as_bytes(), token.secret.as_bytes());
        let jws = format!("{head}..{}", to_url(&mac));
        json!({"data": {"kubeconfig": content, format!("jws-kubeconfig-{}", token.id): jws}})
    }

    #[test]
    fn what_a_server_publishes_is_believed_by_signature_and_digest() {
        let key = KeyPair::generate().unwrap();
        let authority = CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
        let object = published(TOKEN, "https://a:6443", &authority);
        let token = Token::parse(TOKEN).unwrap();
        let digest = hex::sha256(&key.subject_public_key_info());
        let pin = Pin::parse(&format!("sha256:{}", digest.to_uppercase())).unwrap();
        let other = Pin::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
        let found = checked(&object, &token, &[other.clone(), pin]).unwrap();
        assert_eq!(found.server.to_string(), "https://a:6443");
        assert!(checked(&object, &token, &[]).is_ok());
        let refuse = |object: &Value, token: &Token, pins: &[Pin], part: &str| {
            let why = checked(object, token, pins).unwrap_err();
            assert!(why.contains(part) && !why.contains("f395"), "{why}");
        };
        refuse(&object, &token, &[other], &digest);
        refuse(&object, &Token::parse("aaaaaa.f395accd246ae52d").unwrap(), &[], "no token of the id aaaaaa");
        refuse(&object, &Token::parse("07401b.f395accd246ae52e").unwrap(), &[], "not signed with this token");
        let mut changed = object.clone();
        changed["data"]["kubeconfig"] = text(&object, "kubeconfig").replace("//a:", "//b:").into();
        refuse(&changed, &token, &[], "not signed with this token");
        for jws in ["", "..", "e30..", "e30.x.AA", "????..AA"] {
            let mut changed = object.clone();
            changed["data"]["jws-kubeconfig-07401b"] = jws.into();
            assert!(checked(&changed, &token, &[]).is_err(), "{jws}");
        }
        refuse(&published(TOKEN, "http://a", &authority), &token, &[], "no https server");
        refuse(&json!({"data": 3}), &token, &[], "no token of the id");
    }

    #[test]
    fn words_of_the_command_line() {
        for text in ["", "07401b", "07401b.", "07401B.f395accd246ae52d", "07401b.f395accd246ae52", "a.b"] {
            assert!(Token::parse(text).is_err(), "{text}");
        }
        assert_eq!(Token::parse(TOKEN).unwrap().whole(), TOKEN);
        assert!(!format!("{:?}", Token::parse(TOKEN)).contains("f395"));
        for text in ["", "sha256:", "sha1:00", "00", &format!("sha256:{}", "g".repeat(64))] {
            assert!(Pin::parse(text).is_err(), "{text}");
        }
    }
}
