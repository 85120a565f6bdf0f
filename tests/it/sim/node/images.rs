//! Docker's events of images, as the daemon's event thread hears them.

use podkeeper::testing::garbage::records::Ask;
use podkeeper::testing::runtime::ImageSummary;
use podkeeper::testing::runtime::event_stream::{DockerEvent, EventAction};
use podkeeper::testing::runtime::fake::EventNext;

use super::super::world::World;
use super::keeper::moment;

impl World {
    /// Docker's events of images.
    pub fn keeper_hears_of_images(&mut self) {
        let now = moment(&self.now());
        if self.keeping().is_none() {
            return;
        }
        loop {
            let Some(cursor) = self.daemon.as_mut().and_then(|d| d.image_cursor.as_mut()) else { return };
            let next = self.engine.next_image_event(cursor);
            let asked = match &next {
                EventNext::Idle => return,
                EventNext::End(_) => {
                    self.daemon.as_mut().unwrap().image_cursor = None;
                    if let Some(keeping) = self.keeping() {
                        keeping.records.missed_events();
                    }
                    return;
                }
                EventNext::Event(e) => {
                    let (id, action, labels) =
                        (e.id.clone(), EventAction::parse(&e.action), e.labels.clone());
                    let event = DockerEvent { id, action, labels, time_nano: e.time_nano };
                    self.keeping().and_then(|keeping| keeping.records.note_event(&event, now))
                }
            };
            if let Some(Ask::Id(name)) = asked
                && let Some(id) = self.image_id(&name)
            {
                self.keeping().unwrap().records.note_id(&name, &id, now);
            }
            self.write_records();
        }
    }

    /// The engine's answer to an inspect, without its faults.
    pub(super) fn image_id(&self, image: &str) -> Option<String> {
        let has = |it: &ImageSummary| it.id == image || it.tags.iter().any(|tag| tag == image);
        self.engine.image_list().into_iter().find(has).map(|it| it.id)
    }
}
