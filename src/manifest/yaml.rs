//! Parses YAML text into one [`Node`] tree per document. JSON is YAML, and is parsed in the same way, except that a
//! number with a point or an exponent is no integer there.
//!
//! The parser returns events; this module builds trees from them, because no existing reader has all three
//! of: a place for every field, kubectl's meaning of plain scalars, and bounds on depth, documents and the
//! expansion of aliases. Duplicate keys are refused. Never here: Kubernetes types.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::path::{quoted, shorten};
use super::scalar;
use super::tree::{Data, Entry, Node, Place};
use crate::base::limits;
use crate::base::order;

/// Why a text is not YAML (or not YAML that podkeeper reads), and where.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SyntaxError {
    /// The place, when known.
    pub at: Option<Place>,
    /// The problem.
    pub message: String,
}

type Result<T> = std::result::Result<T, SyntaxError>;

fn syntax_error<T>(at: Place, message: impl Into<String>) -> Result<T> {
    Err(SyntaxError { at: Some(at), message: message.into() })
}

/// Checks size and characters. A byte order mark is dropped.
pub(crate) fn text(bytes: &[u8]) -> Result<&str> {
    if bytes.len() > limits::MANIFEST_BYTES {
        let message =
            format!("the file has {} bytes; at most {} are read", bytes.len(), limits::MANIFEST_BYTES);
        return Err(SyntaxError { at: None, message });
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(e) => {
            let good = bytes.get(..e.valid_up_to()).unwrap_or_default();
            let utf16 = matches!(bytes.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff]));
            let message = if utf16 { "the file is UTF-16; it must be UTF-8" } else { "not valid UTF-8" };
            return syntax_error(place_after(&String::from_utf8_lossy(good)), message);
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let control =
        |c: char| (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{85}')) || c == '\u{feff}';
    if let Some((index, c)) = text.char_indices().find(|(_, c)| control(*c)) {
        let what =
            if c == '\0' { "a NUL byte".to_owned() } else { format!("the character U+{:04X}", u32::from(c)) };
        let before = text.get(..index).unwrap_or_default();
        return syntax_error(place_after(before), format!("{what} may not stand in YAML"));
    }
    Ok(text)
}

fn too_deep() -> String {
    format!("nested deeper than {} levels", limits::MANIFEST_DEPTH)
}

fn place_after(text: &str) -> Place {
    let line = text.bytes().filter(|b| *b == b'\n').count().saturating_add(1);
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count().saturating_add(1);
    (count(line), count(column))
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// All documents of a text, without empty ones.
pub(crate) fn documents(text: &str) -> Result<Vec<Node>> {
    let mut composer = Composer {
        parser: Parser::new_from_str(text),
        // As upstream (`hasJSONPrefix`).
        is_json: text.trim_start().starts_with('{'),
        text,
        anchors: HashMap::new(),
        nodes: limits::MANIFEST_NODES,
        scalars: limits::MANIFEST_SCALARS,
    };
    let mut documents = Vec::new();
    loop {
        let (event, span) = composer.next()?;
        match event {
            Event::StreamEnd => return Ok(documents),
            Event::DocumentStart(..) => {
                composer.anchors.clear();
                let node = composer.node(0)?;
                if node.is_null() {
                    continue;
                }
                if documents.len() >= limits::MANIFEST_DOCUMENTS {
                    let most = limits::MANIFEST_DOCUMENTS;
                    return syntax_error(node.at, format!("more than {most} documents in one file"));
                }
                documents.push(node);
            }
            Event::StreamStart | Event::DocumentEnd => {}
            _ => return syntax_error(place(&span), "unexpected YAML content"),
        }
    }
}

fn place(span: &Span) -> Place {
    (count(span.start.line()), count(span.start.col()).saturating_add(1))
}

struct Composer<'t> {
    parser: Parser<'t, StrInput<'t>>,
    text: &'t str,
    is_json: bool,
    anchors: HashMap<usize, Node>,
    /// Number of nodes that may still be created.
    nodes: usize,
    /// Number of scalar bytes that may still be created.
    scalars: usize,
}

impl<'t> Composer<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Span)> {
        match self.parser.next() {
            Some(Ok(next)) => Ok(next),
            Some(Err(e)) => {
                let at = (count(e.marker().line()), count(e.marker().col()).saturating_add(1));
                syntax_error(at, self.explain(at.0, &e.info()))
            }
            // The parser ends with StreamEnd; this handles one that does not.
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    /// The parser's message, with its most common cause.
    fn explain(&self, line: u32, info: &str) -> String {
        // The parser has its own bound for nesting.
        if info == "recursion limit exceeded" {
            return too_deep();
        }
        let info = shorten(info);
        let line = usize::try_from(line).unwrap_or_default();
        let tab = |text: &str| text.trim_start_matches(' ').starts_with('\t');
        // The parser may report it on the next line.
        let near = self.text.lines().skip(line.saturating_sub(2)).take(2);
        if near.into_iter().any(tab) {
            return format!("{info} (a tab indents a line here; YAML takes only spaces)");
        }
        info
    }

    fn spend(&mut self, at: Place, nodes: usize, scalars: usize) -> Result<()> {
        match (self.nodes.checked_sub(nodes), self.scalars.checked_sub(scalars)) {
            (Some(nodes), Some(scalars)) => {
                self.nodes = nodes;
                self.scalars = scalars;
                Ok(())
            }
            _ => syntax_error(at, "too much data in one file, counting what aliases stand for"),
        }
    }

    fn node(&mut self, depth: usize) -> Result<Node> {
        let (event, span) = self.next()?;
        self.node_of(event, &span, depth)
    }

    fn node_of(&mut self, event: Event<'t>, span: &Span, depth: usize) -> Result<Node> {
        let at = place(span);
        if depth > limits::MANIFEST_DEPTH {
            return syntax_error(at, too_deep());
        }
        self.spend(at, 1, 0)?;
        let inner = depth.saturating_add(1);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.spend(at, 0, text.len())?;
                let data = scalar_data(at, &text, style, tag.as_deref())?;
                let data = if self.is_json { scalar::of_json(&text, data) } else { data };
                self.anchored(anchor, Node { at, data })
            }
            Event::Alias(id) => {
                let Some((nodes, scalars, deep)) = self.anchors.get(&id).map(measure) else {
                    return syntax_error(at, "the alias stands inside what it stands for");
                };
                if depth.saturating_add(deep) > limits::MANIFEST_DEPTH {
                    return syntax_error(at, too_deep());
                }
                // Counted before the copy is made.
                self.spend(at, nodes, scalars)?;
                let data = self.anchors.get(&id).map_or(Data::Null, |node| node.data.clone());
                Ok(Node { at, data })
            }
            Event::SequenceStart(_, anchor, tag) => {
                container_tag(at, tag.as_deref(), "seq")?;
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if event == Event::SequenceEnd {
                        break;
                    }
                    items.push(self.node_of(event, &span, inner)?);
                }
                self.anchored(anchor, Node { at, data: Data::List(items) })
            }
            Event::MappingStart(_, anchor, tag) => {
                container_tag(at, tag.as_deref(), "map")?;
                let entries = self.entries(inner)?;
                self.anchored(anchor, Node { at, data: Data::Map(entries) })
            }
            _ => syntax_error(at, "a value is missing here"),
        }
    }

    fn entries(&mut self, depth: usize) -> Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merge = None;
        loop {
            let (event, span) = self.next()?;
            let at = place(&span);
            let key = match event {
                Event::MappingEnd => break,
                Event::Scalar(text, style, 0, None) => {
                    if text == "<<" && style == ScalarStyle::Plain {
                        if merge.replace(self.node(depth)?).is_some() {
                            return syntax_error(
                                at,
                                "the key `<<` is there twice; it takes a list of maps too",
                            );
                        }
                        continue;
                    }
                    text.into_owned()
                }
                Event::Scalar(text, _, _, Some(tag)) if core_tag(&tag) == Some("str") => text.into_owned(),
                Event::Scalar(_, _, 0, Some(_)) => {
                    return syntax_error(at, "a tag on a key is not supported");
                }
                Event::Scalar(..) | Event::Alias(_) => {
                    return syntax_error(at, "an anchor or alias as a key is not supported");
                }
                _ => return syntax_error(at, "a key must be a plain text, not a list or a map"),
            };
            self.spend(at, 0, key.len())?;
            let value = self.node(depth)?;
            entries.push(Entry { key, at, value });
        }
        refuse_duplicates(&entries)?;
        if let Some(from) = merge {
            merge_into(&mut entries, from)?;
        }
        Ok(entries)
    }

    /// Remembers a node that has an anchor. The copy counts, too: a chain of nested anchors is also a
    /// bomb.
    fn anchored(&mut self, anchor: usize, node: Node) -> Result<Node> {
        if anchor != 0 {
            let (nodes, scalars, _) = measure(&node);
            self.spend(node.at, nodes, scalars)?;
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }
}

/// `<<: *base`: missing keys come from the merged map; of several maps the first one is used.
fn merge_into(entries: &mut Vec<Entry>, from: Node) -> Result<()> {
    let at = from.at;
    let maps = match from.data {
        Data::List(list) => list,
        data => vec![Node { at, data }],
    };
    let mut known: HashSet<String> = entries.iter().map(|e| e.key.clone()).collect();
    for map in maps {
        let Data::Map(more) = map.data else {
            return syntax_error(map.at, "`<<` takes a map or a list of maps");
        };
        entries.extend(more.into_iter().filter(|e| known.insert(e.key.clone())));
    }
    Ok(())
}

/// Number of nodes, scalar bytes and depth of a tree.
fn measure(node: &Node) -> (usize, usize, usize) {
    let mut sum = (1_usize, 0_usize, 0_usize);
    let mut add = |(nodes, scalars, depth): (usize, usize, usize)| {
        sum.0 = sum.0.saturating_add(nodes);
        sum.1 = sum.1.saturating_add(scalars);
        sum.2 = sum.2.max(depth.saturating_add(1));
    };
    match &node.data {
        Data::String(text) => sum.1 = text.len(),
        Data::List(items) => items.iter().for_each(|n| add(measure(n))),
        Data::Map(entries) => entries.iter().for_each(|e| {
            let (nodes, scalars, depth) = measure(&e.value);
            add((nodes, scalars.saturating_add(e.key.len()), depth));
        }),
        Data::Null | Data::Bool(_) | Data::Number(_) => {}
    }
    sum
}

fn refuse_duplicates(entries: &[Entry]) -> Result<()> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    // The sort is stable: equal keys stay in the order they were written.
    order::sort_by(&mut sorted, |a, b| a.key.cmp(&b.key));
    let pairs = sorted.iter().zip(sorted.iter().skip(1)).filter(|(a, b)| a.key == b.key);
    match pairs.min_by_key(|(_, second)| second.at) {
        Some((first, second)) => {
            let message =
                format!("the key {} is there twice (first in line {})", quoted(&second.key), first.at.0);
            syntax_error(second.at, message)
        }
        None => Ok(()),
    }
}

fn core_tag(tag: &Tag) -> Option<&str> {
    if tag.handle() == "" && tag.suffix() == "!" { Some("str") } else { tag.core_suffix() }
}

fn scalar_data(at: Place, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Data> {
    let Some(tag) = tag else {
        return match style {
            ScalarStyle::Plain if scalar::is_not_finite(text) => syntax_error(
                at,
                "a number that is infinite or none at all; a text that looks so needs quotes",
            ),
            ScalarStyle::Plain => Ok(scalar::resolve(text)),
            _ => Ok(Data::String(text.to_owned())),
        };
    };
    let data = scalar::resolve(text);
    match (core_tag(tag), data) {
        (Some("str"), _) => Ok(Data::String(text.to_owned())),
        (Some("bool"), data @ Data::Bool(_))
        | (Some("null"), data @ Data::Null)
        | (Some("int" | "float"), data @ Data::Number(_)) => Ok(data),
        // Neither value nor tag is repeated: a password that begins with `!` is parsed as a tag.
        (Some(_), _) => syntax_error(at, "the value does not fit its tag"),
        (None, _) => syntax_error(at, "this tag is not supported; a text that begins with ! needs quotes"),
    }
}

fn container_tag(at: Place, tag: Option<&Tag>, own: &str) -> Result<()> {
    match tag {
        None => Ok(()),
        Some(tag) if core_tag(tag) == Some(own) => Ok(()),
        Some(_) => syntax_error(at, "this tag is not supported; a text that begins with ! needs quotes"),
    }
}
