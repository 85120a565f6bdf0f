//! Credential plugins: programs that return credentials (`client.authentication.k8s.io`, client-go's
//! `plugin/pkg/client/auth/exec`).
//!
//! Never here: a shell, a terminal, or a part of the program's output in a log.

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::base::json::json;
use serde_json::Value;

use super::kubeconfig::{Address, Plugin, token_of};
use crate::base::clock::{Clock as _, System, Timestamp};
use crate::base::concealed::Concealed;
use crate::base::handover::handover;
use crate::base::{limits, program, pulse, regular, thread};

/// Certificate and key, PEM.
pub type Pair = (Concealed<Vec<u8>>, Concealed<Vec<u8>>);

/// A plugin's credentials.
#[derive(Debug, Clone, PartialEq)]
pub struct Given {
    pub token: Option<Concealed<String>>,
    /// Client certificate for the TLS handshake.
    pub certificate: Option<Pair>,
    /// How long they are valid; `None`: until the server rejects them.
    pub lasts: Option<Duration>,
}

/// Runs the plugin.
///
/// # Errors
/// The plugin cannot be run, failed, took too long, or its output is not a credential.
pub fn ask(plugin: &Plugin, server: &Address, within: Duration) -> Result<Given, String> {
    let name = plugin.command.display();
    let said = run(plugin, server, within.min(limits::API_PLUGIN))?;
    given(&said, &plugin.version, System::start().now().wall)
        .map_err(|why| format!("what the credential plugin {name} says is not usable: {why}"))
}

/// Returns the program's standard output.
fn run(plugin: &Plugin, server: &Address, within: Duration) -> Result<Vec<u8>, String> {
    let name = plugin.command.display().to_string();
    let mut spec = json!({"interactive": false});
    if plugin.wants_cluster
        && let Some(spec) = spec.as_object_mut()
    {
        spec.insert("cluster".to_owned(), json!({"server": server.to_string()}));
    }
    let info = json!({"apiVersion": plugin.version, "kind": "ExecCredential", "spec": spec});
    let mut command = Command::new(&plugin.command);
    command.args(&plugin.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    command.env("KUBERNETES_EXEC_INFO", info.to_string());
    for (variable, value) in &plugin.env {
        command.env(variable, &value.0);
    }
    for variable in program::NOTIFY {
        command.env_remove(variable);
    }
    let begun = Instant::now();
    let mut child =
        command.spawn().map_err(|error| format!("the credential plugin {name} cannot be run: {error}"))?;
    let (out, said) = handover();
    // The thread ends with the program; output that a remaining child process holds open is left to
    // it.
    if let Some(stdout) = child.stdout.take() {
        let read = move || _ = out.give(regular::read_rest(stdout.take(u64::MAX), limits::API_PLUGIN_BYTES));
        if let Err(error) = thread::spawn("pk-plugin", limits::WORKER_STACK, read) {
            _ = child.kill();
            _ = child.wait();
            return Err(format!("no thread could be started for the credential plugin {name}: {error}"));
        }
    }
    let said = pulse::waits(|| said.take(within));
    let mut wait = limits::HELPER_LOOK;
    let status = loop {
        match child.try_wait() {
            // A plugin with too much output is killed by that.
            Ok(Some(status)) if !matches!(said, Ok(Err(_))) => break Ok(status),
            Ok(Some(_)) => break Err(format!("the credential plugin {name} says too much")),
            Ok(None) if begun.elapsed() < within && !matches!(said, Err(_) | Ok(Err(_))) => {
                pulse::waits(|| std::thread::sleep(wait));
            }
            Ok(None) => {
                _ = child.kill();
                std::thread::sleep(limits::HELPER_LOOK);
                _ = child.try_wait();
                break Err(format!("the credential plugin {name} did not end in time, or says too much"));
            }
            Err(error) => break Err(format!("the credential plugin {name}: {error}")),
        }
        wait = wait.saturating_mul(2).min(limits::HELPER_LOOK_MAX);
    }?;
    if !status.success() {
        return Err(format!("the credential plugin {name} failed: {status}"));
    }
    said.ok()
        .and_then(Result::ok)
        .ok_or_else(|| format!("the credential plugin {name} said nothing that can be read"))
}

/// Checks the output of a plugin. The wall clock is compared only with the plugin's expiration time.
fn given(said: &[u8], version: &str, now: Timestamp) -> Result<Given, String> {
    let said: Value = serde_json::from_slice(said).map_err(|_| "it is not JSON".to_owned())?;
    let text = |path: &str| said.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("/kind") != Some("ExecCredential") || text("/apiVersion") != Some(version) {
        return Err(format!("it is no ExecCredential of {version}"));
    }
    let token = text("/status/token").map(token_of).transpose()?;
    let pem = |path: &str| text(path).map(|pem| Concealed(pem.as_bytes().to_vec()));
    let certificate = match (pem("/status/clientCertificateData"), pem("/status/clientKeyData")) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => return Err("it has one of certificate and key, and not the other".to_owned()),
    };
    if token.is_none() && certificate.is_none() {
        return Err("it has neither a token nor a certificate".to_owned());
    }
    let end = text("/status/expirationTimestamp").map(|end| {
        let end: Timestamp = end.parse().map_err(|_| "its expirationTimestamp is no time".to_owned())?;
        let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        Ok::<_, String>(left.max(limits::API_PLUGIN_MIN))
    });
    Ok(Given { token, certificate, lasts: end.transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "client.authentication.k8s.io/v1";

    fn shell(script: &str) -> Plugin {
        Plugin {
            version: V1.to_owned(),
            command: "sh".into(),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: vec![("WORD".to_owned(), Concealed("w".to_owned()))],
            wants_cluster: true,
        }
    }

    fn server() -> Address {
        Address { https: true, host: "a".into(), port: 6443, prefix: String::new() }
    }

    #[test]
    fn a_plugin_is_run_with_its_variables() {
        let script = r#"case $KUBERNETES_EXEC_INFO in *'"server":"https://a:6443"'*) ;; *) exit 1;; esac
            echo '{"kind":"ExecCredential","apiVersion":"'client.authentication.k8s.io/v1'","status":{"token":"'$WORD'"}}'"#;
        let given = ask(&shell(script), &server(), Duration::from_secs(20)).unwrap();
        assert_eq!(given, Given { token: Some(Concealed("w".into())), certificate: None, lasts: None });
    }

    #[test]
    fn a_plugin_that_fails_hangs_or_says_too_much() {
        let check = |script: &str, within: u64, part: &str| {
            let why = ask(&shell(script), &server(), Duration::from_millis(within)).unwrap_err();
            assert!(why.contains(part) && !why.contains("canary"), "{why}");
        };
        check("echo canary; exit 3", 20_000, "failed: exit status: 3");
        check("echo canary", 20_000, "it is not JSON");
        check("exec sleep 30", 100, "did not end in time");
        check("exec cat /dev/zero", 20_000, "says too much");
        let none = Plugin { command: "/nonexistent".into(), ..shell("") };
        assert!(ask(&none, &server(), Duration::from_secs(1)).unwrap_err().contains("cannot be run"));
    }

    #[test]
    fn what_plugins_say() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let check = |status: &str| {
            let said = format!(r#"{{"kind":"ExecCredential","apiVersion":"{V1}","status":{status}}}"#);
            given(said.as_bytes(), V1, now)
        };
        let lasts =
            |end: &str| check(&format!(r#"{{"token":"a","expirationTimestamp":"{end}"}}"#)).unwrap().lasts;
        assert_eq!(lasts("2026-01-01T01:00:00Z"), Some(Duration::from_secs(3600)));
        // This node's clock may be wrong: the server decides.
        assert_eq!(lasts("2001-01-01T01:00:00Z"), Some(limits::API_PLUGIN_MIN));
        let pair = check(r#"{"clientCertificateData":"c","clientKeyData":"k"}"#).unwrap().certificate;
        assert_eq!(pair, Some((b"c".to_vec().into(), b"k".to_vec().into())));
        for (status, part) in [
            ("{}", "neither a token"),
            (r#"{"clientKeyData":"k"}"#, "one of certificate and key"),
            (r#"{"token":"a b"}"#, "the token"),
            (r#"{"token":"a","expirationTimestamp":"soon"}"#, "is no time"),
        ] {
            assert!(check(status).unwrap_err().contains(part), "{status}");
        }
        assert!(given(b"{}", V1, now).unwrap_err().contains("no ExecCredential"));
    }
}
