//! `page`: prints a link that shows this node in a browser. Only the link goes to standard output.

use super::flags::Options;
use super::{Outcome, kubeconfig, print, say};
use crate::api::page::ask;

/// Asks the daemon for a link, and prints it.
pub fn run(options: &Options) -> Outcome {
    let listens = kubeconfig::listens(options)?;
    let server = match kubeconfig::server(options)? {
        Some(url) => url,
        None => kubeconfig::url(listens, &kubeconfig::addresses(&options.directories.run)),
    };
    let made = ask::link(&kubeconfig::root_dir(options)?, listens)?;
    let printed = print(&format!("{server}{}\n", made.path));
    say(&format!(
        "It works once, within {} minutes. The browser warns, for the certificate is this node's own; its SHA-256 \
         fingerprint is\n{}",
        made.time.as_secs() / 60,
        made.fingerprint
    ));
    Ok(printed)
}
