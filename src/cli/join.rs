//! `join`: finds a cluster by a bootstrap token, as `kubeadm join` does, and writes the files with which the daemon
//! asks for its own credentials.

use std::path::{Path, absolute};

use super::flags::Options;
use super::{Outcome, print};
use crate::api_client::kubeconfig::{Kubeconfig, Pem};
use crate::base::durable;
use crate::certificates::discovery;
use crate::certificates::kubeconfig::{self, User};

/// Name of the file with the cluster's authorities, beside the bootstrap kubeconfig.
const AUTHORITIES: &str = "cluster-ca.crt";

/// Finds the cluster of this server, and writes both files.
pub fn run(options: &Options, server: &str) -> Outcome {
    let command = &options.command;
    let token = command.join.token.as_ref().ok_or("--token is missing: kubeadm token create prints one")?;
    if command.join.ca_cert_hashes.is_empty() && !command.join.skip_ca_check {
        return Err("--ca-cert-hash is missing: the digest of the cluster's authority, which \
                    'kubeadm token create --print-join-command' prints; whoever does without takes any server that \
                    knows the token for the cluster: --unsafe-skip-ca-verification"
            .to_owned());
    }
    let file = options.cluster.bootstrap.clone().unwrap_or_else(discovery::default_file);
    let file = absolute(&file).map_err(|error| error.to_string())?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    let cluster = discovery::find(server, token, &command.join.ca_cert_hashes)?;
    let authorities = directory.join(AUTHORITIES);
    let write = |path: &Path, bytes: &[u8]| {
        durable::write(path, bytes).map_err(|error| format!("{} cannot be written: {error}", path.display()))
    };
    if let Some(Pem::Data(bytes)) = &cluster.authorities {
        write(&authorities, bytes)?;
    }
    let of_file = Kubeconfig { authorities: Some(Pem::File(authorities.clone())), ..cluster };
    write(&file, kubeconfig::text(&of_file, User::Token(&token.whole())).as_bytes())?;
    Ok(print(&next_steps(&of_file, &file, &authorities)))
}

/// The steps that are left for the user.
fn next_steps(cluster: &Kubeconfig, file: &Path, authorities: &Path) -> String {
    format!(
        "The cluster at {} is the one that was meant. Its authorities are in {}, and the token in {}.\n\
         Put this into the daemon's configuration (/etc/podkeeper/config.yaml), and start it anew\n\
         (systemctl restart podkeeper, or rc-service podkeeper restart):\n\n\
         bootstrapKubeconfig: {}\n\
         kubeconfig: /var/lib/podkeeper/kubeconfig\n\
         # For kubectl logs and exec, and the API server's own requests:\n\
         port: 10250\n\
         clientCAFile: {}\n\n\
         The node then asks for its own certificate. Where nobody approves that by himself:\n\
         kubectl get csr; kubectl certificate approve NAME\n",
        cluster.server,
        authorities.display(),
        file.display(),
        file.display(),
        authorities.display()
    )
}
