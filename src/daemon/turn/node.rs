//! What the keeper tells of the node: pressure, evictions, events.

use super::Turn;
use crate::eviction::News;

impl Turn {
    pub(super) fn node_told(&mut self, news: News) {
        self.log(log::Level::Debug, format!("{news:?}"));
    }
}
