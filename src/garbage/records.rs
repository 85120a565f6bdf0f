//! When each image was first seen and last used, as numbers of a counter that only grows: so the order never depends
//! on a clock that jumps. Ages are uptimes of one boot of the machine; after a reboot they begin again. Wall time is
//! for printing only. Pure, except [`read`] and [`Records::write`].
//!
//! The file lies in the root directory, not in the run directory: the order of use must outlive a boot, because a
//! node may be rebooted much more often than it runs short of space. It is written only when an image starts or stops
//! being used, appears or disappears; that costs less than Docker's own writes for the container or the image. Images
//! and uses are noted from Docker's events (`events`), and when its containers are listed anyway; containers of other
//! owners count when images are collected.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::base::json::json;
use serde_json::Value;

use crate::base::checked::{self, Entries};
use crate::base::clock::Timestamp;
use crate::base::table::{Set, Table};
use crate::base::{limits, order};
use crate::image::reference::normal;
use crate::runtime::{ContainerSummary, ImageSummary};

mod events;

pub use events::Ask;

/// Name of the file in the root directory.
pub const FILE: &str = "images-seen";

/// First word of the file; another version has another word.
const FORMAT: &str = "podkeeper-images-seen-1";

/// Name of the file when it is damaged.
const DAMAGED: &str = "images-seen.damaged";

/// The key of the entry that is not about an image. No image has this id.
const BOOT: &str = "boot";

/// One reading of the clocks that records use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Uptime of the machine.
    pub up: Duration,
    /// For printing only.
    pub wall: Timestamp,
}

/// The record of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Counter when the image was first seen.
    pub first: u64,
    /// Counter when the image was last used; 0 for never.
    pub used: u64,
    /// A container of it existed at the last look.
    pub in_use: bool,
    /// Uptime when the image was first seen.
    pub seen_up: Duration,
    /// Uptime when the image was seen to be unused; when it was first seen, if it was never used.
    pub unused_up: Duration,
    /// Wall time of `unused_up`, in seconds.
    pub unused_wall: i64,
}

/// The records of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The kernel's id of the boot to which uptimes belong.
    boot: String,
    /// The last number of the counter.
    last: u64,
    images: Table<String, Record>,
    /// The sandbox's image.
    sandbox: String,
    /// `--pinned-images`.
    pinned: Vec<String>,
    /// Images of events of containers since the last list of images, by id, or by name where the id is not known; and the
    /// time of the last event.
    named: Table<String, (u64, Moment)>,
    /// Ids of images by their full names, as far as events tell them.
    ids: Table<String, String>,
    /// When images were last loaded of which the event did not tell the ids.
    loaded: Option<Moment>,
    /// Uptime of the last list of images.
    listed_up: Option<Duration>,
    /// Ids of images whose only containers belong to other owners, at the last look.
    others: Set<String>,
    changed: bool,
}

impl Records {
    /// The record of an image by its id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Record> {
        self.images.get(id)
    }

    /// Sets the images that the daemon always keeps, for readers of the file while the daemon does not run.
    pub fn set_fixed(&mut self, sandbox: &str, pinned: Vec<String>) {
        if self.sandbox != sandbox || self.pinned != pinned {
            (self.sandbox, self.pinned) = (sandbox.to_owned(), pinned);
            self.changed = true;
        }
    }

    /// See [`Records::set_fixed`]; empty when no daemon has set them.
    #[must_use]
    pub fn fixed(&self) -> (&str, &[String]) {
        (&self.sandbox, &self.pinned)
    }

    /// Takes a list of all of the daemon's containers: exactly their images are in use.
    pub fn note_containers(&mut self, containers: &[ContainerSummary], now: Moment) {
        let used = order::set(containers.iter().map(|c| c.image_id.as_str()).filter(|id| !id.is_empty()));
        let number = self.last.saturating_add(1);
        let mut changed = false;
        for (id, record) in &mut self.images {
            let in_use = used.contains(id.as_str());
            if record.in_use != in_use {
                changed = true;
                record.in_use = in_use;
                record.used = number;
                (record.unused_up, record.unused_wall) = (now.up, now.wall.as_second());
            }
        }
        for id in used {
            if !self.images.contains_key(id) && self.images.len() < limits::IMAGE_RECORDS {
                changed = true;
                self.images
                    .insert(id.to_owned(), Record { used: number, in_use: true, ..fresh(number, now) });
            }
        }
        self.ticked(changed, number);
    }

    /// Takes a list of all images, after a list of all containers.
    pub fn note_images(&mut self, images: &[ImageSummary], now: Moment) {
        let number = self.last.saturating_add(1);
        let mut changed = false;
        let there = order::set(images.iter().map(|image| image.id.as_str()));
        let before = self.images.len();
        self.images.retain(|id, _| there.contains(id.as_str()));
        changed |= self.images.len() != before;
        for image in images {
            let names = image.tags.iter().chain(&image.digests).map(|name| normal(name));
            let heard = names.chain([image.id.clone()]).filter_map(|name| self.named.get(&name));
            let heard = heard.max_by_key(|(number, _)| *number).copied();
            // One that was made or came later has got the name of another image.
            let is_its_own = |(used, at): &(u64, Moment)| {
                image.created <= at.wall.as_second()
                    && self.images.get(&image.id).is_none_or(|record| record.first <= *used)
            };
            let heard = heard.filter(is_its_own);
            if !self.images.contains_key(&image.id) && self.images.len() < limits::IMAGE_RECORDS {
                changed = true;
                // It is at least as old as the events of its containers: looks may be far apart, until the disk is full. All
                // others have come with an event that told no id, of which only the last is known.
                let came = heard.map(|(_, at)| at).or(self.loaded);
                let seen_up = came.map_or_else(|| self.made_up(image, now), |at| at.up);
                self.images.insert(image.id.clone(), Record { seen_up, ..fresh(number, now) });
            }
            let Some(record) = self.images.get_mut(&image.id) else { continue };
            if let Some((used, _)) = heard.filter(|(used, _)| *used > record.used && !record.in_use) {
                changed = true;
                record.used = used;
                (record.unused_up, record.unused_wall) = (now.up, now.wall.as_second());
            }
        }
        self.named.clear();
        self.loaded = None;
        self.listed_up = Some(now.up);
        self.ticked(changed, number);
    }

    /// Uptime when an image was made that was not there at the last list. No event tells of one without a name that was built
    /// or committed here: when it was made is known by Docker's clock alone, and after that list.
    fn made_up(&self, image: &ImageSummary, now: Moment) -> Duration {
        let told = image.created > 0 && image.names().next().is_none();
        let Some(listed) = self.listed_up.filter(|_| told) else { return now.up };
        let age = now.wall.as_second().saturating_sub(image.created);
        let age = Duration::from_secs(u64::try_from(age).unwrap_or(0));
        now.up.saturating_sub(age).max(listed)
    }

    /// Takes the images of containers of other owners. An image that is still in use does not cause a write.
    pub fn note_others<'a>(&mut self, ids: impl Iterator<Item = &'a str>, now: Moment) {
        let number = self.last.saturating_add(1);
        let mut others = Set::new();
        for id in ids {
            if let Some(record) = self.images.get_mut(id).filter(|record| !record.in_use) {
                others.insert(id.to_owned());
                record.used = number;
                (record.unused_up, record.unused_wall) = (now.up, now.wall.as_second());
            }
        }
        if !others.is_empty() {
            self.last = self.last.max(number);
        }
        let changed = others != self.others;
        self.others = others;
        self.ticked(changed, number);
    }

    fn ticked(&mut self, changed: bool, number: u64) {
        if changed {
            self.last = self.last.max(number);
            self.changed = true;
        }
    }

    /// Whether there are changes to write.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Takes the state to be written now.
    pub fn take_unwritten(&mut self) -> Records {
        self.changed = false;
        self.clone()
    }

    /// The write has failed, so the state is still to be written.
    pub fn not_written(&mut self) {
        self.changed = true;
    }

    /// Writes the file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn write(&self, root_dir: &Path) -> io::Result<()> {
        checked::write(&root_dir.join(FILE), FORMAT, self.entries())
    }

    /// The content of the file.
    #[must_use]
    pub fn entries(&self) -> Entries {
        let mut entries = Entries::new();
        entries.insert(
            BOOT.to_owned(),
            json!({ "id": self.boot, "last": self.last, "sandbox": self.sandbox, "pinned": self.pinned }),
        );
        for (id, record) in &self.images {
            let Record { first, used, in_use, seen_up, unused_up, unused_wall } = *record;
            let (seen, unused) = (seen_up.as_secs(), unused_up.as_secs());
            let value = json!([first, used, in_use, seen, unused, unused_wall]);
            entries.insert(id.clone(), value);
        }
        entries
    }

    /// Reads records from the entries of the file. Uptimes of another boot are dropped: ages begin again.
    ///
    /// # Errors
    /// Why the entries are not podkeeper's.
    pub fn parse(mut entries: Entries, boot: &str) -> Result<Records, &'static str> {
        const FORM: &str = "an entry of it has another form";
        let Some(head) = entries.remove(BOOT) else {
            return Ok(Records { boot: boot.to_owned(), ..Records::default() });
        };
        let same = head.get("id").and_then(Value::as_str) == Some(boot) && !boot.is_empty();
        let mut records = Records {
            boot: boot.to_owned(),
            last: head.get("last").and_then(Value::as_u64).ok_or(FORM)?,
            sandbox: head.get("sandbox").and_then(Value::as_str).ok_or(FORM)?.to_owned(),
            ..Records::default()
        };
        for pin in head.get("pinned").and_then(Value::as_array).ok_or(FORM)? {
            records.pinned.push(pin.as_str().ok_or(FORM)?.to_owned());
        }
        let record = |value: &Value| {
            let number = |at: usize| value.get(at).and_then(Value::as_u64);
            let up = |at| Some(if same { Duration::from_secs(number(at)?) } else { Duration::ZERO });
            Some(Record {
                first: number(0)?,
                used: number(1)?,
                in_use: value.get(2)?.as_bool()?,
                seen_up: up(3)?,
                unused_up: up(4)?,
                unused_wall: value.get(5)?.as_i64()?,
            })
        };
        for (id, value) in entries {
            records.images.insert(id, record(&value).ok_or(FORM)?);
        }
        Ok(records)
    }
}

fn fresh(number: u64, now: Moment) -> Record {
    let unused_wall = now.wall.as_second();
    Record { first: number, used: 0, in_use: false, seen_up: now.up, unused_up: now.up, unused_wall }
}

/// Reads the file of an earlier daemon. A damaged file is renamed: images then count as first seen now, which only
/// keeps them longer.
#[must_use]
pub fn read(root_dir: &Path, boot: &str) -> Records {
    let path = root_dir.join(FILE);
    look(root_dir, boot).unwrap_or_else(|why| {
        let aside = root_dir.join(DAMAGED);
        let moved = match std::fs::rename(&path, &aside) {
            Ok(()) => format!("it is {} now", aside.display()),
            Err(error) => format!("it could not be set aside: {error}"),
        };
        log::warn!(
            "{}: {why}; {moved}. Which images were unused for longest is not known, so they are collected in any order",
            path.display()
        );
        Records { boot: boot.to_owned(), ..Records::default() }
    })
}

/// Like [`read`], for callers that may not change the file.
///
/// # Errors
/// The reason, for the operator.
pub fn look(root_dir: &Path, boot: &str) -> Result<Records, String> {
    let entries = checked::read(&root_dir.join(FILE), limits::IMAGE_RECORDS_BYTES, FORMAT)?;
    Records::parse(entries, boot).map_err(str::to_owned)
}

#[cfg(test)]
mod tests;
