//! Writes the store: one path at a time, and after failures at growing intervals.

use std::io;
use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};

use super::key::KeyFile;
use super::{Kept, Key, LastGood, Remembered, proof};
use crate::base::clock::Mono;
use crate::base::{durable, limits};
use crate::source::in_force::Version;

impl LastGood {
    /// Brings one path up to date. A failure is reported once and retried at growing intervals, and at the next change.
    pub fn save_some(&mut self, now: Mono) {
        if !self.is_behind(now) {
            return;
        }
        // The record is written first: at the next start another source may judge by it before this one has read its
        // contents. Contents that it is made of are removed after it was written.
        let seen = if self.seen.is_settled() { Ok(()) } else { self.store_seen() };
        let first = |is: fn(&Kept) -> bool| {
            self.paths.iter().find(|(_, kept)| is(kept)).map(|(path, _)| path.clone())
        };
        let next = match first(|kept| !kept.unsaved.is_empty()) {
            None if self.seen.is_settled() => first(|kept| !kept.is_settled()),
            next => next,
        };
        let done = match next {
            // Contents are written even when the record cannot be.
            Some(path) => self.save(&path),
            None => seen,
        };
        match done {
            Ok(()) => {
                self.retry = None;
                self.wait = limits::LAST_GOOD_RETRY_MIN;
                let all = !self.is_unsettled()
                    && !self.seen.is_lost()
                    && !self.unread.values().any(|file| file.waits)
                    && !self.paths.values().any(|kept| kept.left_out);
                if all && self.trouble.take().is_some() {
                    log::info!("what source {} says is remembered again", self.source);
                }
            }
            Err(why) => self.put_off(why, now),
        }
    }

    /// Notes a failure, and sets the time of the next try.
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

    /// Writes the new contents of a path, then removes those that are not needed, oldest first: a kill in between
    /// leaves contents with the same meaning.
    fn save(&mut self, path: &str) -> Result<(), String> {
        if !self.present {
            // It could not be made before. A directory that existed and is gone was removed on purpose.
            self.make_directory();
        }
        let Some(mut kept) = self.paths.remove(path) else { return Ok(()) };
        let done = self.bring_up_to_date(path, &mut kept);
        if kept.left_out || !(kept.needed.is_empty() && kept.stored.is_empty()) {
            self.paths.insert(path.to_owned(), kept);
        }
        done.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => gone(&self.dir),
            _ => format!("{path} cannot be remembered in {}: {e}", self.dir.display()),
        })?;
        Ok(())
    }

    fn bring_up_to_date(&mut self, path: &str, kept: &mut Kept) -> io::Result<()> {
        let is_newer = !kept.unsaved.is_empty();
        while let Some((version, content)) = kept.unsaved.first() {
            let is_needed = |version: &&Version| kept.needed.contains(version);
            // Files that are removed after this write take no room from it.
            let own: Vec<u64> =
                kept.stored.iter().filter(|(v, _)| is_needed(v)).map(|(_, size)| *size).collect();
            match self.write(content, &own)? {
                Some(size) => _ = kept.stored.insert(*version, size),
                None => {
                    // An old version is better than none, because its source could send it again at any time. But a
                    // signed content says that older ones must not come back.
                    let is_signed = content.signature.is_some();
                    kept.unsaved.clear();
                    kept.needed = kept.stored.keys().filter(|_| !is_signed).copied().collect();
                    kept.left_out = true;
                    let instead = match kept.needed.last() {
                        Some(_) => "a start without the source runs the version before",
                        None => "a start without the source runs nothing of it",
                    };
                    self.tell(format!(
                        "{path} is not remembered as it is now: what the source says is more than {} bytes or \
                         {} files; {instead}",
                        limits::LAST_GOOD_BYTES,
                        limits::LAST_GOOD_FILES
                    ));
                    break;
                }
            }
            kept.unsaved.pop_first();
        }
        if (is_newer && !kept.left_out) || kept.needed.is_empty() {
            self.supersede(path, kept)?;
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

    /// Removes unread files of a path that the content written now supersedes, whatever their number: the next start
    /// would take them for newer.
    fn supersede(&mut self, path: &str, kept: &Kept) -> io::Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        let newest = kept.needed.last().map(|version| key.name(path, *version));
        let stored: Vec<String> = kept.stored.keys().map(|version| key.name(path, *version)).collect();
        let of_path: Vec<String> = self.unread_of(&key.stem(path)).cloned().collect();
        for name in of_path {
            if stored.contains(&name) {
                self.unread.remove(&name);
            } else if newest.as_ref().is_none_or(|newest| name > *newest) {
                durable::remove(&self.dir.join(&name))?;
                self.unread.remove(&name);
            }
        }
        Ok(())
    }

    fn unread_of(&self, stem: &str) -> impl Iterator<Item = &String> {
        self.unread.keys().filter(move |name| name.starts_with(stem))
    }

    /// Finds the key, and writes its proof beside the files that it seals.
    pub(super) fn find_proven_key(&mut self) -> io::Result<()> {
        self.find_key().map_err(io::Error::other)?;
        if !self.is_proven {
            let (key, nonce) = for_sealing(&mut self.key, &self.key_file)?;
            proof::leave((&self.dir, self.source), &self.key_file, key, nonce)?;
            self.is_proven = true;
        }
        Ok(())
    }

    /// Writes one content; returns the size of its file, or `None` when there is no room for it. `own`: sizes of the
    /// other files of its path that stay.
    fn write(&mut self, content: &Remembered, own: &[u64]) -> io::Result<Option<u64>> {
        self.find_proven_key()?;
        let (key, nonce) = for_sealing(&mut self.key, &self.key_file)?;
        let stem = key.stem(&content.path);
        let sealed = key.seal(self.source, content, nonce);
        let (name, file) = sealed.ok_or_else(|| io::Error::other("it cannot be sealed"))?;
        let size = u64::try_from(file.len()).unwrap_or(u64::MAX);
        let others = self.paths.values().flat_map(|kept| kept.stored.values());
        // Unread files of this path do not count: the new content supersedes them.
        let unread =
            self.unread.iter().filter(|(name, _)| !name.starts_with(&stem)).map(|(_, file)| &file.size);
        let (files, bytes) = others
            .chain(own)
            .chain(unread)
            .fold((1_usize, size), |(n, sum), s| (n + 1, sum.saturating_add(*s)));
        if files > limits::LAST_GOOD_FILES || bytes > limits::LAST_GOOD_BYTES {
            return Ok(None);
        }
        durable::write(&self.dir.join(name), &file)?;
        Ok(Some(size))
    }
}

/// The key, which is read or made if it is not known, and the nonce of one file.
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
