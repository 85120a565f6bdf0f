//! Attachments that earlier daemons left for sandboxes that are gone: the sandboxes were removed by hand, or a power
//! cut destroyed Docker's own files. Only podkeeper's own records are used; those of other runtimes in the same
//! directory are left alone.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::Wanted;
use super::cache;
use super::networks::Networks;
use super::record::Record;
use crate::base::limits;
use crate::pod::PodKey;

impl Networks {
    /// Detaches all sandboxes that Docker no longer has, then makes plugins collect if their version supports it.
    /// Failures are retried for a while, and at the next start.
    pub fn sweep(&self) {
        let mut wait = limits::CNI_RETRY_MIN;
        for attempt in 1..=limits::SWEEP_TRIES {
            let ours = cache::all(&self.dirs.cache_dir).into_iter();
            let ours = ours.filter(|(record, _)| record.root_dir.as_ref() == Some(&self.root_dir));
            let strangers = ours.filter(|(record, _)| self.is_stranger(&record.sandbox));
            let left: Vec<Option<String>> =
                strangers.map(|(record, _)| self.sweep_one(&record).err()).collect();
            let left: Vec<String> = left.into_iter().flatten().collect();
            if left.is_empty() {
                break;
            }
            if attempt == 1 || attempt == limits::SWEEP_TRIES {
                let next = if attempt == 1 { "tried again" } else { "left to the next start" };
                log::warn!("networks of sandboxes that are gone: {}; {next}", left.join("; "));
            }
            thread::sleep(wait);
            wait = wait.saturating_mul(2).min(limits::CNI_RETRY_MAX);
        }
        self.collect_what_is_left();
    }

    fn sweep_one(&self, record: &Record) -> Result<(), String> {
        static NEVER: AtomicBool = AtomicBool::new(false);
        if !self.is_gone(&record.sandbox).map_err(|error| error.to_string())? {
            return Ok(());
        }
        let word = |key: &str| {
            let found = record.arguments.iter().find(|[name, _]| name == key);
            found.map(|[_, value]| value.clone()).unwrap_or_default()
        };
        let key = PodKey { namespace: word("K8S_POD_NAMESPACE"), name: word("K8S_POD_NAME") };
        let wanted = Wanted {
            sandbox: record.sandbox.clone(),
            uid: word("K8S_POD_UID"),
            capabilities: Ok(record.capabilities.clone()),
            key: key.clone(),
        };
        self.detach(&wanted, &NEVER).map_err(|why| format!("pod {key}: {why}"))?;
        log::info!("pod {key}: the network of its sandbox {} is freed: the sandbox is gone", record.sandbox);
        Ok(())
    }

    /// Collects only if all attachments of the network are known, and no pod is being attached.
    fn collect_what_is_left(&self) {
        if !self.dirs.is_on {
            return;
        }
        let Ok(network) = self.network() else { return };
        let list = &network.list;
        if list.disable_gc || !list.is_at_least("1.1.0") {
            return;
        }
        let Ok(_alone) = self.work.try_write() else { return };
        let Some(valid) = cache::attached(&self.dirs.cache_dir, &list.name) else {
            log::info!("network {}: nothing is collected, for not all of its records can be read", list.name);
            return;
        };
        if let Err(why) = self.collect(list, &valid) {
            log::warn!("network {}: {why}", list.name);
        }
    }
}
