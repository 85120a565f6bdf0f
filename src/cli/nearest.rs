//! "Did you mean": the known word that is most like an unknown one. Pure.

/// The candidate that is most like `word`, if one is close enough; case is ignored.
pub(super) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.map(|c| (distance(word, c), c)).min()?;
    let length = near.1.len();
    (near.0 <= length.div_ceil(3).max(2) && near.0 < length).then_some(near.1)
}

/// Levenshtein distance over bytes; a word of more than 64 bytes is like no other.
fn distance(a: &str, b: &str) -> usize {
    if a.len() > 64 {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (y, cell) in b.bytes().zip(row.iter_mut().skip(1)) {
            let here = (corner + usize::from(!x.eq_ignore_ascii_case(&y))).min(left + 1).min(*cell + 1);
            corner = *cell;
            *cell = here;
            left = here;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_one_that_could_be_meant() {
        let near = |word: &str| nearest(word, ["run", "resume", "get", "describe"].into_iter());
        assert_eq!(near("rnu"), Some("run"));
        assert_eq!(near("discribe"), Some("describe"));
        assert_eq!(near("resmue"), Some("resume"));
        assert_eq!(near("kubeconfig"), None);
        assert_eq!(near("GET"), Some("get"));
        assert_eq!(near(""), None, "no word is like nothing");
        assert_eq!(near(&"run".repeat(30)), None);
        assert_eq!(nearest("run", std::iter::empty()), None);
    }

    #[test]
    fn a_distance_is_the_number_of_edits() {
        for (a, b, edits) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (edits, edits), "{a} {b}");
        }
    }
}
