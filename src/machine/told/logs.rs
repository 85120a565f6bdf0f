//! The logs of this pod that are available by name: of all containers that ran, until they are removed.

use crate::base::order;
use crate::machine::Machine;
use crate::machine::output::Output;
use crate::plan::{Owned, RunState};
use crate::pod_logs::{ContainerLog, ContainerLogs};

impl Machine {
    /// Sends the whole set whenever it changes. It sends no set before the first look.
    pub(in crate::machine) fn tell_logs(&mut self) {
        if self.looking.list_needed || self.calls.is_listing() {
            return;
        }
        let logs: ContainerLogs = order::set(self.containers.all().filter_map(log_of));
        if logs != self.told.logs {
            self.told.logs.clone_from(&logs);
            self.out.push(Output::Logs(logs));
        }
    }
}

/// A container that never ran has no log.
fn log_of(container: &Owned) -> Option<ContainerLog> {
    let name = container.container_name()?;
    match &container.state {
        RunState::Created => return None,
        RunState::Exited(exit) if exit.cannot_run => return None,
        _ => {}
    }
    Some(ContainerLog {
        id: container.id.clone(),
        uid: container.uid.clone(),
        container: name.to_owned(),
        attempt: container.attempt,
        file: container.log_path.clone(),
    })
}
