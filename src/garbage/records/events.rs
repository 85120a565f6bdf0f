//! What events of images and containers say about images: when an image came, which one has a name, which one is used.
//! Pure.
//!
//! An event of a container has the image's name, which another image may have when images are collected; so the id is
//! found at once. Docker tells it when an image gets a name, but not for a pull, and not for a load, which may take names
//! away from other images: then known ids are forgotten, and asked for when a name is needed.

use super::{Moment, Records, fresh};
use crate::base::limits;
use crate::image::reference::normal;
use crate::runtime::event_stream::{DockerEvent, EventAction};

/// What Docker has to be asked after an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Which image has this name; see [`Records::note_id`].
    Id(String),
    /// Whether this image is there; see [`Records::note_gone`].
    There(String),
}

impl Records {
    /// The id of the image that an event of a container names, if it is known.
    #[must_use]
    pub fn id_of(&self, image: &str) -> Option<String> {
        full_id(image).or_else(|| self.ids.get(&normal(image)).cloned())
    }

    /// Takes Docker's word that the image with this id is there and has this name (or id).
    pub fn note_id(&mut self, image: &str, id: &str, now: Moment) {
        let Some(id) = full_id(id) else { return };
        self.note_there(&id, now);
        let name = normal(image);
        let has_room = self.ids.len() < limits::IMAGE_RECORDS || self.ids.contains_key(&name);
        if full_id(image).is_none() && has_room {
            self.ids.insert(name, id);
        }
    }

    /// Takes the image of an event of a container, which may be gone before the next list.
    pub fn note_use(&mut self, image: &str, now: Moment) {
        let key = self.id_of(image).unwrap_or_else(|| normal(image));
        if self.named.len() < limits::IMAGE_RECORDS || self.named.contains_key(&key) {
            self.last = self.last.saturating_add(1);
            self.named.insert(key, (self.last, now));
        }
    }

    /// Takes an event of an image. Its age is that of the moment in which the event is heard: Docker's clock may jump.
    pub fn note_event(&mut self, event: &DockerEvent, now: Moment) -> Option<Ask> {
        let id = full_id(&event.id);
        match (event.action, id) {
            (EventAction::Tag | EventAction::Pull, Some(id)) => self.note_id(event.name(), &id, now),
            (EventAction::Pull, None) => {
                self.ids.remove(&normal(&event.id));
                return Some(Ask::Id(event.id.clone()));
            }
            (EventAction::Untag, Some(id)) => self.ids.retain(|_, of| *of != id),
            (EventAction::Destroy, Some(id)) => {
                self.ids.retain(|_, of| *of != id);
                // Podman, which writes ids without the prefix, says so although the image has other names.
                if event.id != id {
                    return Some(Ask::There(id));
                }
                self.note_gone(&id);
            }
            (EventAction::Load, id) => {
                self.ids.clear();
                match id {
                    Some(id) => self.note_there(&id, now),
                    None => self.loaded = Some(now),
                }
            }
            (_, Some(id)) => self.note_there(&id, now),
            (_, None) => {}
        }
        None
    }

    /// An image came, and which one is not known.
    pub fn note_untold(&mut self, now: Moment) {
        self.loaded = Some(now);
    }

    /// Some events were missed.
    pub fn missed_events(&mut self) {
        self.ids.clear();
        self.loaded = None;
    }

    /// An image was removed: if it comes again it is new. The file may keep it until something else is written.
    pub fn note_gone(&mut self, id: &str) {
        if self.images.get(id).is_some_and(|record| !record.in_use) {
            self.images.remove(id);
        }
    }

    fn note_there(&mut self, id: &str, now: Moment) {
        if !self.images.contains_key(id) && self.images.len() < limits::IMAGE_RECORDS {
            let number = self.last.saturating_add(1);
            self.images.insert(id.to_owned(), fresh(number, now));
            self.ticked(true, number);
        }
    }
}

/// A full id as lists of images have it. Podman's events have it without the prefix.
fn full_id(text: &str) -> Option<String> {
    let hex = text.strip_prefix("sha256:").unwrap_or(text);
    (hex.len() == DIGITS && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| format!("sha256:{hex}"))
}

/// Number of digits of an id.
const DIGITS: usize = 64;

#[cfg(test)]
mod tests;
