//! `kubeconfig`: makes a user's credentials for the API of this node, in a file for kubectl.

use std::net::SocketAddr;
use std::path::Path;

use super::flags::Options;
use super::{Outcome, print};
use crate::api::{self, pki};
use crate::base::logging::one_line;
use crate::manifest::base64;
use crate::network::address;
use crate::status::file;

/// Makes a key and a certificate, and prints them.
pub fn run(options: &Options) -> Outcome {
    let command = &options.command;
    let server = match &command.server {
        Some(url) => url.clone(),
        None => url(listens(options)?, &addresses(&options.directories.run)),
    };
    let root_dir = std::path::absolute(&options.directories.root).map_err(|error| error.to_string())?;
    let authority = pki::Authority::open(&root_dir)?;
    let (user, group) = (command.kubeconfig.user.as_str(), format!("podkeeper:{}", command.kubeconfig.group));
    let pair = authority.client(user, &group)?;
    Ok(print(&text(&server, user, &authority.certificate, &pair)))
}

/// The address of the node's API.
pub(super) fn listens(options: &Options) -> Result<SocketAddr, String> {
    let listens = options.server.api_address.or_else(|| api::address_of(&options.directories.run));
    listens.ok_or_else(|| {
        format!(
            "no daemon with the run directory {} has an API: start one with --api-address, or name its --run-dir, or its \
             --api-address here",
            options.directories.run.display()
        )
    })
}

/// The node's addresses as its daemon has them (flags may set them), or those from which it reaches other hosts.
pub(super) fn addresses(run_dir: &Path) -> Vec<String> {
    let written = file::read(run_dir).map(|status| status.file.addresses).unwrap_or_default();
    if written.is_empty() { address::of_node(&[]) } else { written }
}

/// The URL of the API. One that listens on all addresses is reached by the node's own.
pub(super) fn url(listens: SocketAddr, of_node: &[String]) -> String {
    let ip = of_node.iter().find_map(|ip| ip.parse().ok()).filter(|_| listens.ip().is_unspecified());
    let local = if listens.is_ipv6() { [0, 0, 0, 0, 0, 0, 0, 1].into() } else { [127, 0, 0, 1].into() };
    let ip = match listens.ip() {
        given if !given.is_unspecified() => given,
        _ => ip.unwrap_or(local),
    };
    format!("https://{}", SocketAddr::new(ip, listens.port()))
}

fn text(server: &str, user: &str, authority: &str, pair: &pki::Pair) -> String {
    let in_64 = |text: &str| base64::encode(text.as_bytes());
    // A user's name may need quotes.
    let user = serde_json::Value::from(one_line(user)).to_string();
    let server = serde_json::Value::from(one_line(server)).to_string();
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: podkeeper\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {}\nusers:\n- name: {user}\n  user:\n    client-certificate-data: {}\n    \
         client-key-data: {}\ncontexts:\n- name: podkeeper\n  context:\n    cluster: podkeeper\n    user: {user}\n\
         current-context: podkeeper\n",
        in_64(authority),
        in_64(&pair.certificate),
        in_64(&pair.key)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::testing::scratch;
    use crate::cli::parse::{Command, parse};
    use crate::cli::pods;
    use crate::status::snapshot::StatusFile;

    #[test]
    fn the_addresses_are_those_that_the_daemon_was_given() {
        let run_dir = scratch("kubeconfig-addresses");
        let addresses_of = |written: &[&str]| {
            let written = written.iter().map(|ip| (*ip).to_owned()).collect();
            let status = StatusFile { addresses: written, ..pods::tests::node().file };
            std::fs::write(run_dir.join(file::NAME), serde_json::to_vec(&status).unwrap()).unwrap();
            addresses(&run_dir)
        };
        assert_eq!(addresses_of(&["192.0.2.77", "fd00::77"]), ["192.0.2.77", "fd00::77"]);
        assert_eq!(addresses_of(&[]), address::of_node(&[]));
        std::fs::remove_dir_all(&run_dir).unwrap();
        assert_eq!(addresses(&run_dir), address::of_node(&[]), "no daemon has run");
    }

    #[test]
    fn where_no_daemon_has_an_api_the_flags_that_find_one_are_named() {
        let run_dir = scratch("kubeconfig-none");
        let line = format!("kubeconfig --root-dir /r --run-dir {}", run_dir.display());
        let command = parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned()));
        let Ok(Command::Kubeconfig(options)) = command else { panic!("{command:?}") };
        let why = listens(&options).unwrap_err();
        assert!(why.contains("--run-dir") && why.contains("--api-address"), "{why}");
        std::fs::remove_dir_all(&run_dir).unwrap();
    }

    #[test]
    fn the_address_is_one_that_can_be_reached() {
        let check = |listens: &str, of_node: &[&str], expected: &str| {
            let of_node: Vec<String> = of_node.iter().map(|ip| (*ip).to_owned()).collect();
            assert_eq!(url(listens.parse().unwrap(), &of_node), expected);
        };
        check("127.0.0.1:6443", &["192.0.2.1"], "https://127.0.0.1:6443");
        check("0.0.0.0:6443", &["192.0.2.1"], "https://192.0.2.1:6443");
        check("[::]:6443", &[], "https://[::1]:6443");
    }
}
