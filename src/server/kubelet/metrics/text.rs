//! The text format of Prometheus, version 0.0.4. Pure.

use std::fmt::Write as _;

use crate::server::http::answer::Answer;

/// A page of metrics, family by family.
#[derive(Debug, Default)]
pub struct Page(String);

/// The kind of a family.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// May fall.
    Gauge,
}

/// One family of a page: no other line stands between its samples.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Page,
    name: &'a str,
}

impl Page {
    /// Starts a family; `help` is one line.
    pub fn family<'a>(&'a mut self, name: &'a str, kind: Kind, help: &str) -> Family<'a> {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        Family { page: self, name }
    }

    /// The page as an answer.
    #[must_use]
    pub fn answer(self) -> Answer {
        Answer::new(200, "text/plain; version=0.0.4; charset=utf-8", self.0)
    }
}

impl Family<'_> {
    /// Adds a sample; `at` is its time in milliseconds of wall time, for pages with times. A value that is no number is
    /// left out.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64, at: Option<i64>) {
        if !value.is_finite() {
            return;
        }
        let text = &mut self.page.0;
        text.push_str(self.name);
        for (number, (label, value)) in labels.iter().enumerate() {
            text.push(if number == 0 { '{' } else { ',' });
            let _ = write!(text, "{label}=\"");
            for c in value.chars() {
                match c {
                    '\\' => text.push_str("\\\\"),
                    '"' => text.push_str("\\\""),
                    '\n' => text.push_str("\\n"),
                    c => text.push(c),
                }
            }
            text.push('"');
        }
        if !labels.is_empty() {
            text.push('}');
        }
        let _ = write!(text, " {value}");
        if let Some(at) = at {
            let _ = write!(text, " {at}");
        }
        text.push('\n');
    }
}

/// A count as a value: exact up to 2^53, as always in Prometheus.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "the format has no other numbers")]
pub fn float(value: u64) -> f64 {
    value as f64
}

/// Nanoseconds as seconds.
#[must_use]
pub fn seconds(nanoseconds: u64) -> f64 {
    float(nanoseconds) / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut page = Page::default();
        let mut family = page.family("a_total", Kind::Counter, "What it is.");
        family.sample(&[], 1.5, None);
        family.sample(&[("x", "none")], f64::NAN, None);
        family.sample(&[("x", "a\"b\\c\nd"), ("y", "")], float(1 << 40), Some(7));
        let text = String::from_utf8(page.answer().body).unwrap();
        let expected = "# HELP a_total What it is.\n# TYPE a_total counter\na_total 1.5\n\
                        a_total{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 1099511627776 7\n";
        assert_eq!(text, expected);
    }
}
