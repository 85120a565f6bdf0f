//! `kubeconfig`: makes a user's credentials for the API of this node, in a file for kubectl.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::flags::{self, Options};
use super::{Outcome, pods, print};
use crate::api::{self, pki};
use crate::base::logging::one_line;
use crate::manifest::base64;
use crate::network::address;
use crate::status::file;

/// Makes a key and a certificate, and prints them.
pub fn run(options: &Options) -> Outcome {
    let command = &options.command;
    let server = match server(options)? {
        Some(url) => url,
        None => url(listens(options)?, &addresses(&options.directories.run)),
    };
    let authority = pki::Authority::open(&root_dir(options)?)?;
    let (user, group) = (command.kubeconfig.user.as_str(), format!("podkeeper:{}", command.kubeconfig.group));
    let pair = authority.client(user, &group)?;
    Ok(print(&text(&server, user, &authority.certificate, &pair)))
}

/// The URL of `--server`, which clients put before the paths of the API.
pub(super) fn server(options: &Options) -> Result<Option<String>, String> {
    let given = options.command.server.as_deref().map(|url| url.trim_end_matches('/').to_owned());
    match given {
        Some(url) if url.strip_prefix("https://").is_none_or(str::is_empty) => {
            Err(format!("--server must be the URL of an API, https://HOST:PORT, not {url:?}"))
        }
        given => Ok(given),
    }
}

/// The root directory: that of the daemon with this run directory, unless another one is given.
pub(super) fn root_dir(options: &Options) -> Result<PathBuf, String> {
    let given = &options.directories.root;
    let of_daemon = file::read(&options.directories.run).ok().map(|status| pods::root_dir(&status.file));
    let root = of_daemon.filter(|_| given.as_path() == Path::new(flags::ROOT_DIR));
    std::path::absolute(root.as_ref().unwrap_or(given)).map_err(|error| error.to_string())
}

/// The address of the node's API.
pub(super) fn listens(options: &Options) -> Result<SocketAddr, String> {
    let listens = options.server.api_address.or_else(|| api::address_of(&options.directories.run));
    listens.ok_or_else(|| match file::read(&options.directories.run) {
        Err(denied @ file::ReadError::Denied(_)) => denied.to_string(),
        _ => format!(
            "no daemon with the run directory {} has an API: start one with --api-address, or name its --run-dir, or its \
             --api-address here",
            options.directories.run.display()
        ),
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

    fn given(line: &str) -> Options {
        match parse(line.split_whitespace().map(Into::into), &|_| Err("no file".to_owned())) {
            Ok(Command::Kubeconfig(options)) => *options,
            other => panic!("{other:?}"),
        }
    }

    /// Regression: `page --run-dir X` said that no daemon had an API with the default root directory.
    #[test]
    fn the_daemon_of_the_run_directory_knows_its_root_directory() {
        let run_dir = scratch("kubeconfig-root");
        let line = |more: &str| given(&format!("kubeconfig --run-dir {} {more}", run_dir.display()));
        assert_eq!(root_dir(&line("")), Ok(flags::ROOT_DIR.into()), "no daemon has run");
        let status = StatusFile { root_dir: "/other".to_owned(), ..pods::tests::node().file };
        std::fs::write(run_dir.join(file::NAME), serde_json::to_vec(&status).unwrap()).unwrap();
        assert_eq!(root_dir(&line("")), Ok("/other".into()));
        assert_eq!(root_dir(&line("--root-dir /mine")), Ok("/mine".into()));
        assert_eq!(server(&line("--server https://a:1/")), Ok(Some("https://a:1".to_owned())));
        assert!(server(&line("--server foo")).unwrap_err().contains("https://HOST:PORT"));
        std::fs::remove_dir_all(&run_dir).unwrap();
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
