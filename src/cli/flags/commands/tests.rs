//! Tests of each flag of the commands.

use super::super::testing::{repeats_and_refuses, sets};
use super::*;

#[test]
fn each_flag_sets_its_value() {
    sets(
        &SECTION,
        &[
            ("token", "07401b.f395accd246ae52d", |o| {
                o.command.join.token == Token::parse("07401b.f395accd246ae52d").ok()
            }),
            (
                "ca-cert-hash",
                "sha256:0000000000000000000000000000000000000000000000000000000000000000",
                |o| {
                    let zeros = Pin::parse(&format!("sha256:{}", "00".repeat(32)));
                    zeros.is_ok_and(|zeros| o.command.join.ca_cert_hashes == [zeros])
                },
            ),
            ("unsafe-skip-ca-verification", "true", |o| o.command.join.skip_ca_check),
            ("user", "ann", |o| o.command.kubeconfig.user == "ann"),
            ("group", "view", |o| o.command.kubeconfig.group == "view"),
            ("server", "https://n1:6443", |o| o.command.server.as_deref() == Some("https://n1:6443")),
            ("namespace", "kube-system", |o| o.command.namespace == "kube-system"),
            ("all-namespaces", "true", |o| o.command.all_namespaces),
            ("selector", "a=b", |o| Ok(&o.command.selector) == LabelSelector::parse("a=b").as_ref()),
            ("field-selector", "status.phase=Failed", |o| {
                Ok(&o.command.field_selector) == FieldSelector::parse("status.phase=Failed").as_ref()
            }),
            ("output", "yaml", |o| o.command.output == Output::Yaml),
            ("output", "json", |o| o.command.output == Output::Json),
            ("output", "yaml", |o| o.command.output == Output::Yaml),
            ("watch", "true", |o| o.command.watch),
            ("for", "pod/web", |o| o.command.for_pod.as_deref() == Some("web")),
            ("no-headers", "true", |o| o.command.no_headers),
            ("dry-run", "true", |o| o.command.prune.dry_run),
            ("prune-build-cache", "true", |o| o.command.prune.build_cache),
            ("containers", "true", |o| o.command.top.containers),
            ("sort-by", "memory", |o| o.command.top.sort_by == Some(SortBy::Memory)),
            ("container", "app", |o| o.command.container.as_deref() == Some("app")),
            ("stdin", "true", |o| o.command.stdin),
            ("tty", "true", |o| o.command.tty),
            ("no-preserve", "true", |o| o.command.carry.no_preserve),
            ("listen", "127.0.0.2", |o| o.command.carry.listen == [IpAddr::from([127, 0, 0, 2])]),
            ("image", "a:1", |o| o.command.debug.image.as_deref() == Some("a:1")),
            ("target", "app", |o| o.command.debug.target.as_deref() == Some("app")),
            ("profile", "netadmin", |o| o.command.debug.profile == Profile::Netadmin),
            ("recursive", "true", |o| o.command.recursive),
        ],
    );
}

#[test]
fn each_flag_refuses_what_is_no_value_and_takes_a_second_as_its_entry_says() {
    repeats_and_refuses(
        &SECTION,
        &[
            ("token", ["07401b.f395accd246ae52d", "07401c.f395accd246ae52d"], &["x"]),
            (
                "ca-cert-hash",
                [
                    "sha256:0000000000000000000000000000000000000000000000000000000000000000",
                    "sha256:1111111111111111111111111111111111111111111111111111111111111111",
                ],
                &["md5:00"],
            ),
            ("user", ["ann", "bob"], &[""]),
            ("namespace", ["a", "b"], &[""]),
            ("selector", ["a=b", "c=d"], &["a=$"]),
            ("field-selector", ["status.phase=Failed", "status.phase=Running"], &["spec.x=1"]),
            ("for", ["pod/a", "pod/b"], &["a", "pod/"]),
            ("listen", ["127.0.0.2", "127.0.0.3"], &["localhost"]),
        ],
    );
}
