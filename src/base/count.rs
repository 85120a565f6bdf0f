//! Numbers of things in sentences. Pure.

/// `1 pod`, `0 pods`, `2 pods`: for words with a regular plural.
#[must_use]
pub fn many(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::many;

    #[test]
    fn one_thing_is_one() {
        assert_eq!([0, 1, 2].map(|n| many(n, "pod")), ["0 pods", "1 pod", "2 pods"]);
    }
}
