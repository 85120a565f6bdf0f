//! Requests for certificates (`certificates.k8s.io/v1`), and their results. Pure, except for the key's signature.

use crate::base::json::json;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData as _};
use serde_json::Value;

use crate::base::hex;
use crate::base::logging::one_line;
use crate::manifest::base64;

/// The path of requests.
pub const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// The kind of a certificate: its signer and purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Identifies the node to the API server.
    Client,
    /// The kubelet's server uses it.
    Serving,
}

impl Kind {
    /// `spec.signerName`.
    #[must_use]
    pub fn signer(self) -> &'static str {
        match self {
            Kind::Client => "kubernetes.io/kube-apiserver-client-kubelet",
            Kind::Serving => "kubernetes.io/kubelet-serving",
        }
    }

    /// Prefix of the file names.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Client => "kubelet-client",
            Kind::Serving => "kubelet-server",
        }
    }

    /// Name for people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Kind::Client => "client certificate",
            Kind::Serving => "serving certificate",
        }
    }

    fn usages(self) -> [&'static str; 2] {
        let usage = match self {
            Kind::Client => "client auth",
            Kind::Serving => "server auth",
        };
        ["digital signature", usage]
    }
}

/// The required content of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub kind: Kind,
    /// The node's name.
    pub node: String,
    /// DNS names and addresses; none for a client.
    pub names: Vec<String>,
}

impl Wanted {
    /// The common name: the node's user at the API server.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:node:{}", self.node)
    }

    /// The request's name: the same for the same key and content, so that a restart or a lost answer does not create a
    /// second request.
    #[must_use]
    pub fn name(&self, key: &KeyPair) -> String {
        let mut bytes = key.subject_public_key_info();
        bytes.extend_from_slice(self.kind.signer().as_bytes());
        bytes.extend_from_slice(self.user().as_bytes());
        for name in &self.names {
            bytes.push(0);
            bytes.extend_from_slice(name.as_bytes());
        }
        let digest = hex::sha256(&bytes);
        format!("node-csr-{}", digest.get(..40).unwrap_or(&digest))
    }

    /// The object to post.
    ///
    /// # Errors
    /// Why the request cannot be made.
    pub fn object(&self, key: &KeyPair) -> Result<Value, String> {
        let cannot =
            |error: rcgen::Error| format!("no request for a {} can be made: {error}", self.kind.words());
        let mut params = CertificateParams::new(self.names.clone()).map_err(cannot)?;
        let mut subject = DistinguishedName::new();
        subject.push(DnType::OrganizationName, "system:nodes");
        subject.push(DnType::CommonName, self.user());
        params.distinguished_name = subject;
        let request = params.serialize_request(key).and_then(|request| request.pem()).map_err(cannot)?;
        Ok(json!({
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": self.name(key)},
            "spec": {
                "request": base64::encode(request.as_bytes()),
                "signerName": self.kind.signer(),
                "usages": self.kind.usages(),
            },
        }))
    }
}

/// The state of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Not signed yet.
    Pending,
    /// The chain, PEM.
    Signed(Vec<u8>),
    /// The server's reason.
    Refused(String),
}

/// The state in an object of the server.
#[must_use]
pub fn verdict(object: &Value) -> Verdict {
    let status = object.get("status").unwrap_or(&Value::Null);
    let conditions = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for condition in conditions {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).unwrap_or_default();
        let what = match text("type") {
            "Denied" => "it was denied",
            "Failed" => "the signer could not sign it",
            _ => continue,
        };
        return Verdict::Refused(one_line(&format!("{what}: {}: {}", text("reason"), text("message"))));
    }
    let certificate = status.get("certificate").and_then(Value::as_str).unwrap_or_default();
    match base64::decode(certificate) {
        Some(bytes) if !bytes.is_empty() => Verdict::Signed(bytes),
        _ => Verdict::Pending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(kind: Kind, names: &[&str]) -> Wanted {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Wanted { kind, node: "n1".to_owned(), names }
    }

    #[test]
    fn a_request_says_who_asks_and_for_what() {
        let key = KeyPair::generate().unwrap();
        let client = wanted(Kind::Client, &[]);
        let object = client.object(&key).unwrap();
        assert_eq!(object["spec"]["signerName"], "kubernetes.io/kube-apiserver-client-kubelet");
        assert_eq!(object["spec"]["usages"], json!(["digital signature", "client auth"]));
        let name = object["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with("node-csr-") && name.len() == 49, "{name}");
        let pem = base64::decode(object["spec"]["request"].as_str().unwrap()).unwrap();
        assert!(pem.starts_with(b"-----BEGIN CERTIFICATE REQUEST-----"));
        assert_eq!(client.name(&key), name, "the same key and wish have the same name");
        assert_ne!(client.name(&KeyPair::generate().unwrap()), name);
        let serving = wanted(Kind::Serving, &["n1", "192.0.2.1"]);
        assert_ne!(serving.name(&key), wanted(Kind::Serving, &["n1", "192.0.2.2"]).name(&key));
        assert_eq!(serving.object(&key).unwrap()["spec"]["usages"][1], "server auth");
    }

    #[test]
    fn verdicts() {
        let check = |status: Value, expected: Verdict| {
            assert_eq!(verdict(&json!({"kind": "x", "status": status})), expected);
        };
        check(json!({}), Verdict::Pending);
        check(json!(null), Verdict::Pending);
        check(json!({"conditions": 5, "certificate": "???"}), Verdict::Pending);
        let approved = json!([{"type": "Approved", "reason": "AutoApproved"}]);
        check(json!({"conditions": approved}), Verdict::Pending);
        check(json!({"conditions": approved, "certificate": "YWI="}), Verdict::Signed(b"ab".to_vec()));
        check(
            json!({"conditions": [{"type": "Denied", "reason": "R", "message": "not\nme"}], "certificate": "YWI="}),
            Verdict::Refused("it was denied: R: not\\nme".to_owned()),
        );
        check(
            json!({"conditions": [{"type": "Failed", "reason": "R", "message": "m"}]}),
            Verdict::Refused("the signer could not sign it: R: m".to_owned()),
        );
    }
}
