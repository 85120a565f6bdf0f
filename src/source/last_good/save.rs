//! Writing the store: one path at a time, and after a failure ever more slowly.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use super::key::KeyFile;
use super::{Kept, Key, LastGood, Remembered};
use crate::base::clock::Mono;
use crate::base::{durable, limits};
use crate::source::in_force::Version;

impl LastGood {
    /// Brings one path up to date. Failure is told once and tried again, ever more slowly, and with the next
    /// change.
    pub fn save_some(&mut self, now: Mono) {
        if !self.is_behind(now) {
            return;
        }
        // The record goes first: at the next start another source may judge by it before this one has learned from
        // its contents. What it is made of is removed after it was written.
        let seen = if self.seen.is_settled() { Ok(()) } else { self.store_seen() };
        let first = |is: fn(&Kept) -> bool| {
            self.paths.iter().find(|(_, kept)| is(kept)).map(|(path, _)| path.clone())
        };
        let next = match first(|kept| !kept.unsaved.is_empty()) {
            None if self.seen.is_settled() => first(|kept| !kept.is_settled()),
            next => next,
        };
        let done = match next {
            // Also when the record cannot be written.
            Some(path) => self.save(&path),
            None => seen,
        };
        match done {
            Ok(()) => {
                self.retry = None;
                self.wait = limits::LAST_GOOD_RETRY_MIN;
                let all = !self.is_unsettled()
                    && !self.seen.is_lost()
                    && !self.paths.values().any(|kept| kept.left_out);
                if all && self.trouble.take().is_some() {
                    log::info!("what source {} says is remembered again", self.source);
                }
            }
            Err(why) => self.put_off(why, now),
        }
    }

    /// It cannot be done now.
    pub(super) fn put_off(&mut self, why: String, now: Mono) {
        self.retry = Some(now.after(self.wait));
        self.wait = self.wait.saturating_mul(2).min(limits::LAST_GOOD_RETRY_MAX);
        self.tell(why);
    }

    fn store_seen(&mut self) -> Result<(), String> {
        if !self.present {
            self.make_directory();
        }
        self.save_seen().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&self.dir),
            _ => format!("the highest signed versions that were seen cannot be kept: {e}"),
        })
    }

    /// Writes what is new of a path, then removes what is not needed any more, oldest first: a kill in
    /// between leaves a history that means the same.
    fn save(&mut self, path: &str) -> Result<(), String> {
        if !self.present {
            // It could not be made before; one that was there and is gone was taken away on purpose.
            self.make_directory();
        }
        let Some(mut kept) = self.paths.remove(path) else { return Ok(()) };
        let done = self.bring_up_to_date(path, &mut kept);
        if !(kept.needed.is_empty() && kept.stored.is_empty()) {
            self.paths.insert(path.to_owned(), kept);
        }
        done.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&self.dir),
            _ => format!("{path} cannot be remembered in {}: {e}", self.dir.display()),
        })?;
        Ok(())
    }

    fn bring_up_to_date(&mut self, path: &str, kept: &mut Kept) -> io::Result<()> {
        while let Some(content) = kept.unsaved.first_entry() {
            match self.write(content.get(), &kept.stored)? {
                Some(size) => _ = kept.stored.insert(*content.key(), size),
                None => {
                    // Rather an old version than none.
                    kept.unsaved.clear();
                    kept.needed = kept.stored.keys().copied().collect();
                    kept.left_out = true;
                    self.tell(format!(
                        "{path} is not remembered as it is now: what the source says is more than {} bytes or \
                         {} files",
                        limits::LAST_GOOD_BYTES,
                        limits::LAST_GOOD_FILES
                    ));
                    return Ok(());
                }
            }
            content.remove();
        }
        if !self.seen.is_settled() {
            return Ok(());
        }
        let surplus: Vec<Version> =
            kept.stored.keys().filter(|v| !kept.needed.contains(v)).copied().collect();
        for version in surplus {
            if let Some(key) = &self.key {
                durable::remove(&self.dir.join(key.name(path, version)))?;
            }
            kept.stored.remove(&version);
        }
        Ok(())
    }

    /// Writes one content; answers with the size of its file, or `None` when there is no room for it.
    fn write(&mut self, content: &Remembered, own: &BTreeMap<Version, u64>) -> io::Result<Option<u64>> {
        let (key, nonce) = for_sealing(&mut self.key, &self.key_file)?;
        let sealed = key.seal(self.source, content, nonce);
        let (name, file) = sealed.ok_or_else(|| io::Error::other("it cannot be sealed"))?;
        let size = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let others = self.paths.values().flat_map(|kept| kept.stored.values());
        let (files, bytes) =
            others.chain(own.values()).fold((1_usize, size), |(n, sum), s| (n + 1, sum.saturating_add(*s)));
        if files > limits::LAST_GOOD_FILES || bytes > limits::LAST_GOOD_BYTES {
            return Ok(None);
        }
        durable::write(&self.dir.join(name), &file)?;
        Ok(Some(size))
    }
}

/// The key, which is read or made when it is not known, and the nonce of one file.
pub(in crate::source) fn for_sealing<'a>(
    key: &'a mut Option<Key>,
    file: &KeyFile,
) -> io::Result<(&'a Key, [u8; 12])> {
    let known = match key.take() {
        Some(key) => key,
        None => file.read_or_make().map_err(io::Error::other)?,
    };
    let key = key.insert(known);
    let mut nonce = [0_u8; 12];
    SystemRandom::new().fill(&mut nonce).map_err(|_| io::Error::other("no random numbers"))?;
    Ok((key, nonce))
}

fn gone(dir: &Path) -> String {
    format!("{} is gone; SIGHUP makes podkeeper begin anew", dir.display())
}
