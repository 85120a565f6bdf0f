//! How many bytes Docker's record of a container takes: on the disk as long as the container is there, and for the most
//! part in each list. A manifest is small beside it: Docker escapes, repeats what is run, and names each mount several times.
//!
//! Never here: what the image adds, whose configuration Docker copies.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::base::limits;
use crate::runtime::{CreateBody, labels};

/// Measures what Docker will record of this container of a source behind others, with the part of its image, bytes, and
/// notes it in its labels, so that a later daemon knows it, too.
///
/// # Errors
/// A container of such a source may not have so much of its own.
pub fn note(body: &mut CreateBody, of_image: usize) -> Result<(), String> {
    let recorded = recorded(body);
    if recorded > limits::RECORD_BEHIND {
        return Err(format!(
            "its environment, command, arguments and mounts take {recorded} bytes in Docker's record: a container of a \
             source behind others gets {}",
            limits::RECORD_BEHIND
        ));
    }
    body.labels.insert(labels::RECORDED.to_owned(), recorded.saturating_add(of_image).to_string());
    Ok(())
}

/// What was noted in these labels; `None` for containers of other sources.
#[must_use]
pub fn noted(labels: &BTreeMap<String, String>) -> Option<usize> {
    labels.get(labels::RECORDED)?.parse().ok()
}

/// Docker writes what is run once more as the path and its arguments, and each mount once more as what it became, three
/// times with its own names (`config.v2.json`).
fn recorded(body: &CreateBody) -> usize {
    let run = written(&body.entrypoint).saturating_add(written(&body.cmd));
    let mounts = written(&body.host_config.mounts).saturating_mul(3);
    written(body).saturating_add(run).saturating_add(mounts)
}

/// Bytes of this as JSON of Go, which escapes more than others do.
fn written(value: &impl Serialize) -> usize {
    // Strings and numbers under string keys always serialise.
    let text = serde_json::to_vec(value).unwrap_or_default();
    let mut escaped = false;
    let longer = |byte: &u8| {
        let follows = escaped;
        escaped = *byte == b'\\' && !follows;
        match byte {
            b'<' | b'>' | b'&' => 5,
            b'b' | b'f' if follows => 4,
            // Of the two separators of lines that Go escapes, and of others like them.
            0xe2 => 3,
            _ => 0,
        }
    };
    text.len().saturating_add(text.iter().map(longer).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Mount;

    fn body(env: &str) -> CreateBody {
        CreateBody { env: vec![env.to_owned()], ..CreateBody::default() }
    }

    fn more(text: &str) -> usize {
        recorded(&body(text)) - recorded(&body(""))
    }

    #[test]
    fn docker_escapes_what_others_write_as_it_is() {
        // `printf '%s' '{"Env":["<"]}' | curl …/containers/create` leaves `\u003c` in config.v2.json.
        let cases = [("abc", 3), ("<", 6), (">&", 12), ("\"", 2), ("\\", 2), ("\\b", 3), ("\u{8}", 6)];
        for (text, expected) in cases {
            assert_eq!(more(text), expected, "{text:?}");
        }
        assert_eq!(more("\n\t"), 4);
        assert_eq!(more("\u{1}"), 6);
        assert_eq!(more("\u{2028}"), 6);
    }

    #[test]
    fn what_is_run_counts_twice_and_mounts_four_times() {
        let empty = CreateBody { cmd: Some(vec![String::new()]), ..CreateBody::default() };
        let run = CreateBody { cmd: Some(vec!["\"".to_owned()]), ..CreateBody::default() };
        assert_eq!(recorded(&run) - recorded(&empty), 4);
        let mounts = |target: &str| {
            let mut body = CreateBody::default();
            body.host_config.mounts = vec![Mount::bind("/s".to_owned(), target.to_owned())];
            recorded(&body)
        };
        assert_eq!(mounts("/<") - mounts("/"), 24);
    }

    #[test]
    fn what_is_too_much_is_refused_and_what_is_not_is_in_the_labels() {
        let mut small = body("A=1");
        let counted = recorded(&small);
        assert_eq!(noted(&small.labels), None);
        assert_eq!(note(&mut small, 7), Ok(()));
        assert_eq!(noted(&small.labels), Some(counted + 7));
        let mut large = body(&"<".repeat(limits::RECORD_BEHIND / 6 + 1));
        let why = note(&mut large, 0).unwrap_err();
        assert!(why.contains("bytes in Docker's record"), "{why}");
        assert!(large.labels.is_empty());
    }
}
