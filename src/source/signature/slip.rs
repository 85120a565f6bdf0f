//! Finds misspelt words in a trusted comment: `nodes:edge-1` would bind the content to no node, and it would run
//! everywhere. Pure. Words that resemble no known word are free text.

/// The words with a meaning.
const OURS: [&str; 4] = ["node", "group", "version", "timestamp"];

/// The first misspelt word, up to its colon or `=`, with the known word that was probably meant.
pub(super) fn find(comment: &str) -> Option<(&str, &'static str)> {
    comment.split_whitespace().find_map(|word| {
        let (name, _) = word.split_once([':', '='])?;
        let head = word.get(..name.len().saturating_add(1))?;
        let meant = OURS.into_iter().find(|ours| is_like(&name.to_ascii_lowercase(), ours))?;
        (name != meant || !head.ends_with(':')).then_some((head, meant))
    })
}

/// Whether a name equals a known word or is one slip away: a letter too many or too few, two swapped letters, or in a
/// word of more than four letters a wrong one (`note:` and `code:` are words of their own).
fn is_like(name: &str, ours: &str) -> bool {
    let (name, ours): (Vec<char>, Vec<char>) = (name.chars().collect(), ours.chars().collect());
    let differ: Vec<usize> =
        name.iter().zip(&ours).enumerate().filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect();
    match (name.len().abs_diff(ours.len()), &*differ) {
        (0, []) => true,
        (0, [_]) => ours.len() > 4,
        (0, [first, second]) => {
            first.saturating_add(1) == *second
                && name.get(*first) == ours.get(*second)
                && name.get(*second) == ours.get(*first)
        }
        (1, _) if name.len() > ours.len() => is_without_one(&name, &ours),
        (1, _) => is_without_one(&ours, &name),
        _ => false,
    }
}

/// Whether the shorter word is the longer one without one of its letters.
fn is_without_one(longer: &[char], shorter: &[char]) -> bool {
    let same = longer.iter().zip(shorter).take_while(|(a, b)| a == b).count();
    longer.get(same.saturating_add(1)..) == shorter.get(same..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_to_be_one_of_our_words() {
        for (comment, expected) in [
            ("nodes:edge-1", Some(("nodes:", "node"))),
            ("version:3\tNode:edge-1", Some(("Node:", "node"))),
            ("nod:a", Some(("nod:", "node"))),
            ("ndoe:a", Some(("ndoe:", "node"))),
            ("node=a", Some(("node=", "node"))),
            ("nodes=a", Some(("nodes=", "node"))),
            ("groups:", Some(("groups:", "group"))),
            ("gruop:x", Some(("gruop:", "group"))),
            ("goup:x", Some(("goup:", "group"))),
            ("grouo:x", Some(("grouo:", "group"))),
            ("versions:9", Some(("versions:", "version"))),
            ("verison:9", Some(("verison:", "version"))),
            ("Version:9", Some(("Version:", "version"))),
            ("timestamps:1", Some(("timestamps:", "timestamp"))),
            // Words of minisign itself, and correct ones.
            ("", None),
            ("timestamp:1790000000\tfile:web.yaml\thashed", None),
            ("timestamp:1790000000\tfile:nodes:web.yaml\tprehashed", None),
            ("version:7 node:a,b group:c", None),
            // Free text.
            ("for nodes in the harbour, version 3", None),
            ("note:x mode:y code:z built-by:ci https://ci/?node=1 node-exporter:1.8", None),
            ("ver:1 :x =y no:1 nodegroup:x vérsion", None),
        ] {
            assert_eq!(find(comment), expected, "{comment}");
        }
    }
}
