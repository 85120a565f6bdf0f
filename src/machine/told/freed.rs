//! UIDs that the pod had before an edit, of which nothing is left: another pod may wait for one.

use crate::base::table::Set;
use crate::machine::Machine;
use crate::machine::output::{Output, Report};

impl Machine {
    /// Reports the UIDs of which neither containers nor volumes are left, while a pod of another UID is wanted.
    pub(in crate::machine) fn tell_freed(&mut self) {
        let Some(pod) = self.state.pod() else { return };
        let mut held: Set<String> = self.containers.all().map(|c| c.uid.clone()).collect();
        held.extend(self.volumes.uids().cloned());
        held.insert(pod.uid.clone());
        let freed: Set<String> = self.told.uids.difference(&held).cloned().collect();
        let is_busy = !self.calls.is_empty() || self.cgroups.is_leaving() || self.network.is_leaving();
        if freed.is_empty() || is_busy {
            self.told.uids.extend(held);
            return;
        }
        self.told.uids = held;
        self.out.push(Output::Report(Report::Freed(freed, self.wishes)));
    }
}
