//! The kubeconfig that podkeeper writes, with the kubelet's names in it (`pkg/kubelet/certificate/bootstrap`). Pure.

use std::path::Path;

use serde_json::Value;

use crate::api_client::kubeconfig::{Kubeconfig, Pem};
use crate::manifest::base64;

/// The user's credentials.
#[derive(Debug, Clone, Copy)]
pub enum User<'a> {
    /// The file with the key and the certificate.
    Pair(&'a Path),
    /// A bootstrap token.
    Token(&'a str),
}

/// The text of a kubeconfig for this cluster.
#[must_use]
pub fn text(cluster: &Kubeconfig, user: User<'_>) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let path = |path: &Path| quoted(&path.to_string_lossy());
    let mut lines = vec![format!("    server: {}", quoted(&cluster.server.to_string()))];
    match &cluster.authorities {
        Some(Pem::File(file)) => lines.push(format!("    certificate-authority: {}", path(file))),
        Some(Pem::Data(bytes)) => {
            lines.push(format!("    certificate-authority-data: {}", base64::encode(bytes)));
        }
        None => {}
    }
    lines.extend(cluster.server_name.as_ref().map(|name| format!("    tls-server-name: {}", quoted(name))));
    lines
        .extend(cluster.proxy.as_ref().map(|proxy| format!("    proxy-url: {}", quoted(&proxy.to_string()))));
    if cluster.is_insecure {
        lines.push("    insecure-skip-tls-verify: true".to_owned());
    }
    let user = match user {
        User::Pair(file) => format!("    client-certificate: {0}\n    client-key: {0}", path(file)),
        User::Token(token) => format!("    token: {}", quoted(token)),
    };
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: default-cluster\n  cluster:\n{}\nusers:\n\
         - name: default-auth\n  user:\n{user}\ncontexts:\n- name: default-context\n  context:\n    \
         cluster: default-cluster\n    namespace: default\n    user: default-auth\n\
         current-context: default-context\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_client::kubeconfig::{Secret, parse};

    #[test]
    fn what_is_written_is_read_again() {
        let text_of = |cluster: &str| {
            format!(
                "current-context: x\ncontexts: [{{name: x, context: {{cluster: c}}}}]\n\
                 clusters: [{{name: c, cluster: {{{cluster}}}}}]"
            )
        };
        for cluster in [
            "server: 'https://a:6443', certificate-authority: ca.crt",
            "server: 'https://[::1]:6443/x', certificate-authority-data: YWI=, tls-server-name: kube",
            "server: 'https://a', insecure-skip-tls-verify: true, proxy-url: 'http://p:3128'",
        ] {
            let given = parse(text_of(cluster).as_bytes(), Path::new("/etc/k")).unwrap();
            let pair = text(&given, User::Pair(Path::new("/pki/a b.pem")));
            // The file is in another directory, so paths have become absolute.
            let read = parse(pair.as_bytes(), Path::new("/var/k")).unwrap();
            let file = Pem::File("/pki/a b.pem".into());
            assert_eq!(read.certificate, Some((file.clone(), file)));
            let same = Kubeconfig { certificate: None, ..read };
            assert_eq!(same, given);
            let read = parse(text(&given, User::Token("a.b")).as_bytes(), Path::new("/k")).unwrap();
            assert!(matches!(read.secret, Secret::Token(token) if token.0 == "a.b"));
        }
    }
}
