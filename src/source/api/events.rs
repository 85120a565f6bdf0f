//! Follows the server's events, and applies them to the set of known pods.
//!
//! Never here: requests, or looking up objects. When there is no room for a pod, the known pods stay known.

use std::time::Duration;

use serde_json::Value;

use super::decode::{self, Read};
use super::{Actor, Fault, Stopped, checks};
use crate::api_client::{ApiError, Kind, Next, Watch, WatchEvent};
use crate::base::clock::{Clock as _, Mono};
use crate::base::limits;
use crate::base::table::{Set, Table};
use crate::pod::PodKey;
use crate::pod::problem::{Problem, Severity};

/// A set that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    pods: Table<PodKey, Read>,
    left_out: LeftOut,
}

/// Pods for which there is no room.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    some: Set<PodKey>,
    /// There are more of them.
    more: bool,
}

impl LeftOut {
    fn note(&mut self, key: PodKey) {
        if self.some.len() < limits::API_LEFT_OUT {
            self.some.insert(key);
        } else {
            self.more |= !self.some.contains(&key);
        }
    }

    fn forget(&mut self, key: &PodKey) {
        self.some.remove(key);
    }

    /// Whether this pod may be among them.
    fn has(&self, key: &PodKey) -> bool {
        self.more || self.some.contains(key)
    }

    fn is_empty(&self) -> bool {
        self.some.is_empty() && !self.more
    }

    /// Paths whose running pods are left alone.
    pub(super) fn paths(&self, server: &str) -> Vec<String> {
        let some = self.some.iter().map(|key| decode::path_of(server, key));
        let all = self.more.then(|| format!("{server}/api/v1/namespaces/"));
        some.chain(all).collect()
    }

    /// The problem for the operator.
    pub(super) fn problem(&self, server: &str) -> Option<Problem> {
        if self.is_empty() {
            return None;
        }
        let count = self.some.len();
        let count = if self.more { format!("more than {count}") } else { count.to_string() };
        let first = self.some.first().map(|key| format!(", {key} first")).unwrap_or_default();
        Some(Problem {
            severity: Severity::Error,
            path: server.to_owned(),
            at: None,
            pod: None,
            field: None,
            message: format!(
                "{}; left out: {count}{first}. What runs of them is left alone, and they come when others have gone",
                checks::no_room()
            ),
        })
    }
}

/// Times of a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) begun: Mono,
    /// A server that has not ended it by then has forgotten it.
    pub(super) end: Mono,
    /// For the rest of its first part.
    pub(super) patience: Duration,
}

impl Actor {
    /// Reads a watch to its end, and sends what it tells. Returns how long to wait then. `unsent`: since when there is
    /// something that was heard and not sent.
    pub(super) fn follow(
        &mut self,
        watch: &mut Watch,
        first: &mut Option<Fresh>,
        unsent: &mut Option<Mono>,
        bounds: Bounds,
    ) -> Result<Duration, Fault> {
        let mut events = 0_u64;
        let outcome = self.follow_on(watch, first, unsent, bounds, &mut events);
        let is_early = |now: Mono| events == 0 && now.since(bounds.begun) < limits::API_WATCH_SHORT;
        // What a server tells wrongly again and again is asked for more and more rarely.
        let is_well = matches!(outcome, Ok(_) | Err(Fault::Failed(ApiError::Unreachable(_))));
        if is_well && first.is_none() && !is_early(self.now()) {
            self.reflector.worked();
        }
        match outcome {
            Ok(Some(wait)) => Ok(wait),
            Ok(None) => {
                let (now, luck) = (self.now(), self.luck.draw());
                Ok(self.reflector.ended(is_early(now), now, luck))
            }
            // Balancers close what is silent: a watch that has worked is begun again as if it had ended.
            Err(Fault::Failed(ApiError::Unreachable(why))) if first.is_none() && !is_early(self.now()) => {
                log::debug!("a watch of the server's pods broke: {why}");
                let (now, luck) = (self.now(), self.luck.draw());
                Ok(self.reflector.ended(false, now, luck))
            }
            Err(fault) => Err(fault),
        }
    }

    /// Reads a watch; `None` at its regular end, and else how long to wait then.
    fn follow_on(
        &mut self,
        watch: &mut Watch,
        first: &mut Option<Fresh>,
        unsent: &mut Option<Mono>,
        bounds: Bounds,
        events: &mut u64,
    ) -> Result<Option<Duration>, Fault> {
        loop {
            let wait = match (&unsent, &first) {
                (Some(_), _) => limits::API_COALESCE,
                (None, Some(_)) => bounds.patience,
                (None, None) => self.pause(),
            };
            match watch.next(wait)? {
                Next::Event(event) => {
                    *events = events.saturating_add(1);
                    // A forced deletion is two events at once: what it asks for has to be seen before it is gone.
                    if unsent.is_some() && matches!(event.kind, Kind::Deleted) {
                        self.send_news()?;
                    }
                    if self.hear(event, first)? {
                        let now = self.now();
                        let since = *unsent.get_or_insert(now);
                        // Events that come one after the other without a pause are sent, too.
                        if now.since(since) > limits::API_COALESCE_MAX && self.settle(unsent, bounds.end)? {
                            return Ok(Some(Duration::ZERO));
                        }
                    }
                }
                Next::Quiet if first.is_some() => {
                    let why = "the server has begun to send its pods, and does not go on";
                    return Err(ApiError::Unreachable(why.to_owned()).into());
                }
                Next::Quiet => {
                    if self.settle(unsent, bounds.end)? {
                        return Ok(Some(Duration::ZERO));
                    }
                }
                Next::End => return Ok(None),
            }
        }
    }

    /// Does what is due within a watch. Returns whether all pods are to be asked for again.
    fn settle(&mut self, unsent: &mut Option<Mono>, end: Mono) -> Result<bool, Fault> {
        if unsent.take().is_some() {
            self.send_news()?;
        }
        self.sync()?;
        if self.due.relist.is_some_and(|due| due <= self.now()) {
            self.due.relist = None;
            self.reflector.anew();
            return Ok(true);
        }
        if self.now() > end {
            let why = "the server did not end a watch in time";
            return Err(ApiError::Unreachable(why.to_owned()).into());
        }
        Ok(false)
    }

    /// Applies an event; returns whether the set may have changed. `first` gathers the pods of the first part of a
    /// stream.
    pub(super) fn hear(&mut self, event: WatchEvent, first: &mut Option<Fresh>) -> Result<bool, Fault> {
        // The end of an empty stream of something else would stop every pod.
        if event.object.get("kind").and_then(Value::as_str) != Some("Pod") {
            return Err(ApiError::BadAnswer("what the server tells is no event of a pod".to_owned()).into());
        }
        match event.kind {
            Kind::Bookmark { is_initial_end: true } => {
                let Some(fresh) = first.take() else { return Ok(false) };
                self.replace(fresh, event.version())?;
                return Ok(false);
            }
            Kind::Bookmark { .. } => {}
            Kind::Added | Kind::Modified => {
                let (key, read) = self.read(&event.object)?;
                self.take(key, read, &mut first.as_mut());
            }
            Kind::Deleted => self.deleted(&event, first)?,
        }
        self.reflector.heard(event.version());
        Ok(first.is_none() && !matches!(event.kind, Kind::Bookmark { .. }))
    }

    fn deleted(&mut self, event: &WatchEvent, first: &mut Option<Fresh>) -> Result<(), Fault> {
        let (key, gone) = self.read(&event.object)?;
        let left_out = first.as_mut().map_or(&mut self.left_out, |fresh| &mut fresh.left_out);
        left_out.forget(&key);
        if !self.left_out.is_empty() {
            let due = self.now().after(limits::API_OBJECTS_EVERY);
            self.due.relist.get_or_insert(due);
        }
        let set = first.as_ref().map_or(&self.known, |fresh| &fresh.pods);
        let Some(last) = set.get(&key).filter(|last| last.pod.metadata.uid == gone.pod.metadata.uid) else {
            return Ok(());
        };
        if let Some(forced) = decode::forced(last, &gone).filter(|_| first.is_none()) {
            self.known.insert(key.clone(), forced);
            self.sync()?;
        }
        first.as_mut().map_or(&mut self.known, |fresh| &mut fresh.pods).remove(&key);
        Ok(())
    }

    pub(super) fn read(&self, value: &Value) -> Result<(PodKey, Read), ApiError> {
        let part = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key = PodKey { namespace: part("/metadata/namespace"), name: part("/metadata/name") };
        let read = decode::read(value, &self.parts.acceptor, &self.server, self.known.get(&key));
        // A set without this pod would not be complete.
        let read =
            read.ok_or_else(|| ApiError::BadAnswer("the server has a pod without a name".to_owned()))?;
        Ok((key, read))
    }

    /// Takes a pod, or a change of one, if there is room for it.
    pub(super) fn take(&mut self, key: PodKey, read: Read, first: &mut Option<&mut Fresh>) {
        let (known, none) = (&self.known, Table::new());
        let (set, rest) = match first {
            Some(fresh) => (&fresh.pods, known),
            None => (known, &none),
        };
        let of_uid = |before: &&Read| before.pod.metadata.uid == read.pod.metadata.uid;
        let before = set.get(&key).or_else(|| rest.get(&key)).filter(of_uid);
        let others = || set.iter().filter(|(other, _)| **other != key).map(|(_, read)| read);
        // Known pods come first. Counting some of them twice is quicker and mostly good enough.
        let and_more = || rest.iter().filter(|(other, _)| **other != key && !set.contains_key(*other));
        let fits = checks::fits(&read, before, others().chain(rest.values()))
            || checks::fits(&read, before, others().chain(and_more().map(|(_, read)| read)));
        let kept = match (fits, before) {
            (true, _) => Some(read),
            (false, Some(before)) => {
                let unread = Some(decode::wrong(&self.server, &key, "", checks::no_room()));
                Some(Read { unread, ..before.clone() })
            }
            (false, None) => None,
        };
        let (set, left_out) = match first {
            Some(fresh) => (&mut fresh.pods, &mut fresh.left_out),
            None => (&mut self.known, &mut self.left_out),
        };
        match kept {
            Some(read) => {
                left_out.forget(&key);
                set.insert(key, read);
            }
            None => {
                // It is another pod than the known one of the same name.
                set.remove(&key);
                left_out.note(key);
            }
        }
    }

    /// Takes over all pods of this version.
    pub(super) fn replace(&mut self, fresh: Fresh, version: &str) -> Result<(), Stopped> {
        self.hope_for_node();
        // Of data from before, as from a backup, no pod was removed on purpose.
        let is_later = self.reflector.is_later(version);
        self.reflector.complete(version);
        if is_later && self.mark_vanished(&fresh) {
            self.sync()?;
        }
        (self.known, self.left_out) = (fresh.pods, fresh.left_out);
        self.restored = None;
        self.sync()?;
        self.answered()
    }

    /// The server removes a pod that runs only when it is told to by force. Returns whether there is one of which no event
    /// has told.
    fn mark_vanished(&mut self, fresh: &Fresh) -> bool {
        let now = self.parts.clock.now().wall;
        let mut has_any = false;
        for (key, last) in &mut self.known {
            let uid = |read: &Read| read.pod.metadata.uid.clone();
            let is_there = fresh.pods.get(key).is_some_and(|read| uid(read) == uid(last));
            if is_there || fresh.left_out.has(key) {
                continue;
            }
            if let Some(vanished) = decode::vanished(last, now) {
                *last = vanished;
                has_any = true;
            }
        }
        has_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_are_left_out_are_told_and_counted() {
        let key = |n: usize| PodKey { namespace: "shop".to_owned(), name: format!("p{n:04}") };
        let mut left = LeftOut::default();
        assert_eq!((left.problem("s"), left.paths("s")), (None, Vec::new()));
        left.note(key(1));
        left.note(key(1));
        assert_eq!(left.paths("s"), ["s/api/v1/namespaces/shop/pods/p0001"]);
        let told = left.problem("s").unwrap().message;
        assert!(told.contains("at most 4000, of 24 MiB; left out: 1, shop/p0001 first"), "{told}");
        left.forget(&key(1));
        assert!(left.is_empty() && !left.has(&key(1)));
        (0..=limits::API_LEFT_OUT).for_each(|n| left.note(key(n)));
        assert_eq!(left.paths("s").last().unwrap(), "s/api/v1/namespaces/");
        assert!(left.problem("s").unwrap().message.contains("left out: more than 1000, shop/p0000 first"));
    }
}
