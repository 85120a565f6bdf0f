//! Number of this pod's dead containers, for a node that bounds those of all pods together.

use crate::base::table::Table;
use crate::machine::Machine;
use crate::machine::output::{Output, Report};
use crate::plan::RunState;

impl Machine {
    /// Reports the numbers whenever they change.
    pub(in crate::machine) fn tell_dead(&mut self) {
        if self.settings.dead.in_all.is_none() {
            return;
        }
        let mut by_name: Table<(&str, &str), u32> = Table::new();
        for container in self.containers.all().filter(|c| matches!(c.state, RunState::Exited(_))) {
            if let Some(name) = container.container_name() {
                let count = by_name.get_or_default((&container.uid, name));
                *count = count.saturating_add(1);
            }
        }
        let dead: Vec<u32> = by_name.into_values().collect();
        let is_within = |allowed: usize| dead.iter().all(|n| usize::try_from(*n).is_ok_and(|n| n <= allowed));
        if self.containers.dead_allowed.is_some_and(is_within) {
            self.containers.dead_allowed = None;
        }
        if dead != self.told.dead {
            self.told.dead.clone_from(&dead);
            self.out.push(Output::Report(Report::Dead(dead)));
        }
    }
}
