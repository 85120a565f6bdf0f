//! The answer to a list of containers or images, parsed as it arrives. Pure.
//!
//! Memory must stay bounded for any labels of images and manifests. A hundred pods with a quarter of a MiB
//! of annotations each make a list of more than a hundred MiB; of every entry only the fields and labels
//! that podkeeper reads are kept.

use super::http1::Malformed;
use super::reply;
use super::types::{ContainerSummary, ImageSummary, Reply};
use crate::base::limits;
use crate::runtime::labels;

/// The entries of a list.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    #[default]
    Containers,
    Images,
}

impl Listed {
    /// Fields of an entry that are read.
    fn fields(self) -> &'static [&'static str] {
        match self {
            Listed::Containers => &[
                "Id",
                "Names",
                "Image",
                "ImageID",
                "Labels",
                "State",
                "Status",
                "Created",
                "NetworkSettings",
            ],
            Listed::Images => &["Id", "ParentId", "RepoTags", "RepoDigests", "Size", "Created"],
        }
    }
}

/// Depth of the members of an entry, and of its labels: `[{…{`.
const ENTRY: usize = 2;
const LABELS: usize = 3;

/// Reads a list in pieces.
#[derive(Debug, Default)]
pub struct ListReader {
    what: Listed,
    found: Vec<ContainerSummary>,
    images: Vec<ImageSummary>,
    /// Kept bytes of the current entry; outside of the list, the bytes of an answer that is not a list.
    entry: Vec<u8>,
    /// Number of open brackets.
    depth: usize,
    text: Text,
    /// State of the entry's fields and of its labels.
    members: [Members; 2],
    /// Bytes are dropped until the next comma or end at this depth.
    dropping: Option<usize>,
    begun: bool,
    ended: bool,
    entries: usize,
    /// Bytes of the current entry that were read.
    length: usize,
}

/// The reader's position relative to a string.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// An object of which only some members are kept.
#[derive(Debug, Default)]
struct Members {
    open: bool,
    /// Start of the current member in the entry, with the comma before it.
    start: usize,
    /// Start of its name, after the quotation mark.
    name: Option<usize>,
    /// Its name is `Labels`.
    is_labels: bool,
    named: bool,
    kept: usize,
}

const TOO_LONG: Malformed = Malformed("an entry of the list is too long");
const NO_LIST: Malformed = Malformed("the answer is no list");

impl ListReader {
    /// A reader of a list of these entries.
    #[must_use]
    pub fn of(what: Listed) -> ListReader {
        ListReader { what, ..ListReader::default() }
    }

    /// Parses the next piece.
    ///
    /// # Errors
    /// The answer is not a list of JSON objects, or the kept part of one of them is longer than
    /// [`limits::LIST_ENTRY`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        bytes.iter().try_for_each(|byte| self.byte(*byte))
    }

    /// The list, after the last piece. `null` is an empty list; an entry without an id is left out and does not
    /// spoil the others.
    ///
    /// # Errors
    /// The list is incomplete, or the answer is not a list.
    pub fn reply(self) -> Result<Reply, Malformed> {
        let is_null = !self.begun && self.entry.trim_ascii() == b"null";
        if !self.ended && !is_null {
            return Err(NO_LIST);
        }
        Ok(match self.what {
            Listed::Containers => Reply::Containers(self.found),
            Listed::Images => Reply::Images(self.images),
        })
    }

    fn byte(&mut self, byte: u8) -> Result<(), Malformed> {
        self.length = self.length.saturating_add(1);
        match self.text {
            Text::Escaped => {
                self.text = Text::Inside;
                return self.keep(byte);
            }
            Text::Inside => {
                match byte {
                    b'\\' => self.text = Text::Escaped,
                    b'"' => {
                        self.text = Text::Outside;
                        self.string_ends();
                    }
                    _ => {}
                }
                return self.keep(byte);
            }
            Text::Outside => {}
        }
        if self.ended {
            return if byte.is_ascii_whitespace() { Ok(()) } else { Err(NO_LIST) };
        }
        match (self.depth, byte) {
            (0, b'[') if self.entry.trim_ascii().is_empty() => {
                self.begun = true;
                self.entry.clear();
                self.depth = 1;
                Ok(())
            }
            (0, _) => self.keep(byte),
            (1, b',') => self.entry_ends(),
            (1, b']') => {
                self.ended = true;
                self.entry_ends()
            }
            _ => self.inside(byte),
        }
    }

    fn inside(&mut self, byte: u8) -> Result<(), Malformed> {
        match byte {
            b'"' => {
                self.text = Text::Inside;
                self.string_begins()
            }
            b'{' | b'[' => {
                let is_labels = self.depth == ENTRY && self.members(ENTRY).is_some_and(|m| m.is_labels);
                self.member_begins()?;
                self.keep(byte)?;
                self.depth = self.depth.saturating_add(1);
                if byte == b'{' && (self.depth == ENTRY || (self.depth == LABELS && is_labels)) {
                    let start = self.entry.len();
                    if let Some(members) = self.slot(self.depth) {
                        *members = Members { open: true, start, ..Members::default() };
                    }
                }
                Ok(())
            }
            b'}' | b']' => {
                self.member_ends();
                if let Some(members) = self.members_mut() {
                    members.open = false;
                }
                self.depth = self.depth.saturating_sub(1);
                self.keep(byte)
            }
            // The comma is written again before the next member that is kept.
            b',' if self.members_mut().is_some() => {
                self.member_ends();
                Ok(())
            }
            _ if byte.is_ascii_whitespace() => Ok(()),
            _ => {
                self.member_begins()?;
                self.keep(byte)
            }
        }
    }

    fn string_begins(&mut self) -> Result<(), Malformed> {
        self.member_begins()?;
        self.keep(b'"')?;
        let at = self.entry.len();
        if let Some(members) = self.members_mut().filter(|m| !m.named && m.name.is_none()) {
            members.name = Some(at);
        }
        Ok(())
    }

    /// Called before the closing quotation mark is kept.
    fn string_ends(&mut self) {
        let depth = self.depth;
        let Some(members) = self.members(depth).filter(|m| !m.named) else { return };
        let Some(name) = members.name.and_then(|at| self.entry.get(at..)) else { return };
        let name = std::str::from_utf8(name).unwrap_or_default();
        let is_read = if depth == ENTRY { self.what.fields().contains(&name) } else { labels::is_read(name) };
        let is_labels = is_read && depth == ENTRY && name == "Labels";
        if let Some(members) = self.members_mut() {
            members.named = true;
            members.is_labels = is_labels;
        }
        if !is_read {
            self.dropping = Some(depth);
        }
    }

    /// Drops a long label name before its end: an image may have labels of any name, and podkeeper reads
    /// none of this length.
    fn drop_long_name(&mut self) {
        let (depth, length) = (self.depth, self.entry.len());
        let Some(members) = self.members_mut().filter(|m| !m.named) else { return };
        if members.name.is_some_and(|at| length.saturating_sub(at) > limits::LIST_NAME) {
            members.named = true;
            self.dropping = Some(depth);
        }
    }

    /// Writes the comma before a member that is not the first one kept.
    fn member_begins(&mut self) -> Result<(), Malformed> {
        let at = self.entry.len();
        let fresh = self.members(self.depth).is_some_and(|m| m.kept > 0 && m.start == at && m.name.is_none());
        if fresh { self.keep(b',') } else { Ok(()) }
    }

    fn member_ends(&mut self) {
        let dropped = self.dropping == Some(self.depth);
        let length = self.entry.len();
        let Some(members) = self.members_mut() else { return };
        let start = members.start;
        members.kept = members.kept.saturating_add(usize::from(!dropped && length > start));
        members.start = if dropped { start } else { length };
        members.name = None;
        members.named = false;
        members.is_labels = false;
        if dropped {
            self.entry.truncate(start);
            self.dropping = None;
        }
    }

    fn entry_ends(&mut self) -> Result<(), Malformed> {
        if !self.entry.trim_ascii().is_empty() {
            let value = serde_json::from_slice(&self.entry);
            let value = value.map_err(|_| Malformed("an entry of the list is not JSON"))?;
            match self.what {
                Listed::Containers => self.found.extend(reply::summary(value, self.length)),
                Listed::Images => self.images.extend(reply::image_summary(value)),
            }
            self.entries = self.entries.saturating_add(1);
        } else if !self.ended || self.entries > 0 {
            return Err(NO_LIST);
        }
        self.entry.clear();
        self.length = 0;
        self.members = Default::default();
        if self.entries > limits::LIST_CONTAINERS {
            return Err(Malformed("the list has too many entries"));
        }
        Ok(())
    }

    fn keep(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.dropping.is_some() {
            return Ok(());
        }
        self.drop_long_name();
        if self.dropping.is_some() {
            return Ok(());
        }
        if self.entry.len() >= limits::LIST_ENTRY {
            return Err(TOO_LONG);
        }
        self.entry.push(byte);
        Ok(())
    }

    fn slot(&mut self, depth: usize) -> Option<&mut Members> {
        self.members.get_mut(depth.checked_sub(ENTRY)?)
    }

    fn members(&self, depth: usize) -> Option<&Members> {
        self.members.get(depth.checked_sub(ENTRY)?).filter(|members| members.open)
    }

    fn members_mut(&mut self) -> Option<&mut Members> {
        self.slot(self.depth).filter(|members| members.open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(parts: &[&[u8]]) -> Result<Vec<ContainerSummary>, Malformed> {
        let mut reader = ListReader::default();
        parts.iter().try_for_each(|part| reader.feed(part))?;
        end(reader)
    }

    fn end(reader: ListReader) -> Result<Vec<ContainerSummary>, Malformed> {
        reader.reply().map(|reply| reply.containers().unwrap())
    }

    /// The labels of one image, of 70 MB, kept unused images on the node: no list of images was read.
    #[test]
    fn of_images_labels_of_any_length_are_not_held() {
        let mut reader = ListReader::of(Listed::Images);
        reader.feed(br#"[{"Id":"sha256:1","Labels":{"big":""#).unwrap();
        for _ in 0..limits::LIST_ENTRY / 4096 + 1 {
            reader.feed(&[b'x'; 4096]).unwrap();
        }
        reader
            .feed(br#""},"RepoTags":["a:1"],"RepoDigests":null,"Size":7,"Created":3},{"Id":"sha256:2"},{}]"#)
            .unwrap();
        let kept = reader.entry.capacity();
        assert!(kept < 64 * 1024, "{kept}");
        let images = reader.reply().and_then(|reply| reply.images().map_err(|_| NO_LIST)).unwrap();
        let first = ImageSummary {
            id: "sha256:1".into(),
            tags: vec!["a:1".into()],
            size: 7,
            created: 3,
            ..ImageSummary::default()
        };
        let second = ImageSummary { id: "sha256:2".into(), ..ImageSummary::default() };
        assert_eq!(images, [first, second]);
    }

    fn entry(id: &str, labels: Value) -> Value {
        json!({
            "Id": id, "Names": ["/k8s_a"], "Image": "x:1", "ImageID": "sha256:1", "Command": "sh -c \"}],\"",
            "Created": 7, "Ports": [{"PrivatePort": 1}], "Labels": labels, "State": "running",
            "Status": "Up 5 minutes", "HostConfig": {"NetworkMode": "x", "Labels": {"a": 1}},
            "NetworkSettings": {"Networks": {"bridge": {"Links": null}}}, "Mounts": [],
        })
    }

    /// The result does not depend on how the answer is cut in pieces, or on fields that are not read.
    #[test]
    fn a_list_in_pieces() {
        let list = json!([
            entry("a", json!({"z": "\\\"}", labels::POD_NAME: "web \"{[\\", "a": "b"})),
            entry("b", json!({})),
            entry("c", Value::Null),
            {"Labels": {"x": "y"}},
            7,
            entry("d", json!({labels::POD_UID: "u", labels::KIND: "k"})),
        ]);
        // With spaces, which are most of the text, not at every byte.
        for (text, step) in [(list.to_string(), 1), (serde_json::to_string_pretty(&list).unwrap(), 7)] {
            let bytes = text.as_bytes();
            let whole = read(&[bytes]).unwrap();
            let seen: Vec<(&str, usize)> = whole.iter().map(|c| (c.id.as_str(), c.labels.len())).collect();
            assert_eq!(seen, [("a", 1), ("b", 0), ("c", 0), ("d", 2)]);
            assert_eq!(whole[0].labels[labels::POD_NAME], "web \"{[\\");
            assert_eq!((whole[0].name.as_str(), whole[0].created), ("k8s_a", 7));
            assert_eq!((whole[3].status.as_str(), whole[3].image_id.as_str()), ("Up 5 minutes", "sha256:1"));
            for at in (0..bytes.len()).step_by(step) {
                assert_eq!(read(&[&bytes[..at], &bytes[at..]]).as_ref(), Ok(&whole), "cut at {at}");
                assert!(read(&[&bytes[..at]]).is_err(), "ends at {at}");
            }
        }
    }

    #[test]
    fn lists_of_nothing() {
        for text in ["[]", " [ ]\n", "null", " null\n"] {
            assert_eq!(read(&[text.as_bytes()]), Ok(vec![]), "{text}");
        }
        for text in
            ["", "{}", "[}", "[1,]", "[,1]", "[]x", "[]]", "nul", "\"x\"", "[{\"a\"}]", "<html>", "x[]"]
        {
            // A field that is not read is not parsed, so a mistake in it may be accepted.
            assert!(read(&[text.as_bytes()]).is_err() || text == "[{\"a\"}]", "{text}");
        }
        assert!(read(&[br#"[{"Id":}]"#]).is_err());
        assert!(read(&[br#"[{"Id":"a"]"#]).is_err());
    }

    /// Labels that podkeeper does not read may be of any length and number.
    #[test]
    fn what_is_not_read_is_not_held() {
        let mut reader = ListReader::default();
        reader.feed(br#"[{"Id":"a","Command":""#).unwrap();
        let mut most = 0;
        let mut feed = |reader: &mut ListReader, bytes: &[u8], times: usize| {
            for _ in 0..times {
                reader.feed(bytes).unwrap();
                most = most.max(reader.entry.capacity());
            }
        };
        feed(&mut reader, &[b'<'; 4096], 100);
        feed(&mut reader, br#"","Labels":{"annotation.x":""#, 1);
        feed(&mut reader, br"\u003c", 100_000);
        feed(&mut reader, br#"","#, 1);
        feed(&mut reader, br#""label-of-an-image":"x","#, 100_000);
        feed(&mut reader, b"\"", 1);
        feed(&mut reader, &[b'n'; 4096], 2 * limits::LIST_ENTRY / 4096);
        feed(&mut reader, br#"":"x","#, 1);
        feed(&mut reader, br#""io.kubernetes.pod.name":"web"}}]"#, 1);
        let found = end(reader).unwrap();
        assert_eq!(found[0].labels, [(labels::POD_NAME.to_owned(), "web".to_owned())].into());
        assert!(most < 64 * 1024, "{most}");
    }

    /// Otherwise a name that is read would count as too long.
    #[test]
    fn every_name_that_is_read_is_short_enough() {
        let fields = [Listed::Containers, Listed::Images].into_iter().flat_map(Listed::fields);
        assert!(fields.chain(labels::OURS).all(|name| name.len() <= limits::LIST_NAME));
    }

    #[test]
    fn what_is_read_has_a_bound() {
        let mut reader = ListReader::default();
        reader.feed(br#"[{"Id":""#).unwrap();
        let mut fed = Ok(());
        for _ in 0..=limits::LIST_ENTRY / 4096 {
            fed = fed.and_then(|()| reader.feed(&[b'x'; 4096]));
        }
        assert_eq!(fed, Err(TOO_LONG));
    }
}
