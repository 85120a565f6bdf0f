//! Settings that were read again: changeable ones are applied, and the others are reported.

use log::Level;

use super::Turn;
use crate::base::clock::Now;
use crate::daemon::reload::Reload;
use crate::recorder::{ObjectEvent, Words, words};

impl Turn {
    pub(super) fn reloaded(&mut self, reload: Reload, now: &Now) {
        match reload {
            Reload::Refused(why) => self.tell_reload(Level::Error, words::reload_refused(&why), now),
            Reload::Read { config, now: in_force, later, .. } => {
                if !in_force.is_empty() {
                    self.config = config;
                    self.changed = true;
                    self.tell_reload(Level::Info, words::reloaded(&in_force), now);
                    self.readmit(&[], now);
                }
                if !later.is_empty() {
                    self.tell_reload(Level::Warn, words::reload_needs_restart(&later), now);
                }
            }
        }
    }

    /// Records each reload, even an unchanged result: an operator has asked for it.
    fn tell_reload(&mut self, level: Level, words: Words, now: &Now) {
        self.log(level, format!("settings: {}", words.message));
        let event = ObjectEvent::of_node(&self.config.node_name, words);
        let _line = self.ring.add(event, now);
    }
}
