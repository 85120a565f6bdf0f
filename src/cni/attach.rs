//! Attaching and detaching one sandbox: plugins in their order, and the record on the disk (containernetworking/cni's
//! `libcni/api.go`; Mirantis/cri-dockerd's `core/sandbox_run.go`, `core/sandbox_stop.go`).

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::cache::{self, Kept};
use super::call::{self, Command, Sandbox, environment, input, input_of_gc};
use super::conf::{List, Plugin};
use super::directory::{bin_path, program};
use super::networks::Networks;
use super::record::Record;
use super::run::{Allowed, Ended, run};
use super::{Wanted, answer, earlier, ports};
use crate::base::limits;
use crate::network::address;

/// Why a sandbox is not attached.
#[derive(Debug, PartialEq)]
pub(super) enum NotAttached {
    /// It was attached, but its namespace no longer has the interface: the namespace is a new one.
    Lost,
    Failed(String),
}

impl Networks {
    /// Attaches a sandbox, unless it is attached already. `begins` is called before the first plugin runs.
    pub(super) fn attach(
        &self,
        wanted: &Wanted,
        is_cancelled: &AtomicBool,
        begins: &dyn Fn(),
    ) -> Result<Vec<String>, NotAttached> {
        let id = &wanted.sandbox;
        let pid = self.docker.process(id).map_err(|error| NotAttached::Failed(error.to_string()))?.ok_or_else(|| {
            NotAttached::Failed(format!(
                "CNI failed to retrieve network namespace path: cannot find network namespace for the terminated \
                 container {id:?}"
            ))
        })?;
        let unread = |error: std::io::Error| {
            NotAttached::Failed(format!(
                "its network namespace cannot be read, and it stays as it is: {error}"
            ))
        };
        match cache::find(&self.dirs.cache_dir, id).map_err(NotAttached::Failed)? {
            Kept::Record(record, _) if record.result.is_some() => {
                let given = record.result.as_ref().map(answer::addresses);
                let Some(Ok(given)) = given else { return Err(NotAttached::Lost) };
                // A pod may change its own addresses. Only if the interface is missing, the namespace is a new one.
                let is_there = address::has_interface(pid, call::INTERFACE).map_err(unread)?;
                return if is_there { Ok(given) } else { Err(NotAttached::Lost) };
            }
            Kept::Nothing => {
                let has = address::of_process(pid).map_err(unread)?;
                if !has.is_empty() {
                    // The record was lost: the sandbox keeps its addresses.
                    return Ok(first_of_each_family(has));
                }
                begins();
            }
            Kept::Damaged(_) | Kept::Record(..) => {
                begins();
                let clean = self.detach(wanted, is_cancelled);
                clean.map_err(|why| NotAttached::Failed(format!("{}: {why}", set_up_failed(wanted))))?;
            }
        }
        let failed = |why: String| NotAttached::Failed(format!("{}: {why}", set_up_failed(wanted)));
        self.add(wanted, pid, is_cancelled).map_err(|why| {
            match self.detach(wanted, is_cancelled) {
                Ok(()) => failed(why),
                // Its record stays, and the next try starts with this cleanup.
                Err(also) => failed(format!("{why}; failed to clean up: {also}")),
            }
        })
    }

    fn add(&self, wanted: &Wanted, pid: u32, is_cancelled: &AtomicBool) -> Result<Vec<String>, String> {
        let capabilities = wanted.capabilities.clone()?;
        ports::check(&capabilities)?;
        let network = self.network()?;
        let _working = self.work.read().unwrap_or_else(PoisonError::into_inner);
        let _turn = self.enter();
        let sandbox = sandbox(wanted, Some(pid));
        let mut record = Record {
            sandbox: sandbox.id.clone(),
            list: network.list.clone(),
            netns: sandbox.netns.clone(),
            arguments: sandbox.arguments(),
            capabilities,
            result: None,
            root_dir: Some(self.root_dir.clone()),
        };
        cache::write(&self.dirs.cache_dir, &record)?;
        let allowed = Allowed::of(limits::CNI_ADD, is_cancelled);
        let mut previous: Option<Value> = None;
        for plugin in &record.list.plugins {
            let failed = |why: String| format!("plugin type={:?} failed (add): {why}", plugin.kind);
            let given = input(&record.list, plugin, &record.capabilities, previous.as_ref());
            let ended = self.plugin(Command::Add, plugin, Some((&sandbox, &record)), &given, allowed);
            let ended = ended.map_err(failed)?;
            if !ended.is_success {
                return Err(failed(answer::failure(&ended.stdout, &ended.stderr, &ended.status).text));
            }
            previous = Some(answer::result(&ended.stdout).map_err(failed)?);
        }
        let result = previous.unwrap_or_default();
        let addresses = answer::addresses(&result)?;
        record.result = Some(result);
        cache::write(&self.dirs.cache_dir, &record)?;
        Ok(addresses)
    }

    /// Detaches a sandbox, with the settings of its attachment. A sandbox that is not attached is no error.
    pub(super) fn detach(&self, wanted: &Wanted, is_cancelled: &AtomicBool) -> Result<(), String> {
        let (record, path) = match cache::find(&self.dirs.cache_dir, &wanted.sandbox)? {
            Kept::Record(record, path) => (Some(*record), Some(path)),
            Kept::Damaged(path) => (None, Some(path)),
            Kept::Nothing => (None, None),
        };
        if path.is_some() && record.as_ref().is_none_or(|record| record.result.is_none()) {
            // Attaching it may still be in progress: plugins of an earlier daemon would end after the DEL, and leave
            // their allocations.
            earlier::end_of(&wanted.sandbox, Path::new("/proc"))?;
        }
        // Without a record the current network is used; plugins that hold nothing for the sandbox succeed.
        let record = record.or_else(|| self.record_of_now(wanted));
        if let Some(record) = &record {
            self.del(wanted, record, is_cancelled)?;
        } else if let Some(path) = &path {
            log::warn!(
                "pod {}: {} cannot be read, and there is no network: it is removed",
                wanted.key,
                path.display()
            );
        }
        path.map_or(Ok(()), |path| cache::remove(&path))
    }

    fn record_of_now(&self, wanted: &Wanted) -> Option<Record> {
        let network = self.network().ok()?;
        Some(Record {
            sandbox: wanted.sandbox.clone(),
            list: network.list.clone(),
            netns: String::new(),
            arguments: sandbox(wanted, None).arguments(),
            capabilities: wanted.capabilities.clone().unwrap_or_default(),
            result: None,
            root_dir: Some(self.root_dir.clone()),
        })
    }

    fn del(&self, wanted: &Wanted, record: &Record, is_cancelled: &AtomicBool) -> Result<(), String> {
        let _working = self.work.read().unwrap_or_else(PoisonError::into_inner);
        let _turn = self.enter();
        // Its process id may be reused by now, so Docker is asked again. Without a namespace, everything else is freed.
        let pid = self.docker.process(&wanted.sandbox).ok().flatten();
        let sandbox = sandbox(wanted, pid);
        let allowed = Allowed::of(limits::CNI_DEL, is_cancelled);
        let result = record.result.as_ref().filter(|_| record.list.is_at_least("0.4.0"));
        for plugin in record.list.plugins.iter().rev() {
            let failed = |why: String| format!("plugin type={:?} failed (delete): {why}", plugin.kind);
            let given = input(&record.list, plugin, &record.capabilities, result);
            let ended = self.plugin(Command::Del, plugin, Some((&sandbox, record)), &given, allowed);
            let ended = ended.map_err(failed)?;
            if !ended.is_success {
                let failure = answer::failure(&ended.stdout, &ended.stderr, &ended.status);
                if !failure.is_unknown() {
                    return Err(failed(failure.text));
                }
            }
        }
        Ok(())
    }

    /// Frees everything that plugins of this network hold, except for these sandboxes.
    pub(super) fn collect(&self, list: &List, valid: &[(String, String)]) -> Result<(), String> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        let allowed = Allowed::of(limits::CNI_GC, &NEVER);
        for plugin in &list.plugins {
            let failed = |why: String| format!("plugin type={:?} failed (gc): {why}", plugin.kind);
            let ended = self.plugin(Command::Gc, plugin, None, &input_of_gc(list, plugin, valid), allowed);
            let ended = ended.map_err(failed)?;
            if !ended.is_success {
                return Err(failed(answer::failure(&ended.stdout, &ended.stderr, &ended.status).text));
            }
        }
        Ok(())
    }

    fn plugin(
        &self,
        command: Command,
        plugin: &Plugin,
        about: Option<(&Sandbox, &Record)>,
        given: &[u8],
        allowed: Allowed<'_>,
    ) -> Result<Ended, String> {
        let arguments = about.map(|(_, record)| record.arguments.as_slice()).unwrap_or_default();
        let sandbox = about.map(|(sandbox, _)| sandbox);
        let variables = environment(command, sandbox, arguments, &bin_path(&self.dirs));
        run(&program(&self.dirs, &plugin.kind)?, &variables, given, allowed)
    }
}

fn sandbox(wanted: &Wanted, pid: Option<u32>) -> Sandbox {
    Sandbox {
        id: wanted.sandbox.clone(),
        netns: pid.map(|pid| format!("/proc/{pid}/ns/net")).unwrap_or_default(),
        key: wanted.key.clone(),
        uid: wanted.uid.clone(),
    }
}

/// The beginning of upstream's message.
fn set_up_failed(wanted: &Wanted) -> String {
    let Wanted { sandbox, key, .. } = wanted;
    let (name, namespace) = (&key.name, &key.namespace);
    format!(
        "failed to set up sandbox container {sandbox:?} network for pod {name:?}: networkPlugin cni failed to set up \
         pod \"{name}_{namespace}\" network"
    )
}

fn first_of_each_family(all: Vec<String>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for ip in all {
        if !found.iter().any(|other| other.contains(':') == ip.contains(':')) {
            found.push(ip);
        }
    }
    found
}
