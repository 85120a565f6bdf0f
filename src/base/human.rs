//! Numbers and times in sentences and tables for people. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::base::clock::Timestamp;

/// `1 pod`, `0 pods`, `2 pods`: for words with a regular plural.
#[must_use]
pub fn many(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// An age in kubectl's format (`HumanDuration` of apimachinery): `5s`, `3m20s`, `5h`, `2d3h`,
/// `1y12d`.
#[must_use]
pub fn duration(seconds: i64) -> String {
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let pair = |big: i64, unit: &str, small: i64, less: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{less}"),
    };
    match (minutes, hours) {
        (..2, _) => format!("{seconds}s"),
        (..10, _) => pair(minutes, "m", seconds % 60, "s"),
        (..180, _) => format!("{minutes}m"),
        (_, ..8) => pair(hours, "h", minutes % 60, "m"),
        (_, ..48) => format!("{hours}h"),
        (_, ..192) => pair(days, "d", hours % 24, "h"),
        _ if years < 2 => format!("{days}d"),
        _ if years < 8 => pair(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// Time since `then`; `<unknown>` when it is `None`.
#[must_use]
pub fn age(then: Option<&Time>, now: Timestamp) -> String {
    match then {
        None => "<unknown>".into(),
        Some(then) => duration(now.as_second().saturating_sub(then.0.as_second())),
    }
}

/// A time in Go's RFC1123Z format, in UTC: `Mon, 02 Jan 2006 15:04:05 +0000`.
#[must_use]
pub fn date(time: Option<&Time>) -> String {
    let Some(time) = time else { return "<unknown>".into() };
    time.0.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_one() {
        assert_eq!([0, 1, 2].map(|n| many(n, "pod")), ["0 pods", "1 pod", "2 pods"]);
    }

    #[test]
    fn ages_in_kubectls_words() {
        let check = |seconds: i64, expected: &str| assert_eq!(duration(seconds), expected, "{seconds}");
        check(-2, "<invalid>");
        check(-1, "0s");
        check(0, "0s");
        check(119, "119s");
        check(120, "2m");
        check(200, "3m20s");
        check(600, "10m");
        check(10_799, "179m");
        check(10_800, "3h");
        check(3 * 3600 + 60 * 5, "3h5m");
        check(8 * 3600, "8h");
        check(48 * 3600, "2d");
        check(49 * 3600, "2d1h");
        check(8 * 86_400, "8d");
        check(700 * 86_400, "700d");
        check(731 * 86_400, "2y1d");
        check(730 * 86_400, "2y");
        check(8 * 365 * 86_400, "8y");
        check(i64::MAX, "292471208677y");
    }

    #[test]
    fn dates_as_go_prints_them() {
        let time = Time("2026-01-02T03:04:05Z".parse().unwrap());
        assert_eq!(date(Some(&time)), "Fri, 02 Jan 2026 03:04:05 +0000");
        assert_eq!(date(None), "<unknown>");
        assert_eq!(age(None, time.0), "<unknown>");
        assert_eq!(age(Some(&time), time.0), "0s");
    }
}
